//! Tables: the columns and cells that `kubectl get` shows.
//!
//! A built-in kind is a [`rows::Printer`]: a line of columns and a function from an object to cells. Kinds without
//! one show name and creation time; custom resources show the JSONPaths of their definition. Wide columns are always
//! filled in, as upstream's server does; clients choose by `priority`.

mod cells;
mod cluster;
mod custom;
mod duration;
mod jsonpath;
mod network;
mod pod;
mod policy;
mod rows;
mod scale;
mod storage;
mod workload;

use copepod_api::{ResourceDef, meta};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub use duration::human_duration;
pub use jsonpath::find as find_json_path;

/// The heading of a column (`metav1.TableColumnDefinition`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The OpenAPI type of the cells.
    #[serde(rename = "type")]
    pub type_: String,
    /// The OpenAPI format; `name` marks the key.
    pub format: String,
    /// What the column shows.
    pub description: String,
    /// 0 is always shown, above 0 in wide output only.
    pub priority: i32,
}

/// One row: an object's cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// One value for each column.
    pub cells: Vec<Value>,
    /// Conditions of the row itself, such as a pod's completion.
    pub conditions: Vec<Value>,
    /// The index of the object in the list given.
    pub object: usize,
}

/// Columns and rows; the caller adds the objects and the list's metadata.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// The headings.
    pub columns: Vec<Column>,
    /// The rows, in the order to show.
    pub rows: Vec<Row>,
}

impl Table {
    /// The `columnDefinitions` of the Table as JSON.
    #[must_use]
    pub fn column_definitions(&self) -> Value {
        json!(self.columns)
    }
}

/// The table of `objects` of the kind `def`. `objects` of a subresource that has a kind of its own (`Scale`) are
/// recognized by their `kind`.
#[must_use]
pub fn table(def: &ResourceDef, objects: &[&Value], now: Timestamp) -> Table {
    if def.custom {
        return custom::table(def, objects, now);
    }
    let is_scale = objects.first().is_some_and(|o| o.get("kind").and_then(Value::as_str) == Some("Scale"));
    let found = if is_scale { Some(&scale::PRINTER) } else { rows::printer(&def.group, &def.plural) };
    let Some(printer) = found else { return plain(objects) };
    let cx = rows::Context { now, objects };
    let rows = (printer.order)(objects).into_iter().map(|index| Row {
        cells: (printer.cells)(&cx, objects[index]),
        conditions: (printer.conditions)(objects[index]),
        object: index,
    });
    Table { columns: rows::columns(printer.columns), rows: rows.collect() }
}

/// Name and creation time, for kinds without columns of their own.
fn plain(objects: &[&Value]) -> Table {
    let columns = rows::columns("Name|Created At:date");
    let rows = objects.iter().enumerate().map(|(object, value)| Row {
        cells: vec![meta::name(value).into(), created_at(value).into()],
        conditions: Vec::new(),
        object,
    });
    Table { columns, rows: rows.collect() }
}

fn created_at(object: &Value) -> &str {
    object.pointer("/metadata/creationTimestamp").and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests;
