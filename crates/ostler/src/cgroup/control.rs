//! Resource limits, enforced by cgroup controllers of v2 or v1.
//!
//! A v2 controller is set in the instance's leaf, if the leaf's parent enables it for its children. A controller that
//! is mounted as v1 has a hierarchy of its own; there the instance gets a cgroup of its own, which is entered and
//! removed together with the leaf.

use std::fs::{self, OpenOptions};
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use super::mount::{self, Hierarchy};
use super::{Leaf, remove_tree};
use crate::id::InstanceId;
use crate::resources::{Bytes, Cpus, Excess, Resources};

/// Microseconds; the kernel's default.
const CPU_PERIOD: u64 = 100_000;

/// Bytes. How far below the memory limit the kernel may kill already, if it needs several pages at once.
const LAST_PAGES: u64 = 64 << 10;

/// Why a limit can't be enforced.
#[derive(Debug, thiserror::Error)]
pub enum NoControl {
    /// Neither cgroup version offers the controller to this process.
    #[error("no cgroup hierarchy offers the controller to this process")]
    NotOffered,
    /// This user may not create cgroups below that of this process.
    #[error("{} is not writable", .0.display())]
    NotOurs(PathBuf, #[source] io::Error),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Limit {
    Memory(Bytes),
    Cpus(Cpus),
    Pids(NonZeroU64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Version {
    V1,
    V2,
}

/// One limit, and the cgroup that enforces it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Control {
    limit: Limit,
    version: Version,
    directory: PathBuf,
}

impl Limit {
    fn all_of(resources: &Resources) -> impl Iterator<Item = Self> {
        let memory = resources.memory.map(Self::Memory);
        let cpus = resources.cpus.map(Self::Cpus);
        [memory, cpus, resources.pids.map(Self::Pids)].into_iter().flatten()
    }

    /// The kernel's name of the controller.
    fn controller(self) -> &'static str {
        match self {
            Self::Memory(_) => "memory",
            Self::Cpus(_) => "cpu",
            Self::Pids(_) => "pids",
        }
    }
}

impl Control {
    /// Finds a cgroup for each limit: the leaf at `leaf`, or a v1 cgroup. The error names the limit that has none.
    pub(crate) fn places(
        resources: &Resources,
        id: InstanceId,
        leaf: Option<&Path>,
    ) -> Result<Vec<Self>, (&'static str, NoControl)> {
        let place = |limit: Limit| {
            let directory = leaf.filter(|leaf| is_handed_down(leaf, limit.controller()));
            if let Some(directory) = directory {
                return Ok(Self { limit, version: Version::V2, directory: directory.into() });
            }
            let directory = place_v1(limit.controller(), id);
            let directory = directory.map_err(|reason| (limit.controller(), reason))?;
            Ok(Self { limit, version: Version::V1, directory })
        };
        Limit::all_of(resources).map(place).collect()
    }

    pub(crate) fn name(&self) -> &'static str {
        self.limit.controller()
    }

    /// Sets the limit, and creates its cgroup if that is not the leaf. `strangers` is the number of processes in the
    /// leaf that do not belong to the server.
    pub(crate) fn make(&self, strangers: u64) -> io::Result<()> {
        if self.version == Version::V1 {
            fs::create_dir(&self.directory)?;
        }
        self.set(strangers).inspect_err(|_| {
            // No process is in it, so the removal succeeds.
            let _ = self.remove();
        })
    }

    fn set(&self, strangers: u64) -> io::Result<()> {
        match (self.limit, self.version) {
            (Limit::Memory(bytes), Version::V1) => {
                self.write("memory.limit_in_bytes", &bytes.0)?;
                // Exists only if the kernel accounts swap. It can't be below the memory limit, so it comes second.
                self.write_if_there("memory.memsw.limit_in_bytes", &bytes.0)
            }
            (Limit::Memory(bytes), Version::V2) => {
                self.write("memory.max", &bytes.0)?;
                self.write_if_there("memory.swap.max", &0)
            }
            (Limit::Cpus(cpus), Version::V1) => {
                self.write("cpu.cfs_period_us", &CPU_PERIOD)?;
                self.write("cpu.cfs_quota_us", &cpus.quota(CPU_PERIOD))
            }
            (Limit::Cpus(cpus), Version::V2) => {
                self.write("cpu.max", &format!("{} {CPU_PERIOD}", cpus.quota(CPU_PERIOD)))
            }
            (Limit::Pids(pids), Version::V1) => self.write("pids.max", &pids),
            (Limit::Pids(pids), Version::V2) => {
                self.write("pids.max", &pids.saturating_add(strangers))
            }
        }
    }

    /// Moves this process into the v1 cgroup. A process of a v2 limit is in the leaf already.
    pub(crate) fn enter(&self) -> io::Result<()> {
        match self.version {
            Version::V1 => fs::write(self.directory.join("cgroup.procs"), "0"),
            Version::V2 => Ok(()),
        }
    }

    /// The v1 cgroup, if the limit has one.
    pub(crate) fn cgroup(&self) -> Option<&Path> {
        (self.version == Version::V1).then_some(self.directory.as_path())
    }

    /// Whether the limit took effect. Call it before `remove`.
    pub(crate) fn excess(&self) -> Option<Excess> {
        match self.limit {
            Limit::Memory(limit) => {
                let killed = self.count(self.name_of_kills(), "oom_kill")?;
                // The kernel also kills if the whole machine is short of memory.
                (killed > 0 && self.was_reached(limit)).then_some(Excess::Memory { limit, killed })
            }
            Limit::Pids(limit) => {
                let refused = self.count("pids.events", "max")?;
                (refused > 0).then_some(Excess::Pids { limit, refused })
            }
            Limit::Cpus(_) => None,
        }
    }

    /// Removes the v1 cgroup; fails while a process is inside. A v2 limit is removed with the leaf.
    pub(crate) fn remove(&self) -> io::Result<()> {
        match self.version {
            Version::V1 => remove_tree(&self.directory),
            Version::V2 => Ok(()),
        }
    }

    fn name_of_kills(&self) -> &'static str {
        match self.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        }
    }

    fn was_reached(&self, limit: Bytes) -> bool {
        let nearly = limit.0.get().saturating_sub(LAST_PAGES);
        match self.version {
            // `memory.failcnt` stays 0 on recent kernels.
            Version::V1 => fs::read_to_string(self.directory.join("memory.max_usage_in_bytes"))
                .is_ok_and(|peak| peak.trim().parse().is_ok_and(|peak: u64| peak >= nearly)),
            Version::V2 => self.count("memory.events", "max").is_some_and(|count| count > 0),
        }
    }

    /// The number after `name` in a file with one `name number` pair per line.
    fn count(&self, file: &str, name: &str) -> Option<u64> {
        let text = fs::read_to_string(self.directory.join(file)).ok()?;
        let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
        pairs.find(|(found, _)| *found == name)?.1.trim().parse().ok()
    }

    fn write(&self, file: &str, value: &impl ToString) -> io::Result<()> {
        // Must not create the file: only the kernel creates files here.
        let mut open = OpenOptions::new();
        let file = open.write(true).open(self.directory.join(file))?;
        io::Write::write_all(&mut &file, value.to_string().as_bytes())
    }

    fn write_if_there(&self, file: &str, value: &impl ToString) -> io::Result<()> {
        match self.write(file, value) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }
}

/// Whether the parent of this leaf enables the controller for its children.
fn is_handed_down(leaf: &Path, controller: &str) -> bool {
    let control = leaf.with_file_name("cgroup.subtree_control");
    fs::read_to_string(control).is_ok_and(|list| list.split_whitespace().any(|c| c == controller))
}

fn place_v1(controller: &'static str, id: InstanceId) -> Result<PathBuf, NoControl> {
    let own = mount::own_cgroup(Hierarchy::V1(controller)).ok().flatten();
    let own = own.ok_or(NoControl::NotOffered)?;
    match access(&own, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Ok(own.join(Leaf::name(id))),
        Err(errno) => Err(NoControl::NotOurs(own, errno.into())),
    }
}

#[cfg(test)]
mod tests;
