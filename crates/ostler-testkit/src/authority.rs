//! A certificate authority for one test.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A directory with an authority and the certificates it signed for this machine.
#[derive(Debug)]
pub struct Authority(TempDir);

impl Authority {
    /// Creates a new authority.
    pub fn new() -> Self {
        let authority = Self(tempfile::tempdir().expect("a directory"));
        let new = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=authority";
        authority.openssl(&format!("{new} -keyout ca.key -out ca.pem"));
        authority
    }

    /// Signs a certificate: `NAME.pem`, with its key in `NAME.key`.
    pub fn sign(&self, name: &str) {
        let new = "req -newkey rsa:2048 -nodes -subj";
        self.openssl(&format!("{new} /CN={name} -keyout {name}.key -out {name}.csr"));
        let extensions = "subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n";
        std::fs::write(self.file("extensions"), extensions).expect("a file");
        let sign = "x509 -req -days 2 -CA ca.pem -CAkey ca.key -CAcreateserial";
        self.openssl(&format!("{sign} -in {name}.csr -out {name}.pem -extfile extensions"));
    }

    /// Path of a file; `ca.pem` is the certificate of the authority.
    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    fn openssl(&self, line: &str) {
        let mut command = Command::new("openssl");
        let output = command.args(line.split(' ')).current_dir(self.path()).output();
        let output = output.expect("openssl");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}
