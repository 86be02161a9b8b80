//! Bootstrap tokens: Secrets of type `bootstrap.kubernetes.io/token` in `kube-system`.

use base64::Engine as _;
use serde_json::Value;

use crate::reader::Reader;
use crate::user::UserInfo;

/// The user of a token `<id>.<secret>`; `None` when there is no such usable token.
pub(crate) async fn user(reader: &Reader, token: &str) -> Option<UserInfo> {
    let (id, secret) = token.split_once('.')?;
    let shaped = |text: &str, len| {
        text.len() == len && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
    };
    if !shaped(id, 6) || !shaped(secret, 16) {
        return None;
    }
    let object = reader.get("", "secrets", Some("kube-system"), &format!("bootstrap-token-{id}")).await?;
    check(&object, id, secret, copepod_sys::clock::now())
}

/// Comparing digests tells nothing about where two secrets differ.
fn digest(text: &str) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, text.as_bytes()).as_ref().to_vec()
}

fn check(object: &Value, id: &str, secret: &str, now: jiff::Timestamp) -> Option<UserInfo> {
    let field = |key: &str| -> Option<String> {
        let encoded = object["data"].get(key)?.as_str()?;
        String::from_utf8(base64::engine::general_purpose::STANDARD.decode(encoded).ok()?).ok()
    };
    let usable = object["type"].as_str() == Some("bootstrap.kubernetes.io/token")
        && copepod_api::meta::deletion_timestamp(object).is_none()
        && field("token-id").as_deref() == Some(id)
        && digest(&field("token-secret")?) == digest(secret)
        && field("usage-bootstrap-authentication").as_deref() == Some("true");
    let expired = match field("expiration").map(|e| e.parse::<jiff::Timestamp>()) {
        None => false,
        Some(Ok(end)) => end <= now,
        Some(Err(_)) => true,
    };
    if !usable || expired {
        return None;
    }
    let mut groups = vec!["system:bootstrappers".to_owned()];
    let extra = field("auth-extra-groups").unwrap_or_default();
    groups.extend(extra.split(',').filter(|g| g.starts_with("system:bootstrappers:")).map(str::to_owned));
    Some(UserInfo { name: format!("system:bootstrap:{id}"), groups, ..UserInfo::default() })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_right_secret_before_its_end() {
        let b64 = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
        let mut object = json!({"type": "bootstrap.kubernetes.io/token", "data": {
            "token-id": b64("abcdef"), "token-secret": b64("0123456789abcdef"),
            "usage-bootstrap-authentication": b64("true"), "expiration": b64("2030-01-01T00:00:00Z"),
            "auth-extra-groups": b64("system:bootstrappers:x,bad")}});
        let now = "2029-01-01T00:00:00Z".parse().unwrap();
        let user = check(&object, "abcdef", "0123456789abcdef", now).unwrap();
        assert_eq!(user.groups, ["system:bootstrappers", "system:bootstrappers:x"]);
        assert!(check(&object, "abcdef", "0123456789abcdee", now).is_none());
        assert!(
            check(&object, "abcdef", "0123456789abcdef", "2031-01-01T00:00:00Z".parse().unwrap()).is_none()
        );
        object["data"].as_object_mut().unwrap().remove("usage-bootstrap-authentication");
        assert!(check(&object, "abcdef", "0123456789abcdef", now).is_none());
    }
}
