//! What is changed in requests that create something.

use std::borrow::Cow;
use std::path::PathBuf;

use serde_json::json;
use serde_json::value::{RawValue, to_raw_value};

use super::binds::Sockets;
use super::json::Object;
use super::route::{Dialect, Thing};
use crate::containers::Labels;
use crate::engine::label::{self, ReservedLabel};

/// Why a request can't be changed as it must be.
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
            object.edit("HostConfig", |value| host_config(value, sockets))?;
            // Engines up to 20.10 read its members here as well.
            restrain(&mut object, sockets)?;
        }
        (Thing::Container, Dialect::Libpod) => {
            end_restarts_of_podman(&mut object)?;
            object.edit("mounts", |value| mounts(value, sockets))?;
        }
        (Thing::Pod, _) => end_restarts_of_podman(&mut object)?,
        // Podman also reads docker's name for it.
        (Thing::Volume, Dialect::Libpod) => check_labels(&object, "Labels", labels)?,
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

/// Whether the body of a commit, which is the configuration of the image, sets no label of ours.
pub(super) fn check_image_config(body: &[u8]) -> Result<(), EditError> {
    // An engine refuses any other body, or does not read it.
    let Ok(object) = Object::parse(body) else { return Ok(()) };
    let Some(labels) = object.get("Labels")? else { return Ok(()) };
    check_each(&Object::of(labels)?, label::check)
}

fn put_labels(object: &mut Object<'_>, name: &str, ours: &Labels) -> Result<(), EditError> {
    check_labels(object, name, ours)?;
    if object.get(name)?.is_none() {
        object.push(name, &json!({}))?;
    }
    object.edit(name, |value| {
        let mut labels = Object::of(value)?;
        for (label, value) in ours.pairs() {
            labels.set_exactly(label, &value)?;
        }
        Ok(Some(labels.to_raw()?))
    })
}

fn check_labels(object: &Object<'_>, name: &str, ours: &Labels) -> Result<(), EditError> {
    let Some(labels) = object.get(name)? else { return Ok(()) };
    check_each(&Object::of(labels)?, |name, value| ours.check(name, value))
}

/// `check` is given names and values. What is no text is refused by the engine.
pub(super) fn check_each(
    labels: &Object<'_>,
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
    sockets: Option<&Sockets>,
) -> Result<Option<Box<RawValue>>, EditError> {
    // An empty one would say something else.
    if value.get() == "null" {
        return Ok(None);
    }
    let mut config = Object::of(value)?;
    restrain(&mut config, sockets)?;
    Ok(Some(config.to_raw()?))
}

/// Takes out of a configuration what would outlive the server, or lead past its Door.
fn restrain(config: &mut Object<'_>, sockets: Option<&Sockets>) -> Result<(), EditError> {
    config.edit("RestartPolicy", restart_policy)?;
    config.edit("Binds", |value| binds(value, sockets))?;
    config.edit("Mounts", |value| mounts(value, sockets))
}

/// An engine revives by its policy what we have ended, also after it was restarted itself.
fn restart_policy(value: &RawValue) -> Result<Option<Box<RawValue>>, EditError> {
    let name = Object::of(value)?.text("Name")?.unwrap_or_default();
    if name.is_empty() || name == "no" {
        return Ok(None);
    }
    Ok(Some(to_raw_value(&json!({"Name": "no", "MaximumRetryCount": 0}))?))
}

fn end_restarts_of_podman(object: &mut Object<'_>) -> Result<(), EditError> {
    object.edit("restart_policy", |_| Ok(Some(to_raw_value("no")?)))?;
    // Podman refuses a number of restarts where there are none.
    object.edit("restart_tries", |_| Ok(Some(to_raw_value(&0)?)))
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

    fn refusal(body: &str, thing: Thing, dialect: Dialect) -> String {
        let edited = create(body.as_bytes(), thing, dialect, &ours(), None);
        edited.expect_err(body).to_string()
    }

    #[test]
    fn the_users_labels_stay_beside_ours() {
        let own = "1".repeat(32);
        for given in ["", &own] {
            let body = format!(r#"{{"labels":{{"a":"b","ostler.instance":"{given}"}}}}"#);
            let found = created(&body, Thing::Container, Dialect::Docker);
            assert_eq!(found["labels"]["a"], "b");
            assert_eq!(found["labels"]["ostler.instance"], own);
        }
    }

    #[test]
    fn labels_of_ours_are_refused() {
        let body = |name: &str, label: &str| format!(r#"{{"{name}":{{"a":"b","{label}":"x"}}}}"#);
        for (name, thing, dialect) in [
            ("Labels", Thing::Container, Dialect::Docker),
            ("LABELS", Thing::Network, Dialect::Docker),
            ("Labels", Thing::Volume, Dialect::Docker),
            ("labels", Thing::Container, Dialect::Libpod),
            ("labels", Thing::Pod, Dialect::Libpod),
            ("Label", Thing::Volume, Dialect::Libpod),
            ("Labels", Thing::Volume, Dialect::Libpod),
        ] {
            for label in ["ostler.instance", "ostler.else", "\\u006fstler.call"] {
                let said = refusal(&body(name, label), thing, dialect);
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

    /// Docker 20.10 reads the members of `HostConfig` beside it as well, if that is missing.
    #[test]
    fn what_is_not_in_its_place_is_edited_as_well() {
        let sockets = Sockets::new(Path::new("/run/ostler-test-engine.sock"), Path::new("/d.sock"));
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
            let (thing, dialect) = (Thing::Container, Dialect::Docker);
            let body = create(body.as_bytes(), thing, dialect, &ours(), Some(&sockets)).unwrap();
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
        assert_eq!(edit(&both), expected, "`null` stays, as an empty one would hide the others");
    }

    /// What an engine makes of them differs: the last, both merged, or the first if the last is `null`.
    #[test]
    fn members_that_are_given_twice_are_refused() {
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
            let said = refusal(body, Thing::Container, Dialect::Docker);
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

    /// To go by the last one would be to miss the one that counts.
    #[test]
    fn mounts_with_members_that_are_given_twice_are_refused() {
        let sockets = Sockets::new(Path::new("/run/ostler-test-engine.sock"), Path::new("/d.sock"));
        for mount in [
            r#"{"Type":"bind","type":null,"Source":"/run/ostler-test-engine.sock","Target":"/t"}"#,
            r#"{"Type":"bind","Source":"/run/ostler-test-engine.sock","source":"/x","Target":"/t"}"#,
        ] {
            let body = format!(r#"{{"HostConfig":{{"Mounts":[{mount}]}}}}"#);
            let (thing, dialect) = (Thing::Container, Dialect::Docker);
            let edited = create(body.as_bytes(), thing, dialect, &ours(), Some(&sockets));
            assert!(matches!(edited, Err(EditError::Twice(_))), "{mount}");
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
