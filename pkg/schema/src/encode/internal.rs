//! Values as upstream's internal structs print them: Go's names for fields, all of them, in their order. Errors show
//! structs so, because validation works on the internal form.

use serde_json::Value;

use crate::node::{Kind, SchemaRef};

/// First words of fields that Go writes in capitals throughout.
const CAPITALS: [&str; 22] = [
    "api", "aws", "ca", "cidr", "cpu", "csi", "dns", "fc", "fs", "gce", "gmsa", "grpc", "http", "id", "ip",
    "iscsi", "nfs", "rbd", "tcp", "tty", "uid", "url",
];

/// The value, where it is of a type that has an internal form: one of an API, not of `meta/v1`.
#[must_use]
pub fn internal(value: &Value, schema: SchemaRef<'_>) -> Option<String> {
    let named = if schema.kind() == Kind::Array { schema.items()? } else { schema };
    let model = named.model().filter(|model| model.starts_with("io.k8s.api."))?;
    // Pods are laid out in another way inside.
    if model.ends_with(".PodSpec") || model.ends_with(".PodTemplateSpec") {
        return None;
    }
    let mut out = String::new();
    write(Some(value), schema, &mut out);
    Some(out)
}

fn write(value: Option<&Value>, schema: SchemaRef<'_>, out: &mut String) {
    match value.filter(|value| !value.is_null()) {
        Some(Value::Object(_)) if meta(schema) => text(value, schema, out),
        Some(value @ Value::Object(_)) if schema.has_fields() => object(Some(value), schema, out),
        Some(Value::Array(list)) => {
            out.push('[');
            for (at, item) in list.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                match schema.items() {
                    Some(items) => write(Some(item), items, out),
                    None => out.push_str(&item.to_string()),
                }
            }
            out.push(']');
        }
        Some(other) => out.push_str(&other.to_string()),
        None => out.push_str("null"),
    }
}

fn object(value: Option<&Value>, schema: SchemaRef<'_>, out: &mut String) {
    out.push('{');
    let mut first = true;
    for field in schema.fields() {
        let found = value.and_then(|value| value.get(field.name())).filter(|value| !value.is_null());
        if matches!(field.name(), "kind" | "apiVersion") && schema.field("metadata").is_some() {
            continue;
        }
        if field.name() == "metadata" {
            // Embedded, and so without a name of its own.
            let mut inner = String::new();
            text(found, field.schema(), &mut inner);
            let inner = inner.trim_start_matches('{').trim_end_matches('}');
            if !inner.is_empty() {
                comma(&mut first, out);
                out.push_str(inner);
            }
            continue;
        }
        comma(&mut first, out);
        out.push_str(&Value::from(go_name(field.name())).to_string());
        out.push(':');
        match found {
            Some(found) => write(Some(found), field.schema(), out),
            None => zero(field.schema(), field.is_pointer(), out),
        }
    }
    out.push('}');
}

fn comma(first: &mut bool, out: &mut String) {
    if !std::mem::replace(first, false) {
        out.push(',');
    }
}

/// What Go has where nothing was given.
fn zero(schema: SchemaRef<'_>, pointer: bool, out: &mut String) {
    match schema.kind() {
        _ if pointer => out.push_str("null"),
        _ if schema.is_int_or_string() => out.push('0'),
        Kind::String => out.push_str("\"\""),
        Kind::Integer | Kind::Number => out.push('0'),
        Kind::Boolean => out.push_str("false"),
        Kind::Object if schema.has_fields() && !meta(schema) => object(None, schema, out),
        _ => out.push_str("null"),
    }
}

/// Types of `meta/v1` have one form.
fn meta(schema: SchemaRef<'_>) -> bool {
    schema.model().is_some_and(|model| model.starts_with("io.k8s.apimachinery."))
}

fn text(value: Option<&Value>, schema: SchemaRef<'_>, out: &mut String) {
    match value {
        Some(value) => out.push_str(&String::from_utf8_lossy(&super::encode(value, schema))),
        None => out.push_str("{}"),
    }
}

fn go_name(name: &str) -> String {
    let end = name.find(|c: char| c.is_ascii_uppercase()).unwrap_or(name.len());
    let (word, rest) = name.split_at(end);
    if CAPITALS.contains(&word) {
        return format!("{}{rest}", word.to_uppercase());
    }
    let mut chars = word.chars();
    let first = chars.next().map(|c| c.to_ascii_uppercase());
    format!("{}{}{rest}", first.map(String::from).unwrap_or_default(), chars.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{go_name, internal};
    use crate::builtin;

    #[test]
    fn structs_print_as_the_internal_ones() {
        let budget = builtin().kind("policy", "v1", "PodDisruptionBudget").expect("built in");
        let spec = budget.child("spec").expect("a spec");
        assert_eq!(
            internal(&json!({"minAvailable": 1, "maxUnavailable": 1, "selector": {}}), spec).as_deref(),
            Some(r#"{"MinAvailable":1,"Selector":{},"MaxUnavailable":1,"UnhealthyPodEvictionPolicy":null}"#)
        );
        let owners = budget.at_path("metadata.ownerReferences").expect("owners");
        assert_eq!(internal(&json!([]), owners), None);
        assert_eq!(
            [go_name("ipFamilies"), go_name("clusterIP"), go_name("tcpSocket")],
            ["IPFamilies", "ClusterIP", "TCPSocket"]
        );
    }
}
