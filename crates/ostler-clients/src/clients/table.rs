//! One row per client.

use super::Base::{Application, Config, Home, Project, Variable};
use super::Scope::User;
use super::{Base, Client, ClientFile, CommandShape, Fixed, Scope, Section, Shape, Variables};
use crate::format::Format::{self, Json, Json5, Toml, Yaml};

const WORDS: CommandShape = CommandShape::Words("command", "args");
const PLAIN: Shape = Shape { command: WORDS, env: "env", inherit: None, kind: None, fixed: &[] };
const STDIO: Shape = Shape { kind: Some(("type", "stdio")), ..PLAIN };

const MCP_SERVERS: &[Section] = &[Section::Keys(&["mcpServers"])];
const CLAUDE_CODE: &[Section] =
    &[Section::Each(&["projects"], &["mcpServers"]), Section::Keys(&["mcpServers"])];
const SERVERS: &[Section] = &[Section::Keys(&["servers"])];
const CONTEXT_SERVERS: &[Section] = &[Section::Keys(&["context_servers"])];
const MCP: &[Section] = &[Section::Keys(&["mcp"])];
const OPENCODE: &[Section] = &[Section::Keys(&["mcp", "servers"]), Section::Keys(&["mcp"])];

const fn user(
    base: Base,
    path: &'static str,
    format: Format,
    sections: &'static [Section],
) -> ClientFile {
    ClientFile { scope: User, base, path, format, sections }
}

const fn project(path: &'static str, format: Format, sections: &'static [Section]) -> ClientFile {
    ClientFile { scope: Scope::Project, base: Project, path, format, sections }
}

/// All clients, in the order in which they are shown.
pub static CLIENTS: &[Client] = &[
    Client {
        id: "claude-desktop",
        title: "Claude Desktop",
        host: "Claude Desktop",
        programs: &["claude-desktop"],
        files: &[user(Application, "Claude/claude_desktop_config.json", Json, MCP_SERVERS)],
        shape: &PLAIN,
        variables: Variables::Literal,
    },
    Client {
        id: "claude-code",
        title: "Claude Code",
        host: "Claude Code",
        programs: &["claude"],
        files: &[
            user(Variable("CLAUDE_CONFIG_DIR", ""), ".claude.json", Json, CLAUDE_CODE),
            project(".mcp.json", Json, MCP_SERVERS),
        ],
        shape: &PLAIN,
        variables: Variables::Braces,
    },
    Client {
        id: "cursor",
        title: "Cursor",
        host: "Cursor",
        programs: &["cursor", "cursor-agent"],
        files: &[
            user(Home, ".cursor/mcp.json", Json, MCP_SERVERS),
            project(".cursor/mcp.json", Json, MCP_SERVERS),
        ],
        shape: &PLAIN,
        variables: Variables::Editor,
    },
    Client {
        id: "vscode",
        title: "VS Code",
        host: "VS Code",
        programs: &["code", "code-insiders"],
        files: &[
            user(Application, "Code/User/mcp.json", Json, SERVERS),
            user(Application, "Code - Insiders/User/mcp.json", Json, SERVERS),
            user(Home, ".vscode-server/data/User/mcp.json", Json, SERVERS),
            project(".vscode/mcp.json", Json, SERVERS),
        ],
        shape: &STDIO,
        variables: Variables::Editor,
    },
    Client {
        id: "codex",
        title: "Codex",
        host: "Codex",
        programs: &["codex"],
        files: &[
            user(
                Variable("CODEX_HOME", ".codex"),
                "config.toml",
                Toml,
                &[Section::Keys(&["mcp_servers"])],
            ),
            project(".codex/config.toml", Toml, &[Section::Keys(&["mcp_servers"])]),
        ],
        shape: &Shape { inherit: Some("env_vars"), ..PLAIN },
        variables: Variables::Literal,
    },
    Client {
        id: "gemini",
        title: "Gemini CLI",
        host: "Gemini CLI",
        programs: &["gemini"],
        files: &[
            user(Home, ".gemini/settings.json", Json, MCP_SERVERS),
            project(".gemini/settings.json", Json, MCP_SERVERS),
        ],
        shape: &PLAIN,
        variables: Variables::Shell,
    },
    Client {
        id: "zed",
        title: "Zed",
        host: "Zed",
        programs: &["zed", "zeditor"],
        files: &[
            user(Config, "zed/settings.json", Json, CONTEXT_SERVERS),
            project(".zed/settings.json", Json, CONTEXT_SERVERS),
        ],
        shape: &PLAIN,
        variables: Variables::Literal,
    },
    Client {
        id: "windsurf",
        title: "Windsurf",
        host: "Windsurf",
        programs: &["windsurf"],
        files: &[
            user(Home, ".codeium/windsurf/mcp_config.json", Json, MCP_SERVERS),
            user(Home, ".codeium/mcp_config.json", Json, MCP_SERVERS),
        ],
        shape: &PLAIN,
        variables: Variables::Editor,
    },
    Client {
        id: "openclaw",
        title: "OpenClaw",
        host: "OpenClaw",
        programs: &["openclaw"],
        files: &[user(
            Variable("OPENCLAW_STATE_DIR", ".openclaw"),
            "openclaw.json",
            Json5,
            &[Section::Keys(&["mcp", "servers"])],
        )],
        shape: &PLAIN,
        variables: Variables::Braces,
    },
    Client {
        id: "opencode",
        title: "OpenCode",
        host: "OpenCode",
        programs: &["opencode"],
        files: &[
            user(Config, "opencode/opencode.json", Json, OPENCODE),
            user(Config, "opencode/opencode.jsonc", Json, OPENCODE),
            project("opencode.json", Json, OPENCODE),
            project("opencode.jsonc", Json, OPENCODE),
            project(".opencode/opencode.json", Json, OPENCODE),
            project(".opencode/opencode.jsonc", Json, OPENCODE),
        ],
        shape: &Shape {
            command: CommandShape::List("command"),
            env: "environment",
            inherit: None,
            kind: Some(("type", "local")),
            fixed: &[],
        },
        variables: Variables::Curly,
    },
    Client {
        id: "goose",
        title: "goose",
        host: "goose",
        programs: &["goose"],
        files: &[user(Config, "goose/config.yaml", Yaml, &[Section::Keys(&["extensions"])])],
        shape: &Shape {
            command: CommandShape::Words("cmd", "args"),
            env: "envs",
            inherit: Some("env_keys"),
            kind: Some(("type", "stdio")),
            fixed: &[
                ("name", Fixed::Name),
                ("description", Fixed::Name),
                ("enabled", Fixed::True),
                ("timeout", Fixed::Number("300")),
            ],
        },
        variables: Variables::Literal,
    },
    Client {
        id: "cline",
        title: "Cline",
        host: "VS Code",
        programs: &["cline"],
        files: &[
            user(
                Application,
                "Code/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                Json,
                MCP_SERVERS,
            ),
            user(Home, ".cline/data/settings/cline_mcp_settings.json", Json, MCP_SERVERS),
            user(
                Home,
                ".vscode-server/data/User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json",
                Json,
                MCP_SERVERS,
            ),
        ],
        shape: &PLAIN,
        variables: Variables::Editor,
    },
    Client {
        id: "copilot",
        title: "Copilot CLI",
        host: "Copilot CLI",
        programs: &["copilot"],
        files: &[
            user(Variable("COPILOT_HOME", ".copilot"), "mcp-config.json", Json, MCP_SERVERS),
            project(".github/mcp.json", Json, MCP_SERVERS),
        ],
        shape: &Shape {
            kind: Some(("type", "local")),
            fixed: &[("tools", Fixed::Only("*"))],
            ..PLAIN
        },
        variables: Variables::Shell,
    },
    Client {
        id: "lmstudio",
        title: "LM Studio",
        host: "LM Studio",
        programs: &["lms", "lm-studio"],
        files: &[user(Home, ".lmstudio/mcp.json", Json, MCP_SERVERS)],
        shape: &PLAIN,
        variables: Variables::Literal,
    },
    Client {
        id: "amp",
        title: "Amp",
        host: "Amp",
        programs: &["amp"],
        files: &[
            user(Config, "amp/settings.json", Json, &[Section::Keys(&["amp.mcpServers"])]),
            project(".amp/settings.json", Json, &[Section::Keys(&["amp.mcpServers"])]),
        ],
        shape: &PLAIN,
        variables: Variables::Shell,
    },
    Client {
        id: "kiro",
        title: "Kiro",
        host: "Kiro",
        programs: &["kiro", "kiro-cli"],
        files: &[
            user(Home, ".kiro/settings/mcp.json", Json, MCP_SERVERS),
            project(".kiro/settings/mcp.json", Json, MCP_SERVERS),
        ],
        shape: &PLAIN,
        variables: Variables::Braces,
    },
    Client {
        id: "qwen",
        title: "Qwen Code",
        host: "Qwen Code",
        programs: &["qwen"],
        files: &[
            user(Home, ".qwen/settings.json", Json, MCP_SERVERS),
            project(".qwen/settings.json", Json, MCP_SERVERS),
            project(".qwen/settings.local.json", Json, MCP_SERVERS),
        ],
        shape: &PLAIN,
        variables: Variables::Shell,
    },
    Client {
        id: "crush",
        title: "Crush",
        host: "Crush",
        programs: &["crush"],
        files: &[
            user(Config, "crush/crush.json", Json, MCP),
            project(".crush.json", Json, MCP),
            project("crush.json", Json, MCP),
        ],
        shape: &STDIO,
        variables: Variables::Shell,
    },
];
