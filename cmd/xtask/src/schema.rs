//! `cargo xtask schema`: reads upstream's published Go modules and writes the tables of pkg/schema.
//!
//! Facts only: names, types, numbers, defaults, keys. Go's struct tags give field order, protobuf numbers and
//! what the encoder omits; the OpenAPI documents give defaults, list and merge keys, required fields and kinds;
//! the discovery documents give the resource rows. Nothing is downloaded here: run
//! `go mod download k8s.io/kubernetes@v1.37.2` and its siblings first.

mod golang;
#[cfg(test)]
mod published;
mod render;
mod resources;
mod spec;
mod storage;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use golang::Source;
use spec::Spec;

/// Upstream's release: the version of `k8s.io/kubernetes`, and that of its published libraries.
const RELEASE: &str = "v1.37.2";
const LIBRARIES: &str = "v0.37.2";

/// Where the generated tables go.
const DATA: &str = "pkg/schema/data";

/// Groups of `k8s.io/api` that have types but no served OpenAPI document.
const EXTRA_PACKAGES: [&str; 2] = ["admission/v1", "apidiscovery/v2"];

/// Types that are in no OpenAPI document and still travel on the wire.
const EXTRA_TYPES: [&str; 12] = [
    "k8s.io/api/admission/v1.AdmissionReview",
    "k8s.io/api/apidiscovery/v2.APIGroupDiscoveryList",
    "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.ConversionReview",
    "k8s.io/apimachinery/pkg/apis/meta/v1.Table",
    "k8s.io/apimachinery/pkg/apis/meta/v1.PartialObjectMetadata",
    "k8s.io/apimachinery/pkg/apis/meta/v1.PartialObjectMetadataList",
    "k8s.io/apimachinery/pkg/apis/meta/v1.ListOptions",
    "k8s.io/apimachinery/pkg/apis/meta/v1.GetOptions",
    "k8s.io/apimachinery/pkg/apis/meta/v1.CreateOptions",
    "k8s.io/apimachinery/pkg/apis/meta/v1.UpdateOptions",
    "k8s.io/apimachinery/pkg/apis/meta/v1.PatchOptions",
    "k8s.io/apimachinery/pkg/apis/meta/v1.WatchEvent",
];

/// The module cache.
struct Modules(PathBuf);

impl Modules {
    fn from_env() -> Result<Self> {
        let cache = std::env::var_os("GOMODCACHE").map(PathBuf::from);
        let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join("go/pkg/mod"));
        cache.or(home).map(Self).context("neither GOMODCACHE nor HOME is set")
    }

    /// The folder of `k8s.io/<name>`.
    fn dir(&self, name: &str) -> Result<PathBuf> {
        let version = if name == "kubernetes" { RELEASE } else { LIBRARIES };
        let dir = self.0.join(format!("k8s.io/{name}@{version}"));
        anyhow::ensure!(
            dir.is_dir(),
            "{} is missing; run: go mod download k8s.io/{name}@{version}",
            dir.display()
        );
        Ok(dir)
    }
}

/// Runs the task in the workspace at `root`.
pub(crate) fn run(root: &Path) -> Result<()> {
    let modules = Modules::from_env()?;
    let kubernetes = modules.dir("kubernetes")?;
    let spec = Spec::read(&kubernetes.join("api/openapi-spec/v3"))?;
    let source = read_source(&modules, &spec)?;

    let mut wanted: Vec<String> = spec.models().map(str::to_owned).collect();
    wanted.extend(EXTRA_TYPES.iter().map(|path| golang::model_name(path)));
    let types = render::render(&source, &spec, &wanted)?;
    let rows = resources::rows(&kubernetes.join("api/discovery"), &spec)?;

    let data = root.join(DATA);
    fs::create_dir_all(&data).with_context(|| format!("create {}", data.display()))?;
    write(&data.join("types.txt"), &types)?;
    write(&data.join("resources.json"), &rows)
}

/// Reads every package whose types the documents name.
fn read_source(modules: &Modules, spec: &Spec) -> Result<Source> {
    read_packages(modules, spec.api_packages().into_iter().chain(EXTRA_PACKAGES.map(str::to_owned)))
}

/// Reads packages of `k8s.io/api` such as `core/v1`, and those that all of them build on.
fn read_packages(modules: &Modules, packages: impl Iterator<Item = String>) -> Result<Source> {
    let mut source = Source::default();
    let api = modules.dir("api")?;
    for package in packages {
        source.read_package(&format!("k8s.io/api/{package}"), &api.join(&package))?;
    }
    for (module, package) in [
        ("apimachinery", "pkg/apis/meta/v1"),
        ("apimachinery", "pkg/types"),
        ("apimachinery", "pkg/version"),
        ("apiextensions-apiserver", "pkg/apis/apiextensions/v1"),
        ("kube-aggregator", "pkg/apis/apiregistration/v1"),
    ] {
        source.read_package(&format!("k8s.io/{module}/{package}"), &modules.dir(module)?.join(package))?;
    }
    Ok(source)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))
}
