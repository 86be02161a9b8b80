//! Who manages what: adopting orphans that match a selector, letting go of those that no longer do.

use std::sync::Arc;

use copepod_api::LabelSelector;
use copepod_client::{Meta, OwnerReference, Patch, ResourceRef};
use serde_json::json;

use crate::step::Step;
use crate::views::HasMeta;

/// Who claims.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Claimant<'a> {
    /// Resource of the owner.
    pub(crate) resource: &'a ResourceRef,
    /// Metadata of the owner.
    pub(crate) meta: &'a Meta,
    /// What it selects.
    pub(crate) selector: &'a LabelSelector,
}

impl Claimant<'_> {
    /// The reference that marks what the owner manages.
    #[must_use]
    pub(crate) fn reference(&self) -> OwnerReference {
        controller_reference(self.resource, self.meta)
    }
}

/// The reference from a managed object to its owner.
#[must_use]
pub(crate) fn controller_reference(resource: &ResourceRef, owner: &Meta) -> OwnerReference {
    OwnerReference {
        api_version: resource.api_version(),
        kind: resource.kind.to_string(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// What a claim came to.
#[derive(Debug)]
pub(crate) struct Claimed<T> {
    /// What the owner manages, freshly adopted objects included.
    pub(crate) owned: Vec<Arc<T>>,
    /// Adoptions and releases to carry out first.
    pub(crate) steps: Vec<Step>,
}

/// Sorts `candidates` (objects of `resource` in the owner's namespace): managed ones stay or are let go, orphans that
/// match are adopted unless one of both is being deleted, and what others manage is left alone.
#[must_use]
pub(crate) fn plan_claim<T: HasMeta>(
    claimant: Claimant<'_>,
    resource: &ResourceRef,
    candidates: impl IntoIterator<Item = Arc<T>>,
) -> Claimed<T> {
    let mut claimed = Claimed { owned: Vec::new(), steps: Vec::new() };
    let deleting = claimant.meta.deleting();
    for object in candidates {
        let meta = object.meta();
        let matches = claimant.selector.matches(&meta.labels);
        match meta.controller() {
            Some(owner) if owner.uid != claimant.meta.uid => {}
            Some(_) if matches => claimed.owned.push(object),
            Some(_) if deleting => {}
            Some(_) => claimed.steps.push(release(resource, meta, claimant.meta)),
            None if matches && !deleting && !meta.deleting() => {
                claimed.steps.push(adopt(resource, meta, claimant));
                claimed.owned.push(object);
            }
            None => {}
        }
    }
    claimed
}

fn adopt(resource: &ResourceRef, meta: &Meta, claimant: Claimant<'_>) -> Step {
    let body = json!({"metadata": {"uid": meta.uid, "ownerReferences": [claimant.reference()]}});
    strategic(resource, meta, body)
}

fn release(resource: &ResourceRef, meta: &Meta, owner: &Meta) -> Step {
    let remove = json!([{"$patch": "delete", "uid": owner.uid}]);
    strategic(resource, meta, json!({"metadata": {"uid": meta.uid, "ownerReferences": remove}}))
}

fn strategic(resource: &ResourceRef, meta: &Meta, body: serde_json::Value) -> Step {
    Step::Patch {
        resource: resource.clone(),
        key: meta.key(),
        subresource: "",
        patch: Patch::Strategic(body),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::MetaOnly;
    use copepod_client::resources::{PODS, REPLICA_SETS};

    fn object(name: &str, label: &str, owner: Option<&str>) -> Arc<MetaOnly> {
        let mut metadata = Meta { name: name.to_owned(), ..Meta::default() };
        metadata.labels.insert("app".to_owned(), label.to_owned());
        metadata.owner_references.extend(owner.map(|uid| OwnerReference {
            uid: uid.to_owned(),
            controller: Some(true),
            ..OwnerReference::default()
        }));
        Arc::new(MetaOnly { metadata })
    }

    #[test]
    fn orphans_are_adopted_strangers_left_and_the_lost_let_go() {
        let meta = Meta { uid: "me".to_owned(), ..Meta::default() };
        let selector = LabelSelector::parse("app=web").unwrap();
        let objects = [
            object("mine", "web", Some("me")),
            object("orphan", "web", None),
            object("theirs", "web", Some("you")),
            object("lost", "db", Some("me")),
            object("stranger", "db", None),
        ];
        let claimant = Claimant { resource: &REPLICA_SETS, meta: &meta, selector: &selector };
        let claimed = plan_claim(claimant, &PODS, objects.clone());
        let names: Vec<_> = claimed.owned.iter().map(|o| o.metadata.name.as_str()).collect();
        assert_eq!(names, ["mine", "orphan"]);
        let text = format!("{:?}", claimed.steps);
        assert!(claimed.steps.len() == 2 && text.contains("delete") && text.contains("blockOwnerDeletion"));

        let dying = Meta { deletion_timestamp: Some(jiff::Timestamp::UNIX_EPOCH), ..meta.clone() };
        let claimant = Claimant { meta: &dying, ..claimant };
        assert!(plan_claim(claimant, &PODS, objects).steps.is_empty(), "a dying owner changes nothing");
    }
}
