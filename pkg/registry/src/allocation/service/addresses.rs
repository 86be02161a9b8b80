//! Cluster IPs: one IPAddress object for each in use, made and deleted here.

use std::{
    net::IpAddr,
    sync::{Arc, Weak},
};

use copepod_api::{ApiError, ApiResult, FieldError, FieldErrors, FieldPath, Reason, meta};
use ipnet::IpNet;
use rand::RngExt as _;
use serde_json::{Value, json};

use super::{family, invalid, spec::Spec};
use crate::{
    request::{DeleteOptions, RequestContext, Target},
    store::{Core, Store},
};

const FULL: &str = "range is full";
const MISMATCH: &str = "the provided network does not match the current range";
const ALLOCATED: &str = "provided IP is already allocated";
/// Addresses tried one after the other before a range counts as full for one request.
const TRIES: u128 = 1 << 16;

/// An address that has been taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) address: String,
}

/// The ranges and their objects.
pub(super) struct Addresses {
    core: Weak<Core>,
    configured: Vec<IpNet>,
}

impl Addresses {
    pub(super) fn new(core: Weak<Core>, configured: Vec<IpNet>) -> Self {
        Self { core, configured }
    }

    fn core(&self) -> ApiResult<Arc<Core>> {
        self.core.upgrade().ok_or_else(|| ApiError::internal("the registry is gone"))
    }

    /// Takes the address at a position of `clusterIPs`: the one asked for, or a free one.
    pub(super) async fn take(
        &self,
        service: &Value,
        spec: &Spec,
        at: usize,
        wanted: Option<&str>,
        dry_run: bool,
    ) -> ApiResult<Taken> {
        let wrong = |why: String| {
            let field = FieldPath::new("spec").child("clusterIPs");
            let errors: FieldErrors = vec![FieldError::invalid(&field, json!(spec.cluster_ips), why)];
            invalid(service, &errors)
        };
        let store = self.core()?.sibling("networking.k8s.io", "v1", "ipaddresses")?;
        let ranges = self.ranges().await?;
        if let Some(text) = wanted {
            let address: IpAddr = text
                .parse()
                .map_err(|_| ApiError::internal(format!("failed to parse service IP {text:?}")))?;
            let taken = self.take_one(&store, &ranges, service, address, dry_run).await;
            return match taken {
                Ok(taken) => Ok(taken),
                Err(why) => Err(wrong(format!("failed to allocate IP {text}: {why}"))),
            };
        }
        let wanted_family = spec.families.get(at).map(String::as_str).unwrap_or_default();
        for range in ranges.iter().filter(|range| family(range) == wanted_family) {
            if let Some(taken) = take_free(&store, range, service, dry_run)
                .await
                .map_err(|error| wrong(format!("failed to allocate IP: {error}")))?
            {
                return Ok(taken);
            }
        }
        Err(ApiError::internal(format!(
            "failed to allocate a serviceIP for Service {:?}: {FULL}",
            meta::name(service)
        )))
    }

    async fn take_one(
        &self,
        store: &Store,
        ranges: &[IpNet],
        service: &Value,
        address: IpAddr,
        dry_run: bool,
    ) -> Result<Taken, String> {
        let range = ranges.iter().find(|range| range.contains(&address)).ok_or(MISMATCH)?;
        let place = Range::of(range);
        if !place.has(number(address)) {
            return Err(format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
            ));
        }
        if dry_run {
            return Ok(Taken { address: address.to_string() });
        }
        match create(store, address, service).await {
            Ok(()) => Ok(Taken { address: address.to_string() }),
            Err(error) if error.is(Reason::AlreadyExists) => Err(ALLOCATED.to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    /// The ranges of the ServiceCIDR objects that are not going, or those of the configuration before there are any.
    async fn ranges(&self) -> ApiResult<Vec<IpNet>> {
        let core = self.core()?;
        let store = core.sibling("networking.k8s.io", "v1", "servicecidrs")?;
        core.cache.fresh().await.map_err(|error| crate::error::from_store(&error))?;
        let prefix = store.row.def.key_prefix(None);
        let mut ranges = self.configured.clone();
        for entry in core.cache.bucket(&prefix).entries(&prefix) {
            let object = store.row.load(&entry)?;
            if meta::deletion_timestamp(&object).is_some() {
                continue;
            }
            let cidrs = object.pointer("/spec/cidrs").and_then(Value::as_array).into_iter().flatten();
            for net in cidrs.filter_map(Value::as_str).filter_map(|text| text.parse::<IpNet>().ok()) {
                if !ranges.contains(&net) {
                    ranges.push(net);
                }
            }
        }
        Ok(ranges)
    }

    /// Gives an address back; one that is not taken is left alone.
    pub(super) async fn give_back(&self, address: &str) {
        let Ok(core) = self.core() else { return };
        let Ok(store) = core.sibling("networking.k8s.io", "v1", "ipaddresses") else { return };
        let target = Target::new(None, address);
        let gone = store.delete(&RequestContext::internal(), &target, &DeleteOptions::default()).await;
        if let Err(error) = gone.map(|_| ()).or_else(|e| if e.is(Reason::NotFound) { Ok(()) } else { Err(e) })
        {
            tracing::warn!(address, %error, "cluster IP was not released");
        }
    }
}

/// A free address of the range: from the upper, dynamic part first, starting at a random place.
async fn take_free(store: &Store, net: &IpNet, service: &Value, dry_run: bool) -> ApiResult<Option<Taken>> {
    let range = Range::of(net);
    if dry_run {
        // The first address of the range stands for the one that a real request will get.
        return Ok(Some(Taken { address: net.network().to_string() }));
    }
    for (low, high) in
        [(range.first + range.offset, range.last), (range.first, range.first + range.offset - 1)]
    {
        if high < low || (range.offset == 0 && low == range.first && high != range.last) {
            continue;
        }
        let size = high - low + 1;
        let start = rand::rng().random_range(0..size);
        for step in 0..size.min(TRIES) {
            let address = address(net, low + (start + step) % size);
            if store.core.cache.get(&store.key(None, &address.to_string())).is_some() {
                continue;
            }
            match create(store, address, service).await {
                Ok(()) => return Ok(Some(Taken { address: address.to_string() })),
                Err(error) if error.is(Reason::AlreadyExists) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(None)
}

async fn create(store: &Store, address: IpAddr, service: &Value) -> ApiResult<()> {
    let object = json!({
        "kind": "IPAddress",
        "apiVersion": "networking.k8s.io/v1",
        "metadata": {
            "name": address.to_string(),
            "labels": {
                "ipaddress.kubernetes.io/ip-family": if address.is_ipv4() { "IPv4" } else { "IPv6" },
                "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io",
            },
        },
        "spec": {"parentRef": {
            "resource": "services", "namespace": meta::namespace(service), "name": meta::name(service),
        }},
    });
    let cx = RequestContext::internal();
    Box::pin(store.create_value(&cx, &Target::default(), object)).await.map(|_| ())
}

/// The usable addresses of a range, as numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) first: u128,
    pub(super) last: u128,
    /// Addresses below `first + offset` are for requests by address, and used for others last.
    pub(super) offset: u128,
}

impl Range {
    pub(super) fn of(net: &IpNet) -> Self {
        let (low, high) = (number(net.network()), number(net.broadcast()));
        let last = if matches!(net, IpNet::V4(_)) { high.saturating_sub(1) } else { high };
        let size = high - low + 1;
        let offset = if size <= 16 { 0 } else { (size / 16).clamp(16, 256) };
        Self { first: low + 1, last, offset }
    }

    fn has(self, address: u128) -> bool {
        (self.first..=self.last).contains(&address)
    }
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address(net: &IpNet, number: u128) -> IpAddr {
    match net {
        IpNet::V4(_) => IpAddr::V4(u32::try_from(number).unwrap_or(0).into()),
        IpNet::V6(_) => IpAddr::V6(number.into()),
    }
}
