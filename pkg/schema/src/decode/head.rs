//! What a body says it is: looked at before anything else of it.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The Go type that upstream reads a body's head into, as its errors show it.
const HEAD: &str =
    r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;

/// The type information of a body; empty where it says nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeMeta {
    /// `apiVersion`
    pub api_version: String,
    /// `kind`
    pub kind: String,
}

impl TypeMeta {
    /// Reads the head of a JSON text, all of which must be JSON.
    ///
    /// # Errors
    /// Upstream's text for what is no JSON, no object, or has a head of other types.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        match serde_json::from_slice::<Head>(body) {
            Ok(head) => head.finish(),
            Err(error) => Err(unknown(&super::syntax_text(&error, body))),
        }
    }

    /// The head of a tree.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn of(value: &Value) -> Result<Self, String> {
        Head::deserialize(value).map_err(|error| unknown(&error.to_string()))?.finish()
    }
}

fn unknown(why: &str) -> String {
    format!("couldn't get version/kind; json parse error: {why}")
}

/// The head, and the first value in it that is of another type than it should be.
#[derive(Default)]
struct Head {
    found: TypeMeta,
    mismatch: Option<String>,
}

impl Head {
    fn finish(self) -> Result<TypeMeta, String> {
        match self.mismatch {
            None if self.found.api_version.matches('/').count() > 1 => {
                Err(format!("unexpected GroupVersion string: {}", self.found.api_version))
            }
            None => Ok(self.found),
            Some(why) => Err(unknown(&format!("json: cannot unmarshal {why}"))),
        }
    }

    fn no_object(what: &str) -> Self {
        Self { mismatch: Some(format!("{what} into Go value of type {HEAD}")), ..Self::default() }
    }
}

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(HeadVisitor)
    }
}

struct HeadVisitor;

impl<'de> Visitor<'de> for HeadVisitor {
    type Value = Head;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Head, E> {
        Ok(Head::default())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Head, E> {
        Ok(Head::no_object("bool"))
    }

    fn visit_i64<E>(self, _: i64) -> Result<Head, E> {
        Ok(Head::no_object("number"))
    }

    fn visit_u64<E>(self, _: u64) -> Result<Head, E> {
        Ok(Head::no_object("number"))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Head, E> {
        Ok(Head::no_object("number"))
    }

    fn visit_str<E>(self, _: &str) -> Result<Head, E> {
        Ok(Head::no_object("string"))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Head, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Head::no_object("array"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Head, A::Error> {
        let mut head = Head::default();
        while let Some(key) = entries.next_key::<std::borrow::Cow<'de, str>>()? {
            // Go reads field names in any case here.
            let (field, slot) = if key.eq_ignore_ascii_case("apiVersion") {
                ("apiVersion", &mut head.found.api_version)
            } else if key.eq_ignore_ascii_case("kind") {
                ("kind", &mut head.found.kind)
            } else {
                entries.next_value::<IgnoredAny>()?;
                continue;
            };
            match entries.next_value::<Value>()? {
                Value::String(text) => *slot = text,
                Value::Null => {}
                other => {
                    let what = crate::patch::type_name(&other);
                    head.mismatch.get_or_insert_with(|| {
                        format!("{what} into Go struct field .{field} of type string")
                    });
                }
            }
        }
        Ok(head)
    }
}

#[cfg(test)]
mod tests {
    use super::TypeMeta;

    #[test]
    fn heads_and_what_is_none() {
        let head = TypeMeta::read(br#"{"spec":{},"kind":"Pod","apiVersion":"v1","x":[1]}"#).expect("a head");
        assert_eq!((head.kind.as_str(), head.api_version.as_str()), ("Pod", "v1"));
        assert_eq!(TypeMeta::read(b"null"), Ok(TypeMeta::default()));
        let error = |body: &[u8]| TypeMeta::read(body).expect_err("no head");
        assert_eq!(error(b""), "couldn't get version/kind; json parse error: unexpected end of JSON input");
        assert!(error(b"[]").ends_with(
            r#"cannot unmarshal array into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#
        ));
        assert!(
            error(b"{\"kind\":1}")
                .ends_with("cannot unmarshal number into Go struct field .kind of type string")
        );
    }
}
