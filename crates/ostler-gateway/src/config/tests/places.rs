//! Where the configuration is searched, and how it is read.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::super::{Asker, Environment, NotFound, Search, load};
use super::environment;

/// A home directory and a working directory, each with a configuration.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        for place in ["work", "home/.config/ostler", "xdg/ostler", "else"] {
            fs::create_dir_all(root.path().join(place)).unwrap();
        }
        Self { root }
    }

    fn path(&self, place: &str) -> PathBuf {
        self.root.path().canonicalize().unwrap().join(place)
    }

    fn with(self, places: &[&str]) -> Self {
        for place in places {
            fs::write(self.path(place), "{}").unwrap();
        }
        self
    }

    fn find(
        &self,
        given: Option<&str>,
        asker: Asker,
        environment: &Environment,
    ) -> Result<PathBuf, NotFound> {
        let directory = self.path("work");
        Search { given: given.map(Path::new), asker, environment, directory: &directory }.find()
    }
}

const HERE: &str = "work/ostler.json";
const AT_HOME: &str = "home/.config/ostler/ostler.json";
const XDG: &str = "xdg/ostler/ostler.json";
const ELSE: &str = "else/ostler.json";

#[test]
fn the_first_existing_file_is_used() {
    let all = Machine::new().with(&[HERE, AT_HOME, XDG, ELSE]);
    let (home, xdg) = (all.path("home"), all.path("xdg"));
    let (home, xdg) = (home.to_str().unwrap(), xdg.to_str().unwrap());
    let (own, named) = (environment(&[("HOME", home)]), all.path(ELSE));
    let both = environment(&[("HOME", home), ("XDG_CONFIG_HOME", xdg)]);
    let relative =
        environment(&[("HOME", home), ("XDG_CONFIG_HOME", "xdg"), ("OSTLER_CONFIG", "")]);
    let variable = environment(&[("OSTLER_CONFIG", named.to_str().unwrap())]);
    for (given, asker, environment, expected) in [
        (Some("../else/ostler.json"), Asker::Person, &variable, ELSE),
        (Some("ostler.json"), Asker::Client, &variable, HERE),
        (None, Asker::Person, &variable, ELSE),
        (None, Asker::Client, &variable, ELSE),
        (None, Asker::Person, &both, HERE),
        (None, Asker::Client, &both, XDG),
        (None, Asker::Client, &own, AT_HOME),
        (None, Asker::Client, &relative, AT_HOME),
    ] {
        let found = all.find(given, asker, environment).unwrap();
        assert_eq!(found, all.path(expected), "{given:?} {asker:?} {environment:?}");
    }
}

#[test]
fn a_file_in_the_working_directory_does_not_configure_a_client() {
    let machine = Machine::new().with(&[HERE]);
    let error = machine.find(None, Asker::Client, &environment(&[("HOME", "/none")])).unwrap_err();
    let expected = "no configuration found; looked for /none/.config/ostler/ostler.json";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_named_file_has_to_exist() {
    let machine = Machine::new().with(&[HERE]);
    let variable = environment(&[("OSTLER_CONFIG", "/none.json")]);
    let error = machine.find(None, Asker::Person, &variable).unwrap_err();
    assert_eq!(error.to_string(), "cannot read the configuration /none.json");
}

#[test]
fn the_real_path_is_returned() {
    let machine = Machine::new().with(&[ELSE]);
    symlink(machine.path(ELSE), machine.path(HERE)).unwrap();
    let found = machine.find(None, Asker::Person, &Environment::default()).unwrap();
    assert_eq!(found, machine.path(ELSE));
}

#[test]
fn a_path_that_is_not_a_text_file_is_refused_without_a_wait() {
    let machine = Machine::new();
    let fifo = machine.path("fifo");
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let (large, binary) = (machine.path("large"), machine.path("binary"));
    fs::File::create(&large).unwrap().set_len(1 << 40).unwrap();
    fs::write(&binary, b"{\n\n\"\xff\"}").unwrap();
    for (path, expected) in [
        (&fifo, "is not a file"),
        (&machine.path("work"), "is not a file"),
        (&PathBuf::from("/dev/zero"), "is not a file"),
        (&large, "is larger than 4194304 bytes"),
        (&binary, ": line 3 is not UTF-8"),
        (&machine.path("none"), "can't be read"),
    ] {
        let said = load(path).unwrap_err().to_string();
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_byte_order_mark_is_accepted() {
    let machine = Machine::new();
    fs::write(machine.path(HERE), "\u{feff}{}").unwrap();
    assert!(load(&machine.path(HERE)).unwrap().servers.is_empty());
}
