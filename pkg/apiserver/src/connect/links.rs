//! Links of proxied pages and redirects: what leads to the proxied server itself must come back through the proxy
//! (`apimachinery/pkg/util/proxy`).

use std::io::{Read as _, Write as _};

use flate2::Compression;

/// Attributes that hold an address, by element.
const ADDRESSES: &[(&str, &[&str])] = &[
    ("a", &["href"]),
    ("applet", &["codebase"]),
    ("area", &["href"]),
    ("audio", &["src"]),
    ("base", &["href"]),
    ("blockquote", &["cite"]),
    ("body", &["background"]),
    ("button", &["formaction"]),
    ("command", &["icon"]),
    ("del", &["cite"]),
    ("embed", &["src"]),
    ("form", &["action"]),
    ("frame", &["longdesc", "src"]),
    ("head", &["profile"]),
    ("html", &["manifest"]),
    ("iframe", &["longdesc", "src"]),
    ("img", &["longdesc", "src", "usemap"]),
    ("input", &["src", "usemap", "formaction"]),
    ("ins", &["cite"]),
    ("link", &["href"]),
    ("object", &["classid", "codebase", "data", "usemap"]),
    ("q", &["cite"]),
    ("script", &["src"]),
    ("source", &["src"]),
    ("video", &["poster", "src"]),
];

/// Elements whose content is text, whatever it looks like.
const RAW: &[&str] =
    &["script", "style", "textarea", "title", "iframe", "noembed", "noframes", "noscript", "xmp"];

/// Where a page came from.
#[derive(Debug, Clone)]
pub(super) struct Source {
    /// Host and port of the proxied server.
    pub host: String,
    /// Host and port that the client asked.
    pub requested: String,
    /// The path that leads to the proxied server's root.
    pub prefix: String,
}

impl Source {
    /// An address on a page as the client must have it.
    pub(super) fn rewrite(&self, url: &str) -> String {
        let (scheme, rest) = match url.find("://") {
            Some(at) if url.get(..at).is_some_and(|s| s.bytes().all(|b| b.is_ascii_alphanumeric())) => {
                (url.get(..at).unwrap_or_default(), url.get(at + 1..).unwrap_or_default())
            }
            _ => ("", url),
        };
        let (host, path) = match rest.strip_prefix("//") {
            Some(after) => after.split_at(after.find(['/', '?', '#']).unwrap_or(after.len())),
            None => ("", rest),
        };
        let elsewhere = !host.is_empty() && host != self.host && host != self.requested;
        if elsewhere || !path.starts_with('/') {
            return url.to_owned();
        }
        let origin = if !host.is_empty() && host == self.requested {
            if scheme.is_empty() { format!("//{host}") } else { format!("{scheme}://{host}") }
        } else {
            String::new()
        };
        if path.starts_with(&self.prefix) {
            return format!("{origin}{path}");
        }
        format!("{origin}{}{path}", self.prefix)
    }

    /// A page with its links rewritten; `None` when its encoding is not known.
    pub(super) fn page(&self, encoding: &str, page: &[u8]) -> Option<Vec<u8>> {
        match encoding {
            "" => Some(self.html(page)),
            "gzip" => {
                let mut plain = Vec::new();
                flate2::read::GzDecoder::new(page).read_to_end(&mut plain).ok()?;
                let mut packed = flate2::write::GzEncoder::new(Vec::new(), Compression::default());
                packed.write_all(&self.html(&plain)).ok()?;
                packed.finish().ok()
            }
            "deflate" => {
                let mut plain = Vec::new();
                flate2::read::DeflateDecoder::new(page).read_to_end(&mut plain).ok()?;
                let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), Compression::best());
                packed.write_all(&self.html(&plain)).ok()?;
                packed.finish().ok()
            }
            _ => None,
        }
    }

    fn html(&self, page: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(page.len() + page.len() / 8);
        let mut rest = page;
        while let Some(at) = rest.iter().position(|b| *b == b'<') {
            let (text, tag) = rest.split_at(at);
            out.extend_from_slice(text);
            let length = extent(tag);
            let (tag, after) = tag.split_at(length);
            rest = after;
            if !tag.get(1).is_some_and(u8::is_ascii_alphabetic) {
                out.extend_from_slice(tag);
                continue;
            }
            let name = element(tag);
            self.tag(&name, tag, &mut out);
            if RAW.contains(&name.as_str()) && !tag.ends_with(b"/>") {
                let end = find_end(rest, &name);
                let (raw, after) = rest.split_at(end);
                out.extend_from_slice(raw);
                rest = after;
            }
        }
        out.extend_from_slice(rest);
        out
    }

    /// Writes a start tag with its addresses rewritten.
    fn tag(&self, name: &str, tag: &[u8], out: &mut Vec<u8>) {
        let wanted =
            ADDRESSES.iter().find(|(element, _)| *element == name).map_or(&[][..], |(_, list)| *list);
        let mut written = 0;
        for (attribute, value) in attributes(tag, 1 + name.len()) {
            let text = tag.get(value.clone()).map(String::from_utf8_lossy).unwrap_or_default();
            if !wanted.contains(&attribute.as_str()) {
                continue;
            }
            let rewritten = self.rewrite(&text);
            out.extend_from_slice(tag.get(written..value.start).unwrap_or_default());
            out.extend_from_slice(rewritten.as_bytes());
            written = value.end;
        }
        out.extend_from_slice(tag.get(written..).unwrap_or_default());
    }
}

/// How long the tag, comment or lone `<` at the start of `text` is.
fn extent(text: &[u8]) -> usize {
    if text.starts_with(b"<!--") {
        return text.windows(3).position(|w| w == b"-->").map_or(text.len(), |at| at + 3);
    }
    if !text.get(1).is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'/' | b'!' | b'?')) {
        return 1;
    }
    let mut quote = None;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match (quote, byte) {
            (None, b'>') => return at + 1,
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(open), byte) if open == *byte => quote = None,
            _ => {}
        }
    }
    text.len()
}

fn element(tag: &[u8]) -> String {
    let name = tag.iter().skip(1).take_while(|b| !b.is_ascii_whitespace() && !matches!(b, b'>' | b'/'));
    name.map(|b| char::from(b.to_ascii_lowercase())).collect()
}

/// Where the end tag of a raw element starts.
fn find_end(text: &[u8], name: &str) -> usize {
    let end = format!("</{name}");
    text.windows(end.len()).position(|w| w.eq_ignore_ascii_case(end.as_bytes())).unwrap_or(text.len())
}

/// The attributes of a tag with the places of their values.
fn attributes(tag: &[u8], from: usize) -> Vec<(String, std::ops::Range<usize>)> {
    let mut out = Vec::new();
    let mut at = from;
    let skip = |at: &mut usize, what: &dyn Fn(u8) -> bool| {
        while tag.get(*at).is_some_and(|b| what(*b)) {
            *at += 1;
        }
    };
    loop {
        skip(&mut at, &|b| b.is_ascii_whitespace() || b == b'/');
        let start = at;
        skip(&mut at, &|b| !b.is_ascii_whitespace() && !matches!(b, b'=' | b'>' | b'/'));
        if at == start {
            return out;
        }
        let name = tag.get(start..at).unwrap_or_default().to_ascii_lowercase();
        skip(&mut at, &|b| b.is_ascii_whitespace());
        if tag.get(at) != Some(&b'=') {
            continue;
        }
        at += 1;
        skip(&mut at, &|b| b.is_ascii_whitespace());
        let value = match tag.get(at).copied() {
            Some(quote @ (b'"' | b'\'')) => {
                let start = at + 1;
                at = start;
                skip(&mut at, &|b| b != quote);
                at += 1;
                start..at - 1
            }
            _ => {
                let start = at;
                skip(&mut at, &|b| !b.is_ascii_whitespace() && b != b'>');
                start..at
            }
        };
        out.push((String::from_utf8_lossy(&name).into_owned(), value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> Source {
        Source {
            host: "10.0.0.1:80".to_owned(),
            requested: "me:6443".to_owned(),
            prefix: "/api/p/proxy".to_owned(),
        }
    }

    #[test]
    fn addresses_come_back_through_the_proxy() {
        let source = source();
        for (from, to) in [
            ("/x/?a=b#c", "/api/p/proxy/x/?a=b#c"),
            ("x", "x"),
            ("http://10.0.0.1:80/x", "/api/p/proxy/x"),
            ("https://me:6443/x", "https://me:6443/api/p/proxy/x"),
            ("http://elsewhere/x", "http://elsewhere/x"),
            ("/api/p/proxy/x", "/api/p/proxy/x"),
            ("mailto:a@b", "mailto:a@b"),
        ] {
            assert_eq!(source.rewrite(from), to, "{from}");
        }
    }

    #[test]
    fn only_addresses_change() {
        let page = "<!-- <a href='/no'> --><P class=x><a HREF=\"/rewriteme\" title='/t'>1 < 2</a><img src=/i.png alt>\
                    <script src='/s.js'>var a = '<a href=\"/no\">';</script></P>";
        let html = String::from_utf8(source().page("", page.as_bytes()).unwrap()).unwrap();
        assert_eq!(
            html,
            "<!-- <a href='/no'> --><P class=x><a HREF=\"/api/p/proxy/rewriteme\" title='/t'>1 < 2</a>\
             <img src=/api/p/proxy/i.png alt><script src='/api/p/proxy/s.js'>var a = '<a href=\"/no\">';</script></P>"
        );
        assert!(source().page("br", b"").is_none());
    }
}
