//! Verdicts of one run, or collected over many.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::path::Path;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{folder, junit};

/// The file in each run's folder, and the one above them all.
pub(super) const FILE: &str = "results.json";

/// How a spec ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Passed,
    Failed,
    /// It found that the cluster is not one it can test.
    Skipped,
}

/// What is known of one spec.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    pub(super) verdict: Verdict,
    pub(super) seconds: f64,
    /// One line; empty where it passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) cause: String,
    /// The run that said so.
    pub(super) run: String,
}

/// Outcomes by spec.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Results {
    pub(super) specs: BTreeMap<String, Outcome>,
    /// The most memory that the API server's process was seen to hold, in KiB.
    #[serde(default)]
    pub(super) apiserver_peak_kib: Option<u64>,
}

impl Results {
    /// Reads a results file, a JUnit file, or the folder of a run.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        if path.is_dir() {
            return Self::read(&path.join(FILE));
        }
        if path.extension().is_some_and(|extension| extension == "xml") {
            let specs = junit::read(path, "")?.outcomes.into_iter().collect();
            return Ok(Self { specs, apiserver_peak_kib: None });
        }
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }

    /// What certain runs found.
    pub(super) fn of(runs: &[impl AsRef<Path>]) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for run in runs {
            all.add(&Self::read(run.as_ref())?);
        }
        Ok(all)
    }

    /// What all runs of this checkout have found so far.
    pub(super) fn collected() -> anyhow::Result<Self> {
        Self::collected_in(&folder().join(FILE))
    }

    /// What has been collected in a file, which need not be there yet.
    pub(super) fn collected_in(path: &Path) -> anyhow::Result<Self> {
        if path.exists() { Self::read(path) } else { Ok(Self::default()) }
    }

    /// Writes them into the folder of a run.
    pub(super) fn write(&self, run: &Path) -> anyhow::Result<()> {
        let path = run.join(FILE);
        fs::write(&path, serde_json::to_vec_pretty(self)?).with_context(|| path.display().to_string())
    }

    /// Adds them to what is collected.
    pub(super) fn collect(&self) -> anyhow::Result<Self> {
        self.collect_in(&folder().join(FILE))
    }

    /// Adds them to what is collected in a file. Runs at the same time wait for each other.
    pub(super) fn collect_in(&self, path: &Path) -> anyhow::Result<Self> {
        let mut options = File::options();
        let mut file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        file.lock().with_context(|| path.display().to_string())?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        let mut all = if text.is_empty() { Self::default() } else { serde_json::from_str(&text)? };
        all.add(self);
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(&serde_json::to_vec_pretty(&all)?).with_context(|| path.display().to_string())?;
        Ok(all)
    }

    /// The newer verdict on a spec replaces the older.
    fn add(&mut self, newer: &Self) {
        self.specs.extend(newer.specs.clone());
        self.apiserver_peak_kib = self.apiserver_peak_kib.max(newer.apiserver_peak_kib);
    }

    /// How many specs ended as `verdict`.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.specs.values().filter(|outcome| outcome.verdict == verdict).count()
    }
}

#[cfg(test)]
pub(super) fn outcome(verdict: Verdict, seconds: f64, cause: &str) -> Outcome {
    Outcome { verdict, seconds, cause: cause.to_string(), run: "r".to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newer_verdict_counts() {
        let one = |verdict| Results {
            specs: BTreeMap::from([("s".to_string(), outcome(verdict, 1.0, ""))]),
            apiserver_peak_kib: Some(5),
        };
        let mut all = one(Verdict::Failed);
        all.add(&Results { apiserver_peak_kib: Some(3), ..one(Verdict::Passed) });
        assert_eq!((all.count(Verdict::Passed), all.count(Verdict::Failed)), (1, 0));
        assert_eq!(all.apiserver_peak_kib, Some(5));
    }

    #[test]
    fn what_is_written_is_read_back() {
        let dir = std::env::temp_dir().join(format!("copepod-results-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let specs = BTreeMap::from([("s".to_string(), outcome(Verdict::Skipped, 0.5, "why"))]);
        let results = Results { specs, apiserver_peak_kib: None };
        results.write(&dir).unwrap();
        let read = Results::read(&dir).unwrap();
        fs::remove_dir_all(&dir).unwrap();
        assert_eq!(read, results);
    }
}
