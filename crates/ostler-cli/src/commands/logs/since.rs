//! The option `--since`: a time, or how long ago it was.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Local, NaiveDate, NaiveDateTime};
use ostler::duration;

/// A time, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Since(u64);

impl Since {
    pub(super) fn is_before(self, at: u64) -> bool {
        self.0 <= at
    }
}

/// Parses `10m`, `2d`, RFC 3339, and local times as `ostler logs` prints them, which may be cut.
pub(super) fn parse(text: &str) -> Result<Since, &'static str> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if let Some(ago) = ago(text) {
        let then = now.saturating_sub(ago).as_millis();
        return Ok(Since(u64::try_from(then).unwrap_or(u64::MAX)));
    }
    let then = DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_millis());
    let then = then.or_else(|| Some(local(text)?.timestamp_millis()));
    let then = then.ok_or("write 10m, 2h, 3d, or a time: 2026-11-18 10:45")?;
    // Nothing was logged before 1970.
    Ok(Since(u64::try_from(then).unwrap_or(0)))
}

fn ago(text: &str) -> Option<Duration> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u16>().ok());
    let days = days.map(|days| Duration::from_hours(24 * u64::from(days)));
    days.or_else(|| duration::parse(text).ok())
}

fn local(text: &str) -> Option<DateTime<Local>> {
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M"];
    let parse = |format: &&str| NaiveDateTime::parse_from_str(text, format).ok();
    let date = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    // A local time that a change of the clock repeats or leaves out counts from its earliest meaning.
    formats.iter().find_map(parse).or_else(date)?.and_local_timezone(Local).earliest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::render;

    #[test]
    fn a_time_is_read_as_it_is_printed() {
        let at = 1_763_462_733_123;
        assert_eq!(parse(&render::clock(at)), Ok(Since(at)));
        assert_eq!(parse(&render::rfc3339(at)), Ok(Since(at)));
        let minute = render::clock(at);
        assert_eq!(parse(&minute[..16]), Ok(Since(at / 60_000 * 60_000)));
        assert!(parse(&minute[..10]).unwrap().0 <= at);
        assert_eq!(parse("1950-01-01"), Ok(Since(0)));
    }

    #[test]
    fn a_duration_counts_back_from_now() {
        let now = u64::try_from(UNIX_EPOCH.elapsed().unwrap().as_millis()).unwrap();
        for (text, ago) in [("10m", 600_000), ("2h", 7_200_000), ("3d", 259_200_000)] {
            let Since(then) = parse(text).unwrap();
            assert!((now - ago..now - ago + 60_000).contains(&then), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in
            ["", "yesterday", "10", "-10m", "10:45", "2026-13-01", "99999999d", "2026-11-18 1"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
