//! Replaces binds that would give a container the engine's own socket.
//!
//! Containers created through that socket would carry no labels of ours. So the Door's socket replaces the engine's in
//! the bind. If the container binds a parent directory of the socket, an additional bind mounts the Door over the
//! socket, at the path where the container would see it.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::edit::EditError;
use super::json::JsonObject;

/// The socket of a local engine, and the Door's socket that replaces it.
#[derive(Clone, Debug)]
pub(super) struct SocketSubstitution {
    engine: PathBuf,
    door: String,
}

/// What a bind of a path exposes.
#[derive(Debug, PartialEq, Eq)]
enum Exposure {
    Nothing,
    Socket,
    /// A directory with the socket at this relative path.
    Below(PathBuf),
}

impl SocketSubstitution {
    pub(super) fn new(engine: &Path, door: &Path) -> Self {
        Self { engine: resolved(engine), door: door.display().to_string() }
    }

    /// Edits the entries of `Binds`: `SOURCE:TARGET[:OPTIONS]`.
    pub(super) fn cover_binds(&self, binds: &mut Vec<String>) -> Result<(), EditError> {
        let mut more = Vec::new();
        for bind in binds.iter_mut() {
            let mut parts = bind.splitn(3, ':');
            let (Some(source), Some(target)) = (parts.next(), parts.next()) else { continue };
            let options = parts.next().unwrap_or_default();
            match self.exposure(source) {
                Exposure::Nothing => {}
                Exposure::Socket => *bind = format!("{}{}", self.door, &bind[source.len()..]),
                Exposure::Below(path) => {
                    let names = options.split(',');
                    more.push(self.over(target, &path, names)?);
                }
            }
        }
        let taken: HashSet<&str> = binds.iter().filter_map(|bind| bind.split(':').nth(1)).collect();
        more.retain(|(target, _)| !taken.contains(target.as_str()));
        binds.extend(more.into_iter().map(|(target, source)| format!("{source}:{target}")));
        Ok(())
    }

    /// Edits the entries of `Mounts`, in docker's or podman's form.
    pub(super) fn cover_mounts(
        &self,
        mounts: &mut Vec<Cow<'_, RawValue>>,
    ) -> Result<(), EditError> {
        let mut more = Vec::new();
        for mount in mounts.iter_mut() {
            let mut object = JsonObject::of(mount)?;
            if !is_bind(&object)? {
                continue;
            }
            let Some(source) = object.text("Source")? else { continue };
            match self.exposure(&source) {
                Exposure::Nothing => {}
                Exposure::Socket => {
                    object.edit("Source", |_| Ok(Some(to_raw_value(&self.door)?)))?;
                    let changed = object.to_raw()?;
                    *mount = Cow::Owned(changed);
                }
                Exposure::Below(path) => {
                    let Some(target) = target_in(&object)? else { continue };
                    let options = options(&object)?;
                    let (target, source) =
                        self.over(&target, &path, options.iter().map(String::as_str))?;
                    let is_docker = object.get("Target")?.is_some();
                    let name = if is_docker { "Target" } else { "destination" };
                    more.push((target.clone(), mount_of(name, &target, source)?));
                }
            }
        }
        let mut taken = HashSet::new();
        for mount in mounts.iter() {
            taken.extend(target_in(&JsonObject::of(mount)?)?);
        }
        more.retain(|(target, _)| !taken.contains(target));
        mounts.extend(more.into_iter().map(|(_, mount)| Cow::Owned(mount)));
        Ok(())
    }

    /// Target and source of the bind that mounts the Door over the socket below `target`.
    fn over<'o>(
        &self,
        target: &str,
        below: &Path,
        mut options: impl Iterator<Item = &'o str>,
    ) -> Result<(String, &str), EditError> {
        // A shared mount propagates to the host: the Door would cover the socket of the whole machine.
        if options.any(|option| ["shared", "rshared"].contains(&option)) {
            return Err(EditError::SharedParent(self.engine.clone()));
        }
        let covered = Path::new(target).join(below);
        Ok((covered.display().to_string(), &self.door))
    }

    fn exposure(&self, source: &str) -> Exposure {
        // A source that is no absolute path is the name of a volume.
        if !source.starts_with('/') {
            return Exposure::Nothing;
        }
        match self.engine.strip_prefix(resolved(Path::new(source))) {
            Ok(rest) if rest.as_os_str().is_empty() => Exposure::Socket,
            Ok(rest) => Exposure::Below(rest.to_owned()),
            Err(_) => Exposure::Nothing,
        }
    }
}

/// Whether the mount is a bind, by its type or by its options: podman passes the options to the kernel, whatever the
/// type says.
fn is_bind(mount: &JsonObject<'_>) -> Result<bool, EditError> {
    let is_bind = mount.text("Type")?.as_deref() == Some("bind");
    Ok(is_bind || options(mount)?.iter().any(|option| ["bind", "rbind"].contains(&option.as_str())))
}

/// Docker's propagation option, or podman's list of mount options.
fn options(mount: &JsonObject<'_>) -> Result<Vec<String>, EditError> {
    let mut found = Vec::new();
    if let Some(options) = mount.get("BindOptions")? {
        found.extend(JsonObject::of(options)?.text("Propagation")?);
    }
    if let Some(options) = mount.get("options")? {
        let options: Option<Vec<String>> = serde_json::from_str(options.get())?;
        found.extend(options.into_iter().flatten());
    }
    Ok(found)
}

fn mount_of(target_name: &str, target: &str, source: &str) -> Result<Box<RawValue>, EditError> {
    let mount = if target_name == "Target" {
        json!({"Type": "bind", "Source": source, "Target": target})
    } else {
        json!({"type": "bind", "source": source, "destination": target, "options": ["bind"]})
    };
    Ok(to_raw_value(&mount)?)
}

fn target_in(mount: &JsonObject<'_>) -> Result<Option<String>, EditError> {
    let docker = mount.text("Target")?;
    if docker.is_some() { Ok(docker) } else { mount.text("Destination") }
}

/// Resolves all links of a path. A path that does not exist is normalised textually, with `/var/run` as `/run`.
fn resolved(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| {
        let mut plain = PathBuf::new();
        for component in path.components() {
            match component {
                Component::ParentDir => drop(plain.pop()),
                Component::CurDir => {}
                part => plain.push(part),
            }
        }
        plain.strip_prefix("/var/run").map(|rest| Path::new("/run").join(rest)).unwrap_or(plain)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The socket path does not exist on this machine.
    fn sockets() -> SocketSubstitution {
        SocketSubstitution::new(
            Path::new("/var/run/ostler-test-engine/docker.sock"),
            Path::new("/d.sock"),
        )
    }

    fn covered(binds: &[&str]) -> Result<Vec<String>, EditError> {
        let mut binds: Vec<String> = binds.iter().map(ToString::to_string).collect();
        sockets().cover_binds(&mut binds).map(|()| binds)
    }

    #[test]
    fn a_bind_of_the_socket_becomes_one_of_the_door() {
        let socket = "/run/ostler-test-engine/docker.sock";
        for source in
            [socket, &format!("/var{socket}"), "/run//x/../ostler-test-engine/docker.sock"]
        {
            let bind = format!("{source}:/var/run/docker.sock:ro");
            assert_eq!(covered(&[&bind]).unwrap(), ["/d.sock:/var/run/docker.sock:ro"], "{source}");
        }
        for bind in ["docker.sock:/x", "/run/ostler-test-other:/x", "/run/ostler-test-engine2:/x"] {
            assert_eq!(covered(&[bind]).unwrap(), [bind]);
        }
    }

    #[test]
    fn a_bind_of_a_directory_above_gets_the_door_over_the_socket() {
        let more = "/d.sock:/host/ostler-test-engine/docker.sock";
        assert_eq!(covered(&["/run:/host:ro"]).unwrap(), ["/run:/host:ro", more]);
        assert_eq!(covered(&["/:/h"]).unwrap()[1], "/d.sock:/h/run/ostler-test-engine/docker.sock");
        // A request that binds the socket itself too gets no second bind of the same target.
        let both = [
            "/run:/host",
            "/run/ostler-test-engine/docker.sock:/host/ostler-test-engine/docker.sock",
        ];
        assert_eq!(covered(&both).unwrap(), ["/run:/host", more]);
        assert!(matches!(covered(&["/run:/host:rshared"]), Err(EditError::SharedParent(_))));
    }

    #[test]
    fn mounts_are_treated_like_binds() {
        let socket = "/run/ostler-test-engine/docker.sock";
        let cases = [
            (
                json!([{"Type": "bind", "Source": socket, "Target": "/s", "ReadOnly": true}]),
                json!([{"Type": "bind", "Source": "/d.sock", "Target": "/s", "ReadOnly": true}]),
            ),
            (
                json!([{"type": "bind", "source": "/run", "destination": "/r"}]),
                json!([
                    {"type": "bind", "source": "/run", "destination": "/r"},
                    {"type": "bind", "source": "/d.sock",
                     "destination": "/r/ostler-test-engine/docker.sock", "options": ["bind"]},
                ]),
            ),
            // The options make it a bind, whatever the type says.
            (
                json!([{"type": "none", "source": socket, "destination": "/r", "options": ["ro", "rbind"]}]),
                json!([{"type": "none", "source": "/d.sock", "destination": "/r", "options": ["ro", "rbind"]}]),
            ),
            (
                json!([{"Type": "volume", "Source": "run", "Target": "/r"}]),
                json!([{"Type": "volume", "Source": "run", "Target": "/r"}]),
            ),
        ];
        for (given, expected) in cases {
            let text = given.to_string();
            let mut mounts: Vec<Cow<'_, RawValue>> = serde_json::from_str::<Vec<&RawValue>>(&text)
                .unwrap()
                .into_iter()
                .map(Cow::Borrowed)
                .collect();
            sockets().cover_mounts(&mut mounts).unwrap();
            let found: serde_json::Value =
                serde_json::from_str(&serde_json::to_string(&mounts).unwrap()).unwrap();
            assert_eq!(found, expected);
        }
    }
}
