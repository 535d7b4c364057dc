//! Processes that a host leaves behind.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

use crate::{Process, Stage};

/// Number of processes of a cell, by the program they belong to. A gateway is not counted: it is meant to stay for the
/// next client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// The server and its descendants.
    pub servers: usize,
    /// Processes of ostler for this server or client: guardians, porters, `run` and `connect`.
    pub ostler: usize,
    /// Processes of the host.
    pub host: usize,
}

impl Left {
    pub(super) fn now(stage: &Stage) -> Self {
        let mut left = Self::default();
        for survivor in stage.sandbox.survivors().processes {
            let Process { comm, .. } = &survivor.process;
            if survivor.cmdline.contains(" serve ") {
                continue;
            }
            let is_ostler = survivor.cmdline.contains("/ostler ") || comm.starts_with("ostler-");
            let count = match comm.as_str() {
                "ostler-stub" => &mut left.servers,
                _ if is_ostler => &mut left.ostler,
                _ => &mut left.host,
            };
            *count += 1;
        }
        left
    }

    /// Whether neither the server nor a process that held it is left.
    pub fn is_clean(&self) -> bool {
        self.servers == 0 && self.ostler == 0
    }
}

impl Display for Left {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.servers + self.ostler)?;
        if self.host > 0 {
            write!(f, "+{}", self.host)?;
        }
        Ok(())
    }
}
