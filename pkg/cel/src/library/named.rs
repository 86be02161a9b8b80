//! Formats by name.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use copepod_api::names;

use super::{
    Opaque,
    core::{text, texts},
    time,
};
use crate::{
    functions::Function,
    value::{Failure, Result, Val},
};

/// A format that text may have.
#[derive(Debug)]
pub struct Format {
    /// As `format.named` finds it.
    name: &'static str,
    /// What is wrong with text.
    check: fn(&str) -> Vec<String>,
    /// The longest pattern behind it, for the cost.
    pub(crate) longest: u64,
}

impl PartialEq for Format {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

/// A prefix of a name may end with a dash.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => format!("{rest}a"),
        _ => text.to_owned(),
    }
}

fn one(holds: bool, why: &str) -> Vec<String> {
    if holds { Vec::new() } else { vec![why.to_owned()] }
}

fn is_uuid(text: &str) -> bool {
    let plain = text.replace('-', "");
    let dashes = text.len() == 36 && [8, 13, 18, 23].iter().all(|at| text.as_bytes().get(*at) == Some(&b'-'));
    (dashes || text.len() == 32) && plain.len() == 32 && plain.chars().all(|c| c.is_ascii_hexdigit())
}

fn is_date(text: &str) -> bool {
    text.len() == 10 && text.parse::<jiff::civil::Date>().is_ok()
}

const FORMATS: &[Format] = &[
    Format { name: "dns1123Label", check: names::dns1123_label, longest: 30 },
    Format { name: "dns1123Subdomain", check: names::dns1123_subdomain, longest: 60 },
    Format { name: "dns1035Label", check: names::dns1035_label, longest: 30 },
    Format { name: "qualifiedName", check: names::qualified_name, longest: 60 },
    Format { name: "dns1123LabelPrefix", check: |s| names::dns1123_label(&masked(s)), longest: 30 },
    Format { name: "dns1123SubdomainPrefix", check: |s| names::dns1123_subdomain(&masked(s)), longest: 60 },
    Format { name: "dns1035LabelPrefix", check: |s| names::dns1035_label(&masked(s)), longest: 30 },
    Format { name: "labelValue", check: names::label_value, longest: 40 },
    Format { name: "uri", check: uri, longest: 100 },
    Format { name: "uuid", check: |s| one(is_uuid(s), "does not match the UUID format"), longest: 60 },
    Format { name: "byte", check: |s| one(STANDARD.decode(s).is_ok(), "invalid base64"), longest: 60 },
    Format { name: "date", check: |s| one(is_date(s), "invalid date"), longest: 60 },
    Format { name: "datetime", check: |s| one(time::timestamp(s).is_ok(), "invalid datetime"), longest: 60 },
];

fn uri(text: &str) -> Vec<String> {
    let valid = text.starts_with('/') || text.split_once(':').is_some_and(|(scheme, _)| !scheme.is_empty());
    one(valid, &format!("parse {text:?}: invalid URI for request"))
}

const NONE: &[&str] = &["() format"];

/// A function that gives the format called `$name`.
macro_rules! constant {
    ($name:literal) => {
        Function {
            name: concat!("format.", $name),
            overloads: NONE,
            run: |_| named($name).ok_or_else(Failure::overload),
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "format.named",
        overloads: &["(string) optional<format>"],
        run: |args| Ok(Val::Optional(named(text(args.first())?).map(Arc::new))),
    },
    Function { name: "validate", overloads: &["format.(string) optional<list<string>>"], run: validate },
    constant!("dns1123Label"),
    constant!("dns1123Subdomain"),
    constant!("dns1035Label"),
    constant!("qualifiedName"),
    constant!("dns1123LabelPrefix"),
    constant!("dns1123SubdomainPrefix"),
    constant!("dns1035LabelPrefix"),
    constant!("labelValue"),
    constant!("uri"),
    constant!("uuid"),
    constant!("byte"),
    constant!("date"),
    constant!("datetime"),
];

fn named<'a>(name: &str) -> Option<Val<'a>> {
    FORMATS.iter().find(|format| format.name == name).map(|format| Val::Opaque(Opaque::Format(format)))
}

fn validate<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let Some(Val::Opaque(Opaque::Format(format))) = args.first() else { return Err(Failure::overload()) };
    let wrong = (format.check)(text(args.get(1))?);
    Ok(if wrong.is_empty() { Val::Optional(None) } else { Val::some(texts(wrong)) })
}
