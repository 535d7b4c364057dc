//! Proof that a container with an instance's label was created for that instance.
//!
//! An engine gives a container the labels of its image. A container that the user starts from an image which a server
//! has committed, built or loaded can therefore carry the server's label. So before a removal one of these must hold:
//! the Door has noted the container's id from the engine's answer to the create ([`Made`]); or the image does not have
//! the same label, so that only a create can have put it there. A container whose image has the same label, and whose id
//! was not noted, is not the instance's. If the image can't be inspected, also because it was deleted, it is not known
//! whose the container is: it is left alone, told as residue, and looked at again.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::client::Client;
use crate::containers::ContainerView;
use crate::engine::label::{LabelMap, Marks};

/// How many ids are kept, the newest. What is older than that is proven by its image.
const MOST_MADE: usize = 1024;
/// An engine's ids have 64 digits.
const LONGEST_ID: usize = 128;

/// The ids of containers that an engine has said it created, the oldest first. Cheap to clone; all clones are one list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Made(Arc<Mutex<VecDeque<String>>>);

impl Made {
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

    /// As they go into a note.
    pub(crate) fn list(&self) -> Vec<String> {
        self.ids().iter().cloned().collect()
    }

    fn ids(&self) -> MutexGuard<'_, VecDeque<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<Vec<String>> for Made {
    fn from(ids: Vec<String>) -> Self {
        let made = Self::default();
        for id in ids {
            made.note(id);
        }
        made
    }
}

/// Where a container got its label from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A create of the instance.
    Create,
    /// Its image, for all that is known.
    Image,
}

/// Why it is not known whose a container is.
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
    pub(super) marks: Marks,
    /// The image's id; empty if it has none, `None` if the engine does not say.
    pub(super) image: Option<String>,
}

impl Candidate {
    /// The image that has to be asked for its labels; `None` if there is none to inherit from.
    pub(crate) fn image(&self) -> Result<Option<&str>, Doubt> {
        let image = self.image.as_deref().ok_or(Doubt::NoImage)?;
        // Podman's service tells of no image in this way.
        Ok(Some(image).filter(|image| !["", "sha256:"].contains(image)))
    }

    /// Where its label is from, if that is what its image carries.
    pub(crate) fn origin(&self, image: &LabelMap) -> Origin {
        if Marks::of(image) == self.marks { Origin::Image } else { Origin::Create }
    }
}

/// Asks the engine where a container's label is from.
pub(super) async fn prove(
    client: &Client,
    candidate: &Candidate,
    made: &Made,
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
        let made = Made::default();
        for number in 0..=MOST_MADE {
            made.note(number.to_string());
        }
        made.note("x".repeat(LONGEST_ID + 1));
        assert_eq!(made.list().len(), MOST_MADE);
        assert!(!made.contains("0") && made.contains("1") && made.contains("1024"));
        assert_eq!(Made::from(made.list()).list(), made.list());
    }
}
