//! Which listed containers are the instance's, as [proven](crate::engine::proof) by their images.

use std::collections::BTreeMap;

use super::answers::Listed;
use super::command::NoAnswer;
use crate::containers::LeftContainer;
use crate::engine::label::LabelMap;
use crate::engine::proof::{Candidate, Doubt, Origin};

/// What is known of images. What an id means never changes.
#[derive(Default)]
pub(super) struct Whose {
    images: BTreeMap<String, Result<LabelMap, Doubt>>,
}

impl Whose {
    /// Returns those that were created for the instance, and those that are left alone because it is not known whose
    /// they are. `ask` is asked once for each image; about one that it could not tell of it is asked again the next time.
    pub(super) fn sort(
        &mut self,
        listed: Vec<Listed>,
        ask: impl Fn(&str) -> Result<LabelMap, NoAnswer>,
    ) -> (Vec<Listed>, Vec<LeftContainer>) {
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
        ask: impl Fn(&str) -> Result<LabelMap, NoAnswer>,
    ) -> Result<Origin, Doubt> {
        let Some(image) = candidate.image()? else { return Ok(Origin::Create) };
        let told = || ask(image).map_err(|error| Doubt::Uninspected(error.to_string()));
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

    fn listed(id: &str, image: &Value, call: &str) -> Listed {
        let labels = json!({INSTANCE: ID, CALL: call});
        serde_json::from_value(json!({"Id": id, "ImageID": image, "Labels": labels})).unwrap()
    }

    fn names(left: &[LeftContainer]) -> Vec<&str> {
        left.iter().map(|one| one.id.as_str()).collect()
    }

    #[test]
    fn only_what_the_image_has_not_passed_on_is_ours() {
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
                "lost" => return Err(NoAnswer::Refused("image not known".into())),
                _ => json!({}),
            };
            Ok(serde_json::from_value(labels).unwrap())
        };
        let mut whose = Whose::default();
        for expected in [4, 5] {
            let (ours, doubted) = whose.sort(all(), ask);
            let ours: Vec<String> =
                ours.iter().map(|one| one.candidate().unwrap().view.id).collect();
            assert_eq!(ours, ["clean", "blank", "own", "rootfs"]);
            assert_eq!(names(&doubted), ["lost", "lost too", "untold"]);
            assert_eq!(
                asked.get(),
                expected,
                "one question for each image, and for the lost one again"
            );
        }
    }
}
