//! Advice from the output of a failed server.

use super::advice::missing_program;

/// Texts of output, in lower case, with the advice for each. The first match counts.
const OUTPUT: &[(&str, &str)] = &[
    ("npm error code e404", NO_PACKAGE),
    ("npm err! code e404", NO_PACKAGE),
    ("ebadengine", NODE_VERSION),
    ("err_require_esm", NODE_VERSION),
    ("err_unknown_builtin_module", NODE_VERSION),
    ("fetch is not defined", NODE_VERSION),
    ("requires node", NODE_VERSION),
    ("unexpected token '?", NODE_VERSION),
    ("was not found in the package registry", NO_PYTHON_PACKAGE),
    ("no interpreter found for python", "install the Python version that the package requires"),
    ("no module named", "install the missing Python module, or start the server with `uvx`"),
    ("cannot find module", "install the missing Node module, or correct the path in its `args`"),
    ("eaddrinuse", PORT),
    ("address already in use", PORT),
    ("port is already allocated", PORT),
    ("cannot connect to the docker daemon", "start the container engine"),
    ("is the docker daemon running", "start the container engine"),
    ("error during connect", "start the container engine"),
    ("pull access denied", IMAGE),
    ("initializing source docker://", IMAGE),
    ("requested access to the resource is denied", IMAGE),
    ("manifest unknown", IMAGE),
    ("repository does not exist", IMAGE),
    ("no such image", "pull the image, or correct its name in its `args`"),
    ("certificate_verify_failed", CERTIFICATE),
    ("self-signed certificate", CERTIFICATE),
    ("unable to get local issuer certificate", CERTIFICATE),
    ("enotfound", "check the host name and the network"),
    ("econnrefused", "start the service that it connects to, or correct its address"),
    ("401 unauthorized", CREDENTIALS),
    ("status 401", CREDENTIALS),
    ("invalid api key", CREDENTIALS),
    ("out of memory", "raise the memory limit in its `limits`, or its own"),
    ("permission denied", "allow the user of the gateway to use the file named on stderr"),
];

const NO_PACKAGE: &str =
    "check the package name in its `args`: the npm registry has no such package";
const NO_PYTHON_PACKAGE: &str =
    "check the package name in its `args`: the Python package index has no such package";
const NODE_VERSION: &str = "install the Node version that the package requires";
const PORT: &str = "end the program that uses the port, or configure another port";
const IMAGE: &str = "check the name and the tag of the image, or log in to its registry";
const CERTIFICATE: &str = "name the file of the certificate's authority in its `env`: SSL_CERT_FILE, or NODE_EXTRA_CA_CERTS for Node";
const CREDENTIALS: &str = "replace the credentials in its `env` or `headers`";

/// Parts of lines that name a missing environment variable, in lower case.
const TELLTALES: [&str; 8] = [
    "required",
    "missing",
    "not set",
    "must be set",
    "please set",
    "undefined",
    "keyerror",
    "environment variable",
];

/// Advice from lines of output; the last line that explains something counts.
pub(super) fn from_output<'a>(lines: impl DoubleEndedIterator<Item = &'a str>) -> Option<String> {
    lines.rev().find_map(|line| {
        missing_variable(line)
            .or_else(|| not_found(line).map(missing_program))
            .or_else(|| first(OUTPUT, &line.to_lowercase()))
    })
}

/// The advice for the first text of the table that occurs.
pub(super) fn first(table: &[(&str, &str)], text: &str) -> Option<String> {
    let found = table.iter().find(|(part, _)| text.contains(part));
    found.map(|(_, advice)| (*advice).to_owned())
}

/// Advice for a line that names an environment variable as missing.
fn missing_variable(line: &str) -> Option<String> {
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

/// The program that a shell or `env` did not find: `sh: 1: node: not found`, `env: 'node': No such file or directory`.
fn not_found(line: &str) -> Option<&str> {
    let line = line.trim_end();
    let of_shell =
        line.strip_suffix(": command not found").or_else(|| line.strip_suffix(": not found"));
    let of_env = || line.strip_suffix(": No such file or directory");
    let (before, program) = of_shell.or_else(of_env)?.rsplit_once(": ")?;
    if of_shell.is_none() && before.rsplit('/').next() != Some("env") {
        return None;
    }
    let program = program.trim_matches(|c| matches!(c, '\'' | '‘' | '’' | '"'));
    let is_name = !program.is_empty() && program.chars().all(|c| c.is_ascii_graphic());
    is_name.then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_that_a_shell_did_not_find_is_named() {
        for (line, expected) in [
            ("sh: 1: uvx: not found", Some("uvx")),
            ("bash: line 1: npx: command not found", Some("npx")),
            ("/usr/bin/env: ‘node’: No such file or directory", Some("node")),
            ("env: 'python3': No such file or directory", Some("python3")),
            ("cat: /etc/x: No such file or directory", None),
            ("page: not found", None),
            ("not found", None),
        ] {
            assert_eq!(not_found(line), expected, "{line}");
        }
    }

    #[test]
    fn a_missing_variable_is_named() {
        for (line, expected) in [
            ("Error: GITHUB_TOKEN is required", Some("GITHUB_TOKEN")),
            ("KeyError: 'API_KEY'", Some("API_KEY")),
            ("Please set the SLACK_BOT_TOKEN environment variable", Some("SLACK_BOT_TOKEN")),
            ("all is required", None),
            ("ERR_MODULE is missing", None),
        ] {
            let expected = expected.map(|name| format!("set {name} in its `env`"));
            assert_eq!(missing_variable(line), expected, "{line}");
        }
    }

    #[test]
    fn the_last_line_that_explains_something_counts() {
        let advice = |text: &str| from_output(text.lines()).unwrap_or_default();
        for (text, part) in [
            ("npm error code E404\nnpm error 404 x", "package name"),
            ("ModuleNotFoundError: No module named 'mcp'", "Python module"),
            ("listen EADDRINUSE: address already in use :::80", "another port"),
            ("Cannot connect to the Docker daemon at x", "start the container engine"),
            ("docker: Error response from daemon: pull access denied for x", "the image"),
            ("npm warn EBADENGINE Unsupported engine", "Node version"),
            ("SyntaxError: Unexpected token '??='\n    at x\nNode.js v14.0.0", "Node version"),
            ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "SSL_CERT_FILE"),
            ("request failed: 401 Unauthorized", "credentials"),
            ("  code: 'ERR_UNKNOWN_BUILTIN_MODULE'\n}\n\nNode.js v20.20.2", "Node version"),
            ("  cause: Because x was not found in the package registry", "Python package index"),
            ("docker: error during connect: Head \"http://x/_ping\"", "container engine"),
            ("A_KEY is missing\nsh: 1: node: not found", "install Node"),
        ] {
            assert!(advice(text).contains(part), "{text}: {}", advice(text));
        }
        assert_eq!(from_output("all is well\n".lines()), None);
    }
}
