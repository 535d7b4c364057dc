//! The terminal of `ostler top`: raw mode and the alternate screen, undone however the command ends, and the backend that
//! draws.
//!
//! Hidden characters never reach the terminal: [`Canvas`] replaces them in every cell, wherever the text came from.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};
use std::panic;
use std::sync::Mutex;

use ostler::visible::is_hidden;
use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::Modifier;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Alternate screen, no cursor.
const ENTER: &str = "\u{1b}[?1049h\u{1b}[?25l";
/// Plain text, cursor, normal screen.
const LEAVE: &str = "\u{1b}[0m\u{1b}[?25h\u{1b}[?1049l";
/// Size of a terminal that does not tell.
const USUAL: Size = Size { width: 80, height: 24 };

/// Modifiers that are drawn, with their codes.
const CODES: [(Modifier, u8); 4] =
    [(Modifier::BOLD, 1), (Modifier::DIM, 2), (Modifier::UNDERLINED, 4), (Modifier::REVERSED, 7)];

/// How to undo raw mode and the alternate screen.
#[derive(Debug)]
struct Before {
    input: OwnedFd,
    output: OwnedFd,
    modes: Termios,
}

/// The terminal as it was before; `None` while it is as it was.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

/// Guard of raw mode and the alternate screen. A panic undoes them before its message is printed.
#[derive(Debug)]
pub(super) struct Screen(());

impl Screen {
    pub(super) fn enter(input: impl AsFd, output: impl AsFd) -> io::Result<Self> {
        let modes = tcgetattr(&input)?;
        let mut raw = modes.clone();
        raw.make_raw();
        let before = Before {
            input: input.as_fd().try_clone_to_owned()?,
            output: output.as_fd().try_clone_to_owned()?,
            modes,
        };
        if let Ok(mut place) = BEFORE.lock() {
            *place = Some(before);
        }
        let next = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            next(info);
        }));
        let screen = Self(());
        tcsetattr(&input, OptionalActions::Now, &raw)?;
        write_all(&output, ENTER.as_bytes())?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Whether both are terminals.
pub(super) fn is_terminal(input: &impl AsFd, output: &impl AsFd) -> bool {
    input.as_fd().is_terminal() && output.as_fd().is_terminal()
}

/// Undoes [`Screen::enter`], once. Errors are ignored: the terminal may be gone.
fn restore() {
    let before = BEFORE.lock().ok().and_then(|mut place| place.take());
    if let Some(Before { input, output, modes }) = before {
        let _ = write_all(&output, LEAVE.as_bytes());
        let _ = tcsetattr(&input, OptionalActions::Now, &modes);
    }
}

fn write_all(output: &impl AsFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let written = rustix::io::retry_on_intr(|| rustix::io::write(output, bytes))?;
        bytes = &bytes[written..];
    }
    Ok(())
}

/// Backend that draws with the control sequences that all terminals know.
#[derive(Debug)]
pub(super) struct Canvas<O> {
    output: O,
    /// What is not written yet.
    frame: String,
    cursor: Position,
}

impl<O: AsFd> Canvas<O> {
    pub(super) fn new(output: O) -> Self {
        Self { output, frame: String::new(), cursor: Position::ORIGIN }
    }

    fn move_to(&mut self, position: Position) {
        self.cursor = position;
        let (row, column) = (position.y.saturating_add(1), position.x.saturating_add(1));
        let _ = write!(self.frame, "\u{1b}[{row};{column}H");
    }

    fn style(&mut self, modifier: Modifier) {
        self.frame.push_str("\u{1b}[0");
        for (_, code) in CODES.iter().filter(|(one, _)| modifier.contains(*one)) {
            let _ = write!(self.frame, ";{code}");
        }
        self.frame.push('m');
    }
}

impl<O: AsFd> Backend for Canvas<O> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut next = None;
        let mut style = None;
        for (x, y, cell) in content {
            if next != Some((x, y)) {
                self.move_to(Position { x, y });
            }
            if style != Some(cell.modifier) {
                self.style(cell.modifier);
                style = Some(cell.modifier);
            }
            let visible = cell.symbol().chars().map(|c| if is_hidden(c) { '?' } else { c });
            self.frame.extend(visible);
            next = Some((x.saturating_add(1), y));
        }
        self.style(Modifier::empty());
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.frame.push_str("\u{1b}[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.frame.push_str("\u{1b}[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(self.cursor)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.move_to(position.into());
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, clear_type: ClearType) -> io::Result<()> {
        self.frame.push_str(match clear_type {
            ClearType::All => "\u{1b}[2J",
            ClearType::AfterCursor => "\u{1b}[J",
            ClearType::BeforeCursor => "\u{1b}[1J",
            ClearType::CurrentLine => "\u{1b}[2K",
            ClearType::UntilNewLine => "\u{1b}[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let size = tcgetwinsize(&self.output)?;
        let size = Size { width: size.ws_col, height: size.ws_row };
        Ok(if size.width == 0 || size.height == 0 { USUAL } else { size })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size { width: 0, height: 0 } })
    }

    fn flush(&mut self) -> io::Result<()> {
        let frame = std::mem::take(&mut self.frame);
        write_all(&self.output, frame.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read;
    use std::panic::AssertUnwindSafe;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use rustix::termios::LocalModes;

    use super::*;

    fn is_raw(terminal: &impl AsFd) -> bool {
        !tcgetattr(terminal).unwrap().local_modes.contains(LocalModes::ICANON)
    }

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let theirs = File::from(open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap());
        let (watched, was_raw) = (theirs.try_clone().unwrap(), Arc::new(AtomicBool::new(true)));
        let at_message = Arc::clone(&was_raw);
        // The hook that prints the message.
        panic::set_hook(Box::new(move |_| at_message.store(is_raw(&watched), Ordering::SeqCst)));
        let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
            let _screen = Screen::enter(&theirs, &theirs).unwrap();
            assert!(is_raw(&theirs));
            panic!("as the test wants");
        }));
        let _ = panic::take_hook();
        assert!(panicked.is_err());
        assert!(!was_raw.load(Ordering::SeqCst) && !is_raw(&theirs));
        let mut written = vec![0; ENTER.len() + LEAVE.len()];
        File::from(ours).read_exact(&mut written).unwrap();
        assert_eq!(String::from_utf8(written).unwrap(), format!("{ENTER}{LEAVE}"));
    }
}
