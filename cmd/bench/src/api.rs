//! Latency and rate of the API, through one connection for each client, as upstream was measured.

use std::time::Duration;

use copepod_client::{Client, ClientConfig, Target, resources};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::report::Report;

const NAMESPACE: &str = "default";
/// Pods in the LIST; a scheduler that does not exist leaves them where they are.
const LISTED: usize = 500;

const GET_CLIENTS: usize = 8;
const GET_P50_AIM_MS: f64 = 1.0;
const GET_P99_AIM_MS: f64 = 5.0;
const GET_RATE_AIM: f64 = 10_000.0;
const LIST_CLIENTS: usize = 2;

/// What one request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    List,
    Create,
}

/// Measures GET, CREATE and LIST for `time` each.
pub(crate) async fn measure(
    config: &ClientConfig,
    time: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let client = Client::new(config)?;
    let maps = resources::CONFIG_MAPS.collection(NAMESPACE);
    client.create::<Value>(&maps, &config_map("bench")).await?;
    let (mut times, rate) = run(config, Kind::Get, GET_CLIENTS, time).await?;
    report.add_times("GET of a ConfigMap", &mut times, [Some(GET_P50_AIM_MS), Some(GET_P99_AIM_MS)]);
    report.add_with_aim("GET of a ConfigMap, 8 connections", rate, "1/s", GET_RATE_AIM);

    let (mut times, rate) = run(config, Kind::Create, 1, time).await?;
    report.add_times("CREATE of a ConfigMap", &mut times, [None, None]);
    report.add("CREATE of a ConfigMap, 1 connection", rate, "1/s");

    let pods = resources::PODS.collection(NAMESPACE);
    for n in 0..LISTED {
        client.create::<Value>(&pods, &unscheduled(n)).await?;
    }
    let (mut times, rate) = run(config, Kind::List, LIST_CLIENTS, time).await?;
    report.add_times("LIST of 500 pods", &mut times, [None, None]);
    report.add("LIST of 500 pods, 2 connections", rate, "1/s");
    Ok(())
}

/// Sends requests of one kind from `clients` at once, each waiting for its answer; the times, and requests a second.
async fn run(
    config: &ClientConfig,
    kind: Kind,
    clients: usize,
    time: Duration,
) -> anyhow::Result<(Vec<Duration>, f64)> {
    eprintln!("API: {kind:?}, {clients} connection(s), {} s", time.as_secs());
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..clients {
        let client = Client::new(config)?;
        tasks.push(copepod_supervisor::spawn("load", load(client, kind, number, begin + time)));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.join().await.ok_or_else(|| anyhow::anyhow!("a client panicked"))??);
    }
    let count = u32::try_from(times.len()).unwrap_or(u32::MAX);
    Ok((times, f64::from(count) / begin.elapsed().as_secs_f64()))
}

async fn load(client: Client, kind: Kind, number: usize, end: Instant) -> anyhow::Result<Vec<Duration>> {
    let one = resources::CONFIG_MAPS.object(NAMESPACE, "bench");
    let maps = resources::CONFIG_MAPS.collection(NAMESPACE);
    let pods = resources::PODS.collection(NAMESPACE);
    let mut times = Vec::new();
    while Instant::now() < end {
        let begin = Instant::now();
        match kind {
            Kind::Get => drop(client.get_raw(&one, "application/json").await?),
            Kind::List => drop(client.get_raw(&whole(&pods), "application/json").await?),
            Kind::Create => {
                let name = format!("bench-{number}-{}", times.len());
                client.create::<serde::de::IgnoredAny>(&maps, &config_map(&name)).await?;
            }
        }
        times.push(begin.elapsed());
    }
    Ok(times)
}

/// The collection from the cache, as informers read it.
fn whole(collection: &Target) -> Target {
    Target::raw(format!("{}?resourceVersion=0", collection.path()))
}

/// Half a kilobyte of data.
fn config_map(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {"key": "x".repeat(400)},
    })
}

fn unscheduled(number: usize) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": format!("listed-{number}"), "namespace": NAMESPACE},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "main", "image": "nobody.test/none:1"}]},
    })
}
