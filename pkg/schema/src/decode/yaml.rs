//! YAML bodies: apply patches and `application/yaml` requests.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DuplicateKeyPolicy, Spanned};

/// A parsed document.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Yaml {
    /// The document as JSON; of keys given twice the last one counts.
    pub value: Value,
    /// Keys given twice, as upstream's parser names them: `line 9: key "foo" already set in map`.
    pub duplicates: Vec<String>,
}

impl Yaml {
    /// Upstream's error for keys given twice; none when there are none.
    #[must_use]
    pub fn strict_error(&self) -> Option<String> {
        let list = self.duplicates.join("\n  ");
        (!list.is_empty()).then(|| format!("yaml: unmarshal errors:\n  {list}"))
    }
}

/// Parses one YAML document (or JSON, which is YAML) with YAML 1.1's octal numbers, as upstream does.
///
/// # Errors
/// The text of what is wrong with it.
pub fn yaml(body: &[u8]) -> Result<Yaml, String> {
    if body.trim_ascii_start().starts_with(b"{")
        && let Ok((value, duplicates)) = super::untyped(body)
        && duplicates.is_empty()
    {
        return Ok(Yaml { value, duplicates });
    }
    let text = first_document(std::str::from_utf8(body).map_err(|error| format!("yaml: {error}"))?);
    let mut options = serde_saphyr::Options::default();
    options.legacy_octal_numbers = true;
    options.with_snippet = false;
    options.duplicate_keys = DuplicateKeyPolicy::PassThrough;
    let mut duplicates = Vec::new();
    let parsed = serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        Tree { duplicates: &mut duplicates }.deserialize(deserializer)
    });
    let value = parsed.map_err(|error| super::yaml_error::error(&error.to_string(), text))?;
    Ok(Yaml { value, duplicates })
}

/// The first document of a stream, which is all that upstream reads.
fn first_document(text: &str) -> &str {
    let (mut at, mut begun) = (0, false);
    for line in text.split_inclusive('\n') {
        let marks = |mark: &str| {
            line.strip_prefix(mark)
                .is_some_and(|rest| rest.trim_end().is_empty() || rest.starts_with([' ', '\t']))
        };
        if marks("...") || (begun && marks("---")) {
            return text.get(..at).unwrap_or(text);
        }
        begun |= marks("---") || !(line.trim().is_empty() || line.starts_with(['#', '%']));
        at += line.len();
    }
    text
}

struct Tree<'d> {
    duplicates: &'d mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a YAML value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom(format!("unsupported value: {value}")))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(Tree { duplicates: &mut *self.duplicates })? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<Spanned<Key>>()? {
            let (line, Key(key)) = (key.defined.line(), key.value);
            let value = entries.next_value_seed(Tree { duplicates: &mut *self.duplicates })?;
            if map.contains_key(&key) {
                self.duplicates.push(format!("line {line}: key {key:?} already set in map"));
            }
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

/// A key: JSON knows strings only.
struct Key(String);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let key = Value::deserialize(deserializer)?;
        Ok(Self(key.as_str().map_or_else(|| key.to_string(), str::to_owned)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::yaml;

    #[test]
    fn yaml_reads_as_upstream_reads_it() {
        let parsed = yaml(b"a: 0644\nb: yes\nc: \"1\"\nd: {1: x, true: z}\ne: ~\nf: 1.5\n").expect("valid");
        assert_eq!(
            parsed.value,
            json!({"a": 420, "b": true, "c": "1", "d": {"1": "x", "true": "z"}, "e": null, "f": 1.5})
        );
        assert!(parsed.duplicates.is_empty());
        assert!(yaml(b"a: [").is_err());
        assert_eq!(yaml(b"---\na: 1\n---\nb: 2\n").expect("valid").value, json!({"a": 1}));
    }

    #[test]
    fn duplicate_keys_name_their_line() {
        let body = b"\napiVersion: v1\nspec:\n  foo: foo1\n  foo: foo2\nx: {a: 1, a: 2}\n";
        let parsed = yaml(body).expect("valid apart from duplicates");
        assert_eq!(
            parsed.duplicates,
            ["line 5: key \"foo\" already set in map", "line 6: key \"a\" already set in map"]
        );
        assert_eq!(parsed.value["spec"], json!({"foo": "foo2"}));
        assert!(
            parsed.strict_error().is_some_and(|text| text.contains("line 5: key \"foo\" already set in map"))
        );
        assert_eq!(yaml(b"{\"a\":1,\"a\":2}").expect("valid").duplicates.len(), 1);
    }
}
