//! postStart and preStop handlers.

use std::time::Duration;

use copepod_cri::RuntimeService;
use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};

use crate::pod::PodExt;
use crate::prober::http::{self, HttpTarget};
use crate::prober::resolve_port;

/// Longest an HTTP hook may take.
const HTTP_TIMEOUT: Duration = Duration::from_secs(60);

/// Why a hook failed; the text is the waiting message of a failed postStart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct HookError(String);

/// Runs one handler in (or against) a running container.
///
/// # Errors
/// The handler's failure.
pub async fn run(
    runtime: &dyn RuntimeService,
    pod: &Pod,
    container: &Container,
    container_id: &str,
    pod_ip: Option<&str>,
    handler: &LifecycleHandler,
) -> Result<(), HookError> {
    let of = format!(
        "for Container {:?} in Pod \"{}_{}({})\" failed",
        container.name,
        pod.name(),
        pod.namespace(),
        pod.uid()
    );
    if let Some(exec) = &handler.exec {
        let command = exec.command.clone().unwrap_or_default();
        let head = format!("Exec lifecycle hook ([{}]) {of}", command.join(" "));
        let answer = runtime
            .exec_sync(container_id, command, Duration::ZERO)
            .await
            .map_err(|error| HookError(format!("{head} - error: {error}, message: \"\"")))?;
        if answer.exit_code != 0 {
            let mut output = answer.stdout;
            output.extend(answer.stderr);
            let output = String::from_utf8_lossy(&output).into_owned();
            return Err(HookError(format!(
                "{head} - error: command exited with {}: {output}, message: {output:?}",
                answer.exit_code
            )));
        }
        return Ok(());
    }
    if let Some(get) = &handler.http_get {
        let head = format!("HTTP lifecycle hook ({}) {of}", get.path.as_deref().unwrap_or_default());
        let host = get.host.clone().filter(|h| !h.is_empty()).or_else(|| pod_ip.map(str::to_owned));
        let host =
            host.ok_or_else(|| HookError(format!("{head} - error: failed to find networking container")))?;
        let port =
            resolve_port(&get.port, container).map_err(|e| HookError(format!("{head} - error: {e}")))?;
        let target = HttpTarget::new(get, host, port, "lifecycle");
        return match http::get(&target, HTTP_TIMEOUT).await {
            // Any answer is an answer: only a failed exchange fails the hook.
            Ok(_) => Ok(()),
            Err(error) => Err(HookError(format!("{head} - error: Get \"{}\": {error}", target.url()))),
        };
    }
    if let Some(sleep) = &handler.sleep {
        tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        return Ok(());
    }
    Err(HookError(format!("Cannot run handler: invalid handler {of}")))
}
