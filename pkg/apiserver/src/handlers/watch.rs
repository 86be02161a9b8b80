//! Watches: one chunk an event, flushed at once. The registry ends them at a random time, as upstream does.

use bytes::Bytes;
use copepod_api::{ApiError, ApiResult, Reason, ResourceDef};
use copepod_registry::{WatchItem, WatchStream};
use futures::StreamExt as _;
use http::{Response, header};
use serde_json::{Value, json};

use super::{StoreRef, read, table};
use crate::body::Body;
use crate::negotiate::{Encoding, Target, Transforms};
use crate::protobuf;
use crate::request::list_options;
use crate::respond;
use crate::server::{Call, Server};
use crate::socket::{self, Form};

/// What a protobuf watch says of itself.
const PROTOBUF_STREAM: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Turns events into the form the client wants.
struct Framer {
    def: std::sync::Arc<ResourceDef>,
    target: Target,
    encoding: Encoding,
    include: table::Include,
    /// Tables carry their columns in the first event only.
    columns_sent: bool,
}

impl Framer {
    fn frame(&mut self, item: &WatchItem) -> Bytes {
        if self.encoding == Encoding::Protobuf {
            let object = item.object.to_value();
            let partial = self.target != Target::Object && item.kind != copepod_registry::WatchKind::Error;
            let object = if partial { table::partial(&self.def, &object) } else { object };
            if let Some(frame) = protobuf::watch_frame(item.kind.as_str(), &object) {
                return frame;
            }
        }
        if self.target == Target::Object || item.kind == copepod_registry::WatchKind::Error {
            return item.to_bytes();
        }
        let object = item.object.to_value();
        let object = match self.target {
            Target::Table => {
                let metadata = json!({"resourceVersion": copepod_api::meta::resource_version(&object)});
                let rows: &[Value] = std::slice::from_ref(&object);
                let mut table = table::render(&self.def, self.include, rows, &metadata);
                if std::mem::replace(&mut self.columns_sent, true) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
            _ => table::partial(&self.def, &object),
        };
        let mut bytes = format!("{{\"type\":\"{}\",\"object\":", item.kind.as_str()).into_bytes();
        bytes.extend(copepod_schema::encode::document(&object));
        bytes.extend_from_slice(b"}\n");
        bytes.into()
    }
}

impl Server {
    /// GET with `watch=true`.
    pub(super) async fn watch(&self, store: &StoreRef, call: &Call) -> ApiResult<Response<Body>> {
        let accepted = read::accepted(call, store.def(), Transforms::List)
            .or_else(|_| read::accepted(call, store.def(), Transforms::One))?;
        let target = match accepted.target {
            // A watch of partial metadata asks for single objects or for lists, both mean its events.
            Target::Object => wanted_partial(call),
            target => target,
        };
        if accepted.encoding == Encoding::Yaml {
            let text = format!(
                "only the following media types are accepted: application/json;stream=watch, {PROTOBUF_STREAM}"
            );
            return Err(ApiError::new(Reason::NotAcceptable, text));
        }
        let mut options = list_options(&call.query)?;
        if options.field_selector.is_empty() && !call.info.name.is_empty() {
            options.field_selector = format!("metadata.name={}", call.info.name);
        }
        // Custom resources have no protobuf form, but their metadata has.
        let builtin = !store.def().custom || target == Target::PartialMetadata;
        let encoding = if builtin && target != Target::Table { accepted.encoding } else { Encoding::Json };
        let stream = store.watch(&call.read_context(), call.namespace(), &options).await?;
        let framer = Framer {
            def: std::sync::Arc::clone(store.def()),
            target,
            encoding,
            include: table::Include::of(call)?,
            columns_sent: false,
        };
        let events = frames(stream, framer, self.shutdown.clone());
        if socket::wanted(&call.parts.headers) {
            let form = if encoding == Encoding::Protobuf { Form::Binary } else { Form::Text };
            return Ok(socket::serve(&call.parts, form, events));
        }
        let body = Body::stream(events);
        let media_type = if encoding == Encoding::Protobuf { PROTOBUF_STREAM } else { respond::JSON };
        let mut response = respond::with_type(200, media_type, Bytes::new());
        *response.body_mut() = body;
        Ok(response)
    }
}

fn wanted_partial(call: &Call) -> Target {
    let partial = call.header(header::ACCEPT).contains("as=PartialObjectMetadata");
    if partial { Target::PartialMetadata } else { Target::Object }
}

fn frames(
    stream: WatchStream,
    framer: Framer,
    shutdown: tokio_util::sync::CancellationToken,
) -> impl futures::Stream<Item = Result<Bytes, crate::body::StreamError>> + Send {
    futures::stream::unfold((stream, framer), |(mut stream, mut framer)| async move {
        let item = stream.next().await?;
        Some((Ok(framer.frame(&item)), (stream, framer)))
    })
    .take_until(shutdown.cancelled_owned())
}
