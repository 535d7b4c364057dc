//! Removes the networks of an instance, once none of its containers is left.

use super::Clearing;
use crate::containers::EngineResidue;
use crate::engine::call::CallError;
use crate::engine::client::Client;
use crate::engine::responses::Network;

impl Clearing<'_> {
    /// Removes the networks of the instance that no foreign container uses. Returns the names of the others, or `None`
    /// if a removal failed.
    pub(super) async fn networks(&mut self) -> Result<Option<Vec<String>>, CallError> {
        let client = self.client().await?;
        let mut kept = Vec::new();
        let mut tried = Vec::new();
        for network in client.networks_of(self.claim.instance).await? {
            if is_used(&client, &network).await? {
                kept.push(network.name);
            } else {
                // The next list shows whether it worked.
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

/// Whether a container uses the network. A container that never ran refers to it by name only.
async fn is_used(client: &Client, network: &Network) -> Result<bool, CallError> {
    let by_id = client.containers_on(&network.id).await?;
    Ok(!by_id.is_empty() || !client.containers_on(&network.name).await?.is_empty())
}
