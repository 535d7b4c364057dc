//! Builds the test image locally, without a registry.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// Debian's `busybox-static`.
const BUSYBOX: &str = "/bin/busybox";
const TOOLS: [&str; 12] =
    ["cat", "date", "dd", "echo", "env", "false", "head", "ls", "sh", "sleep", "true", "yes"];

/// Writes an archive of a root directory with a shell and the small tools, for `docker import`.
pub fn box_archive(root: &Path, archive: &Path) {
    let bin = root.join("bin");
    fs::create_dir_all(&bin).expect("a directory for the image");
    fs::create_dir_all(root.join("tmp")).expect("a directory for the image");
    fs::copy(BUSYBOX, bin.join("busybox")).expect("busybox; scripts/prepare installs it");
    for tool in TOOLS {
        let _ = fs::remove_file(bin.join(tool));
        symlink("busybox", bin.join(tool)).expect("a link");
    }
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(root).arg("-cf").arg(archive).arg(".");
    assert!(tar.status().expect("tar runs").success());
}
