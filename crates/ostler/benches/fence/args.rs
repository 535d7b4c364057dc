//! Command-line arguments.

use std::fmt;

pub(crate) use ostler_testkit::measure::Effort;
use ostler_testkit::measure::chosen;

use crate::Result;
use crate::server::Heeds;

/// Makes this binary run as the owner that is killed.
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

pub(crate) enum Request {
    Benchmarks(Vec<Benchmark>, Effort),
    Owner(usize, Heeds),
    /// Not run as a benchmark.
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
}

impl fmt::Display for Benchmark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = Self::ALL.iter().find(|(benchmark, _)| benchmark == self);
        f.pad(known.map_or("", |(_, name)| name))
    }
}

pub(crate) fn parse(arguments: impl Iterator<Item = String>) -> Result<Request> {
    let arguments: Vec<String> = arguments.collect();
    if let [OWNER, count, heeds] = arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        return Ok(Request::Owner(count.parse()?, heeds.parse()?));
    }
    let chosen = chosen(&arguments, &Benchmark::ALL)?;
    Ok(chosen
        .map_or(Request::NotAsked, |(benchmarks, effort)| Request::Benchmarks(benchmarks, effort)))
}
