//! Content negotiation: what a client accepts, what it sent (`endpoints/handlers/negotiation`).

use copepod_api::{ApiError, ApiResult, Reason};

/// An encoding of objects that this server writes and reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// `application/json`.
    Json,
    /// `application/yaml`.
    Yaml,
    /// `application/vnd.kubernetes.protobuf`, of built-in kinds.
    Protobuf,
}

/// The encodings in the order in which a wildcard picks one.
const ENCODINGS: &[(Encoding, &str)] = &[
    (Encoding::Json, "application/json"),
    (Encoding::Yaml, "application/yaml"),
    (Encoding::Protobuf, crate::protobuf::MEDIA_TYPE),
];

/// The media types upstream names in its 406 and 415 texts.
const ACCEPTED: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";

impl Encoding {
    /// The media type.
    pub(crate) fn media_type(self) -> &'static str {
        ENCODINGS.iter().find(|(e, _)| *e == self).map_or("application/json", |(_, t)| t)
    }
}

/// What the answer is to be turned into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Target {
    /// The object as it is.
    #[default]
    Object,
    /// `meta.k8s.io/v1 Table`.
    Table,
    /// `meta.k8s.io/v1 PartialObjectMetadata`.
    PartialMetadata,
    /// `meta.k8s.io/v1 PartialObjectMetadataList`.
    PartialMetadataList,
}

/// The negotiated form of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    /// How it is written.
    pub encoding: Encoding,
    /// What it is turned into.
    pub target: Target,
    /// Whether it is indented.
    pub pretty: bool,
}

/// One clause of an Accept header.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Clause {
    /// `type/subtype`, lower-case.
    pub media_type: String,
    /// Its parameters but `q`.
    pub params: Vec<(String, String)>,
    quality: f32,
}

impl Clause {
    /// A parameter's value, empty when absent.
    pub(crate) fn param(&self, key: &str) -> &str {
        self.params.iter().find(|(k, _)| k == key).map_or("", |(_, v)| v)
    }

    /// Whether the clause allows a media type.
    pub(crate) fn allows(&self, media_type: &str) -> bool {
        // Routes know whole types only: `application/*` is no more acceptable than another type.
        self.media_type == "*/*" || self.media_type == media_type
    }

    fn specificity(&self) -> usize {
        2 - self.media_type.matches('*').count().min(2)
    }
}

/// Parses an Accept header; the most wanted clause first.
pub(crate) fn parse_accept(header: &str) -> Vec<Clause> {
    let mut clauses: Vec<Clause> = header.split(',').filter_map(parse_clause).collect();
    clauses.sort_by(|a, b| b.quality.total_cmp(&a.quality).then(b.specificity().cmp(&a.specificity())));
    clauses
}

fn parse_clause(text: &str) -> Option<Clause> {
    let mut parts = text.split(';');
    let media_type = parts.next()?.trim().to_ascii_lowercase();
    let media_type = if media_type == "*" { "*/*".to_owned() } else { media_type };
    if !media_type.contains('/') {
        return None;
    }
    let mut clause = Clause { media_type, params: Vec::new(), quality: 1.0 };
    for part in parts {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        if key == "q" {
            clause.quality = value.parse().unwrap_or(1.0);
        } else {
            clause.params.push((key.to_owned(), value.to_owned()));
        }
    }
    Some(clause)
}

/// What an endpoint can turn its answer into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transforms {
    /// Nothing: virtual resources, discovery.
    None,
    /// Tables and partial metadata of one object.
    One,
    /// Tables and partial metadata of lists.
    List,
}

/// Negotiates an answer; 406 when nothing the client accepts can be given.
pub(crate) fn negotiate(accept: &str, transforms: Transforms, pretty: bool) -> ApiResult<Accepted> {
    negotiate_for(accept, transforms, pretty, false)
}

/// The same; custom resources (`custom`) have no protobuf form of their own.
pub(crate) fn negotiate_for(
    accept: &str,
    transforms: Transforms,
    pretty: bool,
    custom: bool,
) -> ApiResult<Accepted> {
    if accept.is_empty() {
        return Ok(Accepted { encoding: Encoding::Json, target: Target::Object, pretty });
    }
    let clauses = parse_accept(accept);
    if !clauses.iter().any(|clause| ENCODINGS.iter().any(|(_, media_type)| clause.allows(media_type))) {
        return Err(no_route(transforms));
    }
    for clause in clauses {
        for (encoding, media_type) in ENCODINGS {
            if !clause.allows(media_type) {
                continue;
            }
            // A Table has no protobuf form.
            let target = target_of(&clause, transforms);
            let formless = |t: &Target| *t == Target::Table || (custom && *t == Target::Object);
            let target = target.filter(|t| *encoding != Encoding::Protobuf || !formless(t));
            if let Some(target) = target {
                let pretty = pretty || clause.param("pretty") == "1";
                return Ok(Accepted { encoding: *encoding, target, pretty });
            }
        }
    }
    Err(ApiError::new(
        Reason::NotAcceptable,
        format!("only the following media types are accepted: {ACCEPTED}"),
    ))
}

/// No route writes what the client accepts.
fn no_route(transforms: Transforms) -> ApiError {
    let streams = match transforms {
        Transforms::List => {
            ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        }
        Transforms::One | Transforms::None => "",
    };
    let text = format!("406: Not Acceptable\n\nAvailable representations: {ACCEPTED}{streams}");
    let mut error = ApiError::new(Reason::NotAcceptable, text);
    error.status_mut().details = Some(copepod_api::status::StatusDetails::default());
    error
}

fn target_of(clause: &Clause, transforms: Transforms) -> Option<Target> {
    if !clause.param("sv").is_empty() || !matches!(clause.param("stream"), "" | "watch") {
        return None;
    }
    let (kind, group, version) = (clause.param("as"), clause.param("g"), clause.param("v"));
    if kind.is_empty() && group.is_empty() && version.is_empty() {
        return Some(Target::Object);
    }
    if group != "meta.k8s.io" || !matches!(version, "v1" | "v1beta1") {
        return None;
    }
    match (kind, transforms) {
        ("Table", Transforms::One | Transforms::List) => Some(Target::Table),
        ("PartialObjectMetadata", Transforms::One) => Some(Target::PartialMetadata),
        ("PartialObjectMetadataList", Transforms::List) => Some(Target::PartialMetadataList),
        _ => None,
    }
}

/// The form of an error for a client that accepts this: a Status as it is, in JSON when nothing else fits.
pub(crate) fn for_errors(accept: &str, pretty: bool) -> Accepted {
    let json = Accepted { encoding: Encoding::Json, target: Target::Object, pretty };
    let plain =
        parse_accept(accept).into_iter().filter(|clause| clause.param("as").is_empty()).find_map(|clause| {
            let (encoding, _) = ENCODINGS.iter().find(|(_, media_type)| clause.allows(media_type))?;
            Some(Accepted { encoding: *encoding, ..json })
        });
    plain.unwrap_or(json)
}

/// The encoding of a request's body; 415 for one this server does not read.
pub(crate) fn body_encoding(content_type: &str) -> ApiResult<Encoding> {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if media_type.is_empty() {
        return Ok(Encoding::Json);
    }
    ENCODINGS.iter().find(|(_, t)| *t == media_type).map(|(e, _)| *e).ok_or_else(|| {
        ApiError::new(
            Reason::UnsupportedMediaType,
            format!(
                "the body of the request was in an unknown format - accepted media types include: {ACCEPTED}"
            ),
        )
    })
}

/// Whether the answer is for a person: the `pretty` parameter, else a browser or command-line client.
pub(crate) fn is_pretty(query: &super::request::Query, user_agent: &str) -> bool {
    match query.get("pretty").filter(|v| !v.is_empty()) {
        Some(value) => matches!(value, "1" | "t" | "T" | "true" | "TRUE" | "True"),
        None => ["curl", "Wget", "Mozilla/5.0"].iter().any(|agent| user_agent.starts_with(agent)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KUBECTL: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";

    #[test]
    fn tables_where_they_exist() {
        let accepted = negotiate(KUBECTL, Transforms::List, false).unwrap();
        assert_eq!((accepted.encoding, accepted.target), (Encoding::Json, Target::Table));
        assert_eq!(negotiate(KUBECTL, Transforms::None, false).unwrap().target, Target::Object);
        let only = "application/json;as=Table;v=v1;g=meta.k8s.io";
        assert_eq!(negotiate(only, Transforms::None, false).unwrap_err().code(), 406);
    }

    #[test]
    fn protobuf_for_objects_and_json_for_tables() {
        let typed = "application/vnd.kubernetes.protobuf,application/json";
        assert_eq!(negotiate(typed, Transforms::One, false).unwrap().encoding, Encoding::Protobuf);
        let table = "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json";
        assert_eq!(negotiate(table, Transforms::One, false).unwrap().encoding, Encoding::Json);
        assert_eq!(negotiate("*/*", Transforms::One, false).unwrap().encoding, Encoding::Json);
        assert_eq!(body_encoding("application/vnd.kubernetes.protobuf").unwrap(), Encoding::Protobuf);
        assert_eq!(body_encoding("application/cbor").unwrap_err().code(), 415);
        assert_eq!(body_encoding("application/yaml; charset=utf-8").unwrap(), Encoding::Yaml);
    }

    #[test]
    fn quality_and_wildcards() {
        let clauses = parse_accept("text/*;q=0.5, */*;q=0.1, application/yaml");
        assert_eq!(clauses[0].media_type, "application/yaml");
        assert_eq!(negotiate("application/*", Transforms::One, false).unwrap_err().code(), 406);
        assert_eq!(negotiate("text/html", Transforms::One, false).unwrap_err().code(), 406);
    }
}
