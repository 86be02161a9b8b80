//! Schema tables and everything driven by them: defaults, strict decoding, patches, server-side apply, OpenAPI.
