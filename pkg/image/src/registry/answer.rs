//! One request to the registry.

use std::io::SeekFrom;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use futures::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::Registry;

/// Where clients say whose image they want from a mirror.
const NAMESPACE: &str = "ns";
const CHUNK: usize = 1 << 18;

type Body = BoxBody<Bytes, std::io::Error>;

/// What a path below `/v2/` asks for.
#[derive(Debug, PartialEq, Eq)]
enum Wish<'a> {
    /// Whether this is a registry at all.
    Ping,
    Manifest {
        repository: &'a str,
        reference: &'a str,
    },
    Blob {
        digest: &'a str,
    },
}

/// A part of an archive, and what to say of it.
#[derive(Debug)]
struct Found {
    file: PathBuf,
    offset: u64,
    size: u64,
    kind: String,
    digest: String,
}

pub(super) async fn answer(
    registry: Arc<Registry>,
    request: Request<Incoming>,
) -> Result<Response<Body>, std::io::Error> {
    let said = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    if registry.authorization.is_some() && registry.authorization.as_deref() != said {
        let mut refused = failure(StatusCode::UNAUTHORIZED, "UNAUTHORIZED");
        refused.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Basic realm=\"registry\""));
        return Ok(refused);
    }
    let host = request.headers().get(HOST).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let query = request.uri().query().unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let namespace = pairs.find(|(key, _)| key == NAMESPACE);
    let namespace = namespace.map_or_else(|| host.to_string(), |(_, value)| value.into_owned());
    match parse(request.uri().path()) {
        None => Ok(failure(StatusCode::NOT_FOUND, "NAME_UNKNOWN")),
        Some(Wish::Ping) => Ok(Response::new(full("{}"))),
        Some(wish) => match find(&registry, &namespace, &wish) {
            Some(found) => send(found, request.method() == Method::HEAD).await,
            None => Ok(failure(StatusCode::NOT_FOUND, "MANIFEST_UNKNOWN")),
        },
    }
}

fn parse(path: &str) -> Option<Wish<'_>> {
    let rest = path.strip_prefix("/v2")?.trim_start_matches('/');
    if rest.is_empty() {
        return Some(Wish::Ping);
    }
    if let Some((repository, reference)) = rest.rsplit_once("/manifests/") {
        return Some(Wish::Manifest { repository, reference });
    }
    rest.rsplit_once("/blobs/").map(|(_, digest)| Wish::Blob { digest })
}

fn find(registry: &Registry, namespace: &str, wish: &Wish<'_>) -> Option<Found> {
    let (digest, kind) = match wish {
        Wish::Ping => return None,
        Wish::Blob { digest } => (*digest, "application/octet-stream"),
        Wish::Manifest { reference, .. } if reference.starts_with("sha256:") => {
            let manifest = registry.images.values().find(|(_, blob)| blob.digest == *reference)?;
            (*reference, manifest.1.media_type.as_str())
        }
        Wish::Manifest { repository, reference } => {
            let (_, manifest) = registry.images.get(&format!("{namespace}/{repository}:{reference}"))?;
            (manifest.digest.as_str(), manifest.media_type.as_str())
        }
    };
    registry.archives.iter().find_map(|archive| {
        let (offset, size) = archive.place(digest)?;
        let file = archive.path().to_path_buf();
        Some(Found { file, offset, size, kind: kind.to_string(), digest: digest.to_string() })
    })
}

async fn send(found: Found, only_head: bool) -> Result<Response<Body>, std::io::Error> {
    let mut file = tokio::fs::File::open(&found.file).await?;
    file.seek(SeekFrom::Start(found.offset)).await?;
    let chunks = stream::try_unfold((file, found.size), |(mut file, left)| async move {
        if left == 0 {
            return Ok(None);
        }
        let mut chunk = vec![0; usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK))];
        file.read_exact(&mut chunk).await?;
        let left = left.saturating_sub(chunk.len() as u64);
        Ok(Some((Frame::data(Bytes::from(chunk)), (file, left))))
    });
    let body = if only_head { full("") } else { BodyExt::boxed(StreamBody::new(chunks)) };
    let response = Response::builder()
        .header(CONTENT_TYPE, found.kind)
        .header(CONTENT_LENGTH, found.size)
        .header("docker-content-digest", found.digest)
        .body(body);
    response.map_err(std::io::Error::other)
}

fn failure(status: StatusCode, code: &str) -> Response<Body> {
    let text = format!("{{\"errors\":[{{\"code\":\"{code}\",\"message\":\"{status}\"}}]}}");
    let mut response = Response::new(full(&text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn full(text: &str) -> Body {
    Full::new(Bytes::copy_from_slice(text.as_bytes())).map_err(|never| match never {}).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_may_have_any_depth() {
        assert_eq!(parse("/v2/"), Some(Wish::Ping));
        assert_eq!(
            parse("/v2/e2e/volume/nfs/manifests/1.6"),
            Some(Wish::Manifest { repository: "e2e/volume/nfs", reference: "1.6" })
        );
        assert_eq!(parse("/v2/a/blobs/sha256:12"), Some(Wish::Blob { digest: "sha256:12" }));
        assert_eq!(parse("/v1/a/blobs/sha256:12"), None);
        assert_eq!(parse("/v2/a/tags/list"), None);
    }
}
