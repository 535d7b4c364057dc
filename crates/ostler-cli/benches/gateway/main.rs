//! What a gateway costs its clients, against a pipe of their own to the same server.
//!
//! ```text
//! cargo build --release -p ostler-cli
//! cargo bench -p ostler-cli --bench gateway -- [NAME...] [--quick]
//! ```
//!
//! Tables go to stdout as Markdown, progress to stderr. Nothing is asserted about time: a goal that
//! is missed is reported as such. What is compared is measured in turns within one run, so that
//! whatever else the machine does hits both sides alike.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tables and progress are what a benchmark is run for"
)]

mod bare;
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
}

const ALL: [(Benchmark, &str); 5] = [
    (Benchmark::Calls, "calls"),
    (Benchmark::Http, "http"),
    (Benchmark::Bare, "bare"),
    (Benchmark::Memory, "memory"),
    (Benchmark::Cold, "cold"),
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
        };
        println!("{table}");
    }
    Ok(())
}
