//! Checks the other servers: at every change of an APIService, a Service or an EndpointSlice, and now and then.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use copepod_api::{ApiResult, GroupVersionResource, Reason, meta};
use copepod_registry::{Body, RequestContext, Target};
use serde_json::Value;
use tokio::time::Instant;

use super::condition::{self, Condition};
use super::{Aggregator, Endpoint, Remote, Served, documents};

const GROUP: &str = "apiregistration.k8s.io";
/// Between two checks of a server that is well, as upstream's.
const RESYNC: Duration = Duration::from_secs(30);
/// Between two checks of a server that is not: at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));
/// How long a server may take to answer a check.
const PATIENCE: Duration = Duration::from_secs(5);
/// Changes that come together are looked at together.
const TOGETHER: Duration = Duration::from_millis(50);

/// What is remembered of a server between checks.
#[derive(Debug, Clone)]
struct Pace {
    due: Instant,
    pause: Duration,
}

impl Aggregator {
    /// Checks for ever.
    pub(crate) async fn watch(self: Arc<Self>) {
        self.reader.0.ready().await;
        let cache = Arc::clone(self.reader.0.cache());
        let services = cache.bucket("/registry/apiregistration.k8s.io/apiservices/");
        let related = [cache.bucket("/registry/services/specs/"), cache.bucket("/registry/endpointslices/")];
        let mut paces: BTreeMap<String, Pace> = BTreeMap::new();
        let mut everything = true;
        loop {
            let own = services.changed();
            let (first, second) = (related[0].changed(), related[1].changed());
            tokio::pin!(own, first, second);
            let next = self.look(&mut paces, std::mem::take(&mut everything)).await;
            let concerned = !paces.is_empty();
            tokio::select! {
                () = &mut own => everything = true,
                () = &mut first, if concerned => everything = true,
                () = &mut second, if concerned => everything = true,
                () = tokio::time::sleep_until(next), if concerned => {}
            }
            if everything {
                tokio::time::sleep(TOGETHER).await;
            }
        }
    }

    /// One look at every APIService with a service; when to look again without a change.
    async fn look(&self, paces: &mut BTreeMap<String, Pace>, everything: bool) -> Instant {
        let objects = self.reader.list(GROUP, "apiservices", None, "").await;
        let objects: Vec<&Value> = objects.iter().filter(|o| !o["spec"]["service"].is_null()).collect();
        paces.retain(|name, _| objects.iter().any(|o| meta::name(o) == name));
        let now = Instant::now();
        let known = self.remotes();
        let checks = objects.iter().map(async |object| {
            let due = paces.get(meta::name(object)).is_none_or(|pace| pace.due <= now);
            let served = served(object);
            match known.get(&served).filter(|_| !due && !everything) {
                Some(remote) => (served, Remote::clone(remote), None),
                None => {
                    let (remote, well) = self.check(object, known.get(&served).map(AsRef::as_ref)).await;
                    (served, remote, Some(well))
                }
            }
        });
        let checked = futures::future::join_all(checks).await;
        let mut remotes = BTreeMap::new();
        for (served, remote, well) in checked {
            if let Some(well) = well {
                let pace = paces.entry(remote.name.clone()).or_insert(Pace { due: now, pause: RETRY.0 });
                pace.pause = if well { RETRY.0 } else { (pace.pause * 2).min(RETRY.1) };
                pace.due = Instant::now() + if well { RESYNC } else { pace.pause };
            }
            remotes.insert(served, Arc::new(remote));
        }
        self.publish(remotes);
        paces.values().map(|pace| pace.due).min().unwrap_or(now + RESYNC)
    }

    fn publish(&self, remotes: BTreeMap<Served, Arc<Remote>>) {
        if *self.remotes.load_full() == remotes {
            return;
        }
        self.remotes.store(Arc::new(remotes));
        self.changed.send_modify(|tick| *tick += 1);
    }

    /// Checks one server and writes the outcome; whether it is well.
    async fn check(&self, object: &Value, known: Option<&Remote>) -> (Remote, bool) {
        let spec = &object["spec"];
        let (group, version) = served(object);
        let text = |field: &str| spec["service"][field].as_str().unwrap_or_default();
        let namespace = Some(text("namespace"));
        let service = self.reader.get("", "services", namespace, text("name")).await;
        let mut slices = self.reader.list("discovery.k8s.io", "endpointslices", namespace, "").await;
        slices
            .retain(|s| s["metadata"]["labels"]["kubernetes.io/service-name"].as_str() == Some(text("name")));
        let mut remote = Remote {
            name: meta::name(object).to_owned(),
            endpoint: Endpoint::of_service(spec),
            available: false,
            priority: spec["groupPriorityMinimum"].as_i64().unwrap_or(0),
            resources: known.map_or_else(|| Value::Array(Vec::new()), |known| known.resources.clone()),
            fresh: false,
            openapi: known.and_then(|known| known.openapi.clone()),
        };
        let condition = match condition::obstacle(spec, service.as_ref(), &slices) {
            Some(obstacle) => obstacle,
            None => match self.ask(&mut remote, &group, &version).await {
                Ok(()) => Condition::passed(),
                Err(why) => Condition::failed(why),
            },
        };
        remote.available = condition.status == "True";
        if let Err(error) = self.write(object, &condition).await {
            tracing::warn!(apiservice = remote.name, %error, "availability is not written");
            return (remote, false);
        }
        let well = remote.available;
        (remote, well)
    }

    /// Asks the server for what it must serve, and keeps what discovery needs.
    async fn ask(&self, remote: &mut Remote, group: &str, version: &str) -> Result<(), String> {
        let endpoint = remote.endpoint.clone()?;
        let place = self.outbound.resolve(&endpoint).await?;
        let path = format!("/apis/{group}/{version}");
        let url = format!("https://{place}{path}");
        let failing = |why: String| format!("failing or missing response from {url}: {why}");
        let late = || {
            format!(
                "Get \"{url}\": net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)"
            )
        };
        let answer = tokio::time::timeout(PATIENCE, self.get(&endpoint, &path)).await;
        let (code, body) =
            answer.map_err(|_| failing(late()))?.map_err(|why| failing(format!("Get \"{url}\": {why}")))?;
        if !(200..300).contains(&code) {
            return Err(failing(format!("bad status from {url}: {code}")));
        }
        if let Ok(list) = serde_json::from_slice(&body) {
            remote.resources = documents::resources(&list);
            remote.fresh = true;
        }
        let index = tokio::time::timeout(PATIENCE, self.get(&endpoint, "/openapi/v3")).await;
        if let Ok(Ok((200, index))) = index {
            let index = serde_json::from_slice(&index).unwrap_or_default();
            remote.openapi = documents::openapi(&index, group, version);
        }
        Ok(())
    }

    async fn write(&self, object: &Value, condition: &Condition) -> ApiResult<()> {
        let Some(new) = condition::set(object, condition, copepod_sys::clock::now()) else { return Ok(()) };
        let gvr = GroupVersionResource::new(GROUP, "v1", "apiservices");
        let Some(store) = self.reader.0.store(&gvr) else { return Ok(()) };
        let target = Target::new(None, meta::name(object)).sub("status");
        match store.update(&RequestContext::internal(), &target, Body::Value(new)).await {
            // Changed or gone meanwhile: the change brings the next look.
            Err(error) if !error.is(Reason::Conflict) && !error.is(Reason::NotFound) => Err(error),
            _ => Ok(()),
        }
    }
}

fn served(object: &Value) -> Served {
    let text = |field: &str| object["spec"][field].as_str().unwrap_or_default().to_owned();
    (text("group"), text("version"))
}
