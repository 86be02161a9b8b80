//! Projected volumes: several sources in one directory.

use std::collections::HashSet;

use super::volumes::{downward_file, key_to_path};
use crate::kinds::at::At;
use crate::kinds::checks::{labels, text};

/// A projected volume.
pub(crate) fn volume(at: &At<'_>) {
    text::file_mode(&at.get("defaultMode"));
    let mut paths = Paths { volume: at, taken: HashSet::new() };
    for source in at.get("sources").items() {
        let mut found = 0;
        for kind in [
            "secret",
            "configMap",
            "downwardAPI",
            "serviceAccountToken",
            "clusterTrustBundle",
            "podCertificate",
        ] {
            let place = source.get(kind);
            if place.present() {
                found += 1;
                match kind {
                    "secret" | "configMap" => keys(&place, &mut paths),
                    "downwardAPI" => fields(&place, &mut paths),
                    "serviceAccountToken" => token(&place, at),
                    "clusterTrustBundle" => bundle(&place, &mut paths),
                    _ => certificate(&place, &mut paths),
                }
            }
        }
        if found > 1 {
            source.forbidden("may not specify more than 1 volume type per source");
        }
    }
}

struct Paths<'a, 'v> {
    volume: &'a At<'v>,
    taken: HashSet<String>,
}

impl Paths<'_, '_> {
    fn take(&mut self, path: &str, shown: &str) {
        if !path.is_empty() && !self.taken.insert(path.to_owned()) {
            self.volume.invalid_as(shown, "conflicting duplicate paths");
        }
    }
}

fn keys(at: &At<'_>, paths: &mut Paths<'_, '_>) {
    at.get("name").need();
    for item in at.get("items").items() {
        key_to_path(&item);
        paths.take(item.get("path").str(), at.get("name").str());
    }
}

fn fields(at: &At<'_>, paths: &mut Paths<'_, '_>) {
    for item in at.get("items").items() {
        downward_file(&item.named(at.path().clone()));
        let path = item.get("path").str();
        paths.take(path, path);
    }
}

fn token(at: &At<'_>, volume: &At<'_>) {
    let expiration = at.get("expirationSeconds");
    match expiration.int() {
        None => expiration.required(""),
        Some(n) if n < 600 => expiration.invalid("may not specify a duration less than 10 minutes"),
        Some(n) if n > 1 << 32 => expiration.invalid("may not specify a duration larger than 2^32 seconds"),
        Some(_) => {}
    }
    // Upstream names the volume, not the source.
    let path = volume.get("path").holding(&at.get("path"));
    if path.need() {
        text::local_path(&path);
    }
}

fn bundle(at: &At<'_>, paths: &mut Paths<'_, '_>) {
    let (name, signer) = (at.get("name"), at.get("signerName"));
    match (name.present(), signer.present()) {
        (true, true) => {
            let shown = at.value().cloned().unwrap_or_default();
            at.invalid_as(shown, "only one of name and signerName may be used");
        }
        (true, false) => {
            name.need_because("must be a valid object name");
            if at.get("labelSelector").present() {
                at.get("labelSelector").invalid("labelSelector must be unset if name is specified");
            }
        }
        (false, true) => {
            signer.need_because("must be a valid signer name");
            labels::selector(&at.get("labelSelector"));
        }
        (false, false) => at.required("either name or signerName must be specified"),
    }
    at.get("path").need();
    text::local_path(&at.get("path"));
    let path = at.get("path").str();
    paths.take(path, path);
}

const KEY_TYPES: &[&str] = &["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];

fn certificate(at: &At<'_>, paths: &mut Paths<'_, '_>) {
    at.get("signerName").need();
    if !KEY_TYPES.contains(&at.get("keyType").str()) {
        at.get("keyType").not_supported(KEY_TYPES);
    }
    let max = at.get("maxExpirationSeconds");
    let limit = if at.get("signerName").str().starts_with("kubernetes.io/") { 86_400 } else { 7_862_400 };
    if max.int().is_some_and(|n| n < 3600) {
        max.invalid("if provided, maxExpirationSeconds must be >= 3600");
    } else if max.int().is_some_and(|n| n > limit) {
        max.invalid(format!("if provided, maxExpirationSeconds must be <= {limit}"));
    }
    let mut given = 0;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let path = at.get(field);
        if !path.is_empty() {
            given += 1;
            text::local_path(&path);
            paths.take(path.str(), path.str());
        }
    }
    if given == 0 {
        at.required("specify at least one of credentialBundlePath, keyPath, and certificateChainPath");
    }
}
