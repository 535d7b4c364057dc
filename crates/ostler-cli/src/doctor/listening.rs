//! Finds processes that listen on sockets, and whether clients are connected to them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::table::Serving;

/// `TCP_LISTEN` and `TCP_ESTABLISHED` in the notation of `/proc/net`.
const LISTENING: &str = "0A";
const ESTABLISHED: &str = "01";
/// `__SO_ACCEPTCON` and `SS_CONNECTED` of unix sockets.
const ACCEPTS: u32 = 0x1_0000;
const CONNECTED: &str = "03";

/// Sockets of this network namespace, by inode.
#[derive(Debug, Default)]
pub(super) struct Listening {
    listeners: BTreeMap<u64, String>,
    /// Local ports or paths of connections; an accepted connection has that of its listener.
    connections: BTreeMap<u64, String>,
}

impl Listening {
    pub(super) fn read() -> Self {
        let mut all = Self::default();
        for file in ["tcp", "tcp6"] {
            let text = fs::read_to_string(format!("/proc/self/net/{file}")).unwrap_or_default();
            text.lines().skip(1).for_each(|line| all.add_tcp(line));
        }
        let text = fs::read("/proc/self/net/unix").unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        text.lines().skip(1).for_each(|line| all.add_unix(line));
        all
    }

    fn add_tcp(&mut self, line: &str) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (Some(local), Some(state)) = (fields.get(1), fields.get(3)) else { return };
        let port = local.rsplit(':').next().unwrap_or_default().to_owned();
        let Some(inode) = fields.get(9).and_then(|inode| inode.parse().ok()) else { return };
        match *state {
            LISTENING => drop(self.listeners.insert(inode, port)),
            ESTABLISHED => drop(self.connections.insert(inode, port)),
            _ => {}
        }
    }

    fn add_unix(&mut self, line: &str) {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let Some(inode) = fields.get(6).and_then(|inode| inode.parse().ok()) else { return };
        let Some(path) = fields.get(7) else { return };
        let flags = fields.get(3).and_then(|flags| u32::from_str_radix(flags, 16).ok());
        if flags.is_some_and(|flags| flags & ACCEPTS != 0) {
            self.listeners.insert(inode, (*path).to_owned());
        } else if fields.get(5) == Some(&CONNECTED) {
            self.connections.insert(inode, (*path).to_owned());
        }
    }

    /// Whether the process with these sockets serves clients.
    pub(super) fn of(&self, sockets: impl Iterator<Item = u64>) -> Serving {
        let sockets: Vec<u64> = sockets.collect();
        let names = |known: &BTreeMap<u64, String>| -> BTreeSet<String> {
            sockets.iter().filter_map(|inode| known.get(inode)).cloned().collect()
        };
        let listeners = names(&self.listeners);
        match (listeners.is_empty(), listeners.is_disjoint(&names(&self.connections))) {
            (true, _) => Serving::No,
            (false, true) => Serving::Idle,
            (false, false) => Serving::InUse,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_with_a_connection_is_in_use() {
        let mut all = Listening::default();
        all.add_tcp("0: 0100007F:1F90 00000000:0000 0A 0:0 00:0 0 0 0 11 1");
        all.add_tcp("1: 0100007F:1F90 0100007F:9C40 01 0:0 00:0 0 0 0 12 1");
        all.add_tcp("2: 0100007F:9C41 0100007F:01BB 01 0:0 00:0 0 0 0 13 1");
        all.add_unix("0: 00000002 00000000 00010000 0001 01 21 /run/a.sock");
        all.add_unix("0: 00000002 00000000 00000000 0001 03 22 /run/a.sock");
        all.add_unix("0: 00000002 00000000 00000000 0001 03 23");
        for (sockets, expected) in [
            (&[11][..], Serving::Idle),
            (&[11, 13], Serving::Idle),
            (&[11, 12], Serving::InUse),
            (&[13, 23], Serving::No),
            (&[21], Serving::Idle),
            (&[21, 22], Serving::InUse),
            (&[], Serving::No),
        ] {
            assert_eq!(all.of(sockets.iter().copied()), expected, "{sockets:?}");
        }
    }
}
