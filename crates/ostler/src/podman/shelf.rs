//! The podman part of the [shelf](crate::shelf): a server's `PATH`, and the files that the wrapper reads.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::id::InstanceId;
use crate::shelf::{CALLS, Shelf, WRAPPER_CONFIG, WrapperConfig};
use crate::spec::ServerSpec;

impl Shelf {
    /// Whether this program is a wrapper on the shelf of any instance.
    pub(crate) fn holds(program: &Path) -> bool {
        let name = program.parent().and_then(|place| place.file_name()?.to_str());
        let id = name.and_then(|name| name.strip_suffix(".bin"));
        id.is_some_and(|id| id.parse::<InstanceId>().is_ok())
    }

    /// Puts the shelf first on the server's `PATH`. If podman is the server itself, the wrapper replaces it.
    pub(crate) fn lead(&self, spec: &mut ServerSpec, is_the_server: bool) {
        if is_the_server {
            spec.program = self.podman().into();
        }
        let path = spec.env.iter_mut().find(|(name, _)| name == "PATH");
        if let Some((_, path)) = path {
            let mut longer = OsString::from(&self.0);
            longer.push(":");
            longer.push(&path);
            *path = longer;
        }
    }

    pub(super) fn is_at(&self, place: &Path) -> bool {
        self.0 == place
    }

    pub(super) fn config(&self) -> Option<WrapperConfig> {
        serde_json::from_slice(&fs::read(self.0.join(WRAPPER_CONFIG)).ok()?).ok()
    }

    pub(super) fn calls(&self) -> PathBuf {
        self.0.join(CALLS)
    }
}
