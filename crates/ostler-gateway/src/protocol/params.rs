//! Checks the parameters that rules of the gateway depend on.
//!
//! Parameters are forwarded as text, and the receiver's JSON parser decides what they mean: it may ignore the case of
//! a key, or take the first of two equal keys where the gateway takes the last. A rule would then apply to another
//! value than the one that is used. So each key that a rule depends on must be there at most once and in no other
//! spelling; the gateway refuses other messages. It never looks into parameters that no rule reads, such as
//! `arguments`, results and unknown ones.

use std::ops::Range;

use ostler::Frame;
use ostler::json::{self, Likeness};

/// Parameters of a request that rules need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Range of the progress token.
    pub(crate) token: Option<Range<usize>>,
    /// Whether the request asks to be run as a task.
    pub(crate) has_task: bool,
}

/// Why parameters are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unclear {
    #[error("the parameter `{0}` must appear exactly once, in this spelling")]
    Ambiguous(&'static str),
    #[error("`params` must be an object")]
    NotAnObject,
}

/// Key that a rule depends on.
struct Watched {
    key: &'static str,
    role: Role,
    /// Keys in its value that a rule depends on.
    within: &'static [Watched],
}

/// Field of `Found` that a key sets.
#[derive(Clone, Copy)]
enum Role {
    Token,
    Task,
    /// None: the rule looks the key up by itself.
    Plain,
}

const fn watch(key: &'static str) -> Watched {
    Watched { key, role: Role::Plain, within: &[] }
}

const TOKEN: Watched = Watched { role: Role::Token, ..watch("progressToken") };
const META: Watched = Watched { within: &[TOKEN], ..watch("_meta") };
const TASK: Watched = Watched { role: Role::Task, ..watch("task") };
const REF: Watched =
    Watched { within: &[watch("type"), watch("name"), watch("uri")], ..watch("ref") };

/// Keys that rules depend on in the parameters of a method.
fn watched(method: &[u8]) -> &'static [Watched] {
    match method {
        b"tools/call" | b"prompts/get" => {
            const { &[META, TASK, watch("name"), watch("arguments")] }
        }
        b"completion/complete" => const { &[META, TASK, REF] },
        b"resources/read"
        | b"resources/subscribe"
        | b"resources/unsubscribe"
        | b"notifications/resources/updated" => const { &[META, TASK, watch("uri")] },
        b"tools/list" | b"prompts/list" | b"resources/list" | b"resources/templates/list" => {
            const { &[META, TASK, watch("cursor")] }
        }
        b"logging/setLevel" | b"notifications/message" => const { &[META, TASK, watch("level")] },
        b"notifications/cancelled" => const { &[META, TASK, watch("requestId")] },
        b"notifications/progress" => const { &[META, TASK, watch("progressToken")] },
        b"notifications/elicitation/complete" => const { &[META, TASK, watch("elicitationId")] },
        b"elicitation/create" => const { &[META, TASK, watch("mode"), watch("elicitationId")] },
        b"tasks/get" | b"tasks/result" | b"tasks/cancel" => {
            const { &[META, TASK, watch("taskId")] }
        }
        b"sampling/createMessage" => const { &[META, TASK, watch("tools")] },
        _ => const { &[META, TASK] },
    }
}

/// Checks the parameters of a request or notification.
pub(crate) fn check(frame: &Frame) -> Result<Found, Unclear> {
    let mut found = Found::default();
    if matches!(frame.body(), b"" | b"null") {
        return Ok(found);
    }
    let walked = scan(frame.bytes(), frame.body_edges(), watched(frame.method()), &mut found)?;
    if walked.is_none() {
        return Err(Unclear::NotAnObject);
    }
    Ok(found)
}

/// Checks the keys of one object; `None` if the value is no object.
fn scan(
    text: &[u8],
    within: Range<usize>,
    watched: &'static [Watched],
    found: &mut Found,
) -> Result<Option<()>, Unclear> {
    let (mut seen, mut clear) = (0_u32, Ok(()));
    let walked = json::members(text, within, |member| {
        let Some((index, likeness)) = which(&member.key, watched) else { return };
        let watched = &watched[index];
        let is_first = seen & (1 << index) == 0;
        seen |= 1 << index;
        if clear.is_err() {
            return;
        }
        if likeness == Likeness::Alike || !is_first {
            clear = Err(Unclear::Ambiguous(watched.key));
            return;
        }
        match watched.role {
            Role::Token => found.token = Some(member.value.clone()),
            Role::Task => found.has_task = true,
            Role::Plain => {}
        }
        if !watched.within.is_empty() {
            // A value that is no object has no key that a rule reads.
            clear = scan(text, member.value, watched.within, found).map(|_| ());
        }
    });
    clear.map(|()| walked)
}

/// Index of the watched key that equals this one, or is similar to it.
fn which(key: &str, watched: &[Watched]) -> Option<(usize, Likeness)> {
    let same = watched.iter().position(|one| one.key == key).map(|index| (index, Likeness::Same));
    same.or_else(|| {
        let is_alike = |one: &Watched| json::likeness(key, one.key) == Likeness::Alike;
        watched.iter().position(is_alike).map(|index| (index, Likeness::Alike))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: &str, params: &str) -> Result<Found, Unclear> {
        let text = format!(r#"{{"id":1,"method":"{method}","params":{params}}}"#);
        check(&Frame::parse(text).unwrap())
    }

    #[test]
    fn a_token_is_found_where_it_counts() {
        let text = r#"{"params":{"progressToken":1,"_meta":{"x":[1],"progressT\u006fken" : "a"}},"method":"m","id":3}"#;
        let found = check(&Frame::parse(text).unwrap()).unwrap();
        assert_eq!(&text[found.token.unwrap()], r#""a""#);
        for params in [r#"{"progressToken":1}"#, r#"{"_meta":7}"#, r#"{"_meta":{}}"#, "{}", "null"]
        {
            assert_eq!(read("m", params), Ok(Found::default()), "{params}");
        }
    }

    #[test]
    fn a_task_is_found_however_it_is_written() {
        for params in [r#"{"task":{}}"#, r#"{"x":1,"t\u0061sk":null}"#] {
            assert!(read("tools/call", params).unwrap().has_task, "{params}");
        }
        assert!(!read("tools/call", r#"{"arguments":{"task":1}}"#).unwrap().has_task);
    }

    #[test]
    fn no_key_can_be_taken_for_another_one() {
        for (method, params, key) in [
            ("m", r#"{"_meta":{},"_META":{}}"#, "_meta"),
            ("m", r#"{"_meta":{"progressToken":1,"progressToken":1}}"#, "progressToken"),
            ("prompts/get", r#"{"Name":1}"#, "name"),
            ("completion/complete", r#"{"ref":{"uri":1,"Uri":2}}"#, "uri"),
            ("notifications/cancelled", r#"{"request_id":1}"#, "requestId"),
        ] {
            assert_eq!(read(method, params), Err(Unclear::Ambiguous(key)), "{params}");
        }
        assert_eq!(read("m", "[]"), Err(Unclear::NotAnObject));
        assert!(read("m", r#"{"name":1,"Name":2}"#).is_ok(), "no rule depends on it");
        assert!(read("tools/call", r#"{"arguments":{"name":1,"Name":2,"name":3}}"#).is_ok());
    }
}
