//! Benchmarks of the fence: start, stop, memory, sweep, and the overhead of Door and keeper.
//!
//! ```text
//! cargo build --release -p ostler-cli && cargo build --release -p ostler-testkit --bin ostler-stub
//! cargo bench -p ostler --bench fence -- [NAME...] [--quick]
//! ```
//!
//! Tables go to stdout as Markdown, progress to stderr. Times are not asserted: missed goals are listed
//! as missed. Variants that are compared take turns within one run, so that other load on the machine
//! affects them equally.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tables and progress are what a benchmark is run for"
)]

mod args;
mod bench;
mod door;
mod http;
mod kept;
mod killed;
mod ledger;
mod memory;
mod owner;
mod server;
mod start;
mod stop;
mod sweep;

use std::error::Error;
use std::process::ExitCode;

use args::{Benchmark, Effort, Request};
use bench::Bench;
use ostler_testkit::measure::{machine, sample, table};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    ostler::guardian::run_if_asked();
    let done = match args::parse(std::env::args().skip(1)) {
        Ok(Request::Benchmarks(benchmarks, effort)) => run(&benchmarks, effort),
        Ok(Request::Owner(count, heeds)) => owner::run(count, heeds),
        Ok(Request::NotAsked) => {
            eprintln!("to run the benchmark: cargo bench -p ostler --bench fence");
            Ok(())
        }
        Err(error) => Err(error),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("fence: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(benchmarks: &[Benchmark], effort: Effort) -> Result<()> {
    machine::raise_descriptor_limit()?;
    let bench = Bench::new()?;
    println!("{}", machine::describe());
    for benchmark in benchmarks {
        eprintln!("{benchmark}: load {}", machine::load());
        let tables = match benchmark {
            Benchmark::Start => start::small_owner(&bench.owner, effort)?,
            Benchmark::Heap => start::large_owner(&bench.owner, effort)?,
            Benchmark::Memory => memory::of_guardians(&bench, effort)?,
            Benchmark::Stop => stop::in_parallel(&bench.owner, effort)?,
            Benchmark::Killed => killed::owner(effort)?,
            Benchmark::Ledger => ledger::per_start(&bench.owner, effort)?,
            Benchmark::Sweep => sweep::of_dead_owner(effort)?,
            Benchmark::Lease => kept::lease(&bench.owner, effort)?,
            Benchmark::Idle => kept::idle(&bench.owner, effort)?,
            Benchmark::Door => door::against_the_plain_socket(&bench.owner, effort)?,
        };
        for table in tables {
            println!("{table}");
        }
    }
    Ok(())
}
