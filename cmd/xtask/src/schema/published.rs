//! The codec on upstream's own files: every kind of `k8s.io/api`, served or not, in JSON, YAML and protobuf.
//!
//! Types that we do not serve are in no table of the binary; the table for this test is made from the Go sources
//! beside the files.

use std::{
    collections::BTreeMap,
    fmt::Display,
    fs,
    path::{Path, PathBuf},
};

use copepod_schema::{SchemaRef, SchemaSet, decode, decode::FieldValidation, encode, protobuf};
use serde_json::Value;

use super::{Modules, golang, read_packages, render, spec::Spec};

/// Releases whose files are kept beside the current ones.
const OLDER: [&str; 4] = ["v1.33.0", "v1.34.0", "v1.35.0", "v1.36.0"];

/// The sources, and their types as a table.
struct Published {
    files: PathBuf,
    /// `group/version` → package, such as `apps/v1` of `k8s.io/api`.
    packages: BTreeMap<(String, String), String>,
    types: SchemaSet,
}

/// Says so and yields nothing where the modules are not on this machine.
fn published() -> Option<Published> {
    let modules = Modules::from_env().ok()?;
    let (api, kubernetes) = match (modules.dir("api"), modules.dir("kubernetes")) {
        (Ok(api), Ok(kubernetes)) => (api, kubernetes),
        (Err(missing), _) | (_, Err(missing)) => {
            println!("not tested: {missing}");
            return None;
        }
    };
    let packages = packages(&api);
    let source = read_packages(&modules, packages.values().cloned()).expect("the sources are readable");
    let spec = Spec::read(&kubernetes.join("api/openapi-spec/v3")).expect("the documents are readable");
    let wanted: Vec<String> = source.by_model().into_keys().filter(|model| is_kind(model)).collect();
    let table = render::render(&source, &spec, &wanted).expect("a table");
    let types = copepod_schema::load(Box::leak(table.into_boxed_str()));
    Some(Published { files: api.join("testdata"), packages, types })
}

/// Of the common packages only what travels by itself.
fn is_kind(model: &str) -> bool {
    model.starts_with("io.k8s.api.") || model.contains(".meta.v1.")
}

fn packages(api: &Path) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for group in folders(api) {
        for version in folders(&api.join(&group)) {
            let Ok(text) = fs::read_to_string(api.join(&group).join(&version).join("register.go")) else {
                continue;
            };
            let name = text.split_once("GroupName = \"").and_then(|(_, rest)| rest.split_once('"'));
            let name = name.map_or("", |(name, _)| name);
            let name = if name.is_empty() { "core" } else { name };
            found.insert((name.to_owned(), version.clone()), format!("{group}/{version}"));
        }
    }
    found
}

fn folders(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter(|e| e.path().is_dir()).filter_map(|e| e.file_name().into_string().ok()).collect()
}

impl Published {
    /// The stems `<group>.<version>.<Kind>` of one release's files.
    fn stems(&self, release: &str) -> Vec<String> {
        let entries = fs::read_dir(self.files.join(release)).expect("a release's files").flatten();
        let names = entries.filter_map(|e| e.file_name().into_string().ok());
        let mut stems: Vec<String> = names.filter_map(|n| n.strip_suffix(".pb").map(str::to_owned)).collect();
        stems.retain(|stem| !stem.ends_with(".after_roundtrip"));
        stems.sort();
        stems
    }

    fn schema(&self, stem: &str) -> Option<SchemaRef<'_>> {
        let (group_version, kind) = stem.rsplit_once('.')?;
        let (group, version) = group_version.rsplit_once('.')?;
        let package = self.packages.get(&(group.to_owned(), version.to_owned()))?;
        let model = golang::model_name(&format!("k8s.io/api/{package}.{kind}"));
        let meta = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{kind}");
        self.types.model(&model).or_else(|| self.types.model(&meta))
    }

    /// What a file should come back as: itself, or what upstream says became of it.
    fn expected(&self, release: &str, stem: &str, form: &str) -> Vec<u8> {
        let file = |infix: &str| self.files.join(release).join(format!("{stem}{infix}.{form}"));
        fs::read(file(".after_roundtrip")).or_else(|_| fs::read(file(""))).expect("a file of each form")
    }

    fn given(&self, release: &str, stem: &str, form: &str) -> Vec<u8> {
        fs::read(self.files.join(release).join(format!("{stem}.{form}"))).expect("a file of each form")
    }

    /// Reads one kind in each form, and writes it in each form; what is wrong.
    fn check(&self, release: &str, stem: &str) -> Result<(), String> {
        let schema = self.schema(stem).ok_or_else(|| format!("{stem}: no type"))?;
        // Fields that are no more are dropped, as upstream does.
        let validation = if release == "HEAD" { FieldValidation::Strict } else { FieldValidation::Ignore };
        let json = self.given(release, stem, "json");
        let tree = decode::decode(&json, schema, validation).map_err(wrong(stem, "JSON"))?.object;
        let yaml =
            decode::yaml(&self.given(release, stem, "yaml")).map_err(|why| format!("{stem}, YAML: {why}"))?;
        let yaml = decode::decode_yaml(&yaml, schema, validation).map_err(wrong(stem, "YAML"))?.object;
        let bytes = self.given(release, stem, "pb");
        let message = protobuf::open(&bytes).and_then(|envelope| protobuf::decode(&envelope, schema));
        let mut message = message.map_err(wrong(stem, "protobuf"))?;
        if schema.field("kind").is_none() {
            // The envelope names the type even where the object does not.
            message.as_object_mut().expect("an object").retain(|key, _| key != "kind" && key != "apiVersion");
        }
        for (form, other) in [("YAML", &yaml), ("protobuf", &message)] {
            same(&format!("{stem}: the {form} file read"), other.to_string(), tree.to_string())?;
        }
        let written = indented(&encode::encode(&tree, schema));
        same(&format!("{stem}.json"), written, text(&self.expected(release, stem, "json")))?;
        same(&format!("{stem}.yaml"), encode::yaml(&tree), text(&self.expected(release, stem, "yaml")))?;
        let mut typed = tree;
        if schema.field("kind").is_none() {
            let envelope = protobuf::open(&bytes).map_err(wrong(stem, "protobuf"))?;
            typed["kind"] = envelope.kind.into();
            typed["apiVersion"] = envelope.api_version.into();
        }
        let ours = protobuf::encode(&typed, schema);
        same(&format!("{stem}.pb"), format!("{ours:?}"), format!("{:?}", self.expected(release, stem, "pb")))
    }

    fn check_all(&self, release: &str) -> usize {
        let mut stems = self.stems(release);
        // Types of older releases that were removed since.
        stems.retain(|stem| release == "HEAD" || self.schema(stem).is_some());
        let failed: Vec<String> = stems.iter().filter_map(|stem| self.check(release, stem).err()).collect();
        assert!(failed.is_empty(), "{release}: {} of {}:\n{}", failed.len(), stems.len(), failed.join("\n"));
        stems.len()
    }
}

fn wrong<E: Display>(stem: &str, form: &str) -> impl Fn(E) -> String {
    move |error| format!("{stem}: {form}: {error}")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Compact JSON indented as the files are, in the same order.
fn indented(compact: &[u8]) -> String {
    let mut out = String::new();
    let (mut depth, mut inside, mut escaped) = (0_usize, false, false);
    let text = text(compact);
    let mut chars = text.chars().peekable();
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        (0..depth).for_each(|_| out.push_str("  "));
    };
    while let Some(c) = chars.next() {
        let quote = c == '"' && !escaped;
        escaped = inside && c == '\\' && !escaped;
        if inside || quote {
            inside ^= quote;
            out.push(c);
            continue;
        }
        match c {
            '{' | '[' if chars.peek().is_some_and(|next| matches!(next, '}' | ']')) => out.push(c),
            '{' | '[' => {
                depth += 1;
                out.push(c);
                line(&mut out, depth);
            }
            '}' | ']' if out.ends_with(['{', '[']) => out.push(c),
            '}' | ']' => {
                depth -= 1;
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            _ => out.push(c),
        }
    }
    out
}

fn same(what: &str, ours: String, theirs: String) -> Result<(), String> {
    if ours == theirs {
        return Ok(());
    }
    let at = ours.bytes().zip(theirs.bytes()).take_while(|(a, b)| a == b).count();
    let around = |text: &str| -> String {
        let from = at.saturating_sub(60);
        text.bytes().skip(from).take(140).map(char::from).collect()
    };
    Err(format!("{what}:\n  ours   …{}\n  theirs …{}", around(&ours), around(&theirs)))
}

#[test]
fn every_published_kind_is_read_and_written_byte_for_byte() {
    let Some(published) = published() else { return };
    assert_eq!(published.check_all("HEAD"), 193);
}

#[test]
fn files_of_older_releases_are_read_and_written_as_upstream_writes_them() {
    let Some(published) = published() else { return };
    for release in OLDER {
        assert!(published.check_all(release) > 160, "{release}");
    }
}

#[test]
fn the_indenting_of_the_files_is_known() {
    let tree: Value = serde_json::from_str("{\"a\":[1,{}],\"b\":\"x,y\"}").expect("JSON");
    assert_eq!(
        indented(tree.to_string().as_bytes()),
        "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"x,y\"\n}"
    );
}
