//! A command of ostler's own that must not leave a fence: run to its end, with all that it has caused.

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

/// From TERM to KILL for processes that the command has left behind.
const GRACE: Duration = Duration::from_millis(200);
/// For all of it to be gone after KILL.
const END: Duration = Duration::from_secs(5);

/// What to run.
pub(super) struct Fenced<'a> {
    pub(super) spec: ServerSpec,
    pub(super) stdio: ServerStdio,
    /// The instance whose mark its processes carry, so that a sweep finds what nobody guards.
    pub(super) mark: Option<InstanceId>,
    /// A leaf is made wherever one can be had. Less than `strict` is not accepted if `strict` is asked for.
    pub(super) level: Level,
    pub(super) guardian: &'a GuardianProgram,
}

/// Runs a command in a fence of its own, and returns its status when no process of it is left. `None`: it did not
/// end within `limit`, and was killed. The error is for people.
pub(super) fn run_fenced(order: Fenced<'_>, limit: Duration) -> Result<Option<ExitStatus>, String> {
    run(order, limit).map_err(|error| error.to_string())
}

#[derive(Debug, thiserror::Error)]
enum NotRun {
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

fn run(order: Fenced<'_>, limit: Duration) -> Result<Option<ExitStatus>, NotRun> {
    let Fenced { spec, stdio, mark, level, guardian } = order;
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
        hidden: hidden(minimum, None),
    };
    fence.tell(launch, &intent, stdio)?;
    let ended = await_end(&mut fence, limit);
    match ended {
        // Ends what it has left; a sweep knows nothing of it.
        Err(NotRun::GuardianLost) => match fence.end_processes() {
            Outcome::Gone(_) => ended,
            Outcome::Unverified(residue) => Err(NotRun::Remaining(residue)),
        },
        ended => {
            if let Some(leaving) = fence.dismiss() {
                leaving.reap();
            }
            ended
        }
    }
}

/// Also from a process that is itself a guardian or a porter. A host that has never asked for its role can't be executed
/// as a guardian.
fn spawn(id: InstanceId, name: &str, terms: &Terms) -> Result<Fence, StartError> {
    if terms.guardian == GuardianProgram::Myself && !has_asked_for_its_role() {
        return Err(StartError::NoRole);
    }
    Fence::spawn_guarded(id, name, terms)
}

fn await_end(fence: &mut Fence, limit: Duration) -> Result<Option<ExitStatus>, NotRun> {
    let (mut deadline, mut status) = (Instant::now() + limit, None);
    let (mut is_late, mut is_stopped) = (false, false);
    loop {
        match fence.next_event()? {
            Some(Event::Exited(exit)) => status = Some(exit),
            Some(Event::Empty(_)) => return Ok(status.filter(|_| !is_late)),
            Some(Event::Refused(refusal)) => return Err(NotRun::Refused(refusal)),
            Some(Event::GuardianLost) => return Err(NotRun::GuardianLost),
            Some(Event::Remaining(residue)) => return Err(NotRun::Remaining(residue)),
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
