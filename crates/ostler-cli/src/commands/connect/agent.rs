//! Determines the agent of a client.
//!
//! `OSTLER_AGENT` names it. Otherwise the project directory does, where the client tells it to its children: sessions in one project
//! then share servers. The id of a session never names an agent: nothing could be shared, and the servers would outlive the
//! session for nothing.

use std::io;
use std::path::Path;

use ostler_gateway::Agent;
use ostler_gateway::config::Environment;

const NAME: &str = "OSTLER_AGENT";
/// Variables in which clients pass the project directory.
const PROJECTS: [&str; 3] =
    ["CLAUDE_PROJECT_DIR", "WORKSPACE_FOLDER_PATHS", "GEMINI_CLI_PROJECT_DIR"];
/// Set by clients that start their servers in the project directory.
const STARTED_IN_PROJECT: [&str; 2] = ["CLAUDE_CODE_SESSION_ID", "CLAUDECODE"];

/// The agent that the user named, or else the one of this process.
pub(crate) fn named_or_own(name: Option<&String>) -> io::Result<Option<Agent>> {
    match name {
        Some(name) => Ok(Some(Agent::named(name.clone()))),
        None => Ok(of(&Environment::of_process(), &std::env::current_dir()?)),
    }
}

/// The agent of a client with this environment and directory.
fn of(environment: &Environment, cwd: &Path) -> Option<Agent> {
    let value = |name: &str| {
        let value = environment.get(name)?.to_str()?.trim();
        (!value.is_empty()).then(|| value.to_owned())
    };
    if let Some(name) = value(NAME) {
        return Some(Agent::named(name));
    }
    let in_project = || {
        STARTED_IN_PROJECT.into_iter().find_map(value).map(|_| cwd.to_string_lossy().into_owned())
    };
    let project = PROJECTS.into_iter().find_map(value).or_else(in_project);
    project.map(|path| Agent::found(format!("project {path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent_of(variables: &[(&str, &str)]) -> Option<Agent> {
        of(&variables.iter().copied().collect(), Path::new("/work"))
    }

    #[test]
    fn a_name_comes_before_a_project() {
        assert_eq!(agent_of(&[]), None);
        assert_eq!(agent_of(&[("OSTLER_AGENT", " ")]), None);
        let project = ("CLAUDE_PROJECT_DIR", "/project");
        assert_eq!(agent_of(&[project]), Some(Agent::found("project /project")));
        assert_eq!(agent_of(&[project, ("OSTLER_AGENT", "a")]), Some(Agent::named("a")));
    }

    #[test]
    fn a_claude_session_makes_the_project_directory_the_agent() {
        let session = ("CLAUDE_CODE_SESSION_ID", "5f0c");
        assert_eq!(agent_of(&[session]), Some(Agent::found("project /work")));
        let project = ("CLAUDE_PROJECT_DIR", "/project");
        assert_eq!(agent_of(&[session, project]), Some(Agent::found("project /project")));
    }
}
