//! Where the cgroup v2 of this process is: pure, beside v1, or inside a container.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use super::NoLeaf;

/// The directory of the cgroup v2 that this process is in.
pub(super) fn own_cgroup() -> Result<PathBuf, NoLeaf> {
    let read = |path| fs::read(path).map_err(|error| NoLeaf::NotMounted(Some(error)));
    locate(&read("/proc/self/mountinfo")?, &read("/proc/self/cgroup")?)
        .ok_or(NoLeaf::NotMounted(None))
}

fn locate(mountinfo: &[u8], cgroup: &[u8]) -> Option<PathBuf> {
    let own = lines(cgroup).find_map(|line| line.strip_prefix(b"0::")).map(path_of)?;
    // A path with `..` lies outside of the cgroup namespace: nothing there can be reached.
    if own.components().any(|part| part == Component::ParentDir) {
        return None;
    }
    // The last mount lies on top of the earlier ones.
    lines(mountinfo).filter_map(|line| directory_in(line, &own)).last()
}

/// The directory of the cgroup `own`, if `line` of mountinfo is a mount that shows it.
fn directory_in(line: &[u8], own: &Path) -> Option<PathBuf> {
    let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let separator = fields.iter().position(|field| *field == b"-")?;
    if *fields.get(separator + 1)? != b"cgroup2" {
        return None;
    }
    let (root, point) = (path_of(fields.get(3)?), path_of(fields.get(4)?));
    Some(point.join(own.strip_prefix(root).ok()?))
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
        locate(mountinfo.as_bytes(), cgroup.as_bytes())
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
    fn what_cannot_be_seen_is_not_found() {
        let v1_only = "30 23 0:26 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(located(v1_only, "0::/\n"), None);
        let v2 = "31 23 0:27 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(located(v2, "4:memory:/\n"), None);
        assert_eq!(located(v2, "0::/../outside\n"), None);
        assert_eq!(located("garbage\n- cgroup2\n", "0::/\n"), None);
    }
}
