//! Proves that a container with an instance's label was created by that instance.
//!
//! A container inherits the labels of its image. So a container that the user starts from an image which a server
//! committed, built or loaded can carry the server's label. Before a removal one of these must hold: the Door noted the
//! container's id from the response to its create ([`CreatedIds`]); or the image does not carry the same label, so that
//! only a create can have set it. A container whose image carries the same label, and whose id was not noted, is not the
//! instance's. If the image can't be inspected, for example because it was deleted, the origin is unknown: the container
//! is left alone, reported as residue, and checked again in the next round.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::Client;
use crate::containers::ContainerView;
use crate::engine::label::{LabelMap, OriginLabels};

/// Most ids that are kept, the newest. Older containers are proven by their image.
const MOST_MADE: usize = 1024;
/// Characters. An engine's ids have 64.
const LONGEST_ID: usize = 128;

/// Ids of containers that an engine reported as created, the oldest first. Clones share one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct CreatedIds(Arc<Mutex<VecDeque<String>>>);

impl CreatedIds {
    pub(crate) fn note(&self, id: String) {
        let mut ids = self.ids();
        if id.len() <= LONGEST_ID && !id.is_empty() {
            ids.push_back(id);
        }
        let surplus = ids.len().saturating_sub(MOST_MADE);
        ids.drain(..surplus);
    }

    pub(crate) fn contains(&self, id: &str) -> bool {
        self.ids().iter().any(|one| one == id)
    }

    /// A copy, for a note.
    pub(crate) fn list(&self) -> Vec<String> {
        self.ids().iter().cloned().collect()
    }

    fn ids(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Vec<String>> for CreatedIds {
    fn from(ids: Vec<String>) -> Self {
        let made = Self::default();
        for id in ids {
            made.note(id);
        }
        made
    }
}

/// Where the label of a container comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A create of the instance.
    Create,
    /// Its image, as far as we know.
    Image,
}

/// Why the origin of a container is unknown.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Doubt {
    #[error("the engine does not name its image")]
    NoImage,
    #[error("its image can't be inspected: {0}")]
    Uninspected(String),
}

/// A container that carries an instance's label.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) view: ContainerView,
    pub(super) origin_labels: OriginLabels,
    /// Image id; empty if the container has no image, `None` if the engine does not say.
    pub(super) image: Option<String>,
}

impl Candidate {
    /// The image that must be inspected; `None` if the container has no image to inherit from.
    pub(crate) fn image(&self) -> Result<Option<&str>, Doubt> {
        let image = self.image.as_deref().ok_or(Doubt::NoImage)?;
        // Podman's service reports "sha256:" for a container without an image.
        Ok(Some(image).filter(|image| !["", "sha256:"].contains(image)))
    }

    /// The origin of the label, given the labels of the image.
    pub(crate) fn origin(&self, image: &LabelMap) -> Origin {
        if OriginLabels::of(image) == self.origin_labels { Origin::Image } else { Origin::Create }
    }
}

/// Finds the origin of a container's label.
pub(super) async fn prove(
    client: &Client,
    candidate: &Candidate,
    made: &CreatedIds,
) -> Result<Origin, Doubt> {
    let id = &candidate.view.id;
    if made.contains(id) {
        return Ok(Origin::Create);
    }
    let Some(image) = candidate.image()? else { return Ok(Origin::Create) };
    let labels = client.image_labels(image, id).await;
    let labels = labels.map_err(|error| Doubt::Uninspected(error.to_string()))?;
    Ok(candidate.origin(&labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_ids_are_kept() {
        let made = CreatedIds::default();
        for number in 0..=MOST_MADE {
            made.note(number.to_string());
        }
        made.note("x".repeat(LONGEST_ID + 1));
        assert_eq!(made.list().len(), MOST_MADE);
        assert!(!made.contains("0") && made.contains("1") && made.contains("1024"));
        assert_eq!(CreatedIds::from(made.list()).list(), made.list());
    }
}
