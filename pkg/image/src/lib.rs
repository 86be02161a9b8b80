//! OCI images: building archives, importing them into containerd, and keeping them there.
//!
//! [`Recipe`] describes an image, [`Recipe::build`] writes it as a tar archive that is an OCI layout and a docker archive
//! at once, so that `ctr images import`, `docker load` and our own importer all read it; [`write_archive`] puts several
//! images with their shared layers into one. The archive is a function of the recipe and the files named there: no time
//! stamp, owner or order of a directory listing enters it.
//!
//! [`Archive`] reads such files back, and with the feature `containerd` [`Importer`] puts their blobs
//! into containerd's content store, names the images and pins them, so that no garbage collection removes what the node
//! cannot fetch again. With the feature `registry`, [`Registry`] serves archives to those who would rather pull. Layers are not compressed: the bundle as a whole is, and an import then costs no unpacking twice.

mod archive;
mod error;
#[cfg(feature = "containerd")]
mod import;
mod layer;
mod recipe;
#[cfg(feature = "registry")]
mod registry;
mod write;

pub use archive::{Archive, Blob};
pub use error::ImageError;
#[cfg(feature = "containerd")]
pub use import::Importer;
pub use recipe::{Entry, Recipe};
#[cfg(feature = "registry")]
pub use registry::{Registry, Serving, mirror_hosts};
pub use write::{write_archive, write_layer};

/// Media types of what an image consists of.
pub(crate) mod media {
    pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    pub(crate) const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
    pub(crate) const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
    pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";
}
