//! URLs.

use std::sync::Arc;

use super::{
    Opaque,
    core::{key, text, texts},
};
use crate::{
    functions::Function,
    value::{Failure, Made, Map, Result, Val},
};

/// An absolute URL or an absolute path, taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    scheme: String,
    host: String,
    path: String,
    query: String,
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "url",
        overloads: &["(string) url"],
        run: |a| parse(text(a.first())?).map(|url| Val::Opaque(Opaque::Url(Arc::new(url)))),
    },
    Function {
        name: "isURL",
        overloads: &["(string) bool"],
        run: |a| Ok(Val::Bool(parse(text(a.first())?).is_ok())),
    },
    Function { name: "getScheme", overloads: TEXT, run: |a| Ok(Val::text(of(a)?.scheme.as_str())) },
    Function { name: "getHost", overloads: TEXT, run: |a| Ok(Val::text(of(a)?.host.as_str())) },
    Function { name: "getHostname", overloads: TEXT, run: |a| Ok(Val::text(parts(&of(a)?.host).0)) },
    Function { name: "getPort", overloads: TEXT, run: |a| Ok(Val::text(parts(&of(a)?.host).1)) },
    Function { name: "getEscapedPath", overloads: TEXT, run: |a| Ok(Val::text(of(a)?.path.as_str())) },
    Function { name: "getQuery", overloads: &["url.() map<string, list<string>>"], run: query },
];

const TEXT: &[&str] = &["url.() string"];

fn of<'v>(args: &'v [Val<'_>]) -> Result<&'v Url> {
    match args {
        [Val::Opaque(Opaque::Url(url))] => Ok(url),
        _ => Err(Failure::overload()),
    }
}

fn parse(raw: &str) -> Result<Url> {
    let wrong = |why: &str| {
        Failure::new(format!("URL parse error during conversion from string: parse {raw:?}: {why}"))
    };
    if raw.chars().any(|c| c.is_ascii_control()) {
        return Err(wrong("net/url: invalid control character in URL"));
    }
    let (scheme, rest) = match raw.split_once("://") {
        Some((scheme, rest)) if scheme_like(scheme) => (scheme.to_lowercase(), Some(rest)),
        _ if raw.starts_with('/') => (String::new(), None),
        _ => return Err(wrong("invalid URI for request")),
    };
    let (authority, tail) = match rest {
        Some(rest) => rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len())),
        None => ("", raw),
    };
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (path, query) = tail.split_once('?').unwrap_or((tail, ""));
    let port = parts(host).1;
    if !port.chars().all(|c| c.is_ascii_digit()) {
        return Err(wrong(&format!("invalid port {:?} after host", format!(":{port}"))));
    }
    if host.contains(' ') {
        return Err(wrong("invalid character \" \" in host name"));
    }
    if percent(path).is_none() {
        return Err(wrong("invalid URL escape"));
    }
    let path = escaped(path);
    Ok(Url { scheme, host: host.to_owned(), path, query: query.to_owned() })
}

fn scheme_like(scheme: &str) -> bool {
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
}

/// Host name and port.
fn parts(host: &str) -> (&str, &str) {
    let port = match host.rfind(']') {
        Some(end) => host.get(end + 1..).and_then(|rest| rest.strip_prefix(':')),
        None => host.rsplit_once(':').map(|(_, port)| port),
    };
    let port = port.unwrap_or_default();
    let name = host.strip_suffix(port).unwrap_or(host);
    let name =
        if port.is_empty() { name.strip_suffix(':').unwrap_or(name) } else { name.trim_end_matches(':') };
    (name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name), port)
}

/// The path with what is not allowed in it escaped.
fn escaped(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        let c = char::from(byte);
        if c.is_ascii_alphanumeric() || "-_.~$&+,/:;=@%!'()*".contains(c) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

/// Text with its escapes replaced; `None` where one is malformed.
fn percent(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let digit =
            |b: Option<u8>| b.and_then(|b| char::from(b).to_digit(16)).and_then(|d| u8::try_from(d).ok());
        out.push(digit(bytes.next())? * 16 + digit(bytes.next())?);
    }
    Some(out)
}

fn query<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    let decode =
        |text: &str| percent(&text.replace('+', " ")).and_then(|bytes| String::from_utf8(bytes).ok());
    for pair in of(args)?.query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let Some((name, value)) = decode(name).zip(decode(value)) else { continue };
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => all.push((name, vec![value])),
        }
    }
    let mut made = Made::default();
    for (name, values) in all {
        let at = made.entries.len();
        made.index.insert(key(&name), at);
        made.entries.push((Val::text(name), texts(values)));
    }
    Ok(Val::Map(Map::Made(Arc::new(made))))
}
