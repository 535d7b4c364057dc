//! What is changed in requests that create something.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::binds::Sockets;
use super::json::Object;
use super::route::{Dialect, Thing};
use crate::engine::label::Labels;

/// Why a request can't be changed as it must be.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("the body is not what an engine takes")]
    Json(#[from] serde_json::Error),
    #[error(
        "a shared mount of a directory above {}, the engine's socket, can't be held: bind what is \
         needed of it, or mount it without rshared", .0.display()
    )]
    SharedParent(PathBuf),
}

/// The body of a create with our labels, without a restart policy, and with the Door in the place
/// of the engine's socket.
pub(super) fn create(
    body: &[u8],
    thing: Thing,
    dialect: Dialect,
    labels: &Labels,
    sockets: Option<&Sockets>,
) -> Result<Vec<u8>, EditError> {
    let mut object = Object::parse(body)?;
    let name = match (dialect, thing) {
        (Dialect::Docker, _) => "Labels",
        (Dialect::Libpod, Thing::Volume) => "Label",
        (Dialect::Libpod, _) => "labels",
    };
    put_labels(&mut object, name, labels)?;
    match (thing, dialect) {
        (Thing::Container, Dialect::Docker) => {
            object.edit("HostConfig", |value| host_config(value, sockets).map(Some))?;
        }
        (Thing::Container, Dialect::Libpod) => {
            end_restarts_of_podman(&mut object)?;
            object.edit("mounts", |value| mounts(value, sockets))?;
        }
        (Thing::Pod, _) => end_restarts_of_podman(&mut object)?,
        (Thing::Network | Thing::Volume, _) => {}
    }
    Ok(serde_json::to_vec(&object)?)
}

/// The body of an update without a restart policy.
pub(super) fn update(body: &[u8]) -> Result<Vec<u8>, EditError> {
    let mut object = Object::parse(body)?;
    object.edit("RestartPolicy", restart_policy)?;
    Ok(serde_json::to_vec(&object)?)
}

fn put_labels(object: &mut Object<'_>, name: &str, ours: &Labels) -> Result<(), EditError> {
    if object.all(name).next().is_none() {
        object.push(name, &json!({}))?;
    }
    // Also those of an ostler inside this one: what it leaves is ours to remove.
    object.edit(name, |value| {
        let mut labels = Object::of(value)?;
        for (label, value) in ours.pairs() {
            labels.set_exactly(label, &value)?;
        }
        Ok(Some(labels.to_raw()?))
    })
}

fn host_config(value: &RawValue, sockets: Option<&Sockets>) -> Result<Box<RawValue>, EditError> {
    let mut config = Object::of(value)?;
    config.edit("RestartPolicy", restart_policy)?;
    config.edit("Binds", |value| binds(value, sockets))?;
    config.edit("Mounts", |value| mounts(value, sockets))?;
    Ok(config.to_raw()?)
}

/// An engine revives by its policy what we have ended, also after it was restarted itself.
fn restart_policy(value: &RawValue) -> Result<Option<Box<RawValue>>, EditError> {
    let name = Object::of(value)?.text("Name").unwrap_or_default();
    if name.is_empty() || name == "no" {
        return Ok(None);
    }
    Ok(Some(to_raw_value(&json!({"Name": "no", "MaximumRetryCount": 0}))?))
}

fn end_restarts_of_podman(object: &mut Object<'_>) -> Result<(), EditError> {
    object.edit("restart_policy", |_| to_raw_value("no").map(Some))?;
    // Podman refuses a number of restarts where there are none.
    Ok(object.edit("restart_tries", |_| to_raw_value(&0).map(Some))?)
}

fn binds(value: &RawValue, sockets: Option<&Sockets>) -> Result<Option<Box<RawValue>>, EditError> {
    let Some(sockets) = sockets else { return Ok(None) };
    let binds: Option<Vec<String>> = serde_json::from_str(value.get())?;
    let Some(mut binds) = binds else { return Ok(None) };
    sockets.cover_binds(&mut binds)?;
    Ok(Some(to_raw_value(&binds)?))
}

fn mounts(value: &RawValue, sockets: Option<&Sockets>) -> Result<Option<Box<RawValue>>, EditError> {
    let Some(sockets) = sockets else { return Ok(None) };
    let mounts: Option<Vec<&RawValue>> = serde_json::from_str(value.get())?;
    let Some(mounts) = mounts else { return Ok(None) };
    let mut mounts: Vec<Cow<'_, RawValue>> = mounts.into_iter().map(Cow::Borrowed).collect();
    sockets.cover_mounts(&mut mounts)?;
    Ok(Some(to_raw_value(&mounts)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn ours() -> Labels {
        Labels {
            instance: "1".repeat(32).parse().unwrap(),
            owner: "2".repeat(32).parse().unwrap(),
            server: "se\"rver".into(),
        }
    }

    fn labels() -> Value {
        json!({
            "ostler.instance": "1".repeat(32),
            "ostler.owner": "2".repeat(32),
            "ostler.server": "se\"rver",
        })
    }

    fn created(body: &str, thing: Thing, dialect: Dialect) -> Value {
        let body = create(body.as_bytes(), thing, dialect, &ours(), None).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn labels_are_added_under_the_name_that_the_engine_reads() {
        let cases = [
            (Thing::Container, Dialect::Docker, "Labels"),
            (Thing::Network, Dialect::Docker, "Labels"),
            (Thing::Container, Dialect::Libpod, "labels"),
            (Thing::Pod, Dialect::Libpod, "labels"),
            (Thing::Volume, Dialect::Libpod, "Label"),
        ];
        for (thing, dialect, name) in cases {
            assert_eq!(created("{}", thing, dialect), json!({name: labels()}));
            let null = format!("{{\"{name}\":null}}");
            assert_eq!(created(&null, thing, dialect), json!({name: labels()}));
        }
    }

    #[test]
    fn the_users_labels_stay_and_ours_count() {
        let body = r#"{"labels":{"a":"b","ostler.instance":"0"},"Labels":{"c":"d"}}"#;
        let found = created(body, Thing::Container, Dialect::Docker);
        for (name, own, value) in [("labels", "a", "b"), ("Labels", "c", "d")] {
            assert_eq!(found[name][own], value);
            assert_eq!(found[name]["ostler.instance"], "1".repeat(32));
        }
    }

    #[test]
    fn nothing_is_revived() {
        let none = json!({"Name": "no", "MaximumRetryCount": 0});
        for (name, expected) in [("always", &none), ("no", &json!({"Name": "no"}))] {
            let body = json!({"HostConfig": {"RestartPolicy": {"Name": name}}}).to_string();
            let found = created(&body, Thing::Container, Dialect::Docker);
            assert_eq!(&found["HostConfig"]["RestartPolicy"], expected);
            let body = json!({"Memory": 1, "restartpolicy": {"Name": name}}).to_string();
            let found: Value = serde_json::from_slice(&update(body.as_bytes()).unwrap()).unwrap();
            assert_eq!(&found["restartpolicy"], expected);
        }
        let body = r#"{"restart_policy":"on-failure","restart_tries":3}"#;
        let found = created(body, Thing::Container, Dialect::Libpod);
        assert_eq!((&found["restart_policy"], &found["restart_tries"]), (&json!("no"), &json!(0)));
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for body in ["", "null", "[]", "{\"Labels\":[]}", "{\"HostConfig\":1}"] {
            let edited = create(body.as_bytes(), Thing::Container, Dialect::Docker, &ours(), None);
            assert!(edited.is_err(), "{body}");
        }
    }
}
