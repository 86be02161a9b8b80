//! What types and fields are for, in the words of the Kubernetes API: for `kubectl explain`.
//!
//! The texts are no part of this source tree: a build with the feature `descriptions` takes them from the k8s-openapi
//! crate and packs them; a build without it has none. They are unpacked while a document is made and dropped with it,
//! so that they cost no memory otherwise.

/// The unpacked texts.
#[derive(Debug, Default)]
pub struct Descriptions {
    /// One line a definition (`model`) or field (`model/field`), tab, text; sorted.
    text: String,
    /// Where the lines start.
    lines: Vec<u32>,
}

impl Descriptions {
    /// Unpacks the texts of this build.
    #[must_use]
    pub fn load() -> Self {
        Self::of(unpack())
    }

    fn of(text: String) -> Self {
        let starts = text.match_indices('\n').map(|(at, _)| at + 1);
        let lines = std::iter::once(0).chain(starts).filter_map(|at| u32::try_from(at).ok()).collect();
        Self { text, lines }
    }

    fn line(&self, at: u32) -> (&str, &str) {
        let rest = self.text.get(at as usize..).unwrap_or_default();
        rest.lines().next().and_then(|line| line.split_once('\t')).unwrap_or_default()
    }

    /// The description of a definition (`field` empty) or of one of its fields.
    #[must_use]
    pub fn get(&self, model: &str, field: &str) -> Option<String> {
        let name = if field.is_empty() { model.to_owned() } else { format!("{model}/{field}") };
        // The last start is the end of the text.
        let (_, lines) = self.lines.split_last()?;
        let at = lines.binary_search_by(|at| self.line(*at).0.cmp(&name)).ok()?;
        lines.get(at).map(|at| self.line(*at).1.replace('\u{1}', "\n"))
    }
}

#[cfg(feature = "descriptions")]
fn unpack() -> String {
    use std::io::Read as _;
    const PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptions.deflate"));
    let mut text = String::new();
    // Packed by the build script; a text that does not unpack is as good as none.
    match flate2::read::DeflateDecoder::new(PACKED).read_to_string(&mut text) {
        Ok(_) => text,
        Err(_) => String::new(),
    }
}

#[cfg(not(feature = "descriptions"))]
const fn unpack() -> String {
    String::new()
}

#[cfg(test)]
mod tests {
    use super::Descriptions;

    #[test]
    fn texts_are_found_by_name() {
        let texts = Descriptions::of("a.B\tA thing.\na.B/x\tOne\u{1}two.\nc.D\tLast.\n".to_owned());
        assert_eq!(texts.get("a.B", "").as_deref(), Some("A thing."));
        assert_eq!(texts.get("a.B", "x").as_deref(), Some("One\ntwo."));
        assert_eq!(texts.get("c.D", "").as_deref(), Some("Last."));
        assert_eq!(texts.get("c.D", "y"), None);
        assert_eq!(Descriptions::of(String::new()).get("a.B", ""), None);
    }

    #[cfg(feature = "descriptions")]
    #[test]
    fn fields_of_pods_are_described() {
        let texts = Descriptions::load();
        for (model, field) in [
            ("io.k8s.api.core.v1.PodSpec", "containers"),
            ("io.k8s.api.core.v1.Container", "image"),
            ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", ""),
        ] {
            assert!(texts.get(model, field).is_some(), "{model} {field}");
        }
    }
}
