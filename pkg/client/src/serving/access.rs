//! Who may read what a component tells of itself: authentication and authorization are the API server's (upstream's
//! delegated options of `k8s.io/apiserver/pkg/server/options`).

use copepod_api::{ApiError, ApiResult, GroupResource, field::quote};
use copepod_pki::{Subject, subject};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use rustls_pki_types::CertificateDer;
use serde_json::{Value, json};

use crate::Client;
use crate::resources::{SUBJECT_ACCESS_REVIEWS, TOKEN_REVIEWS};

/// The group that may do everything, even while the API server cannot be asked.
const MASTERS: &str = "system:masters";

/// Lets a request for `path` through, or says why not.
pub(super) async fn check(
    client: &Client,
    certificate: Option<&CertificateDer<'_>>,
    headers: &HeaderMap,
    path: &str,
) -> ApiResult<()> {
    let user = authenticate(client, certificate, headers).await?;
    if user.groups.iter().any(|group| group == MASTERS) {
        return Ok(());
    }
    let review = json!({
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version(), "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {
            "user": user.user, "groups": user.groups, "nonResourceAttributes": {"path": path, "verb": "get"},
        },
    });
    let answer: Value =
        client.create(&SUBJECT_ACCESS_REVIEWS.collection(""), &review).await.map_err(|e| internal(&e))?;
    if answer.pointer("/status/allowed") == Some(&Value::Bool(true)) {
        return Ok(());
    }
    let why = format!("User {} cannot get path {}", quote(&user.user), quote(path));
    Err(ApiError::forbidden(&GroupResource::new("", ""), "", &why))
}

fn internal(error: &crate::ClientError) -> ApiError {
    ApiError::internal(crate::chain(error))
}

/// The owner of the certificate, else of the token, else nobody known.
async fn authenticate(
    client: &Client,
    certificate: Option<&CertificateDer<'_>>,
    headers: &HeaderMap,
) -> ApiResult<Subject> {
    if let Some(mut user) = certificate.and_then(|der| subject(der)) {
        user.groups.push("system:authenticated".to_owned());
        return Ok(user);
    }
    let header = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
    let Some(token) = header.and_then(|v| v.strip_prefix("Bearer ")) else {
        let groups = vec!["system:unauthenticated".to_owned()];
        return Ok(Subject { user: "system:anonymous".to_owned(), groups });
    };
    let review = json!({
        "apiVersion": TOKEN_REVIEWS.api_version(), "kind": TOKEN_REVIEWS.kind, "spec": {"token": token.trim()},
    });
    let answer: Value =
        client.create(&TOKEN_REVIEWS.collection(""), &review).await.map_err(|e| internal(&e))?;
    if answer.pointer("/status/authenticated") != Some(&Value::Bool(true)) {
        return Err(ApiError::unauthorized());
    }
    let user = &answer["status"]["user"];
    let groups = user["groups"].as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned);
    Ok(Subject { user: user["username"].as_str().unwrap_or_default().to_owned(), groups: groups.collect() })
}
