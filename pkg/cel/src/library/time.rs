//! Times and durations.

use jiff::{Timestamp, civil::Weekday, tz::TimeZone};

use super::core::text;
use crate::{
    functions::Function,
    value::{Failure, Result, Val},
};

const NANOS: i64 = 1_000_000_000;

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "timestamp",
        overloads: &["(timestamp) timestamp", "(int) timestamp", "(string) timestamp"],
        run: to_timestamp,
    },
    Function { name: "duration", overloads: &["(duration) duration", "(string) duration"], run: to_duration },
    Function { name: "getFullYear", overloads: ZONED, run: |args| part(args, |z| z.year().into()) },
    Function { name: "getMonth", overloads: ZONED, run: |args| part(args, |z| i64::from(z.month()) - 1) },
    Function {
        name: "getDayOfYear",
        overloads: ZONED,
        run: |args| part(args, |z| i64::from(z.day_of_year()) - 1),
    },
    Function { name: "getDayOfMonth", overloads: ZONED, run: |args| part(args, |z| i64::from(z.day()) - 1) },
    Function { name: "getDate", overloads: ZONED, run: |args| part(args, |z| z.day().into()) },
    Function { name: "getDayOfWeek", overloads: ZONED, run: |args| part(args, |z| weekday(z.weekday())) },
    Function { name: "getHours", overloads: BOTH, run: |args| both(args, 3600 * NANOS, |z| z.hour().into()) },
    Function {
        name: "getMinutes",
        overloads: BOTH,
        run: |args| both(args, 60 * NANOS, |z| z.minute().into()),
    },
    Function { name: "getSeconds", overloads: BOTH, run: |args| both(args, NANOS, |z| z.second().into()) },
    Function {
        name: "getMilliseconds",
        overloads: BOTH,
        run: |args| both(args, NANOS / 1000, |z| z.millisecond().into()),
    },
];

const ZONED: &[&str] = &["timestamp.() int", "timestamp.(string) int"];
const BOTH: &[&str] = &["timestamp.() int", "timestamp.(string) int", "duration.() int"];

fn weekday(day: Weekday) -> i64 {
    i64::from(day.to_sunday_zero_offset())
}

/// RFC 3339 text as a time.
pub(crate) fn timestamp(text: &str) -> Result<Timestamp> {
    let date_only = !text.contains(['T', 't']);
    text.parse().ok().filter(|_| !date_only).ok_or_else(|| {
        Failure::new(format!(
            "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {text:?} as \"2006\""
        ))
    })
}

/// A Go duration such as `1h30m` in nanoseconds.
pub(crate) fn duration(text: &str) -> Result<i64> {
    copepod_api::duration::parse(text).map_err(Failure::new)
}

/// A duration in seconds, as text.
pub(crate) fn seconds(nanos: i64) -> String {
    let (whole, part) = (nanos / NANOS, (nanos % NANOS).unsigned_abs());
    let sign = if nanos < 0 && whole == 0 { "-" } else { "" };
    if part == 0 {
        return format!("{sign}{whole}s");
    }
    let part = format!("{part:09}");
    format!("{sign}{whole}.{}s", part.trim_end_matches('0'))
}

/// A time in RFC 3339.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    at.to_string()
}

/// A duration that fits.
pub(crate) fn duration_of<'a>(nanos: Option<i64>) -> Result<Val<'a>> {
    nanos.map(Val::Duration).ok_or_else(|| Failure::new("duration overflow"))
}

/// A time later by `nanos`.
pub(crate) fn shifted<'a>(at: Timestamp, nanos: i64) -> Result<Val<'a>> {
    let to = at.as_nanosecond() + i128::from(nanos);
    Timestamp::from_nanosecond(to).map(Val::Time).map_err(|_| Failure::new("timestamp overflow"))
}

fn to_timestamp<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Time(at)] => Ok(Val::Time(*at)),
        [Val::Int(seconds)] => {
            Timestamp::from_second(*seconds).map(Val::Time).map_err(|_| Failure::new("timestamp overflow"))
        }
        [Val::Text(text)] => timestamp(text).map(Val::Time),
        _ => Err(Failure::overload()),
    }
}

fn to_duration<'a>(args: &[Val<'a>]) -> Result<Val<'a>> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Duration(*nanos)),
        [Val::Text(text)] => duration(text).map(Val::Duration),
        _ => Err(Failure::overload()),
    }
}

fn part<'a>(args: &[Val<'a>], of: fn(&jiff::Zoned) -> i64) -> Result<Val<'a>> {
    let Some(Val::Time(at)) = args.first() else { return Err(Failure::overload()) };
    let zone = match args.get(1) {
        Some(name) => zone(text(Some(name))?)?,
        None => TimeZone::UTC,
    };
    Ok(Val::Int(of(&at.to_zoned(zone))))
}

/// A zone by name, or an offset such as `+02:00`.
fn zone(name: &str) -> Result<TimeZone> {
    let unknown = || Failure::new(format!("unknown time zone {name}"));
    let (sign, rest) = match name.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, name.strip_prefix('+').unwrap_or(name)),
    };
    let Some((hours, minutes)) = rest.split_once(':') else {
        return TimeZone::get(name).map_err(|_| unknown());
    };
    let (hours, minutes) = (hours.parse::<i32>(), minutes.parse::<i32>());
    let seconds =
        hours.ok().zip(minutes.ok()).map(|(h, m)| sign * (h * 3600 + m * 60)).ok_or_else(unknown)?;
    jiff::tz::Offset::from_seconds(seconds).map(TimeZone::fixed).map_err(|_| unknown())
}

fn both<'a>(args: &[Val<'a>], unit: i64, of: fn(&jiff::Zoned) -> i64) -> Result<Val<'a>> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / unit)),
        _ => part(args, of),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_and_written() {
        for (text, nanos, back) in [
            ("1h30m", 5400 * NANOS, "5400s"),
            ("-1.5s", -1_500_000_000, "-1.5s"),
            ("0", 0, "0s"),
            ("250ms", 250_000_000, "0.25s"),
        ] {
            assert_eq!(duration(text), Ok(nanos));
            assert_eq!(seconds(nanos), back);
        }
        assert!(duration("1").is_err());
        assert!(duration("").is_err());
    }
}
