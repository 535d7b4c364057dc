//! The parts of podman's JSON output that ostler reads.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::containers::ContainerView;
use crate::engine::label::{CALL, INSTANCE};
use crate::engine::proof::Candidate;
use crate::engine::{self};
use crate::id::InstanceId;

/// A container in the list; most fields are the same as docker's.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct PodmanContainer {
    #[serde(flatten)]
    common: engine::ListedContainer,
    #[serde(default)]
    is_infra: bool,
    /// In seconds since 1970.
    #[serde(default)]
    exited_at: i64,
}

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

/// A network in the list; its field names are in lower case.
#[derive(Debug, Deserialize)]
pub(super) struct Network {
    pub(super) name: String,
    #[serde(default)]
    labels: Option<Map<String, Value>>,
}

impl PodmanContainer {
    /// `None` if it carries no instance label.
    pub(super) fn view(&self) -> Option<ContainerView> {
        self.common.clone().view()
    }

    /// The container with what is needed to prove which instance created it. `None` if it carries no instance label.
    pub(super) fn candidate(&self) -> Option<Candidate> {
        self.common.clone().candidate()
    }

    pub(super) fn is_of(&self, instance: InstanceId) -> bool {
        self.common.instance() == Some(instance)
    }

    /// Whether it is the infra container of a pod, which is removed only with the pod.
    pub(super) fn is_infra(&self) -> bool {
        self.is_infra
    }

    /// Label of the podman call that created it.
    pub(super) fn call(&self) -> Option<&str> {
        self.common.label(CALL)
    }

    /// Whether it is running according to podman, or exited at or after `since`, in seconds since 1970.
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

    /// Whether it has no container except its infra container.
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
