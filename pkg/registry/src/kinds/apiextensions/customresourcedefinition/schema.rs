//! Structural schemas of custom resources.

use std::sync::Arc;

use copepod_schema::SchemaSet;

use crate::kinds::at::At;

mod rules;

/// The schema of a version; what it declares, where it is a schema at all.
pub(super) fn root(at: &At<'_>) -> Option<Arc<SchemaSet>> {
    let schema = at.value()?;
    let before = at.errors();
    written(at);
    let set = match SchemaSet::from_crd(schema, at.path()) {
        Ok(set) => Arc::new(set),
        Err(errors) => {
            errors.into_iter().for_each(|error| at.push(error));
            return None;
        }
    };
    if let Some(root) = set.root().filter(|_| rules::given(schema)) {
        let sound = at.errors() == before;
        rules::paths(at, root);
        if sound && at.errors() == before {
            rules::check(at, &set);
        }
    }
    Some(set)
}

/// The rules of all nodes as they are written.
fn written(at: &At<'_>) {
    rules::written(at);
    at.get("properties").entries().for_each(|(_, child)| written(&child));
    for part in ["items", "additionalProperties"] {
        if at.get(part).map().is_some() {
            written(&at.get(part));
        }
    }
}
