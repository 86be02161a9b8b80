//! An in-memory runtime for tests: enough of CRI that the kubelet's loops run unchanged.
