//! A gateway with a configuration and a state directory of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ostler_testkit::binary;
use tempfile::TempDir;

use crate::Result;
use crate::client::Client;
use crate::web::Web;

/// Longest wait for the gateway's start; far longer than it takes.
const PATIENCE: Duration = Duration::from_mins(1);

const TOKEN: &str = "token-of-the-benchmark";

pub(crate) struct TestGateway {
    program: PathBuf,
    directory: TempDir,
    gateway: Child,
}

/// Command of the server that all benchmarks call.
pub(crate) fn direct() -> Command {
    let mut command = Command::new(binary("ostler"));
    command.arg("example-server");
    command
}

impl TestGateway {
    /// Starts a gateway of this build, whose only server has these keys in its configuration.
    pub(crate) fn open(keys: &str) -> Result<Self> {
        Self::of(&binary("ostler"), keys)
    }

    /// Starts a gateway of another build, with the server of this build.
    pub(crate) fn of(program: &Path, keys: &str) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let ostler = binary("ostler");
        let ostler = ostler.to_str().ok_or("the path is not UTF-8")?;
        let text = format!(
            r#"{{"mcpServers":{{"echo":{{"command":{ostler:?},"args":["example-server"],{keys}}}}}}}"#
        );
        fs::write(directory.path().join("ostler.json"), text)?;
        let said = fs::File::create(directory.path().join("said"))?;
        let mut serve = ostler_in(program, &directory, "serve");
        serve.args(["--listen", "127.0.0.1:0"]).env("OSTLER_TOKEN", TOKEN);
        let gateway = serve.stdin(Stdio::null()).stderr(said).spawn()?;
        let test_gateway = Self { program: program.to_owned(), directory, gateway };
        let begin = Instant::now();
        while !test_gateway
            .command("sessions")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?
            .success()
        {
            if begin.elapsed() > PATIENCE {
                return Err("the gateway does not answer".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(test_gateway)
    }

    pub(crate) fn command(&self, word: &str) -> Command {
        ostler_in(&self.program, &self.directory, word)
    }

    /// A client on pipes, after its handshake.
    pub(crate) fn client(&self) -> Result<Client> {
        Client::meet(self.command("connect").arg("echo"))
    }

    /// A client on HTTP, after its handshake.
    pub(crate) fn web(&self) -> Result<Web> {
        let said = fs::read_to_string(self.directory.path().join("said"))?;
        let rest = said.split("http://").nth(1).ok_or("the gateway does not listen")?;
        let address = rest.split('/').next().ok_or("the gateway does not listen")?;
        Web::meet(address.parse()?, TOKEN)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.gateway.id()
    }

    /// Number of running instances.
    pub(crate) fn instances(&self) -> Result<u32> {
        let shown = self.command("ps").arg("--json").output()?.stdout;
        let rows: Vec<serde_json::Value> = serde_json::from_slice(&shown)?;
        Ok(u32::try_from(rows.len())?)
    }
}

fn ostler_in(program: &Path, directory: &TempDir, word: &str) -> Command {
    let mut command = Command::new(program);
    let place = directory.path();
    command.arg(word).current_dir(place);
    command.env("OSTLER_CONFIG", place.join("ostler.json"));
    command.env("OSTLER_SOCKET", place.join("socket"));
    command.env("XDG_STATE_HOME", place).env("OSTLER_RUNTIME_DIR", place);
    command
}

impl Drop for TestGateway {
    fn drop(&mut self) {
        let _ = self.command("down").stdout(Stdio::null()).status();
        let _ = self.gateway.wait();
    }
}
