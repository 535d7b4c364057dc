//! The state of an instance: its gateway knows it better than the ledger.

use ostler::View;
use ostler_gateway::admin::InstanceLine;
use serde::Serialize;
use serde_json::Value;

/// What its gateway says; for a server without a gateway what ledger and process table say.
pub(crate) fn true_state(view: &View, gateway: Option<&InstanceLine>) -> String {
    gateway.map_or_else(|| view.state.to_string(), |line| line.state.clone())
}

/// A view as JSON, with this state.
pub(crate) fn with_state(view: &impl Serialize, state: &str) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(view)?;
    value["state"] = state.into();
    Ok(value)
}
