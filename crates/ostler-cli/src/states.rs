//! State of an instance. A gateway knows more states (busy, idle, draining) than the ledger.

use ostler::View;
use ostler_gateway::admin::InstanceLine;
use serde::Serialize;
use serde_json::Value;

/// State according to the gateway, or to ledger and process table if no gateway has it.
pub(crate) fn true_state(view: &View, gateway: Option<&InstanceLine>) -> String {
    gateway.map_or_else(|| view.state.to_string(), |line| line.state.clone())
}

/// A view as JSON, with its state replaced.
pub(crate) fn with_state(view: &impl Serialize, state: &str) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(view)?;
    value["state"] = state.into();
    Ok(value)
}
