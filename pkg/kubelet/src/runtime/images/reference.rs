//! Image references: validity and the default tag.

/// Adds `:latest` where neither tag nor digest is given.
///
/// # Errors
/// When the name is no image reference; the text is upstream's.
pub fn with_default_tag(image: &str) -> Result<String, String> {
    let invalid = |why: &str| Err(format!("couldn't parse image name {image:?}: {why}"));
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let slash = name.rfind('/').map_or(0, |i| i + 1);
    let (head, last) = name.split_at(slash);
    let (last, tag) = match last.split_once(':') {
        Some((last, tag)) => (last, Some(tag)),
        None => (last, None),
    };
    let path = format!("{head}{last}");
    let repository = match path.split_once('/') {
        Some((host, rest)) if is_host(host) => rest,
        _ => path.as_str(),
    };
    if repository.bytes().any(|b| b.is_ascii_uppercase()) {
        return invalid("invalid reference format: repository name must be lowercase");
    }
    let parts_ok = !repository.is_empty() && repository.split('/').all(is_component);
    let tag_ok = tag.is_none_or(|t| {
        !t.is_empty()
            && t.len() <= 128
            && !t.starts_with(['.', '-'])
            && t.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
    });
    let digest_ok = digest.is_none_or(|d| {
        d.split_once(':').is_some_and(|(algorithm, hex)| {
            !algorithm.is_empty() && hex.len() >= 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
        })
    });
    if !(parts_ok && tag_ok && digest_ok) {
        return invalid("invalid reference format");
    }
    Ok(if tag.is_none() && digest.is_none() { format!("{image}:latest") } else { image.to_owned() })
}

/// Whether the first path component names a registry.
#[must_use]
pub fn is_host(component: &str) -> bool {
    component == "localhost" || component.contains(['.', ':'])
}

fn is_component(part: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    edge(part.bytes().next())
        && edge(part.bytes().last())
        && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_refusals() {
        assert_eq!(with_default_tag("busybox").unwrap(), "busybox:latest");
        assert_eq!(with_default_tag("h:5000/a/b").unwrap(), "h:5000/a/b:latest");
        assert_eq!(with_default_tag("h:5000/a/b:1").unwrap(), "h:5000/a/b:1");
        let digest = format!("a@sha256:{}", "0".repeat(64));
        assert_eq!(with_default_tag(&digest).unwrap(), digest);
        assert_eq!(
            with_default_tag("BusyBox").unwrap_err(),
            "couldn't parse image name \"BusyBox\": invalid reference format: repository name must be lowercase"
        );
        for bad in ["", "a:", "a b", "a@sha256:12", "/a", "a//b"] {
            assert!(with_default_tag(bad).is_err(), "{bad:?}");
        }
    }
}
