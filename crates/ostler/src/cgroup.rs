//! The leaf: a cgroup v2 that holds exactly one instance.
//!
//! The guardian creates it below its own cgroup, wherever the v2 hierarchy is mounted, and forks the server into it. A
//! process can't leave it by losing its parent or changing its session. Three files are all that is needed:
//! `cgroup.procs` to enter, `cgroup.kill` to kill every process inside, also those that are being forked, and
//! `cgroup.events` for the proof that it is empty.

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

/// File system types, as `statfs` reports them.
const CGROUP2: FsWord = 0x6367_7270;
const CGROUP1: FsWord = 0x0027_e0eb;

/// Why no leaf can be created.
#[derive(Debug, thiserror::Error)]
pub enum NoLeaf {
    /// This process can't see its own cgroup v2.
    #[error("no mounted cgroup v2 hierarchy contains this process")]
    NotMounted(#[source] Option<io::Error>),
    /// This user may not create cgroups below that of this process.
    #[error("{} is not writable", .0.display())]
    NotOurs(PathBuf, #[source] io::Error),
    /// The kernel is older than 5.14, or the cgroup is a threaded one.
    #[error("{} has no cgroup.kill (Linux before 5.14) or is threaded", .0.display())]
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
    /// Path for the leaf of `id`: below the cgroup of this process, which itself is never moved.
    pub(crate) fn place(id: InstanceId) -> Result<PathBuf, NoLeaf> {
        Ok(Self::parent()?.join(Self::name(id)))
    }

    /// The cgroup of this process, if leaves may be made below it.
    fn parent() -> Result<PathBuf, NoLeaf> {
        let own = match mount::own_cgroup(Hierarchy::V2) {
            Ok(own) => own.ok_or(NoLeaf::NotMounted(None))?,
            Err(error) => return Err(NoLeaf::NotMounted(Some(error))),
        };
        // To move a process, the kernel requires write access to `cgroup.procs` of the common ancestor.
        match access(own.join("cgroup.procs"), Access::WRITE_OK) {
            Ok(()) => Ok(own),
            Err(errno) => Err(NoLeaf::NotOurs(own, errno.into())),
        }
    }

    /// Directory name of the leaf of `id`.
    pub(crate) fn name(id: InstanceId) -> String {
        format!("ostler-{id}")
    }

    /// Creates the leaf.
    pub(crate) fn create(path: PathBuf) -> Result<Self, NoLeaf> {
        if let Err(source) = fs::create_dir(&path) {
            return Err(NoLeaf::NotOurs(path, source));
        }
        let leaf = Self { path };
        if leaf.can_be_killed() {
            return Ok(leaf);
        }
        // No process is in it, so the removal succeeds.
        let _ = leaf.remove();
        Err(NoLeaf::NoKill(leaf.path))
    }

    /// The leaf of `id` at `path`, if it exists and has the right name and type.
    pub(crate) fn find(path: &Path, id: InstanceId) -> Option<Self> {
        is_of(id, path, CGROUP2).then(|| Self { path: path.to_owned() })
    }

    /// Opens the directory, for a fork into it.
    pub(crate) fn directory(&self) -> io::Result<File> {
        File::open(&self.path)
    }

    /// Moves this process into the leaf.
    pub(crate) fn enter(&self) -> io::Result<()> {
        fs::write(self.path.join("cgroup.procs"), "0")
    }

    /// Kills every process inside at once, also those that are being forked.
    pub(crate) fn kill(&self) -> io::Result<()> {
        OpenOptions::new().write(true).open(self.path.join("cgroup.kill"))?.write_all(b"1")
    }

    /// Pids in the leaf and in the cgroups below it.
    pub(crate) fn pids(&self) -> Vec<i32> {
        pids_below(&self.path)
    }

    /// Opens `cgroup.events`.
    pub(crate) fn watch(&self) -> io::Result<Watch> {
        File::open(self.path.join("cgroup.events")).map(Watch)
    }

    /// Removes the leaf and the cgroups that the server created below it. Fails while a process is inside.
    pub(crate) fn remove(&self) -> io::Result<()> {
        remove_tree(&self.path)
    }

    fn can_be_killed(&self) -> bool {
        let domain = fs::read(self.path.join("cgroup.type")).is_ok_and(|kind| kind == b"domain\n");
        domain && self.path.join("cgroup.kill").exists()
    }
}

/// `cgroup.events` of a leaf; `poll` reports `PRI` when it changes.
#[derive(Debug)]
pub(crate) struct Watch(File);

impl Watch {
    /// Whether a living process is in the leaf or below. A leaf that was removed is empty.
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

/// Whether `path` is a v1 cgroup that we created to limit `id`.
pub(crate) fn is_limit_of(id: InstanceId, path: &Path) -> bool {
    is_of(id, path, CGROUP1)
}

/// Whether `path` is a cgroup with the name that we give. A ledger could name any path, and no other may be touched.
fn is_of(id: InstanceId, path: &Path, kind: FsWord) -> bool {
    let is_named = path.file_name() == Some(Leaf::name(id).as_ref());
    // The name of a symbolic link says nothing about its target.
    let is_directory = || fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    is_named && is_directory() && statfs(path).is_ok_and(|found| found.f_type == kind)
}

/// Whether the process is in or below a cgroup of this name, in any hierarchy.
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

/// Removes a cgroup and all below it. Succeeds if it does not exist.
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
