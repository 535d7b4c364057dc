//! Runs a command of ostler's own in a fence, until no process of it is left.
//!
//! It works from a guardian, a porter or an owner. The launch is not recorded in a ledger. Instead, the command's
//! processes can carry the mark of an instance, so that a sweep of that instance finds them if everything is killed.

use std::io;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use crate::cgroup::Leaf;
use crate::event::Event;
use crate::fence::{Fence, ServerStdio, StartError};
use crate::id::InstanceId;
use crate::ladder::{Ladder, Step};
use crate::ledger::{Intent, PROCESS};
use crate::level::{Containment, Level};
use crate::limits::Limits;
use crate::outcome::{Outcome, Refusal, Residue};
use crate::places::hidden;
use crate::poll::readable;
use crate::roles::has_asked_for_its_role;
use crate::spec::ServerSpec;
use crate::terms::{Descriptors, GuardianProgram, Terms};
use crate::wire::guardian::Launch;

/// Time between SIGTERM and SIGKILL for processes that the command left behind.
const GRACE: Duration = Duration::from_millis(200);
/// Time limit for the end of all processes after SIGKILL.
const END: Duration = Duration::from_secs(5);

pub(super) struct FencedCommand<'a> {
    pub(super) spec: ServerSpec,
    pub(super) stdio: ServerStdio,
    /// The instance whose mark the command's processes carry.
    pub(super) mark: Option<InstanceId>,
    /// `Strict` is a minimum. Below that, the best available level of tree and leaf is used.
    pub(super) level: Level,
    pub(super) guardian: &'a GuardianProgram,
}

/// Runs a command in a fence of its own, and returns its exit status once no process of it is left. `None`: it was
/// killed because it did not exit within `limit`. The error is a text for people.
pub(super) fn run_fenced(
    order: FencedCommand<'_>,
    limit: Duration,
) -> Result<Option<ExitStatus>, String> {
    run(order, limit).map_err(|error| error.to_string())
}

#[derive(Debug, thiserror::Error)]
enum FencedError {
    #[error(transparent)]
    Start(#[from] StartError),
    #[error("{0}")]
    Refused(Refusal),
    #[error("its guardian was killed")]
    GuardianLost,
    #[error("{0} is left of it")]
    Remaining(Residue),
    #[error(transparent)]
    Control(#[from] io::Error),
}

fn run(order: FencedCommand<'_>, limit: Duration) -> Result<Option<ExitStatus>, FencedError> {
    let FencedCommand { spec, stdio, mark, level, guardian } = order;
    let id = InstanceId::random()?;
    let minimum = if level == Level::Strict { Level::Strict } else { Level::Tree };
    let limits = Limits { grace: GRACE, orphan_grace: GRACE, ..Limits::default() };
    let containment = Containment::AtLeast(minimum);
    let terms = Terms { containment, limits, guardian: guardian.clone(), ..Terms::default() };
    let mut fence = spawn(id, &spec.name, &terms)?;
    let intent = Intent { leaf: Leaf::place(id).ok(), ..Intent::new(id, &spec, PROCESS) };
    let launch = Launch {
        id: mark.unwrap_or(id),
        spec,
        leaf: intent.leaf.clone(),
        controls: Vec::new(),
        minimum,
        descriptors: Descriptors::StdioOnly,
        ladder: Ladder { close: Duration::ZERO, ask: GRACE },
        orphan_ladder: limits.orphan_ladder(),
        proof_limit: limits.proof,
        book: None,
        engine: None,
        log: None,
        hidden: hidden(minimum, None),
    };
    fence.tell(launch, &intent, stdio)?;
    let ended = await_end(&mut fence, limit);
    match ended {
        // Kills what is left here: no ledger entry leads a sweep to it.
        Err(FencedError::GuardianLost) => match fence.end_processes() {
            Outcome::Gone(_) => ended,
            Outcome::Unverified(residue) => Err(FencedError::Remaining(residue)),
        },
        ended => {
            if let Some(leaving) = fence.dismiss() {
                leaving.reap();
            }
            ended
        }
    }
}

/// Spawns the guardian, also from a process that is itself a guardian or a porter. A host that has never called
/// `run_if_asked` can't be executed as a guardian.
fn spawn(id: InstanceId, name: &str, terms: &Terms) -> Result<Fence, StartError> {
    if terms.guardian == GuardianProgram::Myself && !has_asked_for_its_role() {
        return Err(StartError::NoRole);
    }
    Fence::spawn_guarded(id, name, terms)
}

fn await_end(fence: &mut Fence, limit: Duration) -> Result<Option<ExitStatus>, FencedError> {
    let (mut deadline, mut status) = (Instant::now() + limit, None);
    let (mut is_late, mut is_stopped) = (false, false);
    loop {
        match fence.next_event()? {
            Some(Event::Exited(exit)) => status = Some(exit),
            Some(Event::Empty(_)) => return Ok(status.filter(|_| !is_late)),
            Some(Event::Refused(refusal)) => return Err(FencedError::Refused(refusal)),
            Some(Event::GuardianLost) => return Err(FencedError::GuardianLost),
            Some(Event::Remaining(residue)) => return Err(FencedError::Remaining(residue)),
            Some(_) => {}
            None => {
                let left = deadline.saturating_duration_since(Instant::now());
                if !readable(&*fence, left)? && left.is_zero() {
                    if is_stopped {
                        return Err(io::Error::from(io::ErrorKind::TimedOut).into());
                    }
                    (is_stopped, is_late, deadline) =
                        (true, status.is_none(), Instant::now() + END);
                    fence.stop(Step::Ending);
                }
            }
        }
    }
}
