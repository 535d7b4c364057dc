//! Finds the cgroup directories of this process: on v2 alone, on v2 beside v1, or inside a container.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// A tree of cgroups. Each process is in one cgroup of every hierarchy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Hierarchy {
    V2,
    /// The hierarchy of this controller.
    V1(&'static str),
}

impl Hierarchy {
    /// The path in a line of `/proc/self/cgroup`, if the line is about this hierarchy.
    fn path_in(self, line: &[u8]) -> Option<&[u8]> {
        let mut fields = line.splitn(3, |b| *b == b':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        let is_this = match self {
            Self::V2 => controllers.is_empty(),
            Self::V1(controller) => lists(controllers, controller),
        };
        is_this.then_some(path)
    }

    /// Whether a mount with this type and these options shows this hierarchy.
    fn is_mounted_as(self, kind: &[u8], options: &[u8]) -> bool {
        match self {
            Self::V2 => kind == b"cgroup2",
            Self::V1(controller) => kind == b"cgroup" && lists(options, controller),
        }
    }
}

/// The directory of this process's own cgroup, or `None` if it is not visible.
pub(super) fn own_cgroup(hierarchy: Hierarchy) -> io::Result<Option<PathBuf>> {
    let (mountinfo, cgroup) = (fs::read("/proc/self/mountinfo")?, fs::read("/proc/self/cgroup")?);
    Ok(locate(&mountinfo, &cgroup, hierarchy))
}

fn locate(mountinfo: &[u8], cgroup: &[u8], hierarchy: Hierarchy) -> Option<PathBuf> {
    let own = lines(cgroup).find_map(|line| hierarchy.path_in(line)).map(path_of)?;
    // A path with `..` lies outside of the cgroup namespace and can't be reached.
    if own.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    // A later mount covers earlier ones.
    lines(mountinfo).filter_map(|line| directory_in(line, &own, hierarchy)).last()
}

/// The directory of the cgroup `own`, if `line` of mountinfo is a mount that shows it.
fn directory_in(line: &[u8], own: &Path, hierarchy: Hierarchy) -> Option<PathBuf> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    if !hierarchy.is_mounted_as(fields.get(separator + 1)?, fields.get(separator + 3)?) {
        return None;
    }
    let (root, point) = (path_of(fields.get(3)?), path_of(fields.get(4)?));
    Some(point.join(own.strip_prefix(root).ok()?))
}

fn lists(names: &[u8], name: &str) -> bool {
    names.split(|b| *b == b',').any(|listed| listed == name.as_bytes())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|b| *b == b'\n')
}

/// Undoes the octal escapes (`\040`) that the kernel writes for spaces and backslashes.
fn path_of(escaped: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(escaped.len());
    let mut rest = escaped;
    while let [first, tail @ ..] = rest {
        let octal = tail.get(..3).filter(|_| *first == b'\\').and_then(octal);
        bytes.push(octal.unwrap_or(*first));
        rest = if octal.is_some() { &tail[3..] } else { tail };
    }
    OsString::from_vec(bytes).into()
}

fn octal(digits: &[u8]) -> Option<u8> {
    std::str::from_utf8(digits).ok().and_then(|text| u8::from_str_radix(text, 8).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn located(mountinfo: &str, cgroup: &str) -> Option<PathBuf> {
        locate(mountinfo.as_bytes(), cgroup.as_bytes(), Hierarchy::V2)
    }

    #[test]
    fn a_controller_of_v1_is_found_beside_v2_and_under_any_name() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n\
                      31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n\
                      32 23 0:28 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n";
        let own = "4:cpu,cpuacct:/a:b\n5:name=systemd:/x\n0::/y\n";
        let find = |name| locate(mounts.as_bytes(), own.as_bytes(), Hierarchy::V1(name));
        assert_eq!(find("cpu"), Some("/sys/fs/cgroup/cpu,cpuacct/a:b".into()));
        assert_eq!(find("memory"), None);
        assert_eq!(find("systemd"), None);
    }

    #[test]
    fn a_pure_hierarchy_is_found() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";
        let own = "0::/user.slice/user-1000.slice/session-2.scope\n";
        let expected = "/sys/fs/cgroup/user.slice/user-1000.slice/session-2.scope";
        assert_eq!(located(mounts, own), Some(expected.into()));
    }

    #[test]
    fn a_hierarchy_beside_v1_is_found() {
        let mounts = "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
                      31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "4:memory:/else\n0::/\n";
        assert_eq!(located(mounts, own), Some("/sys/fs/cgroup/unified/".into()));
    }

    #[test]
    fn a_mounted_subtree_is_entered_below_its_root() {
        let mounts = "31 23 0:27 /a\\040b /mnt/c\\134d rw - cgroup2 cgroup2 rw\n";
        assert_eq!(located(mounts, "0::/a b/leaf\n"), Some("/mnt/c\\d/leaf".into()));
        assert_eq!(located(mounts, "0::/elsewhere\n"), None);
    }

    #[test]
    fn an_invisible_hierarchy_is_not_found() {
        let v1_only = "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(located(v1_only, "0::/\n"), None);
        let v2 = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(located(v2, "4:memory:/\n"), None);
        assert_eq!(located(v2, "0::/../outside\n"), None);
        assert_eq!(located("garbage\n- cgroup2\n", "0::/\n:\n"), None);
    }
}
