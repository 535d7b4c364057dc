//! A home directory of its own, with files of clients.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use ostler_clients::{
    Action, Backups, Client, Configuration, Import, Machine, Mode, Os, Plan, Request, Source, Step,
    Undo,
};
use tempfile::TempDir;

/// Path of ostler in linked files.
pub(crate) const PROGRAM: &str = "/opt/ostler/bin/ostler";

pub(crate) struct Home {
    directory: TempDir,
    pub(crate) machine: Machine,
}

impl Home {
    /// A home with the fixture of a client at its usual place.
    pub(crate) fn with(client: &str, text: &str) -> Self {
        let home = Self::empty();
        home.write(client, text);
        home
    }

    pub(crate) fn empty() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let real = fs::canonicalize(directory.path()).unwrap();
        let project = real.join("project");
        fs::create_dir(&project).unwrap();
        let machine =
            Machine { home: real.join("home"), project, os: Os::Linux, variables: BTreeMap::new() };
        Self { directory, machine }
    }

    pub(crate) fn path(&self, client: &str) -> PathBuf {
        self.machine.path(&Client::named(client).unwrap().files[0])
    }

    pub(crate) fn write(&self, client: &str, text: &str) {
        let path = self.path(client);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, client: &str) -> String {
        fs::read_to_string(self.path(client)).unwrap()
    }

    pub(crate) fn configuration(&self) -> Configuration {
        Configuration::open(&self.machine.configuration()).unwrap()
    }

    pub(crate) fn import(&self, client: &str, configuration: &mut Configuration) -> Vec<Import> {
        let source = Source::Client(Client::named(client).unwrap());
        ostler_clients::import(&self.machine, &source, false, configuration, &|_| Ok(())).unwrap()
    }

    pub(crate) fn plan(&self, client: &str, mode: Mode, configuration: &mut Configuration) -> Plan {
        let client = Client::named(client).unwrap();
        let request = Request { client, mode, project: false, program: Path::new(PROGRAM) };
        let plans =
            ostler_clients::plan(&self.machine, request, configuration, &|_| Ok(())).unwrap();
        let [plan] = <[Plan; 1]>::try_from(plans).expect("one file");
        plan
    }

    /// Links a client, and returns what happened to its entries.
    pub(crate) fn link(&self, client: &str, mode: Mode) -> Vec<Step> {
        let mut configuration = self.configuration();
        let plan = self.plan(client, mode, &mut configuration);
        if let Some(text) = configuration.edited(&|_| Ok(())).unwrap() {
            configuration.document().replace(&text).unwrap();
        }
        if plan.changes() {
            plan.apply(self.backups()).unwrap();
        }
        plan.steps
    }

    pub(crate) fn unlink(&self, client: &str) -> Undo {
        let plans = ostler_clients::plan_undo(&self.machine, Client::named(client).unwrap(), false);
        let [undo] = <[Undo; 1]>::try_from(plans.unwrap()).expect("one file");
        undo.apply(self.backups()).unwrap();
        undo
    }

    fn backups(&self) -> Backups<'_> {
        let state = self.directory.path().join("home/.local/state/ostler");
        Backups { state: Box::leak(Box::new(state)), stamp: "20261118-120000" }
    }
}

/// The names of the entries to which that happened.
pub(crate) fn names(steps: &[Step], is: impl Fn(&Action) -> bool) -> Vec<&str> {
    steps.iter().filter(|step| is(&step.action)).map(|step| step.name.as_str()).collect()
}
