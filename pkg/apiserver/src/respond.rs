//! Answers: objects, Statuses and texts as HTTP responses.

use std::io::Write as _;

use bytes::{Bytes, BytesMut};
use copepod_api::ApiError;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::body::Body;
use crate::negotiate::{Accepted, Encoding, Target};
use crate::protobuf;

mod ordered;

/// Answers above this many bytes are compressed for clients that ask for it.
const GZIP_THRESHOLD: usize = 128 * 1024;

/// The identifying header of a streamed or whole JSON answer.
pub(crate) const JSON: &str = "application/json";

/// The type of plain texts.
pub(crate) const TEXT: &str = "text/plain; charset=utf-8";

/// A response of one media type.
pub(crate) fn with_type(code: u16, media_type: &str, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::whole(body));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if let Ok(value) = HeaderValue::from_str(media_type) {
        headers.insert(header::CONTENT_TYPE, value);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// A plain text.
pub(crate) fn text(code: u16, body: impl Into<String>) -> Response<Body> {
    let mut response = with_type(code, TEXT, body.into());
    response.headers_mut().insert("X-Content-Type-Options", HeaderValue::from_static("nosniff"));
    response
}

/// A JSON tree.
pub(crate) fn json(code: u16, value: &impl serde::Serialize) -> Response<Body> {
    match serde_json::to_vec(value) {
        Ok(bytes) => with_type(code, JSON, bytes),
        Err(error) => text(500, error.to_string()),
    }
}

/// A JSON tree for the eyes of people, whoever asks.
pub(crate) fn indented(code: u16, value: &impl serde::Serialize) -> Response<Body> {
    match serde_json::to_vec_pretty(value) {
        Ok(bytes) => with_type(code, JSON, bytes),
        Err(error) => text(500, error.to_string()),
    }
}

/// Ends a JSON text with the newline that Go's encoder writes.
pub(crate) fn line(bytes: Bytes) -> Bytes {
    if bytes.ends_with(b"\n") {
        return bytes;
    }
    // The only holder of the bytes need not copy them.
    let mut line = bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]));
    line.extend_from_slice(b"\n");
    line.freeze()
}

/// Object bytes (JSON) in the negotiated encoding. JSON that is not indented is a line.
pub(crate) fn object(code: u16, accepted: Accepted, bytes: Bytes) -> Response<Body> {
    match (accepted.encoding, accepted.pretty) {
        (Encoding::Json, false) => with_type(code, JSON, line(bytes)),
        (Encoding::Json, true) => match indent(&bytes) {
            Ok(pretty) => with_type(code, JSON, pretty),
            Err(error) => self::error(&ApiError::internal(error)),
        },
        (Encoding::Yaml, _) => match to_yaml(&bytes) {
            Ok(yaml) => with_type(code, Encoding::Yaml.media_type(), yaml),
            Err(error) => self::error(&ApiError::internal(error)),
        },
        (Encoding::Protobuf, _) => match protobuf::from_json(&bytes) {
            Ok(Some(message)) => with_type(code, protobuf::MEDIA_TYPE, message),
            // A kind without protobuf form; what it is written in is said in the answer's type.
            Ok(None) => with_type(code, JSON, line(bytes)),
            Err(error) => self::error(&error),
        },
    }
}

/// Indents without reordering: a tree of sorted maps would not keep the order of fields.
fn indent(bytes: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let value: ordered::Ordered = serde_json::from_slice(bytes)?;
    serde_json::to_vec_pretty(&value)
}

fn to_yaml(bytes: &[u8]) -> Result<String, String> {
    let value: Value = serde_json::from_slice(bytes).map_err(|e| e.to_string())?;
    Ok(copepod_schema::encode::yaml(&value))
}

/// An error as its Status, in JSON.
pub(crate) fn error(error: &ApiError) -> Response<Body> {
    error_in(error, Accepted { encoding: Encoding::Json, target: Target::Object, pretty: false })
}

/// An error as its Status, in the encoding of the answer that it takes the place of.
pub(crate) fn error_in(error: &ApiError, accepted: Accepted) -> Response<Body> {
    let status = serde_json::to_vec(error.status()).unwrap_or_default();
    let mut response = object(error.code(), accepted, status.into());
    if let Some(details) = error.status().details.as_ref().filter(|d| d.retry_after_seconds > 0) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(details.retry_after_seconds));
    }
    response
}

/// Adds `Warning` headers (RFC 7234 code 299), at most 4 KiB of them as upstream does.
pub(crate) fn add_warnings(response: &mut Response<Body>, warnings: Vec<String>) {
    let mut total = 0;
    for warning in warnings {
        let text: String = warning.chars().filter(|c| !c.is_control()).collect();
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        total += quoted.len();
        if total > 4096 {
            break;
        }
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
}

/// Compresses a large whole body when the client accepts gzip.
pub(crate) fn compress(response: &mut Response<Body>, accept_encoding: &str) {
    let wants =
        accept_encoding.split(',').any(|e| e.split(';').next().is_some_and(|name| name.trim() == "gzip"));
    let Body::Whole(Some(bytes)) = response.body() else { return };
    if !wants || bytes.len() < GZIP_THRESHOLD || response.headers().contains_key(header::CONTENT_ENCODING) {
        return;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    if encoder.write_all(bytes).is_err() {
        return;
    }
    let Ok(packed) = encoder.finish() else { return };
    *response.body_mut() = Body::whole(packed);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pretty_json_keeps_the_order() {
        let pretty =
            indent(br#"{"kind":"Pod","apiVersion":"v1","a":[],"n":1.5,"big":9007199254740993}"#).unwrap();
        let text = String::from_utf8(pretty).unwrap();
        assert_eq!(text.lines().nth(1), Some("  \"kind\": \"Pod\","));
        assert!(text.contains("9007199254740993"));
    }

    #[test]
    fn large_answers_are_compressed_on_request() {
        let mut response = with_type(200, JSON, vec![b' '; GZIP_THRESHOLD]);
        compress(&mut response, "br, gzip;q=0.5");
        assert_eq!(response.headers()[header::CONTENT_ENCODING], "gzip");
        let mut plain = with_type(200, JSON, vec![b' '; GZIP_THRESHOLD]);
        compress(&mut plain, "");
        assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
    }

    #[test]
    fn warnings_are_quoted() {
        let mut response = text(200, "ok");
        add_warnings(&mut response, vec!["unknown field \"spec.x\"".to_owned()]);
        assert_eq!(response.headers()[header::WARNING], "299 - \"unknown field \\\"spec.x\\\"\"");
    }
}
