//! Event loop of `ostler run`: what ends the server, and when this process may exit.
//!
//! The end begins with a signal, the end of stdin, the death of the client, or the exit of the server. From then on a deadline runs:
//! the grace and a margin, extended while a container engine still removes containers. The process exits when the guardian has
//! proven that nothing is left, or at the deadline, when the guardian continues alone. If the guardian dies, this process cleans up.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use ostler::backend::Whereabouts;
use ostler::{EngineState, Event, Instance, Outcome, Refusal, RemovedContainer, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::SIGKILL;

use super::input::Input;
use crate::out::say;
use crate::parents::Parents;
use crate::requests::Requests;
use crate::sweep;

/// Wait for the proof, after the grace. The guardian itself has no limit.
const PROOF_MARGIN: Duration = Duration::from_millis(300);
/// Further wait for an engine that has not answered yet.
const ENGINE_ANSWER: Duration = Duration::from_secs(1);
/// Further wait for an engine that answers, and still has containers.
const ENGINE_WORK: Duration = Duration::from_secs(10);

pub(super) enum End {
    Refused(Refusal),
    Status(ExitStatus),
}

pub(super) struct Wrapper {
    name: String,
    instance: Instance,
    input: Input,
    parents: Parents,
    requests: Requests,
    grace: Duration,
    /// When this process exits without proof, not counting engines; set when the end begins.
    deadline: Option<Instant>,
    /// State of the container engine during removal, if there may be containers.
    engine: Option<EngineState>,
    status: Option<ExitStatus>,
}

/// Why `poll` returned.
struct Woken {
    hung_up: bool,
    orphaned: bool,
    requested: bool,
}

impl Wrapper {
    pub(super) fn new(
        name: String,
        instance: Instance,
        input: Input,
        parents: Parents,
        requests: Requests,
        grace: Duration,
    ) -> Self {
        let (deadline, engine, status) = (None, None, None);
        Self { name, instance, input, parents, requests, grace, deadline, engine, status }
    }

    pub(super) fn watch(mut self, verbose: bool) -> End {
        loop {
            match self.instance.next_event() {
                Ok(Some(Event::Started { whereabouts, level })) => {
                    sweep::begin();
                    if let Some(level) = level.filter(|_| verbose) {
                        self.say(&format!("started as {whereabouts}, containment {level}"));
                    }
                }
                Ok(Some(Event::Refused(refusal))) => {
                    see_off(self.instance);
                    return End::Refused(refusal);
                }
                Ok(Some(Event::Exited(status))) => self.server_exited(status),
                Ok(Some(Event::Remaining(residue))) => {
                    self.say(&format!("not gone yet: {residue}"));
                }
                Ok(Some(Event::Exceeded(excess))) => self.say(&excess.to_string()),
                Ok(Some(Event::Unfollowed(reason))) => {
                    self.say(&format!("its containers, if any, are not followed: {reason}"));
                }
                Ok(Some(Event::Removed(container))) => self.removed(&container),
                Ok(Some(Event::Clearing(state))) => self.engine = Some(state),
                Ok(Some(Event::Empty(_))) => return self.end(),
                Ok(Some(Event::GuardianLost)) | Err(_) => return self.rescue(),
                // Events of remote instances.
                Ok(Some(_)) => {}
                Ok(None) if self.is_overdue() => return self.leave(),
                Ok(None) => self.wait(),
            }
        }
    }

    /// Waits for one event and passes it on as an order to the guardian.
    fn wait(&mut self) {
        // The loop repeats an interrupted or failed wait.
        let Ok(woken) = self.poll() else { return };
        if woken.requested {
            (0..self.requests.take()).for_each(|_| self.asked_to_end());
        }
        if woken.hung_up {
            self.input.close();
            self.stop(Step::Closing);
        }
        if woken.orphaned {
            self.parents.forget();
            self.stop(if self.input.hangs_up() { Step::Closing } else { Step::Asking });
        }
    }

    fn poll(&self) -> io::Result<Woken> {
        let mut fds = vec![PollFd::new(&self.instance, PollFlags::IN), self.requests.poll_fd()];
        let input = self.input.poll_fd().map(|fd| push(&mut fds, fd));
        let parents = fds.len();
        fds.extend(self.parents.poll_fds());
        let left = self.leave_at().map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        poll(&mut fds, left.as_ref())?;
        let happened = |index: usize| !fds[index].revents().is_empty();
        Ok(Woken {
            requested: happened(1),
            hung_up: input.is_some_and(happened),
            orphaned: (parents..fds.len()).any(happened),
        })
    }

    /// The first signal asks the server to end, each further one skips a step. The last step is the wait for an engine.
    fn asked_to_end(&mut self) {
        match self.deadline {
            None => self.stop(Step::Asking),
            Some(at) if at <= Instant::now() => self.engine = None,
            Some(_) => self.instance.hurry(),
        }
    }

    fn stop(&mut self, step: Step) {
        self.deadline.get_or_insert_with(|| Instant::now() + self.grace + PROOF_MARGIN);
        self.instance.stop(step);
    }

    /// Records the status. The guardian ends what the server left without an order.
    fn server_exited(&mut self, status: ExitStatus) {
        self.status = Some(status);
        self.input.close();
        self.deadline.get_or_insert_with(|| Instant::now() + self.grace + PROOF_MARGIN);
    }

    /// Reports the removal of a detached container, which the user may have wanted to keep.
    fn removed(&self, container: &RemovedContainer) {
        let RemovedContainer { id, image, command } = container;
        let id: String = id.chars().take(12).collect();
        self.say(&format!(
            "removed container {id} ({image}: {command}), which was started in the background"
        ));
    }

    /// The deadline, extended for an engine that answers.
    fn leave_at(&self) -> Option<Instant> {
        let longer = match self.engine {
            None | Some(EngineState::Silent | EngineState::Clear) => Duration::ZERO,
            Some(EngineState::Asked) => ENGINE_ANSWER,
            Some(EngineState::Answering) => ENGINE_WORK,
        };
        self.deadline.map(|at| at + longer)
    }

    fn is_overdue(&self) -> bool {
        self.leave_at().is_some_and(|at| at <= Instant::now())
    }

    fn leave(self) -> End {
        let guardian = self.instance.whereabouts().and_then(Whereabouts::guardian);
        let guardian = guardian.map_or(String::new(), |guardian| format!(" ({})", guardian.pid));
        self.say(&match self.engine {
            None | Some(EngineState::Clear) => {
                format!("not everything is gone yet; its guardian{guardian} continues")
            }
            Some(EngineState::Asked | EngineState::Answering | EngineState::Silent) => format!(
                "its containers are unverified; its guardian{guardian} continues, and `ostler reap` \
                 shows what is left"
            ),
        });
        self.end()
    }

    fn rescue(self) -> End {
        let Self { name, instance, status, .. } = self;
        let left = match instance.rescue() {
            Outcome::Gone(_) => String::new(),
            Outcome::Unverified(residue) => format!("; there may be left: {residue}"),
        };
        say(format_args!("{name}: its guardian was killed, so the server was ended{left}"));
        End::Status(status.unwrap_or_else(killed))
    }

    fn end(self) -> End {
        see_off(self.instance);
        End::Status(self.status.unwrap_or_else(killed))
    }

    fn say(&self, message: &str) {
        say(format_args!("{}: {message}", self.name));
    }
}

/// Reaps the guardian, so that none is visible after this process.
fn see_off(instance: Instance) {
    if let Some(guardian) = instance.part() {
        guardian.reap();
    }
}

/// Status of a server that was killed and whose real status is unknown.
fn killed() -> ExitStatus {
    ExitStatus::from_raw(SIGKILL)
}

fn push<'fd>(fds: &mut Vec<PollFd<'fd>>, fd: PollFd<'fd>) -> usize {
    fds.push(fd);
    fds.len() - 1
}
