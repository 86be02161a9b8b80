//! Secrets of type `kubernetes.io/service-account-token`: filled with a token that does not expire, gone with their
//! ServiceAccount. (Pods get short-lived tokens from the API server instead.)

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use copepod_client::resources::{SECRETS, SERVICE_ACCOUNTS};
use copepod_client::{
    ClientError, Informer, InformerConfig, Meta, ObjectKey, OptionalExt, Outcome, WorkQueue,
};
use copepod_pki::jwt::SigningKey;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute_all};
use crate::views::MetaOnly;

const TYPE: &str = "kubernetes.io/service-account-token";
const ACCOUNT: &str = "kubernetes.io/service-account.name";
const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// A secret without its secrets: only whether each is there.
#[derive(Debug, Deserialize)]
struct Secret {
    metadata: Meta,
    #[serde(default)]
    data: std::collections::BTreeMap<String, IgnoredAny>,
}

/// Starts the controller; without a signing key there is nothing it could do.
pub(crate) fn start(context: &Context) {
    let Some(file) = context.config.service_account_key.clone() else { return };
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let secrets: Informer<Secret> =
        Informer::new(InformerConfig::all(SECRETS).fields(format!("type={TYPE}")));
    enqueue(&secrets, &queue);
    let (all, accounts) = (secrets.clone(), queue.clone());
    context.caches.service_accounts.on_change(move |key, _| {
        let theirs = |s: &&std::sync::Arc<Secret>| s.metadata.annotation(ACCOUNT) == Some(&key.name);
        all.list_namespace(&key.namespace).iter().filter(theirs).for_each(|s| accounts.add(s.metadata.key()));
    });
    secrets.start(&context.reader, &context.shutdown);
    // Upstream's token controller acts as the controller-manager itself.
    let context = Context { client: context.reader.clone(), ..context.clone() };
    context.work(&queue, 1, move |context, key| {
        let (secrets, file) = (secrets.clone(), file.clone());
        async move {
            secrets.synced().await;
            let Some(secret) = secrets.get_key(&key) else { return Ok(Outcome::Done) };
            sync(&context, &secret, &file).await
        }
    });
}

async fn sync(context: &Context, secret: &Secret, key: &Path) -> SyncResult {
    let meta = &secret.metadata;
    let name = meta.annotation(ACCOUNT).unwrap_or_default();
    let account =
        context.client.get::<MetaOnly>(&SERVICE_ACCOUNTS.object(&meta.namespace, name)).await.optional()?;
    let uid = meta.annotation(ACCOUNT_UID);
    let account = account.map(|a| a.metadata).filter(|a| uid.is_none_or(|uid| uid == a.uid));
    let Some(account) = account else {
        return execute_all(context, vec![Step::delete(&SECRETS, meta)]).await.map(|()| Outcome::Done);
    };
    let has = |key: &str| secret.data.contains_key(key);
    if meta.deleting() || (has("token") && has("ca.crt") && has("namespace") && uid.is_some()) {
        return Ok(Outcome::Done);
    }
    let key = SigningKey::load(key)
        .map_err(|e| ClientError::Config(format!("service account key: {}", copepod_client::chain(&e))))?;
    let token = key
        .sign(&claims(meta, &account))
        .map_err(|e| ClientError::Config(format!("cannot sign a token: {}", copepod_client::chain(&e))))?;
    let mut data = json!({"token": STANDARD.encode(token), "namespace": STANDARD.encode(&meta.namespace)});
    if let Some(file) = &context.config.root_ca_file {
        let ca = tokio::fs::read(file).await;
        let ca = ca.map_err(|source| ClientError::File { path: file.clone(), source })?;
        data["ca.crt"] = json!(STANDARD.encode(ca));
    }
    let body = json!({"metadata": {"annotations": {ACCOUNT_UID: account.uid}}, "data": data});
    execute_all(context, vec![Step::merge(&SECRETS, meta, body)]).await.map(|()| Outcome::Done)
}

fn claims(secret: &Meta, account: &Meta) -> serde_json::Value {
    json!({
        "iss": "kubernetes/serviceaccount",
        "sub": format!("system:serviceaccount:{}:{}", account.namespace, account.name),
        "kubernetes.io/serviceaccount/namespace": account.namespace,
        "kubernetes.io/serviceaccount/secret.name": secret.name,
        "kubernetes.io/serviceaccount/service-account.name": account.name,
        "kubernetes.io/serviceaccount/service-account.uid": account.uid,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_name_the_account_and_the_secret() {
        let account = Meta { name: "a".into(), namespace: "ns".into(), uid: "u".into(), ..Meta::default() };
        let secret = Meta { name: "s".into(), ..Meta::default() };
        let claims = claims(&secret, &account);
        assert_eq!(claims["sub"], "system:serviceaccount:ns:a");
        assert_eq!(claims["kubernetes.io/serviceaccount/secret.name"], "s");
    }
}
