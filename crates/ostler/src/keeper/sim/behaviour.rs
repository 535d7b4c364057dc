//! Behaviour of a simulated server, drawn once when it is started.

use std::time::Duration;

use crate::keeper::dice::Dice;

/// From the order to stop to KILL, in the simulation.
pub(super) const GRACE: Duration = Duration::from_millis(30);
/// From KILL until remaining processes are reported.
pub(super) const PROOF: Duration = Duration::from_millis(20);
/// How long processes that survive KILL stay.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// What a server does unless it is stopped. Times count from the start of its guardian unless stated
/// otherwise; `None` means never.
#[derive(Clone, Debug)]
pub(super) struct Behaviour {
    /// From the request to start until its guardian runs.
    pub(super) launch: Duration,
    pub(super) start: StartOutcome,
    pub(super) greeting: Greeting,
    /// Exits on its own.
    pub(super) exit: Option<Duration>,
    /// From the order to stop until it exits.
    pub(super) exit_delay: Duration,
    pub(super) cleanup: Cleanup,
    /// From its exit until its last lines on stderr are readable; `None`: a process that it left holds stderr open.
    pub(super) stderr: Option<Duration>,
    /// Its guardian is killed, with this result.
    pub(super) guardian: Option<(Duration, Rescue)>,
    /// From a request to the response.
    pub(super) answer: Option<Duration>,
    /// Sends a notification.
    pub(super) notify: Option<Duration>,
    /// Closes its output.
    pub(super) closes_output: Option<Duration>,
    /// Sends a line that exceeds the limit.
    pub(super) long_line: Option<Duration>,
    /// Stops reading its input.
    pub(super) stops_reading: Option<Duration>,
    /// Closes its input.
    pub(super) closes_input: Option<Duration>,
}

/// How its start ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartOutcome {
    /// The guardian cannot be started.
    Failed,
    /// The guardian cannot start the program.
    Refused(Duration),
    /// The program runs.
    Runs(Duration),
}

/// Its response to the handshake, after this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    Answered(Duration),
    Refused(Duration),
    Garbage(Duration),
    Never,
}

/// Time from its exit to the proof that nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cleanup {
    After(Duration),
    /// Processes survive KILL and end later.
    Lingers(Duration),
}

/// What the keeper finds after its guardian was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rescue {
    Gone(Duration),
    Unwatched(Duration),
    /// Its processes survive KILL.
    Stays(Duration),
}

/// How the servers of a schedule behave on the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviours {
    /// Without faults; each step takes this long.
    Regular(StepTimes),
    /// One server in this many has a fault.
    Faulty(u64),
}

/// Durations of the steps of a server without faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StepTimes {
    pub(super) launch: Duration,
    pub(super) start: Duration,
    pub(super) answer: Duration,
    pub(super) exit_delay: Duration,
    pub(super) cleanup: Duration,
}

impl StepTimes {
    pub(super) fn all(each: Duration) -> Self {
        Self { launch: each, start: each, answer: each, exit_delay: each, cleanup: each }
    }
}

/// A random time. There are few different ones, because events at the same moment are of interest too.
pub(super) fn moment(dice: &mut Dice) -> Duration {
    const TIMES: [u64; 8] = [0, 0, 1, 2, 5, 10, 25, 60];
    Duration::from_millis(*pick(dice, &TIMES))
}

pub(super) fn pick<'a, T>(dice: &mut Dice, from: &'a [T]) -> &'a T {
    &from[below(dice, from.len())]
}

pub(super) fn below(dice: &mut Dice, end: usize) -> usize {
    usize::try_from(dice.roll() % end as u64).unwrap()
}

pub(super) fn one_of(dice: &mut Dice, many: u64) -> bool {
    dice.roll().is_multiple_of(many)
}

impl Behaviour {
    pub(super) fn draw(behaviours: Behaviours, dice: &mut Dice) -> Self {
        match behaviours {
            Behaviours::Regular(steps) => Self::regular(steps),
            Behaviours::Faulty(many) => Self::faulty(many, dice),
        }
    }

    fn regular(steps: StepTimes) -> Self {
        Self {
            launch: steps.launch,
            start: StartOutcome::Runs(steps.start),
            greeting: Greeting::Answered(steps.answer),
            exit: None,
            exit_delay: steps.exit_delay,
            cleanup: Cleanup::After(steps.cleanup),
            stderr: Some(Duration::ZERO),
            guardian: None,
            answer: Some(steps.answer),
            notify: None,
            closes_output: None,
            long_line: None,
            stops_reading: None,
            closes_input: None,
        }
    }

    fn faulty(many: u64, dice: &mut Dice) -> Self {
        let mut behaviour = Self {
            launch: moment(dice),
            start: StartOutcome::Runs(moment(dice)),
            greeting: Greeting::Answered(moment(dice)),
            exit_delay: moment(dice).min(GRACE),
            cleanup: Cleanup::After(moment(dice)),
            answer: Some(moment(dice)),
            stderr: (!one_of(dice, 8)).then(|| moment(dice)),
            notify: one_of(dice, 8).then(|| moment(dice) * 4),
            ..Self::regular(StepTimes::all(Duration::ZERO))
        };
        if one_of(dice, many) {
            behaviour.add_fault(dice);
        }
        behaviour
    }

    fn add_fault(&mut self, dice: &mut Dice) {
        let (soon, late) = (moment(dice), moment(dice) * 4);
        match below(dice, 13) {
            0 => self.start = StartOutcome::Failed,
            1 => self.start = StartOutcome::Refused(soon),
            2 => self.greeting = Greeting::Refused(soon),
            3 => self.greeting = Greeting::Garbage(soon),
            4 => self.greeting = Greeting::Never,
            5 => self.exit = Some(late),
            6 => self.exit_delay = GRACE,
            7 => self.cleanup = Cleanup::Lingers(late + PROOF * 3),
            8 => {
                let kinds = [Rescue::Gone(soon), Rescue::Unwatched(soon), Rescue::Stays(soon)];
                self.guardian = Some((late, *pick(dice, &kinds)));
            }
            9 => self.answer = None,
            10 => self.closes_output = Some(late),
            11 => self.long_line = Some(late),
            _ if one_of(dice, 2) => self.stops_reading = Some(late),
            _ => self.closes_input = Some(late),
        }
    }
}
