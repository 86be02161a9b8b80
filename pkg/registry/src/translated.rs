//! Objects that another API server stored as protobuf, read as the JSON that this one would have stored.
//!
//! Upstream's server writes built-in kinds as protobuf, ours as JSON; either reads both, so that they can take turns
//! on one data directory. Translation happens between etcd and everything else: once for each object that comes in.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use bytes::Bytes;
use copepod_api::{GroupVersion, ResourceDef};
use copepod_schema::{encode, protobuf, protobuf::Envelope};
use copepod_store::{Backend, BatchStream, Cas, KeyValue, Page, RangeRequest, Revision, StoreError};
use futures::{
    future::{BoxFuture, FutureExt as _},
    stream::StreamExt as _,
};

use crate::{codec, kinds, row::Schema};

/// A store whose protobuf values are read as JSON.
pub(crate) struct Translated(pub(crate) Arc<dyn Backend>);

/// Group and kind → the row, for kinds whose objects come as protobuf. Made when the first one comes.
static ROWS: LazyLock<HashMap<(String, String), ResourceDef>> = LazyLock::new(|| {
    let defs = copepod_schema::resources().into_iter();
    defs.map(|def| ((def.group.clone(), def.kind.clone()), def)).collect()
});

/// The JSON of a stored value; a value of a kind that is not known stays as it is, and is reported where it is read.
fn json(value: Bytes) -> Bytes {
    if !value.starts_with(protobuf::MAGIC) {
        return value;
    }
    translate(&value).unwrap_or(value)
}

fn translate(value: &[u8]) -> Option<Bytes> {
    let mut envelope = protobuf::open(value).ok()?;
    let row = row(&envelope);
    let known = protobuf::schema_of(&envelope.api_version, &envelope.kind);
    let schema = match (known, row) {
        (Some(schema), _) => schema,
        // A kind that is new in its stable version is still stored in its last beta, of the same fields and numbers.
        (None, Some(row)) => {
            envelope.api_version = row.gvk().api_version();
            copepod_schema::builtin().model(&row.schema)?
        }
        (None, None) => return None,
    };
    let mut object = protobuf::decode(&envelope, schema).ok()?;
    if let Some(row) = row.filter(|row| row.gvk().api_version() == envelope.api_version) {
        // Upstream's server stores some defaults only in its mind: it sets them whenever it reads.
        codec::default(&mut object, schema);
        kinds::hooks_for(&row.group, &row.plural).default(&mut object);
        codec::canonical(&mut object, &Schema::Builtin(schema));
    }
    Some(encode::encode(&object, schema).into())
}

fn row(envelope: &Envelope<'_>) -> Option<&'static ResourceDef> {
    let group = GroupVersion::parse(&envelope.api_version)?.group;
    ROWS.get(&(group, envelope.kind.clone()))
}

fn pair(kv: KeyValue) -> KeyValue {
    KeyValue { value: json(kv.value), ..kv }
}

fn outcome(cas: Cas) -> Cas {
    match cas {
        Cas::Conflict(Some(kv)) => Cas::Conflict(Some(pair(kv))),
        other => other,
    }
}

impl Backend for Translated {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<(Option<KeyValue>, Revision), StoreError>> {
        self.0.get(key).map(|got| got.map(|(kv, revision)| (kv.map(pair), revision))).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<Page, StoreError>> {
        let translate = |page: Page| Page { items: page.items.into_iter().map(pair).collect(), ..page };
        self.0.range(request).map(move |page| page.map(translate)).boxed()
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        value: Bytes,
        expected: Revision,
        ttl: Option<Duration>,
    ) -> BoxFuture<'a, Result<Cas, StoreError>> {
        self.0.put(key, value, expected, ttl).map(|done| done.map(outcome)).boxed()
    }

    fn delete<'a>(&'a self, key: &'a str, expected: Revision) -> BoxFuture<'a, Result<Cas, StoreError>> {
        self.0.delete(key, expected).map(|done| done.map(outcome)).boxed()
    }

    fn watch<'a>(
        &'a self,
        prefix: &'a str,
        from: Revision,
    ) -> BoxFuture<'a, Result<BatchStream, StoreError>> {
        let translate = |batch: Result<copepod_store::Batch, StoreError>| {
            batch.map(|mut batch| {
                for change in &mut batch.changes {
                    change.value = change.value.take().map(json);
                }
                batch
            })
        };
        self.0.watch(prefix, from).map(move |stream| stream.map(|s| s.map(translate).boxed())).boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.compact(revision)
    }
}

#[cfg(test)]
mod tests {
    use copepod_store::Entry;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_of_upstreams_is_read_as_one_of_ours() {
        let object = json!({
            "kind": "ConfigMap", "apiVersion": "v1",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "labels": {"x": "y"}},
            "data": {"k": "v"},
        });
        let schema = protobuf::schema_of("v1", "ConfigMap").expect("built in");
        let value = json(protobuf::encode(&object, schema).into());
        let entry = Entry::new(KeyValue { key: "/registry/configmaps/n/a".into(), value, revision: 7 });
        assert_eq!(entry.problem(), None);
        let read = entry.value().expect("readable");
        assert_eq!(read["data"], object["data"]);
        assert_eq!(read["metadata"]["resourceVersion"], "7");
        let rule = json!({"kind": "DeviceTaintRule", "apiVersion": "resource.k8s.io/v1beta2",
            "metadata": {"name": "r"}, "spec": {"taint": {"key": "k", "effect": "None"}}});
        let schema = protobuf::schema_of("resource.k8s.io/v1", "DeviceTaintRule").expect("built in");
        let value = json(protobuf::encode(&rule, schema).into());
        let entry = Entry::new(KeyValue { key: "/registry/devicetaintrules/r".into(), value, revision: 7 });
        assert_eq!((entry.problem(), entry.api_version()), (None, "resource.k8s.io/v1"));
        let unknown = Bytes::from_static(b"k8s\0\x0a\x08\x0a\x02v9\x12\x02No\x12\x00");
        assert_eq!(json(unknown.clone()), unknown);
    }
}
