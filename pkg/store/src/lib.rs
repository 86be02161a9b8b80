//! Revisioned object storage: the etcd backend and the watch cache in front of it.
