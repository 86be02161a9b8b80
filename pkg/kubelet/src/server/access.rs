//! Who asks, and whether they may: both are the API server's answers, kept for a while.

use std::collections::HashMap;
use std::time::Duration;

use copepod_client::{Client, resources};
use copepod_pki::Subject;
use http::{HeaderMap, StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::time::Instant;

/// How long answers count (upstream's webhook defaults).
const ALLOWED: Duration = Duration::from_secs(300);
const DENIED: Duration = Duration::from_secs(30);
const REVIEWED: Duration = Duration::from_secs(120);
/// Most answers kept of each kind.
const MOST: usize = 1024;

/// Somebody known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) groups: Vec<String>,
}

/// A refusal: status and text.
pub(super) type Refusal = (StatusCode, String);

type Decisions<K, V> = Mutex<HashMap<K, (V, Instant)>>;

pub(super) struct Access {
    client: Option<Client>,
    node: String,
    tokens: Decisions<[u8; 32], User>,
    decisions: Decisions<(User, &'static str, &'static str), bool>,
}

impl Access {
    pub(super) fn new(client: Option<Client>, node: &str) -> Self {
        Self { client, node: node.to_owned(), tokens: Mutex::default(), decisions: Mutex::default() }
    }

    /// Lets a request through or says why not.
    pub(super) async fn check(
        &self,
        certificate: Option<&Subject>,
        headers: &HeaderMap,
        verb: &'static str,
        subresources: &'static [&'static str],
    ) -> Result<(), Refusal> {
        let user = self.authenticate(certificate, headers).await?;
        for subresource in subresources {
            if self.authorize(&user, verb, subresource).await? {
                return Ok(());
            }
        }
        let text = format!(
            "Forbidden (user={}, verb={verb}, resource=nodes, subresource(s)=[{}])",
            user.name,
            subresources.join(" ")
        );
        Err((StatusCode::FORBIDDEN, text))
    }

    async fn authenticate(
        &self,
        certificate: Option<&Subject>,
        headers: &HeaderMap,
    ) -> Result<User, Refusal> {
        let unauthorized = || (StatusCode::UNAUTHORIZED, "Unauthorized".to_owned());
        if let Some(subject) = certificate {
            let mut groups = subject.groups.clone();
            groups.push("system:authenticated".to_owned());
            return Ok(User { name: subject.user.clone(), groups });
        }
        let bearer = headers
            .get(header::AUTHORIZATION)
            .and_then(|v| v.to_str().ok())
            .and_then(|v| v.strip_prefix("Bearer "));
        let token = bearer.map(str::trim).filter(|t| !t.is_empty()).ok_or_else(unauthorized)?;
        let key: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        if let Some(user) = fresh(&self.tokens, &key) {
            return Ok(user);
        }
        let client = self.client.as_ref().ok_or_else(unauthorized)?;
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
        });
        let answer: Value = client
            .create(&resources::TOKEN_REVIEWS.collection(""), &review)
            .await
            .map_err(|e| (StatusCode::UNAUTHORIZED, copepod_client::chain(&e)))?;
        if answer["status"]["authenticated"] != true {
            return Err(unauthorized());
        }
        let user = &answer["status"]["user"];
        let groups =
            user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
        let user =
            User { name: user["username"].as_str().unwrap_or_default().to_owned(), groups: groups.collect() };
        keep(&self.tokens, key, user.clone(), REVIEWED);
        Ok(user)
    }

    async fn authorize(
        &self,
        user: &User,
        verb: &'static str,
        subresource: &'static str,
    ) -> Result<bool, Refusal> {
        let Some(client) = &self.client else {
            // Without an API server nobody can be asked: the group that no authorizer refuses is the only one let in.
            return Ok(user.groups.iter().any(|g| g == "system:masters"));
        };
        let key = (user.clone(), verb, subresource);
        if let Some(allowed) = fresh(&self.decisions, &key) {
            return Ok(allowed);
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name,
                "groups": user.groups,
                "resourceAttributes": {
                    "version": "v1", "resource": "nodes", "subresource": subresource, "name": self.node, "verb": verb,
                },
            },
        });
        let answer: Value = client
            .create(&resources::SUBJECT_ACCESS_REVIEWS.collection(""), &review)
            .await
            .map_err(|e| {
            let why = copepod_client::chain(&e);
            (StatusCode::INTERNAL_SERVER_ERROR, format!("Authorization error (user={}): {why}", user.name))
        })?;
        let allowed = answer["status"]["allowed"] == true;
        keep(&self.decisions, key, allowed, if allowed { ALLOWED } else { DENIED });
        Ok(allowed)
    }
}

fn fresh<K: Eq + std::hash::Hash, V: Clone>(cache: &Decisions<K, V>, key: &K) -> Option<V> {
    let cache = cache.lock();
    cache.get(key).filter(|(_, until)| Instant::now() < *until).map(|(value, _)| value.clone())
}

fn keep<K: Eq + std::hash::Hash, V>(cache: &Decisions<K, V>, key: K, value: V, long: Duration) {
    let mut cache = cache.lock();
    let now = Instant::now();
    if cache.len() >= MOST {
        cache.retain(|_, (_, until)| now < *until);
    }
    if cache.len() < MOST {
        cache.insert(key, (value, now + long));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_an_api_server_only_masters_enter() {
        let access = Access::new(None, "n1");
        let none = HeaderMap::new();
        let check = |certificate: Option<Subject>| {
            let (access, none) = (&access, &none);
            async move { access.check(certificate.as_ref(), none, "get", &["pods", "proxy"]).await }
        };
        assert_eq!(check(None).await.unwrap_err().0, StatusCode::UNAUTHORIZED);
        let subject = |group: &str| Some(Subject { user: "me".to_owned(), groups: vec![group.to_owned()] });
        let refused = check(subject("dev")).await.unwrap_err();
        assert_eq!(refused.1, "Forbidden (user=me, verb=get, resource=nodes, subresource(s)=[pods proxy])");
        assert!(check(subject("system:masters")).await.is_ok());
    }
}
