//! Sizes, cold start, and the restart of the agent.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};
use copepod_testkit::{Cluster, ClusterOptions};
use tokio::time::Instant;

use crate::report::Report;

const BINARY_AIM_MIB: f64 = 40.0;
const START_AIM_SECONDS: f64 = 8.0;
const RESTART_AIM_SECONDS: f64 = 2.0;
/// The kubelet's health, on the node's loopback.
const HEALTH_PORT: u16 = 10_248;
/// How long the agent may take to come back.
const PATIENCE: Duration = Duration::from_secs(60);
/// How finely its return is measured.
const LOOK: Duration = Duration::from_millis(10);

/// The sizes of what is shipped.
pub(crate) fn sizes(bundle: &Path, report: &mut Report) -> anyhow::Result<()> {
    let mib = |path: &Path| -> anyhow::Result<f64> {
        let size = fs::metadata(path).with_context(|| path.display().to_string())?.len();
        Ok(u32::try_from(size / 1024).map_or(f64::INFINITY, f64::from) / 1024.0)
    };
    report.add_with_aim("copepod binary", mib(&bundle.join("bin/copepod"))?, "MiB", BINARY_AIM_MIB);
    let archive = format!("{}.tar.gz", bundle.display());
    if Path::new(&archive).exists() {
        report.add("bundle", mib(Path::new(&archive))?, "MiB");
    }
    Ok(())
}

/// Starts a node that has nothing, images included, and notes when each step was done.
pub(crate) fn cold(options: &ClusterOptions, report: &mut Report) -> anyhow::Result<Cluster> {
    let begin = Instant::now();
    let mut steps = Vec::new();
    let cluster = Cluster::start(options, &mut |step| steps.push((step.to_string(), begin.elapsed())))?;
    for (step, time) in steps {
        if step == "node Ready" {
            report.add_with_aim("first start: node Ready", time.as_secs_f64(), "s", START_AIM_SECONDS);
        } else {
            report.add(format!("first start: {step}"), time.as_secs_f64(), "s");
        }
    }
    Ok(cluster)
}

/// Kills the agent; init starts it again half a second later, which is part of the figure.
pub(crate) fn agent_restart(cluster: &mut Cluster, report: &mut Report) -> anyhow::Result<()> {
    let health = cluster.node.forward(HEALTH_PORT)?;
    anyhow::ensure!(healthy(health), "the kubelet is not healthy before the restart");
    let pid = cluster.node.service_pid("copepod")?.context("the agent does not run")?;
    let killed = cluster.node.exec(&["/bin/kill", "-9", &pid.to_string()])?;
    anyhow::ensure!(killed.status.success(), "kill: {}", String::from_utf8_lossy(&killed.stderr));
    let begin = Instant::now();
    while !healthy(health) {
        if begin.elapsed() > PATIENCE {
            bail!("the agent did not come back:\n{}", cluster.log_tail(20));
        }
        std::thread::park_timeout(LOOK);
    }
    let time = begin.elapsed().as_secs_f64();
    report.add_with_aim("agent killed until healthy", time, "s", RESTART_AIM_SECONDS);
    Ok(())
}

fn healthy(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
