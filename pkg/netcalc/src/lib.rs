//! Pure calculation: services, endpoints and policies in, desired rule sets out.
