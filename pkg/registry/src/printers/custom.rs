//! Custom resources: columns by JSONPath.

use copepod_api::{ResourceDef, meta, resource::PrinterColumn};
use jiff::Timestamp;
use serde_json::Value;

use super::duration::human_duration;
use super::{Column, Row, Table, cells, jsonpath, rows};

/// Definitions of custom resources.
pub(super) static DEFINITIONS: rows::Printer = rows::Printer::new(
    "Name|Scope|Versions|Created At:date|Group*|Kind*|ShortNames*|Established:boolean*",
    |_, object| {
        let served =
            cells::list(object, "/spec/versions").iter().filter(|v| cells::flag(v, "/served", false));
        let mut versions: Vec<String> = served
            .map(|v| {
                let mark = if cells::flag(v, "/storage", false) { "(storage)" } else { "" };
                format!("{}{mark}", cells::text(v, "/name"))
            })
            .collect();
        versions.sort();
        let established = cells::condition(cells::list(object, "/status/conditions"), "Established");
        vec![
            meta::name(object).into(),
            cells::text(object, "/spec/scope").into(),
            versions.join(",").into(),
            super::created_at(object).into(),
            cells::text(object, "/spec/group").into(),
            cells::text(object, "/spec/names/kind").into(),
            cells::joined(object, "/spec/names/shortNames", ",").into(),
            (established == Some("True")).into(),
        ]
    },
);

/// The table of custom resources: the name and the columns of the definition, or name and age.
pub(super) fn table(def: &ResourceDef, objects: &[&Value], now: Timestamp) -> Table {
    let age = [PrinterColumn {
        name: "Age".to_owned(),
        type_: "date".to_owned(),
        json_path: ".metadata.creationTimestamp".to_owned(),
        ..PrinterColumn::default()
    }];
    let given = if def.columns.is_empty() { &age[..] } else { &def.columns };
    let mut columns = rows::columns("Name");
    columns.extend(given.iter().map(|column| Column {
        name: column.name.clone(),
        type_: column.type_.clone(),
        format: column.format.clone(),
        description: match column.description.as_str() {
            "" => format!("Custom resource definition column (in JSONPath format): {}", column.json_path),
            text => text.to_owned(),
        },
        priority: column.priority,
    }));
    let rows = objects.iter().enumerate().map(|(index, object)| {
        let mut cells = vec![meta::name(object).into()];
        cells.extend(given.iter().map(|column| cell(column, object, now)));
        Row { cells, conditions: Vec::new(), object: index }
    });
    Table { columns, rows: rows.collect() }
}

fn cell(column: &PrinterColumn, object: &Value, now: Timestamp) -> Value {
    let found = jsonpath::find(object, &column.json_path);
    let Some(value) = found.first() else { return Value::Null };
    match (column.type_.as_str(), value) {
        ("string", value) => jsonpath::print(value).into(),
        ("integer", Value::Number(n)) =>
        {
            #[expect(clippy::cast_possible_truncation, reason = "a fraction is cut off, as upstream does")]
            n.as_i64().or_else(|| n.as_f64().map(|f| f as i64)).map_or(Value::Null, Value::from)
        }
        ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => (*value).clone(),
        ("date", Value::String(text)) => match text.parse::<Timestamp>() {
            Ok(time) => human_duration(cells::seconds_between(time, now)).into(),
            Err(_) => "<invalid>".into(),
        },
        _ => Value::Null,
    }
}
