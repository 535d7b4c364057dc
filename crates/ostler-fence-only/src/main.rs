//! A host that only fences one server: no keeper, no container engines, no runtime.
//!
//! `ostler-fence-only DIRECTORY ENGINE` keeps its ledger in the directory, starts `cat` with this engine, speaks with it
//! and closes it. If nothing is left it writes the instance's id to the file `gone` there.

use std::env;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;

use ostler::{Engine, Outcome, Owner, Places, ServerSpec, ServerStdio, Step, Terms, guardian};

fn main() -> Result<(), Box<dyn Error>> {
    guardian::run_if_asked();
    let mut arguments = env::args().skip(1);
    let directory: PathBuf = arguments.next().ok_or("no directory is given")?.into();
    let engine: Engine = arguments.next().ok_or("no engine is given")?.parse()?;
    let owner = Owner::new(Places::new([directory.join("state")]), "fence only")?;
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
