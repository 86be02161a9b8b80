//! What an apply says when others own the fields it sets.

use copepod_api::{
    ApiError, meta,
    status::{Reason, StatusCause, StatusDetails},
};
use serde_json::Value;

use super::{
    FieldSet, LAST_APPLIED, Request, atom::Type, entries::ManagerId, fieldset::path_text, merge, typed,
    updater::Conflict,
};

fn owner_text(id: &ManagerId) -> String {
    let mut text = format!("{:?}", id.manager);
    if !id.subresource.is_empty() {
        text.push_str(&format!(" with subresource {:?}", id.subresource));
    }
    if id.operation == "Update" {
        text.push_str(&format!(" using {}", id.api_version));
    }
    text
}

/// The 409 with one cause per contested field.
pub(super) fn to_api_error(conflicts: &[Conflict]) -> ApiError {
    let causes = conflicts.iter().map(|conflict| StatusCause {
        reason: "FieldManagerConflict".to_owned(),
        message: format!("conflict with {}", owner_text(&conflict.owner)),
        field: path_text(&conflict.path),
    });
    let details = StatusDetails { causes: causes.collect(), ..StatusDetails::default() };
    ApiError::new(Reason::Conflict, message(conflicts)).with_details(details)
}

fn message(conflicts: &[Conflict]) -> String {
    if let [conflict] = conflicts {
        let owner = owner_text(&conflict.owner);
        return format!("Apply failed with 1 conflict: conflict with {owner}: {}", path_text(&conflict.path));
    }
    let mut lines = Vec::new();
    let mut last: Option<&ManagerId> = None;
    for conflict in conflicts {
        if last != Some(&conflict.owner) {
            lines.push(format!("conflicts with {}:", owner_text(&conflict.owner)));
            last = Some(&conflict.owner);
        }
        lines.push(format!("- {}", path_text(&conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

/// The fields that the live object still holds as client-side apply left them; none without its annotation.
pub(super) fn set_by_client_apply(live: &Value, request: &Request<'_>) -> Option<FieldSet> {
    let text = meta::annotation(live, LAST_APPLIED).filter(|text| !text.is_empty())?;
    let applied: Value = serde_json::from_str(text).ok()?;
    if applied.get("apiVersion").and_then(Value::as_str) != Some(&request.gvk.api_version()) {
        return None;
    }
    let type_ = Type::of(request.schema);
    if !typed::validate(&applied, type_, false).is_empty() {
        return None;
    }
    let changed = merge::compare(&applied, live, type_).ok()?;
    let set = typed::field_set(&applied, type_);
    Some(set.difference(&changed.modified).difference(&changed.added).difference(&changed.removed))
}
