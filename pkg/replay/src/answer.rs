//! An answer in its normal form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a server answered, without what two right servers may differ in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The request's title.
    pub request: String,
    /// The status code.
    pub code: u16,
    /// Headers by lower-case name; several of one name are joined by a line end.
    pub headers: BTreeMap<String, String>,
    /// The body: a tree, a list of events for a watch, or text.
    pub body: Value,
}
