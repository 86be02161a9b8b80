use std::net::SocketAddr;

use hickory_proto::op::{Edns, MessageType, OpCode, Query};
use hickory_proto::rr::RData;
use hickory_proto::rr::rdata::A;

use super::*;
use crate::catalog::memory::{Memory, catalog};

/// An upstream that knows one address for every name, and how often it was asked.
async fn upstream() -> (SocketAddr, Arc<std::sync::atomic::AtomicUsize>) {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    copepod_supervisor::spawn("upstream", async move {
        let mut buffer = [0; 1500];
        while let Ok((len, from)) = socket.recv_from(&mut buffer).await {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let query = Message::from_vec(&buffer[..len]).unwrap();
            let name = query.queries[0].name().clone();
            let mut answer = reply(&query, ResponseCode::NoError);
            answer.add_answer(Record::from_rdata(name, 300, RData::A(A([192, 0, 2, 7].into()))));
            socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
        }
    });
    (address, asked)
}

async fn start(catalog: Memory, upstreams: Vec<SocketAddr>) -> (SocketAddr, Arc<Server<Memory>>) {
    let server = Arc::new(Server {
        zone: Zone::new("cluster.local", 30).unwrap(),
        catalog,
        forwarder: Forwarder::new(upstreams, 30),
        metrics: Metrics::default(),
        slots: slots(),
    });
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = tcp.local_addr().unwrap();
    let udp = UdpSocket::bind(address).await.unwrap();
    copepod_supervisor::spawn("udp", serve_udp(Arc::clone(&server), udp));
    copepod_supervisor::spawn("tcp", serve_tcp(Arc::clone(&server), tcp));
    (address, server)
}

fn query(name: &str, kind: RecordType) -> Message {
    let mut query = Message::new(4711, MessageType::Query, OpCode::Query);
    query.metadata.recursion_desired = true;
    query.add_query(Query::query(Name::from_ascii(name).unwrap(), kind));
    query
}

async fn udp(server: SocketAddr, query: &Message) -> Message {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.send_to(&query.to_vec().unwrap(), server).await.unwrap();
    let mut buffer = [0; 4096];
    let received = tokio::time::timeout(Duration::from_secs(5), socket.recv(&mut buffer)).await;
    Message::from_vec(&buffer[..received.unwrap().unwrap()]).unwrap()
}

async fn tcp(server: SocketAddr, queries: &[Message]) -> Vec<Message> {
    let mut stream = TcpStream::connect(server).await.unwrap();
    let mut answers = Vec::new();
    for query in queries {
        let bytes = query.to_vec().unwrap();
        stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
        let mut buffer = vec![0; usize::from(stream.read_u16().await.unwrap())];
        stream.read_exact(&mut buffer).await.unwrap();
        answers.push(Message::from_vec(&buffer).unwrap());
    }
    answers
}

#[tokio::test]
async fn the_zone_is_answered_with_authority_over_both_transports() {
    let (server, _) = start(catalog(), vec![]).await;
    let question = query("web.default.svc.cluster.local.", RecordType::A);
    let answer = udp(server, &question).await;
    assert!(answer.metadata.authoritative && answer.metadata.recursion_desired);
    assert_eq!(answer.answers[0].data.to_string(), "10.96.0.5");
    let missing = query("nope.default.svc.cluster.local.", RecordType::A);
    let both = tcp(server, &[question, missing]).await;
    assert_eq!(both[0].answers.len(), 1);
    assert_eq!(both[1].metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(both[1].authorities[0].record_type(), RecordType::SOA);
}

#[tokio::test]
async fn other_names_are_forwarded_once_and_kept() {
    let (upstream, asked) = upstream().await;
    let (server, _) = start(catalog(), vec![upstream]).await;
    for _ in 0..3 {
        let answer = udp(server, &query("example.org.", RecordType::A)).await;
        assert_eq!((answer.metadata.id, answer.metadata.authoritative), (4711, false));
        assert_eq!(answer.answers[0].data.to_string(), "192.0.2.7");
        assert!(answer.answers[0].ttl <= 30);
    }
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_external_name_comes_with_its_target_s_address() {
    let (upstream, _) = upstream().await;
    let (server, _) = start(catalog(), vec![upstream]).await;
    let answer = udp(server, &query("out.default.svc.cluster.local.", RecordType::A)).await;
    let data: Vec<_> = answer.answers.iter().map(|r| r.data.to_string()).collect();
    assert_eq!(data, ["example.org.", "192.0.2.7"]);
    let only = udp(server, &query("out.default.svc.cluster.local.", RecordType::CNAME)).await;
    assert_eq!(only.answers.len(), 1);
}

#[tokio::test]
async fn without_upstreams_or_before_the_first_list_it_says_so() {
    let (server, _) = start(catalog(), vec![]).await;
    let answer = udp(server, &query("example.org.", RecordType::A)).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    let (empty, _) = start(Memory::default(), vec![]).await;
    let answer = udp(empty, &query("web.default.svc.cluster.local.", RecordType::A)).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail, "not \"no such name\"");
}

#[tokio::test]
async fn a_loop_is_noticed_and_ends_forwarding() {
    // A relay between the server and itself.
    let relay = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let (server, state) = start(catalog(), vec![relay.local_addr().unwrap()]).await;
    copepod_supervisor::spawn("relay", async move {
        let mut buffer = [0; 1500];
        while let Ok((len, from)) = relay.recv_from(&mut buffer).await {
            let back = UdpSocket::bind("127.0.0.1:0").await.unwrap();
            back.send_to(&buffer[..len], server).await.unwrap();
            let mut answer = [0; 1500];
            let len = back.recv(&mut answer).await.unwrap();
            relay.send_to(&answer[..len], from).await.unwrap();
        }
    });
    state.forwarder.probe().await;
    let start = tokio::time::Instant::now();
    let answer = udp(server, &query("example.org.", RecordType::A)).await;
    assert_eq!(answer.metadata.response_code, ResponseCode::ServFail);
    assert!(start.elapsed() < Duration::from_secs(1), "refused at once, not after a timeout");
}

#[tokio::test]
async fn edns_is_answered_with_edns_and_its_unknown_version_refused() {
    let (server, _) = start(catalog(), vec![]).await;
    let mut question = query("web.default.svc.cluster.local.", RecordType::A);
    question.set_edns(Edns::new());
    assert!(udp(server, &question).await.edns.is_some());
    let mut edns = Edns::new();
    edns.set_version(1);
    question.set_edns(edns);
    let answer = udp(server, &question).await;
    assert_eq!(answer.edns.unwrap().rcode_high(), 1, "BADVERS is 16: the high part is in the OPT record");
}
