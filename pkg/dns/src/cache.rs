//! Answers of the upstreams, for as long as they say and at most as long as we are told.

use std::collections::HashMap;
use std::time::Duration;

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::{Name, RData, RecordType};
use tokio::time::Instant;

/// Entries kept; beyond that the expired and then the oldest ones go.
const CAPACITY: usize = 2000;

#[derive(Debug)]
struct Entry {
    bytes: Vec<u8>,
    stored: Instant,
    lifetime: Duration,
}

/// A bounded cache of forwarded answers, kept as bytes.
#[derive(Debug)]
pub(crate) struct Cache {
    most: u32,
    entries: HashMap<(Name, RecordType), Entry>,
}

impl Cache {
    /// A cache that keeps nothing longer than `most` seconds.
    pub(crate) fn new(most: u32) -> Self {
        Self { most, entries: HashMap::new() }
    }

    /// The answer, with its times counted down.
    pub(crate) fn get(&mut self, name: &Name, kind: RecordType) -> Option<Message> {
        let key = (name.to_lowercase(), kind);
        let entry = self.entries.get(&key)?;
        let age = entry.stored.elapsed();
        if age >= entry.lifetime {
            self.entries.remove(&key);
            return None;
        }
        let mut message = Message::from_vec(&entry.bytes).ok()?;
        self.cap(&mut message, u32::try_from(age.as_secs()).unwrap_or(u32::MAX));
        Some(message)
    }

    /// Limits the times in `message` to ours, less the `aged` seconds it has been here.
    pub(crate) fn cap(&self, message: &mut Message, aged: u32) {
        let sections = [&mut message.answers, &mut message.authorities, &mut message.additionals];
        for record in sections.into_iter().flatten() {
            record.ttl = record.ttl.min(self.most).saturating_sub(aged);
        }
    }

    /// Keeps `answer` when it may be kept.
    pub(crate) fn put(&mut self, name: &Name, kind: RecordType, answer: &Message) {
        let seconds = lifetime(answer).min(self.most);
        if seconds == 0 {
            return;
        }
        let Ok(bytes) = answer.to_vec() else { return };
        if self.entries.len() >= CAPACITY {
            self.entries.retain(|_, e| e.stored.elapsed() < e.lifetime);
            if self.entries.len() >= CAPACITY {
                let oldest = self.entries.iter().min_by_key(|(_, e)| e.stored).map(|(k, _)| k.clone());
                oldest.map(|key| self.entries.remove(&key));
            }
        }
        let lifetime = Duration::from_secs(seconds.into());
        self.entries.insert((name.to_lowercase(), kind), Entry { bytes, stored: Instant::now(), lifetime });
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }
}

/// For how many seconds an answer holds; 0 for one that must not be kept.
fn lifetime(answer: &Message) -> u32 {
    if answer.metadata.truncation {
        return 0;
    }
    match answer.metadata.response_code {
        ResponseCode::NoError if !answer.answers.is_empty() => {
            answer.answers.iter().map(|r| r.ttl).min().unwrap_or(0)
        }
        // A "no" holds as long as its SOA says.
        ResponseCode::NoError | ResponseCode::NXDomain => answer
            .authorities
            .iter()
            .find_map(|r| match &r.data {
                RData::SOA(soa) => Some(r.ttl.min(soa.minimum)),
                _ => None,
            })
            .unwrap_or(0),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use hickory_proto::op::{MessageType, OpCode, Query};
    use hickory_proto::rr::Record;
    use hickory_proto::rr::rdata::A;

    use super::*;

    fn answer(ttl: u32) -> (Name, Message) {
        let name = Name::from_ascii("example.org.").unwrap();
        let mut message = Message::new(1, MessageType::Response, OpCode::Query);
        message.add_query(Query::query(name.clone(), RecordType::A));
        message.add_answer(Record::from_rdata(name.clone(), ttl, RData::A(A([192, 0, 2, 1].into()))));
        (name, message)
    }

    #[tokio::test(start_paused = true)]
    async fn times_count_down_and_end() {
        let mut cache = Cache::new(30);
        let (name, message) = answer(300);
        cache.put(&name, RecordType::A, &message);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(cache.get(&name, RecordType::A).unwrap().answers[0].ttl, 20);
        assert!(cache.get(&name, RecordType::AAAA).is_none());
        tokio::time::advance(Duration::from_secs(21)).await;
        assert!(cache.get(&name, RecordType::A).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn failures_and_cut_answers_are_not_kept() {
        let mut cache = Cache::new(30);
        let (name, mut message) = answer(300);
        message.metadata.truncation = true;
        cache.put(&name, RecordType::A, &message);
        message.metadata.truncation = false;
        message.metadata.response_code = ResponseCode::ServFail;
        cache.put(&name, RecordType::A, &message);
        assert_eq!(cache.len(), 0);
    }
}
