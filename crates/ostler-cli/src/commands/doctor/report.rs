//! Report of a trial: a line for each step as it ends, or one JSON object.

use std::path::PathBuf;
use std::process::ExitCode;

use ostler_gateway::admin::Failure;
use ostler_gateway::trial::{Step, Success, TrialError};
use serde::Serialize;

use crate::out::{self, Screen};
use crate::render;

/// Start of a cause that the name of the step says already.
const HANDSHAKE_FAILED: &str = "the handshake failed: ";

/// Steps of a trial, also the output of `--json`.
#[derive(Serialize)]
pub(super) struct Report {
    server: String,
    config: PathBuf,
    /// Whether all steps have succeeded.
    ok: bool,
    steps: Vec<Row>,
    /// Where steps are shown as they end; `None` for JSON.
    #[serde(skip)]
    screen: Option<Screen>,
}

/// A step that has ended.
#[derive(Serialize)]
struct Row {
    step: Step,
    ok: bool,
    #[serde(flatten)]
    success: Option<Success>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<Failure>,
}

impl Report {
    pub(super) fn new(server: &str, config: PathBuf, is_json: bool) -> Self {
        let screen = (!is_json).then(Screen::new);
        Self { server: server.to_owned(), config, ok: true, steps: Vec::new(), screen }
    }

    pub(super) fn succeed(&mut self, success: Success) {
        let step = success.step();
        self.show(step, &[describe(&success)], true);
        self.steps.push(Row { step, ok: true, success: Some(success), failure: None });
    }

    pub(super) fn fail(&mut self, error: TrialError) {
        let TrialError { step, failure } = error;
        self.ok = false;
        let cause = failure.cause.strip_prefix(HANDSHAKE_FAILED).unwrap_or(&failure.cause);
        let shown = Failure { cause: cause.to_owned(), ..failure.clone() };
        self.show(step, &render::failure(&shown), false);
        self.steps.push(Row { step, ok: false, success: None, failure: Some(failure) });
    }

    /// Marks the trial as failed although no step has.
    pub(super) fn interrupt(&mut self) {
        self.ok = false;
    }

    /// Prints the JSON object, if the steps were not shown.
    pub(super) fn finish(&self) -> ExitCode {
        if self.screen.is_some() { ExitCode::SUCCESS } else { out::json(self) }
    }

    fn show(&mut self, step: Step, lines: &[String], is_ok: bool) {
        let Some(screen) = &mut self.screen else { return };
        let mark = if is_ok { "ok" } else { "failed" };
        let first = lines.first().map_or("", String::as_str);
        let first = format!("{mark:<6}  {:<13}  {first}", name(step));
        for line in std::iter::once(&first).chain(lines.iter().skip(1)) {
            // A closed stdout does not stop the trial.
            let _ = screen.line(line);
        }
    }
}

fn name(step: Step) -> &'static str {
    match step {
        Step::Configuration => "configuration",
        Step::Program => "program",
        Step::Start => "start",
        Step::Handshake => "handshake",
        Step::Tools => "tools",
        Step::Stop => "stop",
    }
}

fn describe(success: &Success) -> String {
    match success {
        Success::Configured { config: path } | Success::Found { program: path } => {
            path.display().to_string()
        }
        Success::Started { pid, containment } => {
            let pid = pid.map_or("ended already".into(), |pid| format!("pid {pid}"));
            let level = containment.map(|level| format!(", containment {level}"));
            pid + &level.unwrap_or_default()
        }
        Success::Greeted { protocol, name, seconds } => {
            let name = name.as_deref().unwrap_or("unnamed");
            let took = if *seconds < 1.0 {
                format!("{:.0} ms", seconds * 1000.0)
            } else {
                format!("{seconds:.1} s")
            };
            format!("{name}, protocol {protocol}, ready after {took}")
        }
        Success::Listed { tools, hidden: 0 } => format!("{tools} listed"),
        Success::Listed { tools, hidden } => {
            format!("{tools} listed, {hidden} hidden by `tools` of its configuration")
        }
        Success::Stopped { proof } => format!("nothing is left: {proof}"),
    }
}
