//! Putting archives into containerd, without its help of unpacking: blobs, then names, under a lease.

use std::collections::HashMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use containerd_client::Client;
use containerd_client::services::v1::{
    CreateImageRequest, CreateRequest as CreateLease, DeleteRequest as DeleteLease, GetImageRequest,
    Image as Stored, InfoRequest, UpdateImageRequest, WriteAction, WriteContentRequest,
};
use containerd_client::types::Descriptor;
use tonic::{Code, Request, Status};

use crate::archive::Image;
use crate::{Archive, Blob, ImageError};

/// containerd's namespace of the CRI.
const NAMESPACE: &str = "k8s.io";
/// Marks an image as one the CRI knows.
const MANAGED: (&str, &str) = ("io.cri-containerd.image", "managed");
/// Keeps the kubelet's image garbage collection away.
const PINNED: (&str, &str) = ("io.cri-containerd.pinned", "pinned");
/// On a blob: the blobs that it keeps alive. A number follows.
const REFERS: &str = "containerd.io/gc.ref.content";
/// A lease that outlives its importer ends by itself.
const EXPIRES: &str = "containerd.io/gc.expire";
/// How long an import may take, at the most.
const LEASE: std::time::Duration = std::time::Duration::from_secs(3600);
/// Bytes of a blob in one message; containerd's limit for a message is 16 MiB.
const CHUNK: usize = 1 << 20;

/// Imports archives into one containerd.
pub struct Importer {
    client: Client,
}

impl std::fmt::Debug for Importer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Importer").finish_non_exhaustive()
    }
}

impl Importer {
    /// Connects to the containerd behind `socket`.
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn connect(socket: &Path) -> Result<Self, ImageError> {
        let channel = containerd_client::connect(socket)
            .await
            .map_err(|source| ImageError::Connect { socket: socket.to_path_buf(), source })?;
        Ok(Self { client: Client::from(channel) })
    }

    /// Whether an image of this name is there.
    ///
    /// # Errors
    /// containerd cannot be asked.
    pub async fn is_present(&self, name: &str) -> Result<bool, ImageError> {
        match self.client.images().get(call(GetImageRequest { name: name.to_string() }, None)).await {
            Ok(_) => Ok(true),
            Err(status) if status.code() == Code::NotFound => Ok(false),
            Err(status) => Err(ImageError::containerd("look up image", name, status)),
        }
    }

    /// Imports those of `names` that are missing from the archives in `directory`; returns what was imported.
    ///
    /// # Errors
    /// No archive has one of the images, or containerd refuses.
    pub async fn ensure_present(&self, names: &[&str], directory: &Path) -> Result<Vec<String>, ImageError> {
        let mut missing = Vec::new();
        for name in names {
            if !self.is_present(name).await? {
                missing.push((*name).to_string());
            }
        }
        if missing.is_empty() {
            return Ok(missing);
        }
        let archives = archives_in(directory)?;
        for name in &missing {
            let holder = archives.iter().find(|archive| archive.names().any(|n| n == name));
            let no_archive =
                || ImageError::NoArchive { name: name.clone(), directory: directory.to_path_buf() };
            self.import(holder.ok_or_else(no_archive)?).await?;
        }
        Ok(missing)
    }

    /// Imports every image that the archives in `directory` hold and containerd lacks; returns what was imported.
    ///
    /// # Errors
    /// An archive cannot be read, or containerd refuses.
    pub async fn ensure_all(&self, directory: &Path) -> Result<Vec<String>, ImageError> {
        let archives = archives_in(directory)?;
        let names: Vec<&str> = archives.iter().flat_map(|archive| archive.names()).collect();
        self.ensure_present(&names, directory).await
    }

    /// Imports every image of `archive` and pins it; what is there already is named and pinned again.
    ///
    /// # Errors
    /// The archive cannot be read, or containerd refuses.
    pub async fn import(&self, archive: &Archive) -> Result<(), ImageError> {
        let lease = self.lease(archive.path()).await?;
        let mut result = Ok(());
        for image in archive.images() {
            result = self.import_image(archive, image, &lease).await;
            if result.is_err() {
                break;
            }
        }
        let request = DeleteLease { id: lease.clone(), sync: false };
        let released = self.client.leases().delete(call(request, None)).await;
        result?;
        released.map(|_| ()).map_err(|status| ImageError::containerd("release the lease", &lease, status))
    }

    /// A lease keeps the blobs alive until an image names them.
    async fn lease(&self, for_archive: &Path) -> Result<String, ImageError> {
        let stem = for_archive.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let now = copepod_sys::clock::now();
        let id = format!("copepod-import-{stem}-{}", now.as_nanosecond());
        let expires = now + LEASE;
        let labels = HashMap::from([(EXPIRES.to_string(), expires.to_string())]);
        let request = CreateLease { id: id.clone(), labels };
        match self.client.leases().create(call(request, None)).await {
            Ok(_) => Ok(id),
            Err(status) => Err(ImageError::containerd("make the lease", &id, status)),
        }
    }

    async fn import_image(&self, archive: &Archive, image: &Image, lease: &str) -> Result<(), ImageError> {
        for blob in image.layers.iter().chain([&image.config]) {
            self.write(archive, blob, HashMap::new(), lease).await?;
        }
        self.write(archive, &image.manifest, references(image), lease).await?;
        self.name(&image.name, image).await?;
        // The CRI looks images up by the digest of their configuration as well.
        self.name(&image.config.digest, image).await
    }

    async fn write(
        &self,
        archive: &Archive,
        blob: &Blob,
        labels: HashMap<String, String>,
        lease: &str,
    ) -> Result<(), ImageError> {
        let info = InfoRequest { digest: blob.digest.clone() };
        let refused = |status| ImageError::containerd("write", &blob.digest, status);
        // A blob that was left over keeps its labels only if it was written by us; then it has them already.
        if self.client.content().info(call(info, Some(lease))).await.is_ok() {
            return Ok(());
        }
        let messages = Messages::new(archive.read(blob)?, blob, labels);
        let answer = async {
            let mut answers = self
                .client
                .content()
                .write(call(futures::stream::iter(messages), Some(lease)))
                .await?
                .into_inner();
            while answers.message().await?.is_some() {}
            Ok::<(), Status>(())
        };
        match answer.await {
            Err(status) if status.code() != Code::AlreadyExists => Err(refused(status)),
            _ => Ok(()),
        }
    }

    async fn name(&self, name: &str, image: &Image) -> Result<(), ImageError> {
        let labels = [MANAGED, PINNED].map(|(key, value)| (key.to_string(), value.to_string()));
        let stored = Stored {
            name: name.to_string(),
            labels: HashMap::from(labels),
            target: Some(Descriptor {
                media_type: image.manifest.media_type.clone(),
                digest: image.manifest.digest.clone(),
                size: signed(image.manifest.size),
                annotations: HashMap::new(),
            }),
            created_at: None,
            updated_at: None,
        };
        let create = CreateImageRequest { image: Some(stored.clone()), source_date_epoch: None };
        let result = match self.client.images().create(call(create, None)).await {
            Err(status) if status.code() == Code::AlreadyExists => {
                let update =
                    UpdateImageRequest { image: Some(stored), update_mask: None, source_date_epoch: None };
                self.client.images().update(call(update, None)).await.map(|_| ())
            }
            other => other.map(|_| ()),
        };
        result.map_err(|status| ImageError::containerd("name the image", name, status))
    }
}

/// A blob as the messages of one write: chunks, then the commit. It is read as fast as containerd takes it.
struct Messages<R> {
    reader: R,
    blob: Blob,
    offset: u64,
    labels: Option<HashMap<String, String>>,
}

impl<R: Read> Messages<R> {
    fn new(reader: R, blob: &Blob, labels: HashMap<String, String>) -> Self {
        Self { reader, blob: blob.clone(), offset: 0, labels: Some(labels) }
    }

    fn message(&self, action: WriteAction, offset: u64) -> WriteContentRequest {
        WriteContentRequest {
            action: action.into(),
            r#ref: format!("copepod-{}", self.blob.digest),
            total: signed(self.blob.size),
            expected: self.blob.digest.clone(),
            offset: signed(offset),
            data: Vec::new(),
            labels: HashMap::new(),
        }
    }
}

impl<R: Read> Iterator for Messages<R> {
    type Item = WriteContentRequest;

    fn next(&mut self) -> Option<WriteContentRequest> {
        let mut data = Vec::with_capacity(CHUNK);
        let limit = u64::try_from(CHUNK).unwrap_or(u64::MAX);
        // A read error ends the data early; containerd then refuses the commit because of the size.
        let count = self.reader.by_ref().take(limit).read_to_end(&mut data).unwrap_or(0);
        if count > 0 {
            let message = self.message(WriteAction::Write, self.offset);
            self.offset += count as u64;
            return Some(WriteContentRequest { data, ..message });
        }
        let labels = self.labels.take()?;
        Some(WriteContentRequest { labels, ..self.message(WriteAction::Commit, self.offset) })
    }
}

fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

/// A request in the CRI's namespace, and under a lease where there is one.
fn call<T>(message: T, lease: Option<&str>) -> Request<T> {
    let mut request = Request::new(message);
    let metadata = request.metadata_mut();
    metadata.insert("containerd-namespace", NAMESPACE.parse().expect("it is plain ASCII"));
    if let Some(Ok(lease)) = lease.map(str::parse) {
        metadata.insert("containerd-lease", lease);
    }
    request
}

/// The labels by which a manifest keeps its configuration and layers alive.
fn references(image: &Image) -> HashMap<String, String> {
    let parts = std::iter::once(&image.config).chain(&image.layers);
    parts.enumerate().map(|(n, blob)| (format!("{REFERS}.{n}"), blob.digest.clone())).collect()
}

fn archives_in(directory: &Path) -> Result<Vec<Archive>, ImageError> {
    let read = |e| ImageError::file("read", directory, e);
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(read)? {
        let path = entry.map_err(read)?.path();
        if path.extension().is_some_and(|extension| extension == "tar") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.into_iter().map(Archive::open).collect()
}
