//! Where the workspace's binaries are.

use std::path::PathBuf;

/// The path of a workspace binary, which is beside the directory of the running test executable
/// (`target/<profile>/<name>` for `target/<profile>/deps/<test>`).
pub fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test executable");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("the profile directory");
    let path = profile.join(name);
    assert!(
        path.is_file(),
        "{} is missing; build it first: cargo build --workspace",
        path.display()
    );
    path
}
