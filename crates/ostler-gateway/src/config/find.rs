//! Where the configuration is.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::environment::Environment;

/// The name of the file in a directory that is looked at.
const FILE_NAME: &str = "ostler.json";

/// The variable that names the file.
const VARIABLE: &str = "OSTLER_CONFIG";

/// Who asks for the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Somebody at a command line.
    Person,
    /// A client that wants to be connected. The directory that it runs in may be a clone of somebody
    /// else's work, so that what lies there decides nothing.
    Client,
}

/// What decides where the configuration is.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The file, if somebody has said which.
    pub given: Option<&'a Path>,
    /// Who asks.
    pub asker: Asker,
    /// The asker's variables.
    pub environment: &'a Environment,
    /// The asker's working directory.
    pub directory: &'a Path,
}

/// There is no configuration.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// Where somebody has said that it is.
    #[error("there is no configuration at {}", path.display())]
    Named {
        /// There.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Anywhere.
    #[error("there is no configuration; looked for {}", list(places))]
    Anywhere {
        /// Where it could have been.
        places: Vec<PathBuf>,
    },
}

impl Search<'_> {
    /// The real path of the configuration. What is named has to be there; else the first that is there.
    pub fn find(&self) -> Result<PathBuf, NotFound> {
        let named = self.variable(VARIABLE).map(Path::new);
        if let Some(path) = self.given.or(named) {
            let path = self.directory.join(path);
            return fs::canonicalize(&path).map_err(|source| NotFound::Named { path, source });
        }
        let places = self.places();
        let found = places.iter().find_map(|place| fs::canonicalize(place).ok());
        found.ok_or(NotFound::Anywhere { places })
    }

    fn places(&self) -> Vec<PathBuf> {
        let here = match self.asker {
            Asker::Person => Some(self.directory.join(FILE_NAME)),
            Asker::Client => None,
        };
        let absolute = |name| self.variable(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let home = || absolute("HOME").map(|home| home.join(".config"));
        let of_user = absolute("XDG_CONFIG_HOME").or_else(home);
        here.into_iter().chain(of_user.map(|base| base.join("ostler").join(FILE_NAME))).collect()
    }

    /// A variable that says something.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(name).filter(|value| !value.is_empty())
    }
}

fn list(places: &[PathBuf]) -> String {
    let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    if places.is_empty() {
        "nowhere: there is no home directory".to_owned()
    } else {
        places.join(", ")
    }
}
