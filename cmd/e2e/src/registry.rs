//! A small image registry for tests: one image of the bundle, behind a user name and a password.
//!
//! It speaks as much of the OCI distribution API as a pull needs, over plain HTTP, one request a connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use copepod_testkit::{Cluster, Side};
use libtest_mimic::Failed;

/// Set for the copy of the test program that is the registry.
const ROLE: &str = "COPEPOD_E2E_REGISTRY";
/// What a client must say: user `puller`, password `s3cret`.
const CREDENTIALS: &str = "Basic cHVsbGVyOnMzY3JldA==";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A running registry in the neighbour's namespace; it ends with this value.
#[derive(Debug)]
pub struct Registry {
    child: Child,
    folder: PathBuf,
}

impl Drop for Registry {
    fn drop(&mut self) {
        // Both are best effort: the node that they belong to goes away as well.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

impl Registry {
    /// Serves the bundle's busybox at `address` in the neighbour's namespace.
    pub fn start(cluster: &Cluster, address: &str) -> Result<Self, Failed> {
        let folder = std::env::temp_dir().join(format!("copepod-registry-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let archive = cluster.bundle().join("images/busybox.tar");
        let unpacked =
            copepod_sys::command("tar").arg("-xf").arg(&archive).arg("-C").arg(&folder).status()?;
        if !unpacked.success() {
            return Err(Failed::from(format!("unpack {}: {unpacked}", archive.display())));
        }
        let mut command = cluster.node.command(Side::Lan, std::env::current_exe()?);
        command.env(ROLE, format!("{address} {}", folder.display())).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().ok_or("the registry has no output")?;
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let registry = Self { child, folder };
        if line.trim() == "listening" { Ok(registry) } else { Err(Failed::from(format!("registry: {line}"))) }
    }
}

/// Becomes the registry when this process was started as one; otherwise returns at once.
pub fn dispatch() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let (address, folder) = role.split_once(' ').expect("the starter gives both");
    let listener = TcpListener::bind(address).expect("the address is free");
    println!("listening");
    for stream in listener.incoming().flatten() {
        if let Err(error) = answer(stream, Path::new(folder)) {
            eprintln!("registry: {error}");
        }
    }
}

fn answer(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut first = String::new();
    reader.read_line(&mut first)?;
    let mut authorized = false;
    for line in reader.lines() {
        let line = line?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').unwrap_or((&line, ""));
        authorized |= name.eq_ignore_ascii_case("authorization") && value.trim() == CREDENTIALS;
    }
    let mut words = first.split(' ');
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if !authorized {
        let head = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"test\"\r\nContent-Length: 0\r\n\
                    Connection: close\r\n\r\n";
        return stream.write_all(head.as_bytes());
    }
    match find(folder, path) {
        Some((kind, file)) => {
            let mut data = Vec::new();
            std::fs::File::open(&file)?.read_to_end(&mut data)?;
            let digest = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            write!(
                stream,
                "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\
                 Docker-Content-Digest: sha256:{digest}\r\nConnection: close\r\n\r\n",
                data.len()
            )?;
            if method == "HEAD" { Ok(()) } else { stream.write_all(&data) }
        }
        None => stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"),
    }
}

/// The media type and file of a path below `/v2/`.
fn find(folder: &Path, path: &str) -> Option<(&'static str, PathBuf)> {
    let (rest, reference) = path.rsplit_once('/')?;
    let kind = if rest.ends_with("/manifests") { MANIFEST } else { "application/octet-stream" };
    let digest = match reference.strip_prefix("sha256:") {
        Some(digest) => digest.to_owned(),
        None if kind == MANIFEST => {
            let index = std::fs::read(folder.join("index.json")).ok()?;
            let index: serde_json::Value = serde_json::from_slice(&index).ok()?;
            index["manifests"][0]["digest"].as_str()?.strip_prefix("sha256:")?.to_owned()
        }
        None => return None,
    };
    let plain = digest.len() == 64 && digest.bytes().all(|b| b.is_ascii_hexdigit());
    let file = folder.join("blobs/sha256").join(digest);
    (plain && file.exists()).then_some((kind, file))
}
