//! Which requests a policy or binding is about: `matchConstraints` and `matchResources`.

use copepod_api::{ApiError, GroupResource, LabelSelector, meta};
use copepod_registry::Operation;
use serde_json::Value;

use super::{Asked, Seen, webhook};
use crate::admission::{items, text};

/// A rule and the names it is limited to; none are all.
#[derive(Debug)]
struct Named {
    rule: webhook::Rule,
    names: Vec<String>,
}

/// What is matched.
#[derive(Debug)]
pub(super) struct Matching {
    rules: Vec<Named>,
    exclude: Vec<Named>,
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
    equivalent: bool,
}

impl Matching {
    /// Reads a `matchConstraints` or `matchResources`.
    pub(super) fn read(value: &Value) -> Self {
        let rules = |field: &str| {
            let named = items(value, field).map(|rule| Named {
                rule: webhook::Rule::read(rule),
                names: items(rule, "resourceNames").filter_map(Value::as_str).map(str::to_owned).collect(),
            });
            named.collect()
        };
        let selector = |field: &str| match value.get(field).filter(|s| !s.is_null()) {
            Some(selector) => LabelSelector::from_object(Some(selector)).map_err(|e| e.to_string()),
            None => Ok(LabelSelector::everything()),
        };
        Self {
            rules: rules("resourceRules"),
            exclude: rules("excludeResourceRules"),
            namespaces: selector("namespaceSelector"),
            objects: selector("objectSelector"),
            equivalent: text(value, "matchPolicy") != "Exact",
        }
    }

    /// What a request is seen as; `None` when it does not match. What is wrong with selectors matters only to requests
    /// that the rules match.
    pub(super) async fn seen(&self, asked: &Asked<'_>) -> Result<Option<Seen>, String> {
        let in_namespace = self.in_namespace(asked).await;
        let selected = self.selects(asked);
        if matches!(in_namespace, Ok(false)) || matches!(selected, Ok(false)) {
            return Ok(None);
        }
        if self.by_rules(&self.exclude, asked).is_some() {
            return Ok(None);
        }
        let seen = if self.rules.is_empty() { Some(own(asked)) } else { self.by_rules(&self.rules, asked) };
        if seen.is_some() {
            in_namespace?;
            selected?;
        }
        Ok(seen)
    }

    fn by_rules(&self, rules: &[Named], asked: &Asked<'_>) -> Option<Seen> {
        let attributes = asked.attributes;
        let named =
            |rule: &Named| rule.names.is_empty() || rule.names.iter().any(|name| name == attributes.name);
        let own = own(asked);
        if rules
            .iter()
            .any(|named_rule| named_rule.rule.matches(attributes, &own.resource) && named(named_rule))
        {
            return Some(own);
        }
        if !self.equivalent || rules.is_empty() {
            return None;
        }
        let others = asked.registry().equivalents(&own.resource, attributes.subresource);
        let mut pairs = rules.iter().flat_map(|rule| others.iter().map(move |other| (rule, other)));
        let found =
            pairs.find(|(rule, (resource, _))| rule.rule.matches(attributes, resource) && named(rule));
        found.map(|(_, (resource, kind))| Seen { resource: resource.clone(), kind: kind.clone() })
    }

    fn selects(&self, asked: &Asked<'_>) -> Result<bool, String> {
        let selector = self.objects.as_ref().map_err(String::clone)?;
        let mut objects = [asked.object, asked.attributes.old].into_iter().flatten();
        Ok(selector.is_empty() || objects.any(|object| selector.matches(&meta::labels(object))))
    }

    async fn in_namespace(&self, asked: &Asked<'_>) -> Result<bool, String> {
        let attributes = asked.attributes;
        let own = attributes.resource.resource == "namespaces";
        if attributes.namespace.is_empty() && !own {
            return Ok(true);
        }
        let selector = self.namespaces.as_ref().map_err(String::clone)?;
        if selector.is_empty() {
            return Ok(true);
        }
        let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
        if own && attributes.subresource.is_empty() && writes {
            return Ok(selector.matches(&asked.object.and_then(meta::labels)));
        }
        let name = if own { attributes.name } else { attributes.namespace };
        let namespace = asked.deps.reader.get("", "namespaces", None, name).await;
        let missing = || ApiError::not_found(&GroupResource::new("", "namespaces"), name).to_string();
        Ok(selector.matches(&meta::labels(&namespace.ok_or_else(missing)?)))
    }
}

/// The request as it is; the kind is that of clients.
fn own(asked: &Asked<'_>) -> Seen {
    let (resource, kind) = webhook::requested(asked.registry(), asked.attributes);
    Seen { resource, kind }
}
