//! Texts of fixed shapes: port and variable names, keys, paths, numbers of ports and users.

use serde_json::Value;

use crate::kinds::at::At;

/// The name of a port: at most 15 of `[a-z0-9-]` with a letter.
pub(crate) fn port_name(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > 15 {
        errors.push("must be no more than 15 characters");
    }
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)");
    }
    if !name.bytes().any(|b| b.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)");
    }
    if name.contains("--") {
        errors.push("must not contain consecutive hyphens");
    }
    if name.starts_with('-') || name.ends_with('-') {
        errors.push("must not begin or end with a hyphen");
    }
    errors.into_iter().map(str::to_owned).collect()
}

/// The name of an environment variable: printable ASCII without `=`.
pub(crate) fn env_name(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    if name.chars().all(|c| matches!(c, ' '..='~') && c != '=') {
        return Vec::new();
    }
    vec![
        "a valid environment variable name must consist only of printable ASCII characters other than '='"
            .to_owned(),
    ]
}

/// A key of a ConfigMap or Secret.
pub(crate) fn config_key(key: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if key.len() > 253 {
        errors.push("must be no more than 253 characters");
    }
    if key.is_empty() || !key.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_')) {
        errors.push("a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')");
    }
    match key {
        "." => errors.push("must not be '.'"),
        ".." => errors.push("must not be '..'"),
        key if key.starts_with("..") => errors.push("must not start with '..'"),
        _ => {}
    }
    errors.into_iter().map(str::to_owned).collect()
}

/// The name of an HTTP header.
pub(crate) fn http_header(name: &str) -> Vec<String> {
    if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return Vec::new();
    }
    vec!["a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', regex used for validation is '[-A-Za-z0-9]+')".to_owned()]
}

/// A subdomain whose labels may hold underscores, as search domains of resolvers do.
pub(crate) fn subdomain_with_underscore(name: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if name.len() > 253 {
        errors.push("must be no more than 253 characters".to_owned());
    }
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let label = |label: &str| {
        let bytes = label.strip_prefix('_').unwrap_or(label).as_bytes();
        edge(bytes.first())
            && edge(bytes.last())
            && bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'_'))
    };
    if !name.split('.').all(label) {
        errors.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    errors
}

/// A subdomain that starts with `*.`.
pub(crate) fn wildcard_subdomain(name: &str) -> Vec<String> {
    let rest = name.strip_prefix("*.");
    if rest.is_some_and(|rest| copepod_api::names::dns1123_subdomain(rest).is_empty()) {
        return Vec::new();
    }
    vec!["a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\\*\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned()]
}

/// Whether a text is a number and `%`.
pub(crate) fn is_percent(text: &str) -> bool {
    text.strip_suffix('%').is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
}

/// A port number.
pub(crate) fn port(at: &At<'_>) {
    if at.present() {
        at.range(1, 65535);
    } else {
        at.invalid_as(0, "must be between 1 and 65535, inclusive");
    }
}

/// A port number or name.
pub(crate) fn port_or_name(at: &At<'_>) {
    match at.value() {
        Some(Value::String(name)) => at.invalid_all(port_name(name)),
        _ => port(at),
    }
}

/// A user or group ID.
pub(crate) fn user_id(at: &At<'_>) {
    at.range(0, i64::from(i32::MAX));
}

/// A file mode.
pub(crate) fn file_mode(at: &At<'_>) {
    if at.int().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        at.invalid("must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// A path without `..` elements.
pub(crate) fn no_backsteps(at: &At<'_>) {
    if at.str().split('/').any(|part| part == "..") {
        at.invalid("must not contain '..'");
    }
}

/// A relative path without `..` elements.
pub(crate) fn descending_path(at: &At<'_>) {
    if at.str().starts_with('/') {
        at.invalid("must be a relative path");
    }
    no_backsteps(at);
}

/// A relative path that stays clear of the atomic writer's own names.
pub(crate) fn local_path(at: &At<'_>) {
    descending_path(at);
    if at.str().starts_with("..") && !at.str().starts_with("../") {
        at.invalid("must not start with '..'");
    }
}

/// A required field that names an object by a subdomain.
pub(crate) fn need_name(at: &At<'_>) {
    if at.need() {
        at.text(copepod_api::names::dns1123_subdomain);
    }
}

/// A path below a domain, such as `acme.io/foo`.
pub(crate) fn prefixed_path(at: &At<'_>) {
    const FORM: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";
    if !at.need() {
        return;
    }
    let Some((host, path)) =
        at.str().split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        return at.invalid("must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    copepod_api::names::dns1123_subdomain(host).into_iter().for_each(|error| at.invalid_as(host, error));
    if !path.chars().all(|c| c.is_ascii_alphanumeric() || "/-._~%!$&'()*+,;=:".contains(c)) {
        at.invalid_as(path, format!("Invalid path (regex used for validation is '{FORM}')"));
    }
}

/// The name of a signer, such as `example.com/signer-name`.
pub(crate) fn signer_name(at: &At<'_>) {
    if !at.need() {
        return;
    }
    let parts: Vec<&str> = at.str().split('/').collect();
    let [domain, path] = parts.as_slice() else {
        return at.invalid("must be a fully qualified domain and path of the form 'example.com/signer-name'");
    };
    for error in copepod_api::names::dns1123_subdomain(domain) {
        at.invalid_as(*domain, format!("validating label {domain:?}: {error}"));
    }
    if domain.split('.').count() < 2 {
        at.invalid_as(*domain, "should be a domain with at least two segments separated by dots");
    }
    for error in copepod_api::names::dns1123_subdomain(path) {
        at.invalid_as(*path, format!("validating label {path:?}: {error}"));
    }
}

/// At least `min` dot-separated segments (`should be a domain with at least three segments`).
pub(crate) fn qualified_domain(at: &At<'_>, min: usize) {
    if !at.need() {
        return;
    }
    let errors = copepod_api::names::dns1123_subdomain(at.str());
    if !errors.is_empty() {
        at.invalid(errors.join(","));
    } else if at.str().split('.').count() < min {
        let word = if min == 3 { "three" } else { "two" };
        at.invalid(format!("should be a domain with at least {word} segments separated by dots"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ports_variables_and_keys() {
        assert!(port_name("http").is_empty());
        assert_eq!(port_name("80").len(), 1);
        assert_eq!(
            port_name("-A--"),
            [
                "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
                "must contain at least one letter (a-z)",
                "must not contain consecutive hyphens",
                "must not begin or end with a hyphen",
            ]
        );
        assert!(env_name("a b.C-1").is_empty());
        assert_eq!(env_name("a=b").len(), 1);
        assert!(config_key("a.b_c").is_empty());
        assert!(config_key("a b")[0].contains("(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex"));
        assert_eq!(config_key("..a"), ["must not start with '..'"]);
        assert!(is_percent("25%") && !is_percent("%") && !is_percent("a%"));
        assert!(subdomain_with_underscore("_tcp.my_svc.local").is_empty());
    }
}
