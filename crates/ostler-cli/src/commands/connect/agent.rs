//! Which agent a client belongs to, if it does not say.

use ostler_gateway::config::Environment;

/// Our own; then what clients give to all that they start, as ids of their sessions.
const IDS: [&str; 2] = ["OSTLER_AGENT", "CLAUDE_CODE_SESSION_ID"];
/// What they give to all that they start, as the directory that they work in.
const PROJECTS: [&str; 3] =
    ["CLAUDE_PROJECT_DIR", "WORKSPACE_FOLDER_PATHS", "GEMINI_CLI_PROJECT_DIR"];

/// The agent, as its variables tell.
pub(super) fn known(environment: &Environment) -> Option<String> {
    let value = |name: &&str| {
        let value = environment.get(name)?.to_str()?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    let project = || PROJECTS.iter().find_map(value).map(|path| format!("project {path}"));
    IDS.iter().find_map(value).or_else(project)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plainest_word_counts() {
        let known = |variables: &[(&str, &str)]| known(&variables.iter().copied().collect());
        assert_eq!(known(&[]), None);
        assert_eq!(known(&[("OSTLER_AGENT", " ")]), None);
        let project = ("CLAUDE_PROJECT_DIR", "/work");
        assert_eq!(known(&[project]).as_deref(), Some("project /work"));
        let session = ("CLAUDE_CODE_SESSION_ID", "s");
        assert_eq!(known(&[project, session]).as_deref(), Some("s"));
        assert_eq!(known(&[session, ("OSTLER_AGENT", "a")]).as_deref(), Some("a"));
    }
}
