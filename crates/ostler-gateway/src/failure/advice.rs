//! Advice for a failed server: what an operator can do about it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use ostler::keeper::{Cause, Fault};

/// Number of the signal KILL.
const SIGKILL: i32 = 9;

/// Known facts about a failure.
pub(super) struct Facts<'a> {
    pub(super) server: &'a str,
    pub(super) cause: &'a Cause,
    pub(super) status: Option<ExitStatus>,
    /// Last lines of stderr.
    pub(super) stderr: &'a [String],
}

/// Texts on stderr, in lower case, with the advice for each. The first match counts.
const OUTPUT: [(&str, &str); 16] = [
    (
        "npm error code e404",
        "check the package name in its `args`: the npm registry has no such package",
    ),
    (
        "npm err! code e404",
        "check the package name in its `args`: the npm registry has no such package",
    ),
    ("ebadengine", "install the Node version that the package requires"),
    ("err_require_esm", "install the Node version that the package requires"),
    ("no module named", "install the missing Python module, or start the server with `uvx`"),
    ("cannot find module", "install the missing Node module, or correct the path in its `args`"),
    ("eaddrinuse", "end the program that uses the port, or configure another port"),
    ("address already in use", "end the program that uses the port, or configure another port"),
    ("cannot connect to the docker daemon", "start the container engine"),
    ("is the docker daemon running", "start the container engine"),
    ("pull access denied", "check the name of the image, or log in to its registry"),
    ("manifest unknown", "check the name and the tag of the image"),
    ("no such image", "pull the image first"),
    ("enotfound", "check the host name and the network"),
    ("econnrefused", "start the service that it connects to, or correct its address"),
    ("permission denied", "allow the user of the gateway to use the file named on stderr"),
];

/// Reasons of a lost remote server, in lower case, with the advice for each. The first match counts.
const REMOTE: [(&str, &str); 7] = [
    ("certificate", "add the certificate's authority with `SSL_CERT_FILE`, or correct its `url`"),
    ("connection refused", "start the server, or correct the port in its `url`"),
    ("failed to lookup address", "check the host name in its `url`, and the network"),
    ("http 404", "check the path in its `url`: it is not an MCP endpoint"),
    ("http 405", "check the path in its `url`: it is not an MCP endpoint"),
    ("is not a message", "check the path in its `url`: it is not an MCP endpoint"),
    ("credentials in its `headers`", "replace the credentials in its `headers`"),
];

/// What to do about a failure; `None` if the facts suggest nothing, or if the cause says it already.
pub(super) fn advice(facts: &Facts<'_>) -> Option<String> {
    match facts.cause {
        Cause::NotStarted(reason) => not_started(reason),
        Cause::Unhealthy(Fault::Lost(reason)) => lost(facts.server, reason),
        cause => from_output(facts.stderr)
            .or_else(|| facts.status.and_then(from_status))
            .or_else(|| from_fault(cause)),
    }
}

fn not_started(reason: &str) -> Option<String> {
    if let Some((program, _)) = reason.split_once(": command not found") {
        return Some(missing(program));
    }
    let is = |text: &str| reason.contains(text);
    let advice = match () {
        () if is("Permission denied") => "make the program executable: `chmod +x`",
        () if is("Exec format error") => {
            "begin the script with a line such as `#!/bin/sh`, or install the program for this machine"
        }
        () if is("working directory") => "correct its `cwd`",
        () => return None,
    };
    Some(advice.to_owned())
}

/// Advice for a program that does not exist.
fn missing(program: &str) -> String {
    let name = program.rsplit('/').next().unwrap_or(program);
    match name {
        "node" | "npx" | "npm" => "install Node, or set PATH in its `env`".to_owned(),
        "uv" | "uvx" => "install uv, or set PATH in its `env`".to_owned(),
        "python" | "python3" | "pipx" => "install Python, or set PATH in its `env`".to_owned(),
        "docker" | "podman" => format!("install {name}, or set PATH in its `env`"),
        _ => "install the program, or correct its `command`".to_owned(),
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
    first(&REMOTE, &reason)
}

fn from_output(stderr: &[String]) -> Option<String> {
    stderr
        .iter()
        .rev()
        .find_map(|line| missing_variable(line).or_else(|| first(&OUTPUT, &line.to_lowercase())))
}

fn first(table: &[(&str, &str)], text: &str) -> Option<String> {
    let found = table.iter().find(|(part, _)| text.contains(part));
    found.map(|(_, advice)| (*advice).to_owned())
}

/// Advice for a line that names an environment variable as missing.
fn missing_variable(line: &str) -> Option<String> {
    const TELLTALES: [&str; 6] =
        ["required", "missing", "not set", "must be set", "undefined", "keyerror"];
    let lower = line.to_lowercase();
    if !TELLTALES.iter().any(|part| lower.contains(part)) {
        return None;
    }
    let is_part = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let name = words.find(|word| {
        word.contains('_')
            && word.starts_with(|c: char| c.is_ascii_uppercase())
            && !word.starts_with("ERR_")
            && word.chars().all(is_part)
    })?;
    Some(format!("set {name} in its `env`"))
}

fn from_status(status: ExitStatus) -> Option<String> {
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
        _ => return None,
    };
    Some(advice.to_owned())
}

fn from_fault(cause: &Cause) -> Option<String> {
    let Cause::Unhealthy(fault) = cause else { return None };
    let advice = match fault {
        Fault::NotReady(_) => {
            "raise its `startTimeout` if it only starts slowly, or check that its command speaks MCP on stdio"
        }
        Fault::Handshake(_) | Fault::LongLine(_) => {
            "check that its command speaks MCP on stdio, and writes its log to stderr"
        }
        _ => return None,
    };
    Some(advice.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn given(cause: &Cause, status: Option<i32>, stderr: &str) -> Option<String> {
        let stderr: Vec<String> = stderr.lines().map(str::to_owned).collect();
        let status = status.map(ExitStatus::from_raw);
        advice(&Facts { server: "s", cause, status, stderr: &stderr })
    }

    #[test]
    fn a_server_that_cannot_be_started_gets_advice() {
        for (reason, part) in [
            ("npx: command not found: /bin", "install Node"),
            ("uvx: command not found", "install uv"),
            ("/opt/docker: command not found", "install docker"),
            ("x: command not found", "correct its `command`"),
            ("x: cannot be executed: Permission denied", "chmod"),
            ("x: cannot be executed: Exec format error", "#!/bin/sh"),
        ] {
            let advice = given(&Cause::NotStarted(reason.into()), None, "").unwrap_or_default();
            assert!(advice.contains(part), "{reason}: {advice}");
        }
    }

    #[test]
    fn a_server_that_exits_gets_advice_from_its_output_first_and_then_from_its_status() {
        for (status, stderr, part) in [
            (1 << 8, "npm error code E404\nnpm error 404 x", "package name"),
            (1 << 8, "ModuleNotFoundError: No module named 'mcp'", "Python module"),
            (1 << 8, "Error: GITHUB_TOKEN is required", "set GITHUB_TOKEN in its `env`"),
            (1 << 8, "KeyError: 'API_KEY'", "set API_KEY in its `env`"),
            (1 << 8, "listen EADDRINUSE: address already in use :::80", "another port"),
            (125 << 8, "Cannot connect to the Docker daemon at x", "start the container engine"),
            (1 << 8, "npm warn EBADENGINE Unsupported engine", "Node version"),
            (127 << 8, "sh: 1: x: not found", "was not found"),
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
        for (reason, part) in [
            ("it answered HTTP 403 Forbidden", "`ostler login s`"),
            ("h can't be reached: Connection refused (os error 111)", "start the server"),
            ("the TLS handshake failed: invalid peer certificate: UnknownIssuer", "SSL_CERT_FILE"),
            ("h can't be reached: failed to lookup address information", "host name"),
            ("its response is not a message (text/html)", "not an MCP endpoint"),
        ] {
            assert!(lost(reason).unwrap_or_default().contains(part), "{reason}");
        }
        let hangs = Cause::Unhealthy(Fault::NotReady(Duration::from_secs(1)));
        assert!(given(&hangs, None, "").is_some_and(|advice| advice.contains("startTimeout")));
    }
}
