//! OCI images: building, importing and pinning them.
