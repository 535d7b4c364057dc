//! Token in the environment of all processes of a test.

use std::fmt::Write;
use std::fs;

use rustix::rand::{GetRandomFlags, getrandom};

/// The environment variable of the token.
pub const TOKEN_NAME: &str = "OSTLER_TEST_TOKEN";

const UIDS: std::ops::Range<u32> = 40_000..60_000;

/// A random mark, unique to one test, that descendants inherit in their environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    hex: String,
    number: u32,
}

impl Token {
    /// A new one.
    pub fn random() -> Self {
        let mut bytes = [0; 16];
        getrandom(&mut bytes, GetRandomFlags::empty()).expect("random bytes");
        let mut hex = String::new();
        for byte in bytes {
            write!(hex, "{byte:02x}").expect("a string takes all that is written");
        }
        let number = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Self { hex, number }
    }

    /// Its text, in lower-case hexadecimal.
    pub fn hex(&self) -> &str {
        &self.hex
    }

    /// The pair for an environment.
    pub fn env(&self) -> (&'static str, String) {
        (TOKEN_NAME, self.hex.clone())
    }

    /// A throw-away uid that belongs to this token, so that tests in parallel do not share one.
    pub fn uid(&self) -> u32 {
        UIDS.start + self.number % (UIDS.end - UIDS.start)
    }

    /// Whether that process carries this token in its environment.
    pub fn is_carried_by(&self, pid: u32) -> bool {
        let wanted = format!("{TOKEN_NAME}={}", self.hex).into_bytes();
        fs::read(format!("/proc/{pid}/environ"))
            .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|entry| entry == wanted))
    }
}
