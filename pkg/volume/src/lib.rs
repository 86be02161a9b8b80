//! Volume plugins, the atomic writer and their mounts.
