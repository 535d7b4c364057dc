//! Parses durations such as `500ms` and `1.5s`.

use std::time::Duration;

/// The text is not a duration.
#[derive(Debug, thiserror::Error)]
#[error("write a number and a unit (ms, s, m or h), for example 500ms or 1.5s")]
pub struct InvalidDuration;

/// Parses `500ms`, `1.5s`, `10m` or `1h`; at most 24 hours.
pub fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or(InvalidDuration)?;
    let (number, unit) = text.split_at(unit_at);
    let seconds_per_unit = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(InvalidDuration),
    };
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    if !number.chars().all(plain) {
        return Err(InvalidDuration);
    }
    let number: f64 = number.parse().map_err(|_| InvalidDuration)?;
    // More than a day is probably a mistake, and far more would overflow the clock.
    let seconds = number * seconds_per_unit;
    let sane = seconds.is_finite() && seconds <= 86_400.0;
    sane.then(|| Duration::from_secs_f64(seconds)).ok_or(InvalidDuration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_number_and_a_unit() {
        for (text, ms) in [("500ms", 500), ("1.5s", 1500), ("2m", 120_000), ("0s", 0)] {
            assert_eq!(parse(text).ok(), Some(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", "5", "s", "-1s", "1e3s", "5 s", "5d", "inf s", "NaNs", "1.2.3s", "99999h"]
        {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
