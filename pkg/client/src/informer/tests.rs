use std::collections::VecDeque;

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::ClientConfig;
use crate::resources::PODS;

const SOON: Duration = Duration::from_secs(5);

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: crate::Meta,
}

/// What the fake server says to one request: a status, lines, and whether it then keeps the answer open.
struct Reply {
    status: &'static str,
    body: String,
    hold: bool,
}

fn pod(name: &str, revision: u64, node: &str) -> String {
    format!(
        r#"{{"kind":"Pod","metadata":{{"name":"{name}","namespace":"ns","uid":"u-{name}","resourceVersion":"{revision}","labels":{{"node":"{node}"}}}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(revision: u64, end: bool) -> String {
    let mark = if end { r#","annotations":{"k8s.io/initial-events-end":"true"}"# } else { "" };
    event("BOOKMARK", &format!(r#"{{"kind":"Pod","metadata":{{"resourceVersion":"{revision}"{mark}}}}}"#))
}

/// Answers requests with `replies` in turn and reports the request lines.
async fn serve(replies: Vec<Reply>) -> (Client, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (sender, requests) = mpsc::unbounded_channel();
    let mut replies = VecDeque::from(replies);
    copepod_supervisor::spawn("fake server", async move {
        let mut open = Vec::new();
        while let Some(reply) = replies.pop_front() {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            let line = String::from_utf8(head).unwrap().lines().next().unwrap().to_owned();
            sender.send(line).unwrap();
            let text = format!("HTTP/1.1 {}\r\nConnection: close\r\n\r\n{}", reply.status, reply.body);
            stream.write_all(text.as_bytes()).await.unwrap();
            if reply.hold {
                open.push(stream);
            }
        }
        std::future::pending::<()>().await;
    });
    (Client::new(&ClientConfig::new(format!("http://{address}"))).unwrap(), requests)
}

fn ok(body: String, hold: bool) -> Reply {
    Reply { status: "200 OK", body, hold }
}

fn follow(client: &Client) -> (Informer<Pod>, CancellationToken) {
    let informer = Informer::new(InformerConfig::all(PODS));
    let shutdown = CancellationToken::new();
    informer.start(client, &shutdown);
    (informer, shutdown)
}

#[tokio::test]
async fn streams_the_list_then_follows_and_resumes_from_the_last_revision() {
    let first = event("ADDED", &pod("a", 3, "n1")) + &event("ADDED", &pod("b", 5, "n1")) + &bookmark(7, true);
    let first = first + &event("MODIFIED", &pod("a", 8, "n2")) + &bookmark(9, false);
    let second = event("DELETED", &pod("b", 10, "n1"));
    let (client, mut requests) = serve(vec![ok(first, false), ok(second, true)]).await;
    let (informer, _shutdown) = follow(&client);
    let index = informer.add_index(|pod: &Pod| vec![pod.metadata.label("node").to_owned()]);
    let mut changes = informer.subscribe();
    assert!(informer.wait_revision("10", SOON).await);
    assert!(informer.has_synced());
    assert!(informer.get("ns", "b").is_none());
    assert_eq!(informer.by_index(index, "n2").len(), 1);
    assert_eq!(informer.by_index(index, "n1").len(), 0);
    let mut seen = Vec::new();
    while let Ok((key, delta)) = changes.try_recv() {
        let what = match delta {
            Delta::Added(_) => "+",
            Delta::Updated { .. } => "~",
            Delta::Deleted(_) => "-",
        };
        seen.push(format!("{what}{}", key.name));
    }
    assert_eq!(seen, ["+a", "+b", "~a", "-b"]);
    assert!(requests.recv().await.unwrap().contains("sendInitialEvents=true"));
    let again = requests.recv().await.unwrap();
    assert!(again.contains("resourceVersion=9") && !again.contains("sendInitialEvents"), "{again}");
}

#[tokio::test]
async fn falls_back_to_paged_lists_and_lists_again_when_the_revision_is_gone() {
    let refuse = r#"{"kind":"Status","status":"Failure","reason":"Invalid","code":422}"#.to_owned();
    let page = |revision: u64, next: &str, pods: &[String]| {
        format!(
            r#"{{"metadata":{{"resourceVersion":"{revision}","continue":"{next}"}},"items":[{}]}}"#,
            pods.join(",")
        )
    };
    let gone = event("ERROR", r#"{"kind":"Status","reason":"Expired","code":410,"message":"too old"}"#);
    let (client, mut requests) = serve(vec![
        Reply { status: "422 Unprocessable Entity", body: refuse, hold: false },
        ok(page(5, "next", &[pod("a", 1, "")]), false),
        ok(page(5, "", &[pod("b", 2, "")]), false),
        ok(gone, false),
        ok(page(20, "", &[pod("b", 2, ""), pod("c", 19, "")]), false),
        ok(String::new(), true),
    ])
    .await;
    let (informer, _shutdown) = follow(&client);
    let mut changes = informer.subscribe();
    assert!(informer.wait_revision("20", SOON).await);
    let names: Vec<_> = informer.list().iter().map(|p| p.metadata.name.clone()).collect();
    assert_eq!(names, ["b", "c"]);
    let mut count = 0;
    while changes.try_recv().is_ok() {
        count += 1;
    }
    assert_eq!(count, 4, "a and b added, a deleted, c added; the unchanged b is not told again");
    let lines: Vec<_> = std::iter::from_fn(|| requests.try_recv().ok()).collect();
    assert!(lines[2].contains("continue=next"), "{lines:?}");
    assert!(!lines[4].contains("watch=true"), "{lines:?}");
}

#[tokio::test]
async fn an_object_of_another_form_is_left_out_and_a_replaced_one_is_deleted_first() {
    let odd = r#"{"metadata":{"name":"odd","namespace":"ns","labels":7}}"#;
    let new = pod("a", 9, "").replace("u-a", "u-2");
    let lines = event("ADDED", odd) + &event("ADDED", &pod("a", 3, "")) + &bookmark(7, true);
    let (client, _requests) = serve(vec![ok(lines + &event("MODIFIED", &new), true)]).await;
    let (informer, _shutdown) = follow(&client);
    let mut changes = informer.subscribe();
    assert!(informer.wait_revision("9", SOON).await);
    assert_eq!(informer.len(), 1);
    assert!(informer.wait_gone(&ObjectKey::new("ns", "a"), "u-a", SOON).await);
    assert!(!informer.wait_gone(&ObjectKey::new("ns", "a"), "u-2", Duration::from_millis(20)).await);
    assert!(matches!(changes.recv().await.unwrap().1, Delta::Added(_)));
    assert!(matches!(changes.recv().await.unwrap().1, Delta::Deleted(_)));
    assert!(matches!(changes.recv().await.unwrap().1, Delta::Added(_)));
}

#[tokio::test]
async fn failures_carry_the_servers_status() {
    let body = r#"{"kind":"Status","status":"Failure","message":"pods \"x\" not found","reason":"NotFound","code":404}"#;
    let plain = Reply { status: "503 Service Unavailable", body: "starting".to_owned(), hold: false };
    let missing = Reply { status: "404 Not Found", body: body.to_owned(), hold: false };
    let (client, _requests) = serve(vec![missing, plain]).await;
    let target = PODS.object("ns", "x");
    let error = client.get::<Pod>(&target).await.unwrap_err();
    assert!(error.not_found());
    assert_eq!(error.to_string(), "pods \"x\" not found");
    let error = client.get::<Pod>(&target).await.unwrap_err();
    assert_eq!(error.api().map(copepod_api::ApiError::code), Some(503));
}
