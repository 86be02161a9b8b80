//! `fieldPath`: where below its value a rule reports.

use copepod_api::FieldPath;
use copepod_schema::SchemaRef;

/// Reads a path such as `.spec.list['key']` against a schema.
///
/// # Errors
/// What is wrong with the path.
pub fn valid_path(path: &str, schema: SchemaRef<'_>) -> Result<FieldPath, String> {
    let mut at = schema;
    let mut out: Option<FieldPath> = None;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(after) = rest.strip_prefix('.') {
            let end = after.find(['.', '[', ']']).unwrap_or(after.len());
            let (token, tail) = after.split_at(end);
            if token.is_empty() {
                return Err("unexpected end of JSON path".to_owned());
            }
            name = token.to_owned();
            rest = tail;
        } else if let Some(after) = rest.strip_prefix('[') {
            let quoted = after
                .strip_prefix('\'')
                .ok_or_else(|| format!("expected single quoted string but got {after}"))?;
            let (text, tail) = quoted.split_once("']").ok_or("unexpected end of JSON path")?;
            name = text.replace("\\'", "'").replace("\\\\", "\\");
            rest = tail;
        } else {
            return Err(format!("expected [ or . but got: {rest}"));
        }
        let (next, field) = match (at.field(&name), at.additional()) {
            (Some(field), _) => (field.schema(), true),
            (None, Some(values)) if !at.has_fields() => (values, false),
            _ => return Err("does not refer to a valid field".to_owned()),
        };
        at = next;
        out = Some(match (out, field) {
            (None, true) => FieldPath::new(&name),
            (None, false) => FieldPath::root().key(&name),
            (Some(path), true) => path.child(&name),
            (Some(path), false) => path.key(&name),
        });
    }
    out.ok_or_else(|| "does not refer to a valid field".to_owned())
}
