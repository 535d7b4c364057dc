//! Configuration of a host for one unattended task with a model on loopback.

use serde_json::{Value, json};

use super::entry::NAME;
use super::{Entry, Host, Tuning};
use crate::fake_model::FakeModel;

/// The task. The model ignores it.
const TASK: &str = "call the tool";
/// The name of the model and of its provider.
const MODEL: &str = "fake";

/// A host's configuration files, arguments and variables.
#[derive(Debug, Default)]
pub(super) struct Setup {
    /// Paths below the home directory, and their text.
    pub(super) files: Vec<(&'static str, String)>,
    pub(super) arguments: Vec<String>,
    pub(super) variables: Vec<(&'static str, String)>,
}

impl Setup {
    pub(super) fn new(host: Host, entry: &Entry, tuning: Tuning, model: &FakeModel) -> Self {
        let text = entry.text(host, tuning);
        match host {
            Host::Codex => codex(&text, model),
            Host::ClaudeCode => claude_code(text, tuning, model),
            Host::OpenCode => opencode(&text, model),
            Host::Gemini => gemini(&text, model),
            Host::OpenClaw => openclaw(&text, model),
        }
    }

    fn arguments(mut self, words: &[&str]) -> Self {
        self.arguments.extend(words.iter().map(ToString::to_string));
        self
    }

    fn variable(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    fn file(mut self, path: &'static str, text: impl Into<String>) -> Self {
        self.files.push((path, text.into()));
        self
    }
}

fn codex(entry: &str, model: &FakeModel) -> Setup {
    let url = model.url("/v1");
    let model = format!(
        "model = \"{MODEL}\"\nmodel_provider = \"{MODEL}\"\ncheck_for_update_on_startup = false\n\
         [analytics]\nenabled = false\n\
         [model_providers.{MODEL}]\nname = \"{MODEL}\"\nbase_url = \"{url}\"\nwire_api = \"responses\"\n"
    );
    // The entry is a table, and the last one: this line belongs to it.
    let approval = "default_tools_approval_mode = \"approve\"\n";
    Setup::default().file(".codex/config.toml", format!("{model}{entry}{approval}")).arguments(&[
        "exec",
        "--skip-git-repo-check",
        TASK,
    ])
}

fn claude_code(entry: String, tuning: Tuning, model: &FakeModel) -> Setup {
    let setup = Setup::default()
        .variable("ANTHROPIC_BASE_URL", model.url(""))
        .variable("ANTHROPIC_API_KEY", "none")
        .variable("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
        .variable("DISABLE_AUTOUPDATER", "1")
        // Otherwise the host hides tools of MCP servers behind a search tool.
        .variable("ENABLE_TOOL_SEARCH", "false")
        .arguments(&["--print", TASK, "--allowedTools", &format!("mcp__{NAME}")]);
    match tuning {
        Tuning::Default => setup.file(".claude.json", entry),
        Tuning::Recommended => setup.file("servers.json", entry).arguments(&[
            "--strict-mcp-config",
            "--mcp-config",
            "../../home/servers.json",
        ]),
    }
}

fn opencode(entry: &str, model: &FakeModel) -> Setup {
    let provider = json!({
        "npm": "@ai-sdk/openai-compatible",
        "name": MODEL,
        "options": { "baseURL": model.url("/v1"), "apiKey": "none" },
        "models": { MODEL: { "name": MODEL, "tool_call": true } },
    });
    let name = format!("{MODEL}/{MODEL}");
    let more = json!({
        "autoupdate": false, "share": "disabled", "permission": "allow",
        "model": name, "small_model": name, "provider": { MODEL: provider },
    });
    Setup::default()
        .file(".config/opencode/opencode.json", merged(entry, &more))
        .variable("OPENCODE_DISABLE_AUTOUPDATE", "1")
        .variable("OPENCODE_DISABLE_MODELS_FETCH", "1")
        .variable("OPENCODE_DISABLE_LSP_DOWNLOAD", "1")
        .variable("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1")
        .arguments(&["run", TASK])
}

fn gemini(entry: &str, model: &FakeModel) -> Setup {
    let more = json!({
        "general": { "enableAutoUpdate": false, "enableAutoUpdateNotification": false },
        "privacy": { "usageStatisticsEnabled": false },
        "telemetry": { "enabled": false },
        "security": {
            "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false },
        },
    });
    Setup::default()
        .file(".gemini/settings.json", merged(entry, &more))
        .variable("GEMINI_API_KEY", "none")
        .variable("GOOGLE_GEMINI_BASE_URL", model.url(""))
        // Otherwise it starts itself once more, and signals would reach a launcher.
        .variable("GEMINI_CLI_NO_RELAUNCH", "true")
        .arguments(&["--model", "gemini-2.5-flash", "--approval-mode", "yolo", "--prompt", TASK])
}

fn openclaw(entry: &str, model: &FakeModel) -> Setup {
    let cost = json!({ "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0 });
    let description = json!({
        "id": MODEL, "name": MODEL, "reasoning": false, "input": ["text"], "cost": cost,
        "contextWindow": 120_000, "maxTokens": 8192,
    });
    let provider = json!({
        "baseUrl": model.url("/v1"), "apiKey": "none", "api": "openai-completions",
        "models": [description],
    });
    let more = json!({
        "agents": { "defaults": { "model": { "primary": format!("{MODEL}/{MODEL}") } } },
        "models": { "mode": "merge", "providers": { MODEL: provider } },
        // Otherwise the host hides tools of MCP servers behind a search tool.
        "tools": { "toolSearch": false },
        "update": { "checkOnStart": false },
    });
    Setup::default()
        .file(".openclaw/openclaw.json", merged(entry, &more))
        .arguments(&["agent", "exec", TASK])
}

/// The entry with further keys beside it.
fn merged(entry: &str, more: &Value) -> String {
    let mut all: Value = serde_json::from_str(entry).expect("an entry in JSON");
    let more = more.as_object().expect("an object").clone();
    all.as_object_mut().expect("an object").extend(more);
    all.to_string()
}
