//! Which crate may depend on which: edges point downward, and components never meet each other.

use std::fmt;

use serde::Deserialize;

/// The layers, lowest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Layer {
    Foundation,
    Domain,
    Component,
    Command,
}

/// Every crate of the workspace and its layer. A crate that is not here is a problem of its own.
const LAYERS: &[(Layer, &[&str])] = &[
    (Layer::Foundation, &["api", "pki", "config", "telemetry", "supervisor", "sys", "testkit"]),
    (
        Layer::Domain,
        &[
            "schema",
            "store",
            "registry",
            "client",
            "cri",
            "netcalc",
            "dataplane",
            "cni",
            "volume",
            "image",
            "cel",
            "replay",
            "quota",
            "storage",
        ],
    ),
    (
        Layer::Component,
        &["apiserver", "controllers", "scheduler", "kubelet", "proxy", "dns", "csi", "bootstrap"],
    ),
];

/// What library crates are called beside their folder's name.
const PREFIX: &str = "copepod-";

/// A crate of the workspace with its edges to other crates of the workspace.
#[derive(Debug)]
pub(super) struct Package {
    name: String,
    is_command: bool,
    depends_on: Vec<String>,
}

/// A broken rule.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Problem {
    Unlisted(String),
    Upward { from: String, to: String },
    Sideways { from: String, to: String },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unlisted(name) => write!(f, "{name} has no layer in cmd/xtask/src/tidy/layers.rs"),
            Self::Upward { from, to } => write!(f, "{from} depends upward on {to}"),
            Self::Sideways { from, to } => write!(f, "the component {from} depends on the component {to}"),
        }
    }
}

/// Reads the output of `cargo metadata --no-deps`.
pub(super) fn parse(metadata: &str) -> Result<Vec<Package>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Raw>,
    }
    #[derive(Deserialize)]
    struct Raw {
        name: String,
        manifest_path: String,
        dependencies: Vec<Dependency>,
    }
    #[derive(Deserialize)]
    struct Dependency {
        name: String,
        path: Option<String>,
    }
    let metadata: Metadata = serde_json::from_str(metadata)?;
    Ok(metadata
        .packages
        .into_iter()
        .map(|raw| Package {
            is_command: raw.manifest_path.contains("/cmd/"),
            depends_on: raw.dependencies.into_iter().filter(|d| d.path.is_some()).map(|d| d.name).collect(),
            name: raw.name,
        })
        .collect())
}

/// All broken rules among `packages`.
pub(super) fn check(packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages {
        let Some(layer) = layer_of(package) else {
            problems.push(Problem::Unlisted(package.name.clone()));
            continue;
        };
        for to in &package.depends_on {
            let Some(target) = packages.iter().find(|p| p.name == *to).and_then(layer_of) else { continue };
            let (from, to) = (package.name.clone(), to.clone());
            if target > layer {
                problems.push(Problem::Upward { from, to });
            } else if target == layer && layer >= Layer::Component {
                problems.push(Problem::Sideways { from, to });
            }
        }
    }
    problems.iter().map(Problem::to_string).collect()
}

fn layer_of(package: &Package) -> Option<Layer> {
    if package.is_command {
        return Some(Layer::Command);
    }
    let short = package.name.strip_prefix(PREFIX)?;
    LAYERS.iter().find(|(_, names)| names.contains(&short)).map(|(layer, _)| *layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, depends_on: &[&str]) -> Package {
        Package {
            name: name.to_string(),
            is_command: !name.starts_with(PREFIX),
            depends_on: depends_on.iter().map(ToString::to_string).collect(),
        }
    }

    fn problems(packages: &[Package]) -> Vec<String> {
        check(packages)
    }

    #[test]
    fn downward_and_library_to_library_edges_are_allowed() {
        let tree = [
            package("copepod", &["copepod-kubelet"]),
            package("copepod-kubelet", &["copepod-cri", "copepod-sys"]),
            package("copepod-registry", &["copepod-store"]),
            package("copepod-store", &["copepod-api"]),
            package("copepod-cri", &[]),
            package("copepod-api", &[]),
            package("copepod-sys", &[]),
        ];
        assert_eq!(problems(&tree), Vec::<String>::new());
    }

    #[test]
    fn upward_edges_are_named() {
        let tree = [package("copepod-api", &["copepod-store"]), package("copepod-store", &[])];
        assert_eq!(problems(&tree), ["copepod-api depends upward on copepod-store"]);
    }

    #[test]
    fn components_may_not_meet() {
        let tree = [package("copepod-proxy", &["copepod-kubelet"]), package("copepod-kubelet", &[])];
        assert_eq!(problems(&tree), ["the component copepod-proxy depends on the component copepod-kubelet"]);
    }

    #[test]
    fn a_crate_without_a_layer_is_a_problem() {
        assert_eq!(problems(&[package("copepod-misc", &[])]).len(), 1);
    }

    #[test]
    fn only_path_dependencies_are_edges() {
        let json = r#"{"packages":[{"name":"copepod-sys","manifest_path":"/x/pkg/sys/Cargo.toml",
            "dependencies":[{"name":"tokio","path":null},{"name":"copepod-api","path":"/x/pkg/api"}]}]}"#;
        let packages = parse(json).unwrap();
        assert_eq!(packages[0].depends_on, ["copepod-api"]);
        assert!(!packages[0].is_command);
        assert!(parse("{}").is_err());
    }
}
