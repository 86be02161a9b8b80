//! A reader for the subset of Go that API type files are written in: struct and named-type declarations.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs,
    path::Path,
};

use anyhow::{Context, Result};

/// A Go type expression with package paths resolved.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    /// A predeclared type, `interface{}` as `any`.
    Plain(String),
    /// `path.Name`.
    Named(String),
    Pointer(Box<Self>),
    Slice(Box<Self>),
    /// Keys are strings in JSON, so only the value counts.
    Map(Box<Self>),
}

/// A struct field that has a JSON form.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    /// Empty for an embedded struct that is inlined.
    pub(crate) json: String,
    pub(crate) type_: Type,
    pub(crate) omitempty: bool,
    pub(crate) omitzero: bool,
    pub(crate) number: u16,
    pub(crate) patch_strategy: String,
    pub(crate) patch_merge_key: String,
}

/// A declaration.
#[derive(Debug, Clone)]
pub(crate) enum Decl {
    Struct(Vec<Field>),
    Alias(Type),
}

/// A constant of a named type.
#[derive(Debug)]
struct Constant {
    type_: String,
    value: Literal,
}

/// A string, or the `path.Name` of a constant that has it.
#[derive(Debug, PartialEq)]
enum Literal {
    Text(String),
    Of(String),
}

/// All declarations, by `path.Name`.
#[derive(Debug, Default)]
pub(crate) struct Source {
    decls: BTreeMap<String, Decl>,
    /// Types marked `+enum`.
    marked: BTreeSet<String>,
    /// Constants of named string types by `path.Name`.
    constants: BTreeMap<String, Constant>,
}

impl Source {
    pub(crate) fn get(&self, path: &str) -> Option<&Decl> {
        self.decls.get(path)
    }

    /// The values a type marked `+enum` may have, sorted; none for other types.
    pub(crate) fn enumeration(&self, path: &str) -> Option<Vec<&str>> {
        self.marked.contains(path).then(|| {
            let of_type = self.constants.values().filter(|constant| constant.type_ == path);
            let mut values: Vec<&str> = of_type.filter_map(|constant| self.text(constant)).collect();
            values.sort_unstable();
            values
        })
    }

    fn text<'a>(&'a self, constant: &'a Constant) -> Option<&'a str> {
        match &constant.value {
            Literal::Text(text) => Some(text),
            Literal::Of(other) => self.text(self.constants.get(other)?),
        }
    }

    /// `path.Name` of every declaration, keyed by the name OpenAPI gives it.
    pub(crate) fn by_model(&self) -> HashMap<String, &str> {
        self.decls.keys().map(|path| (model_name(path), path.as_str())).collect()
    }

    /// Reads the declarations of one package.
    pub(crate) fn read_package(&mut self, import: &str, dir: &Path) -> Result<()> {
        for entry in fs::read_dir(dir).with_context(|| format!("read {}", dir.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let generated =
                name.starts_with("zz_") || name.starts_with("generated") || name.ends_with("_test.go");
            if name.ends_with(".go") && !generated {
                let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
                self.read_file(import, &text);
            }
        }
        Ok(())
    }

    fn read_file(&mut self, import: &str, text: &str) {
        let imports = imports(text);
        let mut lines = text.lines();
        let mut marked = false;
        while let Some(line) = lines.next() {
            if line.starts_with("//") {
                marked |= line == "// +enum";
                continue;
            }
            let marked = std::mem::take(&mut marked);
            if let Some((name, constant)) = constant(line, import, &imports) {
                self.constants.insert(format!("{import}.{name}"), constant);
            }
            let Some(rest) = line.strip_prefix("type ") else { continue };
            let Some((name, body)) = rest.split_once(' ') else { continue };
            if marked {
                self.marked.insert(format!("{import}.{name}"));
            }
            let body = strip_comment(body.trim_start_matches('=').trim());
            if name.contains('[') || name == "(" || body.starts_with("interface") || body.starts_with("func")
            {
                continue;
            }
            let decl = if body == "struct {" {
                Decl::Struct(fields(&mut lines, import, &imports))
            } else if body.starts_with("struct") {
                Decl::Struct(Vec::new())
            } else {
                Decl::Alias(parse_type(body, import, &imports))
            };
            self.decls.insert(format!("{import}.{name}"), decl);
        }
    }
}

/// The name, type and value of `PullAlways PullPolicy = "Always"` or `PathTypeExact = PathType("Exact")`.
fn constant(line: &str, import: &str, imports: &HashMap<String, String>) -> Option<(String, Constant)> {
    let (declaration, value) = strip_comment(line).split_once('=')?;
    let (mut value, mut type_) = (value.trim(), None);
    let mut words = declaration.trim().trim_start_matches("const ").split_whitespace();
    let name = words.next()?;
    match (words.next(), words.next()) {
        (Some(word), None) => type_ = Some(word),
        (None, None) => {
            if let Some((word, inner)) = value.strip_suffix(')').and_then(|v| v.split_once('(')) {
                (type_, value) = (Some(word), inner);
            }
        }
        _ => {}
    }
    let type_ = type_.filter(|word| word.bytes().all(|b| b.is_ascii_alphanumeric()))?;
    let value = match value.strip_prefix('"').and_then(|value| value.strip_suffix('"')) {
        Some(text) => Literal::Text(text.to_owned()),
        None => match parse_type(value, import, imports) {
            Type::Named(path) => Literal::Of(path),
            _ => return None,
        },
    };
    Some((name.to_owned(), Constant { type_: format!("{import}.{type_}"), value }))
}

/// OpenAPI's name for `k8s.io/api/core/v1.Pod`: the host reversed, slashes as dots.
pub(crate) fn model_name(path: &str) -> String {
    let Some((package, name)) = path.rsplit_once('.') else { return path.to_owned() };
    format!("{}.{name}", package.replacen("k8s.io", "io.k8s", 1).replace('/', "."))
}

/// Alias → import path.
fn imports(text: &str) -> HashMap<String, String> {
    let mut found = HashMap::new();
    let mut inside = false;
    for line in text.lines().map(str::trim) {
        let spec = match line {
            "import (" => {
                inside = true;
                continue;
            }
            ")" => {
                inside = false;
                continue;
            }
            _ if inside => line,
            _ => line.strip_prefix("import ").unwrap_or_default(),
        };
        let Some((alias, path)) = spec.split_once('"') else { continue };
        let path = path.trim_end_matches('"');
        let alias =
            if alias.trim().is_empty() { path.rsplit('/').next().unwrap_or(path) } else { alias.trim() };
        found.insert(alias.to_owned(), path.to_owned());
    }
    found
}

fn fields<'a>(
    lines: &mut impl Iterator<Item = &'a str>,
    import: &str,
    imports: &HashMap<String, String>,
) -> Vec<Field> {
    let mut found = Vec::new();
    let mut comment = false;
    for line in lines {
        if line == "}" {
            break;
        }
        let line = line.trim();
        comment |= line.starts_with("/*");
        if comment {
            comment = !line.ends_with("*/");
            continue;
        }
        if !line.starts_with("//") {
            found.extend(field(line, import, imports));
        }
    }
    found
}

/// One field; `None` when it has no JSON form.
fn field(line: &str, import: &str, imports: &HashMap<String, String>) -> Option<Field> {
    let (declaration, tags) = match line.split_once('`') {
        Some((declaration, tags)) => {
            (declaration.trim(), tags.split_once('`').map_or(tags, |(tags, _)| tags))
        }
        None => (strip_comment(line), ""),
    };
    let words: Vec<&str> = declaration.split_whitespace().collect();
    let (name, type_) = match words.as_slice() {
        [embedded] => ("", *embedded),
        [name, type_] => (*name, *type_),
        _ => return None,
    };
    if !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    let json = tag(tags, "json");
    let (json_name, options) = json.split_once(',').unwrap_or((json, ""));
    if json_name == "-" {
        return None;
    }
    let json_name = if json_name.is_empty() { name } else { json_name };
    let has = |option: &str| options.split(',').any(|o| o == option);
    Some(Field {
        json: json_name.to_owned(),
        type_: parse_type(type_, import, imports),
        omitempty: has("omitempty"),
        omitzero: has("omitzero"),
        number: tag(tags, "protobuf").split(',').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0),
        patch_strategy: tag(tags, "patchStrategy").to_owned(),
        patch_merge_key: tag(tags, "patchMergeKey").to_owned(),
    })
}

/// The value of one key in a struct tag.
fn tag<'a>(tags: &'a str, key: &str) -> &'a str {
    tags.split(&format!("{key}:\""))
        .nth(1)
        .and_then(|rest| rest.split_once('"'))
        .map_or("", |(value, _)| value)
}

fn strip_comment(text: &str) -> &str {
    text.split_once("//").map_or(text, |(code, _)| code).trim()
}

fn parse_type(text: &str, import: &str, imports: &HashMap<String, String>) -> Type {
    let parse = |text: &str| Box::new(parse_type(text, import, imports));
    if let Some(rest) = text.strip_prefix('*') {
        return Type::Pointer(parse(rest));
    }
    if let Some(rest) = text.strip_prefix("[]") {
        return Type::Slice(parse(rest));
    }
    if let Some((_, value)) = text.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
        return Type::Map(parse(value));
    }
    match text {
        "interface{}" | "any" => Type::Plain("any".to_owned()),
        "string" | "bool" | "int" | "int32" | "int64" | "uint8" | "uint32" | "uint64" | "byte"
        | "float64" => Type::Plain(text.to_owned()),
        _ => match text.split_once('.') {
            Some((alias, name)) => {
                let path = imports.get(alias).map_or(alias, String::as_str);
                Type::Named(format!("{path}.{name}"))
            }
            None => Type::Named(format!("{import}.{text}")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enumerations_are_read_in_each_way_to_write_them() {
        let mut source = Source::default();
        source
            .read_file("x/v1", "type Protocol string\nconst (\n\tTCP Protocol = \"TCP\" // the default\n)\n");
        let text = "import v1 \"x/v1\"\n// Kind of it.\n// +enum\ntype Kind string\n\ntype Other string\nconst (\n\tB = Kind(\"b\")\n\tA Kind = \"a\"\n\tT = Kind(v1.TCP)\n\tO Other = \"o\"\n)\n";
        source.read_file("y/v1", text);
        assert_eq!(source.enumeration("y/v1.Kind"), Some(vec!["TCP", "a", "b"]));
        assert_eq!(source.enumeration("y/v1.Other"), None);
    }
}
