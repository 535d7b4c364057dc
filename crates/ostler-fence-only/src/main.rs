//! A host that only fences one server: no keeper, no container engines, no runtime.
//!
//! `ostler-fence-only DIRECTORY ENGINE` keeps its ledger in the directory, starts `cat` with this engine, speaks with it
//! and closes it. If nothing is left it writes the instance's id to the file `gone` there.
//!
//! `ostler-fence-only DIRECTORY sweep` ends what dead owners have left there, and writes what became of it to `swept`.

use std::env;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ostler::sweep::dead_owners;
use ostler::{Engine, Outcome, Owner, Places, ServerSpec, ServerStdio, Step, Terms, guardian};

/// For what is left to end.
const LIMIT: Duration = Duration::from_secs(10);

fn main() -> Result<(), Box<dyn Error>> {
    guardian::run_if_asked();
    let mut arguments = env::args().skip(1);
    let directory: PathBuf = arguments.next().ok_or("no directory is given")?.into();
    let places = Places::new([directory.join("state")]);
    match arguments.next().ok_or("neither an engine nor 'sweep' is given")?.as_str() {
        "sweep" => Ok(fs::write(directory.join("swept"), sweep(&places))?),
        engine => fence(&directory, places, engine.parse()?),
    }
}

fn sweep(places: &Places) -> String {
    let mut swept = String::new();
    for owner in dead_owners(places) {
        for outcome in owner.settle(LIMIT).into_values() {
            let _ = match outcome {
                Outcome::Gone(proof) => writeln!(swept, "gone: {proof}"),
                Outcome::Unverified(residue) => writeln!(swept, "unverified: {residue}"),
            };
        }
    }
    swept
}

fn fence(directory: &Path, places: Places, engine: Engine) -> Result<(), Box<dyn Error>> {
    let owner = Owner::new(places, "fence only")?;
    let spec = ServerSpec {
        name: "echo".into(),
        program: "cat".into(),
        args: Vec::new(),
        env: env::vars_os().collect(),
        cwd: None,
    };
    let (stdio, mut pipe) = ServerStdio::piped()?;
    let terms = Terms { engine, ..Terms::default() };
    let instance = owner.start(spec, stdio, &terms).map_err(|error| error.to_string())?;
    let id = instance.id();
    writeln!(pipe.stdin, "hello")?;
    let mut answer = String::new();
    BufReader::new(&pipe.stdout).read_line(&mut answer)?;
    drop(pipe.stdin);
    match instance.close(Step::Closing)? {
        Outcome::Gone(_) if answer == "hello\n" => {
            Ok(fs::write(directory.join("gone"), id.to_string())?)
        }
        outcome => Err(format!("it said {answer:?} and ended with {outcome:?}").into()),
    }
}
