//! Filter for the tools of a server that clients may see and call.

use bytes::Bytes;
use serde_json::value::RawValue;

pub use crate::config::Tools;
use crate::protocol::message;

impl Tools {
    pub(crate) fn is_everything(&self) -> bool {
        self.allow.is_none() && self.deny.iter().next().is_none()
    }

    /// Removes denied tools from the result of a list. Everything else stays as it is.
    pub(crate) fn filter(&self, method: &str, result: Bytes) -> Bytes {
        if self.is_everything() || method != "tools/list" {
            return result;
        }
        let Some(edges) = message::find(&result, 0..result.len(), &["tools"]) else {
            // There is no such field, or several that a client could take for it; those are removed.
            return message::without(result, &[], "tools");
        };
        let tools: Vec<&RawValue> =
            serde_json::from_slice(&result[edges.clone()]).unwrap_or_default();
        let is_allowed = |tool: &&&RawValue| {
            message::text_at(tool.get(), &["name"]).is_some_and(|name| self.permit(&name))
        };
        let kept: Vec<&str> = tools.iter().filter(is_allowed).map(|tool| tool.get()).collect();
        let kept = Bytes::from(format!("[{}]", kept.join(",")));
        let line = message::splice(&result, vec![(edges, kept)]);
        line.slice(..line.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_with_two_names_is_hidden() {
        let list = Bytes::from_static(br#"{"tools":[{"name":"a","Name":"b"},{"name":"a"}]}"#);
        let tools = Tools { allow: None, deny: ["b"].into_iter().collect() };
        assert_eq!(tools.filter("tools/list", list), &br#"{"tools":[{"name":"a"}]}"#[..]);
        let list = Bytes::from_static(br#"{"tools":[],"x":1,"Tools":[{"name":"b"}]}"#);
        assert_eq!(tools.filter("tools/list", list), &br#"{"x":1}"#[..]);
    }

    #[test]
    fn denied_tools_are_hidden_and_the_rest_is_unchanged() {
        let list = Bytes::from_static(
            br#"{"x":1, "tools":[{"name":"a","v":1.0}, {"v":2,"name":"b"},{"name":"c"}],"nextCursor":"n"}"#,
        );
        let tools = Tools { allow: None, deny: ["b"].into_iter().collect() };
        let expected = br#"{"x":1, "tools":[{"name":"a","v":1.0},{"name":"c"}],"nextCursor":"n"}"#;
        assert_eq!(tools.filter("tools/list", list.clone()), &expected[..]);
        assert_eq!(tools.filter("prompts/list", list.clone()), list);
        let tools = Tools {
            allow: Some(["a", "b"].into_iter().collect()),
            deny: ["b"].into_iter().collect(),
        };
        assert!(tools.permit("a") && !tools.permit("b") && !tools.permit("c"));
    }
}
