//! The labels of what an instance causes.

use serde::{Deserialize, Serialize};

use crate::id::{InstanceId, OwnerId};

/// The labels of all that one instance causes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Labels {
    pub(crate) instance: InstanceId,
    pub(crate) owner: OwnerId,
    pub(crate) server: String,
}
