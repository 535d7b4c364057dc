//! Where the configuration is.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::environment::Environment;

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
    #[error("cannot read the configuration {}", path.display())]
    Named {
        /// There.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Anywhere.
    #[error("no configuration found; looked for {}{}", list(places), hint(ignored))]
    Anywhere {
        /// Where it could have been.
        places: Vec<PathBuf>,
        /// Files that are there and not read, each with the place that it was probably meant for.
        ignored: Vec<(PathBuf, PathBuf)>,
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
        let ignored = || self.ignored(&places);
        found.ok_or_else(|| NotFound::Anywhere { ignored: ignored(), places: places.clone() })
    }

    fn places(&self) -> Vec<PathBuf> {
        let here = match self.asker {
            Asker::Person => Some(self.directory.join(FILE_NAME)),
            Asker::Client => None,
        };
        here.into_iter().chain(self.config_home().map(|base| in_home(&base))).collect()
    }

    /// The XDG config home.
    fn config_home(&self) -> Option<PathBuf> {
        self.absolute("XDG_CONFIG_HOME").or_else(|| self.usual_config_home())
    }

    fn usual_config_home(&self) -> Option<PathBuf> {
        self.absolute("HOME").map(|home| home.join(".config"))
    }

    /// Files at places where a configuration is easily put by mistake.
    fn ignored(&self, places: &[PathBuf]) -> Vec<(PathBuf, PathBuf)> {
        let Some(meant) = self.config_home().map(|base| in_home(&base)) else { return Vec::new() };
        let homes = self.config_home().into_iter().chain(self.usual_config_home());
        let near = homes.flat_map(|base| [base.join(FILE_NAME), in_home(&base)]);
        let mut near: Vec<PathBuf> = near.filter(|path| !places.contains(path)).collect();
        near.dedup();
        near.retain(|path| path.is_file());
        near.into_iter().map(|path| (path, meant.clone())).collect()
    }

    fn absolute(&self, name: &str) -> Option<PathBuf> {
        self.variable(name).map(PathBuf::from).filter(|path| path.is_absolute())
    }

    /// A variable that says something.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(name).filter(|value| !value.is_empty())
    }
}

/// The file in a config home.
fn in_home(base: &Path) -> PathBuf {
    base.join("ostler").join(FILE_NAME)
}

fn hint(ignored: &[(PathBuf, PathBuf)]) -> String {
    let hint = |(path, meant): &(PathBuf, PathBuf)| {
        format!("; {} is not read; move it to {}", path.display(), meant.display())
    };
    ignored.iter().map(hint).collect::<Vec<_>>().concat()
}

fn list(places: &[PathBuf]) -> String {
    let places: Vec<_> = places.iter().map(|place| place.display().to_string()).collect();
    if places.is_empty() {
        "nowhere: there is no home directory".to_owned()
    } else {
        places.join(", ")
    }
}
