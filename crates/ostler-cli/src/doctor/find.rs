//! Finds: results of the audit, each with its evidence and cost.

use std::fmt;
use std::str::FromStr;

use ostler::Identity;
use ostler_gateway::config::masked_command;
use serde::{Deserialize, Serialize, Serializer};

use super::table::Seen;

/// One result of the audit. Its JSON is documented in `docs/doctor.md`.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Find {
    pub(crate) id: FindId,
    pub(crate) kind: Kind,
    pub(crate) certainty: Certainty,
    /// Readable name of the server.
    pub(crate) server: String,
    /// Command line with secrets masked, or a description of the container.
    pub(crate) command: String,
    /// Agent host that it belongs or belonged to, if known.
    pub(crate) host: Option<String>,
    /// Facts that the find rests on.
    pub(crate) evidence: Vec<String>,
    /// Age in milliseconds.
    pub(crate) age: u64,
    /// Memory in bytes that it uses, or that sharing would save.
    pub(crate) memory: u64,
    /// Processes of the find, the root first.
    pub(crate) processes: Vec<FoundProcess>,
    pub(crate) container: Option<FoundContainer>,
    /// Command that acts on the find.
    pub(crate) action: Option<String>,
}

/// Kind of a find.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// An instance of ostler whose owner and guardian are dead.
    DeadOwner,
    /// An MCP server whose host is gone.
    OrphanedServer,
    /// A process that an MCP server started and that outlived the server.
    OrphanedHelper,
    /// A container of Docker's MCP gateway without a client.
    OrphanedContainer,
    /// Several copies of the same server.
    DuplicateServers,
    /// Ended processes that their parent does not reap.
    Zombies,
    /// A secret on a command line, which every user of the machine can read.
    SecretOnCommandLine,
}

/// How certain it is that the find is no longer needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Certainty {
    /// A ledger of ostler records that the owner is dead.
    Certain,
    /// The evidence suggests it. `ostler reap` ends such a find only by its id.
    Likely,
    /// There is nothing to end.
    Advice,
}

/// A process of a find.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FoundProcess {
    pub(crate) pid: i32,
    /// Start time in clock ticks since boot; identifies the process together with the pid.
    pub(crate) start: u64,
    pub(crate) name: String,
}

/// A container of a find.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct FoundContainer {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) state: String,
    /// Address of the engine that has the container.
    pub(crate) engine: String,
}

/// Id of a find: a letter for its kind, and the identity of the process or container. The id of a process or container
/// is the same in every audit, and is never reused for another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FindId(String);

/// The text is no id of a find.
#[derive(Debug, thiserror::Error)]
#[error("not an id of a find; `ostler doctor` and `ostler reap` print them, such as p4711-1xk2f")]
pub(crate) struct InvalidFindId;

impl FindId {
    /// Id of a process that can be ended.
    pub(crate) fn of_process(identity: Identity) -> Self {
        Self::with('p', identity)
    }

    pub(crate) fn of_zombies(parent: Identity) -> Self {
        Self::with('z', parent)
    }

    pub(crate) fn of_secret(process: Identity) -> Self {
        Self::with('s', process)
    }

    pub(crate) fn of_container(id: &str) -> Self {
        Self(format!("c{}", short(id)))
    }

    pub(crate) fn of_instance(id: &str) -> Self {
        Self(format!("i{}", short(id)))
    }

    /// Id of several copies with one command line.
    pub(crate) fn of_command(command: &str) -> Self {
        // FNV-1a is short, and the same in every version.
        let hash = command.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(format!("d{:08x}", hash >> 32))
    }

    fn with(letter: char, Identity { pid, start }: Identity) -> Self {
        Self(format!("{letter}{pid}-{}", base36(start)))
    }

    /// Whether finds with such an id can be ended.
    pub(crate) fn can_be_ended(&self) -> bool {
        self.0.starts_with(['p', 'c', 'i'])
    }
}

impl FromStr for FindId {
    type Err = InvalidFindId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut rest = text.chars();
        let letter = rest.next().ok_or(InvalidFindId)?;
        let rest = rest.as_str();
        let is_hex = |text: &str| text.chars().all(|c| c.is_ascii_hexdigit());
        let is_valid = match letter {
            'p' | 'z' | 's' => rest.split_once('-').is_some_and(|(pid, start)| {
                let is_start = |c: char| c.is_ascii_digit() || c.is_ascii_lowercase();
                pid.parse::<u32>().is_ok() && !start.is_empty() && start.chars().all(is_start)
            }),
            'c' | 'i' => rest.len() == 12 && is_hex(rest),
            'd' => rest.len() == 8 && is_hex(rest),
            _ => false,
        };
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidFindId) }
    }
}

impl fmt::Display for FindId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for FindId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl From<&Seen> for FoundProcess {
    fn from(seen: &Seen) -> Self {
        let Identity { pid, start } = seen.identity;
        Self { pid, start, name: seen.name.clone() }
    }
}

impl Kind {
    /// Whether the find was left behind by an ended host or owner. Such finds set the exit status.
    pub(crate) fn is_left_over(self) -> bool {
        self <= Self::OrphanedContainer
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::DeadOwner => "server of a dead owner",
            Self::OrphanedServer => "orphaned server",
            Self::OrphanedHelper => "orphaned helper",
            Self::OrphanedContainer => "orphaned container",
            Self::DuplicateServers => "duplicate servers",
            Self::Zombies => "zombies",
            Self::SecretOnCommandLine => "secret on a command line",
        })
    }
}

/// Command line with secrets masked.
pub(crate) fn shown(words: &[String]) -> String {
    masked_command(words).join(" ").trim_end().to_owned()
}

fn short(id: &str) -> String {
    id.chars().take(12).collect()
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        let digit = u32::try_from(number % 36).unwrap_or_default();
        digits.push(char::from_digit(digit, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_one_process_and_survives_being_typed() {
        let id = FindId::of_process(Identity { pid: 4711, start: 3_242_679 });
        assert_eq!(id.to_string(), "p4711-1xi2f");
        let container = FindId::of_container(&"0123456789abcdef".repeat(4));
        for id in [id, container, FindId::of_command("npx x"), FindId::of_instance(&"a".repeat(32))]
        {
            assert_eq!(id.to_string().parse::<FindId>().unwrap(), id);
        }
        let other = FindId::of_process(Identity { pid: 4711, start: 3_242_680 });
        assert_ne!(other.to_string(), "p4711-1xi2f");
    }

    #[test]
    fn text_that_is_not_an_id_is_refused() {
        for text in [
            "", "p", "4711", "p4711", "p-1", "p4711-", "p4711-A", "c12", "node", "p1-1 ", "x1-1",
            "*",
        ] {
            assert!(text.parse::<FindId>().is_err(), "{text}");
        }
    }
}
