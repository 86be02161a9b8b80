//! Runs `iptables-restore`, and notices when rules disappear.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Stdio;

use copepod_netcalc::{Change, Family, PortName, PortRules, ServiceName};
use tokio::io::AsyncWriteExt;

use super::render::{MANY_ENDPOINTS, Rendered, assemble, render};
use super::save::{CANARY, FIREWALL_OUTPUT, JUMPS, Saved, is_of_port};
use crate::nft::{NftError, TableWatch};
use crate::settings::Settings;

/// The nftables back end by name; `iptables` itself may be the legacy one.
const RESTORE: [&str; 2] = ["iptables-nft-restore", "iptables-restore"];
const SAVE: [&str; 2] = ["iptables-nft-save", "iptables-save"];
const TABLES: [&str; 3] = ["nat", "filter", "mangle"];

/// iptables refused.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// None of the programs is there.
    #[error("none of {0} is installed")]
    Missing(String),
    /// A program failed.
    #[error("{program} failed: {stderr}")]
    Failed {
        /// Which.
        program: String,
        /// What it said.
        stderr: String,
    },
    /// A program could not be run.
    #[error("run {program}")]
    Run {
        /// Which.
        program: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Events could not be watched.
    #[error("watch for changes")]
    Watch(#[source] NftError),
    /// A kernel setting could not be made.
    #[error("set net.ipv4.conf.all.route_localnet")]
    Sysctl(#[source] std::io::Error),
}

#[derive(Debug)]
struct Programmed {
    rules: PortRules,
    rendered: Rendered,
}

/// The driver. See the module's documentation.
#[derive(Debug)]
pub struct IptablesDriver {
    settings: Settings,
    watch: TableWatch,
    ports: BTreeMap<PortName, Programmed>,
    services: HashMap<ServiceName, BTreeSet<PortName>>,
    endpoints: usize,
    stale: bool,
    /// Rules our chains hold in `nat`, as last written.
    nat_rules: usize,
    filter_rules: usize,
}

impl IptablesDriver {
    /// Opens the driver; nothing is written before the first [`Self::apply`].
    ///
    /// # Errors
    /// When events cannot be watched.
    pub fn open(settings: Settings) -> Result<Self, IptablesError> {
        Ok(Self {
            settings,
            watch: TableWatch::open(&TABLES, None).map_err(IptablesError::Watch)?,
            ports: BTreeMap::new(),
            services: HashMap::new(),
            endpoints: 0,
            stale: true,
            nat_rules: 0,
            filter_rules: 0,
        })
    }

    /// Makes the kernel follow `changes`.
    ///
    /// # Errors
    /// What iptables said; the next call writes everything.
    pub async fn apply(&mut self, changes: &[Change]) -> Result<(), IptablesError> {
        let many = self.has_many();
        let mut old_chains = BTreeSet::new();
        let mut changed = BTreeSet::new();
        for change in changes {
            self.take_service(change, &mut old_chains, &mut changed);
        }
        if self.stale || many != self.has_many() {
            return self.resync().await;
        }
        if changed.is_empty() && old_chains.is_empty() {
            return Ok(());
        }
        let alive: BTreeSet<&String> = changed.iter().flat_map(|p| self.chains_of(p)).collect();
        let gone: Vec<String> = old_chains.iter().filter(|c| !alive.contains(c)).cloned().collect();
        let all: Vec<&Rendered> = self.ports.values().map(|p| &p.rendered).collect();
        let bodies = changed.iter().filter_map(|p| self.ports.get(p)).flat_map(|p| p.rendered.chains.iter());
        let input = assemble(&all, bodies, &gone, &self.settings);
        self.write(input).await
    }

    fn has_many(&self) -> bool {
        self.endpoints > MANY_ENDPOINTS
    }

    fn chains_of(&self, port: &PortName) -> impl Iterator<Item = &String> {
        self.ports.get(port).into_iter().flat_map(|p| p.rendered.chains.keys())
    }

    fn take_service(
        &mut self,
        change: &Change,
        old_chains: &mut BTreeSet<String>,
        changed: &mut BTreeSet<PortName>,
    ) {
        let before = self.services.remove(&change.service).unwrap_or_default();
        let wanted: BTreeMap<PortName, &PortRules> =
            change.ports.iter().filter(|p| p.family == Family::V4).map(|p| (p.name.clone(), p)).collect();
        for gone in before.iter().filter(|p| !wanted.contains_key(*p)) {
            if let Some(old) = self.ports.remove(gone) {
                self.endpoints -= old.rules.cluster.len() + old.rules.local.len();
                old_chains.extend(old.rendered.chains.into_keys());
            }
        }
        let comments = !self.has_many();
        for (name, rules) in &wanted {
            if self.ports.get(name).is_some_and(|p| p.rules == **rules) {
                continue;
            }
            let rendered = render(rules, &self.settings, comments);
            self.endpoints += rules.cluster.len() + rules.local.len();
            let programmed = Programmed { rules: (*rules).clone(), rendered };
            if let Some(old) = self.ports.insert(name.clone(), programmed) {
                self.endpoints -= old.rules.cluster.len() + old.rules.local.len();
                old_chains.extend(old.rendered.chains.into_keys());
            }
            changed.insert(name.clone());
        }
        if !wanted.is_empty() {
            self.services.insert(change.service.clone(), wanted.into_keys().collect());
        }
    }

    /// Writes everything anew and removes what no port needs.
    ///
    /// # Errors
    /// What iptables said.
    pub async fn resync(&mut self) -> Result<(), IptablesError> {
        self.stale = true;
        let comments = !self.has_many();
        for port in self.ports.values_mut() {
            port.rendered = render(&port.rules, &self.settings, comments);
        }
        let saved = Saved::parse(&run(&SAVE, &[], "").await?);
        self.ensure_jumps(&saved).await?;
        let alive: BTreeSet<&String> = self.ports.values().flat_map(|p| p.rendered.chains.keys()).collect();
        let gone: Vec<String> = saved
            .chains
            .iter()
            .filter(|(table, chain)| table == "nat" && is_of_port(chain) && !alive.contains(chain))
            .map(|(_, chain)| chain.clone())
            .collect();
        let all: Vec<&Rendered> = self.ports.values().map(|p| &p.rendered).collect();
        let input = assemble(&all, all.iter().flat_map(|r| r.chains.iter()), &gone, &self.settings);
        self.write(input).await
    }

    /// Canaries, our fixed chains and the jumps to them.
    async fn ensure_jumps(&self, saved: &Saved) -> Result<(), IptablesError> {
        if self.settings.localhost_node_ports {
            std::fs::write("/proc/sys/net/ipv4/conf/all/route_localnet", "1")
                .map_err(IptablesError::Sysctl)?;
        }
        let mut jumps = JUMPS.to_vec();
        jumps.push(FIREWALL_OUTPUT);
        let mut input = format!("*mangle\n:{CANARY} - [0:0]\nCOMMIT\n");
        for table in ["nat", "filter"] {
            input.push_str(&format!("*{table}\n:{CANARY} - [0:0]\n"));
            let of_table = jumps.iter().filter(|(t, _, rule)| {
                *t == table && (self.settings.localhost_node_ports || !rule.ends_with("KUBE-FIREWALL"))
            });
            let missing: Vec<_> = of_table.filter(|jump| !saved.has_jump(**jump)).collect();
            let targets: BTreeSet<&str> =
                missing.iter().filter_map(|(_, _, rule)| rule.rsplit(' ').next()).collect();
            for target in targets.iter().filter(|t| !saved.chains.contains(&(table.into(), (**t).into()))) {
                input.push_str(&format!(":{target} - [0:0]\n"));
            }
            for (_, chain, rule) in missing {
                input.push_str(&format!("-I {chain} {rule}\n"));
            }
            input.push_str("COMMIT\n");
        }
        run(&RESTORE, &["-w", "5", "--noflush"], &input).await.map(drop)
    }

    async fn write(&mut self, input: String) -> Result<(), IptablesError> {
        self.stale = true;
        run(&RESTORE, &["-w", "5", "--noflush", "--counters"], &input).await?;
        self.stale = false;
        let fixed_nat = 4 + self.settings.node_port_ips.as_ref().map_or(1, Vec::len);
        let fixed_filter = 3 + usize::from(self.settings.localhost_node_ports);
        let count = |text: &str| text.lines().count();
        self.nat_rules = fixed_nat;
        self.filter_rules = fixed_filter;
        for port in self.ports.values().map(|p| &p.rendered) {
            self.nat_rules += count(&port.services) + count(&port.node_ports);
            self.nat_rules += port.chains.values().map(|lines| count(lines)).sum::<usize>();
            self.filter_rules += count(&port.filter);
        }
        // All events of our own restore are queued by now.
        self.watch.drain();
        Ok(())
    }

    /// Waits until rules of ours are missing.
    pub async fn drifted(&mut self) {
        loop {
            self.watch.changed().await;
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
            self.watch.drain();
            if !self.stale && !self.is_intact().await {
                return;
            }
        }
    }

    async fn is_intact(&self) -> bool {
        let Ok(text) = run(&SAVE, &[], "").await else { return false };
        let saved = Saved::parse(&text);
        let canaries = TABLES.iter().all(|table| saved.chains.contains(&((*table).into(), CANARY.into())));
        let rules = |table: &str| saved.rules.get(table).copied().unwrap_or_default();
        canaries
            && JUMPS.iter().take(JUMPS.len() - 1).all(|jump| saved.has_jump(*jump))
            && rules("nat") == self.nat_rules
            && rules("filter") == self.filter_rules
    }
}

/// Removes every chain of this mode; where iptables is not installed there is none.
///
/// # Errors
/// What iptables said.
pub async fn cleanup() -> Result<(), IptablesError> {
    let text = match run(&SAVE, &[], "").await {
        Ok(text) => text,
        Err(IptablesError::Missing(_)) => return Ok(()),
        Err(error) => return Err(error),
    };
    let removal = Saved::parse(&text).removal();
    if removal.is_empty() {
        return Ok(());
    }
    run(&RESTORE, &["-w", "5", "--noflush"], &removal).await.map(drop)
}

/// Runs the first of `programs` that exists with `input`, and returns what it printed.
async fn run(programs: &[&str], args: &[&str], input: &str) -> Result<String, IptablesError> {
    for program in programs {
        let failed = |source| IptablesError::Run { program: (*program).to_owned(), source };
        let spawned = copepod_sys::async_command(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn();
        let mut child = match spawned {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
            other => other.map_err(failed)?,
        };
        let mut stdin = child.stdin.take();
        let feed = async move {
            if let Some(mut stdin) = stdin.take() {
                stdin.write_all(input.as_bytes()).await?;
            }
            Ok::<(), std::io::Error>(())
        };
        let (fed, output) = tokio::join!(feed, child.wait_with_output());
        let output = output.map_err(failed)?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(IptablesError::Failed { program: (*program).to_owned(), stderr });
        }
        fed.map_err(failed)?;
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(IptablesError::Missing(programs.join(", ")))
}
