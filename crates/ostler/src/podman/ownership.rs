//! Decides which listed containers the instance created, by the [proof](crate::engine::proof) from their images.

use std::collections::BTreeMap;

use super::command::PodmanError;
use super::output::PodmanContainer;
use crate::containers::LeftContainer;
use crate::engine::label::LabelMap;
use crate::engine::proof::{Candidate, Doubt, Origin};

/// Caches the labels of images by id. An image id always names the same content.
#[derive(Default)]
pub(super) struct OwnershipCheck {
    images: BTreeMap<String, Result<LabelMap, Doubt>>,
}

impl OwnershipCheck {
    /// Returns the containers that the instance created, and those that must be left alone because their origin is
    /// unknown. Calls `ask` once per image; an image for which it failed is tried again in the next call.
    pub(super) fn sort(
        &mut self,
        listed: Vec<PodmanContainer>,
        ask: impl Fn(&str) -> Result<LabelMap, PodmanError>,
    ) -> (Vec<PodmanContainer>, Vec<LeftContainer>) {
        self.images.retain(|_, known| known.is_ok());
        let (mut ours, mut doubted) = (Vec::new(), Vec::new());
        for one in listed {
            let Some(candidate) = one.candidate() else { continue };
            match self.origin(&candidate, &ask) {
                Ok(Origin::Create) => ours.push(one),
                Ok(Origin::Image) => {}
                Err(doubt) => {
                    doubted.push(LeftContainer::from(&candidate.view).with_doubt(Some(&doubt)));
                }
            }
        }
        (ours, doubted)
    }

    fn origin(
        &mut self,
        candidate: &Candidate,
        ask: impl Fn(&str) -> Result<LabelMap, PodmanError>,
    ) -> Result<Origin, Doubt> {
        let Some(image) = candidate.image()? else { return Ok(Origin::Create) };
        let told = || ask(image).map_err(|error| Doubt::Uninspected(format!("podman: {error}")));
        let labels = self.images.entry(image.to_owned()).or_insert_with(told);
        labels.as_ref().map(|labels| candidate.origin(labels)).map_err(Clone::clone)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use serde_json::{Value, json};

    use super::*;
    use crate::engine::label::{CALL, INSTANCE};

    const ID: &str = "11111111111111111111111111111111";

    fn listed(id: &str, image: &Value, call: &str) -> PodmanContainer {
        let labels = json!({INSTANCE: ID, CALL: call});
        serde_json::from_value(json!({"Id": id, "ImageID": image, "Labels": labels})).unwrap()
    }

    fn names(left: &[LeftContainer]) -> Vec<&str> {
        left.iter().map(|one| one.id.as_str()).collect()
    }

    #[test]
    fn containers_that_inherited_their_labels_are_not_ours() {
        let all = || {
            vec![
                listed("clean", &json!("clean"), "1-1"),
                listed("blank", &json!("blank"), "1-1"),
                listed("users", &json!("marked"), "1-1"),
                listed("own", &json!("marked"), "2-2"),
                listed("rootfs", &json!(""), "1-1"),
                listed("lost", &json!("lost"), "1-1"),
                listed("lost too", &json!("lost"), "2-2"),
                listed("untold", &Value::Null, "1-1"),
            ]
        };
        let asked = Cell::new(0);
        let ask = |image: &str| {
            asked.set(asked.get() + 1);
            let labels = match image {
                "marked" => json!({INSTANCE: ID, CALL: "1-1"}),
                "blank" => json!({INSTANCE: "", CALL: ""}),
                "lost" => return Err(PodmanError::Refused("image not known".into())),
                _ => json!({}),
            };
            Ok(serde_json::from_value(labels).unwrap())
        };
        let mut check = OwnershipCheck::default();
        for expected in [4, 5] {
            let (ours, doubted) = check.sort(all(), ask);
            let ours: Vec<String> =
                ours.iter().map(|one| one.candidate().unwrap().view.id).collect();
            assert_eq!(ours, ["clean", "blank", "own", "rootfs"]);
            assert_eq!(names(&doubted), ["lost", "lost too", "untold"]);
            assert_eq!(
                asked.get(),
                expected,
                "one inspection per image, and another one for the lost image"
            );
        }
    }
}
