//! Roles and cluster roles.

use crate::kinds::at::At;
use crate::kinds::checks::labels;
use crate::kinds::kind::Kind;

const BASE: Kind = Kind { create_on_update: true, name: copepod_api::names::path_segment, ..Kind::PLAIN };

/// Roles.
pub(crate) static ROLE: Kind = Kind { validate: |role| rules(&role.get("rules"), true), ..BASE };

/// Cluster roles.
pub(crate) static CLUSTER_ROLE: Kind = Kind {
    validate: |role| {
        rules(&role.get("rules"), false);
        let aggregation = role.get("aggregationRule");
        if aggregation.present() {
            let selectors = aggregation.get("clusterRoleSelectors");
            selectors.need_because("at least one clusterRoleSelector required if aggregationRule is non-nil");
            selectors.items().for_each(|selector| labels::selector(&selector));
        }
    },
    ..BASE
};

fn rules(list: &At<'_>, namespaced: bool) {
    for rule in list.items() {
        rule.get("verbs").need();
        let urls = rule.get("nonResourceURLs");
        if !urls.is_empty() {
            if namespaced {
                urls.invalid("namespaced rules cannot apply to non-resource URLs");
            }
            if ["apiGroups", "resources", "resourceNames"].iter().any(|field| !rule.get(field).is_empty()) {
                urls.invalid("rules cannot apply to both regular resources and non-resource URLs");
            }
            continue;
        }
        rule.get("apiGroups").need_because("resource rules must supply at least one api group");
        rule.get("resources").need_because("resource rules must supply at least one resource");
    }
}
