//! `ostler doctor SERVER`: starts one server in a fence of its own, and says which steps worked.

use std::io;
use std::path::Path;
use std::process::ExitCode;

use ostler::{Ignored, Outcome, Owner, Places};
use ostler_gateway::AvailableServer;
use ostler_gateway::admin::Failure;
use ostler_gateway::config::{
    self, Asker, Disabled, Environment, LoadError, NotFound, Resolved, Search, ServerEntry,
};
use ostler_gateway::trial::{Step, Success, Trial, TrialError};
use tokio::io::AsyncReadExt as _;
use tokio::net::UnixStream;

use super::report::Report;
use crate::exit;
use crate::gateways::no_such;
use crate::out::{chain, say};
use crate::requests::Requests;

#[derive(Debug, thiserror::Error)]
enum DoctorError {
    #[error("cannot find the current directory")]
    Directory(#[source] io::Error),
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Load(#[from] LoadError),
    /// There is no such server.
    #[error("{0}")]
    NoServer(String),
    #[error("cannot prepare to start a server")]
    Prepare(#[from] io::Error),
}

pub(super) fn run(server: &str, config: Option<&Path>, is_json: bool) -> ExitCode {
    examine(server, config, is_json).unwrap_or_else(|error| {
        say(chain(&error));
        let code = match error {
            DoctorError::NoServer(_) => exit::NOT_FOUND,
            _ => exit::FAILED,
        };
        code.into()
    })
}

fn examine(server: &str, config: Option<&Path>, is_json: bool) -> Result<ExitCode, DoctorError> {
    let directory = std::env::current_dir().map_err(DoctorError::Directory)?;
    let environment = Environment::of_process();
    let asker = Asker::Person;
    let search = Search { given: config, asker, environment: &environment, directory: &directory };
    let config = search.find()?;
    let file = config::load(&config)?;
    let entry = file.servers.get(server).ok_or_else(|| {
        let known: Vec<&str> = file.servers.keys().map(String::as_str).collect();
        DoctorError::NoServer(no_such("server", server, &known, "ostler check"))
    })?;
    let mut report = Report::new(server, config.clone(), is_json);
    let code = match available(entry, &environment, &directory) {
        Ok(available) => {
            report.succeed(Success::Configured { config });
            try_out(available, &mut report)?
        }
        Err(reason) => {
            report.fail(misconfigured(&reason));
            exit::FAILED
        }
    };
    let written = report.finish();
    Ok(if code == 0 { written } else { code.into() })
}

/// The server as a gateway would start it for a client with this environment and directory.
fn available(
    entry: &ServerEntry,
    environment: &Environment,
    directory: &Path,
) -> Result<AvailableServer, Disabled> {
    let Resolved { server, identity } = config::resolve(entry, environment, directory)?;
    Ok(AvailableServer { server, identity, tools: entry.tools.clone() })
}

fn misconfigured(reason: &Disabled) -> TrialError {
    let failure = Failure { cause: chain(reason), advice: reason.advice(), ..Failure::default() };
    TrialError { step: Step::Configuration, failure }
}

/// Runs a trial until its end, or until a signal asks to stop. Returns the exit code.
fn try_out(available: AvailableServer, report: &mut Report) -> Result<u8, DoctorError> {
    let requests = Requests::listen(Ignored::now()?)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let owner = Owner::new(Places::of_user(), "ostler doctor")?;
        let mut asked = UnixStream::from_std(requests.stream()?)?;
        let mut trial = Trial::new(owner, available);
        let tried = tokio::select! {
            tried = trial.run(|success| report.succeed(success)) => Some(tried),
            _ = asked.read_u8() => None,
        };
        let code = match tried {
            Some(Ok(())) => 0,
            Some(Err(error)) => {
                report.fail(error);
                exit::FAILED
            }
            None => {
                say("interrupted; stopping the server");
                report.interrupt();
                requests.last().map_or(exit::FAILED, exit::by_signal)
            }
        };
        let is_gone = tell_end(trial.end().await, report);
        Ok(if is_gone { code } else { exit::LEFT_OVER })
    })
}

/// Reports the end of the server. Returns whether nothing is left.
fn tell_end(outcome: Option<Outcome>, report: &mut Report) -> bool {
    match outcome {
        None => true,
        Some(Outcome::Gone(proof)) => {
            report.succeed(Success::Stopped { proof: proof.to_string() });
            true
        }
        Some(Outcome::Unverified(residue)) => {
            let cause = format!("not all of it is gone: {residue}");
            let advice = Some("run `ostler ps` to see it; its guardian continues".to_owned());
            let failure = Failure { cause, advice, ..Failure::default() };
            report.fail(TrialError { step: Step::Stop, failure });
            false
        }
    }
}
