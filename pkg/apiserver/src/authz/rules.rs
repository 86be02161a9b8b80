//! RBAC rules: what they allow, and whether one set covers another (`component-helpers/auth/rbac/validation`).

use serde::{Deserialize, Serialize};

use super::Check;

/// `rbac.authorization.k8s.io/v1 PolicyRule`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PolicyRule {
    /// Verbs, or `*`.
    pub verbs: Vec<String>,
    /// Groups, or `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    /// Plurals, `plural/subresource`, `*/subresource`, or `*`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Names; empty is every name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    /// Paths, with a `*` at the end.
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == "*" || item == wanted)
}

fn path_matches(pattern: &str, path: &str) -> bool {
    pattern == "*" || pattern == path || pattern.strip_suffix('*').is_some_and(|p| path.starts_with(p))
}

impl PolicyRule {
    /// Whether the rule allows what is asked.
    pub(crate) fn allows(&self, check: &Check<'_>) -> bool {
        if !has(&self.verbs, check.verb) {
            return false;
        }
        if !check.is_resource {
            return self.non_resource_urls.iter().any(|p| path_matches(p, check.path));
        }
        has(&self.api_groups, check.group)
            && self.resources.iter().any(|r| resource_matches(r, check.resource, check.subresource))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|n| n == check.name))
    }

    /// One rule for each combination of its lists.
    fn breakdown(&self) -> Vec<Self> {
        let one = |item: &String| vec![item.clone()];
        let mut out = Vec::new();
        for verb in &self.verbs {
            for group in &self.api_groups {
                for resource in &self.resources {
                    let simple = Self {
                        verbs: one(verb),
                        api_groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.resource_names.is_empty() {
                        out.push(simple);
                    } else {
                        let names = self.resource_names.iter();
                        out.extend(names.map(|n| Self { resource_names: one(n), ..simple.clone() }));
                    }
                }
            }
            let urls = self.non_resource_urls.iter();
            out.extend(urls.map(|u| Self { verbs: one(verb), non_resource_urls: one(u), ..Self::default() }));
        }
        out
    }

    /// Whether this rule alone covers a broken-down one.
    fn covers_one(&self, other: &Self) -> bool {
        let all = |mine: &[String], theirs: &[String]| {
            mine.iter().any(|m| m == "*") || theirs.iter().all(|t| mine.contains(t))
        };
        let resources = |theirs: &[String]| {
            theirs.iter().all(|t| {
                self.resources.iter().any(|m| {
                    m == "*"
                        || m == t
                        || (m.starts_with("*/") && m.get(1..) == t.find('/').and_then(|at| t.get(at..)))
                })
            })
        };
        let names = self.resource_names.is_empty()
            || (!other.resource_names.is_empty() && all(&self.resource_names, &other.resource_names));
        let paths =
            other.non_resource_urls.iter().all(|t| self.non_resource_urls.iter().any(|m| path_matches(m, t)));
        all(&self.verbs, &other.verbs)
            && all(&self.api_groups, &other.api_groups)
            && resources(&other.resources)
            && names
            && paths
    }

    /// As upstream prints it in the 403 of an escalation.
    pub(crate) fn compact(&self) -> String {
        let list = |items: &[String]| {
            let quoted: Vec<String> = items.iter().map(|i| copepod_api::field::quote(i)).collect();
            format!("[{}]", quoted.join(" ").replace("\" \"", "\", \""))
        };
        let mut parts = Vec::new();
        for (name, items) in [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Verbs", &self.verbs),
        ] {
            if !items.is_empty() {
                parts.push(format!("{name}:{}", list(items)));
            }
        }
        format!("{{{}}}", parts.join(", "))
    }
}

fn resource_matches(rule: &str, resource: &str, subresource: &str) -> bool {
    match rule.split_once('/') {
        None => rule == "*" || (subresource.is_empty() && rule == resource),
        Some(("*", sub)) => sub == subresource,
        Some((main, sub)) => main == resource && sub == subresource && !sub.is_empty(),
    }
}

/// The broken-down rules of `wanted` that `owned` does not cover.
pub(crate) fn not_covered(owned: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<PolicyRule> {
    wanted
        .iter()
        .flat_map(PolicyRule::breakdown)
        .filter(|one| !owned.iter().any(|mine| mine.covers_one(one)))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rule(value: serde_json::Value) -> PolicyRule {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn subresources_and_names() {
        let rule =
            rule(json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log", "*/scale", "nodes"],
            "resourceNames": ["a"]}));
        let check = |resource, subresource, name| Check {
            verb: "get",
            resource,
            subresource,
            name,
            is_resource: true,
            ..Check::default()
        };
        assert!(rule.allows(&check("pods", "log", "a")));
        assert!(!rule.allows(&check("pods", "log", "b")));
        assert!(!rule.allows(&check("pods", "", "a")));
        assert!(rule.allows(&check("anything", "scale", "a")));
        assert!(!rule.allows(&check("nodes", "proxy", "a")));
    }

    #[test]
    fn paths_with_a_star() {
        let rule = rule(json!({"verbs": ["get"], "nonResourceURLs": ["/healthz/*", "/version"]}));
        let check = |path| Check { verb: "get", path, ..Check::default() };
        assert!(rule.allows(&check("/healthz/etcd")));
        assert!(rule.allows(&check("/version")));
        assert!(!rule.allows(&check("/versions")));
    }

    #[test]
    fn escalation_is_found_rule_by_rule() {
        let owned =
            [rule(json!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/log"]}))];
        let wanted =
            [rule(json!({"verbs": ["get", "delete"], "apiGroups": [""], "resources": ["pods", "pods/log"]}))];
        let missing = not_covered(&owned, &wanted);
        assert_eq!(missing.len(), 2);
        assert_eq!(missing[0].compact(), r#"{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}"#);
        let named = [rule(
            json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}),
        )];
        assert!(not_covered(&owned, &named).is_empty());
        assert!(!not_covered(&named, &owned).is_empty());
    }
}
