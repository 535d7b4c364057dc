//! Human-readable sizes, times, failures and containers.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local, Utc};
use ostler::{ContainerView, Holding};
use ostler_gateway::admin::Failure;

/// `812 B`, `9.1 MB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let exponent = (bytes.ilog10() / 3).min(4);
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let number = bytes as f64 / 1000f64.powi(exponent.cast_signed());
    format!("{number:.1} {}", UNITS[exponent as usize - 1])
}

/// Time since a moment: `42s`, `3m`, `5h`, `2d`.
pub(crate) fn age(milliseconds_since_1970: u64) -> String {
    duration(milliseconds_since(milliseconds_since_1970))
}

/// How long ago that was, in milliseconds.
pub(crate) fn milliseconds_since(milliseconds_since_1970: u64) -> u64 {
    let at = UNIX_EPOCH + Duration::from_millis(milliseconds_since_1970);
    let passed = SystemTime::now().duration_since(at).unwrap_or_default();
    u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
}

/// Local time: `2026-11-17 10:45:33.123`.
pub(crate) fn clock(milliseconds_since_1970: u64) -> String {
    let local = moment(milliseconds_since_1970).with_timezone(&Local);
    local.format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// RFC 3339 time in UTC: `2026-11-17T09:45:33.123Z`.
pub(crate) fn rfc3339(milliseconds_since_1970: u64) -> String {
    moment(milliseconds_since_1970).format("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()
}

fn moment(milliseconds_since_1970: u64) -> DateTime<Utc> {
    let milliseconds = i64::try_from(milliseconds_since_1970).unwrap_or(i64::MAX);
    DateTime::from_timestamp_millis(milliseconds).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Lines of a failure: the summary with the exit status, then its other facts.
pub(crate) fn failure(failure: &Failure) -> Vec<String> {
    let lines = failure.lines().into_iter().map(|line| format!("    {line}"));
    std::iter::once(failure.summary()).chain(lines).collect()
}

/// Duration: `42s`, `3m`, `5h`, `2d`.
pub(crate) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..=99 => format!("{seconds}s"),
        100..=5999 => format!("{}m", seconds / 60),
        6000..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `0123456789ab web (nginx, running)`.
pub(crate) fn container(container: &ContainerView) -> String {
    let ContainerView { id, names, image, state, .. } = container;
    let name = names.first().map(|name| format!(" {name}")).unwrap_or_default();
    let short: String = id.chars().take(12).collect();
    format!("{short}{name} ({image}, {state})")
}

/// One line per container of an instance.
pub(crate) fn holding(holding: &Holding) -> impl Iterator<Item = String> {
    let containers = holding.containers.iter().map(|one| format!("container {}", container(one)));
    containers.chain(holding.unreachable.iter().map(|why| format!("containers, if any: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits() {
        let sizes = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (9_100_000, "9.1 MB")];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(u64::MAX), "18446744.1 TB");
    }
}
