//! Logging and the metric registry.
