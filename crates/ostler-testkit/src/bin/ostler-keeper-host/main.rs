//! A host that embeds the keeper, uses every part of it, and can end in every bad way. Executes one command per line of stdin, and
//! answers each with one line of JSON: `{"ok": ...}` or `{"error": ...}`.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test program: it talks on stdout, and ends in every way there is"
)]

mod calls;
mod config;
mod greet;
mod host;
mod orders;
mod view;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use clap::Parser;
use ostler::guardian;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

use crate::config::Setting;
use crate::host::Host;
use crate::orders::Order;

/// Idle threads of the runtime exit soon, so that tests can count the others.
const KEEP_THREADS: Duration = Duration::from_millis(50);

/// Result of a command.
type Answer = Result<Value, String>;
/// A command in progress.
type Work = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// Keep servers, and execute the commands on stdin
#[derive(Debug, Parser)]
struct Arguments {
    #[command(flatten)]
    setting: Setting,
    /// The configuration, as for the command `replace`
    #[arg(long)]
    config: String,
}

fn main() {
    guardian::run_if_asked();
    let arguments = Arguments::parse();
    let runtime = Builder::new_multi_thread()
        .worker_threads(2)
        .thread_keep_alive(KEEP_THREADS)
        .enable_all()
        .build()
        .expect("a runtime");
    let _inside = runtime.enter();
    let config = arguments.setting.config(&arguments.config).expect("a configuration");
    let mut host = Host::new(arguments.setting, config);
    let mut later = HashMap::new();
    for line in std::io::stdin().lines() {
        let line = line.expect("a command");
        let answer = obey(&runtime, &mut host, &mut later, &line);
        let answer = answer.map_or_else(|error| json!({"error": error}), |ok| json!({"ok": ok}));
        println!("{answer}");
    }
}

fn obey(
    runtime: &Runtime,
    host: &mut Host,
    later: &mut HashMap<String, JoinHandle<Answer>>,
    line: &str,
) -> Answer {
    let mut wait = |tag: &str| {
        let task = later.remove(tag).ok_or_else(|| format!("nothing is called {tag}"))?;
        Ok::<_, String>(task)
    };
    match Order::parse_line(line)? {
        Order::Later { tag, words } => {
            let work = host.begin(Order::parse_line(&words.join(" "))?)?;
            later.insert(tag, runtime.spawn(work));
            Ok(Value::Null)
        }
        Order::Result { tag } => {
            let ended = runtime.block_on(wait(&tag)?);
            ended.unwrap_or_else(|error| Err(error.to_string()))
        }
        Order::Cancel { tag } => {
            let task = wait(&tag)?;
            task.abort();
            // The cancelled work has ended by now.
            Ok(json!({"was_cancelled": runtime.block_on(task).is_err()}))
        }
        order => runtime.block_on(host.begin(order)?),
    }
}
