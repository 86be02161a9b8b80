//! Files of a volume that get in each other's way.

use std::fmt;

use crate::kinds::at::At;

/// A path in a volume and what puts it there.
struct File<'a> {
    path: &'a str,
    source: String,
}

impl fmt::Display for File<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.path)?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

/// Warnings about volumes with files over or below others.
pub(super) fn volumes(list: &At<'_>, warnings: &mut Vec<String>) {
    for volume in list.items() {
        let name = volume.get("name").str();
        let (config, secret, downward) =
            (volume.get("configMap"), volume.get("secret"), volume.get("downwardAPI"));
        let plain = [
            (&config, format!("ConfigMap {:?}", config.get("name").str())),
            (&secret, format!("Secret {:?}", secret.get("secretName").str())),
            (&downward, "DownwardAPI".to_owned()),
        ];
        for (at, what) in plain {
            let overlaps = overlapping(items(at, ""));
            warnings.extend(overlaps.into_iter().map(|o| text(name, &what, &o)));
        }
        projected(name, &volume.get("projected"), warnings);
    }
}

fn text(volume: &str, what: &str, overlap: &str) -> String {
    format!("volume {volume:?} ({what}): overlapping paths: {overlap}")
}

fn items<'a>(at: &At<'a>, source: &str) -> Vec<File<'a>> {
    at.get("items").items().map(|i| File { path: i.get("path").str(), source: source.to_owned() }).collect()
}

fn projected(name: &str, at: &At<'_>, warnings: &mut Vec<String>) {
    let mut files = Vec::new();
    for source in at.get("sources").items() {
        if source.is_empty() {
            warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
            continue;
        }
        files.extend(of_source(&source));
    }
    let overlaps = overlapping(files);
    warnings.extend(overlaps.into_iter().map(|o| text(name, "Projected", &o)));
}

fn of_source<'a>(source: &At<'a>) -> Vec<File<'a>> {
    let (config, secret) = (source.get("configMap"), source.get("secret"));
    let (bundle, token) = (source.get("clusterTrustBundle"), source.get("serviceAccountToken"));
    let one = |at: At<'a>, source: String| vec![File { path: at.str(), source }];
    if config.present() {
        items(&config, &format!("ConfigMap {:?}", config.get("name").str()))
    } else if secret.present() {
        items(&secret, &format!("Secret {:?}", secret.get("name").str()))
    } else if source.get("downwardAPI").present() {
        items(&source.get("downwardAPI"), "DownwardAPI")
    } else if token.present() {
        one(token.get("path"), "ServiceAccountToken".to_owned())
    } else if bundle.present() {
        let (named, signer) = (bundle.get("name"), bundle.get("signerName"));
        let name = if named.present() { named } else { signer };
        one(bundle.get("path"), format!("ClusterTrustBundle {:?}", name.str()))
    } else {
        let certificate = source.get("podCertificate");
        let paths = [
            ("certificateChainPath", "PodCertificate chain"),
            ("keyPath", "PodCertificate key"),
            ("credentialBundlePath", "PodCertificate credential bundle"),
        ];
        let set = paths.into_iter().filter(|(field, _)| !certificate.get(field).is_empty());
        set.flat_map(|(field, source)| one(certificate.get(field), source.to_owned())).collect()
    }
}

fn overlapping(files: Vec<File<'_>>) -> Vec<String> {
    let mut seen: Vec<File<'_>> = Vec::new();
    let mut found = Vec::new();
    for mut file in files {
        file.path = file.path.trim_end_matches('/');
        let below = |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.starts_with('/'));
        for other in seen.iter().filter(|_| !file.path.is_empty()) {
            if other.path == file.path || below(other.path, file.path) || below(file.path, other.path) {
                found.push(format!("{file} with {other}"));
            }
        }
        seen.push(file);
    }
    found
}
