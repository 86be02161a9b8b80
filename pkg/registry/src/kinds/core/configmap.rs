//! ConfigMaps.

use copepod_api::{FieldError, FieldPath};

use crate::kinds::at::{At, same};
use crate::kinds::checks::text;
use crate::kinds::kind::Kind;

/// ConfigMaps.
pub(crate) static KIND: Kind = Kind {
    validate,
    validate_update: Some(|new, old| {
        fixed_when_immutable(new, old, &["data", "binaryData"]);
        validate(new);
    }),
    ..Kind::PLAIN
};

/// The most that a ConfigMap or Secret holds, in bytes.
pub(crate) const MAX_SIZE: usize = 1024 * 1024;

fn validate(map: &At<'_>) {
    let (data, binary) = (map.get("data"), map.get("binaryData"));
    let mut size = 0;
    for (key, place) in data.entries() {
        text::config_key(key).into_iter().for_each(|error| place.invalid_as(key, error));
        if binary.key(key).present() {
            place.invalid_as(key, "duplicate of key present in binaryData");
        }
        size += place.str().len();
    }
    for (key, place) in binary.entries() {
        text::config_key(key).into_iter().for_each(|error| place.invalid_as(key, error));
        size += decoded_len(place.str());
    }
    if size > MAX_SIZE {
        map.push(FieldError::too_long(&FieldPath::new("[]"), MAX_SIZE));
    }
}

/// How many bytes a base64 text stands for.
pub(crate) fn decoded_len(base64: &str) -> usize {
    base64.trim_end_matches('=').len() * 3 / 4
}

/// Once `immutable` is set, neither it nor the contents change.
pub(crate) fn fixed_when_immutable(new: &At<'_>, old: &At<'_>, fields: &[&str]) {
    let why = "field is immutable when `immutable` is set";
    if !old.get("immutable").bool() {
        return;
    }
    if !new.get("immutable").bool() {
        new.get("immutable").forbidden(why);
    }
    for field in fields.iter().filter(|f| !same(new.get(f).value(), old.get(f).value())) {
        new.get(field).forbidden(why);
    }
}
