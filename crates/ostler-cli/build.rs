//! Passes the commit and the target of this build to the program, for `ostler --version`.
//!
//! The commit comes from the first source that has one: the variable `OSTLER_COMMIT`, the file `packaging/commit` of an
//! archive made by `git archive`, the file that cargo adds to a published crate, or git. Without any of them the version
//! names the target only. Nothing else of the machine enters the build, so that it stays reproducible.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Digits of the commit that the version shows.
const SHOWN: usize = 12;

fn main() {
    let package = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = package.join("../..");
    println!("cargo:rerun-if-env-changed=OSTLER_COMMIT");
    println!("cargo:rerun-if-changed=build.rs");
    let commit = given()
        .or_else(|| archived(&root))
        .or_else(|| published(&package))
        .or_else(|| checked_out(&root));
    let mut parts = Vec::from_iter(commit.map(|commit| format!("commit {}", &commit[..SHOWN])));
    let target = env::var("TARGET").unwrap_or_default();
    let features = env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    let is_static = features.split(',').any(|feature| feature == "crt-static");
    parts.push(if is_static { format!("{target}, static") } else { target });
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    println!("cargo:rustc-env=OSTLER_VERSION={version} ({})", parts.join(", "));
}

/// The commit in a text, if it is one: at least [`SHOWN`] hexadecimal digits.
fn commit_in(text: &str) -> Option<String> {
    let commit = text.trim();
    let is_commit = commit.len() >= SHOWN && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then(|| commit.to_owned())
}

fn given() -> Option<String> {
    commit_in(&env::var("OSTLER_COMMIT").ok()?)
}

/// `git archive` fills the file in; in a checkout it has a placeholder.
fn archived(root: &Path) -> Option<String> {
    commit_in(&watched(&root.join("packaging/commit"))?)
}

/// Cargo packs `{"git": {"sha1": "..."}}` into published crates.
fn published(package: &Path) -> Option<String> {
    let text = watched(&package.join(".cargo_vcs_info.json"))?;
    let (_, rest) = text.split_once("\"sha1\"")?;
    commit_in(rest.split('"').nth(1)?)
}

/// Asks git, unless the sources only lie inside of another project's repository.
fn checked_out(root: &Path) -> Option<String> {
    let top = PathBuf::from(git(root, &["rev-parse", "--show-toplevel"])?);
    if fs::canonicalize(top).ok()? != fs::canonicalize(root).ok()? {
        return None;
    }
    // The log of HEAD grows with every commit and checkout.
    let log = PathBuf::from(git(
        root,
        &["rev-parse", "--path-format=absolute", "--git-path", "logs/HEAD"],
    )?);
    if log.exists() {
        println!("cargo:rerun-if-changed={}", log.display());
    }
    commit_in(&git(root, &["rev-parse", "HEAD"])?)
}

fn git(root: &Path, arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("-C").arg(root).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// The text of a file; cargo runs this script again when it changes.
fn watched(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    println!("cargo:rerun-if-changed={}", path.display());
    Some(text)
}
