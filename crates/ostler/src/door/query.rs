//! Edits the query of requests that make an image, so that the image carries our labels with empty values.
//!
//! Engines copy the labels of a container or base image to the images made from it, and from there to every container
//! that is started from those. They offer no way to remove a label, only to set another value.

use std::borrow::Cow;

use serde_json::json;

use super::edit::{EditError, check_each};
use super::json::JsonObject;
use super::route::ImageSource;
use crate::engine::call::escaped;
use crate::engine::instruction::{check_change, clearing};
use crate::engine::label::{self, INSTANCE};

/// The request target with parameters that set our labels to empty values.
pub(super) fn cleared(target: &str, source: ImageSource) -> Result<String, EditError> {
    match source {
        ImageSource::Commit | ImageSource::Import => with_changes(target),
        ImageSource::Build => with_labels(target),
    }
}

/// Decoded name and value of each query parameter.
pub(super) fn parameters(target: &str) -> impl Iterator<Item = (String, String)> {
    pieces(target).map(|piece| {
        let (name, value) = piece.split_once('=').unwrap_or((piece, ""));
        (form_decoded(name), form_decoded(value))
    })
}

/// Appends our changes. Engines apply changes in order, so ours win.
fn with_changes(target: &str) -> Result<String, EditError> {
    const CHANGES: &str = "changes";
    for (name, change) in parameters(target) {
        if !is_named(&name, CHANGES)? {
            continue;
        }
        check_change(&change)?;
        // Docker joins all changes into one text, so an open line would swallow the first of ours.
        if change.lines().any(|line| line.trim_end().ends_with(['\\', '`'])) {
            return Err(EditError::OpenChange);
        }
    }
    let ours = clearing().map(|change| format!("{CHANGES}={}", escaped(&change)));
    Ok(with_pieces(target, |_| true, ours))
}

/// Adds an empty label to the `labels` parameter: a JSON object, or for podman also a list.
///
/// Only the label by which containers are removed is set, because docker's classic builder runs a step per label.
fn with_labels(target: &str) -> Result<String, EditError> {
    const LABELS: &str = "labels";
    let mut given = None;
    for (name, value) in parameters(target) {
        if is_named(&name, LABELS)? && given.replace(value).is_some() {
            return Err(EditError::Parameter(LABELS));
        }
    }
    let given = given.unwrap_or_default();
    let labels = if given.trim_start().starts_with('[') {
        let mut list: Vec<Cow<'_, str>> = serde_json::from_str(&given)?;
        for label in &list {
            let (name, value) = label::parts(label);
            label::check(name, value)?;
        }
        list.push(format!("{INSTANCE}=").into());
        json!(list).to_string()
    } else {
        let given = if given.is_empty() { "{}" } else { &given };
        let mut labels = JsonObject::parse(given.as_bytes())?;
        check_each(&labels, label::check)?;
        labels.set_exactly(INSTANCE, "")?;
        serde_json::to_string(&labels)?
    };
    let is_other =
        |piece: &str| form_decoded(piece.split('=').next().unwrap_or_default()) != LABELS;
    Ok(with_pieces(target, is_other, [format!("{LABELS}={}", escaped(&labels))]))
}

/// Compares exactly, and refuses another case: podman ignores case here, docker does not, and no client depends on it.
fn is_named(name: &str, expected: &'static str) -> Result<bool, EditError> {
    match name == expected {
        false if name.eq_ignore_ascii_case(expected) => Err(EditError::Parameter(expected)),
        is_named => Ok(is_named),
    }
}

fn with_pieces(
    target: &str,
    keep: impl Fn(&str) -> bool,
    ours: impl IntoIterator<Item = String>,
) -> String {
    let path = target.split('?').next().unwrap_or_default();
    let kept = pieces(target).filter(|piece| keep(piece)).map(str::to_owned);
    format!("{path}?{}", kept.chain(ours).collect::<Vec<_>>().join("&"))
}

/// The raw `name=value` pieces of the query. Some engines accept a semicolon as separator; the others refuse it.
fn pieces(target: &str) -> impl Iterator<Item = &str> {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    query.split(['&', ';']).filter(|piece| !piece.is_empty())
}

fn form_decoded(text: &str) -> String {
    decoded(&text.replace('+', " "))
}

/// Resolves percent escapes.
pub(super) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = (*first == b'%').then(|| tail.get(..2)).flatten();
        let value = escaped
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(value.unwrap_or(*first));
        rest = if value.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLANK: &str = "&changes=LABEL%20ostler.call%3D&changes=LABEL%20ostler.instance%3D\
        &changes=LABEL%20ostler.owner%3D&changes=LABEL%20ostler.server%3D";

    #[test]
    fn our_labels_are_the_last_change() {
        for query in
            ["container=c", "container=c&changes=LABEL+a%3Db&changes=CMD%20x%0AENV%20y%20z"]
        {
            let target = format!("/v1.41/commit?{query}");
            assert_eq!(cleared(&target, ImageSource::Commit).unwrap(), format!("{target}{BLANK}"));
        }
        let import = cleared("/images/create", ImageSource::Import).unwrap();
        assert_eq!(import, format!("/images/create?{}", &BLANK[1..]));
    }

    #[test]
    fn changes_that_would_undo_that_are_refused() {
        for query in [
            "changes=LABEL%20ostler.instance%3Dx",
            "changes=LABEL%20a%3Db&changes=label+%22ostler.owner%22%3Dx",
            "changes=ENV%20a%20%5C",
            "changes=ENV%20a%20%5C%20%0A%23&b=c",
            "changes=LABEL%20a%3Db;changes=ENV%20a%20%60;b=c",
            "ch%61nges=ENV%20a%20%5C",
            "Changes=CMD%20x",
        ] {
            let target = format!("/commit?container=c&{query}");
            assert!(cleared(&target, ImageSource::Commit).is_err(), "{query}");
        }
    }

    fn built(labels: &str) -> Result<String, EditError> {
        let target = format!("/build?t=a:b&{labels}&q=1");
        let target = cleared(&target, ImageSource::Build)?;
        let rest = target.strip_prefix("/build?t=a:b&q=1&labels=").unwrap();
        Ok(decoded(rest))
    }

    #[test]
    fn builds_get_empty_labels_beside_their_own() {
        let blank = r#""ostler.instance":"""#;
        assert_eq!(built("").unwrap(), format!("{{{blank}}}"));
        assert_eq!(built("labels=").unwrap(), format!("{{{blank}}}"));
        let own = "labels=%7B%22a%22%3A%22b+c%22%2C%22ostler.instance%22%3A%22%22%7D";
        assert_eq!(built(own).unwrap(), format!(r#"{{"a":"b c",{blank}}}"#));
        let list = "labels=%5B%22a%3Db%22%5D";
        let expected = r#"["a=b","ostler.instance="]"#;
        assert_eq!(built(list).unwrap(), expected);
    }

    #[test]
    fn reserved_labels_are_refused() {
        for labels in [
            "labels=%7B%22ostler.instance%22%3A%22x%22%7D",
            "labels=%7B%22\\u006fstler.instance%22%3A%22x%22%7D",
            "labels=%5B%22ostler.instance%3Dx%22%5D",
            "labels=%7B%7D&labels=%7B%7D",
            "LABELS=%7B%7D",
            "labels=x",
        ] {
            assert!(built(labels).is_err(), "{labels}");
        }
    }
}
