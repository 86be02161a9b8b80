//! The figures, as data and as a table.

use std::fmt::Write;
use std::time::Duration;

use serde::Serialize;

/// One figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    /// The design's aim, where it has one: the figure should not be above it, or not below it for a rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    aim: Option<f64>,
}

/// All figures of one run, in the order in which they were measured.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Report {
    figures: Vec<Figure>,
}

impl Report {
    /// Notes a figure without an aim.
    pub(crate) fn add(&mut self, name: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(Figure { name: name.into(), value, unit, aim: None });
    }

    /// Notes a figure and its aim.
    pub(crate) fn add_with_aim(&mut self, name: impl Into<String>, value: f64, unit: &'static str, aim: f64) {
        self.figures.push(Figure { name: name.into(), value, unit, aim: Some(aim) });
    }

    /// Notes the median and the 99th percentile of `times`, each with its aim in milliseconds where there is one.
    pub(crate) fn add_times(&mut self, name: &str, times: &mut [Duration], aims: [Option<f64>; 2]) {
        times.sort_unstable();
        for ((label, percent), aim) in [("p50", 50), ("p99", 99)].into_iter().zip(aims) {
            let value = percentile(times, percent).as_secs_f64() * 1000.0;
            self.figures.push(Figure { name: format!("{name} {label}"), value, unit: "ms", aim });
        }
    }

    /// Everything as one JSON document.
    pub(crate) fn json(&self) -> serde_json::Result<String> {
        serde_json::to_string_pretty(self)
    }

    /// Everything as lines of text.
    pub(crate) fn table(&self) -> String {
        let width = self.figures.iter().map(|f| f.name.len()).max().unwrap_or(0);
        let mut table = String::new();
        for figure in &self.figures {
            let verdict = figure.verdict();
            writeln!(table, "{:width$}  {:>10.2} {:<6} {verdict}", figure.name, figure.value, figure.unit)
                .expect("writing to a string cannot fail");
        }
        table
    }
}

impl Figure {
    fn verdict(&self) -> String {
        let Some(aim) = self.aim else { return String::new() };
        let rate = self.unit == "1/s";
        let met = if rate { self.value >= aim } else { self.value <= aim };
        format!("aim {} {aim}{}", if rate { "≥" } else { "≤" }, if met { ", met" } else { ", NOT met" })
    }
}

/// The smallest value that `percent` of the sorted `times` do not exceed; nothing was measured in no time.
fn percentile(times: &[Duration], percent: usize) -> Duration {
    let rank = (times.len() * percent).div_ceil(100).max(1);
    times.get(rank - 1).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_measured_values() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert_eq!(percentile(&times, 50), Duration::from_millis(100));
        assert_eq!(percentile(&times, 99), Duration::from_millis(198));
        assert_eq!(percentile(&times[..1], 99), Duration::from_millis(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn rates_should_be_high_and_times_low() {
        let mut report = Report::default();
        report.add_with_aim("list", 1000.0, "1/s", 1500.0);
        report.add_with_aim("memory", 100.0, "MiB", 110.0);
        report.add("size", 1.0, "MB");
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].ends_with("≥ 1500, NOT met") && lines[1].ends_with("≤ 110, met"), "{table}");
        assert!(lines[2].trim_end().ends_with("MB"));
    }
}
