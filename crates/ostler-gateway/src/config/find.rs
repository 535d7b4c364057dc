//! Finds the configuration file.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::environment::Environment;

/// File name of a configuration.
const FILE_NAME: &str = "ostler.json";

/// Environment variable with the path of the configuration.
const VARIABLE: &str = "OSTLER_CONFIG";

/// On whose behalf the configuration is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// A user at a command line.
    Person,
    /// An MCP client that connects. It may run in a cloned repository that is not trusted, so a configuration in its
    /// working directory is ignored.
    Client,
}

/// Inputs of the search.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Path given on the command line.
    pub given: Option<&'a Path>,
    /// On whose behalf the search runs.
    pub asker: Asker,
    /// Environment of the user or client.
    pub environment: &'a Environment,
    /// Working directory of the user or client.
    pub directory: &'a Path,
}

/// Why no configuration was found.
#[derive(Debug, thiserror::Error)]
pub enum NotFound {
    /// The given file can't be read.
    #[error("cannot read the configuration {}", path.display())]
    Named {
        /// The path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// None of the default places has a configuration.
    #[error("no configuration found; looked for {}{}", list(places), hint(ignored))]
    Anywhere {
        /// The places that were searched.
        places: Vec<PathBuf>,
        /// Misplaced files that were ignored, each with the path that was probably meant.
        ignored: Vec<(PathBuf, PathBuf)>,
    },
}

impl Search<'_> {
    /// Returns the canonical path of the configuration: the one that is given, which must exist, or else the first one
    /// found.
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

    fn config_home(&self) -> Option<PathBuf> {
        self.absolute("XDG_CONFIG_HOME").or_else(|| self.usual_config_home())
    }

    fn usual_config_home(&self) -> Option<PathBuf> {
        self.absolute("HOME").map(|home| home.join(".config"))
    }

    /// Existing files at places where a configuration is often put by mistake.
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

    /// The value of a variable that is set and not empty.
    fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(name).filter(|value| !value.is_empty())
    }
}

/// Path of the configuration below a config home.
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
