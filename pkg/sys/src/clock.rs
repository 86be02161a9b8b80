//! Wall-clock time. Durations and deadlines use `tokio::time`, which tests can pause.

use jiff::Timestamp;

/// The current time, in UTC.
#[expect(clippy::disallowed_methods, reason = "this is the one place that reads the clock")]
#[must_use]
pub fn now() -> Timestamp {
    // A clock before 1970 or after 9999 is a broken machine; the epoch keeps it running and is visible in every object.
    Timestamp::try_from(std::time::SystemTime::now()).unwrap_or(Timestamp::UNIX_EPOCH)
}
