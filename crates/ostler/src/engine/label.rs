//! The marks by which containers, networks and volumes of ours are recognised.

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, OwnerId};

/// Which instance caused it. Removal is by the exact match of this one and by nothing else.
pub(crate) const INSTANCE: &str = "ostler.instance";
/// Whose instance that is.
pub(crate) const OWNER: &str = "ostler.owner";
/// What people call the server, for people.
pub(crate) const SERVER: &str = "ostler.server";

/// A label's name and value.
pub(crate) type Pair = (&'static str, String);

/// The labels of all that one instance causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Labels {
    pub(crate) instance: InstanceId,
    pub(crate) owner: OwnerId,
    pub(crate) server: String,
}

impl Labels {
    /// All of them.
    pub(crate) fn pairs(&self) -> [Pair; 3] {
        let Self { instance, owner, server } = self;
        [(INSTANCE, instance.to_string()), (OWNER, owner.to_string()), (SERVER, server.clone())]
    }
}
