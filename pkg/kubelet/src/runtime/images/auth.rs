//! Registry credentials out of docker configurations.

use base64::Engine;
use copepod_cri::v1::AuthConfig;
use serde_json::Value;

use super::reference::is_host;

/// Names of Docker Hub in images and in configurations.
const HUB: &[&str] = &["docker.io", "index.docker.io", "registry-1.docker.io"];

/// Credentials of `configs` that fit `image`, longest match first.
#[must_use]
pub fn for_image(configs: &[Value], image: &str) -> Vec<AuthConfig> {
    let name = image.split('@').next().unwrap_or(image);
    let path = match name.split_once('/') {
        Some((host, rest)) if is_host(host) => format!("{host}/{rest}"),
        Some(_) => format!("docker.io/{name}"),
        None => format!("docker.io/library/{name}"),
    };
    let mut found: Vec<(usize, AuthConfig)> = Vec::new();
    for config in configs {
        let auths = config.get("auths").unwrap_or(config);
        for (registry, entry) in auths.as_object().into_iter().flatten() {
            let key = normalise(registry);
            let fits =
                path.strip_prefix(&key).is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ':']));
            if let (true, Some(auth)) = (fits || wildcard(&key, &path), credentials(entry)) {
                found.push((key.len(), auth));
            }
        }
    }
    found.sort_by_key(|(length, _)| std::cmp::Reverse(*length));
    found.into_iter().map(|(_, auth)| auth).collect()
}

/// A configuration's registry without scheme, API version and aliases.
fn normalise(registry: &str) -> String {
    let bare = registry.trim_start_matches("https://").trim_start_matches("http://").trim_end_matches('/');
    let bare = bare.trim_end_matches("/v1").trim_end_matches("/v2");
    let (host, rest) = bare.split_once('/').map_or((bare, ""), |(h, r)| (h, r));
    let host = if HUB.contains(&host) { "docker.io" } else { host };
    if rest.is_empty() { host.to_owned() } else { format!("{host}/{rest}") }
}

/// `*.example.com` fits one label of the host.
fn wildcard(key: &str, path: &str) -> bool {
    let (Some(suffix), Some((host, _))) = (key.strip_prefix("*."), path.split_once('/')) else {
        return false;
    };
    host.split_once('.').is_some_and(|(_, rest)| rest == suffix)
}

fn credentials(entry: &Value) -> Option<AuthConfig> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let mut auth = AuthConfig {
        username: text("username"),
        password: text("password"),
        identity_token: text("identitytoken"),
        registry_token: text("registrytoken"),
        ..Default::default()
    };
    if auth.username.is_empty() {
        let raw = base64::engine::general_purpose::STANDARD.decode(text("auth")).ok()?;
        let pair = String::from_utf8(raw).ok()?;
        if let Some((user, password)) = pair.split_once(':') {
            auth.username = user.to_owned();
            auth.password = password.trim_end_matches('\0').to_owned();
        }
    }
    let empty = auth.username.is_empty() && auth.identity_token.is_empty() && auth.registry_token.is_empty();
    (!empty).then_some(auth)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fitting_entry_is_found() {
        let config = serde_json::json!({"auths": {
            "https://index.docker.io/v1/": {"auth": "dTpw"},
            "lan:5000": {"username": "a", "password": "b"},
            "lan:5000/team": {"username": "t", "password": "t"},
            "*.example.com": {"username": "w", "password": "w"}
        }});
        let names = |image| -> Vec<String> {
            for_image(std::slice::from_ref(&config), image).into_iter().map(|a| a.username).collect()
        };
        assert_eq!(names("busybox:1"), ["u"]);
        assert_eq!(names("lan:5000/team/x:1"), ["t", "a"]);
        assert_eq!(names("lan:5000/x"), ["a"]);
        assert_eq!(names("r.example.com/x"), ["w"]);
        assert!(names("quay.io/x").is_empty());
    }
}
