//! A decoded query string.

use copepod_api::{ApiError, ApiResult};

/// Query parameters in the order given.
#[derive(Debug, Clone, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Decodes the part after `?`.
    pub(crate) fn parse(raw: &str) -> Self {
        Self(form_urlencoded::parse(raw.as_bytes()).into_owned().collect())
    }

    /// The first value of a parameter.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// The first value of a parameter, empty when absent.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.get(key).unwrap_or_default()
    }

    /// All values of a parameter.
    pub(crate) fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(k, _)| k == key).map(|(_, v)| v.as_str())
    }

    /// A boolean as upstream's conversion reads it: anything but absence, `false` and `0` is true.
    pub(crate) fn flag(&self, key: &str) -> bool {
        self.get(key).is_some_and(|v| !matches!(v.to_ascii_lowercase().as_str(), "false" | "0"))
    }

    /// A boolean, `None` when absent or empty.
    pub(crate) fn bool(&self, key: &str) -> Option<bool> {
        self.get(key).filter(|v| !v.is_empty()).map(|_| self.flag(key))
    }

    /// A decimal integer.
    pub(crate) fn int(&self, key: &str) -> ApiResult<Option<i64>> {
        match self.get(key).filter(|v| !v.is_empty()) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_numbers() {
        let query = Query::parse("watch&limit=5&labelSelector=a%3Db%2Cc&x=0&dryRun=All&dryRun=Some&bad=1e");
        assert!(query.flag("watch"));
        assert!(!query.flag("x"));
        assert_eq!(query.bool("watch"), None);
        assert_eq!(query.text("labelSelector"), "a=b,c");
        assert_eq!(query.int("limit").unwrap(), Some(5));
        assert_eq!(query.all("dryRun").count(), 2);
        assert!(query.int("bad").is_err());
    }
}
