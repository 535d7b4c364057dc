//! The Debian package and the archive, unpacked into a private root.

use std::process::Command;

use ostler_testkit::Stage;

use crate::artifacts::{fresh, install, package};
use crate::kills::use_and_kill;

/// What both contain besides the program.
const FILES: [&str; 6] = [
    "share/man/man1/ostler.1.gz",
    "share/bash-completion/completions/ostler",
    "share/zsh/vendor-completions/_ostler",
    "share/fish/vendor_completions.d/ostler.fish",
    "share/doc/ostler-mcp/copyright",
    "lib/systemd/user/ostler.service",
];

#[test]
fn a_program_of_the_debian_package_leaves_nothing() {
    let stage = Stage::leaf();
    let root = fresh(&stage, "root");
    install(
        Command::new("dpkg-deb").arg("--extract").arg(package("ostler-mcp_", ".deb")).arg(&root),
    );
    for file in FILES {
        assert!(root.join("usr").join(file).metadata().unwrap().len() > 100, "{file}");
    }
    use_and_kill(&stage, || stage.command(root.join("usr/bin/ostler-mcp")));
}

#[test]
fn a_program_of_the_archive_leaves_nothing() {
    let stage = Stage::leaf();
    let root = fresh(&stage, "root");
    let archive = package("ostler-", ".tar.gz");
    install(
        Command::new("tar")
            .args(["--strip-components=1", "-C"])
            .arg(&root)
            .arg("-xzf")
            .arg(archive),
    );
    for file in FILES {
        assert!(root.join(file).exists(), "{file}");
    }
    use_and_kill(&stage, || stage.command(root.join("bin/ostler")));
}
