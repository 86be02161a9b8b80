//! Nodes in namespaces of their own, for tests and for `copepod try`.
