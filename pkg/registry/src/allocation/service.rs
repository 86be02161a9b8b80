//! Cluster IPs and node ports of Services.
//!
//! An address in use is an IPAddress object; a node port in use is known from the Services themselves, read once and
//! kept current by the writes of this server. The order is upstream's: what the client left out is taken over from
//! the old object, families are settled, then addresses, then ports.

use std::sync::{Arc, Weak};

use copepod_api::{ApiError, ApiResult, FieldErrors, GroupVersionKind, meta};
use futures::{FutureExt as _, future::BoxFuture};
use ipnet::IpNet;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::{Allocation, Transaction};
use crate::{
    registry::{Registry, RegistryConfig},
    request::RequestContext,
    store::Core,
};

mod addresses;
mod cidr;
mod families;
mod ports;
mod spec;

use addresses::{Addresses, Taken};
use ports::{Claim, Ports};
use spec::Spec;

/// Allocates for Services.
pub(crate) struct ServiceAllocation {
    addresses: Arc<Addresses>,
    ports: Arc<Ports>,
    families: Vec<&'static str>,
}

impl ServiceAllocation {
    pub(crate) fn new(core: Weak<Core>, config: &RegistryConfig) -> Self {
        let families = config.service_cidrs.iter().map(family).collect();
        let addresses = Arc::new(Addresses::new(core.clone(), config.service_cidrs.clone()));
        Self { addresses, ports: Arc::new(Ports::new(core, config.node_ports)), families }
    }

    async fn run(
        &self,
        cx: &RequestContext,
        old: Option<&Value>,
        new: &mut Value,
    ) -> ApiResult<Box<dyn Transaction>> {
        let old_spec = old.map(Spec::read);
        let mut spec = Spec::read(new);
        if let Some(old) = &old_spec {
            spec.keep_allocated(old);
        }
        spec.normalize_addresses(old_spec.as_ref());
        spec.write(new);
        let errors = crate::kinds::services_asked(new, old);
        if !errors.is_empty() {
            return Err(invalid(new, &errors));
        }
        families::settle(&mut spec, old_spec.as_ref(), &self.families)
            .map_err(|errors| invalid(new, &errors))?;
        let mut pending = Pending {
            addresses: Arc::clone(&self.addresses),
            taken: Vec::new(),
            released: Vec::new(),
            claim: Claim::new(Arc::clone(&self.ports)).await?,
            dry_run: cx.dry_run,
        };
        let done = self.fill(&mut pending, &mut spec, old_spec.as_ref(), new).await;
        if let Err(error) = done {
            Box::new(pending).rollback().await;
            return Err(error);
        }
        spec.write(new);
        Ok(Box::new(pending))
    }

    async fn fill(
        &self,
        pending: &mut Pending,
        spec: &mut Spec,
        old: Option<&Spec>,
        service: &Value,
    ) -> ApiResult<()> {
        let name = meta::name(service);
        for (at, wanted) in families::wanted(spec, old) {
            let taken = self.addresses.take(service, spec, at, wanted.as_deref(), pending.dry_run).await?;
            spec.set_address(at, &taken.address);
            pending.taken.push(taken);
        }
        pending.released = families::released(spec, old);
        match old {
            None => pending.claim.create(spec, name),
            Some(old) => pending.claim.update(spec, old, name),
        }
    }
}

impl Allocation for ServiceAllocation {
    fn begin<'a>(
        &'a self,
        cx: &'a RequestContext,
        old: Option<&'a Value>,
        new: &'a mut Value,
    ) -> BoxFuture<'a, ApiResult<Box<dyn Transaction>>> {
        self.run(cx, old, new).boxed()
    }

    fn release<'a>(&'a self, object: &'a Value) -> BoxFuture<'a, ()> {
        async move {
            let spec = Spec::read(object);
            for address in spec.addresses() {
                self.addresses.give_back(&address).await;
            }
            self.ports.give_back(&spec.all_node_ports());
        }
        .boxed()
    }
}

/// What one write has taken, and what it no longer needs.
struct Pending {
    addresses: Arc<Addresses>,
    taken: Vec<Taken>,
    released: Vec<String>,
    claim: Claim,
    dry_run: bool,
}

impl Transaction for Pending {
    fn commit(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move {
            self.claim.commit();
            for address in &self.released {
                self.addresses.give_back(address).await;
            }
        }
        .boxed()
    }

    fn rollback(self: Box<Self>) -> BoxFuture<'static, ()> {
        async move {
            self.claim.rollback();
            if !self.dry_run {
                for taken in &self.taken {
                    self.addresses.give_back(&taken.address).await;
                }
            }
        }
        .boxed()
    }
}

/// The name of a range's family.
fn family(net: &IpNet) -> &'static str {
    match net {
        IpNet::V4(_) => "IPv4",
        IpNet::V6(_) => "IPv6",
    }
}

fn invalid(service: &Value, errors: &FieldErrors) -> ApiError {
    ApiError::invalid(&GroupVersionKind::new("", "v1", "Service"), meta::name(service), errors)
}

/// Keeps the default ServiceCIDR `kubernetes` in place, until `shutdown`.
pub(crate) fn start(registry: &Arc<Registry>, config: &RegistryConfig, shutdown: &CancellationToken) {
    let task = cidr::keep_default(Arc::downgrade(registry), config.service_cidrs.clone(), shutdown.clone());
    copepod_supervisor::spawn("service-cidr", task);
}

#[cfg(test)]
mod tests;
