//! What was asked for.

use std::fmt;

use crate::Result;
use crate::server::Heeds;

/// Asks this binary to be the owner that is killed.
pub(crate) const OWNER: &str = "--owner";

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Benchmark {
    Start,
    Heap,
    Memory,
    Stop,
    Killed,
    Ledger,
    Sweep,
    Lease,
    Idle,
    Door,
}

/// How many repetitions: enough for the record, or only enough to see that everything works.
#[derive(Clone, Copy)]
pub(crate) enum Effort {
    Full,
    Quick,
}

pub(crate) enum Request {
    Benchmarks(Vec<Benchmark>, Effort),
    Owner(usize, Heeds),
    /// `cargo test --benches` runs this binary as well; minutes of measuring are not a test.
    NotAsked,
}

impl Benchmark {
    const ALL: [(Self, &'static str); 10] = [
        (Self::Start, "start"),
        (Self::Heap, "heap"),
        (Self::Memory, "memory"),
        (Self::Stop, "stop"),
        (Self::Killed, "killed"),
        (Self::Ledger, "ledger"),
        (Self::Sweep, "sweep"),
        (Self::Lease, "lease"),
        (Self::Idle, "idle"),
        (Self::Door, "door"),
    ];

    fn named(name: &str) -> Result<Self> {
        let known = Self::ALL.iter().find(|(_, known)| *known == name);
        known.map(|(benchmark, _)| *benchmark).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|(_, name)| *name).collect();
            format!("no benchmark '{name}'; there are {} and --quick", names.join(", ")).into()
        })
    }
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL.iter().find(|(benchmark, _)| benchmark == self);
        f.pad(known.map_or("", |(_, name)| name))
    }
}

impl Effort {
    pub(crate) fn choose<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Request> {
    let arguments: Vec<String> = arguments.collect();
    if let [OWNER, count, heeds] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return Ok(Request::Owner(count.parse()?, heeds.parse()?));
    }
    // Cargo adds it to a benchmark, and to nothing else.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(Request::NotAsked);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let names = arguments.iter().filter(|name| !["--bench", "--quick"].contains(&name.as_str()));
    let chosen = names.map(|name| Benchmark::named(name)).collect::<Result<Vec<_>>>()?;
    let all = Benchmark::ALL.map(|(benchmark, _)| benchmark).to_vec();
    let benchmarks = if chosen.is_empty() { all } else { chosen };
    Ok(Request::Benchmarks(benchmarks, if quick { Effort::Quick } else { Effort::Full }))
}
