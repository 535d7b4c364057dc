//! Cgroups of the test's own where the controllers of limits are mounted as v1.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::wait::poll;

/// Resources that `ostler run` can limit.
const NAMES: [&str; 3] = ["memory", "cpu", "pids"];
/// Time for the kernel to release the cgroup of an ended process.
const END_LIMIT: Duration = Duration::from_secs(20);

/// One cgroup in the hierarchy of each controller, removed on drop.
#[derive(Debug)]
pub(crate) struct Controllers(Vec<(&'static str, PathBuf)>);

impl Controllers {
    /// New ones below those of this process. Panics where that is not possible.
    pub(crate) fn create(name: &str) -> Self {
        let create = |controller: &'static str| {
            let own = own_cgroup(controller);
            let own = own.unwrap_or_else(|| panic!("no v1 hierarchy of {controller} is mounted"));
            let directory = own.join(name);
            fs::create_dir(&directory).expect("a cgroup for limits");
            (controller, directory)
        };
        Self(NAMES.map(create).into())
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(|(_, directory)| directory.as_path())
    }

    pub(crate) fn of(&self, controller: &str) -> Option<&Path> {
        self.0.iter().find(|(name, _)| *name == controller).map(|(_, path)| path.as_path())
    }

    /// Cgroups that were created below them.
    pub(crate) fn children(&self) -> Vec<PathBuf> {
        self.paths().flat_map(children).collect()
    }

    /// Gives them to a user, as a service manager delegates a subtree.
    pub(crate) fn delegate_to(&self, uid: u32) {
        for directory in self.paths() {
            for path in [directory, &directory.join("cgroup.procs")] {
                chown(path, Some(uid), Some(uid)).expect("chown of a cgroup");
            }
        }
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let removed = poll(END_LIMIT, || {
            let all = self.children().into_iter().chain(self.paths().map(Into::into));
            all.filter(|path| path.exists()).all(|path| fs::remove_dir(path).is_ok())
        });
        assert!(removed.is_some() || std::thread::panicking(), "cgroups of limits stay busy");
    }
}

pub(crate) fn children(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Where this process is in the hierarchy of a controller.
fn own_cgroup(controller: &str) -> Option<PathBuf> {
    let lists = |names: &str| names.split(',').any(|name| name == controller);
    let cgroups = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = cgroups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        fields.next().filter(|names| lists(names)).and(fields.next())
    })?;
    let mounts = fs::read_to_string("/proc/mounts").ok()?;
    let mount = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let mount = mount.into_iter().find(|fields| fields[2] == "cgroup" && lists(fields[3]))?;
    Some(Path::new(mount[1]).join(own.trim_start_matches('/')))
}
