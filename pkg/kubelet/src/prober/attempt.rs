//! One attempt of one probe: exec, http, tcp or grpc.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::http::{self, HttpTarget};
use super::task::ProbeTask;

/// What one attempt found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Well.
    Success,
    /// Well, with a remark (a redirect to another host).
    Warning(String),
    /// Not well.
    Failure(String),
    /// The probe itself went wrong.
    Error(String),
}

/// The number of a port given by number or by the container's name for it.
pub(crate) fn resolve_port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => container
            .ports
            .iter()
            .flatten()
            .find(|p| p.name.as_deref() == Some(name))
            .map(|p| p.container_port)
            .or_else(|| name.parse().ok()),
    };
    match number.and_then(|n| u16::try_from(n).ok()) {
        Some(port) if port > 0 => Ok(port),
        _ => Err(match port {
            IntOrString::Int(n) => format!("invalid port number: {n}"),
            IntOrString::String(name) => {
                format!("couldn't find port: {name} in container {}", container.name)
            }
        }),
    }
}

pub(super) async fn attempt(task: &ProbeTask) -> Outcome {
    let probe = &task.probe;
    let limit = Duration::from_secs(u64::try_from(probe.timeout_seconds.unwrap_or(1).max(1)).unwrap_or(1));
    if let Some(exec) = &probe.exec {
        return attempt_exec(task, exec.command.clone().unwrap_or_default(), limit).await;
    }
    match attempt_network(task, probe, limit).await {
        Ok(outcome) => outcome,
        Err(text) => Outcome::Error(text),
    }
}

async fn attempt_exec(task: &ProbeTask, command: Vec<String>, limit: Duration) -> Outcome {
    let env_expanded = command;
    match task.runtime.exec_sync(&task.container_id, env_expanded, limit).await {
        Ok(answer) if answer.exit_code == 0 => Outcome::Success,
        Ok(answer) => {
            let mut output = answer.stdout;
            output.extend(answer.stderr);
            Outcome::Failure(String::from_utf8_lossy(&output).into_owned())
        }
        Err(error) if error.code() == tonic::Code::DeadlineExceeded => {
            Outcome::Failure(format!("command timed out: {error}"))
        }
        Err(error) => Outcome::Error(error.to_string()),
    }
}

async fn attempt_network(task: &ProbeTask, probe: &Probe, limit: Duration) -> Result<Outcome, String> {
    let own_host = super::default_host(&task.pod, task.pod_ip.as_deref());
    let host = |given: Option<&String>| {
        given
            .filter(|h| !h.is_empty())
            .cloned()
            .or_else(|| own_host.clone())
            .ok_or("the pod has no address yet")
    };
    if let Some(get) = &probe.http_get {
        let target = HttpTarget::new(
            get,
            host(get.host.as_ref())?,
            resolve_port(&get.port, &task.container)?,
            "probe",
        );
        return Ok(match http::get(&target, limit).await {
            Ok(answer) if (200..400).contains(&answer.status) => match answer.foreign_redirect {
                Some(location) => {
                    Outcome::Warning(format!("Probe terminated redirects, Response body: {location}"))
                }
                None => Outcome::Success,
            },
            Ok(answer) => Outcome::Failure(format!("HTTP probe failed with statuscode: {}", answer.status)),
            Err(error) => Outcome::Failure(format!("Get \"{}\": {error}", target.url())),
        });
    }
    if let Some(socket) = &probe.tcp_socket {
        let port = resolve_port(&socket.port, &task.container)?;
        return Ok(attempt_tcp(&host(socket.host.as_ref())?, port, limit).await);
    }
    if let Some(grpc) = &probe.grpc {
        let port = u16::try_from(grpc.port).map_err(|_| format!("invalid port number: {}", grpc.port))?;
        let service = grpc.service.clone().unwrap_or_default();
        return Ok(attempt_grpc(&host(None)?, port, service, limit).await);
    }
    Err(format!("missing probe handler for {}", task.container.name))
}

async fn attempt_tcp(host: &str, port: u16, limit: Duration) -> Outcome {
    let address = http::authority(host, port);
    match timeout(limit, TcpStream::connect(&address)).await {
        Ok(Ok(_)) => Outcome::Success,
        Ok(Err(error)) => Outcome::Failure(format!("dial tcp {address}: {}", http::system_text(&error))),
        Err(_) => Outcome::Failure(format!("dial tcp {address}: i/o timeout")),
    }
}

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

async fn attempt_grpc(host: &str, port: u16, service: String, limit: Duration) -> Outcome {
    let address = http::authority(host, port);
    let call = async {
        let endpoint = tonic::transport::Endpoint::from_shared(format!("http://{address}"))
            .map_err(|e| format!("error: {e}"))?
            .user_agent("kube-probe/1.37")
            .map_err(|e| format!("error: {e}"))?;
        let unreachable = |error: &dyn std::fmt::Display| {
            format!("timeout: failed to connect service {address:?} within {}s: {error}", limit.as_secs())
        };
        let channel = endpoint.connect().await.map_err(|e| unreachable(&e))?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await.map_err(|e| unreachable(&e))?;
        let codec = tonic_prost::ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default();
        let path = ::http::uri::PathAndQuery::from_static("/grpc.health.v1.Health/Check");
        let answer = client
            .unary(tonic::Request::new(HealthCheckRequest { service }), path, codec)
            .await
            .map_err(|status| format!("error: health rpc probe failed: {}", status.message()))?;
        Ok::<i32, String>(answer.into_inner().status)
    };
    match timeout(limit, call).await {
        Ok(Ok(1)) => Outcome::Success,
        Ok(Ok(status)) => {
            let word = match status {
                2 => "NOT_SERVING",
                3 => "SERVICE_UNKNOWN",
                _ => "UNKNOWN",
            };
            Outcome::Failure(format!("service unhealthy (responded with {word:?})"))
        }
        Ok(Err(text)) => Outcome::Failure(text),
        Err(_) => {
            Outcome::Failure(format!("timeout: health rpc did not complete within {}s", limit.as_secs()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_resolve_by_name() {
        let container: Container = serde_json::from_value(
            serde_json::json!({"name": "c", "ports": [{"name": "web", "containerPort": 8080}]}),
        )
        .unwrap();
        assert_eq!(resolve_port(&IntOrString::Int(80), &container), Ok(80));
        assert_eq!(resolve_port(&IntOrString::String("web".to_owned()), &container), Ok(8080));
        assert!(resolve_port(&IntOrString::String("x".to_owned()), &container).is_err());
        assert!(resolve_port(&IntOrString::Int(0), &container).is_err());
    }

    #[tokio::test]
    async fn tcp_tells_open_from_closed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let limit = Duration::from_secs(1);
        assert_eq!(attempt_tcp("127.0.0.1", address.port(), limit).await, Outcome::Success);
        drop(listener);
        let Outcome::Failure(text) = attempt_tcp("127.0.0.1", address.port(), limit).await else { panic!() };
        assert_eq!(text, format!("dial tcp {address}: connect: connection refused"));
    }
}
