//! Unique ids of instances and owners.

use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::rand::{GetRandomFlags, getrandom};
use serde::{Deserialize, Serialize};

/// Environment variable that marks every process of an instance with the instance's id.
///
/// Descendants inherit it across new sessions, double forks and adoption, so a sweep can find the
/// processes of an instance even if its guardian was killed.
pub const INSTANCE_VARIABLE: &str = "OSTLER_INSTANCE";

/// The text is not an id.
#[derive(Debug, thiserror::Error)]
#[error("an id has 32 lower-case hexadecimal digits")]
pub struct InvalidId;

/// Defines an id type: 128 random bits, written as 32 lower-case hexadecimal digits.
macro_rules! id {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(into = "String", try_from = "String")]
        pub struct $name(u128);

        impl $name {
            /// A new random id.
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
    /// Id of one start of one server.
    InstanceId
}

id! {
    /// Id of one owner.
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
    fn an_id_round_trips_through_text() {
        let id = InstanceId::random().unwrap();
        assert_eq!(id, id.to_string().parse().unwrap());
        assert_ne!(id, InstanceId::random().unwrap());
    }

    #[test]
    fn only_the_canonical_form_is_an_id() {
        for text in ["", "00", "+0000000000000000000000000000000", &"G".repeat(32), &"A".repeat(32)]
        {
            assert!(text.parse::<InstanceId>().is_err(), "{text:?}");
        }
    }
}
