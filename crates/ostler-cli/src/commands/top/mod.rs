//! `ostler top`: running servers, live, on the terminal.
//!
//! `feed` reads what runs, `state` is what is shown and how keys change it, `view` draws it. This loop connects them with the
//! terminal: it waits for keys, updates, signals and changes of the terminal's size.

mod feed;
mod instance;
mod keys;
mod screen;
mod sort;
mod state;
#[cfg(test)]
mod tests;
mod view;

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use ostler::Ignored;
use ratatui_core::terminal::Terminal;
use ratatui_widgets::table::TableState;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGWINCH};

use self::feed::{Feed, Snapshot, Update};
use self::keys::Keys;
use self::screen::{Canvas, Screen};
use self::state::{Effect, State};
use crate::gateways::Which;
use crate::out::{chain, say};
use crate::requests::Requests;
use crate::{exit, out};

/// Wait for the rest of a key; longer than the pieces of one key are apart on a slow connection.
const KEY_LIMIT: Duration = Duration::from_millis(100);
/// The screen is drawn at least this often.
const IDLE: Duration = Duration::from_secs(2);
/// An older snapshot is marked: a gateway does not answer.
const STALE: Duration = Duration::from_secs(5);

#[derive(Debug, Args)]
#[command(after_help = "\
Shows the same servers as `ostler ps`, refreshed every second: those of all gateways of this user, and those under `ostler run`. Needs a terminal. `?` shows the keys: sort, filter, details with processes and events, stop, restart.

Examples:
  ostler top
  ostler top --socket /run/user/1000/ostler/gateway.sock")]
pub(crate) struct TopArguments {
    #[command(flatten)]
    which: Which,
}

/// How the command ended.
enum End {
    Quit,
    Signal(i32),
}

pub(crate) fn run(arguments: &TopArguments) -> ExitCode {
    if !screen::is_terminal(&io::stdin(), &out::terminal()) {
        say("top needs a terminal; `ostler ps` prints the same once");
        return exit::USAGE.into();
    }
    let (feed, first) = match Feed::start(&arguments.which) {
        Ok(started) => started,
        Err(error) => return error.report(),
    };
    match show(&feed, first) {
        Ok(End::Quit) => ExitCode::SUCCESS,
        Ok(End::Signal(signal)) => exit::by_signal(signal).into(),
        Err(error) => {
            say(format_args!("the terminal failed: {}", chain(&error)));
            exit::FAILED.into()
        }
    }
}

fn show(feed: &Feed, first: Snapshot) -> io::Result<End> {
    let signals = Requests::listen(Ignored::now()?)?;
    let (resized, writer) = UnixStream::pair()?;
    resized.set_nonblocking(true)?;
    signal_hook::low_level::pipe::register(SIGWINCH, writer)?;
    let output = out::terminal();
    let _screen = Screen::enter(io::stdin(), &output)?;
    let mut terminal = Terminal::new(Canvas::new(&output))?;
    let (mut state, mut table, mut keys) =
        (State::new(first), TableState::default(), Keys::default());
    let mut fresh = Instant::now();
    loop {
        terminal.draw(|frame| view::draw(frame, &state, &mut table))?;
        let wait = if keys.is_pending() { KEY_LIMIT } else { IDLE };
        let woken = wait_for(feed, &signals, &resized, wait)?;
        if let Some(signal) = signals.last() {
            return Ok(End::Signal(signal));
        }
        for update in feed.take() {
            if matches!(update, Update::Snapshot(_)) {
                fresh = Instant::now();
            }
            state.update(update);
        }
        state.stale = Some(fresh.elapsed()).filter(|age| *age > STALE).map(|age| age.as_secs());
        // The next draw asks for the size.
        let _ = io::Read::read(&mut &resized, &mut [0; 64]);
        let pressed = match woken {
            Woken::Keys => read_keys(&mut keys)?,
            Woken::Silence => Some(keys.flush().into_iter().collect()),
            Woken::Other => Some(Vec::new()),
        };
        let Some(pressed) = pressed else { return Ok(End::Signal(SIGHUP)) };
        let height = usize::from(terminal.size()?.height.saturating_sub(view::FRAME));
        for key in pressed {
            match state.press(key, height) {
                Effect::None => {}
                Effect::Quit => return Ok(End::Quit),
                Effect::Focus(home) => feed.focus(home),
                Effect::Act(action) => feed.act(action)?,
            }
        }
    }
}

/// Why the loop goes on.
enum Woken {
    /// There are keys, or the terminal has hung up.
    Keys,
    /// An update, a signal or another size.
    Other,
    /// Nothing, for as long as the wait takes.
    Silence,
}

/// Waits for anything to do.
fn wait_for(
    feed: &Feed,
    signals: &Requests,
    resized: &UnixStream,
    limit: Duration,
) -> io::Result<Woken> {
    let stdin = io::stdin();
    let mut fds = [
        PollFd::new(&stdin, PollFlags::IN),
        signals.poll_fd(),
        PollFd::new(resized, PollFlags::IN),
        PollFd::new(feed.wake(), PollFlags::IN),
    ];
    let limit = Timespec::try_from(limit).map_err(io::Error::other)?;
    match poll(&mut fds, Some(&limit)) {
        Ok(0) => Ok(Woken::Silence),
        Ok(_) if !fds[0].revents().is_empty() => Ok(Woken::Keys),
        Ok(_) | Err(Errno::INTR) => Ok(Woken::Other),
        Err(error) => Err(error.into()),
    }
}

/// Keys that were typed; `None` if the terminal has hung up.
fn read_keys(keys: &mut Keys) -> io::Result<Option<Vec<keys::Key>>> {
    let mut bytes = [0; 1024];
    match rustix::io::read(io::stdin().as_fd(), &mut bytes) {
        Ok(0) | Err(Errno::IO) => Ok(None),
        Ok(count) => Ok(Some(keys.feed(&bytes[..count]))),
        Err(Errno::INTR | Errno::AGAIN) => Ok(Some(Vec::new())),
        Err(error) => Err(error.into()),
    }
}
