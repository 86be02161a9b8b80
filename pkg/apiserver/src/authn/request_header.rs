//! The front proxy's headers (`--requestheader-…`): trusted only beside a certificate of the proxy's authority.

use http::HeaderMap;

use super::certificate::PeerIdentity;
use crate::user::UserInfo;

/// Which headers carry the user, and whom to believe.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestHeader {
    /// Common names to believe; empty believes every certificate of the authority.
    pub allowed_names: Vec<String>,
    /// Headers with the user's name.
    pub username_headers: Vec<String>,
    /// Headers with the user's UID.
    pub uid_headers: Vec<String>,
    /// Headers with groups.
    pub group_headers: Vec<String>,
    /// Prefixes of headers with further facts.
    pub extra_prefixes: Vec<String>,
}

impl RequestHeader {
    /// The user that a trusted proxy names.
    pub(crate) fn user(&self, peer: &PeerIdentity, headers: &HeaderMap) -> Option<UserInfo> {
        let PeerIdentity::FrontProxy(proxy) = peer else { return None };
        let allowed = self.allowed_names.is_empty() || self.allowed_names.contains(&proxy.user.name);
        if !allowed || !proxy.valid_now() {
            return None;
        }
        let name = first(headers, &self.username_headers)?;
        let mut user = UserInfo {
            name,
            uid: first(headers, &self.uid_headers).unwrap_or_default(),
            groups: self.group_headers.iter().flat_map(|h| all(headers, h)).collect(),
            ..UserInfo::default()
        };
        for prefix in &self.extra_prefixes {
            for (key, value) in prefixed(headers, prefix) {
                user.extra.entry(key).or_default().push(value);
            }
        }
        Some(user)
    }
}

fn all<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = String> + use<'a> {
    let name = http::HeaderName::from_bytes(name.to_ascii_lowercase().as_bytes()).ok();
    let values = name.map(|name| headers.get_all(name));
    values.into_iter().flatten().filter_map(|v| v.to_str().ok()).map(str::to_owned)
}

fn first(headers: &HeaderMap, names: &[String]) -> Option<String> {
    names.iter().find_map(|name| all(headers, name).find(|v| !v.is_empty()))
}

/// Headers whose name starts with `prefix`: the decoded rest of the name, and the value.
pub(crate) fn prefixed(headers: &HeaderMap, prefix: &str) -> Vec<(String, String)> {
    let prefix = prefix.to_ascii_lowercase();
    headers
        .iter()
        .filter_map(|(name, value)| {
            let key = name.as_str().strip_prefix(&prefix)?;
            let key = percent_encoding::percent_decode_str(key).decode_utf8_lossy().into_owned();
            Some((key, value.to_str().ok()?.to_owned()))
        })
        .collect()
}
