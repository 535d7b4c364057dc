//! The labels by which containers, networks and volumes of ours are recognised.
//!
//! Only ostler sets labels that begin with [`PREFIX`]: a request or a command that sets one itself is refused. Engines
//! copy an image's labels to the containers made from it, so images are made with [empty values](CLEARED) in their place.

use std::collections::BTreeMap;

use crate::containers::Labels;

/// Which instance caused it. Nothing without the exact match of this one is ever removed.
pub(crate) const INSTANCE: &str = "ostler.instance";
/// Whose instance that is.
pub(crate) const OWNER: &str = "ostler.owner";
/// What people call the server, for people.
pub(crate) const SERVER: &str = "ostler.server";
/// Which podman command created it. No other command has the same value.
pub(crate) const CALL: &str = "ostler.call";

/// What the names of all labels of ours begin with.
const PREFIX: &str = "ostler.";

/// The labels that a container must not pass on to an image, which are made empty in that.
pub(crate) const CLEARED: [&str; 4] = [CALL, INSTANCE, OWNER, SERVER];

/// A label's name and value.
pub(crate) type Pair = (&'static str, String);

/// Labels as engines tell them.
pub(crate) type LabelMap = BTreeMap<String, String>;

impl Labels {
    /// All of them.
    pub(crate) fn pairs(&self) -> [Pair; 3] {
        let Self { instance, owner, server } = self;
        [(INSTANCE, instance.to_string()), (OWNER, owner.to_string()), (SERVER, server.clone())]
    }

    /// Whether a client may ask for this label: it is none of ours, or says what we would say.
    pub(crate) fn check(&self, name: &str, value: &str) -> Result<(), ReservedLabel> {
        let is_same = |(ours, same): Pair| ours == name && same == value;
        if self.pairs().into_iter().any(is_same) { Ok(()) } else { check(name, value) }
    }
}

/// A label that only ostler may set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the label '{0}' is refused: labels that begin with 'ostler.' are ostler's own")]
pub(crate) struct ReservedLabel(String);

/// Whether an image may be given this label: it is none of ours, or empty.
pub(crate) fn check(name: &str, value: &str) -> Result<(), ReservedLabel> {
    if name.starts_with(PREFIX) && !value.is_empty() {
        return Err(ReservedLabel(name.to_owned()));
    }
    Ok(())
}

/// Name and value of a label on a command line, whose value may be left out.
pub(crate) fn parts(label: &str) -> (&str, &str) {
    label.split_once('=').unwrap_or((label, ""))
}

/// The labels of ours by which it shows that a container got them from its image: they are the same then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    instance: Option<String>,
    call: Option<String>,
}

impl Marks {
    pub(crate) fn of(labels: &LabelMap) -> Self {
        Self { instance: labels.get(INSTANCE).cloned(), call: labels.get(CALL).cloned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{InstanceId, OwnerId};

    #[test]
    fn a_client_can_set_no_label_of_ours_but_the_same() {
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
