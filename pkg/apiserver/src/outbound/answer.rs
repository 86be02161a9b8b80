//! What an answer says: its JSON, or the error that upstream's client makes of it.

use copepod_api::field::quote;
use serde_json::Value;

/// How much of an unexpected answer is quoted.
const QUOTED: usize = 2048;

/// The JSON of a good answer; the text of an error for any other.
pub(super) fn json(status: u16, content_type: &str, body: &[u8]) -> Result<Value, String> {
    if (200..=206).contains(&status) {
        if body.is_empty() {
            return Err(format!(
                "0-length response with status code: {status} and content type: {content_type}"
            ));
        }
        return serde_json::from_slice(body)
            .map_err(|e| format!("couldn't get version/kind; json parse error: {e}"));
    }
    let said = body.get(..QUOTED).unwrap_or(body);
    let textual = content_type.is_empty() || content_type.starts_with("text/");
    let said = if textual { String::from_utf8_lossy(said).trim().to_owned() } else { "unknown".to_owned() };
    // A Status tells more than the code, where the code is a server's failure.
    let parsed: Option<Value> = (status >= 500).then(|| serde_json::from_slice(body).ok()).flatten();
    let own = parsed.as_ref().filter(|v| v["kind"] == "Status").and_then(|v| v["message"].as_str());
    Err(own.filter(|message| !message.is_empty()).map_or_else(|| generic(status, &said), str::to_owned))
}

/// The text for an answer that is no Status.
fn generic(status: u16, said: &str) -> String {
    let text = match status {
        400 => "the server rejected our request for an unknown reason",
        401 => "the server has asked for the client to provide credentials",
        403 | 415 => said,
        404 => "the server could not find the requested resource",
        405 => "the server does not allow this method on the requested resource",
        406 if matches!(said, "" | "unknown") => {
            "the server was unable to respond with a content type that the client supports"
        }
        406 => said,
        409 => "the server reported a conflict",
        422 => "the server rejected our request due to an error in our request",
        429 => "the server has received too many requests and has asked us to try again later",
        503 => "the server is currently unable to handle the request",
        504 => {
            "the server was unable to return a response in the time allotted, but may still be processing the request"
        }
        code if code >= 500 => {
            return format!(
                "an error on the server ({}) has prevented the request from succeeding",
                quote(said)
            );
        }
        code => {
            return format!(
                "the server responded with the status code {code} but did not return more information"
            );
        }
    };
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_in_words() {
        let error = |status, kind, body: &[u8]| json(status, kind, body).unwrap_err();
        assert_eq!(error(404, "text/plain", b"nope"), "the server could not find the requested resource");
        let oops = error(500, "text/plain; charset=utf-8", b"oops\n");
        assert_eq!(oops, "an error on the server (\"oops\") has prevented the request from succeeding");
        let unknown = error(500, "application/json", b"{}");
        assert_eq!(unknown, "an error on the server (\"unknown\") has prevented the request from succeeding");
        assert_eq!(error(500, "application/json", br#"{"kind":"Status","message":"no"}"#), "no");
        assert!(error(200, "", b"<html>").starts_with("couldn't get version/kind; json parse error:"));
        assert!(error(200, "", b"").starts_with("0-length response with status code: 200"));
        assert_eq!(json(200, "", b"{}").unwrap(), serde_json::json!({}));
    }
}
