//! Scripts: requests in the plain text form that editors know as `.http`.
//!
//! ```text
//! ### what the request is about
//! # @name cm                       its answer is {{cm…}} for later requests
//! # @until Established             sent again until the answer holds this text
//! # @differs why                   known to differ; shown, not counted
//! POST /api/v1/namespaces/x/configmaps?dryRun=All
//! Content-Type: application/json
//!
//! {"metadata": {"name": "a", "uid": "{{cm.metadata.uid}}", "annotations": {"long": "{{x*300}}"}}}
//! ```
//! A header `Content-Type: application/vnd.kubernetes.protobuf` turns a JSON body into protobuf before it is sent.

use std::path::Path;

use crate::ReplayError;

/// One request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// What it is about; unique in its script.
    pub title: String,
    /// The name later requests know its answer by; empty for none.
    pub name: String,
    /// Text that a repeated request waits for; empty for none.
    pub until: String,
    /// Why the answer is known to differ; empty when it is to be the same.
    pub differs: String,
    /// The HTTP method.
    pub method: String,
    /// Path and query.
    pub target: String,
    /// Headers in their order.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: String,
}

/// Requests in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// The requests.
    pub requests: Vec<Request>,
}

impl Script {
    /// Reads a file.
    ///
    /// # Errors
    /// A file that cannot be read, or is malformed.
    pub fn read(path: &Path) -> Result<Self, ReplayError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ReplayError::File { path: path.to_owned(), source })?;
        Self::parse(&text)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// A request without a line that says what to send, or two of one title.
    pub fn parse(text: &str) -> Result<Self, ReplayError> {
        let mut script = Self::default();
        let mut open: Option<Draft> = None;
        for (at, line) in text.lines().enumerate() {
            if let Some(title) = line.strip_prefix("###") {
                script.finish(open.take())?;
                open = Some(Draft::new(at + 1, title.trim()));
            } else if let Some(draft) = &mut open {
                draft.line(at + 1, line)?;
            }
        }
        script.finish(open)?;
        Ok(script)
    }

    fn finish(&mut self, draft: Option<Draft>) -> Result<(), ReplayError> {
        let Some(Draft { line, mut request, .. }) = draft else { return Ok(()) };
        if request.method.is_empty() {
            return Err(ReplayError::Script { line, why: format!("{:?} sends nothing", request.title) });
        }
        if self.requests.iter().any(|other| other.title == request.title) {
            return Err(ReplayError::Script { line, why: format!("{:?} is there twice", request.title) });
        }
        request.body = request.body.trim().to_owned();
        self.requests.push(request);
        Ok(())
    }
}

/// Which part of a request comes next.
#[derive(PartialEq, Eq)]
enum Part {
    Head,
    Headers,
    Body,
}

struct Draft {
    line: usize,
    part: Part,
    request: Request,
}

impl Draft {
    fn new(line: usize, title: &str) -> Self {
        Self { line, part: Part::Head, request: Request { title: title.to_owned(), ..Request::default() } }
    }

    fn line(&mut self, at: usize, line: &str) -> Result<(), ReplayError> {
        let request = &mut self.request;
        match self.part {
            Part::Head => match line.strip_prefix('#') {
                Some(comment) => annotate(request, comment.trim()),
                None if line.trim().is_empty() => {}
                None => {
                    let (method, target) = line.split_once(' ').ok_or_else(|| ReplayError::Script {
                        line: at,
                        why: "not a method and a path".to_owned(),
                    })?;
                    method.clone_into(&mut request.method);
                    target.trim().clone_into(&mut request.target);
                    self.part = Part::Headers;
                }
            },
            Part::Headers if line.trim().is_empty() => self.part = Part::Body,
            Part::Headers => {
                let (name, value) = line
                    .split_once(':')
                    .ok_or_else(|| ReplayError::Script { line: at, why: "not a header".to_owned() })?;
                request.headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            Part::Body => {
                request.body.push_str(line);
                request.body.push('\n');
            }
        }
        Ok(())
    }
}

fn annotate(request: &mut Request, comment: &str) {
    for (word, slot) in
        [("@name ", &mut request.name), ("@until ", &mut request.until), ("@differs ", &mut request.differs)]
    {
        if let Some(text) = comment.strip_prefix(word) {
            text.trim().clone_into(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Script;

    #[test]
    fn requests_are_read() {
        let script = Script::parse(
            "a file\n### one\n# @name a\n# @until x y\n\nPOST /api/v1/x?y=z\nContent-Type: application/json\n\n{}\n\n### two\nGET /a\n",
        )
        .expect("well-formed");
        let [one, two] = script.requests.as_slice() else { panic!("two requests") };
        assert_eq!((one.title.as_str(), one.name.as_str(), one.until.as_str()), ("one", "a", "x y"));
        assert_eq!((one.method.as_str(), one.target.as_str()), ("POST", "/api/v1/x?y=z"));
        assert_eq!(one.headers, [("Content-Type".to_owned(), "application/json".to_owned())]);
        assert_eq!(one.body, "{}");
        assert_eq!((two.method.as_str(), two.body.as_str()), ("GET", ""));
    }

    #[test]
    fn what_is_wrong_has_a_line() {
        let error = Script::parse("### a\n### b\nGET /\n").expect_err("the first sends nothing");
        assert_eq!(error.to_string(), "line 1: \"a\" sends nothing");
        assert!(Script::parse("### a\nGET /\n### a\nGET /\n").is_err());
    }
}
