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

/// Text that is not 32 lower-case hexadecimal digits.
#[derive(Debug, thiserror::Error)]
#[error("an id has 32 lower-case hexadecimal digits")]
pub struct InvalidId;

/// Defines a type of ids: 128 random bits, written as 32 hexadecimal digits.
macro_rules! id {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(u128);

        impl $name {
            /// Draws a fresh one from the kernel.
            pub fn random() -> io::Result<Self> {
                let mut bytes = [0; 16];
                getrandom(&mut bytes, GetRandomFlags::empty())?;
                Ok(Self(u128::from_be_bytes(bytes)))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                parse(text).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = InvalidId;

            fn try_from(text: String) -> Result<Self, Self::Error> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.to_string()
            }
        }
    };
}

id! {
    /// One start of one server.
    InstanceId
}

id! {
    /// One life of one owner of servers.
    OwnerId
}

fn parse(text: &str) -> Result<u128, InvalidId> {
    let canonical = |c: &u8| c.is_ascii_digit() || (b'a'..=b'f').contains(c);
    if text.len() != 32 || !text.as_bytes().iter().all(canonical) {
        return Err(InvalidId);
    }
    u128::from_str_radix(text, 16).map_err(|_| InvalidId)
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
