//! How one pod certificate comes to be and stays fresh: the pure part.
//!
//! `initial → waiting → fresh → renewing → fresh …`; a denial or a failure is final for the pod. What is remembered
//! lives as long as this process: after a restart a new certificate is asked for, as upstream does.

use std::time::Duration;

use copepod_api::field::quote;
use copepod_volume::Credential;
use jiff::Timestamp;
use serde::Deserialize;

/// A request that the cache does not show for this long (plus jitter) was deleted by somebody.
pub(super) const ABANDON: Duration = Duration::from_secs(10 * 60);
/// A certificate this long after its time of renewal is overdue.
const OVERDUE: Duration = Duration::from_secs(10 * 60);

/// What is read of a PodCertificateRequest.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RequestView {
    pub(super) spec: RequestSpec,
    pub(super) status: RequestStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct RequestSpec {
    #[serde(rename = "podUID")]
    pub(super) pod_uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RequestStatus {
    conditions: Vec<RequestCondition>,
    certificate_chain: String,
    begin_refresh_at: Option<Timestamp>,
    not_after: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RequestCondition {
    #[serde(rename = "type")]
    kind: String,
    reason: String,
    message: String,
}

/// A request under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) key: String,
    pub(super) request: String,
    pub(super) abandon_at: Timestamp,
}

/// A certificate in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Issued {
    credential: Credential,
    renew_at: Timestamp,
    not_after: Timestamp,
    told_overdue: bool,
    told_expired: bool,
}

/// Where a projection's certificate is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum State {
    /// Nothing was asked for.
    #[default]
    Initial,
    /// The first one was asked for.
    Waiting(Pending),
    /// One is in use.
    Fresh(Issued),
    /// One is in use and the next was asked for.
    Renewing(Issued, Pending),
    /// The signer said no, or could not: why.
    Refused(String),
}

/// Something to tell about the pod: reason and message of a warning.
pub(super) type Notice = (&'static str, String);

impl State {
    /// The request under way.
    pub(super) fn request(&self) -> Option<&str> {
        match self {
            Self::Waiting(pending) | Self::Renewing(_, pending) => Some(&pending.request),
            _ => None,
        }
    }

    /// Whether a request has to be made now.
    pub(super) fn wants_request(&self, now: Timestamp) -> bool {
        match self {
            Self::Initial => true,
            Self::Fresh(issued) => now >= issued.renew_at,
            _ => false,
        }
    }

    /// A request was made.
    pub(super) fn requested(self, pending: Pending) -> Self {
        match self {
            Self::Fresh(issued) | Self::Renewing(issued, _) => Self::Renewing(issued, pending),
            _ => Self::Waiting(pending),
        }
    }

    /// Takes over what the request under way, `name` as `namespace/name`, has come to; `jitter` spreads renewals.
    pub(super) fn observe(
        self,
        name: &str,
        seen: Option<&RequestView>,
        now: Timestamp,
        jitter: Duration,
    ) -> (Self, Vec<Notice>) {
        let (issued, pending) = match self {
            Self::Waiting(pending) => (None, pending),
            Self::Renewing(issued, pending) => (Some(issued), pending),
            Self::Fresh(issued) => {
                let (issued, notices) = issued.tell(now);
                return (Self::Fresh(issued), notices);
            }
            other => return (other, Vec::new()),
        };
        let keep = |pending: Pending, issued: Option<Issued>| match issued {
            Some(issued) => {
                let (issued, notices) = issued.tell(now);
                (Self::Renewing(issued, pending), notices)
            }
            None => (Self::Waiting(pending), Vec::new()),
        };
        let Some(seen) = seen else {
            return if now > pending.abandon_at {
                (issued.map_or(Self::Initial, Self::Fresh), Vec::new())
            } else {
                keep(pending, issued)
            };
        };
        let final_word = seen.status.conditions.iter().find_map(|c| match c.kind.as_str() {
            "Denied" => Some(refused("Denied", "denied", name, c)),
            "Failed" => Some(refused("Failed", "failed", name, c)),
            "Issued" => Some((Self::Fresh(Issued::of(&pending, &seen.status, now, jitter)), Vec::new())),
            _ => None,
        });
        final_word.unwrap_or_else(|| keep(pending, issued))
    }

    /// The credential, or why there is none.
    pub(super) fn credential(&self) -> Result<Credential, String> {
        match self {
            Self::Initial | Self::Waiting(_) => Err("credential bundle is not issued yet".to_owned()),
            Self::Fresh(issued) | Self::Renewing(issued, _) => Ok(issued.credential.clone()),
            Self::Refused(why) => Err(why.clone()),
        }
    }
}

fn refused(kind: &'static str, word: &str, name: &str, condition: &RequestCondition) -> (State, Vec<Notice>) {
    let (reason, message) = (quote(&condition.reason), quote(&condition.message));
    let was = if kind == "Denied" { "was denied" } else { "failed" };
    let text = format!("PodCertificateRequest {name} {was}, reason={reason}, message={message}");
    let why = format!("PodCertificateRequest was permanently {word}: reason={reason} message={message}");
    (State::Refused(why), vec![(kind, text)])
}

impl Issued {
    fn of(pending: &Pending, status: &RequestStatus, now: Timestamp, jitter: Duration) -> Self {
        let blocks = copepod_pki::decode_blocks(&status.certificate_chain);
        let chain = copepod_pki::encode_certificates(&blocks);
        let renew_at = status.begin_refresh_at.unwrap_or(now);
        Self {
            credential: Credential { key: pending.key.clone(), chain },
            renew_at: renew_at.checked_add(jitter).unwrap_or(renew_at),
            not_after: status.not_after.unwrap_or(now),
            told_overdue: false,
            told_expired: false,
        }
    }

    /// Says once that the certificate is overdue and once that it is over.
    fn tell(mut self, now: Timestamp) -> (Self, Vec<Notice>) {
        let mut notices = Vec::new();
        let overdue = self.renew_at.checked_add(OVERDUE).is_ok_and(|limit| now > limit);
        if overdue && !self.told_overdue {
            notices.push(("CertificateOverdueForRefresh", "PodCertificate refresh overdue".to_owned()));
            self.told_overdue = true;
        }
        if now > self.not_after && !self.told_expired {
            notices.push(("CertificateExpired", "PodCertificate expired".to_owned()));
            self.told_expired = true;
        }
        (self, notices)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn view(status: Value) -> RequestView {
        serde_json::from_value(json!({"spec": {"podUID": "u"}, "status": status})).unwrap()
    }

    fn pending(request: &str) -> Pending {
        Pending { key: format!("key of {request},"), request: request.to_owned(), abandon_at: at(600) }
    }

    fn issued() -> RequestView {
        view(json!({
            "conditions": [{"type": "Issued", "reason": "r", "message": "m"}],
            "certificateChain": "x\n-----BEGIN CERTIFICATE-----\nAAEC\n-----END CERTIFICATE-----\n",
            "beginRefreshAt": "1970-01-01T00:30:00Z", "notAfter": "1970-01-01T01:00:00Z"
        }))
    }

    fn look(state: State, seen: Option<&RequestView>, now: i64) -> (State, Vec<Notice>) {
        state.observe("d/req", seen, at(now), Duration::from_secs(10))
    }

    #[test]
    fn a_certificate_is_asked_for_once_used_and_renewed() {
        let state = State::default();
        assert!(state.wants_request(at(0)));
        let (state, _) = look(state.requested(pending("one")), Some(&view(json!({}))), 5);
        assert!(!state.wants_request(at(5)));
        assert_eq!(state.credential().unwrap_err(), "credential bundle is not issued yet");
        let (state, notices) = look(state, Some(&issued()), 6);
        assert!(notices.is_empty() && !state.wants_request(at(1809)) && state.wants_request(at(1810)));
        let credential = state.credential().unwrap();
        assert_eq!(credential.key, "key of one,");
        assert!(credential.chain.starts_with("-----BEGIN CERTIFICATE-----\nAAEC\n"));
        let state = state.requested(pending("two"));
        assert_eq!(state.request(), Some("two"));
        assert_eq!(
            state.credential().unwrap().key,
            "key of one,",
            "the old one is used until the new is there"
        );
        let (state, notices) = look(state, Some(&view(json!({}))), 3601);
        let reasons: Vec<_> = notices.iter().map(|n| n.0).collect();
        assert_eq!(reasons, ["CertificateOverdueForRefresh", "CertificateExpired"]);
        let (state, notices) = look(state, Some(&view(json!({}))), 3602);
        assert!(notices.is_empty(), "told once");
        assert_eq!(look(state, Some(&issued()), 3603).0.credential().unwrap().key, "key of two,");
    }

    #[test]
    fn a_deleted_request_is_made_again_and_a_denial_is_final() {
        let waiting = State::default().requested(pending("one"));
        let (still, _) = look(waiting.clone(), None, 600);
        assert_eq!(still, waiting, "the cache may lag");
        assert_eq!(look(still, None, 601).0, State::Initial);
        let denied =
            view(json!({"conditions": [{"type": "Denied", "reason": "No", "message": "not \"you\""}]}));
        let (state, notices) = look(waiting, Some(&denied), 7);
        assert_eq!(
            state.credential().unwrap_err(),
            "PodCertificateRequest was permanently denied: reason=\"No\" message=\"not \\\"you\\\"\""
        );
        assert_eq!(notices[0].0, "Denied");
        assert!(notices[0].1.starts_with("PodCertificateRequest d/req was denied, reason=\"No\""));
        assert!(!state.wants_request(at(9999)));
    }
}
