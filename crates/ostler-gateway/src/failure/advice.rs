//! Advice for a failed server: what an operator can do about it.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use ostler::Refusal;
use ostler::keeper::{Cause, Fault, NotStarted};

use super::output::{first, from_output};

/// Number of the signal KILL.
const SIGKILL: i32 = 9;

/// Known facts about a failure.
pub(super) struct Facts<'a> {
    pub(super) server: &'a str,
    pub(super) cause: &'a Cause,
    pub(super) status: Option<ExitStatus>,
    /// First line of stdout that is not a message.
    pub(super) stdout: Option<&'a str>,
    /// Last lines of stderr.
    pub(super) stderr: &'a [String],
}

/// Reasons of a lost remote server, in lower case, with the advice for each. The first match counts.
const REMOTE: [(&str, &str); 9] = [
    ("ssl_cert_file", ""),
    ("certificate", "add the certificate's authority with SSL_CERT_FILE, or correct its `url`"),
    ("connection refused", "start the server, or correct the port in its `url`"),
    ("failed to lookup address", "check the host name in its `url`, and the network"),
    ("http 404", NO_ENDPOINT),
    ("http 405", NO_ENDPOINT),
    ("is not a message", NO_ENDPOINT),
    ("credentials in its `headers`", "replace the credentials in its `headers`"),
    ("http 5", "try again later, or ask the operator of the server: the fault is on its side"),
];

const NO_ENDPOINT: &str = "correct the path in its `url`: there is no MCP endpoint";

/// What to do about a failure; `None` if the facts suggest nothing, or if the cause says it already.
pub(super) fn advice(facts: &Facts<'_>) -> Option<String> {
    match facts.cause {
        Cause::NotStarted(reason) => not_started(reason),
        Cause::Unhealthy(Fault::Lost(reason)) => lost(facts.server, reason),
        cause => {
            let output = facts.stdout.into_iter().chain(facts.stderr.iter().map(String::as_str));
            let output: Vec<&str> = output.collect();
            from_output(output.into_iter())
                .or_else(|| from_status(facts.status?, facts.stdout.is_some()))
                .or_else(|| from_fault(cause, facts.stdout.is_some()))
        }
    }
}

fn not_started(reason: &NotStarted) -> Option<String> {
    let NotStarted::Refused { refusal, .. } = reason else { return None };
    let advice = match refusal {
        Refusal::NotFound { program } => return Some(missing_program(program)),
        Refusal::NotExecutable { errno, .. } => match io::Error::from_raw_os_error(*errno).kind() {
            io::ErrorKind::PermissionDenied => "make the program executable: `chmod +x`",
            io::ErrorKind::NotFound => {
                "install the interpreter that the first line of the program names"
            }
            _ => {
                "begin the script with a line such as `#!/bin/sh`, or install the program for this machine"
            }
        },
        Refusal::WorkingDirectory { .. } => "correct its `cwd`, or create the directory",
        _ => return None,
    };
    Some(advice.to_owned())
}

/// Advice for a program that does not exist.
pub(super) fn missing_program(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    match name {
        "node" | "npx" | "npm" => "install Node, or set PATH in its `env`".to_owned(),
        "uv" | "uvx" => "install uv, or set PATH in its `env`".to_owned(),
        "python" | "python3" | "pipx" => "install Python, or set PATH in its `env`".to_owned(),
        "docker" | "podman" | "bun" | "bunx" | "deno" => {
            format!("install {}, or set PATH in its `env`", name.trim_end_matches('x'))
        }
        _ => format!("install {name}, or correct its `command`"),
    }
}

fn lost(server: &str, reason: &str) -> Option<String> {
    let reason = reason.to_lowercase();
    if reason.contains("ostler login") {
        return None;
    }
    if reason.contains("http 401") && !reason.contains("`headers`") || reason.contains("http 403") {
        return Some(format!("log in with an account that may use it: `ostler login {server}`"));
    }
    first(&REMOTE, &reason).filter(|advice| !advice.is_empty())
}

/// Advice from an exit status; `is_stray` if there was other text than MCP on stdout.
fn from_status(status: ExitStatus, is_stray: bool) -> Option<String> {
    let advice = match (status.code(), status.signal()) {
        (Some(127), _) => "install the program that its command starts, which was not found",
        (Some(126), _) => "make the program that its command starts executable",
        (Some(0), _) => {
            "check its `args`: it ended by itself, and a server has to run until its input ends"
        }
        (_, Some(SIGKILL)) => {
            "check whether it ran out of memory: the kernel or an operator killed it"
        }
        (_, Some(_)) => "report the crash to the authors of the server",
        _ if is_stray => "check its `args`: its command does not speak MCP on stdio",
        _ => return None,
    };
    Some(advice.to_owned())
}

fn from_fault(cause: &Cause, is_stray: bool) -> Option<String> {
    let Cause::Unhealthy(fault) = cause else { return None };
    let advice = match fault {
        Fault::NotReady(_) | Fault::OutputClosed | Fault::InputClosed if is_stray => {
            "check that its command speaks MCP on stdio, and have it write its log to stderr"
        }
        Fault::NotReady(_) => {
            "check that its command speaks MCP on stdio; if it only starts slowly, raise its `startTimeout`"
        }
        Fault::Handshake(reason) if reason.contains("protocol version") => {
            "install a version of the server that speaks a released version of MCP"
        }
        Fault::Handshake(_) => "check its `args` and `env`: the server refuses to work with them",
        Fault::OutputClosed | Fault::InputClosed => {
            "check that its command speaks MCP on stdio: it must keep stdin and stdout open"
        }
        Fault::LongLine(_) => {
            "check that its command speaks MCP on stdio: it must end each message with a line break"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Error numbers of Linux.
    const ENOENT: i32 = 2;
    const ENOEXEC: i32 = 8;
    const EACCES: i32 = 13;

    fn given(cause: &Cause, status: Option<i32>, stderr: &str) -> Option<String> {
        let stderr: Vec<String> = stderr.lines().map(str::to_owned).collect();
        let status = status.map(ExitStatus::from_raw);
        advice(&Facts { server: "s", cause, status, stdout: None, stderr: &stderr })
    }

    #[test]
    fn a_server_that_cannot_be_started_gets_advice() {
        let not_found = |program: &str| Refusal::NotFound { program: program.into() };
        let not_executable = |errno| Refusal::NotExecutable { program: "x".into(), errno };
        for (refusal, part) in [
            (not_found("npx"), "install Node"),
            (not_found("uvx"), "install uv"),
            (not_found("/opt/docker"), "install docker"),
            (not_found("bunx"), "install bun,"),
            (not_found("x"), "install x, or correct its `command`"),
            (not_executable(EACCES), "chmod"),
            (not_executable(ENOENT), "interpreter"),
            (not_executable(ENOEXEC), "#!/bin/sh"),
            (Refusal::WorkingDirectory { path: "/x".into(), errno: ENOENT }, "`cwd`"),
        ] {
            let reason = NotStarted::Refused { refusal: refusal.clone(), searched: None };
            let advice = given(&Cause::NotStarted(reason), None, "").unwrap_or_default();
            assert!(advice.contains(part), "{refusal}: {advice}");
        }
    }

    #[test]
    fn a_server_that_exits_gets_advice_from_its_output_first_and_then_from_its_status() {
        for (status, stderr, part) in [
            (127 << 8, "sh: 1: npx: not found", "install Node"),
            (127 << 8, "", "was not found"),
            (126 << 8, "", "executable"),
            (0, "", "until its input ends"),
            (9, "", "memory"),
            (11, "", "crash"),
        ] {
            let advice = given(&Cause::Exited, Some(status), stderr).unwrap_or_default();
            assert!(advice.contains(part), "{stderr}: {advice}");
        }
        assert_eq!(given(&Cause::Exited, Some(1 << 8), "all is required"), None);
    }

    #[test]
    fn a_remote_or_silent_server_gets_advice_that_its_cause_does_not_give() {
        let lost = |reason: &str| given(&Cause::Unhealthy(Fault::Lost(reason.into())), None, "");
        assert_eq!(lost("it requires a login: run `ostler login s`"), None);
        assert_eq!(lost("no certificate authority is known; name a file in SSL_CERT_FILE"), None);
        for (reason, part) in [
            ("it answered HTTP 403 Forbidden", "`ostler login s`"),
            ("it answered HTTP 503 Service Unavailable", "later"),
            ("h can't be reached: Connection refused (os error 111)", "start the server"),
            ("the TLS handshake failed: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            ("h can't be reached: failed to lookup address information", "host name"),
            ("its response is not a message (text/html)", "no MCP endpoint"),
        ] {
            assert!(lost(reason).unwrap_or_default().contains(part), "{reason}");
        }
        let hangs = Cause::Unhealthy(Fault::NotReady(Duration::from_secs(1)));
        assert!(given(&hangs, None, "").is_some_and(|advice| advice.contains("startTimeout")));
    }

    #[test]
    fn a_line_on_stdout_that_is_not_mcp_is_explained() {
        let given = |cause: &Cause, status: Option<i32>, stdout| {
            let status = status.map(ExitStatus::from_raw);
            let facts = Facts { server: "s", cause, status, stdout: Some(stdout), stderr: &[] };
            advice(&facts).unwrap_or_default()
        };
        let hangs = Cause::Unhealthy(Fault::NotReady(Duration::from_secs(1)));
        assert!(given(&hangs, None, "Server started").contains("write its log to stderr"));
        assert!(given(&Cause::Exited, Some(1 << 8), "usage: x").contains("check its `args`"));
        assert!(given(&Cause::Exited, Some(1 << 8), "X_KEY is not set").contains("set X_KEY"));
    }
}
