//! A pseudo-terminal: what a program shows on it can be read, and keys can be typed.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags, fcntl_setfl, open};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

/// Our side of a terminal. Dropping it is a hang-up for the session that has it as its controlling terminal.
#[derive(Debug)]
pub struct Terminal {
    ours: File,
    shown: Vec<u8>,
}

impl Terminal {
    /// A new one, with its other side as the command's stdin, stdout and stderr. The command has to start with
    /// `setsid --ctty`, which makes it the controlling terminal.
    pub fn attach(command: &mut Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).expect("a terminal");
        grantpt(&ours).expect("a terminal");
        unlockpt(&ours).expect("a terminal");
        let name = ptsname(&ours, Vec::new()).expect("the terminal's name");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = File::from(open(name, flags, Mode::empty()).expect("the terminal"));
        fcntl_setfl(&ours, OFlags::NONBLOCK).expect("a terminal that does not wait");
        let copy = || Stdio::from(theirs.try_clone().expect("a descriptor"));
        command.stdin(copy()).stdout(copy()).stderr(copy());
        Self { ours: File::from(ours), shown: Vec::new() }
    }

    /// Sets its size; the foreground process group gets SIGWINCH.
    pub fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.ours, size).expect("the terminal's size");
    }

    /// Its modes, which both sides share.
    pub fn modes(&self) -> Termios {
        tcgetattr(&self.ours).expect("the terminal's modes")
    }

    /// Types these keys.
    pub fn type_keys(&mut self, keys: &str) {
        self.ours.write_all(keys.as_bytes()).expect("a terminal that takes keys");
    }

    /// Reads the output of the terminal, so that its writers do not block.
    pub fn read(&mut self) {
        let mut chunk = [0; 4096];
        // Errors mean that there is nothing to read, or that the other side is closed.
        while let Ok(count @ 1..) = self.ours.read(&mut chunk) {
            self.shown.extend_from_slice(&chunk[..count]);
        }
    }

    /// The whole output so far.
    pub fn bytes(&self) -> &[u8] {
        &self.shown
    }

    /// The whole output so far, as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.shown).into_owned()
    }
}
