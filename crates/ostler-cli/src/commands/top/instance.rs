//! Instances as `ostler top` shows them. All texts are free of hidden characters.

use std::collections::HashMap;
use std::fs;
use std::time::Instant;

use ostler::{InstanceId, View};
use ostler_gateway::admin::InstanceLine;
use ostler_gateway::front::GatewaySocket;
use serde_json::Value;

use crate::commands::ps::{self, Elsewhere};
use crate::page::cell;
use crate::{render, states};

/// Digits of an instance id that are shown.
const SHORT_ID: usize = 8;

/// One instance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Instance {
    /// Distinguishes it from all others, over refreshes.
    pub(super) key: String,
    /// Id in the ledger, once it has one.
    pub(super) id: Option<InstanceId>,
    pub(super) server: String,
    pub(super) state: String,
    pub(super) sessions: Option<usize>,
    pub(super) calls: Option<usize>,
    /// Resident memory, in bytes.
    pub(super) memory: Option<u64>,
    /// Share of one processor since the last refresh, in percent.
    pub(super) cpu: Option<f64>,
    /// Age, in milliseconds.
    pub(super) age: u64,
    pub(super) pid: String,
    pub(super) client: String,
    /// Further facts: name and value.
    pub(super) facts: Vec<(&'static str, String)>,
    /// Its processes, indented.
    pub(super) tree: Vec<String>,
    /// The gateway that holds it, and its number there; `None` under `ostler run`.
    pub(super) home: Option<Home>,
}

/// Where a gateway knows an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) socket: GatewaySocket,
    pub(super) number: u64,
}

impl Instance {
    /// Start of the id, or the number in the gateway.
    pub(super) fn name(&self) -> String {
        match (&self.id, &self.home) {
            (Some(id), _) => id.to_string().chars().take(SHORT_ID).collect(),
            (None, Some(home)) => format!("#{}", home.number),
            (None, None) => "-".into(),
        }
    }

    /// An instance with a process on this machine.
    pub(super) fn here(view: &View, gateway: Option<(&GatewaySocket, &InstanceLine)>) -> Self {
        let line = gateway.map(|(_, line)| line);
        let tree = view
            .tree
            .iter()
            .map(|branch| format!("{}{}", "  ".repeat(branch.depth.min(20)), cell(&branch.text)));
        let level = view.containment.map(|level| level.to_string());
        let owner = format!("{} ({})", view.owner.program, view.owner.process.pid);
        let mut facts = vec![("command", view.program.clone()), ("owner", owner)];
        facts.extend(level.map(|level| ("containment", level)));
        Self {
            key: view.instance.to_string(),
            id: Some(view.instance),
            server: cell(&view.name),
            state: states::true_state(view, line),
            memory: Some(view.rss),
            age: render::milliseconds_since(view.started_at),
            pid: view.handle.clone().unwrap_or_else(|| "-".into()),
            client: cell(&ps::parent(view)),
            facts: facts.into_iter().map(|(name, value)| (name, cell(&value))).collect(),
            tree: tree.collect(),
            ..Self::default()
        }
        .with(gateway)
    }

    /// An instance of a remote server.
    pub(super) fn elsewhere(remote: &Elsewhere, socket: &GatewaySocket) -> Self {
        let Elsewhere { instance, name, state, gateway: line, .. } = remote;
        let place = line.place.clone().unwrap_or_default();
        Self {
            key: format!("{} {}", socket.path().display(), line.number),
            id: *instance,
            server: cell(name),
            state: state.clone(),
            age: line.age,
            pid: "-".into(),
            facts: vec![("place", cell(&place))],
            ..Self::default()
        }
        .with(Some((socket, line)))
    }

    /// The same with what its gateway knows.
    fn with(mut self, gateway: Option<(&GatewaySocket, &InstanceLine)>) -> Self {
        let Some((socket, line)) = gateway else { return self };
        self.home = Some(Home { socket: socket.clone(), number: line.number });
        self.sessions = Some(line.leases.len());
        self.calls = Some(line.calls);
        self.client = cell(&ps::clients(line));
        let facts = [
            ("shared by", line.key.clone()),
            ("leases", line.leases.join(", ")),
            ("restarts", line.restarts.to_string()),
            ("stopping because", line.cause.clone().unwrap_or_default()),
        ];
        let facts = facts.into_iter().filter(|(_, value)| !value.is_empty());
        self.facts.extend(facts.map(|(name, value)| (name, cell(&value))));
        self
    }
}

/// Processor time of instances, to show its use between refreshes.
#[derive(Debug)]
pub(super) struct Meter {
    at: Instant,
    /// Clock ticks that the processes of each instance have used.
    used: HashMap<InstanceId, u64>,
}

impl Meter {
    pub(super) fn new() -> Self {
        Self { at: Instant::now(), used: HashMap::new() }
    }

    /// Reads the processor time of all instances; the result is the use since the last reading, in percent.
    pub(super) fn read(&mut self, views: &[View]) -> HashMap<InstanceId, f64> {
        let seconds = self.at.elapsed().as_secs_f64();
        let used: HashMap<InstanceId, u64> =
            views.iter().map(|view| (view.instance, ticks_of(view))).collect();
        #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
        let per_second = rustix::param::clock_ticks_per_second() as f64;
        let percent = used.iter().filter_map(|(id, ticks)| {
            #[expect(clippy::cast_precision_loss, reason = "two digits are shown")]
            let grown = ticks.saturating_sub(*self.used.get(id)?) as f64;
            Some((*id, 100.0 * grown / per_second / seconds.max(0.001)))
        });
        let percent = percent.collect();
        (self.at, self.used) = (Instant::now(), used);
        percent
    }
}

/// Clock ticks that the living processes of an instance have used.
fn ticks_of(view: &View) -> u64 {
    let processes = view.fields.get("processes").and_then(Value::as_array);
    let pids = processes.into_iter().flatten().filter_map(|process| process["pid"].as_i64());
    pids.filter_map(ticks_of_process).sum()
}

/// User and system time of a process, from `/proc/PID/stat`.
fn ticks_of_process(pid: i64) -> Option<u64> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    Some(fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?)
}
