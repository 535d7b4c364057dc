//! A cgroup v2 directory for one test.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wait::poll;

/// Time for the kernel to end killed processes.
const END_LIMIT: Duration = Duration::from_secs(20);

/// A cgroup. Drop kills its processes and removes it.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    /// Path in the form of `/proc/<pid>/cgroup`.
    kernel_path: String,
}

/// Cgroup of this process in the v2 hierarchy.
struct Place {
    directory: PathBuf,
    kernel_path: String,
}

impl Cgroup {
    /// Creates a cgroup below that of this process. Panics if that is impossible, because a test that cannot see survivors must not
    /// pass.
    pub fn create(name: &str) -> Self {
        let place = Place::of_self().unwrap_or_else(|| panic!("no cgroup2 hierarchy is mounted"));
        let path = place.directory.join(name);
        if let Err(error) = fs::create_dir(&path) {
            panic!(
                "the tests need a writable cgroup2, and cannot create {}: {error}. \
                 Run them as root, or inside of a delegated cgroup",
                path.display()
            );
        }
        let kernel_path = format!("{}/{name}", place.kernel_path.trim_end_matches('/'));
        Self { path, kernel_path }
    }

    /// Its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The pids of the living processes in it and below it.
    pub fn pids(&self) -> BTreeSet<u32> {
        let mut pids = pids_of(&self.path);
        for child in self.children() {
            pids.extend(pids_of(&child));
        }
        pids
    }

    /// The cgroups below it, deepest last.
    pub fn children(&self) -> Vec<PathBuf> {
        below(&self.path)
    }

    /// Whether a living process is in it or below it, by the kernel's own count, which no change of pid escapes.
    pub fn is_populated(&self) -> bool {
        fs::read_to_string(self.path.join("cgroup.events"))
            .is_ok_and(|events| events.lines().any(|line| line == "populated 1"))
    }

    /// Whether a process is in it or below it. Also true for a zombie that was there when it ended.
    pub fn contains(&self, pid: u32) -> bool {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let Some(path) = text.lines().find_map(|line| line.strip_prefix("0::")) else {
            return false;
        };
        path.strip_prefix(&self.kernel_path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', ' ']))
    }

    /// Kills its processes and removes it. Returns what failed.
    pub(crate) fn end(&self) -> io::Result<()> {
        if !self.path.exists() {
            return Ok(());
        }
        fs::write(self.path.join("cgroup.kill"), "1")?;
        poll(END_LIMIT, || !self.is_populated())
            .ok_or_else(|| io::Error::other("processes survived cgroup.kill"))?;
        // A dying process may keep its directory busy for a moment.
        poll(END_LIMIT, || self.remove().is_ok())
            .ok_or_else(|| io::Error::other(format!("{} stays busy", self.path.display())))
    }

    fn remove(&self) -> io::Result<()> {
        for child in self.children().iter().rev() {
            fs::remove_dir(child)?;
        }
        fs::remove_dir(&self.path)
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let ended = self.end();
        if !std::thread::panicking() {
            ended.expect("the end of a test's cgroup");
        }
    }
}

impl Place {
    fn of_self() -> Option<Self> {
        let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let kernel_path = cgroups.lines().find_map(|line| line.strip_prefix("0::"))?.to_owned();
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        let directory = mounts.lines().find_map(|line| directory_in(line, &kernel_path))?;
        Some(Self { directory, kernel_path })
    }
}

/// The directory of a cgroup in one mount, if that is one of cgroup2 and shows it.
fn directory_in(mount: &str, kernel_path: &str) -> Option<PathBuf> {
    let (before, after) = mount.split_once(" - ")?;
    if after.split(' ').next() != Some("cgroup2") {
        return None;
    }
    let mut fields = before.split(' ').skip(3);
    let (root, point) = (fields.next()?, fields.next()?);
    let relative = Path::new(kernel_path).strip_prefix(root).ok()?;
    Some(Path::new(point).join(relative))
}

/// A zero is a process in a pid namespace that is not visible from here.
fn pids_of(directory: &Path) -> BTreeSet<u32> {
    let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).filter(|pid| *pid != 0).collect()
}

fn below(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten().filter(|entry| entry.path().is_dir()) {
        found.push(entry.path());
        found.extend(below(&entry.path()));
    }
    found
}
