//! Recognises MCP servers and wrappers by their command lines.
//!
//! A process counts as an MCP server by name only if the word `mcp` is a whole part of the name of its program, its
//! script, its Python module, its container image, or the package that a launcher runs. Arguments do not count: an
//! editor that has `mcp.json` open is no server.

/// Programs that run another program: their first argument that is no option.
const LAUNCHERS: &[&str] = &[
    "npx", "npm", "pnpm", "yarn", "bunx", "uvx", "uv", "pipx", "env", "nice", "timeout", "setsid",
    "stdbuf", "xargs", "cmd",
];
/// Programs that run a script.
const INTERPRETERS: &[&str] = &[
    "node", "nodejs", "bun", "deno", "tsx", "ts-node", "python", "python3", "ruby", "java",
    "dotnet", "php",
];
const SHELLS: &[&str] = &["sh", "bash", "dash", "zsh", "ash"];
/// Subcommands of launchers that precede the package.
const SUBCOMMANDS: &[&str] = &["exec", "x", "run", "dlx", "tool", "mcp-run"];
/// Words after the subcommand `mcp` with which a program acts as a server.
const SERVING: &[&str] = &["serve", "server", "start", "run", "stdio"];
/// Options of launchers and interpreters that take a value.
const VALUED: &[&str] = &[
    "--from",
    "--with",
    "--python",
    "-p",
    "--package",
    "--directory",
    "--project",
    "-r",
    "--require",
    "--import",
    "--loader",
    "-C",
    "--prefix",
    "-n",
    "-u",
    "-k",
    "-s",
    "--experimental-loader",
    "-W",
    "-X",
];

/// Readable name of the MCP server that a command line runs; `None` if it runs none.
pub(crate) fn mcp_server(words: &[String]) -> Option<String> {
    let parts = parts(words);
    parts.into_iter().find(|part| names_mcp(part)).map(|part| short(&part))
}

/// Whether the process only wraps another one: a launcher, a shell with a script, or an interpreter that runs a
/// launcher.
pub(crate) fn is_wrapper(words: &[String]) -> bool {
    let Some(program) = words.first().map(|word| program_name(word)) else { return false };
    // npm and npx replace their first word with their whole command line.
    let program = program.split(' ').next().unwrap_or_default();
    if LAUNCHERS.contains(&program) || program == "docker" || program == "podman" {
        return true;
    }
    if SHELLS.contains(&program) {
        return words.get(1).is_some_and(|word| word.starts_with('-') && word.contains('c'));
    }
    let script = INTERPRETERS.contains(&program).then(|| script(words)).flatten();
    script.is_some_and(|script| LAUNCHERS.contains(&stem(&script)))
}

/// Words of a command line that may name the program it runs.
fn parts(words: &[String]) -> Vec<String> {
    let words = untitled(words);
    let Some(program) = words.first() else { return Vec::new() };
    let (path, name) = (program.clone(), program_name(program).to_owned());
    if SHELLS.contains(&name.as_str()) {
        return shell(&words);
    }
    if name == "docker" || name == "podman" {
        return image(&words).into_iter().collect();
    }
    let mut parts = vec![path];
    if LAUNCHERS.contains(&name.as_str()) || INTERPRETERS.contains(&name.as_str()) {
        if let Some(inner) = inner(&words) {
            parts.extend(self::parts(&inner));
        }
    } else if serves(&words) {
        parts.push(format!("{name}-mcp"));
    }
    parts
}

/// Accepts `codex mcp-server`, `claude mcp serve` and `gopls mcp`, but not `claude mcp list`.
fn serves(words: &[String]) -> bool {
    let Some(subcommand) = words.get(1) else { return false };
    let what = words.get(2).map(String::as_str).unwrap_or_default();
    let is_server = what.is_empty() || what.starts_with('-') || SERVING.contains(&what);
    subcommand == "mcp-server" || (subcommand == "mcp" && is_server)
}

/// Splits the title of a process that replaced its command line, as npm does: the first word holds all words.
fn untitled(words: &[String]) -> Vec<String> {
    match words {
        [title, rest @ ..] if title.contains(' ') && rest.iter().all(String::is_empty) => {
            title.split(' ').map(str::to_owned).collect()
        }
        words => words.to_vec(),
    }
}

/// Words of the command that a launcher or interpreter runs.
fn inner(words: &[String]) -> Option<Vec<String>> {
    let mut rest = words.get(1..)?;
    loop {
        let word = rest.first()?;
        if word == "-m" {
            return Some(rest.get(1..)?.to_vec());
        }
        if VALUED.contains(&word.as_str()) {
            rest = rest.get(2..)?;
        } else if word.starts_with('-')
            || word.contains('=')
            || SUBCOMMANDS.contains(&word.as_str())
        {
            rest = rest.get(1..)?;
        } else {
            return Some(rest.to_vec());
        }
    }
}

/// Script of an interpreter.
fn script(words: &[String]) -> Option<String> {
    inner(words)?.into_iter().next()
}

/// Words of the first command in a shell's `-c` script.
fn shell(words: &[String]) -> Vec<String> {
    let at = words.iter().position(|word| word.starts_with('-') && word.contains('c'));
    let script = at.and_then(|at| words.get(at + 1)).or_else(|| words.get(1));
    let Some(script) = script else { return Vec::new() };
    let script = script.trim_start_matches("exec ");
    let command = script.split(['&', ';', '|', '\n']).next().unwrap_or_default();
    let command: Vec<String> =
        command.split_whitespace().map(|word| word.trim_matches(['"', '\'']).to_owned()).collect();
    // A shell inside a shell is not followed.
    if command.first().is_some_and(|word| SHELLS.contains(&program_name(word))) {
        Vec::new()
    } else {
        parts(&command)
    }
}

/// Image of `docker run`.
fn image(words: &[String]) -> Option<String> {
    let at = words.iter().position(|word| word == "run")?;
    let is_named =
        |word: &&String| !word.starts_with('-') && !word.contains('=') && names_mcp(word);
    words.get(at + 1..)?.iter().find(is_named).cloned()
}

/// Whether a component of a path or package name contains `mcp` as a whole word.
fn names_mcp(text: &str) -> bool {
    let text = text.split("://").last().unwrap_or(text);
    let parts: Vec<&str> = text.split('/').filter(|part| !part.is_empty()).collect();
    // Only packages and the last three components count: names of a user's directories say nothing about a program.
    let from = parts.iter().rposition(|part| *part == "node_modules" || *part == "site-packages");
    let from = from.map_or(parts.len().saturating_sub(3), |at| at + 1);
    parts[from..].iter().any(|part| is_mcp_word(part))
}

fn is_mcp_word(part: &str) -> bool {
    let name =
        part.rsplit_once('@').map_or(part, |(name, _)| if name.is_empty() { part } else { name });
    let name = name.to_lowercase();
    name.contains("modelcontextprotocol")
        || name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| word == "mcp")
}

/// Readable name: the package or program without directories and version.
fn short(part: &str) -> String {
    let parts: Vec<&str> = part.split('/').filter(|part| !part.is_empty()).collect();
    let modules = parts.iter().rposition(|part| *part == "node_modules").map(|at| at + 1);
    let named = modules.and_then(|at| {
        let first = parts.get(at)?;
        let second = parts.get(at + 1);
        match (*first, second) {
            (".bin", Some(name)) => Some((*name).to_owned()),
            (scope, Some(name)) if scope.starts_with('@') => Some(format!("{scope}/{name}")),
            (name, _) => Some(name.to_owned()),
        }
    });
    let whole = || if part.starts_with('@') { part.to_owned() } else { best_of(&parts) };
    let name = named.unwrap_or_else(whole);
    match name.rsplit_once('@') {
        Some((before, _)) if !before.is_empty() => before.to_owned(),
        _ => name,
    }
}

/// The last component that names the server; `mcp/index.js` is named after its directory.
fn best_of(parts: &[&str]) -> String {
    let named = parts.iter().rev().find(|part| is_mcp_word(part)).or(parts.last());
    named.copied().unwrap_or_default().to_owned()
}

fn program_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

/// File name of a script without its extension.
fn stem(path: &str) -> &str {
    let name = program_name(path);
    let name = name.split('.').next().unwrap_or(name);
    name.strip_suffix("-cli").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split('|').map(str::to_owned).collect()
    }

    #[test]
    fn a_server_is_named_after_its_package_or_program() {
        for (line, name) in [
            (
                "npx|-y|@modelcontextprotocol/server-everything@2025.11.25",
                "@modelcontextprotocol/server-everything",
            ),
            ("npm exec @playwright/mcp@latest", "@playwright/mcp"),
            ("npm exec x-mcp --helper|||", "x-mcp"),
            ("node|/usr/bin/npx|-y|@upstash/context7-mcp", "@upstash/context7-mcp"),
            (
                "node|/home/u/.npm/_npx/0a1b/node_modules/.bin/mcp-server-filesystem|/tmp",
                "mcp-server-filesystem",
            ),
            ("/usr/bin/node|/x/node_modules/@playwright/mcp/cli.js", "@playwright/mcp"),
            ("sh|-c|\"chrome-devtools-mcp\" --headless", "chrome-devtools-mcp"),
            ("uvx|--from|mcp-server-time|mcp-server-time", "mcp-server-time"),
            (
                "/u/.cache/uv/archive-v0/Q/bin/python|/u/.cache/uv/archive-v0/Q/bin/mcp-server-time",
                "mcp-server-time",
            ),
            ("python3|-m|mcp_server_git|--repository|/x", "mcp_server_git"),
            ("docker|run|-i|--rm|-e|TOKEN|ghcr.io/github/github-mcp-server", "github-mcp-server"),
            ("/opt/github-mcp-server|stdio", "github-mcp-server"),
            ("codex|mcp-server", "codex-mcp"),
            ("node|/src/mcp-server/dist/index.js", "mcp-server"),
            ("/usr/bin/env|A=b|lark-mcp|mcp", "lark-mcp"),
        ] {
            assert_eq!(mcp_server(&words(line)).as_deref(), Some(name), "{line}");
        }
    }

    #[test]
    fn programs_that_only_mention_mcp_are_no_servers() {
        for line in [
            "node|/home/me/shop/server.js",
            "vim|/home/me/.cursor/mcp.json",
            "node|/x/typescript-language-server/lib/cli.mjs|--stdio",
            "rust-analyzer",
            "grep|-r|mcp-server|/src",
            "node|/home/me/mcp/shop/back/end/server.js",
            "python3|train.py|--name=mcp",
            "docker|run|-d|nginx|--label|x",
            "bash",
            "less|mcp-server.log",
            "tail|-f|/var/log/mcp/server.log",
            "claude|mcp|list",
        ] {
            assert_eq!(mcp_server(&words(line)), None, "{line}");
        }
        assert_eq!(mcp_server(&[]), None);
    }

    #[test]
    fn wrappers_are_told_from_programs() {
        for line in [
            "npx|-y|x",
            "npm exec x",
            "node|/usr/bin/npx|x",
            "node|/usr/lib/node_modules/npm/bin/npx-cli.js|x",
            "sh|-c|x",
            "bash|-lc|x",
            "uv|tool|run|x",
            "docker|run|-i|x",
        ] {
            assert!(is_wrapper(&words(line)), "{line}");
        }
        for line in ["bash", "node|server.js", "python3|agent.py", "tmux", "sshd", ""] {
            assert!(!is_wrapper(&words(line)), "{line}");
        }
    }
}
