//! Starts the descendants, and returns only when each of them is up.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::args::{IdleArgs, ServerArgs};

/// Byte that a descendant writes to descriptor 0, the writing end of a pipe, when it is up.
pub(crate) const UP: &[u8] = b"up\n";

/// Descendants that need one of our descriptors to stay open.
pub(crate) struct Family {
    /// Its stdin ends with this process, as that of any server whose host dies.
    _nested: Option<Child>,
}

/// Whether a descendant keeps our stdout and stderr.
#[derive(Clone, Copy)]
enum Output {
    Null,
    Kept,
}

impl Family {
    pub(crate) fn start(args: &ServerArgs) -> io::Result<Self> {
        start_children(args)?;
        start_daemons(args)?;
        start_zombies(args)?;
        let nested = args.nested.then(|| start_nested(args)).transpose()?;
        Ok(Self { _nested: nested })
    }
}

/// The path and not `/proc/self/exe`, so that descendants have the name of the stub.
pub(crate) fn own_path() -> PathBuf {
    match std::env::current_exe() {
        Ok(path) if path.exists() => path,
        _ => PathBuf::from("/proc/self/exe"),
    }
}

impl IdleArgs {
    fn plain(args: &ServerArgs) -> Self {
        Self {
            pid_file: args.pid_file.clone(),
            ignore_term: args.descendants_ignore_term,
            setsid: false,
            daemon: false,
            orphan_of: None,
            hop_ms: None,
            die_after_ms: None,
            lifetime: args.lifetime,
        }
    }

    /// Back to a command line.
    pub(crate) fn to_args(&self) -> Vec<OsString> {
        let mut line = vec![OsString::from("idle")];
        for (on, name) in [
            (self.ignore_term, "--ignore-term"),
            (self.setsid, "--setsid"),
            (self.daemon, "--daemon"),
        ] {
            if on {
                line.push(name.into());
            }
        }
        let numbers = [
            ("--orphan-of", self.orphan_of.map(u64::from)),
            ("--hop-ms", self.hop_ms),
            ("--die-after-ms", self.die_after_ms),
            ("--lifetime", Some(self.lifetime.into())),
        ];
        for (name, number) in numbers {
            if let Some(number) = number {
                line.extend([name.into(), number.to_string().into()]);
            }
        }
        if let Some(path) = &self.pid_file {
            line.extend(["--pid-file".into(), path.clone().into()]);
        }
        line
    }
}

fn start_children(args: &ServerArgs) -> io::Result<()> {
    let plain = IdleArgs::plain(args);
    if args.child {
        start(args, &plain, Output::Null)?;
    }
    let leader = IdleArgs { setsid: true, ..plain };
    if args.setsid_child {
        start(args, &leader, Output::Null)?;
    }
    if args.hold_stdout {
        start(args, &leader, Output::Kept)?;
    }
    Ok(())
}

fn start_daemons(args: &ServerArgs) -> io::Result<()> {
    let daemon = IdleArgs { daemon: true, ..IdleArgs::plain(args) };
    for _ in 0..args.daemons + u32::from(args.double_fork) {
        start_and_reap(args, &daemon)?;
    }
    if args.hop_ms.is_some() {
        start_and_reap(args, &IdleArgs { hop_ms: args.hop_ms, ..daemon.clone() })?;
    }
    let mortal = IdleArgs { die_after_ms: Some(args.orphan_ms), ..daemon };
    for _ in 0..args.orphan_zombies {
        start_and_reap(args, &mortal)?;
    }
    Ok(())
}

/// The intermediate process of a double fork must not stay as a zombie of ours.
fn start_and_reap(args: &ServerArgs, idle: &IdleArgs) -> io::Result<()> {
    start(args, idle, Output::Null)?.wait().map(drop)
}

fn start_zombies(args: &ServerArgs) -> io::Result<()> {
    let mortal = IdleArgs { pid_file: None, die_after_ms: Some(0), ..IdleArgs::plain(args) };
    for _ in 0..args.zombies {
        let child = start(args, &mortal, Output::Null)?;
        if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
            waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT)?;
        }
    }
    Ok(())
}

fn start(args: &ServerArgs, idle: &IdleArgs, output: Output) -> io::Result<Child> {
    let (reader, writer) = io::pipe()?;
    let mut command = Command::new(own_path());
    command.args(idle.to_args()).stdin(writer);
    if let Output::Null = output {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    if args.empty_env {
        command.env_clear();
    }
    let child = command.spawn()?;
    // The command owns a copy of the writing end, without which a failed descendant would show as an endless wait.
    drop(command);
    let mut said = Vec::new();
    BufReader::new(reader).read_until(b'\n', &mut said)?;
    if said == UP { Ok(child) } else { Err(io::Error::other("a descendant did not come up")) }
}

/// Another server, whose host we are: spoken to over pipes, up when it has answered.
fn start_nested(args: &ServerArgs) -> io::Result<Child> {
    let mut command = Command::new(own_path());
    command
        .args(["--ignore-eof", "--child", "--setsid-child", "--double-fork", "--lifetime"])
        .arg(args.lifetime.to_string())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    if let Some(path) = &args.pid_file {
        command.arg("--pid-file").arg(path);
    }
    if args.descendants_ignore_term {
        command.args(["--ignore-term", "--descendants-ignore-term"]);
    }
    if args.empty_env {
        command.env_clear();
    }
    let mut child = command.spawn()?;
    if let (Some(stdin), Some(stdout)) = (&mut child.stdin, &mut child.stdout) {
        stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}\n")?;
        if BufReader::new(stdout).read_until(b'\n', &mut Vec::new())? == 0 {
            return Err(io::Error::other("the nested server did not come up"));
        }
    }
    Ok(child)
}
