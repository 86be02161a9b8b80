//! Service-account tokens for volumes, kept until they have used up most of their life.

use std::collections::HashMap;
use std::time::Duration;

use copepod_client::{Client, resources};
use copepod_volume::{TokenRequest, VolumeError};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// A token is renewed when a fifth of its life, or of a day, is left (upstream's rule).
const LONGEST_USE: Duration = Duration::from_secs(24 * 60 * 60);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    uid: String,
    account: String,
    audience: String,
    expiration_seconds: i64,
}

#[derive(Debug, Clone)]
struct Token {
    text: String,
    renew_at: Timestamp,
}

#[derive(Debug)]
pub(super) struct TokenCache {
    client: Client,
    tokens: Mutex<HashMap<Key, Token>>,
}

impl TokenCache {
    pub(super) fn new(client: Client) -> Self {
        Self { client, tokens: Mutex::default() }
    }

    pub(super) fn forget(&self, uid: &str) {
        self.tokens.lock().retain(|key, _| key.uid != uid);
    }

    pub(super) async fn get(&self, pod: &Pod, request: &TokenRequest) -> Result<String, VolumeError> {
        let account = pod.spec.as_ref().and_then(|s| s.service_account_name.clone()).unwrap_or_default();
        let key = Key {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            account,
            audience: request.audience.clone(),
            expiration_seconds: request.expiration_seconds,
        };
        let now = copepod_sys::clock::now();
        let known = self.tokens.lock().get(&key).cloned();
        if let Some(token) = known.as_ref().filter(|token| now < token.renew_at) {
            return Ok(token.text.clone());
        }
        match self.request(pod, &key, now).await {
            Ok(token) => {
                let text = token.text.clone();
                self.tokens.lock().insert(key, token);
                Ok(text)
            }
            // An old token may still be good for a while: better than none, and the next sync asks again.
            Err(error) => known.map(|token| token.text).ok_or(error),
        }
    }

    async fn request(&self, pod: &Pod, key: &Key, now: Timestamp) -> Result<Token, VolumeError> {
        let meta = &pod.metadata;
        let audiences: Vec<&str> =
            Some(key.audience.as_str()).filter(|a| !a.is_empty()).into_iter().collect();
        let body = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": audiences,
                "expirationSeconds": key.expiration_seconds,
                "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid},
            },
        });
        let namespace = meta.namespace.as_deref().unwrap_or_default();
        let target = resources::SERVICE_ACCOUNTS.object(namespace, &key.account).subresource("token");
        let answer: Value =
            self.client.create(&target, &body).await.map_err(|e| {
                VolumeError::Api(format!("failed to fetch token: {}", copepod_client::chain(&e)))
            })?;
        let text = answer["status"]["token"].as_str().unwrap_or_default().to_owned();
        let expires =
            answer["status"]["expirationTimestamp"].as_str().and_then(|t| t.parse::<Timestamp>().ok());
        let (false, Some(expires)) = (text.is_empty(), expires) else {
            return Err(VolumeError::Api("failed to fetch token: the answer holds none".to_owned()));
        };
        Ok(Token { text, renew_at: renew_at(now, expires) })
    }
}

fn renew_at(now: Timestamp, expires: Timestamp) -> Timestamp {
    let life = Duration::try_from(expires - now).unwrap_or_default();
    let use_for = (life * 4 / 5).min(LONGEST_USE);
    now.checked_add(use_for).unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn renewed_after_four_fifths_or_a_day() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let at = |hours: i64| renew_at(now, now + jiff::SignedDuration::from_hours(hours)).to_string();
        assert_eq!(at(1), "2026-11-30T12:48:00Z");
        assert_eq!(at(24 * 365), "2026-12-01T12:00:00Z");
        assert_eq!(renew_at(now, now - jiff::SignedDuration::from_hours(1)), now);
    }
}
