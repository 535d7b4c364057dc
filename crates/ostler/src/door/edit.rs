//! Edits the JSON bodies of create and update requests.
//!
//! A create gets our labels, loses its restart policy, and binds the Door instead of the engine's socket. All other
//! members keep their exact text. A body that engines could read in more than one way is refused.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::binds::SocketSubstitution;
use super::json::JsonObject;
use super::route::{Dialect, ObjectKind};
use crate::containers::Labels;
use crate::engine::label::{self, ReservedLabel};

/// Why a request can't be edited, and is therefore refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum EditError {
    #[error("the body is not a valid engine request")]
    Json(#[from] serde_json::Error),
    #[error("the body has '{0}' more than once, in different cases")]
    Twice(String),
    #[error(transparent)]
    Reserved(#[from] ReservedLabel),
    #[error("the query names '{0}' more than once, or not in lower case")]
    Parameter(&'static str),
    #[error(
        "a change that continues in the next one ('\\' or '`' at the end of a line) is refused"
    )]
    OpenChange,
    #[error(
        "a shared mount of a parent directory of the engine's socket {} is refused: bind only the \
         parts you need, or mount it without rshared", .0.display()
    )]
    SharedParent(PathBuf),
}

/// Edits the body of a create.
pub(super) fn create(
    body: &[u8],
    kind: ObjectKind,
    dialect: Dialect,
    labels: &Labels,
    sockets: Option<&SocketSubstitution>,
) -> Result<Vec<u8>, EditError> {
    let mut object = JsonObject::parse(body)?;
    let name = match (dialect, kind) {
        (Dialect::Docker, _) => "Labels",
        (Dialect::Libpod, ObjectKind::Volume) => "Label",
        (Dialect::Libpod, _) => "labels",
    };
    put_labels(&mut object, name, labels)?;
    match (kind, dialect) {
        (ObjectKind::Container, Dialect::Docker) => {
            object.edit("HostConfig", |value| host_config(value, sockets))?;
            // Docker up to 20.10 also reads the members of HostConfig at the top level.
            restrain(&mut object, sockets)?;
        }
        (ObjectKind::Container, Dialect::Libpod) => {
            end_restarts_of_podman(&mut object)?;
            object.edit("mounts", |value| mounts(value, sockets))?;
        }
        (ObjectKind::Pod, _) => end_restarts_of_podman(&mut object)?,
        // Podman also reads docker's name of the member.
        (ObjectKind::Volume, Dialect::Libpod) => check_labels(&object, "Labels", labels)?,
        (ObjectKind::Network | ObjectKind::Volume, _) => {}
    }
    Ok(serde_json::to_vec(&object)?)
}

/// Removes the restart policy from the body of an update.
pub(super) fn update(body: &[u8]) -> Result<Vec<u8>, EditError> {
    let mut object = JsonObject::parse(body)?;
    object.edit("RestartPolicy", restart_policy)?;
    Ok(serde_json::to_vec(&object)?)
}

/// Refuses the body of a commit (the image's configuration) if it sets a reserved label.
pub(super) fn check_image_config(body: &[u8]) -> Result<(), EditError> {
    // An engine refuses a body that is no object, or ignores it.
    let Ok(object) = JsonObject::parse(body) else { return Ok(()) };
    let Some(labels) = object.get("Labels")? else { return Ok(()) };
    check_each(&JsonObject::of(labels)?, label::check)
}

fn put_labels(object: &mut JsonObject<'_>, name: &str, ours: &Labels) -> Result<(), EditError> {
    check_labels(object, name, ours)?;
    if object.get(name)?.is_none() {
        object.push(name, &json!({}))?;
    }
    object.edit(name, |value| {
        let mut labels = JsonObject::of(value)?;
        for (label, value) in ours.pairs() {
            labels.set_exactly(label, &value)?;
        }
        Ok(Some(labels.to_raw()?))
    })
}

fn check_labels(object: &JsonObject<'_>, name: &str, ours: &Labels) -> Result<(), EditError> {
    let Some(labels) = object.get(name)? else { return Ok(()) };
    check_each(&JsonObject::of(labels)?, |name, value| ours.check(name, value))
}

/// Calls `check` with the name and value of each label. The engine itself refuses values that are not strings.
pub(super) fn check_each(
    labels: &JsonObject<'_>,
    check: impl Fn(&str, &str) -> Result<(), ReservedLabel>,
) -> Result<(), EditError> {
    for (name, value) in labels.members() {
        let value: Option<Cow<'_, str>> = serde_json::from_str(value.get()).unwrap_or_default();
        check(name, &value.unwrap_or_default())?;
    }
    Ok(())
}

fn host_config(
    value: &RawValue,
    sockets: Option<&SocketSubstitution>,
) -> Result<Option<Box<RawValue>>, EditError> {
    // `null` must stay: an empty object means something else to old engines.
    if value.get() == "null" {
        return Ok(None);
    }
    let mut config = JsonObject::of(value)?;
    restrain(&mut config, sockets)?;
    Ok(Some(config.to_raw()?))
}

/// Removes the restart policy, and replaces binds of the engine's socket.
fn restrain(
    config: &mut JsonObject<'_>,
    sockets: Option<&SocketSubstitution>,
) -> Result<(), EditError> {
    config.edit("RestartPolicy", restart_policy)?;
    config.edit("Binds", |value| binds(value, sockets))?;
    config.edit("Mounts", |value| mounts(value, sockets))
}

/// Sets the restart policy to `no`: with any other policy the engine may start a container again after we stopped it,
/// also after a restart of the engine itself.
fn restart_policy(value: &RawValue) -> Result<Option<Box<RawValue>>, EditError> {
    let name = JsonObject::of(value)?.text("Name")?.unwrap_or_default();
    if name.is_empty() || name == "no" {
        return Ok(None);
    }
    Ok(Some(to_raw_value(&json!({"Name": "no", "MaximumRetryCount": 0}))?))
}

fn end_restarts_of_podman(object: &mut JsonObject<'_>) -> Result<(), EditError> {
    object.edit("restart_policy", |_| Ok(Some(to_raw_value("no")?)))?;
    // Podman refuses a number of tries together with the policy `no`.
    object.edit("restart_tries", |_| Ok(Some(to_raw_value(&0)?)))
}

fn binds(
    value: &RawValue,
    sockets: Option<&SocketSubstitution>,
) -> Result<Option<Box<RawValue>>, EditError> {
    let Some(sockets) = sockets else { return Ok(None) };
    let binds: Option<Vec<String>> = serde_json::from_str(value.get())?;
    let Some(mut binds) = binds else { return Ok(None) };
    sockets.cover_binds(&mut binds)?;
    Ok(Some(to_raw_value(&binds)?))
}

fn mounts(
    value: &RawValue,
    sockets: Option<&SocketSubstitution>,
) -> Result<Option<Box<RawValue>>, EditError> {
    let Some(sockets) = sockets else { return Ok(None) };
    let mounts: Option<Vec<&RawValue>> = serde_json::from_str(value.get())?;
    let Some(mounts) = mounts else { return Ok(None) };
    let mut mounts: Vec<Cow<'_, RawValue>> = mounts.into_iter().map(Cow::Borrowed).collect();
    sockets.cover_mounts(&mut mounts)?;
    Ok(Some(to_raw_value(&mounts)?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::Value;

    use super::*;

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

    fn created(body: &str, kind: ObjectKind, dialect: Dialect) -> Value {
        let body = create(body.as_bytes(), kind, dialect, &ours(), None).unwrap();
        serde_json::from_slice(&body).unwrap()
    }

    #[test]
    fn labels_are_added_under_the_name_that_the_engine_reads() {
        let cases = [
            (ObjectKind::Container, Dialect::Docker, "Labels"),
            (ObjectKind::Network, Dialect::Docker, "Labels"),
            (ObjectKind::Container, Dialect::Libpod, "labels"),
            (ObjectKind::Pod, Dialect::Libpod, "labels"),
            (ObjectKind::Volume, Dialect::Libpod, "Label"),
        ];
        for (kind, dialect, name) in cases {
            assert_eq!(created("{}", kind, dialect), json!({name: labels()}));
            let null = format!("{{\"{name}\":null}}");
            assert_eq!(created(&null, kind, dialect), json!({name: labels()}));
        }
    }

    fn refusal(body: &str, kind: ObjectKind, dialect: Dialect) -> String {
        let edited = create(body.as_bytes(), kind, dialect, &ours(), None);
        edited.expect_err(body).to_string()
    }

    #[test]
    fn the_users_labels_stay_beside_ours() {
        let own = "1".repeat(32);
        for given in ["", &own] {
            let body = format!(r#"{{"labels":{{"a":"b","ostler.instance":"{given}"}}}}"#);
            let found = created(&body, ObjectKind::Container, Dialect::Docker);
            assert_eq!(found["labels"]["a"], "b");
            assert_eq!(found["labels"]["ostler.instance"], own);
        }
    }

    #[test]
    fn reserved_labels_are_refused() {
        let body = |name: &str, label: &str| format!(r#"{{"{name}":{{"a":"b","{label}":"x"}}}}"#);
        for (name, kind, dialect) in [
            ("Labels", ObjectKind::Container, Dialect::Docker),
            ("LABELS", ObjectKind::Network, Dialect::Docker),
            ("Labels", ObjectKind::Volume, Dialect::Docker),
            ("labels", ObjectKind::Container, Dialect::Libpod),
            ("labels", ObjectKind::Pod, Dialect::Libpod),
            ("Label", ObjectKind::Volume, Dialect::Libpod),
            ("Labels", ObjectKind::Volume, Dialect::Libpod),
        ] {
            for label in ["ostler.instance", "ostler.else", "\\u006fstler.call"] {
                let said = refusal(&body(name, label), kind, dialect);
                assert!(
                    said.ends_with("labels that begin with 'ostler.' are ostler's own"),
                    "{said}"
                );
            }
        }
        for (body, is_refused) in [
            (r#"{"Labels":{"ostler.instance":"x"}}"#, true),
            (r#"{"labels":{"ostler.instance":""},"Cmd":["x"]}"#, false),
            ("null", false),
            ("", false),
        ] {
            assert_eq!(check_image_config(body.as_bytes()).is_err(), is_refused, "{body}");
        }
    }

    /// Docker 20.10 also reads the members of `HostConfig` at the top level, if `HostConfig` is missing.
    #[test]
    fn host_config_members_at_the_top_level_are_edited_too() {
        let sockets = SocketSubstitution::new(
            Path::new("/run/ostler-test-engine.sock"),
            Path::new("/d.sock"),
        );
        let config = json!({
            "RestartPolicy": {"Name": "always"},
            "Binds": ["/run/ostler-test-engine.sock:/s"],
            "Mounts": [{"Type": "bind", "Source": "/run/ostler-test-engine.sock", "Target": "/t"}],
        });
        let harmless = json!({
            "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
            "Binds": ["/d.sock:/s"],
            "Mounts": [{"Type": "bind", "Source": "/d.sock", "Target": "/t"}],
        });
        let edit = |body: &Value| -> Value {
            let body = body.to_string();
            let (kind, dialect) = (ObjectKind::Container, Dialect::Docker);
            let body = create(body.as_bytes(), kind, dialect, &ours(), Some(&sockets)).unwrap();
            serde_json::from_slice(&body).unwrap()
        };
        let with_labels = |mut body: Value| {
            body["Labels"] = labels();
            body
        };
        assert_eq!(edit(&config), with_labels(harmless.clone()));
        let inside = |config: &Value| json!({"HostConfig": config});
        assert_eq!(edit(&inside(&config)), with_labels(inside(&harmless)));
        let mut both = config;
        both["hostconfig"] = Value::Null;
        let mut expected = with_labels(harmless);
        expected["hostconfig"] = Value::Null;
        assert_eq!(edit(&both), expected, "`null` stays: an empty object would hide the others");
    }

    /// Engines differ: some take the last one, some merge both, some keep the first if the last is `null`.
    #[test]
    fn duplicate_members_are_refused() {
        let policy = r#""RestartPolicy":{"Name":"always"}"#;
        for body in [
            r#"{"Labels":{},"labels":null}"#,
            r#"{"Labels":{},"Labels":{}}"#,
            r#"{"Labels":{},"\u004cabels":{}}"#,
            r#"{"HostConfig":{},"hostConfig":{}}"#,
            r#"{"HostConfig":{"Binds":[],"BINDS":[]}}"#,
            r#"{"HostConfig":{"RestartPolicy":{"Name":"always","name":null}}}"#,
            r#"{"RestartPolicy":{"Name":"always","Name":"no"}}"#,
            &format!(r#"{{{policy},"restartpolicy":null}}"#),
            &format!(r#"{{"HostConfig":{{{policy},"RestartPolicy":null}}}}"#),
        ] {
            let said = refusal(body, ObjectKind::Container, Dialect::Docker);
            assert!(
                said == "the body is not a valid engine request" || said.contains("more than once"),
                "{said}"
            );
        }
        for body in [
            r#"{"RestartPolicy":{"Name":"a"},"restartPolicy":null}"#,
            r#"{"RestartPolicy":{"Name":"a","name":null}}"#,
        ] {
            assert!(update(body.as_bytes()).is_err(), "{body}");
        }
    }

    /// An edit of only the last member could miss the one that the engine reads.
    #[test]
    fn mounts_with_duplicate_members_are_refused() {
        let sockets = SocketSubstitution::new(
            Path::new("/run/ostler-test-engine.sock"),
            Path::new("/d.sock"),
        );
        for mount in [
            r#"{"Type":"bind","type":null,"Source":"/run/ostler-test-engine.sock","Target":"/t"}"#,
            r#"{"Type":"bind","Source":"/run/ostler-test-engine.sock","source":"/x","Target":"/t"}"#,
        ] {
            let body = format!(r#"{{"HostConfig":{{"Mounts":[{mount}]}}}}"#);
            let (kind, dialect) = (ObjectKind::Container, Dialect::Docker);
            let edited = create(body.as_bytes(), kind, dialect, &ours(), Some(&sockets));
            assert!(matches!(edited, Err(EditError::Twice(_))), "{mount}");
        }
    }

    #[test]
    fn restart_policies_become_no() {
        let none = json!({"Name": "no", "MaximumRetryCount": 0});
        for (name, expected) in [("always", &none), ("no", &json!({"Name": "no"}))] {
            let body = json!({"HostConfig": {"RestartPolicy": {"Name": name}}}).to_string();
            let found = created(&body, ObjectKind::Container, Dialect::Docker);
            assert_eq!(&found["HostConfig"]["RestartPolicy"], expected);
            let body = json!({"Memory": 1, "restartpolicy": {"Name": name}}).to_string();
            let found: Value = serde_json::from_slice(&update(body.as_bytes()).unwrap()).unwrap();
            assert_eq!(&found["restartpolicy"], expected);
        }
        let body = r#"{"restart_policy":"on-failure","restart_tries":3}"#;
        let found = created(body, ObjectKind::Container, Dialect::Libpod);
        assert_eq!((&found["restart_policy"], &found["restart_tries"]), (&json!("no"), &json!(0)));
    }

    #[test]
    fn a_body_that_is_no_object_is_refused() {
        for body in ["", "null", "[]", "{\"Labels\":[]}", "{\"HostConfig\":1}"] {
            let edited =
                create(body.as_bytes(), ObjectKind::Container, Dialect::Docker, &ours(), None);
            assert!(edited.is_err(), "{body}");
        }
    }
}
