//! The book of attachments: pools in memory, every change on disk before it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use super::pool::Pool;
use crate::config::PortMapping;
use crate::error::{CniError, code};
use crate::store::{Area, NodeStore, StoreError};
use crate::wire::{Attach, Reply};

/// What an attachment holds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Record {
    pub(crate) addresses: Vec<IpAddr>,
    /// Whether the addresses come from our pools (not so for ports published behind another plugin).
    pub(crate) owned: bool,
    pub(crate) network: String,
    pub(crate) container_id: String,
    pub(crate) ifname: String,
    pub(crate) host_interface: String,
    pub(crate) pod: Option<(String, String)>,
    pub(crate) ports: Vec<PortMapping>,
    /// Orders attachments with the same host side: the highest is the newest.
    pub(crate) sequence: u64,
}

/// The book cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum IpamError {
    /// The store failed.
    #[error("keep the address book")]
    Store(#[from] StoreError),
    /// The socket failed.
    #[error("listen on {path}")]
    Listen {
        /// The socket's path.
        path: std::path::PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The kernel table failed.
    #[error("program the pod network's table")]
    Table(#[from] copepod_dataplane::nft::NftError),
}

/// All attachments of this node.
#[derive(Debug)]
pub(crate) struct Book {
    attachments: Area,
    idle: Area,
    pools: Vec<Pool>,
    records: BTreeMap<String, Record>,
    sequence: u64,
}

impl Book {
    /// Reads the book; `ranges` has one range per family.
    pub(crate) fn open(store: &NodeStore, ranges: &[IpNet]) -> Result<Self, StoreError> {
        let attachments = store.area("ipam.attachments")?;
        let idle = store.area("ipam.idle")?;
        let mut records = BTreeMap::new();
        for (key, value) in attachments.load()? {
            match (String::from_utf8(key), serde_json::from_slice::<Record>(&value)) {
                (Ok(handle), Ok(record)) => drop(records.insert(handle, record)),
                (handle, _) => tracing::error!(?handle, "unreadable address record, dropped"),
            }
        }
        let mut released = BTreeMap::new();
        for (key, value) in idle.load()? {
            let address = String::from_utf8(key).ok().and_then(|text| text.parse::<IpAddr>().ok());
            let at = value.try_into().ok().map(u64::from_be_bytes);
            if let (Some(address), Some(at)) = (address, at) {
                released.insert(address, at);
            }
        }
        let used: BTreeSet<IpAddr> =
            records.values().filter(|r| r.owned).flat_map(|r| r.addresses.iter().copied()).collect();
        let sequence =
            records.values().map(|r| r.sequence).chain(released.values().copied()).max().unwrap_or(0);
        let pools = ranges.iter().map(|range| Pool::restore(*range, &used, &released)).collect();
        Ok(Self { attachments, idle, pools, records, sequence })
    }

    /// All records, for rendering.
    pub(crate) fn records(&self) -> &BTreeMap<String, Record> {
        &self.records
    }

    /// Gives `attach` one address per family, or the ones it has.
    pub(crate) fn add(&mut self, attach: Attach) -> Result<Reply, CniError> {
        if let Some(record) = self.records.get(&attach.handle) {
            return Ok(Reply { addresses: record.addresses.clone(), ..Reply::default() });
        }
        let mut addresses = Vec::new();
        for index in 0..self.pools.len() {
            // All families or none.
            let Some(address) = self.pools[index].take() else {
                let range = self.pools[index].range();
                self.give_back(&addresses);
                let family = if range.network().is_ipv4() { "IPv4" } else { "IPv6" };
                let details = format!(
                    "failed to request 1 {family} addresses. IPAM allocated only 0: {range} is exhausted"
                );
                return Err(CniError::new(code::POOL_EXHAUSTED, "no address is free", details));
            };
            addresses.push(address);
        }
        let reply = Reply { addresses: addresses.clone(), ..Reply::default() };
        if let Err(error) = self.insert(attach, addresses.clone(), true) {
            self.give_back(&addresses);
            return Err(error);
        }
        Ok(reply)
    }

    /// Publishes ports for addresses that are not ours.
    pub(crate) fn publish(&mut self, attach: Attach, addresses: Vec<IpAddr>) -> Result<Reply, CniError> {
        self.insert(attach, addresses, false).map(|()| Reply::default())
    }

    fn insert(&mut self, attach: Attach, addresses: Vec<IpAddr>, owned: bool) -> Result<(), CniError> {
        self.sequence += 1;
        let record = Record {
            addresses,
            owned,
            network: attach.network,
            container_id: attach.container_id,
            ifname: attach.ifname,
            host_interface: attach.host_interface,
            pod: attach.pod,
            ports: attach.ports,
            sequence: self.sequence,
        };
        let value = serde_json::to_vec(&record).map_err(|e| encode_failed(&e))?;
        self.attachments
            .write(&[(attach.handle.clone().into_bytes(), Some(value))])
            .map_err(|e| store_failed(&e))?;
        self.records.insert(attach.handle, record);
        Ok(())
    }

    fn give_back(&mut self, addresses: &[IpAddr]) {
        for pool in &mut self.pools {
            for address in addresses {
                pool.release(*address);
            }
        }
    }

    /// Takes back all that `handle` holds; knowing nothing of it is success.
    pub(crate) fn del(&mut self, handle: &str, host_interface: &str) -> Result<Reply, CniError> {
        let superseded = self.is_superseded(handle, host_interface);
        if let Some(record) = self.records.get(handle).cloned() {
            self.sequence += 1;
            if record.owned {
                let stamp = self.sequence.to_be_bytes().to_vec();
                let freed: Vec<_> = record
                    .addresses
                    .iter()
                    .map(|ip| (ip.to_string().into_bytes(), Some(stamp.clone())))
                    .collect();
                self.idle.write(&freed).map_err(|e| store_failed(&e))?;
            }
            self.attachments.write(&[(handle.as_bytes().to_vec(), None)]).map_err(|e| store_failed(&e))?;
            self.records.remove(handle);
            if record.owned {
                self.give_back(&record.addresses);
            }
        }
        Ok(Reply { superseded, ..Reply::default() })
    }

    /// Whether the host side now belongs to another attachment than `handle`.
    fn is_superseded(&self, handle: &str, host_interface: &str) -> bool {
        let newest = self
            .records
            .iter()
            .filter(|(_, record)| record.owned && record.host_interface == host_interface)
            .max_by_key(|(_, record)| record.sequence);
        newest.is_some_and(|(owner, _)| owner != handle)
    }

    /// What `handle` holds.
    pub(crate) fn check(&self, handle: &str) -> Result<Reply, CniError> {
        let record = self.records.get(handle).ok_or_else(|| {
            CniError::new(
                code::CHECK_FAILED,
                "the attachment is unknown",
                format!("no addresses for {handle}"),
            )
        })?;
        Ok(Reply { addresses: record.addresses.clone(), ..Reply::default() })
    }

    /// The handles of `network` that `valid` does not list.
    pub(crate) fn stale(&self, network: &str, valid: &[(String, String)]) -> Vec<String> {
        let valid: BTreeSet<(&str, &str)> =
            valid.iter().map(|(id, ifname)| (id.as_str(), ifname.as_str())).collect();
        self.records
            .iter()
            .filter(|(_, r)| {
                r.network == network && !valid.contains(&(r.container_id.as_str(), r.ifname.as_str()))
            })
            .map(|(handle, _)| handle.clone())
            .collect()
    }

    /// Whether every family has a free address.
    pub(crate) fn status(&self) -> Result<Reply, CniError> {
        match self.pools.iter().find(|pool| !pool.has_room()) {
            None => Ok(Reply::default()),
            Some(pool) => {
                let details = format!("{} is exhausted", pool.range());
                Err(CniError::new(code::NOT_AVAILABLE, "no address is free", details))
            }
        }
    }
}

fn store_failed(error: &StoreError) -> CniError {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    CniError::new(code::TRY_AGAIN, error.to_string(), cause)
}

fn encode_failed(error: &serde_json::Error) -> CniError {
    CniError::new(code::IO, "cannot encode the address record", error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attach(id: &str) -> Attach {
        Attach {
            handle: crate::handle("net", id, "eth0"),
            network: "net".into(),
            container_id: id.into(),
            ifname: "eth0".into(),
            host_interface: "cali1".into(),
            ..Attach::default()
        }
    }

    #[test]
    fn addresses_survive_a_restart_and_garbage_collection_frees_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let ranges = ["10.9.0.0/24".parse().unwrap()];
        let first = {
            let mut book = Book::open(&NodeStore::open(&dir.path().join("n")).unwrap(), &ranges).unwrap();
            let first = book.add(attach("one")).unwrap();
            assert_eq!(book.add(attach("one")).unwrap(), first, "a repeated ADD gets the same address");
            book.add(attach("two")).unwrap();
            first
        };
        let mut book = Book::open(&NodeStore::open(&dir.path().join("n")).unwrap(), &ranges).unwrap();
        assert_eq!(book.check("net.one.eth0").unwrap().addresses, first.addresses);
        let stale = book.stale("net", &[("one".into(), "eth0".into())]);
        assert_eq!(stale, ["net.two.eth0"]);
        book.del(&stale[0], "").unwrap();
        let third = book.add(attach("three")).unwrap();
        assert_ne!(third.addresses, first.addresses);
    }

    #[test]
    fn a_late_del_does_not_own_the_new_host_side() {
        let dir = tempfile::tempdir().unwrap();
        let mut book =
            Book::open(&NodeStore::open(&dir.path().join("n")).unwrap(), &["10.9.0.0/24".parse().unwrap()])
                .unwrap();
        book.add(attach("old")).unwrap();
        book.add(attach("new")).unwrap();
        assert!(book.del("net.old.eth0", "cali1").unwrap().superseded);
        assert!(!book.del("net.new.eth0", "cali1").unwrap().superseded);
        assert!(!book.del("net.new.eth0", "cali1").unwrap().superseded, "repeated DEL succeeds");
    }
}
