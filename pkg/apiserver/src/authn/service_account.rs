//! ServiceAccount tokens: made by TokenRequest, bound to an object, void when the object goes
//! (`k8s.io/kubernetes/pkg/serviceaccount`).

use std::sync::OnceLock;

use copepod_api::{ApiError, ApiResult, meta};
use copepod_pki::jwt::{self, PublicKey, SigningKey, TokenKeyError};
use copepod_registry::{RequestContext, TokenIssuer};
use futures::future::BoxFuture;
use serde_json::{Map, Value, json};

use crate::reader::Reader;
use crate::user::{self, UserInfo};

/// Clocks may differ by this many seconds.
const LEEWAY: i64 = 60;
/// Tokens that kubelets ask for with this lifetime are made to live for a year, with a warning after it.
const WARN_ONLY_SECONDS: i64 = 60 * 60 + 7;
const EXTENDED_SECONDS: i64 = 365 * 24 * 60 * 60;

/// Signs and verifies ServiceAccount tokens.
#[derive(Debug)]
pub(crate) struct TokenAuthority {
    /// Issuers whose tokens are accepted; the first signs.
    pub issuers: Vec<String>,
    /// Audiences of this server.
    pub audiences: Vec<String>,
    /// Keys that verify.
    pub keys: Vec<PublicKey>,
    /// The key that signs; `None` serves no TokenRequest.
    pub signing: Option<SigningKey>,
    /// Whether kubelets' tokens live for a year (`--service-account-extend-token-expiration`).
    pub extend_expiration: bool,
    /// Reads the objects that tokens are bound to; set once the registry, which asks this for tokens, is open.
    pub reader: OnceLock<Reader>,
}

impl TokenIssuer for TokenAuthority {
    fn issue<'a>(
        &'a self,
        _cx: &'a RequestContext,
        account: &'a Value,
        request: Value,
        bound: Option<&'a Value>,
    ) -> BoxFuture<'a, ApiResult<Value>> {
        Box::pin(self.answer(account, request, bound))
    }
}

/// What a token is for.
#[derive(Debug)]
struct TokenSpec<'a> {
    /// The ServiceAccount.
    account: &'a Value,
    /// The object it is bound to: its claim name (`pod`, `secret`, `node`) and the object.
    bound: Option<(&'a str, &'a Value)>,
    /// The node of a bound pod.
    node: Option<&'a Value>,
    /// Audiences; never empty.
    audiences: &'a [String],
    /// Seconds it lives.
    expiration_seconds: i64,
}

impl TokenAuthority {
    /// Fills in what a checked TokenRequest left out, and its token.
    async fn answer(&self, account: &Value, mut request: Value, bound: Option<&Value>) -> ApiResult<Value> {
        let metadata = meta::metadata_mut(&mut request);
        metadata.insert("uid".to_owned(), json!(meta::uid(account)));
        let now = copepod_sys::clock::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        metadata.insert("creationTimestamp".to_owned(), json!(now));
        let mut audiences: Vec<String> = request["spec"]["audiences"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect();
        if audiences.is_empty() {
            audiences.clone_from(&self.audiences);
            request["spec"]["audiences"] = json!(audiences);
        }
        let kind =
            request["spec"]["boundObjectRef"]["kind"].as_str().unwrap_or_default().to_ascii_lowercase();
        let node = match bound
            .and_then(|b| b["spec"]["nodeName"].as_str())
            .filter(|n| kind == "pod" && !n.is_empty())
        {
            Some(name) => {
                let found = match self.reader.get() {
                    Some(reader) => reader.get("", "nodes", None, name).await,
                    None => None,
                };
                // A node that is gone is still named, without a UID.
                Some(found.unwrap_or_else(|| json!({"metadata": {"name": name}})))
            }
            None => None,
        };
        let spec = TokenSpec {
            account,
            bound: bound.map(|object| (kind.as_str(), object)),
            node: node.as_ref(),
            audiences: &audiences,
            expiration_seconds: request["spec"]["expirationSeconds"].as_i64().unwrap_or(3600),
        };
        let failed = |e| ApiError::internal(format!("failed to generate token: {e}"));
        let (token, expires) = self.issue_token(&spec).map_err(failed)?;
        let expires = jiff::Timestamp::from_second(expires).unwrap_or_default();
        request["status"] = json!({"token": token, "expirationTimestamp": expires.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()});
        Ok(request)
    }

    /// Signs a token. Returns it with the second at which it expires for the client.
    fn issue_token(&self, spec: &TokenSpec<'_>) -> Result<(String, i64), TokenKeyError> {
        let now = copepod_sys::clock::now().as_second();
        let own = spec.audiences.iter().all(|a| self.audiences.contains(a));
        let extend = self.extend_expiration
            && own
            && spec.expiration_seconds == WARN_ONLY_SECONDS
            && spec.bound.is_some_and(|(kind, _)| kind == "pod");
        let lifetime = if extend { EXTENDED_SECONDS } else { spec.expiration_seconds };
        let mut kubernetes = Map::new();
        let reference = |o: &Value| json!({ "name": meta::name(o), "uid": meta::uid(o) });
        kubernetes.insert("namespace".to_owned(), json!(meta::namespace(spec.account)));
        kubernetes.insert("serviceaccount".to_owned(), reference(spec.account));
        if let Some((kind, object)) = spec.bound {
            kubernetes.insert(kind.to_owned(), reference(object));
        }
        if let Some(node) = spec.node {
            kubernetes.insert("node".to_owned(), reference(node));
        }
        if extend {
            kubernetes.insert("warnafter".to_owned(), json!(now + spec.expiration_seconds));
        }
        let subject =
            user::service_account_user(meta::namespace(spec.account), meta::name(spec.account), "").name;
        let claims = json!({
            "aud": spec.audiences, "exp": now + lifetime, "iat": now, "nbf": now,
            "iss": self.issuers.first().map_or("", String::as_str),
            "jti": uuid::Uuid::new_v4().to_string(), "sub": subject, "kubernetes.io": kubernetes,
        });
        let key = self.signing.as_ref().ok_or(TokenKeyError::Sign)?;
        Ok((key.sign(&claims)?, now + spec.expiration_seconds))
    }

    /// The user of a token and the audiences it shares with `wanted` (this server's when empty).
    pub(crate) async fn authenticate(
        &self,
        token: &str,
        wanted: &[String],
    ) -> Result<(UserInfo, Vec<String>), String> {
        let unverified = jwt::unverified_claims(token).ok_or_else(|| super::NO_TOKEN.to_owned())?;
        let issuer = unverified.get("iss").and_then(Value::as_str).unwrap_or_default();
        if !self.issuers.iter().any(|i| i == issuer) {
            return Err(format!("token issuer {issuer:?} is invalid"));
        }
        let claims = jwt::verify(token, &self.keys).map_err(|e| e.to_string())?;
        let wanted = if wanted.is_empty() { &self.audiences } else { wanted };
        let has = audiences(&claims);
        let shared: Vec<String> = wanted.iter().filter(|w| has.contains(&w.as_str())).cloned().collect();
        if shared.is_empty() {
            return Err(format!(
                "token audiences {} is invalid for the target audiences {}",
                shown(&has),
                shown(wanted)
            ));
        }
        check_times(&claims, copepod_sys::clock::now().as_second())?;
        Ok((self.user(&claims).await?, shared))
    }

    async fn user(&self, claims: &Value) -> Result<UserInfo, String> {
        let private = &claims["kubernetes.io"];
        let namespace = private["namespace"].as_str().unwrap_or_default();
        let name = private["serviceaccount"]["name"].as_str().unwrap_or_default();
        let account = self.bound(private, "serviceaccount", "serviceaccounts", Some(namespace)).await?;
        let Some(account) = account else { return Err("token names no service account".to_owned()) };
        let mut user = user::service_account_user(namespace, name, meta::uid(&account));
        let mut extra = |key: &str, value: &Value| {
            if let Some(text) = value.as_str().filter(|t| !t.is_empty()) {
                user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![text.to_owned()]);
            }
        };
        if let Some(id) = claims["jti"].as_str() {
            extra("credential-id", &json!(format!("JTI={id}")));
        }
        self.bound(private, "secret", "secrets", Some(namespace)).await?;
        if self.bound(private, "pod", "pods", Some(namespace)).await?.is_some() {
            extra("pod-name", &private["pod"]["name"]);
            extra("pod-uid", &private["pod"]["uid"]);
        } else {
            // The node of a pod-bound token is a fact about the pod, not a condition.
            self.bound(private, "node", "nodes", None).await?;
        }
        extra("node-name", &private["node"]["name"]);
        extra("node-uid", &private["node"]["uid"]);
        Ok(user)
    }

    /// The live object of a claim, `None` when the token has no such claim, an error when it is gone or another.
    async fn bound(
        &self,
        private: &Value,
        claim: &str,
        resource: &str,
        ns: Option<&str>,
    ) -> Result<Option<Value>, String> {
        let reference = &private[claim];
        let Some(name) = reference["name"].as_str() else { return Ok(None) };
        let reader = self.reader.get().ok_or_else(|| "the server is starting".to_owned())?;
        let object = reader
            .get("", resource, ns, name)
            .await
            .ok_or_else(|| "service account token has been invalidated".to_owned())?;
        let uid = reference["uid"].as_str().unwrap_or_default();
        if meta::uid(&object) != uid {
            return Err(format!("{claim} UID ({}) does not match claim ({uid})", meta::uid(&object)));
        }
        let deleted = meta::deletion_timestamp(&object).and_then(|t| t.parse::<jiff::Timestamp>().ok());
        if deleted.is_some_and(|t| t.as_second() < copepod_sys::clock::now().as_second() - LEEWAY) {
            return Err("service account token has been invalidated".to_owned());
        }
        Ok(Some(object))
    }
}

fn audiences(claims: &Value) -> Vec<&str> {
    match &claims["aud"] {
        Value::String(one) => vec![one.as_str()],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn check_times(claims: &Value, now: i64) -> Result<(), String> {
    let time = |claim: &str| claims[claim].as_i64();
    if time("exp").is_none_or(|t| now - LEEWAY > t) {
        return Err("service account token has expired".to_owned());
    }
    if time("nbf").is_some_and(|t| now + LEEWAY < t) {
        return Err("service account token is not valid yet".to_owned());
    }
    if time("iat").is_some_and(|t| now + LEEWAY < t) {
        return Err("service account token is issued in the future".to_owned());
    }
    Ok(())
}

/// A list of texts as Go prints it.
fn shown(list: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = list.iter().map(|text| copepod_api::field::quote(text.as_ref())).collect();
    format!("[{}]", quoted.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_a_minute_of_leeway() {
        let claims = json!({"exp": 1000, "nbf": 100, "iat": 100});
        assert!(check_times(&claims, 1060).is_ok());
        assert!(check_times(&claims, 1061).unwrap_err().contains("expired"));
        assert!(check_times(&claims, 39).unwrap_err().contains("not valid yet"));
        assert!(check_times(&json!({}), 5).is_err());
    }
}
