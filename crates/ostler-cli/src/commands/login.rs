//! `ostler login` and `ostler logout`: OAuth logins to remote servers.

use std::io;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use clap::Args;
use ostler::duration;
use ostler_gateway::config::{
    self, Asker, Disabled, Environment, LoadError, NotFound, Reach, Search, resolve_remote,
};
use ostler_gateway::remote::RemoteServer;
use ostler_gateway::remote::oauth::{Browser, LoginError, LoginLimits, log_in, log_out};

use crate::out::{chain, say};
use crate::{exit, out};

#[derive(Debug, Args)]
#[command(after_help = "\
For a server with a `url` that rejects calls with 401. The command opens or prints a page where you consent. Open the page on this machine, because it leads back here. The tokens are kept in ostler/logins of the XDG state directory, readable only by you, and refreshed when they expire. Connected clients use them from their next call on; if calls still fail, run `ostler restart SERVER`.

Exit status: 3 if there is no such server.

Examples:
  ostler login search
  ostler login search --no-browser")]
pub(crate) struct LoginArguments {
    #[command(flatten)]
    whose: ServerArguments,
    /// Print the page's address, and open no browser
    #[arg(long)]
    no_browser: bool,
    /// Wait this long for your consent
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Revokes the tokens of `ostler login`, where the server supports that, and removes them.

Exit status: 3 if there is no such server, or no login.

Examples:
  ostler logout search")]
pub(crate) struct LogoutArguments {
    #[command(flatten)]
    whose: ServerArguments,
}

#[derive(Debug, Args)]
struct ServerArguments {
    /// Name of the server in the configuration
    server: String,
    #[arg(help = "Read this configuration [env: OSTLER_CONFIG]")]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot find the current directory")]
    Directory(#[source] io::Error),
    #[error("cannot create a runtime")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    NotFound(#[from] NotFound),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("there is no server '{0}'; `ostler check` lists them")]
    NoServer(String),
    #[error("{0} has no `url`; only remote servers have logins")]
    NoRemote(String),
    #[error("{0} is not available")]
    Disabled(String, #[source] Disabled),
    #[error("{0}: not logged in")]
    NoLogin(String),
    #[error("{0}")]
    Login(String, #[source] LoginError),
}

pub(crate) fn run(arguments: &LoginArguments) -> ExitCode {
    answer(arguments.log_in())
}

pub(crate) fn run_out(arguments: &LogoutArguments) -> ExitCode {
    answer(arguments.log_out())
}

fn answer(done: Result<String, Failure>) -> ExitCode {
    match done {
        Ok(text) => out::print_line(text),
        Err(error) => {
            say(chain(&error));
            match error {
                Failure::NoServer(_) | Failure::NoLogin(_) => exit::NOT_FOUND.into(),
                _ => exit::FAILED.into(),
            }
        }
    }
}

impl LoginArguments {
    fn log_in(&self) -> Result<String, Failure> {
        let (name, server) = (&self.whose.server, self.whose.find()?);
        let limits = LoginLimits { consent: self.timeout, ..LoginLimits::default() };
        let mut screen = Screen { opens: !self.no_browser && has_screen() };
        match runtime()?.block_on(log_in(&server, &mut screen, &limits)) {
            Ok(login) => {
                let scope = login.scope.map_or(String::new(), |scope| format!(", for {scope}"));
                Ok(format!("{name}: logged in through {}{scope}", login.issuer))
            }
            Err(LoginError::NotNeeded) => Ok(format!("{name}: {}", LoginError::NotNeeded)),
            Err(error) => Err(Failure::Login(name.clone(), error)),
        }
    }
}

impl LogoutArguments {
    fn log_out(&self) -> Result<String, Failure> {
        let (name, server) = (&self.whose.server, self.whose.find()?);
        let done = runtime()?.block_on(log_out(&server));
        let (was_there, problem) = done.map_err(|error| Failure::Login(name.clone(), error))?;
        if !was_there {
            return Err(Failure::NoLogin(name.clone()));
        }
        if let Some(problem) = problem {
            say(format_args!("{name}: the token was not revoked, and will expire: {problem}"));
        }
        Ok(format!("{name}: logged out"))
    }
}

impl ServerArguments {
    fn find(&self) -> Result<RemoteServer, Failure> {
        let environment = Environment::of_process();
        let directory = std::env::current_dir().map_err(Failure::Directory)?;
        let given = self.config.as_deref();
        let (asker, directory) = (Asker::Person, &*directory);
        let search = Search { given, asker, environment: &environment, directory };
        let file = config::load(&search.find()?)?;
        let name = &self.server;
        let entry = file.servers.get(name).ok_or_else(|| Failure::NoServer(name.clone()))?;
        let Reach::Remote(remote) = &entry.reach else {
            return Err(Failure::NoRemote(name.clone()));
        };
        let found = resolve_remote(name, remote, &environment, directory);
        found.map_err(|reason| Failure::Disabled(name.clone(), reason))
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(Failure::Runtime)
}

/// Prints the login page's address, and opens it in a browser if there is a display.
struct Screen {
    opens: bool,
}

fn has_screen() -> bool {
    let is_there = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    out::is_watched() && (is_there("DISPLAY") || is_there("WAYLAND_DISPLAY"))
}

impl Browser for Screen {
    fn show(&mut self, url: &str) {
        say("open this page to log in; it leads back here:");
        // The address goes to stdout, so that it can be copied or piped.
        let _ = out::print_line(url);
        if self.opens {
            let mut open = Command::new("xdg-open");
            let open = open.arg(url).stdin(Stdio::null()).stdout(Stdio::null());
            // Without a browser the printed address is enough.
            let _ = open.stderr(Stdio::null()).spawn();
        }
    }
}
