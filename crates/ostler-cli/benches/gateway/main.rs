//! Cost of the gateway, compared with a direct pipe to the same server, or with another build of the gateway.
//!
//! ```text
//! cargo build --release -p ostler-cli
//! cargo bench -p ostler-cli --bench gateway -- [NAME...] [--quick]
//! OSTLER_BENCH_BEFORE=path/to/other/ostler cargo bench -p ostler-cli --bench gateway -- before
//! ```
//!
//! Tables go to stdout as Markdown, progress to stderr. No run fails because of a time: missed goals are listed as
//! missed. Things that are compared are measured in turns within one run, so that other load on the machine affects
//! both alike.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints tables and progress"
)]

mod bare;
mod before;
mod calls;
mod client;
mod cold;
mod load;
mod memory;
mod test_gateway;
mod web;

use std::error::Error;
use std::process::ExitCode;

use ostler_testkit::measure::{Effort, chosen, machine};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

#[derive(Clone, Copy)]
enum Benchmark {
    Calls,
    Http,
    Bare,
    Memory,
    Cold,
    /// Another build of the gateway, if `OSTLER_BENCH_BEFORE` names one.
    Before,
}

const ALL: [(Benchmark, &str); 6] = [
    (Benchmark::Calls, "calls"),
    (Benchmark::Http, "http"),
    (Benchmark::Bare, "bare"),
    (Benchmark::Memory, "memory"),
    (Benchmark::Cold, "cold"),
    (Benchmark::Before, "before"),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match chosen(&arguments, &ALL) {
        Ok(Some((benchmarks, effort))) => run(&benchmarks, effort),
        Ok(None) => {
            eprintln!("to run the benchmark: cargo bench -p ostler-cli --bench gateway");
            Ok(())
        }
        Err(error) => Err(error.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("gateway: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(benchmarks: &[Benchmark], effort: Effort) -> Result<()> {
    machine::raise_descriptor_limit()?;
    println!("{}", machine::describe());
    for benchmark in benchmarks {
        let table = match benchmark {
            Benchmark::Calls => calls::on_pipes(effort)?,
            Benchmark::Http => calls::on_http(effort)?,
            Benchmark::Bare => calls::on_bare_http(effort)?,
            Benchmark::Memory => memory::of_clients(effort)?,
            Benchmark::Cold => cold::first_call(effort)?,
            Benchmark::Before => match std::env::var_os("OSTLER_BENCH_BEFORE") {
                Some(program) => before::compare(program.as_ref(), effort)?,
                None => continue,
            },
        };
        println!("{table}");
    }
    Ok(())
}
