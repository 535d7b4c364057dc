//! The unit files.

use std::net::SocketAddr;
use std::path::Path;

/// First line of every unit that ostler writes. Other units are never replaced or removed.
pub(super) const MARK: &str =
    "# Written by `ostler service install`; removed by `ostler service uninstall`.";
pub(super) const SERVICE: &str = "ostler.service";
pub(super) const SOCKET: &str = "ostler.socket";

/// What the units run.
#[derive(Debug)]
pub(super) struct Units<'a> {
    pub(super) program: &'a Path,
    pub(super) configuration: Option<&'a Path>,
    pub(super) socket: &'a Path,
    pub(super) listen: Option<SocketAddr>,
    /// Where the gateway finds the programs of servers. The service manager's own path is shorter than a shell's.
    pub(super) search_path: &'a str,
}

/// A path or a value that no unit can contain.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a unit cannot contain '{}': it has a line break or is not UTF-8", .0.escape_debug())]
pub(crate) struct Unwritable(String);

impl Units<'_> {
    /// Starts the gateway when a client connects.
    pub(super) fn socket(&self) -> Result<String, Unwritable> {
        let path = plain(self.socket)?.replace('%', "%%");
        Ok(format!(
            "{MARK}\n\
             [Unit]\n\
             Description=Clients of ostler\n\
             \n\
             [Socket]\n\
             ListenStream={path}\n\
             SocketMode=0600\n\
             DirectoryMode=0700\n\
             \n\
             [Install]\n\
             WantedBy=sockets.target\n"
        ))
    }

    /// Runs the gateway.
    pub(super) fn service(&self) -> Result<String, Unwritable> {
        let program = word(plain(self.program)?)?;
        let mut serve = format!("{program} serve");
        if let Some(path) = self.configuration {
            serve = format!("{serve} --config {}", word(plain(path)?)?);
        }
        if let Some(address) = self.listen {
            serve = format!("{serve} --listen {address}");
        }
        let search_path = word(&format!("PATH={}", self.search_path))?;
        Ok(format!(
            "{MARK}\n\
             [Unit]\n\
             Description=ostler, the gateway of MCP servers\n\
             Documentation=man:ostler(1)\n\
             Requires={SOCKET}\n\
             After={SOCKET}\n\
             \n\
             [Service]\n\
             Type=notify\n\
             Environment={search_path}\n\
             ExecStart={serve}\n\
             # Ends what a killed gateway could not.\n\
             ExecStopPost={program} reap --yes\n\
             # The gateway ends its servers itself, in cgroups of its own.\n\
             Delegate=yes\n\
             KillMode=mixed\n\
             TimeoutStopSec=20\n\
             Restart=on-failure\n\
             \n\
             [Install]\n\
             WantedBy=default.target\n\
             Also={SOCKET}\n"
        ))
    }
}

fn plain(path: &Path) -> Result<&str, Unwritable> {
    let text = path.to_str().ok_or_else(|| Unwritable(path.to_string_lossy().into_owned()))?;
    if text.contains(['\n', '\r']) { Err(Unwritable(text.to_owned())) } else { Ok(text) }
}

/// One word of a command or an assignment, in the manager's quotes.
fn word(text: &str) -> Result<String, Unwritable> {
    if text.contains(['\n', '\r']) {
        return Err(Unwritable(text.to_owned()));
    }
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            // Both begin what the manager replaces.
            '%' | '$' => quoted.extend([letter, letter]),
            _ => quoted.push(letter),
        }
    }
    quoted.push('"');
    Ok(quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(program: &Path) -> Units<'_> {
        Units {
            program,
            configuration: Some(Path::new("/home/u/my files/ostler.json")),
            socket: Path::new("/run/user/1/ostler/gateway-50%.sock"),
            listen: None,
            search_path: "/usr/bin:/bin",
        }
    }

    #[test]
    fn paths_stay_one_word_each() {
        let text = units(Path::new(r#"/opt/a "b" $HOME/100%\ostler"#)).service().unwrap();
        let line = text.lines().find(|line| line.starts_with("ExecStart=")).unwrap();
        assert_eq!(
            line,
            r#"ExecStart="/opt/a \"b\" $$HOME/100%%\\ostler" serve --config "/home/u/my files/ostler.json""#
        );
        assert!(text.contains("Environment=\"PATH=/usr/bin:/bin\"\n"));
        let socket = units(Path::new("/x")).socket().unwrap();
        assert!(socket.contains("ListenStream=/run/user/1/ostler/gateway-50%%.sock\n"));
    }

    #[test]
    fn a_line_break_adds_no_line_to_a_unit() {
        let path = Path::new("/opt/x\nExecStartPre=/bin/evil");
        assert_eq!(units(path).service(), Err(Unwritable(path.display().to_string())));
        let hostile = Units { search_path: "/bin\nUser=root", ..units(Path::new("/x")) };
        assert!(hostile.service().is_err());
    }
}
