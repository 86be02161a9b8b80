//! The node agent: sources, pod workers, probes, status and the server on :10250.
