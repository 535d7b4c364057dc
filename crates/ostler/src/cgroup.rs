//! A cgroup v2 leaf of our own for one instance, wherever the hierarchy is mounted.
//!
//! Three files are all that is needed: `cgroup.procs` to enter, `cgroup.kill` to end everything
//! inside, also what forks meanwhile, and `cgroup.events` for the proof that it is empty.

mod control;
mod mount;

pub(crate) use control::Control;
pub use control::NoControl;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, FsWord, access, statfs};

use self::mount::Hierarchy;
use crate::id::InstanceId;

/// The kernel's numbers for these kinds of file systems.
const CGROUP2: FsWord = 0x6367_7270;
const CGROUP1: FsWord = 0x0027_e0eb;

/// Why there is no leaf.
#[derive(Debug, thiserror::Error)]
pub enum NoLeaf {
    /// This process is in no cgroup v2 that it can see.
    #[error("no cgroup v2 hierarchy holds this process")]
    NotMounted(#[source] Option<io::Error>),
    /// The cgroup of this process is not ours to divide.
    #[error("{} is not writable", .0.display())]
    NotOurs(PathBuf, #[source] io::Error),
    /// The kernel is older than 5.14, or the cgroup is a threaded one.
    #[error("{} offers no cgroup.kill for a domain", .0.display())]
    NoKill(PathBuf),
}

/// Where instances that this process starts would have their leaves, or why they would have none. Makes nothing.
pub fn leaf_here() -> Result<PathBuf, NoLeaf> {
    let own = Leaf::parent()?;
    // The root of the hierarchy has neither of these files, and its children have both.
    let has_kill = own.join("cgroup.kill").exists() || !own.join("cgroup.type").exists();
    if has_kill { Ok(own) } else { Err(NoLeaf::NoKill(own)) }
}

/// A directory in the cgroup v2 hierarchy that holds exactly one instance.
#[derive(Debug)]
pub(crate) struct Leaf {
    path: PathBuf,
}

impl Leaf {
    /// Where the leaf of `id` may be made: below the cgroup of this process, which itself is
    /// never moved.
    pub(crate) fn place(id: InstanceId) -> Result<PathBuf, NoLeaf> {
        Ok(Self::parent()?.join(Self::name(id)))
    }

    /// The cgroup of this process, if leaves may be made below it.
    fn parent() -> Result<PathBuf, NoLeaf> {
        let own = match mount::own_cgroup(Hierarchy::V2) {
            Ok(own) => own.ok_or(NoLeaf::NotMounted(None))?,
            Err(error) => return Err(NoLeaf::NotMounted(Some(error))),
        };
        // The kernel lets a process move only between cgroups whose common ancestor is writable.
        match access(own.join("cgroup.procs"), Access::WRITE_OK) {
            Ok(()) => Ok(own),
            Err(errno) => Err(NoLeaf::NotOurs(own, errno.into())),
        }
    }

    /// The name of the leaf of `id`, wherever it is.
    pub(crate) fn name(id: InstanceId) -> String {
        format!("ostler-{id}")
    }

    /// Makes the leaf at its place.
    pub(crate) fn create(path: PathBuf) -> Result<Self, NoLeaf> {
        if let Err(source) = fs::create_dir(&path) {
            return Err(NoLeaf::NotOurs(path, source));
        }
        let leaf = Self { path };
        if leaf.can_be_killed() {
            return Ok(leaf);
        }
        // Nothing has entered it: removing it can't be refused, and a failure changes nothing.
        let _ = leaf.remove();
        Err(NoLeaf::NoKill(leaf.path))
    }

    /// The leaf of `id` at `path`, if there is one.
    pub(crate) fn find(path: &Path, id: InstanceId) -> Option<Self> {
        is_of(id, path, CGROUP2).then(|| Self { path: path.to_owned() })
    }

    /// The directory, for a fork into it.
    pub(crate) fn directory(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Moves this process inside.
    pub(crate) fn enter(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), "0")
    }

    /// Ends everything inside at once, also what is being forked.
    pub(crate) fn kill(&self) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path.join("cgroup.kill"))?.write_all(b"1")
    }

    /// The pids inside, at any depth.
    pub(crate) fn pids(&self) -> Vec<i32> {
        pids_below(&self.path)
    }

    /// A watch on whether anything is inside.
    pub(crate) fn watch(&self) -> io::Result<Watch> {
        File::open(self.path.join("cgroup.events")).map(Watch)
    }

    /// Removes the leaf with all that servers made below it. Fails as long as anything is inside.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_tree(&self.path)
    }

    fn can_be_killed(&self) -> bool {
        let domain = fs::read(self.path.join("cgroup.type")).is_ok_and(|kind| kind == b"domain\n");
        domain && self.path.join("cgroup.kill").exists()
    }
}

/// `cgroup.events` of a leaf; polls as `PRI` when it changes.
#[derive(Debug)]
pub(crate) struct Watch(File);

impl Watch {
    /// Whether any living process is inside, at any depth. A leaf that is gone holds nothing.
    pub(crate) fn populated(&self) -> io::Result<bool> {
        let mut text = [0; 256];
        match self.0.read_at(&mut text, 0) {
            Ok(length) => Ok(!text[..length].split(|b| *b == b'\n').any(|l| l == b"populated 0")),
            Err(error) if error.raw_os_error() == Some(libc::ENODEV) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl std::os::fd::AsFd for Watch {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Whether there is a v1 cgroup of `id` at `path`, which limits it.
pub(crate) fn is_limit_of(id: InstanceId, path: &Path) -> bool {
    is_of(id, path, CGROUP1)
}

/// A cgroup, and of the name that we give: whatever else a ledger may name is not touched.
fn is_of(id: InstanceId, path: &Path, kind: FsWord) -> bool {
    let is_named = path.file_name() == Some(Leaf::name(id).as_ref());
    // Through a link the name says nothing about what is there.
    let is_directory = || fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    is_named && is_directory() && statfs(path).is_ok_and(|found| found.f_type == kind)
}

/// Whether the process is in a cgroup of this name, or below one, in any hierarchy.
pub(crate) fn is_in_cgroup(pid: i32, name: &str) -> bool {
    let cgroups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    cgroups.lines().any(|line| line.split('/').any(|part| part == name))
}

fn pids_below(path: &Path) -> Vec<i32> {
    let own = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let below = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let below = below.flat_map(|entry| pids_below(&entry.path()));
    own.lines().flat_map(str::parse).chain(below).collect()
}

/// Removes a cgroup with all below it; one that is gone counts as removed.
pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_tree(&entry.path())?;
        }
    }
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}
