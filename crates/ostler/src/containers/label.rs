//! Values of the labels that ostler puts on containers, networks and volumes.

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, OwnerId};

/// Label values that are the same for everything that one instance creates.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Labels {
    pub(crate) instance: InstanceId,
    pub(crate) owner: OwnerId,
    pub(crate) server: String,
}
