//! Waits while the gateway serves the client's descriptors.

use std::io;
use std::time::{Duration, Instant};

use ostler_gateway::front::{GatewayConnection, LineError, SessionEnd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::End;
use crate::parents::Parents;

/// Time to answer requests that were sent before stdin ended. Clients give up after 2 s.
pub(super) const LAST_ANSWERS: Duration = Duration::from_millis(1900);

/// Waits until the session ends, or the client dies.
pub(super) fn hold(gateway: &GatewayConnection, parents: &Parents) -> io::Result<End> {
    let stdin = io::stdin();
    let mut deadline = None;
    loop {
        let mut fds = vec![PollFd::new(gateway, PollFlags::IN)];
        fds.extend(parents.poll_fds());
        let input = fds.len();
        // RDHUP only, no data; and the end of stdin is reported once.
        if deadline.is_none() {
            fds.push(PollFd::new(&stdin, PollFlags::RDHUP));
        }
        let rest = deadline.map(|end: Instant| end.saturating_duration_since(Instant::now()));
        let rest = rest.map(Timespec::try_from).transpose().map_err(io::Error::other)?;
        match poll(&mut fds, rest.as_ref()) {
            Ok(0) => return Ok(End::Input),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        let has_input_ended = fds.get(input).is_some_and(has_happened);
        if has_happened(&fds[0]) {
            return Ok(session_end(gateway, deadline.is_some() || has_input_ended));
        }
        // The gateway ends the session when this process exits.
        if fds[1..input].iter().any(has_happened) {
            return Ok(End::Input);
        }
        if has_input_ended {
            deadline = Some(Instant::now() + LAST_ANSWERS);
        }
    }
}

fn has_happened(fd: &PollFd<'_>) -> bool {
    !fd.revents().is_empty()
}

fn session_end(gateway: &GatewayConnection, has_input_ended: bool) -> End {
    let said: Result<SessionEnd, LineError> = gateway.receive();
    match said {
        Ok(SessionEnd::Over) => End::Input,
        // The client already closed stdin, so it does not need to hear about the gateway's exit.
        Ok(SessionEnd::Closing) | Err(_) if has_input_ended => End::Input,
        Ok(SessionEnd::Closing) | Err(_) => End::Gateway,
    }
}
