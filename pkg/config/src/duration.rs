//! Durations as Go writes them, in flags and in configuration files.

use std::time::Duration;

use copepod_api::duration::parse_positive;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A duration in a configuration file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GoDuration(pub Duration);

impl GoDuration {
    /// The duration, unless it is zero: most of upstream's fields mean their default by that.
    #[must_use]
    pub fn nonzero(self) -> Option<Duration> {
        (!self.0.is_zero()).then_some(self.0)
    }
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let nanos = i64::try_from(self.0.as_nanos()).unwrap_or(i64::MAX);
        serializer.serialize_str(&copepod_api::duration::format(nanos))
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        parse_positive(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let millis = |text| parse_positive(text).map(|d| d.as_millis());
        for (text, want) in
            [("40s", 40_000), ("1h30m0s", 5_400_000), ("250ms", 250), ("1.5s", 1500), ("0", 0), ("0s", 0)]
        {
            assert_eq!(millis(text), Ok(want), "{text}");
        }
        for text in ["", "5", "xs", "-1s", "1d", "1s5"] {
            assert!(millis(text).unwrap_err().contains(text), "{text}");
        }
    }
}
