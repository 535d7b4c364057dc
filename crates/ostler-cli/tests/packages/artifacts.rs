//! Packages of the tested program, made once per build.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use ostler_testkit::{Launched, Stage, binary};

/// Bound on an installation, which may build the program.
const INSTALL: Duration = Duration::from_mins(7);

/// The package whose file name begins and ends like this.
pub(crate) fn package(start: &str, end: &str) -> PathBuf {
    let matches = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(start) && name.ends_with(end)
    };
    let all: Vec<PathBuf> =
        fs::read_dir(packages()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let found: Vec<&PathBuf> = all.iter().filter(|path| matches(path)).collect();
    assert_eq!(found.len(), 1, "{start}*{end} in {all:?}");
    found[0].clone()
}

/// Directory of all packages.
fn packages() -> PathBuf {
    let root = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("packages");
    fs::create_dir_all(&root).unwrap();
    // Tests run at the same time, each in its own process.
    let lock = File::create(root.join("lock")).unwrap();
    lock.lock().unwrap();
    let program = binary("ostler");
    let made = root.join(age_of(&program));
    if made.is_dir() {
        return made;
    }
    let unfinished = root.join("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../scripts/package");
    let output =
        Command::new(script).arg(program).arg(&unfinished).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::rename(unfinished, &made).unwrap();
    made
}

/// Name for a build of a program.
fn age_of(program: &Path) -> String {
    let written = fs::metadata(program).unwrap().modified().unwrap();
    format!("of-{}", written.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos())
}

/// Runs a command to its end and asserts that it succeeds.
pub(crate) fn install(command: &mut Command) {
    let mut run = Launched::start(command.stdin(Stdio::null()));
    let status = run.wait_exit(INSTALL);
    assert!(status.success(), "{command:?}: {status}: {}", run.stderr());
}

/// A fresh directory of the test.
pub(crate) fn fresh(stage: &Stage, name: &str) -> PathBuf {
    let path = stage.sandbox.file(name);
    fs::create_dir(&path).unwrap();
    path
}
