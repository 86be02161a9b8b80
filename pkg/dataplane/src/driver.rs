//! The mode's driver behind one face.

use copepod_netcalc::{Change, PortRules, Protocol, ServiceName};
use std::collections::BTreeMap;

use crate::conntrack::{self, FlowTable};
use crate::iptables::{IptablesDriver, IptablesError};
use crate::nft::NftError;
use crate::nftables::NftablesDriver;
use crate::settings::Settings;

/// How Services are put into the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Native nftables, the default.
    #[default]
    Nftables,
    /// iptables, through its nftables back end.
    Iptables,
}

impl Mode {
    /// The name as kube-proxy spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nftables => "nftables",
            Self::Iptables => "iptables",
        }
    }
}

impl std::str::FromStr for Mode {
    type Err = DataplaneError;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        match name {
            "" | "nftables" => Ok(Self::Nftables),
            "iptables" => Ok(Self::Iptables),
            other => Err(DataplaneError::UnknownMode(other.to_owned())),
        }
    }
}

/// The kernel could not be made to follow.
#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    /// nftables or conntrack refused.
    #[error("program nftables")]
    Nft(#[from] NftError),
    /// iptables refused.
    #[error("program iptables")]
    Iptables(#[from] IptablesError),
    /// No such mode.
    #[error("unknown proxy mode {0:?}, valid modes are nftables and iptables")]
    UnknownMode(String),
}

#[derive(Debug)]
enum Backend {
    Nftables(Box<NftablesDriver>),
    Iptables(Box<IptablesDriver>),
}

/// A driver, with the clean-up of stale flows that both modes need.
#[derive(Debug)]
pub struct Driver {
    backend: Backend,
    /// UDP ports, for stale flows.
    udp: BTreeMap<ServiceName, Vec<PortRules>>,
}

impl Driver {
    /// Opens the driver of `mode` and removes what the other mode left.
    ///
    /// # Errors
    /// When the kernel or a needed program is not available.
    pub async fn open(mode: Mode, settings: Settings) -> Result<Self, DataplaneError> {
        let backend = match mode {
            Mode::Nftables => {
                crate::iptables::cleanup().await?;
                Backend::Nftables(Box::new(NftablesDriver::open(settings)?))
            }
            Mode::Iptables => {
                NftablesDriver::cleanup().await?;
                Backend::Iptables(Box::new(IptablesDriver::open(settings)?))
            }
        };
        Ok(Self { backend, udp: BTreeMap::new() })
    }

    /// Makes the kernel follow `changes`; the first call writes everything, even without changes.
    ///
    /// # Errors
    /// The kernel's refusal; what was not applied is applied by the next call.
    pub async fn apply(&mut self, changes: &[Change]) -> Result<(), DataplaneError> {
        match &mut self.backend {
            Backend::Nftables(driver) => driver.apply(changes).await?,
            Backend::Iptables(driver) => driver.apply(changes).await?,
        }
        if self.note_udp(changes) {
            let table = FlowTable::of(self.udp.values().flatten());
            let deleted = conntrack::clean(&table).await?;
            tracing::debug!(deleted, "stale UDP flows");
        }
        Ok(())
    }

    /// Remembers UDP ports; whether any of them changed.
    fn note_udp(&mut self, changes: &[Change]) -> bool {
        let mut changed = false;
        for change in changes {
            let ports: Vec<_> =
                change.ports.iter().filter(|p| p.name.protocol == Protocol::Udp).cloned().collect();
            let before = if ports.is_empty() {
                self.udp.remove(&change.service)
            } else {
                self.udp.insert(change.service.clone(), ports.clone())
            };
            changed |= !ports.is_empty() && before.as_ref() != Some(&ports);
        }
        changed
    }

    /// Writes everything anew.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub async fn resync(&mut self) -> Result<(), DataplaneError> {
        match &mut self.backend {
            Backend::Nftables(driver) => driver.resync().await?,
            Backend::Iptables(driver) => driver.resync().await?,
        }
        Ok(())
    }

    /// Waits until somebody else has taken rules away; [`Self::resync`] puts them back.
    pub async fn drifted(&mut self) {
        match &mut self.backend {
            Backend::Nftables(driver) => driver.drifted().await,
            Backend::Iptables(driver) => driver.drifted().await,
        }
    }

    /// Removes every rule of both modes.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub async fn cleanup() -> Result<(), DataplaneError> {
        NftablesDriver::cleanup().await?;
        crate::iptables::cleanup().await?;
        Ok(())
    }
}
