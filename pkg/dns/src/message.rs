//! Answers as messages: flags, EDNS, truncation.

use hickory_proto::op::{Edns, Message, MessageType, OpCode, ResponseCode};
use hickory_proto::rr::{DNSClass, Name, Record, RecordType};

/// What a client without EDNS can take over UDP.
const PLAIN_UDP: u16 = 512;
/// The most we send over UDP whatever the client says: larger datagrams get lost in fragments.
const MAX_UDP: u16 = 1232;

/// How the query came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Udp,
    Tcp,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// A readable query, or the code to refuse it with.
pub(crate) enum Parsed {
    Query(Box<Message>),
    Refused(Box<Message>),
    /// Not even a header: nothing can be answered.
    Garbage,
}

/// Reads a datagram or a TCP message.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let Ok(message) = Message::from_vec(bytes) else {
        let Some(id) = bytes.get(..2).filter(|_| bytes.len() >= 12 && bytes[2] & 0x80 == 0) else {
            return Parsed::Garbage;
        };
        let id = u16::from_be_bytes([id[0], id[1]]);
        return Parsed::Refused(Box::new(Message::error_msg(id, OpCode::Query, ResponseCode::FormErr)));
    };
    if message.metadata.message_type != MessageType::Query {
        // An answer to nothing we asked here; answering it could go on for ever.
        return Parsed::Garbage;
    }
    let refuse = |code| Parsed::Refused(Box::new(reply(&message, code)));
    if message.metadata.op_code != OpCode::Query {
        return refuse(ResponseCode::NotImp);
    }
    if message.edns.as_ref().is_some_and(|edns| edns.version() != 0) {
        return refuse(ResponseCode::BADVERS);
    }
    match message.queries.as_slice() {
        [query] if query.query_class() != DNSClass::IN => refuse(ResponseCode::Refused),
        [query] if matches!(query.query_type(), RecordType::AXFR | RecordType::IXFR) => {
            refuse(ResponseCode::Refused)
        }
        [_] => Parsed::Query(Box::new(message)),
        _ => refuse(ResponseCode::FormErr),
    }
}

/// An answer to `query` without records.
pub(crate) fn reply(query: &Message, code: ResponseCode) -> Message {
    let mut out = Message::response(query.metadata.id, query.metadata.op_code);
    out.metadata.recursion_desired = query.metadata.recursion_desired;
    out.metadata.recursion_available = true;
    out.metadata.checking_disabled = query.metadata.checking_disabled;
    out.metadata.response_code = code;
    out.add_queries(query.queries.iter().cloned());
    if query.edns.is_some() {
        let mut edns = Edns::new();
        edns.set_max_payload(MAX_UDP);
        // The extended part of the code travels in the OPT record.
        edns.set_rcode_high(code.high());
        out.set_edns(edns);
    }
    out
}

/// An authoritative answer with records.
pub(crate) fn authoritative(query: &Message, answers: Vec<Record>, additionals: Vec<Record>) -> Message {
    let mut out = reply(query, ResponseCode::NoError);
    out.metadata.authoritative = true;
    out.add_answers(answers);
    out.add_additionals(additionals);
    out
}

/// An authoritative "no", with the record that says for how long.
pub(crate) fn negative(query: &Message, code: ResponseCode, soa: Record) -> Message {
    let mut out = reply(query, code);
    out.metadata.authoritative = true;
    out.add_authority(soa);
    out
}

/// Somebody else's answer as ours: the query's id and question, its own EDNS.
pub(crate) fn relay(query: &Message, mut answer: Message) -> Message {
    let frame = reply(query, answer.metadata.response_code);
    answer.metadata.id = frame.metadata.id;
    answer.metadata.authoritative = false;
    answer.metadata.recursion_desired = frame.metadata.recursion_desired;
    answer.metadata.recursion_available = true;
    answer.queries = frame.queries;
    answer.edns = frame.edns;
    answer
}

/// The bytes to send; an answer that the client cannot take over UDP becomes an empty one that says so.
pub(crate) fn encode(query: &Message, answer: &Message, transport: Transport) -> Option<Vec<u8>> {
    let bytes =
        answer.to_vec().inspect_err(|error| tracing::warn!(%error, "cannot encode an answer")).ok()?;
    let room = match (transport, &query.edns) {
        (Transport::Tcp, _) => u16::MAX,
        (Transport::Udp, Some(edns)) => edns.max_payload().clamp(PLAIN_UDP, MAX_UDP),
        (Transport::Udp, None) => PLAIN_UDP,
    };
    if bytes.len() <= usize::from(room) {
        return Some(bytes);
    }
    let mut cut = answer.truncate();
    cut.metadata.id = answer.metadata.id;
    cut.to_vec().ok()
}

/// What a query is about.
pub(crate) fn question(query: &Message) -> Option<(&Name, RecordType)> {
    query.queries.first().map(|q| (q.name(), q.query_type()))
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::Query;
    use hickory_proto::rr::RData;
    use hickory_proto::rr::rdata::A;

    use super::*;

    fn query(edns: Option<u16>) -> Message {
        let mut message = Message::new(7, MessageType::Query, OpCode::Query);
        message.add_query(Query::query(Name::from_ascii("a.b.").unwrap(), RecordType::A));
        if let Some(size) = edns {
            let mut opt = Edns::new();
            opt.set_max_payload(size);
            message.set_edns(opt);
        }
        message
    }

    fn many(query: &Message, count: u8) -> Message {
        let name = Name::from_ascii("a.b.").unwrap();
        let record = |n| Record::from_rdata(name.clone(), 30, RData::A(A([10, 0, 0, n].into())));
        authoritative(query, (0..count).map(record).collect(), vec![])
    }

    #[test]
    fn what_does_not_fit_is_said_to_be_cut() {
        for (edns, count, cut) in
            [(None, 20, false), (None, 60, true), (Some(4096), 60, false), (Some(4096), 120, true)]
        {
            let query = query(edns);
            let bytes = encode(&query, &many(&query, count), Transport::Udp).unwrap();
            let sent = Message::from_vec(&bytes).unwrap();
            assert_eq!(sent.metadata.truncation, cut, "{edns:?} {count}");
            assert_eq!((sent.metadata.id, sent.metadata.message_type), (7, MessageType::Response));
            assert_eq!(sent.edns.is_some(), edns.is_some());
        }
        let query = query(None);
        let bytes = encode(&query, &many(&query, 200), Transport::Tcp).unwrap();
        assert!(!Message::from_vec(&bytes).unwrap().metadata.truncation);
    }

    #[test]
    fn nonsense_is_refused_or_ignored() {
        assert!(matches!(parse(&[1, 2, 3]), Parsed::Garbage));
        let mut answer = query(None);
        answer.metadata.message_type = MessageType::Response;
        assert!(matches!(parse(&answer.to_vec().unwrap()), Parsed::Garbage));
        let mut broken = query(None).to_vec().unwrap();
        broken.truncate(14);
        assert!(
            matches!(parse(&broken), Parsed::Refused(m) if m.metadata.response_code == ResponseCode::FormErr)
        );
        let mut update = query(None);
        update.metadata.op_code = OpCode::Update;
        assert!(
            matches!(parse(&update.to_vec().unwrap()), Parsed::Refused(m) if m.metadata.response_code == ResponseCode::NotImp)
        );
    }
}
