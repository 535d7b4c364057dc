//! Resource limits of a server.

use std::fmt;
use std::num::{NonZeroU64, NonZeroUsize};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Limits for a server with all its processes and containers together. None is set by default.
///
/// A server with a limit that this machine can't enforce is not started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Memory including swap. The kernel kills processes that need more; ostler reports it.
    pub memory: Option<Bytes>,
    /// CPU time. Processes that want more are throttled.
    pub cpus: Option<Cpus>,
    /// Processes and threads. Starting more fails; ostler reports it.
    pub pids: Option<NonZeroU64>,
    /// Containers. Creating more fails with an error that names the limit.
    pub containers: Option<NonZeroUsize>,
}

/// An amount of memory above 0, written as `512m` or `512MiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes(pub NonZeroU64);

/// CPU time as a number of processors, written as `1.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpus {
    thousandths: u32,
}

/// A limit that took effect on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Excess {
    /// The kernel killed processes because together they exceeded the memory limit.
    Memory {
        /// The limit.
        limit: Bytes,
        /// Number of killed processes.
        killed: u64,
    },
    /// The kernel refused to start processes or threads.
    Pids {
        /// The limit.
        limit: NonZeroU64,
        /// Number of refused starts.
        refused: u64,
    },
}

/// The text is no valid limit.
#[derive(Debug, thiserror::Error)]
pub enum InvalidResource {
    /// Not an amount of memory.
    #[error("write a whole number above 0 and a unit (k, m or g), for example 512m or 2GiB")]
    Bytes,
    /// Not a number of processors.
    #[error("write a number of processors between 0.01 and 1000, for example 1.5")]
    Cpus,
}

const UNITS: [(char, u32); 3] = [('g', 30), ('m', 20), ('k', 10)];

/// The power of two of a unit such as `m` or `MiB`. `MB` is no unit, because to some it means 10^6.
fn shift_of(unit: &str) -> Option<u32> {
    let unit = unit.to_ascii_lowercase();
    let letter = unit.strip_suffix("ib").unwrap_or(&unit);
    let named = |name: char| letter.strip_prefix(name).is_some_and(str::is_empty);
    let known = UNITS.iter().find(|(name, _)| named(*name)).map(|(_, shift)| *shift);
    known.or_else(|| unit.is_empty().then_some(0))
}

impl FromStr for Bytes {
    type Err = InvalidResource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits_end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(digits_end);
        let number: u64 = digits.parse().map_err(|_| InvalidResource::Bytes)?;
        let bytes = number.checked_mul(1 << shift_of(unit).ok_or(InvalidResource::Bytes)?);
        // The kernel uses signed numbers.
        let bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok()).and_then(NonZeroU64::new);
        bytes.map(Self).ok_or(InvalidResource::Bytes)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0.get();
        match UNITS.iter().find(|(_, shift)| bytes.trailing_zeros() >= *shift) {
            Some((unit, shift)) => write!(f, "{}{unit}", bytes >> shift),
            None => write!(f, "{bytes} bytes"),
        }
    }
}

impl Cpus {
    /// CPU time in microseconds per `period` microseconds.
    pub(crate) fn quota(self, period: u64) -> u64 {
        u64::from(self.thousandths) * period / 1000
    }
}

impl FromStr for Cpus {
    type Err = InvalidResource;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let plain = |digits: &str| digits.chars().all(|digit| digit.is_ascii_digit());
        if whole.is_empty() || fraction.len() > 3 || !plain(whole) || !plain(fraction) {
            return Err(InvalidResource::Cpus);
        }
        // Parsed as digits, so that 1.1 is exactly 1100 thousandths.
        let thousandths: u32 =
            format!("{whole}{fraction:0<3}").parse().map_err(|_| InvalidResource::Cpus)?;
        // The minimum is the kernel's granularity.
        let sane = (10..=1_000_000).contains(&thousandths);
        sane.then_some(Self { thousandths }).ok_or(InvalidResource::Cpus)
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { limit, killed: 1 } => {
                write!(f, "killed: over its memory limit of {limit}")
            }
            Self::Memory { limit, killed } => {
                write!(f, "{killed} processes killed: over its memory limit of {limit}")
            }
            Self::Pids { limit, refused: 1 } => {
                write!(f, "could not start a process: over its limit of {limit} processes")
            }
            Self::Pids { limit, refused } => write!(
                f,
                "could not start a process {refused} times: over its limit of {limit} processes"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_written_as_people_do() {
        for (text, bytes) in [
            ("512m", 512 << 20),
            ("2G", 2 << 30),
            ("64k", 64 << 10),
            ("77", 77),
            ("512MiB", 512 << 20),
            ("2gib", 2 << 30),
        ] {
            assert_eq!(text.parse::<Bytes>().unwrap().0.get(), bytes, "{text}");
        }
        for text in ["512m", "2g", "1536k"] {
            assert_eq!(text.parse::<Bytes>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn anything_else_is_no_size() {
        for text in [
            "",
            "m",
            "0",
            "0g",
            "-1m",
            "+1m",
            "1.5g",
            "1t",
            "1mb",
            "1 m",
            "1ib",
            "1gg",
            "99999999999g",
        ] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn processors_become_a_quota() {
        for (text, quota) in [("1.5", 150_000), ("0.01", 1000), ("2", 200_000), ("1.1", 110_000)] {
            assert_eq!(text.parse::<Cpus>().unwrap().quota(100_000), quota, "{text}");
        }
        for text in ["", "0", "0.001", ".5", "-1", "1,5", "1e3", "1.2345", "1001", "one"] {
            assert!(text.parse::<Cpus>().is_err(), "{text}");
        }
    }
}
