//! Paths of the workspace's binaries.

use std::path::PathBuf;

/// The path of a workspace binary: in the directory that `OSTLER_TEST_PROGRAMS` names, so that
/// tests of a quick build can run the released programs; otherwise beside the directory of the
/// running test executable (`target/<profile>/<name>` for `target/<profile>/deps/<test>`).
pub fn binary(name: &str) -> PathBuf {
    let programs = match std::env::var_os("OSTLER_TEST_PROGRAMS") {
        Some(directory) => PathBuf::from(directory),
        None => beside_the_test(),
    };
    let path = programs.join(name);
    assert!(
        path.is_file(),
        "{} is missing; build it first: cargo build --workspace",
        path.display()
    );
    path
}

fn beside_the_test() -> PathBuf {
    let test = std::env::current_exe().expect("the path of the test executable");
    let profile = test.parent().and_then(|deps| deps.parent()).expect("the profile directory");
    profile.to_owned()
}
