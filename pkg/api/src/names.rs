//! Checks of names, labels and keys (`k8s.io/apimachinery/pkg/util/validation`). Each returns the upstream
//! texts of everything that is wrong, empty when nothing is.

const LABEL_FMT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";

fn alnum_lower(b: u8) -> bool {
    b.is_ascii_lowercase() || b.is_ascii_digit()
}

/// `inner` characters between `edge` characters.
fn shaped(text: &str, edge: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => edge(*first) && edge(*last) && bytes.iter().all(|b| inner(*b)),
        _ => false,
    }
}

fn regex_error(message: &str, format: &str, examples: &[&str]) -> String {
    let mut text = format!("{message} (");
    for (i, example) in examples.iter().enumerate() {
        text.push_str(if i == 0 { "e.g. " } else { " or " });
        text.push_str(&format!("'{example}', "));
    }
    text.push_str(&format!("regex used for validation is '{format}')"));
    text
}

fn max_length(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} characters"))
}

fn max_bytes(text: &str, max: usize) -> Option<String> {
    (text.len() > max).then(|| format!("must be no more than {max} bytes"))
}

/// An RFC 1123 label: at most 63 of `[a-z0-9-]`.
#[must_use]
pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = max_length(text, 63).into_iter().collect();
    if !shaped(text, alnum_lower, |b| alnum_lower(b) || b == b'-') {
        errors.push(if text.is_empty() || !dns1123_subdomain(text).is_empty() || !text.contains('.') {
            regex_error(
                "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
                LABEL_FMT,
                &["my-name", "123-abc"],
            )
        } else {
            "must not contain dots".to_owned()
        });
    }
    errors
}

/// An RFC 1123 subdomain: at most 253 characters of labels joined by dots.
#[must_use]
pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = max_length(text, 253).into_iter().collect();
    let label = |l: &str| shaped(l, alnum_lower, |b| alnum_lower(b) || b == b'-');
    if !text.split('.').all(label) {
        errors.push(regex_error(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
            &format!("{LABEL_FMT}(\\.{LABEL_FMT})*"),
            &["example.com"],
        ));
    }
    errors
}

/// An RFC 1035 label: as RFC 1123's, but it starts with a letter.
#[must_use]
pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = max_length(text, 63).into_iter().collect();
    let starts = text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    if !(starts && shaped(text, alnum_lower, |b| alnum_lower(b) || b == b'-')) {
        errors.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

fn name_part(text: &str) -> bool {
    let edge = |b: u8| b.is_ascii_alphanumeric();
    shaped(text, edge, |b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// A qualified name: `[prefix/]name`, as label and annotation keys are.
#[must_use]
pub fn qualified_name(text: &str) -> Vec<String> {
    let message = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character";
    let format = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
    let mut errors = Vec::new();
    let parts: Vec<&str> = text.split('/').collect();
    let name = match parts.as_slice() {
        [name] => *name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else {
                errors.extend(dns1123_subdomain(prefix).into_iter().map(|e| format!("prefix part {e}")));
            }
            *name
        }
        _ => {
            let error = regex_error(
                &format!("a valid label key {message}"),
                format,
                &["MyName", "my.name", "123-abc"],
            );
            return vec![format!(
                "{error} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if let Some(error) = max_bytes(name, 63) {
        errors.push(format!("name part {error}"));
    }
    if !name_part(name) {
        errors.push(regex_error(&format!("name part {message}"), format, &["MyName", "my.name", "123-abc"]));
    }
    errors
}

/// A label's value: empty, or at most 63 characters shaped like a name.
#[must_use]
pub fn label_value(text: &str) -> Vec<String> {
    let mut errors: Vec<String> = max_bytes(text, 63).into_iter().collect();
    if !text.is_empty() && !name_part(text) {
        errors.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?",
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

/// A name that may stand in a path: not `.` or `..`, without `/` and `%`.
#[must_use]
pub fn path_segment(text: &str) -> Vec<String> {
    if text == "." || text == ".." {
        return vec![format!("may not be '{text}'")];
    }
    ["/", "%"].iter().filter(|c| text.contains(**c)).map(|c| format!("may not contain '{c}'")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels() {
        assert!(dns1123_label("my-name").is_empty());
        assert_eq!(dns1123_label("a.b"), ["must not contain dots"]);
        assert!(
            dns1123_label("A")[0].contains("(e.g. 'my-name',  or '123-abc', regex used for validation is")
        );
        assert!(dns1123_subdomain("a.b-c.d").is_empty());
        assert!(!dns1123_subdomain("a..b").is_empty());
        assert!(qualified_name("example.com/App.kind_1").is_empty());
        assert_eq!(qualified_name("/x"), ["prefix part must be non-empty"]);
        assert!(label_value("").is_empty());
        assert!(!label_value("-x").is_empty());
        assert_eq!(path_segment("a/b"), ["may not contain '/'"]);
    }
}
