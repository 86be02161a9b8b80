//! Keys, certificates and service-account tokens.
