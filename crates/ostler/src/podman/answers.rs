//! What podman prints, as far as we read it.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::containers::ContainerView;
use crate::engine::label::{CALL, INSTANCE};
use crate::engine::proof::Candidate;
use crate::engine::{self};
use crate::id::InstanceId;

/// A container in podman's own words, most of which are docker's.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Listed {
    #[serde(flatten)]
    common: engine::Listed,
    #[serde(default)]
    is_infra: bool,
    /// In seconds since 1970.
    #[serde(default)]
    exited_at: i64,
}

/// A pod.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Pod {
    pub(super) id: String,
    #[serde(default)]
    infra_id: String,
    #[serde(default)]
    containers: Option<Vec<Member>>,
    #[serde(default)]
    labels: Option<Map<String, Value>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Member {
    id: String,
}

/// A network, which podman tells of in small letters.
#[derive(Debug, Deserialize)]
pub(super) struct Network {
    pub(super) name: String,
    #[serde(default)]
    labels: Option<Map<String, Value>>,
}

impl Listed {
    /// `None` if it is none of ours.
    pub(super) fn view(&self) -> Option<ContainerView> {
        self.common.clone().view()
    }

    /// The same with all that is needed to prove whose it is.
    pub(super) fn candidate(&self) -> Option<Candidate> {
        self.common.clone().candidate()
    }

    pub(super) fn is_of(&self, instance: InstanceId) -> bool {
        self.common.instance() == Some(instance)
    }

    /// What holds a pod together. It goes with that, and can't be removed alone.
    pub(super) fn is_infra(&self) -> bool {
        self.is_infra
    }

    /// The label of the call that has made it.
    pub(super) fn call(&self) -> Option<&str> {
        self.common.label(CALL)
    }

    /// Whether it runs, as far as podman knows, or has ended no earlier than that.
    pub(super) fn has_run(&self, since: i64) -> bool {
        match self.common.state() {
            "running" | "paused" | "stopping" | "stopped" => true,
            "exited" => self.exited_at >= since,
            _ => false,
        }
    }
}

impl Pod {
    pub(super) fn is_of(&self, instance: InstanceId) -> bool {
        is_of(self.labels.as_ref(), instance)
    }

    /// Whether nobody is left in it.
    pub(super) fn is_empty(&self) -> bool {
        self.containers.iter().flatten().all(|member| member.id == self.infra_id)
    }
}

impl Network {
    pub(super) fn is_of(&self, instance: InstanceId) -> bool {
        is_of(self.labels.as_ref(), instance)
    }
}

fn is_of(labels: Option<&Map<String, Value>>, instance: InstanceId) -> bool {
    let label = labels.and_then(|labels| labels.get(INSTANCE)?.as_str());
    label == Some(instance.to_string().as_str())
}
