//! What a simulated server will do with its life. Drawn once, when it is started.

use std::time::Duration;

use crate::keeper::dice::Dice;

/// From the first step of stopping to KILL, in the simulated world.
pub(super) const GRACE: Duration = Duration::from_millis(30);
/// From KILL until what is left is reported.
pub(super) const PROOF: Duration = Duration::from_millis(20);
/// How long what does not go at first may take to go in the end.
pub(super) const LINGER: Duration = Duration::from_secs(5);

/// What becomes of an instance, unless somebody interferes. Times without another base count
/// from the moment that its guardian is there.
#[derive(Clone, Debug)]
pub(super) struct Fate {
    /// How long its guardian takes to be there.
    pub(super) launch: Duration,
    pub(super) beginning: Beginning,
    pub(super) greeting: Greeting,
    /// Exits by itself.
    pub(super) exit: Option<Duration>,
    /// From the order to stop until it exits.
    pub(super) leave: Duration,
    pub(super) burial: Burial,
    /// From its exit until its last words are readable; `None`: a process that it left holds stderr open.
    pub(super) stderr: Option<Duration>,
    /// Its guardian is killed.
    pub(super) guardian: Option<(Duration, Rescue)>,
    /// From a request to its answer; `None`: never.
    pub(super) answer: Option<Duration>,
    /// Says something that nobody asked for.
    pub(super) notify: Option<Duration>,
    /// Closes its output.
    pub(super) mute: Option<Duration>,
    /// Says a line that does not end.
    pub(super) rant: Option<Duration>,
    /// Does not read its input any more.
    pub(super) deaf: Option<Duration>,
    /// Closes its input.
    pub(super) sealed: Option<Duration>,
}

/// Whether there is a program to talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// There is not even a guardian.
    Failed,
    /// The guardian can't start it.
    Refused(Duration),
    /// It runs.
    Runs(Duration),
}

/// What it says to the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Greeting {
    Answered(Duration),
    Refused(Duration),
    Garbage(Duration),
    Never,
}

/// What is between its exit and the proof that nothing is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Burial {
    After(Duration),
    /// Something remains at first, and goes in the end.
    Lingers(Duration),
}

/// What becomes of it without its guardian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rescue {
    Gone(Duration),
    Unwatched(Duration),
    /// It does not go although it is killed.
    Stays(Duration),
}

/// How the servers of a schedule behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Temper {
    /// Nothing goes wrong, and each step takes as long as is said here.
    Even(Steps),
    /// One of so many misbehaves in one way or another.
    Moody(u64),
}

/// How long the steps of an even life take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Steps {
    pub(super) launch: Duration,
    pub(super) start: Duration,
    pub(super) answer: Duration,
    pub(super) leave: Duration,
    pub(super) burial: Duration,
}

impl Steps {
    pub(super) fn all(each: Duration) -> Self {
        Self { launch: each, start: each, answer: each, leave: each, burial: each }
    }
}

/// Ties are as interesting as differences, so there are few different times.
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

impl Fate {
    pub(super) fn draw(temper: Temper, dice: &mut Dice) -> Self {
        match temper {
            Temper::Even(steps) => Self::even(steps),
            Temper::Moody(many) => Self::moody(many, dice),
        }
    }

    fn even(steps: Steps) -> Self {
        Self {
            launch: steps.launch,
            beginning: Beginning::Runs(steps.start),
            greeting: Greeting::Answered(steps.answer),
            exit: None,
            leave: steps.leave,
            burial: Burial::After(steps.burial),
            stderr: Some(Duration::ZERO),
            guardian: None,
            answer: Some(steps.answer),
            notify: None,
            mute: None,
            rant: None,
            deaf: None,
            sealed: None,
        }
    }

    fn moody(many: u64, dice: &mut Dice) -> Self {
        let mut fate = Self {
            launch: moment(dice),
            beginning: Beginning::Runs(moment(dice)),
            greeting: Greeting::Answered(moment(dice)),
            leave: moment(dice).min(GRACE),
            burial: Burial::After(moment(dice)),
            answer: Some(moment(dice)),
            stderr: (!one_of(dice, 8)).then(|| moment(dice)),
            notify: one_of(dice, 8).then(|| moment(dice) * 4),
            ..Self::even(Steps::all(Duration::ZERO))
        };
        if one_of(dice, many) {
            fate.spoil(dice);
        }
        fate
    }

    fn spoil(&mut self, dice: &mut Dice) {
        let (soon, late) = (moment(dice), moment(dice) * 4);
        match below(dice, 13) {
            0 => self.beginning = Beginning::Failed,
            1 => self.beginning = Beginning::Refused(soon),
            2 => self.greeting = Greeting::Refused(soon),
            3 => self.greeting = Greeting::Garbage(soon),
            4 => self.greeting = Greeting::Never,
            5 => self.exit = Some(late),
            6 => self.leave = GRACE,
            7 => self.burial = Burial::Lingers(late + PROOF * 3),
            8 => {
                let kinds = [Rescue::Gone(soon), Rescue::Unwatched(soon), Rescue::Stays(soon)];
                self.guardian = Some((late, *pick(dice, &kinds)));
            }
            9 => self.answer = None,
            10 => self.mute = Some(late),
            11 => self.rant = Some(late),
            _ if one_of(dice, 2) => self.deaf = Some(late),
            _ => self.sealed = Some(late),
        }
    }
}
