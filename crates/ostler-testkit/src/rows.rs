//! How a row of the leak catalogue is played, and the habits of the servers that play in it.

/// The nine behaviours of a server that were measured to escape one mechanism or another.
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

/// One of each habit that defeats one mechanism or another, as switches for a host's servers.
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

/// Only KILL ends it.
pub const STUBBORN: &[&str] = &["--ignore-eof", "--ignore-term", "--descendants-ignore-term"];

/// Plays each row at both levels, as often as `OSTLER_TEST_ROUNDS` says.
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

/// Plays each row at `strict`, as root and as an unprivileged user.
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

/// Repeats a row: once in CI, more often in the full run.
pub fn rounds(row: impl Fn()) {
    let rounds = std::env::var("OSTLER_TEST_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(1);
    (0..rounds).for_each(|_: u32| row());
}
