//! One host, one way to its server, one end.

use std::fmt::{self, Display, Formatter};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::scene::Scene;
use super::{End, Host, Left, Way};
use crate::fake_model::Afterwards;

/// The server ignores the end of its input, and has a child in its own session, as a browser is.
const SERVER: [&str; 2] = ["--ignore-eof", "--setsid-child"];
/// Argument of the tool call, which the server returns.
const MARKER: &str = "through-and-back";
/// Delays after the end of the host at which survivors are counted.
pub const MOMENTS: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(15), Duration::from_secs(45)];
/// From this moment on, remaining instances need a reason.
const WITH_REASON: usize = 1;

/// Interval of scans of the process table.
const STEP: Duration = Duration::from_millis(200);

/// One combination of host, way and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Cell {
    /// The host.
    pub host: Host,
    /// How it reaches its server.
    pub way: Way,
    /// How it ends.
    pub end: End,
}

/// A cell whose host has ended, or was told to.
#[derive(Debug)]
pub struct Ended {
    cell: Cell,
    scene: Scene,
    /// Whether the result of the server's tool reached the model.
    pub has_called: bool,
    at: Instant,
}

/// Result of a cell.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Outcome {
    /// The cell.
    pub cell: Cell,
    /// The version of the host.
    pub version: String,
    /// Whether the result of the server's tool reached the model.
    pub has_called: bool,
    /// Number of survivors at each of [`MOMENTS`].
    pub left: [Left; MOMENTS.len()],
    /// Output of `ostler ps` for the instances that were left at the second moment.
    pub reasons: Vec<String>,
}

impl Cell {
    /// Starts the host, waits for the tool call, and ends the host.
    pub fn begin(self) -> Ended {
        let after = if self.end == End::Exit { Afterwards::Finish } else { Afterwards::Stay };
        let mut scene = Scene::new(self.host, &SERVER, json!({ "message": MARKER }), after);
        scene.start(self.way, self.end == End::HangUp);
        let has_called = scene.wait_for_call(MARKER);
        match self.end {
            End::Exit => scene.wait_exit(),
            End::Term => scene.signal(Signal::TERM),
            End::Kill => scene.signal(Signal::KILL),
            End::HangUp => scene.hang_up(),
        }
        Ended { cell: self, scene, has_called, at: Instant::now() }
    }
}

impl Ended {
    /// Number of survivors now.
    pub fn left(&self) -> Left {
        Left::now(&self.scene.stage)
    }

    /// Waits until nothing is left. Instances that are left at the second of [`MOMENTS`] need a reason, and none may be left
    /// at the last.
    pub fn expect_nothing_left(&self) {
        let [_, with_reason, last] = MOMENTS;
        let mut has_reason = false;
        while !self.left().is_clean() {
            let age = self.at.elapsed();
            assert!(age < last, "{self}");
            if age >= with_reason && !has_reason {
                has_reason = !self.scene.instances().is_empty();
                assert!(has_reason || self.left().is_clean(), "without a reason: {self}");
            }
            sleep(STEP);
        }
    }

    /// Counts survivors at each of [`MOMENTS`], and ends them.
    pub fn watch(mut self) -> Outcome {
        let mut reasons = Vec::new();
        let mut left = [Left::default(); MOMENTS.len()];
        for (index, moment) in MOMENTS.into_iter().enumerate() {
            sleep(moment.saturating_sub(self.at.elapsed()));
            // Reaps the host, which would count as a survivor otherwise.
            let _ = self.scene.exit();
            left[index] = self.left();
            if index == WITH_REASON && !left[index].is_clean() {
                reasons = self.scene.instances().iter().map(reason).collect();
            }
        }
        let Self { cell, has_called, .. } = self;
        let version = cell.host.installed().version;
        Outcome { cell, version, has_called, left, reasons }
    }
}

/// Reason why an instance still runs, according to `ostler ps`.
fn reason(instance: &Value) -> String {
    let gateway = &instance["gateway"];
    let leases = gateway["leases"].as_array().map_or(0, Vec::len);
    let key = gateway["key"].as_str().unwrap_or("no gateway");
    format!("{key}, {leases} leases, {}", gateway["state"].as_str().unwrap_or("unknown"))
}

impl Display for Cell {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}, {}", self.host, self.way, self.end)
    }
}

impl Display for Ended {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let called = if self.has_called { "came through" } else { "did not come through" };
        writeln!(f, "{}: the call {called}", self.cell)?;
        writeln!(f, "left:\n{}", self.scene.stage.sandbox.survivors())?;
        for instance in self.scene.instances() {
            writeln!(f, "ostler ps: {}", reason(&instance))?;
        }
        write!(f, "the host said:\n{}", self.scene.said())
    }
}

impl Display for Outcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let called = if self.has_called { "call" } else { "NO call" };
        write!(f, "{}: {called}, left {}", self.cell, self.counts())?;
        if !self.reasons.is_empty() {
            write!(f, " ({})", self.reasons.join("; "))?;
        }
        Ok(())
    }
}

impl Outcome {
    /// Number of survivors at each moment, in a few characters.
    pub fn counts(&self) -> String {
        self.left.map(|left| left.to_string()).join(" ")
    }
}
