//! Files in which the stub reports its own state.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use ostler_testkit::{is_alive, pids_in};
use serde_json::{Value, json};

use crate::args::ServerArgs;

/// The reports of the state that the stub was born with; before anything else is opened or changed.
pub(crate) fn on_start(args: &ServerArgs) -> io::Result<()> {
    let descriptors = args.list_fds.is_some().then(descriptors).transpose()?;
    if let (Some(path), Some(lines)) = (&args.list_fds, descriptors) {
        replace(path, lines.join("\n").as_bytes())?;
    }
    if let Some(path) = &args.dump {
        replace(path, dump()?.to_string().as_bytes())?;
    }
    Ok(())
}

/// One write of one line, so that concurrent appenders do not mix.
pub(crate) fn append_pid(path: &Path) -> io::Result<()> {
    append(path, &std::process::id().to_string())
}

/// Appends how many of the stubs in this census are alive. Of two stubs that start at the same time, at least one counts
/// the other, because each adds its pid before it counts.
pub(crate) fn census(path: &Path) -> io::Result<()> {
    append_pid(path)?;
    let alive = pids_in(path).into_iter().filter(|pid| is_alive(*pid)).count();
    append(&path.with_extension("alive"), &alive.to_string())
}

/// One line, in one write.
pub(crate) fn append(path: &Path, line: &str) -> io::Result<()> {
    File::options().create(true).append(true).open(path)?.write_all(format!("{line}\n").as_bytes())
}

/// Creates the ready file.
pub(crate) fn ready(path: &Path) -> io::Result<()> {
    replace(path, format!("{}\n", std::process::id()).as_bytes())
}

/// Written to a temporary file and renamed, so that readers see all of it.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(format!(".{}", std::process::id()));
    let aside = PathBuf::from(aside);
    fs::write(&aside, content)?;
    fs::rename(&aside, path)
}

/// `number target` of each open descriptor, without the one that reads the list.
fn descriptors() -> io::Result<Vec<String>> {
    let numbers: Vec<i32> = fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    let mut found: Vec<(i32, PathBuf)> = numbers
        .into_iter()
        .filter_map(|number| Some((number, fs::read_link(format!("/proc/self/fd/{number}")).ok()?)))
        .collect();
    found.sort();
    Ok(found.into_iter().map(|(number, target)| format!("{number} {}", target.display())).collect())
}

fn dump() -> io::Result<Value> {
    let status = fs::read_to_string("/proc/self/status")?;
    let argv: Vec<String> =
        std::env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let env: BTreeMap<String, String> = std::env::vars_os()
        .map(|(name, value)| {
            (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned())
        })
        .collect();
    Ok(json!({
        "argv": argv,
        "env": env,
        "cwd": std::env::current_dir()?.to_string_lossy(),
        "pid": std::process::id(),
        "ppid": rustix::process::getppid().map_or(0, |pid| pid.as_raw_nonzero().get()),
        "pgid": rustix::process::getpgrp().as_raw_nonzero().get(),
        "sid": rustix::process::getsid(None)?.as_raw_nonzero().get(),
        "uid": rustix::process::getuid().as_raw(),
        // The Rust runtime ignores SIGPIPE before main, so that bit (0x1000) is always set here.
        "sigign": field(&status, "SigIgn:"),
        "sigblk": field(&status, "SigBlk:"),
        "umask": field(&status, "Umask:"),
    }))
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}
