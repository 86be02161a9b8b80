//! A plain HTTP/1.1 server for probes and metrics: one request a connection, an answer from memory, nothing else.

use std::io;
use std::time::Duration;

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request head longer than this is refused.
const MAX_HEAD: usize = 8 << 10;
/// A client slower than this is dropped.
const PATIENCE: Duration = Duration::from_secs(5);
/// Connections served at once; the next wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 32;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainResponse {
    /// The status code.
    pub status: u16,
    /// Header lines besides length and connection.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: String,
}

impl PlainResponse {
    /// A text answer.
    #[must_use]
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: vec![
                ("Content-Type", "text/plain; charset=utf-8".to_owned()),
                ("X-Content-Type-Options", "nosniff".to_owned()),
            ],
            body: body.into(),
        }
    }

    /// A JSON answer.
    #[must_use]
    pub fn json(status: u16, body: impl Into<String>) -> Self {
        Self {
            status,
            headers: vec![
                ("Content-Type", "application/json".to_owned()),
                ("X-Content-Type-Options", "nosniff".to_owned()),
            ],
            body: body.into(),
        }
    }

    fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            404 => "Not Found",
            405 => "Method Not Allowed",
            503 => "Service Unavailable",
            _ => "Error",
        };
        let mut head =
            format!("HTTP/1.1 {} {reason}\r\nContent-Length: {}\r\n", self.status, self.body.len());
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("Connection: close\r\n\r\n");
        head
    }
}

/// Serves GET and HEAD on `listener` for as long as it is polled; `answer` gets the path without its query.
pub async fn serve_plain(listener: TcpListener, answer: impl Fn(&str) -> PlainResponse) {
    let mut open = FuturesUnordered::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if open.len() < MAX_CONNECTIONS => match accepted {
                Ok((stream, _)) => open.push(tokio::time::timeout(PATIENCE, connection(stream, &answer))),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            },
            Some(ended) = open.next(), if !open.is_empty() => {
                if let Ok(Err(error)) = ended {
                    let error: io::Error = error;
                    tracing::trace!(%error, "connection ended");
                }
            }
        }
    }
}

async fn connection(mut stream: TcpStream, answer: &impl Fn(&str) -> PlainResponse) -> io::Result<()> {
    let mut head = Vec::new();
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() > MAX_HEAD || stream.read_buf(&mut head).await? == 0 {
            return Ok(());
        }
    }
    let line = head.split(|b| *b == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    let response = match method {
        "GET" | "HEAD" => answer(path),
        _ => PlainResponse::text(405, "method not allowed\n"),
    };
    stream.write_all(response.head().as_bytes()).await?;
    if method != "HEAD" {
        stream.write_all(response.body.as_bytes()).await?;
    }
    stream.shutdown().await
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn request(text: &str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = serve_plain(listener, |path| PlainResponse::text(200, format!("at {path}")));
        let client = async {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).await.unwrap();
            answer
        };
        tokio::select! { () = server => String::new(), answer = client => answer }
    }

    #[tokio::test]
    async fn get_head_and_other_methods() {
        let get = request("GET /healthz?x=1 HTTP/1.1\r\nHost: a\r\n\r\n").await;
        assert!(get.starts_with("HTTP/1.1 200 OK\r\n") && get.ends_with("\r\n\r\nat /healthz"), "{get}");
        assert!(request("HEAD /x HTTP/1.0\r\n\r\n").await.ends_with("\r\n\r\n"));
        assert!(request("POST /x HTTP/1.1\r\n\r\n").await.starts_with("HTTP/1.1 405"));
    }
}
