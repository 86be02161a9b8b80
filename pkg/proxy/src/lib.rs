//! kube-proxy: watches services and endpoint slices and hands them to the dataplane.
