//! The npm packages, with npm, npx and pnpm.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use ostler_testkit::Stage;

use crate::artifacts::{fresh, install, package};
use crate::kills::use_and_kill;

fn launcher() -> PathBuf {
    package("ostler-mcp-0", ".tgz")
}

fn program() -> PathBuf {
    package("ostler-mcp-linux-", ".tgz")
}

/// A package manager that asks no registry.
fn offline(stage: &Stage, manager: impl AsRef<std::ffi::OsStr>, directory: &Path) -> Command {
    let mut command = stage.command(manager);
    command.current_dir(directory).env("npm_config_offline", "true");
    command.env("npm_config_cache", stage.sandbox.file("npm-cache"));
    command.env("npm_config_update_notifier", "false").env("npm_config_fund", "false");
    command
}

fn npm_install(stage: &Stage, directory: &Path, words: &[&str]) {
    let mut npm = offline(stage, "npm", directory);
    install(npm.args(["install", "--no-audit"]).args(words).args([launcher(), program()]));
}

#[test]
fn a_program_that_npm_installed_leaves_nothing() {
    let stage = Stage::leaf();
    let directory = fresh(&stage, "npm");
    npm_install(&stage, &directory, &[]);
    use_and_kill(&stage, || stage.command(directory.join("node_modules/.bin/ostler-mcp")));
}

#[test]
fn a_program_that_npm_installed_globally_leaves_nothing() {
    let stage = Stage::leaf();
    let prefix = fresh(&stage, "prefix");
    npm_install(&stage, &prefix, &["--global", "--prefix", prefix.to_str().unwrap()]);
    use_and_kill(&stage, || stage.command(prefix.join("bin/ostler")));
}

#[test]
fn a_program_behind_npx_leaves_nothing() {
    let stage = Stage::leaf();
    let directory = fresh(&stage, "npx");
    npm_install(&stage, &directory, &[]);
    use_and_kill(&stage, || {
        let mut npx = offline(&stage, "npx", &directory);
        npx.args(["--no", "ostler-mcp", "--"]);
        npx
    });
}

#[test]
fn a_program_that_pnpm_installed_leaves_nothing() {
    let stage = Stage::leaf();
    let directory = fresh(&stage, "pnpm");
    let tools = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/test-tools");
    let pnpm = tools.canonicalize().unwrap().join("pnpm/node_modules/.bin/pnpm");
    let store = stage.sandbox.file("pnpm-store");
    // pnpm looks the platform's package up by name, so it is told where it is.
    let overrides = format!(
        r#"{{"pnpm":{{"overrides":{{"{}":"file:{}"}}}}}}"#,
        name_of(&program()),
        program().display()
    );
    std::fs::write(directory.join("package.json"), overrides).unwrap();
    let mut command = offline(&stage, &pnpm, &directory);
    install(command.args(["add", "--offline", "--store-dir"]).arg(store).arg(launcher()));
    use_and_kill(&stage, || {
        let mut exec = offline(&stage, &pnpm, &directory);
        exec.args(["exec", "ostler-mcp"]);
        exec
    });
    use_and_kill(&stage, || stage.command(directory.join("node_modules/.bin/ostler")));
}

/// Name of a package, from the name of its file.
fn name_of(file: &Path) -> String {
    let name = file.file_stem().unwrap().to_str().unwrap();
    name.rsplit_once('-').unwrap().0.to_owned()
}

#[test]
fn without_the_program_of_the_platform_the_launcher_says_what_to_do() {
    let stage = Stage::leaf();
    let directory = fresh(&stage, "omitted");
    let mut npm = offline(&stage, "npm", &directory);
    install(npm.args(["install", "--no-audit", "--omit=optional"]).arg(launcher()));
    let mut command = stage.command(directory.join("node_modules/.bin/ostler"));
    let output = command.arg("--version").stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("is not installed; install ostler-mcp again without --omit=optional"),
        "{said}"
    );
}
