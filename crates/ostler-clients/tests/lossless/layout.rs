//! Documents with random layout: comments, blank lines, indentation, line ends, byte order mark, trailing commas, quotes.

use ostler_clients::Format;
use proptest::prelude::*;

/// One server of a document.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) command: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

/// A document as data; [`Document::text`] writes it in a format.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) servers: Vec<(String, Server)>,
    before: Vec<(String, String)>,
    after: Vec<(String, String)>,
    style: Style,
}

#[derive(Clone, Debug)]
struct Style {
    indent: usize,
    tabs: bool,
    crlf: bool,
    bom: bool,
    comments: bool,
    trailing_commas: bool,
    single_quotes: bool,
    bare_keys: bool,
    blank_lines: bool,
    one_line_entries: bool,
    ends_bare: bool,
}

pub(crate) fn documents() -> impl Strategy<Value = Document> {
    let word = "[a-z][a-z0-9_-]{0,6}";
    let text = "[ -~äß漢]{0,12}";
    let server = (word, proptest::collection::vec(text, 0..3), pairs(3))
        .prop_map(|(command, args, env)| Server { command, args, env });
    let servers = proptest::collection::vec((word, server), 1..4).prop_map(unique);
    (servers, pairs(3), pairs(3), styles()).prop_map(|(servers, before, after, style)| {
        let prefixed = |prefix: &str, pairs: Vec<(String, String)>| {
            pairs.into_iter().map(|(key, value)| (format!("{prefix}{key}"), value)).collect()
        };
        Document { servers, before: prefixed("b_", before), after: prefixed("z_", after), style }
    })
}

fn pairs(most: usize) -> impl Strategy<Value = Vec<(String, String)>> {
    proptest::collection::vec(("[A-Z][A-Z0-9_]{0,5}", "[ -~äß漢]{0,12}"), 0..most).prop_map(unique)
}

fn unique<T>(list: Vec<(String, T)>) -> Vec<(String, T)> {
    let mut seen = std::collections::BTreeSet::new();
    list.into_iter().filter(|(key, _)| seen.insert(key.clone())).collect()
}

fn styles() -> impl Strategy<Value = Style> {
    (1_usize..5, proptest::array::uniform10(any::<bool>())).prop_map(|(indent, flags)| {
        let [
            tabs,
            crlf,
            bom,
            comments,
            trailing_commas,
            single_quotes,
            bare_keys,
            blank_lines,
            one_line_entries,
            ends_bare,
        ] = flags;
        Style {
            indent,
            tabs,
            crlf,
            bom,
            comments,
            trailing_commas,
            single_quotes,
            bare_keys,
            blank_lines,
            one_line_entries,
            ends_bare,
        }
    })
}

impl Document {
    /// The keys of the entry of a server.
    pub(crate) fn path(format: Format, server: &str) -> Vec<String> {
        let root: &[&str] = match format {
            Format::Json => &["mcpServers"],
            Format::Json5 => &["mcp", "servers"],
            Format::Toml => &["mcp_servers"],
            Format::Yaml => &["extensions"],
        };
        root.iter().copied().chain([server]).map(str::to_owned).collect()
    }

    pub(crate) fn text(&self, format: Format) -> String {
        let body = match format {
            Format::Json => self.json(false),
            Format::Json5 => self.json(true),
            Format::Toml => self.toml(),
            Format::Yaml => self.yaml(),
        };
        let style = &self.style;
        let body = if style.ends_bare { body.trim_end_matches('\n').to_owned() } else { body };
        let body = if style.crlf { body.replace('\n', "\r\n") } else { body };
        if style.bom { format!("\u{feff}{body}") } else { body }
    }

    fn pad(&self, level: usize) -> String {
        if self.style.tabs { "\t".repeat(level) } else { " ".repeat(self.style.indent * level) }
    }

    fn json(&self, is_json5: bool) -> String {
        let style = &self.style;
        let mut entries: Vec<String> = Vec::new();
        for (key, value) in &self.before {
            entries.push(self.member(is_json5, 1, key, &self.quoted(is_json5, value)));
        }
        let depth = if is_json5 { 2 } else { 1 };
        let servers = self.servers.iter().map(|(name, server)| {
            self.member(is_json5, depth + 1, name, &self.entry(is_json5, depth + 1, server))
        });
        let servers = self.block(depth, &servers.collect::<Vec<_>>());
        entries.push(if is_json5 {
            let inner = self.member(true, 2, "servers", &servers);
            self.member(true, 1, "mcp", &self.block(1, &[inner]))
        } else {
            self.member(false, 1, "mcpServers", &servers)
        });
        for (key, value) in &self.after {
            entries.push(self.member(is_json5, 1, key, &self.quoted(is_json5, value)));
        }
        let head = if style.comments { "// settings, \"{\" and all\n" } else { "" };
        let tail = if style.comments { "/* the end */\n" } else { "" };
        format!("{head}{}\n{tail}", self.block(0, &entries))
    }

    fn entry(&self, is_json5: bool, level: usize, server: &Server) -> String {
        let args: Vec<String> = server.args.iter().map(|a| self.quoted(is_json5, a)).collect();
        let env = server.env.iter().map(|(k, v)| format!("\"{k}\": {}", self.quoted(is_json5, v)));
        let env = format!("{{ {} }}", env.collect::<Vec<_>>().join(", "));
        let members = [
            ("command", self.quoted(is_json5, &server.command)),
            ("args", format!("[{}]", args.join(", "))),
            ("env", env),
        ];
        if self.style.one_line_entries {
            let members = members.map(|(key, value)| format!("\"{key}\":{value}"));
            return format!("{{{}}}", members.join(","));
        }
        let members = members.map(|(key, value)| self.member(is_json5, level + 1, key, &value));
        self.block(level, &members)
    }

    fn member(&self, is_json5: bool, level: usize, key: &str, value: &str) -> String {
        let pad = self.pad(level);
        let is_bare =
            is_json5 && self.style.bare_keys && key.chars().all(|c| c.is_ascii_alphanumeric());
        let key = if is_bare { key.to_owned() } else { format!("\"{key}\"") };
        let comment =
            if self.style.comments { format!("{pad}// {key}, a note\n") } else { String::new() };
        let blank = if self.style.blank_lines { "\n" } else { "" };
        format!("{blank}{comment}{pad}{key}: {value}")
    }

    fn block(&self, level: usize, members: &[String]) -> String {
        let comma = if self.style.trailing_commas { "," } else { "" };
        let after = if self.style.comments { " // last" } else { "" };
        format!("{{\n{}{comma}{after}\n{}}}", members.join(",\n"), self.pad(level))
    }

    fn quoted(&self, is_json5: bool, text: &str) -> String {
        if is_json5 && self.style.single_quotes {
            return format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
        }
        serde_json::to_string(text).unwrap()
    }

    fn toml(&self) -> String {
        let mut text = String::new();
        let note = |level: &str| {
            if self.style.comments { format!("# {level} [x] = 1\n") } else { String::new() }
        };
        let blank = if self.style.blank_lines { "\n" } else { "" };
        for (key, value) in self.before.iter().chain(&self.after) {
            text += &format!("{}{blank}{key}   =  {}\n", note("top"), self.quoted(false, value));
        }
        for (name, server) in &self.servers {
            let args: Vec<String> = server.args.iter().map(|a| self.quoted(false, a)).collect();
            text += &format!(
                "{blank}{}[mcp_servers.\"{name}\"] {}",
                note("table"),
                if self.style.comments { "# why" } else { "" }
            );
            text += &format!(
                "\ncommand = {}\nargs = [{}]\n",
                self.quoted(false, &server.command),
                args.join(",  ")
            );
            if self.style.one_line_entries {
                let env =
                    server.env.iter().map(|(k, v)| format!("{k} = {}", self.quoted(false, v)));
                text += &format!("env = {{ {} }}\n", env.collect::<Vec<_>>().join(", "));
            } else if !server.env.is_empty() {
                text += &format!("[mcp_servers.\"{name}\".env]\n");
                for (key, value) in &server.env {
                    text += &format!("{key} = {}\n", self.quoted(false, value));
                }
            }
        }
        text += &format!("{blank}[last]\nx = 1 # {}\n", "end");
        text
    }

    fn yaml(&self) -> String {
        let pad = " ".repeat(self.style.indent.max(1));
        let note = |level: &str| {
            if self.style.comments { format!("{level}# a: note\n") } else { String::new() }
        };
        let blank = if self.style.blank_lines { "\n" } else { "" };
        let mut text = String::new();
        for (key, value) in &self.before {
            text += &format!("{}{key}: {}\n{blank}", note(""), self.quoted(false, value));
        }
        text += "extensions:\n";
        for (name, server) in &self.servers {
            text += &format!(
                "{}{pad}{name}:\n{pad}{pad}cmd: {}\n",
                note(&pad),
                self.quoted(false, &server.command)
            );
            let args: Vec<String> = server.args.iter().map(|a| self.quoted(false, a)).collect();
            if self.style.one_line_entries || args.is_empty() {
                text += &format!("{pad}{pad}args: [{}]\n", args.join(", "));
            } else {
                text += &format!("{pad}{pad}args:\n");
                for arg in args {
                    text += &format!("{pad}{pad}- {arg}\n");
                }
            }
            if !server.env.is_empty() {
                text += &format!("{pad}{pad}envs:\n");
            }
            for (key, value) in &server.env {
                text += &format!("{pad}{pad}{pad}{key}: {}\n", self.quoted(false, value));
            }
            text += &format!("{pad}{pad}enabled: true  # yes\n{blank}");
        }
        for (key, value) in &self.after {
            text += &format!("{}{key}: {}\n{blank}", note(""), self.quoted(false, value));
        }
        text
    }
}
