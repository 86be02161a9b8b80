//! The registry over a real connection; the client is a few lines of HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::*;
use crate::{Entry, Recipe};

fn serve(login: bool) -> (Serving, SocketAddr, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let entry = ("/x".to_string(), Entry::Text { text: "hello".repeat(100_000), mode: 0o644 });
    let recipe = Recipe { name: "reg.test/a/b:1".to_string(), entries: vec![entry], ..Recipe::default() };
    let to = dir.path().join("a.tar");
    recipe.build(&to).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let registry = Registry::default().with(Archive::open(&to).unwrap());
    let registry = registry.with_name(&format!("{address}/own:2"), "reg.test/a/b:1").unwrap();
    let registry = if login { registry.with_login("puller", "s3cret") } else { registry };
    (registry.serve(listener).unwrap(), address, dir)
}

fn ask(address: SocketAddr, request: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{more}\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn an_image_is_found_for_its_registry_and_under_our_address() {
    let (_serving, address, _dir) = serve(false);
    let manifest = ask(address, "GET /v2/a/b/manifests/1?ns=reg.test", "");
    assert!(manifest.starts_with("HTTP/1.1 200"), "{manifest}");
    assert!(manifest.contains("application/vnd.oci.image.manifest.v1+json"));
    let own = ask(address, "GET /v2/own/manifests/2", "");
    assert_eq!(manifest.split_once("\r\n\r\n").unwrap().1, own.split_once("\r\n\r\n").unwrap().1);
    let layer = manifest.split("sha256:").last().unwrap().split('"').next().unwrap();
    let blob = ask(address, &format!("GET /v2/a/b/blobs/sha256:{layer}"), "");
    assert!(blob.split_once("\r\n\r\n").unwrap().1.len() > 500_000);
    let head = ask(address, &format!("HEAD /v2/a/b/blobs/sha256:{layer}"), "");
    assert!(head.ends_with("\r\n\r\n") && head.contains("content-length: 50"), "{head}");
}

#[test]
fn what_is_not_there_is_not_found_at_once() {
    let (_serving, address, _dir) = serve(false);
    for path in
        ["/v2/a/b/manifests/2?ns=reg.test", "/v2/a/b/manifests/1?ns=other", "/v2/a/blobs/sha256:00", "/"]
    {
        let answer = ask(address, &format!("GET {path}"), "");
        assert!(answer.starts_with("HTTP/1.1 404"), "{path}: {answer}");
    }
    assert!(Registry::default().with_name("x", "y").is_err());
}

#[test]
fn a_login_is_asked_for() {
    let (_serving, address, _dir) = serve(true);
    let refused = ask(address, "GET /v2/", "");
    assert!(refused.starts_with("HTTP/1.1 401") && refused.contains("www-authenticate: Basic"), "{refused}");
    let accepted = ask(address, "GET /v2/", "Authorization: Basic cHVsbGVyOnMzY3JldA==\r\n");
    assert!(accepted.starts_with("HTTP/1.1 200"), "{accepted}");
}
