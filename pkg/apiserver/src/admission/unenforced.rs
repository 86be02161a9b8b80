//! Objects that are stored but that nothing enforces yet: the client is told so, with a warning.

use copepod_api::ApiResult;
use copepod_registry::{Admission, Attributes, Operation};
use futures::future::BoxFuture;
use serde_json::Value;

#[derive(Debug)]
pub(super) struct Unenforced;

/// Group, resource, and what is missing.
const ROWS: &[(&str, &str, &str)] =
    &[("", "resourcequotas", "this server does not enforce resource quotas yet")];

impl Admission for Unenforced {
    fn name(&self) -> &'static str {
        "Unenforced"
    }

    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes<'a>,
        _object: Option<&'a Value>,
    ) -> BoxFuture<'a, ApiResult<()>> {
        Box::pin(async move {
            let writes = matches!(attributes.operation, Operation::Create | Operation::Update);
            if writes && attributes.subresource.is_empty() {
                let gr = attributes.resource;
                if let Some((.., text)) = ROWS.iter().find(|(g, r, _)| *g == gr.group && *r == gr.resource) {
                    attributes.warnings.add(format!("the object is stored, but {text}"));
                }
            }
            Ok(())
        })
    }
}
