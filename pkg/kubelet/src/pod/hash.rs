//! Upstream's container hash, so that either kubelet adopts the other's containers.

use k8s_openapi::api::core::v1::Container;

/// Hash of the fields whose change recreates a running container: name and image.
///
/// The bytes hashed are those of upstream's dumper: the JSON `{"image":…,"name":…}` printed as a
/// Go byte slice. FNV-1a, 32 bits.
#[must_use]
pub fn container_hash(container: &Container) -> u32 {
    let json = serde_json::json!({ "image": container.image.as_deref().unwrap_or_default(), "name": container.name });
    let bytes = escape_html(&json.to_string());
    let mut text = String::from("([]uint8)[");
    for (index, byte) in bytes.bytes().enumerate() {
        if index > 0 {
            text.push(' ');
        }
        text.push_str(&byte.to_string());
    }
    text.push(']');
    text.bytes().fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The annotation's form of [`container_hash`].
#[must_use]
pub fn container_hash_text(container: &Container) -> String {
    format!("{:x}", container_hash(container))
}

/// Go's JSON encoder writes `<`, `>` and `&` as escapes.
fn escape_html(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_is_upstreams() {
        let container = Container {
            name: "test_container".to_owned(),
            image: Some("foo/image:v1".to_owned()),
            args: Some(vec!["/bin/sh".to_owned()]),
            ..Container::default()
        };
        assert_eq!(container_hash(&container), 0x8e45_cbd0);
    }

    #[test]
    fn image_changes_hash() {
        let mut container =
            Container { name: "a".to_owned(), image: Some("x:1".to_owned()), ..Container::default() };
        let before = container_hash_text(&container);
        container.image = Some("x:2".to_owned());
        assert_ne!(before, container_hash_text(&container));
    }
}
