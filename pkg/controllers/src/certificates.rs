//! CertificateSigningRequests: those of kubelets for themselves are approved, approved ones are signed, old ones go.

mod rules;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use copepod_client::resources::{CERTIFICATE_SIGNING_REQUESTS as REQUESTS, SUBJECT_ACCESS_REVIEWS};
use copepod_client::{ClientError, Informer, InformerConfig, Meta, ObjectKey, Outcome, WorkQueue};
use copepod_sys::clock;
use jiff::{SignedDuration, Timestamp};
use rcgen::{CertificateSigningRequestParams, ExtendedKeyUsagePurpose, Issuer, KeyUsagePurpose};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::context::{Context, SyncResult, enqueue};
use crate::step::{Step, execute_all};
use crate::views::{Condition, holds};
use rules::{CLIENT_KUBELET, Wish, recognized_kubelet, signable};

/// Upstream's `--cluster-signing-duration`.
const VALID: SignedDuration = SignedDuration::from_hours(365 * 24);
/// Clocks of nodes may be a little behind.
const BACKDATE: SignedDuration = SignedDuration::from_mins(5);
const CLEAN: Duration = Duration::from_secs(3600);

/// A request.
#[derive(Debug, Deserialize)]
struct Request {
    metadata: Meta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    request: String,
    signer_name: String,
    usages: Vec<String>,
    username: String,
    groups: Vec<String>,
    uid: String,
    extra: std::collections::BTreeMap<String, Vec<String>>,
    expiration_seconds: Option<i64>,
}

#[derive(Debug, Deserialize, Default)]
#[serde(default)]
struct Status {
    certificate: String,
    conditions: Vec<Condition>,
}

/// Starts approving, signing and cleaning, over one cache.
pub(crate) fn start(context: &Context) {
    let queue: WorkQueue<ObjectKey> = WorkQueue::new();
    let requests: Informer<Request> = Informer::new(InformerConfig::all(REQUESTS));
    enqueue(&requests, &queue);
    requests.start(&context.reader, &context.shutdown);
    let all = requests.clone();
    context.every(CLEAN, move |context| {
        let all = all.clone();
        async move {
            all.synced().await;
            let now = clock::now();
            let old = all.list().into_iter().filter(|r| outdated(r, now));
            execute_all(&context, old.map(|r| Step::delete(&REQUESTS, &r.metadata)).collect()).await
        }
    });
    context.work(&queue, 1, move |context, key| {
        let requests = requests.clone();
        async move {
            let Some(request) = requests.get_key(&key) else { return Ok(Outcome::Done) };
            sync(&context, &request).await
        }
    });
}

/// Upstream's ages: issued, denied and failed requests stay an hour after they were settled, pending and approved ones a
/// day; what has been issued and has run out stays no longer.
fn outdated(request: &Request, now: Timestamp) -> bool {
    let older = |at: Option<Timestamp>, hours: i64| {
        at.is_some_and(|at| now.duration_since(at) > SignedDuration::from_hours(hours))
    };
    let status = &request.status;
    let issued = !status.certificate.is_empty();
    if status.conditions.is_empty() && older(request.metadata.creation_timestamp, 24) {
        return true;
    }
    status.conditions.iter().any(|condition| match condition.r#type.as_str() {
        "Denied" | "Failed" => older(condition.last_update_time, 1),
        "Approved" if issued => older(condition.last_update_time, 1) || expired(&status.certificate, now),
        "Approved" => older(condition.last_update_time, 24),
        _ => false,
    })
}

/// Whether the first certificate of a chain has run out.
fn expired(encoded: &str, now: Timestamp) -> bool {
    let pem = STANDARD.decode(encoded).ok();
    let end = pem.and_then(|pem| copepod_pki::not_after(&pem));
    end.is_some_and(|end| end < now.as_second())
}

async fn sync(context: &Context, request: &Request) -> SyncResult {
    let conditions = &request.status.conditions;
    if holds(conditions, "Denied") || holds(conditions, "Failed") || !request.status.certificate.is_empty() {
        return Ok(Outcome::Done);
    }
    let Ok(pem) = STANDARD.decode(&request.spec.request) else { return Ok(Outcome::Done) };
    let Ok(parsed) = CertificateSigningRequestParams::from_pem(&String::from_utf8_lossy(&pem)) else {
        return Ok(Outcome::Done);
    };
    let wish = Wish::of(&parsed.params, &request.spec.usages);
    if holds(conditions, "Approved") {
        return sign(context, request, parsed, &wish).await;
    }
    if request.spec.signer_name == CLIENT_KUBELET && recognized_kubelet(&wish) {
        return approve(context, request, &wish).await;
    }
    Ok(Outcome::Done)
}

/// A kubelet may ask for itself, and a bootstrap identity for a kubelet, if RBAC says so.
async fn approve(context: &Context, request: &Request, wish: &Wish) -> SyncResult {
    let own = ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview.");
    let any = ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview.");
    let itself = wish.common_name == request.spec.username;
    for (subresource, text) in itself.then_some(own).into_iter().chain([any]) {
        if allowed(context, request, subresource).await? {
            let approved = Condition::new("Approved", true, "AutoApproved", text);
            return write(context, request, "approval", approved, None).await;
        }
    }
    // RBAC may say something else later.
    Ok(Outcome::Retry)
}

async fn allowed(context: &Context, request: &Request, subresource: &str) -> Result<bool, ClientError> {
    let review = json!({
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version(), "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {
            "user": request.spec.username, "groups": request.spec.groups, "uid": request.spec.uid,
            "extra": request.spec.extra,
            "resourceAttributes": {
                "group": REQUESTS.group, "resource": REQUESTS.plural, "verb": "create", "version": "*",
                "subresource": subresource,
            },
        },
    });
    let answer: Value = context.client.create(&SUBJECT_ACCESS_REVIEWS.collection(""), &review).await?;
    Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
}

async fn sign(
    context: &Context,
    request: &Request,
    mut parsed: CertificateSigningRequestParams,
    wish: &Wish,
) -> SyncResult {
    match signable(&request.spec.signer_name, wish) {
        None => return Ok(Outcome::Done),
        Some(Err(why)) => {
            let failed = Condition::new("Failed", true, "SignerValidationFailure", why);
            return write(context, request, "status", failed, None).await;
        }
        Some(Ok(())) => {}
    }
    let Some((cert, key)) = context.config.cluster_signing.clone() else { return Ok(Outcome::Done) };
    let (cert, key) = (read(cert).await?, read(key).await?);
    let wanted = request.spec.expiration_seconds.map_or(VALID, SignedDuration::from_secs).min(VALID);
    let params = &mut parsed.params;
    let (now, bad) = (clock::now(), |e: rcgen::Error| ClientError::Config(format!("signing: {e}")));
    params.not_before = SystemTime::from(now - BACKDATE).into();
    params.not_after = SystemTime::from(now + wanted).into();
    params.is_ca = rcgen::IsCa::ExplicitNoCa;
    params.use_authority_key_identifier_extension = true;
    params.key_usages = wish.usages.iter().filter_map(|u| key_usage(u)).collect();
    params.extended_key_usages = wish.usages.iter().filter_map(|u| extended_usage(u)).collect();
    let issuer = Issuer::from_ca_cert_pem(&cert, copepod_pki::key_pair(&key).map_err(bad)?).map_err(bad)?;
    let signed = parsed.signed_by(&issuer).map_err(bad)?;
    let certificate = STANDARD.encode(signed.pem());
    let approved = Condition::default();
    write(context, request, "status", approved, Some(certificate)).await
}

async fn read(path: PathBuf) -> Result<String, ClientError> {
    tokio::fs::read_to_string(&path).await.map_err(|source| ClientError::File { path, source })
}

fn key_usage(usage: &str) -> Option<KeyUsagePurpose> {
    match usage {
        "digital signature" => Some(KeyUsagePurpose::DigitalSignature),
        "key encipherment" => Some(KeyUsagePurpose::KeyEncipherment),
        _ => None,
    }
}

fn extended_usage(usage: &str) -> Option<ExtendedKeyUsagePurpose> {
    match usage {
        "client auth" => Some(ExtendedKeyUsagePurpose::ClientAuth),
        "server auth" => Some(ExtendedKeyUsagePurpose::ServerAuth),
        _ => None,
    }
}

/// Adds a condition (if it has a type) or the certificate.
async fn write(
    context: &Context,
    request: &Request,
    subresource: &'static str,
    condition: Condition,
    certificate: Option<String>,
) -> SyncResult {
    let mut status = json!({});
    if !condition.r#type.is_empty() {
        let now = clock::now();
        let mut conditions = request.status.conditions.clone();
        let new = Condition { last_update_time: Some(now), last_transition_time: Some(now), ..condition };
        conditions.push(new);
        status["conditions"] = json!(conditions);
    }
    if let Some(certificate) = certificate {
        status["certificate"] = json!(certificate);
    }
    let step = Step::Patch {
        resource: REQUESTS,
        key: request.metadata.key(),
        subresource,
        patch: copepod_client::Patch::Merge(json!({"status": status})),
    };
    execute_all(context, vec![step]).await.map(|()| Outcome::Done)
}
