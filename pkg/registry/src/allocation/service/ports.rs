//! Node ports.

use std::{
    collections::BTreeSet,
    sync::{Arc, Weak},
};

use copepod_api::{ApiError, ApiResult, FieldError, FieldErrors, FieldPath, GroupVersionKind};
use parking_lot::Mutex;
use rand::RngExt as _;

use super::spec::Spec;
use crate::{error::from_store, store::Core};

const ALLOCATED: &str = "provided port is already allocated";
const FULL: &str = "range is full";

/// The range, and the ports in use.
pub(super) struct Ports {
    core: Weak<Core>,
    range: (i64, i64),
    /// `None` until the Services have been read.
    used: Mutex<Option<BTreeSet<i64>>>,
}

impl Ports {
    pub(super) fn new(core: Weak<Core>, range: (u16, u16)) -> Self {
        Self { core, range: (range.0.into(), range.1.into()), used: Mutex::new(None) }
    }

    /// Reads the ports of the Services there are, once.
    async fn load(&self) -> ApiResult<()> {
        if self.used.lock().is_some() {
            return Ok(());
        }
        let core = self.core.upgrade().ok_or_else(|| ApiError::internal("the registry is gone"))?;
        core.cache.fresh().await.map_err(|error| from_store(&error))?;
        let store = core.sibling("", "v1", "services")?;
        let prefix = store.row.def.key_prefix(None);
        let mut found = BTreeSet::new();
        for entry in core.cache.bucket(&prefix).entries(&prefix) {
            found.extend(Spec::read(&store.row.load(&entry)?).all_node_ports());
        }
        self.used.lock().get_or_insert(found);
        Ok(())
    }

    fn take(&self, port: i64) -> Result<(), String> {
        let (low, high) = self.range;
        if !(low..=high).contains(&port) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {low}-{high}"
            ));
        }
        if self.used.lock().get_or_insert_default().insert(port) { Ok(()) } else { Err(ALLOCATED.to_owned()) }
    }

    /// A free port: from the upper, dynamic part of the range first, starting at a random place.
    fn take_free(&self) -> Result<i64, &'static str> {
        let (low, high) = self.range;
        let size = high - low + 1;
        let offset = if size < 16 { 0 } else { (size / 32).clamp(16, 128) };
        let mut used = self.used.lock();
        let used = used.get_or_insert_default();
        for (low, high) in [(low + offset, high), (low, low + offset - 1)] {
            let size = high - low + 1;
            if size <= 0 {
                continue;
            }
            let start = rand::rng().random_range(0..size);
            let free = (0..size).map(|step| low + (start + step) % size).find(|port| !used.contains(port));
            if let Some(port) = free {
                used.insert(port);
                return Ok(port);
            }
        }
        Err(FULL)
    }

    /// Gives ports back.
    pub(super) fn give_back(&self, ports: &[i64]) {
        if let Some(used) = self.used.lock().as_mut() {
            for port in ports {
                used.remove(port);
            }
        }
    }
}

/// The ports that one write takes and gives back.
pub(super) struct Claim {
    ports: Arc<Ports>,
    taken: Vec<i64>,
    released: Vec<i64>,
}

impl Claim {
    pub(super) async fn new(ports: Arc<Ports>) -> ApiResult<Self> {
        ports.load().await?;
        Ok(Self { ports, taken: Vec::new(), released: Vec::new() })
    }

    fn take(&mut self, port: i64) -> Result<(), String> {
        self.ports.take(port)?;
        self.taken.push(port);
        Ok(())
    }

    fn take_free(&mut self, what: &str) -> ApiResult<i64> {
        let port = self.ports.take_free().map_err(|why| ApiError::internal(format!("{what}: {why}")))?;
        self.taken.push(port);
        Ok(port)
    }

    /// The ports of a new Service.
    pub(super) fn create(&mut self, spec: &mut Spec, name: &str) -> ApiResult<()> {
        if spec.has_node_ports() {
            self.fill(spec, name)?;
        }
        if spec.needs_health_port() {
            self.health_port(spec)?;
        }
        Ok(())
    }

    /// One number under two protocols shares its node port.
    fn fill(&mut self, spec: &mut Spec, name: &str) -> ApiResult<()> {
        let mut shared: Vec<(i64, i64)> = Vec::new();
        for at in 0..spec.ports.len() {
            let port = spec.ports[at].clone();
            if port.node_port == 0 && !spec.wants_node_ports() {
                continue;
            }
            let known = shared.iter().find(|(number, _)| *number == port.port).map(|(_, node)| *node);
            let chosen = match (known, port.node_port) {
                (Some(known), 0) => known,
                (Some(known), asked) if asked == known => known,
                (Some(_), asked) => {
                    self.take(asked).map_err(|why| refused(name, at, asked, why))?;
                    asked
                }
                (None, _) => {
                    let asked = spec.ports.iter().find(|p| p.port == port.port && p.node_port != 0);
                    let chosen = match asked.map(|p| p.node_port) {
                        Some(asked) => {
                            self.take(asked).map_err(|why| refused(name, at, asked, why))?;
                            asked
                        }
                        None => self.take_free("failed to allocate a nodePort")?,
                    };
                    shared.push((port.port, chosen));
                    chosen
                }
            };
            spec.ports[at].node_port = chosen;
        }
        Ok(())
    }

    /// The ports of a changed Service.
    pub(super) fn update(&mut self, spec: &mut Spec, old: &Spec, name: &str) -> ApiResult<()> {
        let had = old.node_ports();
        if old.has_node_ports() && !spec.has_node_ports() {
            self.released.extend(&had);
        }
        if spec.has_node_ports() {
            let mut taken: Vec<i64> = Vec::new();
            for at in 0..spec.ports.len() {
                let asked = spec.ports[at].node_port;
                if asked == 0 && spec.wants_node_ports() {
                    spec.ports[at].node_port = self.take_free("failed to allocate a nodePort")?;
                } else if asked != 0 && !had.contains(&asked) && !taken.contains(&asked) {
                    self.take(asked).map_err(|why| refused(name, at, asked, why))?;
                    taken.push(asked);
                }
            }
            let now = spec.node_ports();
            self.released.extend(had.iter().filter(|port| !now.contains(port)));
        }
        match (old.needs_health_port(), spec.needs_health_port()) {
            (false, true) => self.health_port(spec)?,
            (true, false) => self.released.push(old.health_port),
            _ => {}
        }
        Ok(())
    }

    fn health_port(&mut self, spec: &mut Spec) -> ApiResult<()> {
        if spec.health_port == 0 {
            spec.health_port = self.take_free("failed to allocate a HealthCheck NodePort 0")?;
            return Ok(());
        }
        let port = spec.health_port;
        self.take(port).map_err(|why| {
            ApiError::internal(format!("failed to allocate requested HealthCheck NodePort {port}: {why}"))
        })
    }

    pub(super) fn commit(&self) {
        self.ports.give_back(&self.released);
    }

    pub(super) fn rollback(&self) {
        self.ports.give_back(&self.taken);
    }
}

fn refused(name: &str, at: usize, port: i64, why: String) -> ApiError {
    let field = FieldPath::new("spec").child("ports").index(at).child("nodePort");
    let errors: FieldErrors = vec![FieldError::invalid(&field, port, why)];
    ApiError::invalid(&GroupVersionKind::new("", "v1", "Service"), name, &errors)
}
