//! `cargo install` from a checkout.

use std::path::PathBuf;
use std::process::Command;

use ostler_testkit::Stage;

use crate::artifacts::install;
use crate::kills::use_and_kill;

/// In the profile of the tests, whose dependencies are built already.
#[test]
fn a_program_that_cargo_installed_leaves_nothing() {
    let stage = Stage::leaf();
    let root = stage.sandbox.file("root");
    let package = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    // `target/tmp` is below the build directory of the running test.
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("..").canonicalize().unwrap();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["install", "--offline", "--locked", "--no-track", "--profile", "checks"]);
    install(
        cargo.arg("--path").arg(package).arg("--root").arg(&root).arg("--target-dir").arg(target),
    );
    use_and_kill(&stage, || stage.command(root.join("bin/ostler")));
}
