//! Cron jobs.

use super::job::{self, FAILURE_POLICY};
use crate::kinds::at::At;
use crate::kinds::checks::warn;
use crate::kinds::core::podtemplate::template_warnings;
use crate::kinds::defaults::{
    Lit::{B, I, S},
    Rule::{In, Nil, Zero},
};
use crate::kinds::kind::Kind;
use crate::kinds::pod::defaults::TEMPLATE;

/// Cron jobs.
pub(crate) static KIND: Kind = Kind {
    defaults: &[In(
        &["spec"],
        &[
            Zero("concurrencyPolicy", S("Allow")),
            Nil("suspend", B(false)),
            Nil("successfulJobsHistoryLimit", I(3)),
            Nil("failedJobsHistoryLimit", I(1)),
            In(&["jobTemplate"], &[In(&["spec"], FAILURE_POLICY), In(&["spec"], TEMPLATE)]),
        ],
    )],
    validate: |job| {
        validate(&job.get("spec"), None);
        let name = job.at("metadata.name");
        if name.str().len() > 52 {
            name.invalid("must be no more than 52 characters");
        }
    },
    validate_update: Some(|new, old| validate(&new.get("spec"), Some(&old.get("spec")))),
    warnings: |new, old| {
        let mut warnings = warn::names_pods(new, old);
        let (pointer, path) = ("/spec/jobTemplate/spec/template", "spec.jobTemplate.spec.template");
        warnings.extend(template_warnings(new, old, pointer, path));
        warnings
    },
    ..Kind::WITH_STATUS
};

fn validate(spec: &At<'_>, old: Option<&At<'_>>) {
    let schedule = spec.get("schedule");
    if schedule.need() {
        check_schedule(&schedule, old);
    }
    spec.get("startingDeadlineSeconds").not_negative();
    let zone = spec.get("timeZone");
    if old.is_none_or(|old| old.get("timeZone").value() != zone.value()) {
        time_zone(&zone);
    }
    spec.get("concurrencyPolicy").need_one_of(&["Allow", "Forbid", "Replace"]);
    let template = spec.at("jobTemplate.spec");
    job::validate::spec(&template, false);
    if template.get("selector").present() {
        template.get("selector").invalid("`selector` will be auto-generated");
    }
    if template.get("manualSelector").bool() {
        template.get("manualSelector").not_supported(&["nil", "false"]);
    }
    spec.get("successfulJobsHistoryLimit").not_negative();
    spec.get("failedJobsHistoryLimit").not_negative();
}

fn check_schedule(at: &At<'_>, old: Option<&At<'_>>) {
    if let Err(error) = cron_error(at.str()) {
        at.invalid(error);
    }
    let had_zone = old.is_some_and(|old| old.get("schedule").str().contains("TZ"));
    if at.str().contains("TZ") && !had_zone {
        at.invalid("cannot use TZ or CRON_TZ in schedule, use timeZone field instead");
    }
}

const DESCRIPTORS: &[&str] =
    &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// Whether a schedule is one; the texts are those of the parser that upstream uses.
fn cron_error(schedule: &str) -> Result<(), String> {
    let spec = match schedule.strip_prefix("CRON_TZ=").or_else(|| schedule.strip_prefix("TZ=")) {
        Some(rest) => rest.split_once(' ').map_or("", |(_, spec)| spec).trim(),
        None => schedule,
    };
    if spec.starts_with('@') {
        if let Some(text) = spec.strip_prefix("@every ") {
            let read = copepod_api::duration::parse(text);
            return read.map(drop).map_err(|e| format!("failed to parse duration {spec}: {e}"));
        }
        let known = DESCRIPTORS.contains(&spec);
        return if known { Ok(()) } else { Err(format!("unrecognized descriptor: {spec}")) };
    }
    let fields: Vec<&str> = spec.split_whitespace().collect();
    if fields.len() != 5 {
        let list = fields.join(" ");
        return Err(format!("expected exactly 5 fields, found {}: [{list}]", fields.len()));
    }
    let bounds: [(i64, i64, &[&str]); 5] =
        [(0, 59, &[]), (0, 23, &[]), (1, 31, &[]), (1, 12, MONTHS), (0, 6, DAYS)];
    for (field, (min, max, names)) in fields.iter().zip(bounds) {
        field.split(',').try_for_each(|range| cron_range(range, min, max, names))?;
    }
    Ok(())
}

fn cron_range(range: &str, min: i64, max: i64, names: &[&str]) -> Result<(), String> {
    let (base, step) = range.split_once('/').map_or((range, None), |(base, step)| (base, Some(step)));
    let number = |text: &str| -> Result<i64, String> {
        let lower = text.to_lowercase();
        let named = names.iter().position(|n| *n == lower).and_then(|i| i64::try_from(i).ok());
        match named {
            Some(i) => Ok(i + min),
            None => text.parse().map_err(|_| {
                format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
            }),
        }
    };
    let (from, to) = match base.split_once('-') {
        _ if matches!(base, "*" | "?") => (min, max),
        Some((from, to)) => (number(from)?, number(to)?),
        None => {
            let from = number(base)?;
            (from, if step.is_some() { max } else { from })
        }
    };
    let step = step.map_or(Ok(1), number)?;
    if from < min {
        return Err(format!("beginning of range ({from}) below minimum ({min}): {range}"));
    }
    if to > max {
        return Err(format!("end of range ({to}) above maximum ({max}): {range}"));
    }
    if from > to {
        return Err(format!("beginning of range ({from}) beyond end of range ({to}): {range}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {range}"));
    }
    Ok(())
}

fn time_zone(at: &At<'_>) {
    if !at.present() {
        return;
    }
    let zone = at.str();
    if zone.is_empty() {
        return at.invalid("timeZone must be nil or non-empty string");
    }
    let odd = |part: &str| {
        let plain = part.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'+' | b'-' | b'.'));
        matches!(part, "." | ".." | "") || part.starts_with('-') || !plain
    };
    let local = zone.eq_ignore_ascii_case("local");
    let known = local || jiff::tz::db().is_definitively_empty() || jiff::tz::TimeZone::get(zone).is_ok();
    if zone.split('/').any(odd) || !known {
        return at.invalid(format!("unknown time zone {zone}"));
    }
    if local {
        at.invalid("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules() {
        for good in ["*/5 * * * *", "@hourly", "0 0 1-5 jan,dec mon-fri", "0 0 * * 6/2", "@every 1h"] {
            assert_eq!(cron_error(good), Ok(()), "{good}");
        }
        assert_eq!(cron_error("* * *"), Err("expected exactly 5 fields, found 3: [* * *]".to_owned()));
        assert_eq!(cron_error("61 * * * *"), Err("end of range (61) above maximum (59): 61".to_owned()));
        assert!(cron_error("x * * * *").is_err_and(|e| e.starts_with("failed to parse int from x")));
        let soon = "failed to parse duration @every soon: time: invalid duration \"soon\"";
        assert_eq!(cron_error("@every soon"), Err(soon.to_owned()));
        assert_eq!(cron_error("@never"), Err("unrecognized descriptor: @never".to_owned()));
    }
}
