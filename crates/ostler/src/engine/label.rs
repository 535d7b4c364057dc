//! The labels by which ostler recognises its containers, networks and volumes.
//!
//! Labels that begin with [`PREFIX`] are reserved: a request or command that sets one is refused. Engines copy an
//! image's labels to the containers created from it, so images are made with [empty values](CLEARED) for them.

use std::collections::BTreeMap;

use crate::containers::Labels;

/// Id of the instance that created the object. Nothing is ever removed without an exact match of this label.
pub(crate) const INSTANCE: &str = "ostler.instance";
/// Id of the instance's owner.
pub(crate) const OWNER: &str = "ostler.owner";
/// Name of the server, for people.
pub(crate) const SERVER: &str = "ostler.server";
/// Id of the podman call that created the object; unique per call.
pub(crate) const CALL: &str = "ostler.call";

/// Prefix of all reserved labels.
const PREFIX: &str = "ostler.";

/// Labels that are set to empty values in images.
pub(crate) const CLEARED: [&str; 4] = [CALL, INSTANCE, OWNER, SERVER];

/// A label's name and value.
pub(crate) type Pair = (&'static str, String);

/// Labels in an engine's response.
pub(crate) type LabelMap = BTreeMap<String, String>;

impl Labels {
    /// Names and values of all labels.
    pub(crate) fn pairs(&self) -> [Pair; 3] {
        let Self { instance, owner, server } = self;
        [(INSTANCE, instance.to_string()), (OWNER, owner.to_string()), (SERVER, server.clone())]
    }

    /// Refuses a reserved label in a client's request, unless it has the value that we would set, or is empty.
    pub(crate) fn check(&self, name: &str, value: &str) -> Result<(), ReservedLabel> {
        let is_same = |(ours, same): Pair| ours == name && same == value;
        if self.pairs().into_iter().any(is_same) { Ok(()) } else { check(name, value) }
    }
}

/// A label that only ostler may set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the label '{0}' is refused: labels that begin with 'ostler.' are ostler's own")]
pub(crate) struct ReservedLabel(String);

/// Refuses a reserved label for an image, unless it is empty.
pub(crate) fn check(name: &str, value: &str) -> Result<(), ReservedLabel> {
    if name.starts_with(PREFIX) && !value.is_empty() {
        return Err(ReservedLabel(name.to_owned()));
    }
    Ok(())
}

/// Splits `name=value`, where the value may be missing.
pub(crate) fn parts(label: &str) -> (&str, &str) {
    label.split_once('=').unwrap_or((label, ""))
}

/// The labels that are compared between a container and its image: if they are equal, the container may have inherited
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginLabels {
    instance: Option<String>,
    call: Option<String>,
}

impl OriginLabels {
    pub(crate) fn of(labels: &LabelMap) -> Self {
        Self { instance: labels.get(INSTANCE).cloned(), call: labels.get(CALL).cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{InstanceId, OwnerId};

    #[test]
    fn a_client_can_set_a_reserved_label_only_to_our_value() {
        let (instance, owner) = (InstanceId::random().unwrap(), OwnerId::random().unwrap());
        let ours = Labels { instance, owner, server: "s".into() };
        let id = instance.to_string();
        for (name, value) in [("a", "b"), (INSTANCE, &id), (INSTANCE, ""), ("ostlerx.y", "z")] {
            assert_eq!(ours.check(name, value), Ok(()), "{name}={value}");
        }
        let other = owner.to_string();
        for (name, value) in [(INSTANCE, &*other), (CALL, "1"), (SERVER, "S"), ("ostler.new", "x")]
        {
            assert!(ours.check(name, value).is_err(), "{name}={value}");
        }
        assert!(check(INSTANCE, &id).is_err(), "an image can't have even the same");
    }
}
