//! Networks of an instance, once none of its containers is left.

use super::Clearing;
use crate::containers::EngineResidue;
use crate::engine::answers::Network;
use crate::engine::call::CallError;
use crate::engine::client::Client;

impl Clearing<'_> {
    /// Removes the networks of the instance but those that somebody else is on, whose names are
    /// returned. `None`: one did not go.
    pub(super) async fn networks(&mut self) -> Result<Option<Vec<String>>, CallError> {
        let client = self.client().await?;
        let mut kept = Vec::new();
        let mut tried = Vec::new();
        for network in client.networks_of(self.claim.instance).await? {
            if is_used(&client, &network).await? {
                kept.push(network.name);
            } else {
                // What comes of it shows in the next list.
                let _ = client.remove_network(&network.id).await;
                tried.push(network.id);
            }
        }
        if tried.is_empty() {
            return Ok(Some(kept));
        }
        let left = client.networks_of(self.claim.instance).await?.into_iter();
        let left: Vec<String> =
            left.filter(|network| tried.contains(&network.id)).map(|left| left.name).collect();
        if left.is_empty() {
            return Ok(Some(kept));
        }
        self.residue = EngineResidue::Networks(left);
        Ok(None)
    }
}

/// Whether anybody is on it. Containers that never ran know it by name only.
async fn is_used(client: &Client, network: &Network) -> Result<bool, CallError> {
    let by_id = client.containers_on(&network.id).await?;
    Ok(!by_id.is_empty() || !client.containers_on(&network.name).await?.is_empty())
}
