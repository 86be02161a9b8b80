//! Writes the type table: a definition a line, its fields below it, indented by one space.
//!
//! ```text
//! <model> [kind=<group/version/Kind>] [atomic] [unions=<json>]
//!  <json name> <protobuf number[.via[.via]][:inlined Go structs]> <flags> <type> [list=…] [map=atomic] [patch=…] [key=…] [enum=<json>] [default=<json>]
//! ```
//! Flags: `r` required, `p` pointer, `o` omitempty, `z` omitzero, `-` none. Types: a basic word, `[]T`, `{}T`,
//! `@model` (`@.Name` in the same package), each optionally as `go.Name=T`.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt::Write as _,
};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::{
    golang::{Decl, Field, Source, Type, model_name},
    spec::Spec,
};

/// Types with an encoding of their own.
fn basic(path: &str) -> Option<&'static str> {
    Some(match path {
        "k8s.io/apimachinery/pkg/apis/meta/v1.Time" => "time",
        "k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime" => "microtime",
        "k8s.io/apimachinery/pkg/apis/meta/v1.Duration" => "duration",
        "k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1" => "fields",
        "k8s.io/apimachinery/pkg/api/resource.Quantity" => "quantity",
        "k8s.io/apimachinery/pkg/util/intstr.IntOrString" => "intorstring",
        "k8s.io/apimachinery/pkg/runtime.RawExtension" | "k8s.io/apimachinery/pkg/runtime.Object" => "raw",
        "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON" => "json",
        _ => return None,
    })
}

struct Writer<'a> {
    source: &'a Source,
    spec: &'a Spec,
    paths: HashMap<String, &'a str>,
    done: BTreeMap<String, String>,
    queue: BTreeSet<String>,
}

/// The table of `wanted` and everything they refer to.
pub(crate) fn render(source: &Source, spec: &Spec, wanted: &[String]) -> Result<String> {
    let queue = wanted.iter().cloned().collect();
    let mut writer = Writer { source, spec, paths: source.by_model(), done: BTreeMap::new(), queue };
    while let Some(model) = writer.queue.pop_first() {
        if !writer.done.contains_key(&model) {
            let text = writer.definition(&model).with_context(|| format!("type {model}"))?;
            writer.done.insert(model, text);
        }
    }
    Ok(writer.done.into_values().collect())
}

impl Writer<'_> {
    fn definition(&mut self, model: &str) -> Result<String> {
        if model.ends_with(".meta.v1.Patch")
            || model.ends_with(".resource.Quantity")
            || model.contains(".util.intstr.")
            || model.ends_with("runtime.RawExtension")
        {
            return Ok(String::new());
        }
        let path = *self.paths.get(model).context("no Go type of this name")?;
        if basic(path).is_some() || path.contains(".JSONSchemaPropsOr") {
            return Ok(String::new());
        }
        let Some(Decl::Struct(fields)) = self.source.get(path) else {
            return Ok(String::new());
        };
        let schema = self.spec.get(model);
        let mut out = model.to_owned();
        if let Some(gvk) = self.spec.gvk(model) {
            write!(out, " kind={gvk}")?;
        }
        if schema.and_then(|s| s.get("x-kubernetes-map-type")).is_some_and(|t| t == "atomic") {
            out.push_str(" atomic");
        }
        if let Some(unions) = schema.and_then(|s| s.get("x-kubernetes-unions")) {
            write!(out, " unions={unions}")?;
        }
        out.push('\n');
        let package = path.rsplit_once('.').map_or(path, |(package, _)| package).to_owned();
        self.fields(&mut out, &fields.clone(), schema, "", &package)?;
        Ok(out)
    }

    fn fields(
        &mut self,
        out: &mut String,
        fields: &[Field],
        schema: Option<&Value>,
        via: &str,
        package: &str,
    ) -> Result<()> {
        let (via, names) = via.split_once(':').unwrap_or((via, ""));
        for field in fields {
            if field.json.is_empty() {
                let Type::Named(path) = &field.type_ else {
                    bail!("embedded {:?} is not a named type", field.type_)
                };
                let mut inner = self.embedded(path)?;
                let type_meta = path.ends_with("/meta/v1.TypeMeta");
                if type_meta {
                    // kind and apiVersion travel in the protobuf envelope, not in the message.
                    inner.iter_mut().for_each(|field| field.number = 0);
                }
                // The messages that carry the fields, outermost last, and their Go names, outermost first.
                let name = path.rsplit('.').next().unwrap_or(path);
                let names = if names.is_empty() { name.to_owned() } else { format!("{names}.{name}") };
                let carriers = if type_meta { via.to_owned() } else { format!(".{}{via}", field.number) };
                let carriers = format!("{carriers}:{names}");
                self.fields(out, &inner, schema, &carriers, package)?;
            } else {
                let carriers = if names.is_empty() { via.to_owned() } else { format!("{via}:{names}") };
                self.field(out, field, schema, &carriers, package)?;
            }
        }
        Ok(())
    }

    /// The fields of an embedded struct, which may go by another name here.
    fn embedded(&self, path: &str) -> Result<Vec<Field>> {
        match self.source.get(path) {
            Some(Decl::Struct(fields)) => Ok(fields.clone()),
            Some(Decl::Alias(Type::Named(other))) => self.embedded(other),
            _ => bail!("embedded {path} is not a struct"),
        }
    }

    fn field(
        &mut self,
        out: &mut String,
        field: &Field,
        schema: Option<&Value>,
        via: &str,
        package: &str,
    ) -> Result<()> {
        let (type_, pointer) = match &field.type_ {
            Type::Pointer(inner) => (inner.as_ref(), true),
            other => (other, false),
        };
        let property = schema.and_then(|s| s.get("properties")).and_then(|p| p.get(&field.json));
        let required = schema
            .and_then(|s| s.get("required"))
            .and_then(Value::as_array)
            .is_some_and(|list| list.iter().any(|name| *name == *field.json));
        let mut flags = String::new();
        for (on, flag) in [(required, 'r'), (pointer, 'p'), (field.omitempty, 'o'), (field.omitzero, 'z')] {
            if on {
                flags.push(flag);
            }
        }
        if flags.is_empty() {
            flags.push('-');
        }
        let expression = self.expression(type_, package).with_context(|| format!("field {}", field.json))?;
        write!(out, " {} {}{via}", field.json, field.number)?;
        write!(out, " {flags} {expression}")?;
        attributes(out, field, property)?;
        if let Some(values) = self.enumeration(type_).filter(|values| !values.is_empty()) {
            // Blanks part the attributes.
            write!(out, " enum={}", Value::from(values).to_string().replace(' ', "\\u0020"))?;
        }
        default(out, property)?;
        out.push('\n');
        Ok(())
    }

    /// What the values of a type, or those in a list or map of it, may be.
    fn enumeration(&self, type_: &Type) -> Option<Vec<&str>> {
        match type_ {
            Type::Plain(_) => None,
            Type::Pointer(inner) | Type::Slice(inner) | Type::Map(inner) => self.enumeration(inner),
            Type::Named(path) => self.source.enumeration(path),
        }
    }

    /// The type in the table's notation; definitions it names are queued.
    fn expression(&mut self, type_: &Type, package: &str) -> Result<String> {
        Ok(match type_ {
            Type::Plain(name) => match name.as_str() {
                "byte" => "uint8".to_owned(),
                "int" => "int64".to_owned(),
                other => other.to_owned(),
            },
            Type::Pointer(inner) => self.expression(inner, package)?,
            Type::Slice(inner) if matches!(&**inner, Type::Plain(b) if b == "byte" || b == "uint8") => {
                "bytes".to_owned()
            }
            Type::Slice(inner) => format!("[]{}", self.expression(inner, package)?),
            Type::Map(inner) => format!("{{}}{}", self.expression(inner, package)?),
            Type::Named(path) => self.named(path, package)?,
        })
    }

    fn named(&mut self, path: &str, package: &str) -> Result<String> {
        if let Some(word) = basic(path) {
            return Ok(word.to_owned());
        }
        // A schema, or a list, a boolean or strings in its place.
        if let Some((package, name)) =
            path.rsplit_once('.').filter(|(_, name)| name.starts_with("JSONSchemaPropsOr"))
        {
            let model = model_name(&format!("{package}.JSONSchemaProps"));
            self.queue.insert(model.clone());
            return Ok(format!("v1.{name}=schemaor@{model}"));
        }
        match self.source.get(path).with_context(|| format!("unknown type {path}"))?.clone() {
            Decl::Struct(_) => {
                let model = model_name(path);
                self.queue.insert(model.clone());
                let (owner, name) = path.rsplit_once('.').unwrap_or(("", path));
                Ok(if owner == package { format!("@.{name}") } else { format!("@{model}") })
            }
            Decl::Alias(inner) => {
                let short = path.rsplit('/').next().unwrap_or(path).to_owned();
                let inner = self.expression(&inner, package)?;
                // Of a chain of names only the first shows.
                Ok(match inner.split_once('=').filter(|_| !inner.starts_with(['[', '{'])) {
                    Some((_, innermost)) => format!("{short}={innermost}"),
                    None => format!("{short}={inner}"),
                })
            }
        }
    }
}

/// Attributes of a field that the OpenAPI document gives, or Go's tags where there is no document.
fn attributes(out: &mut String, field: &Field, property: Option<&Value>) -> Result<()> {
    let text = |key: &str| property.and_then(|p| p.get(key)).and_then(Value::as_str).unwrap_or_default();
    match text("x-kubernetes-list-type") {
        "" => {}
        "map" => {
            let keys = property.and_then(|p| p.get("x-kubernetes-list-map-keys")).and_then(Value::as_array);
            let keys: Vec<&str> = keys.into_iter().flatten().filter_map(Value::as_str).collect();
            write!(out, " list=map:{}", keys.join(","))?;
        }
        other => write!(out, " list={other}")?,
    }
    if !text("x-kubernetes-map-type").is_empty() {
        write!(out, " map={}", text("x-kubernetes-map-type"))?;
    }
    if !field.patch_strategy.is_empty() {
        write!(out, " patch={}", field.patch_strategy)?;
    }
    if !field.patch_merge_key.is_empty() {
        write!(out, " key={}", field.patch_merge_key)?;
    }
    Ok(())
}

fn default(out: &mut String, property: Option<&Value>) -> Result<()> {
    match property.and_then(|p| p.get("default")) {
        Some(Value::Object(map)) if map.is_empty() => {}
        Some(default) => write!(out, " default={default}")?,
        None => {}
    }
    Ok(())
}
