//! Container logs: `/containerLogs/<namespace>/<pod>/<container>`.

mod follow;
mod parse;

use std::path::PathBuf;
use std::sync::Arc;

use http::{Response, StatusCode};
use jiff::Timestamp;

use self::parse::Line;
use super::Server;
use super::body::{self, Body, text};
use super::handlers::find_pod;
use super::route::{Query, Target};
use crate::types::{Pod, PodRef};

/// What of a log is wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    follow: bool,
    previous: bool,
    timestamps: bool,
    tail: Option<usize>,
    limit_bytes: Option<usize>,
    since: Option<Timestamp>,
    /// `Stdout` or `Stderr` alone.
    stream: Option<String>,
}

impl Options {
    fn parse(query: &Query, now: Timestamp) -> Result<Self, String> {
        let number = |key: &str, least: i64| match query.first(key).map(str::parse::<i64>) {
            None => Ok(None),
            Some(Ok(n)) if n >= least => Ok(Some(n)),
            Some(_) => Err(format!("{key} must be a number of at least {least}")),
        };
        let size =
            |key: &str, least: i64| number(key, least).map(|n| n.and_then(|n| usize::try_from(n).ok()));
        let since = match (number("sinceSeconds", 1)?, query.first("sinceTime")) {
            (Some(seconds), _) => now.checked_sub(jiff::SignedDuration::from_secs(seconds)).ok(),
            (None, Some(time)) => Some(time.parse().map_err(|e| format!("sinceTime {time:?}: {e}"))?),
            (None, None) => None,
        };
        Ok(Self {
            follow: query.flag(&["follow"]),
            previous: query.flag(&["previous"]),
            timestamps: query.flag(&["timestamps"]),
            tail: size("tailLines", 0)?,
            limit_bytes: size("limitBytes", 1)?,
            since,
            stream: query.first("stream").filter(|s| *s != "All").map(str::to_owned),
        })
    }

    /// The bytes of a line as the client wants them; `None` when it does not want it.
    fn render(&self, line: &Line<'_>) -> Option<Vec<u8>> {
        if self.since.is_some_and(|since| line.time.is_some_and(|time| time < since)) {
            return None;
        }
        if self.stream.as_deref().is_some_and(|wanted| !wanted.eq_ignore_ascii_case(line.stream)) {
            return None;
        }
        let mut out = Vec::with_capacity(line.content.len() + 40);
        if self.timestamps {
            out.extend_from_slice(line.stamp.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(line.content);
        if !line.partial {
            out.push(b'\n');
        }
        Some(out)
    }
}

/// Answers with a log, whole or as it grows.
pub(super) async fn answer(server: &Arc<Server>, target: &Target, query: Option<&str>) -> Response<Body> {
    let options = match Options::parse(&Query::parse(query), copepod_sys::clock::now()) {
        Ok(options) => options,
        Err(why) => return text(StatusCode::UNPROCESSABLE_ENTITY, &why),
    };
    let pod = match find_pod(server, target) {
        Ok(pod) => pod,
        Err(refusal) => return refusal,
    };
    let path = match log_file(server, &pod, &target.container, options.previous) {
        Ok(path) => path,
        Err(why) => return text(StatusCode::BAD_REQUEST, &why),
    };
    let (sender, stream) = body::channel(16);
    let uid = pod.metadata.uid.clone().unwrap_or_default();
    let reader = follow::Reader {
        view: Arc::clone(&server.view),
        uid,
        container: target.container.clone(),
        path,
        options,
    };
    copepod_supervisor::spawn("container-logs", async move {
        if let Err(error) = reader.run(sender).await {
            tracing::debug!(%error, "container log");
        }
    });
    body::answer(StatusCode::OK, "text/plain", stream)
}

/// The file, or upstream's reason why there is none.
fn log_file(server: &Server, pod: &PodRef, container: &str, previous: bool) -> Result<PathBuf, String> {
    let pod_name = pod.metadata.name.as_deref().unwrap_or_default();
    if !has_container(pod, container) {
        return Err(format!("container {container} not found in pod {pod_name}"));
    }
    if let Some(path) = server.view.log_path(pod, container, previous).filter(|p| p.exists()) {
        return Ok(path);
    }
    if previous {
        return Err(format!("previous terminated container {container:?} in pod {pod_name:?} not found"));
    }
    let statuses = pod.status.as_ref().map(|s| {
        let init = s.init_container_statuses.iter().flatten();
        init.chain(s.container_statuses.iter().flatten())
            .chain(s.ephemeral_container_statuses.iter().flatten())
    });
    let waiting = statuses
        .and_then(|mut all| all.find(|s| s.name == container))
        .and_then(|s| s.state.as_ref()?.waiting.as_ref()?.reason.clone());
    let reason = waiting.unwrap_or_else(|| "ContainerCreating".to_owned());
    Err(match reason.as_str() {
        "ImagePullBackOff" | "ErrImagePull" => {
            format!("container {container:?} in pod {pod_name:?} is waiting to start: image can't be pulled")
        }
        _ => format!("container {container:?} in pod {pod_name:?} is waiting to start: {reason}"),
    })
}

fn has_container(pod: &Pod, name: &str) -> bool {
    pod.spec.as_ref().is_some_and(|spec| {
        let plain =
            spec.containers.iter().chain(spec.init_containers.iter().flatten()).map(|c| c.name.as_str());
        let ephemeral = spec.ephemeral_containers.iter().flatten().map(|c| c.name.as_str());
        plain.chain(ephemeral).any(|known| known == name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_checked_and_lines_rendered() {
        let now: Timestamp = "2026-11-30T12:00:00Z".parse().unwrap();
        let parse = |query: &str| Options::parse(&Query::parse(Some(query)), now);
        assert!(
            parse("tailLines=-1").is_err() && parse("limitBytes=x").is_err() && parse("sinceTime=y").is_err()
        );
        let options = parse("timestamps=true&sinceSeconds=60&stream=Stderr").unwrap();
        let line = |text: &'static str| parse::line(text.as_bytes()).unwrap();
        let kept = options.render(&line("2026-11-30T11:59:30.5Z stderr F hello")).unwrap();
        assert_eq!(kept, b"2026-11-30T11:59:30.5Z hello\n");
        assert!(options.render(&line("2026-11-30T11:58:30Z stderr F old")).is_none());
        assert!(options.render(&line("2026-11-30T11:59:30Z stdout F other")).is_none());
    }
}
