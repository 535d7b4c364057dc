//! Macros that run a lifecycle test at several levels, and the server behaviours they use.
//!
//! docs/test-rows.md explains the codes in the names of these tests.

/// The nine server behaviours that were measured to escape some mechanism, as switches of the stub.
pub const BEHAVIOURS: [&[&str]; 9] = [
    &[],
    &["--ignore-eof", "--ignore-term"],
    &["--child", "--ignore-eof"],
    &["--setsid-child"],
    &["--double-fork", "--empty-env"],
    &["--double-fork", "--empty-env", "--exit-at-once"],
    &["--daemons", "20", "--descendants-ignore-term"],
    &["--hop-ms", "1"],
    &["--hop-ms", "0"],
];

/// One server of each rude behaviour, as switches for the servers of a host.
pub const RUDE: [&str; 8] = [
    "",
    "--ignore-eof --ignore-term",
    "--child --ignore-eof --descendants-ignore-term",
    "--setsid-child --double-fork --empty-env",
    "--daemons 5 --descendants-ignore-term",
    "--hop-ms 1",
    "--nested --ignore-term",
    "--spin-on-eof",
];

/// A server that only SIGKILL ends.
pub const STUBBORN: &[&str] = &["--ignore-eof", "--ignore-term", "--descendants-ignore-term"];

/// Runs each test as root at `leaf` and as a user at `tree`, `OSTLER_TEST_ROUNDS` times.
#[macro_export]
macro_rules! rows {
    ($($(#[$attribute:meta])* fn $name:ident($stage:ident) $body:block)*) => {$(
        $(#[$attribute])*
        mod $name {
            use super::*;

            fn row($stage: $crate::Stage) $body

            #[test]
            fn leaf() {
                $crate::rounds(|| row($crate::Stage::leaf()));
            }

            #[test]
            fn tree() {
                $crate::rounds(|| row($crate::Stage::tree()));
            }
        }
    )*};
}

/// Runs each test at `strict`, as root and as an unprivileged user.
#[macro_export]
macro_rules! strict_rows {
    ($(fn $name:ident($stage:ident) $body:block)*) => {$(
        mod $name {
            use super::*;

            fn row($stage: $crate::Stage) $body

            #[test]
            fn root() {
                $crate::rounds(|| row($crate::Stage::strict()));
            }

            #[test]
            fn user() {
                $crate::rounds(|| row($crate::Stage::strict_user()));
            }
        }
    )*};
}

/// Repeats a test: once in CI, more often with `scripts/test --full`.
pub fn rounds(row: impl Fn()) {
    let rounds = std::env::var("OSTLER_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    (0..rounds).for_each(|_: u32| row());
}
