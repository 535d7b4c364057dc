//! Result of a tool call, as parts that a terminal can show.
//!
//! Results of all protocol versions are accepted. A part that this version of ostler does not know is shown as JSON, so
//! nothing that a server returned is lost.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::save::{SaveError, Saver};
use crate::json_text::pretty;
use crate::page::Page;
use crate::render;

/// Result of `tools/call`.
#[derive(Debug)]
pub(super) struct Content {
    parts: Vec<Part>,
    /// Whether the tool reported an error.
    pub(super) is_error: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// Text of an embedded resource, under its URI.
    Document {
        uri: String,
        text: String,
    },
    File(Attachment),
    Link(String),
    /// Structured content, or a part of an unknown kind.
    Json(String),
}

/// Binary data in a result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Attachment {
    kind: &'static str,
    pub(super) media_type: Option<String>,
    uri: Option<String>,
    /// `None` if it was not valid base64.
    pub(super) bytes: Option<Vec<u8>>,
}

#[derive(Deserialize)]
struct Raw<'a> {
    #[serde(borrow, default)]
    content: Vec<&'a RawValue>,
    #[serde(borrow, default, rename = "structuredContent")]
    structured: Option<&'a RawValue>,
    /// Result of protocol version 2024-10-07.
    #[serde(borrow, default, rename = "toolResult")]
    oldest: Option<&'a RawValue>,
    #[serde(default, rename = "isError")]
    is_error: Option<bool>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block {
    Text { text: String },
    Image(Data),
    Audio(Data),
    Resource { resource: Resource },
    ResourceLink(Link),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data {
    data: String,
    mime_type: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    uri: String,
    mime_type: Option<String>,
    text: Option<String>,
    blob: Option<String>,
}

#[derive(Deserialize)]
struct Link {
    uri: String,
    #[serde(default)]
    name: String,
    title: Option<String>,
    description: Option<String>,
}

impl Content {
    pub(super) fn parse(result: &RawValue) -> Self {
        let Ok(raw) = serde_json::from_str::<Raw<'_>>(result.get()) else {
            return Self { parts: vec![Part::json(result)], is_error: false };
        };
        let structured = raw.structured.or(raw.oldest);
        let is_repeated = |part: &Part| structured.is_some_and(|json| part.repeats(json));
        let blocks = raw.content.into_iter().map(Part::parse);
        let blocks = blocks.filter(|part| !is_repeated(part));
        let parts = blocks.chain(structured.map(Part::json)).collect();
        Self { parts, is_error: raw.is_error == Some(true) }
    }

    /// Shows the parts; attachments are saved if there is a directory for them.
    pub(super) fn page(&self, mut saver: Option<Saver<'_>>) -> Result<Page, SaveError> {
        let mut page = Page::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => page.text_block(text),
                Part::Document { uri, text } => {
                    page.line(format_args!("[resource {uri}]"));
                    page.text_block(text);
                }
                Part::Link(link) => page.line(format_args!("[link {link}]")),
                Part::Json(json) => page.json(json),
                Part::File(attachment) => {
                    page.line(format_args!("[{}]", attachment.describe()));
                    if let Some(saver) = &mut saver {
                        let path = saver.save(attachment)?;
                        page.line(format_args!("saved as {}", path.display()));
                    }
                }
            }
        }
        Ok(page)
    }

    /// Whether there is something to save.
    pub(super) fn has_attachment(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::File(_)))
    }
}

impl Part {
    fn parse(raw: &RawValue) -> Self {
        match serde_json::from_str(raw.get()) {
            Ok(Block::Text { text }) => Self::Text(text),
            Ok(Block::Image(data)) => Self::File(Attachment::of("image", data)),
            Ok(Block::Audio(data)) => Self::File(Attachment::of("audio", data)),
            Ok(Block::ResourceLink(link)) => Self::link(link),
            Ok(Block::Resource { resource }) => match resource {
                Resource { uri, text: Some(text), .. } => Self::Document { uri, text },
                Resource { uri, mime_type, blob: Some(data), .. } => {
                    let attachment = Attachment::of("blob", Data { data, mime_type });
                    Self::File(Attachment { uri: Some(uri), ..attachment })
                }
                Resource { .. } => Self::json(raw),
            },
            Err(_) => Self::json(raw),
        }
    }

    fn json(raw: &RawValue) -> Self {
        Self::Json(pretty(raw.get()))
    }

    fn link(Link { uri, name, title, description }: Link) -> Self {
        let name = title.unwrap_or(name);
        let texts = [Some(uri), Some(name), description].into_iter().flatten();
        let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
        Self::Link(texts.join(", "))
    }

    /// Whether this is the text that servers add to structured content for older clients.
    fn repeats(&self, structured: &RawValue) -> bool {
        let Self::Text(text) = self else { return false };
        let value = |json: &str| serde_json::from_str::<Value>(json).ok();
        value(text).is_some_and(|said| Some(said) == value(structured.get()))
    }
}

impl Attachment {
    fn of(kind: &'static str, Data { mut data, mime_type }: Data) -> Self {
        // Some servers break lines.
        data.retain(|c| !c.is_ascii_whitespace());
        Self { kind, media_type: mime_type, uri: None, bytes: STANDARD.decode(data).ok() }
    }

    /// `image image/png, 12.3 kB`.
    fn describe(&self) -> String {
        let media_type = self.media_type.as_deref().unwrap_or("of unknown type");
        let size = match &self.bytes {
            Some(bytes) => render::size(bytes.len() as u64),
            None => "not valid base64".to_owned(),
        };
        let uri = self.uri.as_ref().map(|uri| format!(", {uri}")).unwrap_or_default();
        format!("{} {media_type}, {size}{uri}", self.kind)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use serde_json::value::to_raw_value;

    use super::*;

    fn shown(result: &Value) -> String {
        let content = Content::parse(&to_raw_value(result).unwrap());
        content.page(None).unwrap().text().to_owned()
    }

    #[test]
    fn every_kind_of_content_is_shown() {
        let result = json!({ "content": [
            { "type": "text", "text": "one\ttwo\r\n\nthree\u{1b}[2J" },
            { "type": "image", "data": "aGVs\nbG8=", "mimeType": "image/png" },
            { "type": "audio", "data": "%", "mimeType": "audio/wav\u{7}" },
            { "type": "resource_link", "uri": "file:///a", "name": "a", "description": "the first" },
            { "type": "resource", "resource": { "uri": "file:///b", "text": "of b" } },
            { "type": "resource", "resource": { "uri": "file:///c", "blob": "aGk=" } },
            { "type": "hologram", "depth": 3 },
        ] });
        let expected = "one\ttwo\n\nthree\\u{1b}[2J\n[image image/png, 5 B]\n\
            [audio audio/wav\\u{7}, not valid base64]\n[link file:///a, a, the first]\n\
            [resource file:///b]\nof b\n[blob of unknown type, 2 B, file:///c]\n\
            {\n  \"depth\": 3,\n  \"type\": \"hologram\"\n}\n";
        assert_eq!(shown(&result), expected);
    }

    #[test]
    fn structured_content_is_shown_once() {
        let result = json!({
            "content": [{ "type": "text", "text": "{ \"sum\":3 }" }, { "type": "text", "text": "3" }],
            "structuredContent": { "sum": 3 },
        });
        assert_eq!(shown(&result), "3\n{\n  \"sum\": 3\n}\n");
    }

    #[test]
    fn results_of_any_version_are_shown() {
        assert_eq!(shown(&json!({ "toolResult": 7 })), "7\n");
        assert_eq!(shown(&json!({ "content": [] })), "");
        assert_eq!(shown(&json!({})), "");
        assert_eq!(shown(&json!("odd")), "\"odd\"\n");
        assert_eq!(shown(&json!({ "content": "odd" })), "{\n  \"content\": \"odd\"\n}\n");
        let hidden = json!({ "structuredContent": ["\u{202e}"] });
        assert_eq!(shown(&hidden), "[\n  \"\\u202e\"\n]\n");
    }
}
