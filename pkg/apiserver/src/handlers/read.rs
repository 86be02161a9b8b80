//! GET of objects and collections.

use copepod_api::{ApiResult, ResourceDef};
use copepod_registry::Target;
use copepod_schema::encode;
use http::{Response, header};

use super::{StoreRef, table};
use crate::body::Body;
use crate::negotiate::{self, Accepted, Target as Form, Transforms};
use crate::request::list_options;
use crate::respond;
use crate::server::{Call, Server};

/// The form in which the client wants one object.
pub(super) fn accepted(call: &Call, def: &ResourceDef, transforms: Transforms) -> ApiResult<Accepted> {
    let pretty = negotiate::is_pretty(&call.query, call.header(header::USER_AGENT));
    // A Scale of a custom resource is a built-in kind.
    let custom = def.custom && call.info.subresource != "scale";
    negotiate::negotiate_for(call.header(header::ACCEPT), transforms, pretty, custom)
}

/// The object a path names.
pub(super) fn target(call: &Call) -> Target {
    let target = Target::new(call.namespace(), &call.info.name);
    if call.info.subresource.is_empty() { target } else { target.sub(&call.info.subresource) }
}

/// One object in the form the client wants.
pub(super) fn one(
    code: u16,
    def: &ResourceDef,
    call: &Call,
    accepted: Accepted,
    object: &copepod_registry::Object,
) -> ApiResult<Response<Body>> {
    match accepted.target {
        Form::Table => {
            let table = table::of_objects(def, call, &[object.to_value()], &serde_json::json!({}))?;
            Ok(respond::object(code, accepted, encode::document(&table).into()))
        }
        Form::PartialMetadata => {
            let partial = table::partial(def, &object.to_value());
            Ok(respond::object(code, accepted, encode::document(&partial).into()))
        }
        Form::Object | Form::PartialMetadataList => Ok(respond::object(code, accepted, object.to_bytes())),
    }
}

impl Server {
    /// GET of one object or a subresource of it.
    pub(super) async fn get(&self, store: &StoreRef, call: &Call) -> ApiResult<Response<Body>> {
        let accepted = accepted(call, store.def(), Transforms::One)?;
        let version = call.query.text("resourceVersion");
        let object = store.get(&call.read_context(), &target(call), version).await?;
        one(200, store.def(), call, accepted, &object)
    }

    /// GET of a collection.
    pub(super) async fn list(&self, store: &StoreRef, call: &Call) -> ApiResult<Response<Body>> {
        let accepted = accepted(call, store.def(), Transforms::List)?;
        let options = list_options(&call.query)?;
        let list = store.list(&call.read_context(), call.namespace(), &options).await?;
        match accepted.target {
            Form::Object | Form::PartialMetadata => Ok(respond::object(200, accepted, list.to_bytes())),
            Form::Table => {
                let objects: Vec<_> = list.items.iter().map(copepod_registry::Object::to_value).collect();
                let table = table::of_objects(store.def(), call, &objects, &list.metadata())?;
                Ok(respond::object(200, accepted, encode::document(&table).into()))
            }
            Form::PartialMetadataList => {
                let objects: Vec<_> = list.items.iter().map(copepod_registry::Object::to_value).collect();
                let partial = table::partial_list(store.def(), &objects, &list.metadata());
                Ok(respond::object(200, accepted, encode::document(&partial).into()))
            }
        }
    }
}
