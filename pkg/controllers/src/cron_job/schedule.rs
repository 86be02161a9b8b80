//! The times of a CronJob, in the forms that upstream's parser takes (`github.com/robfig/cron/v3`, `ParseStandard`).

use std::str::FromStr;

use copepod_api::duration;
use croner::Cron;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// With more missed times than this the clock, or the schedule, is off.
const TOO_MANY: i64 = 100;

enum Times {
    /// Five fields.
    Fields(Box<Cron>),
    /// `@every 1h30m`: so long after the time before, in whole seconds.
    Every(SignedDuration),
}

/// A schedule in its time zone.
pub(super) struct Schedule {
    times: Times,
    pub(super) zone: TimeZone,
}

impl Schedule {
    /// Reads a schedule; a zone of the CronJob's own wins over one before the fields (`CRON_TZ=…`), which old objects
    /// may have.
    pub(super) fn parse(schedule: &str, zone: Option<&str>) -> Result<Self, String> {
        let prefixed = schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ="));
        let (inner, spec) = match prefixed.map(|rest| rest.split_once(' ').unwrap_or((rest, ""))) {
            Some((name, spec)) => (Some(name), spec.trim()),
            None => (None, schedule.trim()),
        };
        let zone = match zone.or(inner) {
            Some(name) => TimeZone::get(name).map_err(|e| e.to_string())?,
            None => TimeZone::UTC,
        };
        let times = match spec.strip_prefix("@every ") {
            Some(text) => {
                let why = |e| format!("failed to parse duration {spec}: {e}");
                Times::Every(whole_seconds(duration::parse(text).map_err(why)?))
            }
            None => Times::Fields(Box::new(fields(spec)?)),
        };
        Ok(Self { times, zone })
    }

    /// The first time after `at`, when `at` is one or where counting begins.
    pub(super) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        match &self.times {
            Times::Fields(cron) => {
                Some(cron.find_next_occurrence(&at.to_zoned(self.zone.clone()), false).ok()?.timestamp())
            }
            Times::Every(delay) => Timestamp::from_second(at.as_second()).ok()?.checked_add(*delay).ok(),
        }
    }

    /// The first time after `now`, when the last one was `last`.
    pub(super) fn next(&self, last: Timestamp, now: Timestamp) -> Option<Timestamp> {
        self.after(if matches!(self.times, Times::Every(_)) { last } else { now })
    }

    /// The latest due time in `(from, until]`, and whether very many were missed before it.
    pub(super) fn latest(&self, from: Timestamp, until: Timestamp) -> (Option<Timestamp>, bool) {
        match &self.times {
            Times::Fields(cron) => {
                let end = until.to_zoned(self.zone.clone());
                let last = cron.find_previous_occurrence(&end, true).ok().map(|at| at.timestamp());
                let last = last.filter(|at| *at > from);
                let mut at = from;
                let many = last.is_some()
                    && (0..=TOO_MANY).all(|_| {
                        let next = self.after(at).filter(|next| *next <= until);
                        at = next.unwrap_or(at);
                        next.is_some()
                    });
                (last, many)
            }
            Times::Every(delay) => {
                let (from, delay) = (from.as_second(), delay.as_secs());
                let count = (until.as_second() - from) / delay;
                let last = (count > 0).then(|| Timestamp::from_second(from + count * delay).ok()).flatten();
                (last, count > TOO_MANY)
            }
        }
    }
}

fn whole_seconds(nanos: i64) -> SignedDuration {
    SignedDuration::from_secs(SignedDuration::from_nanos(nanos).as_secs().max(1))
}

fn fields(spec: &str) -> Result<Cron, String> {
    let expanded = match spec {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        other => other,
    };
    if expanded.split_whitespace().count() != 5 {
        return Err(format!("expected exactly 5 fields in {spec:?}"));
    }
    Cron::from_str(&expanded.replace('?', "*")).map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn time_zones_and_shorthands_are_read_and_nonsense_is_not() {
        for (spec, zone) in
            [("0 12 * * *", Some("Europe/Berlin")), ("CRON_TZ=Europe/Berlin 0 12 * * *", None)]
        {
            let berlin = Schedule::parse(spec, zone).unwrap();
            assert_eq!(berlin.after(at("2026-07-01T00:00:00Z")), Some(at("2026-07-01T10:00:00Z")));
        }
        let hourly = Schedule::parse("@hourly", None).unwrap();
        assert_eq!(hourly.after(at("2026-07-01T00:10:00Z")), Some(at("2026-07-01T01:00:00Z")));
        for bad in ["* * * * * *", "61 * * * *", "hello", "", "@every", "@every soon", "@never", "TZ=UTC"] {
            assert!(Schedule::parse(bad, None).is_err(), "{bad}");
        }
        assert!(Schedule::parse("* * * * *", Some("Mars/Olympus")).is_err());
    }

    #[test]
    fn every_counts_from_the_time_before() {
        let every = Schedule::parse("@every 1h30m0.7s", None).unwrap();
        let (start, now) = (at("2026-01-01T00:00:30.5Z"), at("2026-01-01T05:00:00Z"));
        assert_eq!(every.after(start), Some(at("2026-01-01T01:30:30Z")));
        let last = at("2026-01-01T04:30:30Z");
        assert_eq!(every.latest(start, now), (Some(last), false));
        assert_eq!(every.next(last, now), Some(at("2026-01-01T06:00:30Z")));
        assert_eq!(every.latest(start, at("2026-01-01T01:30:29Z")), (None, false));
        assert!(every.latest(start, at("2026-02-01T00:00:00Z")).1);
        let quick = Schedule::parse("@every 10ms", None).unwrap();
        assert_eq!(quick.after(start), Some(at("2026-01-01T00:00:31Z")));
    }
}
