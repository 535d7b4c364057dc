//! Names that are never used twice.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

/// The environment variable by which every process of an instance can be recognised.
///
/// Descendants inherit it across new sessions, double forks and adoption, so it is the key by
/// which an instance is found again when its guardian was killed as well.
pub const INSTANCE_VARIABLE: &str = "OSTLER_INSTANCE";

/// One start of one server: 128 random bits, written as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct InstanceId([u8; 16]);

impl InstanceId {
    /// Draws a fresh id from the kernel.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not 32 lower-case hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("an instance id has 32 lower-case hexadecimal digits")]
pub struct InvalidInstanceId;

impl FromStr for InstanceId {
    type Err = InvalidInstanceId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let canonical = |c: &u8| c.is_ascii_digit() || (b'a'..=b'f').contains(c);
        if text.len() != 32 || !text.as_bytes().iter().all(canonical) {
            return Err(InvalidInstanceId);
        }
        u128::from_str_radix(text, 16)
            .map(|number| Self(number.to_be_bytes()))
            .map_err(|_| InvalidInstanceId)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_survives_being_written_and_read() {
        let id = InstanceId::random().unwrap();
        assert_eq!(id, id.to_string().parse().unwrap());
        assert_ne!(id, InstanceId::random().unwrap());
    }

    #[test]
    fn only_the_written_form_is_an_id() {
        for text in ["", "00", "+0000000000000000000000000000000", &"G".repeat(32), &"A".repeat(32)]
        {
            assert!(text.parse::<InstanceId>().is_err(), "{text:?}");
        }
    }
}
