//! Published servers that keep state between calls: a browser page, a working directory, variables.
//!
//! Two sessions that shared such a server would interfere, so each gets an instance of its own unless the configuration
//! sets `share`.

use super::entry::Launch;

/// Names of packages and images.
const PACKAGES: &[&str] = &[
    // Browsers
    "@playwright/mcp",
    "mcr.microsoft.com/playwright/mcp",
    "mcp/playwright",
    "@executeautomation/playwright-mcp-server",
    "chrome-devtools-mcp",
    "@modelcontextprotocol/server-puppeteer",
    "mcp/puppeteer",
    "puppeteer-mcp-server",
    "@browsermcp/mcp",
    "@browserbasehq/mcp-server-browserbase",
    "@agent-infra/mcp-server-browser",
    "browser-use",
    "selenium-mcp-server",
    // Shells
    "@wonderwhy-er/desktop-commander",
    "mcp-server-commands",
    "mcp-server-shell",
    "mcp-shell-server",
    // REPLs
    "jupyter-mcp-server",
    "mcp-python-repl",
    "mcp-run-python",
    "@pydantic/mcp-run-python",
];

/// The stateful package or image that a command runs, if any.
pub(super) fn package(launch: &Launch) -> Option<&'static str> {
    let words = std::iter::once(&launch.command).chain(&launch.args);
    words
        .map(ToString::to_string)
        .find_map(|word| PACKAGES.iter().find(|package| is_of(&word, package)).copied())
}

/// Whether a word of a command line names this package: verbatim, with a version, or as a program in some directory.
fn is_of(word: &str, package: &str) -> bool {
    let name = word.strip_prefix(package);
    let is_version = |rest: &str| rest.is_empty() || rest.starts_with(['@', ':', '=', '[']);
    let is_program = word.rsplit('/').next() == Some(package);
    name.is_some_and(is_version) || is_program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_is_recognised_with_its_version_and_as_a_program() {
        for word in ["@playwright/mcp", "@playwright/mcp@latest", "@playwright/mcp@0.0.83"] {
            assert!(is_of(word, "@playwright/mcp"), "{word}");
        }
        assert!(is_of("mcp/playwright:latest", "mcp/playwright"));
        assert!(is_of("browser-use[cli]", "browser-use"));
        assert!(is_of("mcp-server-shell==0.1.0", "mcp-server-shell"));
        assert!(is_of("./node_modules/.bin/chrome-devtools-mcp", "chrome-devtools-mcp"));
        for word in ["@playwright/mcp-other", "my-browser-use", "browser-user", "--browser-use"] {
            assert!(!is_of(word, "@playwright/mcp") && !is_of(word, "browser-use"), "{word}");
        }
    }
}
