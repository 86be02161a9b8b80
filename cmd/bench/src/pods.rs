//! How long a pod takes from the answer to its creation until a watch shows it running.

use std::time::Duration;

use anyhow::{Context, bail};
use copepod_client::{Client, DeleteOptions, WatchOptions, resources, watch};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::report::Report;

/// The design's aim for the median.
const P50_AIM_MS: f64 = 150.0;
/// How long one pod may take.
const PATIENCE: Duration = Duration::from_secs(60);
const NAMESPACE: &str = "default";
/// In every bundle; its default command would end at once.
const IMAGE: &str = "docker.io/library/busybox:1.37";

#[derive(Deserialize)]
struct Seen {
    metadata: Name,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Name {
    name: String,
}

#[derive(Default, Deserialize)]
struct Status {
    #[serde(default)]
    phase: String,
}

/// Starts `count` pods, one after the other, and removes each.
pub(crate) async fn start(client: &Client, count: usize, report: &mut Report) -> anyhow::Result<()> {
    eprintln!("pods: {count}, one after the other");
    // The first pulls everything into the caches of the machine.
    one(client, "warm-up").await?;
    let mut times = Vec::new();
    for n in 0..count {
        times.push(one(client, &format!("bench-{n}")).await?);
    }
    report.add_times("pod created until Running", &mut times, [Some(P50_AIM_MS), None]);
    Ok(())
}

async fn one(client: &Client, name: &str) -> anyhow::Result<Duration> {
    let pods = resources::PODS.collection(NAMESPACE);
    let options = WatchOptions { label_selector: format!("bench={name}"), ..WatchOptions::default() };
    let mut events = client.watch(&pods, &options).await?;
    client.create::<Value>(&pods, &pod(name)).await?;
    let begin = Instant::now();
    loop {
        let line = tokio::time::timeout(PATIENCE, events.next());
        let line = line
            .await
            .with_context(|| format!("pod {name} is not Running in {} s", PATIENCE.as_secs()))??;
        let Some(line) = line else { bail!("the server ended the watch") };
        let seen: Seen = serde_json::from_str(watch::parse(&line)?.object.get())?;
        if seen.metadata.name == name && seen.status.phase == "Running" {
            break;
        }
    }
    let time = begin.elapsed();
    let pod = resources::PODS.object(NAMESPACE, name);
    client.delete(&pod, &DeleteOptions::default().grace(0)).await?;
    Ok(time)
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"bench": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "main", "image": IMAGE, "command": ["sleep", "3600"]}],
        },
    })
}
