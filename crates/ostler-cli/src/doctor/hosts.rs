//! Recognises agent hosts: running ones by program, and ended ones by the variables that they set for their children.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

use ostler::Process;
use rustix::process::geteuid;

use super::table::Seen;

/// Programs that start MCP servers, by name of the process, program or script.
const PROGRAMS: &[(&str, &str)] = &[
    ("claude", "Claude Code"),
    ("claude-code", "Claude Code"),
    ("claude-desktop", "Claude Desktop"),
    ("codex", "Codex"),
    ("opencode", "OpenCode"),
    ("gemini", "Gemini CLI"),
    ("gemini-cli", "Gemini CLI"),
    ("openclaw", "OpenClaw"),
    ("openclaw-gateway", "OpenClaw"),
    ("cursor", "Cursor"),
    ("cursor-agent", "Cursor"),
    ("code", "VS Code"),
    ("code-insiders", "VS Code"),
    ("code-server", "VS Code"),
    ("vscode", "VS Code"),
    ("codium", "VS Code"),
    ("zed", "Zed"),
    ("zed-editor", "Zed"),
    ("goose", "goose"),
    ("goosed", "goose"),
    ("windsurf", "Windsurf"),
    ("copilot", "Copilot CLI"),
    ("qwen", "Qwen Code"),
    ("qwen-code", "Qwen Code"),
    ("amp", "Amp"),
    ("crush", "Crush"),
    ("kiro", "Kiro"),
    ("kiro-cli", "Kiro"),
    ("lm-studio", "LM Studio"),
    ("kilocode", "Kilo Code"),
    ("hermes", "Hermes"),
    ("docker-mcp", "Docker's MCP gateway"),
    ("mcp-gateway", "Docker's MCP gateway"),
    ("thv", "ToolHive"),
    ("toolport", "Toolport"),
];

/// Variables that hosts set for their children, more specific hosts first: an agent may run in an editor's terminal.
pub(crate) const MARKS: &[(&str, &str)] = &[
    ("CLAUDECODE", "Claude Code"),
    ("CLAUDE_CODE_ENTRYPOINT", "Claude Code"),
    ("CLAUDE_PROJECT_DIR", "Claude Code"),
    ("CLAUDE_PLUGIN_ROOT", "Claude Code"),
    ("CODEX_THREAD_ID", "Codex"),
    ("CODEX_SANDBOX", "Codex"),
    ("CODEX_HOME", "Codex"),
    ("GEMINI_CLI", "Gemini CLI"),
    ("OPENCODE", "OpenCode"),
    ("OPENCLAW_SHELL", "OpenClaw"),
    ("OPENCLAW_STATE_DIR", "OpenClaw"),
    ("QWEN_CODE", "Qwen Code"),
    ("GOOSE_TERMINAL", "goose"),
    ("HERMES_MCP_PARENT_PID", "Hermes"),
    ("CURSOR_TRACE_ID", "Cursor"),
    ("ZED_TERM", "Zed"),
    ("ZED_ENVIRONMENT", "Zed"),
    ("VSCODE_PID", "VS Code"),
    ("VSCODE_IPC_HOOK", "VS Code"),
    ("VSCODE_CWD", "VS Code"),
];

/// Variable in which npx passes its command on to all descendants.
pub(crate) const NPX_SCRIPT: &str = "npm_lifecycle_script";

/// Name of the host that a living process is, if any.
pub(crate) fn host_of(process: &Seen) -> Option<&'static str> {
    if process.is_zombie {
        return None;
    }
    named(&process.name, &process.words)
}

/// Names of the hosts that this user runs.
pub(crate) fn running() -> BTreeSet<&'static str> {
    let uid = geteuid().as_raw();
    let is_ours = |process: &&Process| {
        let found = fs::metadata(format!("/proc/{}", process.pid));
        !process.is_zombie() && found.is_ok_and(|found| found.uid() == uid)
    };
    let all = Process::all();
    all.iter()
        .filter(is_ours)
        .filter_map(|process| named(&process.name, &process.words()))
        .collect()
}

/// Name of the host with this name of the process and this command line.
fn named(process: &str, words: &[String]) -> Option<&'static str> {
    let first = words.first().map(String::as_str).unwrap_or_default();
    let known = |name: &str| {
        let name = name.rsplit('/').next().unwrap_or(name).to_lowercase();
        let name = name.split('.').next().unwrap_or_default();
        PROGRAMS.iter().find(|(program, _)| *program == name).map(|(_, host)| *host)
    };
    // `codex mcp-server` and `claude mcp serve` are servers, not hosts.
    let serves = words.get(1).is_some_and(|word| word == "mcp" || word == "mcp-server");
    if serves && !first.ends_with("docker-mcp") {
        return None;
    }
    let script = words.get(1).filter(|word| word.contains('/') || known(word).is_some());
    let package = script.and_then(|path| path.split('/').rev().find_map(known));
    known(process).or_else(|| known(first)).or(package).or_else(|| docker_gateway(words))
}

/// Recognises `docker mcp gateway run` and the plugin process that it becomes.
fn docker_gateway(words: &[String]) -> Option<&'static str> {
    let words = words.iter().map(String::as_str);
    let tail: Vec<&str> = words.skip_while(|word| *word != "mcp").take(3).collect();
    (tail == ["mcp", "gateway", "run"]).then_some("Docker's MCP gateway")
}

/// Whether the process belongs to ostler. Processes below it are not judged here.
pub(crate) fn is_ostler(process: &Seen) -> bool {
    let first = process.words.first().map(String::as_str).unwrap_or_default();
    let program = first.rsplit('/').next().unwrap_or(first);
    let own = ["ostler", "ostler-guardian", "ostler-init", "ostler-porter"];
    own.contains(&program) || own.contains(&process.name.as_str())
}

/// The host that set a variable in the environment of a process, and the variable.
pub(crate) fn marked_by(process: &Seen) -> Option<(&'static str, &'static str)> {
    let mark = MARKS.iter().find(|(variable, _)| process.variables.contains_key(variable));
    mark.map(|(variable, host)| (*host, *variable))
}
