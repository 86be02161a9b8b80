//! Sending a script to a server.

use std::{collections::BTreeMap, time::Duration};

use bytes::Bytes;
use copepod_client::{ClientConfig, client_tls};
use copepod_schema::protobuf;
use http::{HeaderMap, header};
use http_body_util::{BodyExt as _, Full};
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

use crate::{Answer, ReplayError, Request, Script, normal};

/// How long one answer, watches included, may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often and after which pause a request with `@until` is sent again.
const TRIES: usize = 100;
const PAUSE: Duration = Duration::from_millis(100);

const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// A server, and who asks it.
#[derive(Debug)]
pub struct Target {
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: String,
}

impl Target {
    /// The server of a client configuration. Nothing is sent yet.
    ///
    /// # Errors
    /// Certificates or keys that cannot be used.
    pub fn new(config: &ClientConfig) -> Result<Self, ReplayError> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_nodelay(true);
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(client_tls(config)?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        let http = Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { http, server: config.server.trim_end_matches('/').to_owned() })
    }

    async fn send(&self, request: &Request) -> Result<(u16, HeaderMap, Bytes), String> {
        let mut message = http::Request::builder()
            .method(request.method.as_str())
            .uri(format!("{}{}", self.server, request.target))
            .header(header::USER_AGENT, "replay");
        for (name, value) in &request.headers {
            message = message.header(name, value);
        }
        let message = message.body(Full::new(body(request)?)).map_err(|e| e.to_string())?;
        let exchange = async {
            let answer = self.http.request(message).await.map_err(|e| format!("{e:?}"))?;
            let (parts, body) = answer.into_parts();
            let body = body.collect().await.map_err(|e| format!("{e:?}"))?.to_bytes();
            Ok((parts.status.as_u16(), parts.headers, body))
        };
        tokio::time::timeout(PATIENCE, exchange).await.unwrap_or_else(|_| Err("no answer in time".to_owned()))
    }
}

/// Sends all requests of a script, one after the other.
///
/// # Errors
/// A request that cannot be sent at all. Errors the server answers with are answers.
pub async fn play(script: &Script, target: &Target) -> Result<Vec<Answer>, ReplayError> {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    let mut answers = Vec::with_capacity(script.requests.len());
    for request in &script.requests {
        let wrong = |why: String| ReplayError::Request { request: request.title.clone(), why };
        let filled = fill(request, &known).map_err(wrong)?;
        let (code, headers, bytes) = settled(target, &filled).await.map_err(wrong)?;
        let mut body = tree(&headers, &bytes);
        if !request.name.is_empty() {
            known.insert(request.name.clone(), body.clone());
        }
        normal::body(&mut body);
        answers.push(Answer { request: request.title.clone(), code, headers: kept(&headers), body });
    }
    Ok(answers)
}

/// Sends a request until its answer is what it waits for, or for as long as patience lasts.
async fn settled(target: &Target, request: &Request) -> Result<(u16, HeaderMap, Bytes), String> {
    let mut answer = target.send(request).await?;
    if request.until.is_empty() {
        return Ok(answer);
    }
    for _ in 0..TRIES {
        if String::from_utf8_lossy(&answer.2).contains(&request.until) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
        answer = target.send(request).await?;
    }
    Ok(answer)
}

/// Replaces `{{name.field.0}}` by values of earlier answers, and `{{x*300}}` by so many of that text.
fn fill(request: &Request, known: &BTreeMap<String, Value>) -> Result<Request, String> {
    let mut filled = request.clone();
    let headers = filled.headers.iter_mut().map(|(_, value)| value);
    for text in [&mut filled.target, &mut filled.body].into_iter().chain(headers) {
        *text = filled_in(text, known)?;
    }
    Ok(filled)
}

fn filled_in(text: &str, known: &BTreeMap<String, Value>) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, open)) = rest.split_once("{{") {
        let (inside, after) = open.split_once("}}").ok_or("an open {{")?;
        out.push_str(before);
        match inside.rsplit_once('*') {
            Some((unit, times)) => {
                let times = times.parse().map_err(|_| format!("{inside}: {times:?} is no number"))?;
                out.push_str(&unit.repeat(times));
            }
            None => out.push_str(&value_of(inside, known)?),
        }
        rest = after;
    }
    out.push_str(rest);
    Ok(out)
}

fn value_of(path: &str, known: &BTreeMap<String, Value>) -> Result<String, String> {
    let (name, field) = path.split_once('.').unwrap_or((path, ""));
    let pointer: String = field.split('.').filter(|p| !p.is_empty()).map(|p| format!("/{p}")).collect();
    let value = known.get(name).and_then(|answer| answer.pointer(&pointer));
    let value = value.ok_or_else(|| format!("nothing is known of {path}"))?;
    Ok(value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

fn body(request: &Request) -> Result<Bytes, String> {
    let content_type = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"));
    if content_type.is_none_or(|(_, value)| value != PROTOBUF) || request.body.is_empty() {
        return Ok(request.body.clone().into());
    }
    let object: Value = serde_json::from_str(&request.body).map_err(|e| e.to_string())?;
    let text = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
    let schema =
        protobuf::schema_of(&text("apiVersion"), &text("kind")).ok_or("a kind without protobuf form")?;
    Ok(protobuf::encode(&object, schema).into())
}

/// The body as a tree: JSON, JSON lines, YAML, protobuf and its frames, or text.
fn tree(headers: &HeaderMap, bytes: &Bytes) -> Value {
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if content_type.starts_with(PROTOBUF) {
        return if content_type.contains("stream=watch") { frames(bytes) } else { message(bytes) };
    }
    if let Ok(value) = serde_json::from_slice(bytes) {
        return value;
    }
    let text = String::from_utf8_lossy(bytes);
    let lines: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    match lines {
        Ok(events) if content_type.starts_with("application/json") => Value::Array(events),
        _ => text.into_owned().into(),
    }
}

fn message(bytes: &[u8]) -> Value {
    let decode = || {
        let envelope = protobuf::open(bytes).ok()?;
        let schema = protobuf::schema_of(&envelope.api_version, &envelope.kind)?;
        protobuf::decode(&envelope, schema).ok()
    };
    decode().unwrap_or_else(|| format!("{} bytes that are no known message", bytes.len()).into())
}

/// The events of a protobuf watch.
fn frames(mut bytes: &[u8]) -> Value {
    let mut events = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
        let Some((frame, rest)) = rest.split_at_checked(length) else { break };
        bytes = rest;
        let event = protobuf::read_event(frame);
        events.push(match event {
            Ok((kind, object)) => serde_json::json!({"type": kind, "object": message(object)}),
            Err(error) => error.to_string().into(),
        });
    }
    Value::Array(events)
}

fn kept(headers: &HeaderMap) -> BTreeMap<String, String> {
    let mut kept: BTreeMap<String, String> = BTreeMap::new();
    for (name, value) in headers {
        let text = String::from_utf8_lossy(value.as_bytes());
        if let Some(text) = normal::header(name.as_str(), &text) {
            let slot = kept.entry(name.as_str().to_owned()).or_default();
            if !slot.is_empty() {
                slot.push('\n');
            }
            slot.push_str(&text);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_answers_are_filled_in() {
        let known = [("cm".to_owned(), json!({"metadata": {"uid": "u", "list": [7]}}))].into();
        let request = Request {
            target: "/x/{{cm.metadata.uid}}?n={{cm.metadata.list.0}}".to_owned(),
            ..Request::default()
        };
        assert_eq!(fill(&request, &known).map(|r| r.target), Ok("/x/u?n=7".to_owned()));
        let body = |text: &str| Request { body: text.to_owned(), ..Request::default() };
        let long = fill(&body(r#"{"a": "{{x*3}}", "b": "{{ab*2}}"}"#), &known).map(|r| r.body);
        assert_eq!(long.as_deref(), Ok(r#"{"a": "xxx", "b": "abab"}"#));
        for wrong in ["{{no.thing}}", "{{x*many}}", "{{open"] {
            assert!(fill(&body(wrong), &known).is_err(), "{wrong}");
        }
    }

    #[test]
    fn watches_are_lists_of_events() {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_TYPE, "application/json".parse().expect("a header"));
        assert_eq!(
            tree(&headers, &Bytes::from_static(b"{\"a\":1}\n{\"a\":2}\n")),
            json!([{"a": 1}, {"a": 2}])
        );
        assert_eq!(tree(&headers, &Bytes::from_static(b"ok")), json!("ok"));
    }
}
