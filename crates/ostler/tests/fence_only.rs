//! A host that only fences one server compiles no runtime, no HTTP and no TLS, and works without them.
#![expect(clippy::unwrap_used, reason = "a test that can't go on should stop")]

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use ostler::{INSTANCE_VARIABLE, InstanceId, OwnerId, Process};

/// Packages that such a host must not need.
const HEAVY: [&str; 3] = ["tokio", "hyper", "rustls"];

fn cargo(arguments: &[&str]) -> Output {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let output = Command::new(cargo)
        .args(arguments)
        .args(["--locked", "--offline"])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Which of the heavy packages the library needs.
fn heavy_packages(features: &[&str]) -> Vec<String> {
    let tree = ["tree", "--package", "ostler", "--edges", "normal", "--prefix", "none"];
    let tree = cargo(&[&tree, features].concat());
    let tree = String::from_utf8(tree.stdout).unwrap();
    assert!(tree.contains("rustix v"), "{tree}");
    let is_heavy = |line: &&str| HEAVY.iter().any(|name| line.starts_with(name));
    tree.lines().filter(is_heavy).map(ToOwned::to_owned).collect()
}

#[test]
fn a_host_that_only_fences_compiles_no_runtime() {
    let none: Vec<String> = Vec::new();
    assert_eq!(heavy_packages(&["--no-default-features"]), none);
    assert_ne!(heavy_packages(&[]), none, "the test would find them");
}

/// Builds the host separately: in one build with the tests, cargo would unify its features with all others.
fn host() -> PathBuf {
    let target = concat!(env!("CARGO_TARGET_TMPDIR"), "/fence-only");
    cargo(&["build", "--package", "ostler-fence-only", "--target-dir", target]);
    Path::new(target).join("debug/ostler-fence-only")
}

fn run(host: &Path, engine: &str) -> (Output, Option<String>) {
    let directory = tempfile::tempdir().unwrap();
    let output = Command::new(host).arg(directory.path()).arg(engine).output().unwrap();
    let owners = fs::read_dir(directory.path().join("state/owners"));
    assert_eq!(owners.map_or(0, Iterator::count), 0, "the ledger is settled");
    (output, fs::read_to_string(directory.path().join("gone")).ok())
}

#[test]
fn a_host_without_the_engine_part_starts_servers_with_engine_off_only() {
    let host = host();
    let (output, gone) = run(&host, "off");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let id = gone.unwrap();
    let survivors: Vec<_> = Process::carrying(INSTANCE_VARIABLE);
    assert!(!survivors.iter().any(|(_, mark)| *mark == id), "{survivors:?}");
    for engine in ["auto", "docker", "podman"] {
        let (output, gone) = run(&host, engine);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && gone.is_none(), "{engine}: {said}");
        for needed in [engine, "feature 'engine'", "choose engine 'off'"] {
            assert!(said.contains(needed), "{engine}: {said}");
        }
    }
}

/// Writes the ledger of a dead owner whose server had a Door, and optionally the note that the Door was used.
fn dead_owner(directory: &Path, has_note: bool) -> PathBuf {
    let (owner, instance) = (OwnerId::random().unwrap(), InstanceId::random().unwrap());
    let owners = directory.join("state/owners");
    let book = owners.join(owner.to_string());
    fs::create_dir_all(&book).unwrap();
    for place in [&directory.join("state"), &owners, &book] {
        fs::set_permissions(place, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let this_boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let process = r#"{"pid":2147483647,"start":1}"#;
    let first = format!(
        r#"{{"record":"owner","id":"{owner}","process":{process},"program":"p","client":null,"boot":"{}"}}"#,
        this_boot.trim()
    );
    let socket = directory.join(format!("{instance}.sock"));
    let engine =
        format!(r#"{{"endpoint":{{"unix":"/nowhere.sock"}},"socket":"{}"}}"#, socket.display());
    let second = format!(
        r#"{{"record":"intent","instance":"{instance}","name":"s","program":"p","leaf":null,"ways":{{"engines":[{engine}],"shelf":null}},"at":1}}"#
    );
    fs::write(book.join("ledger"), format!("{first}\n{second}\n")).unwrap();
    fs::write(book.join("owner.lock"), "").unwrap();
    if has_note {
        fs::write(book.join(format!("{instance}.door")), "{\"creates\":0}\n").unwrap();
    }
    book
}

#[test]
fn containers_stay_recorded_for_a_host_that_has_the_engine_part() {
    let host = host();
    for has_note in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let book = dead_owner(directory.path(), has_note);
        let output = Command::new(&host).arg(directory.path()).arg("sweep").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let swept = fs::read_to_string(directory.path().join("swept")).unwrap();
        assert!(swept.starts_with("unverified: "), "{swept}");
        assert_eq!(swept.contains("feature 'engine'"), has_note, "{swept}");
        assert_eq!(book.exists(), has_note, "{swept}");
    }
}
