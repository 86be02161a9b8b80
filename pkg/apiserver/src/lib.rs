//! The HTTP face of the registry: authentication, authorization, admission, discovery, watches.
