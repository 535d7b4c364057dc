//! Fingerprint of a server: a hash of everything that makes two runs interchangeable.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::spec::ServerSpec;

/// Hash of everything that makes two runs of a server interchangeable: 128 bits of SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 16]);

impl Fingerprint {
    /// Hashes a command with its environment, and `credentials` that the server gets in another way.
    pub fn of(spec: &ServerSpec, credentials: &[u8]) -> Self {
        let mut hash = Sha256::new();
        // Each part is preceded by its length, so that different lists never hash the same bytes.
        let mut part = |bytes: &[u8]| {
            hash.update((bytes.len() as u64).to_le_bytes());
            hash.update(bytes);
        };
        part(spec.program.as_encoded_bytes());
        part(&(spec.args.len() as u64).to_le_bytes());
        spec.args.iter().for_each(|argument| part(argument.as_encoded_bytes()));
        let mut env: Vec<_> = spec.env.iter().collect();
        env.sort();
        part(&(env.len() as u64).to_le_bytes());
        for (name, value) in env {
            part(name.as_encoded_bytes());
            part(value.as_encoded_bytes());
        }
        let cwd = spec.cwd.as_ref();
        part(cwd.map_or(b"".as_slice(), |cwd| cwd.as_os_str().as_encoded_bytes()));
        part(credentials);
        Self::first_half(&hash.finalize())
    }
}

impl Fingerprint {
    /// Hashes a text, for file names.
    pub fn of_text(text: &str) -> Self {
        Self::first_half(&Sha256::digest(text))
    }

    fn first_half(digest: &[u8]) -> Self {
        let mut first = [0; 16];
        first.copy_from_slice(&digest[..16]);
        Self(first)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(args: &[&str], env: &[(&str, &str)]) -> ServerSpec {
        ServerSpec {
            name: "any".into(),
            program: "server".into(),
            args: args.iter().map(Into::into).collect(),
            env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: None,
        }
    }

    #[test]
    fn two_users_credentials_never_meet() {
        let of =
            |spec: &ServerSpec, credentials: &str| Fingerprint::of(spec, credentials.as_bytes());
        let base = spec(&["a", "b"], &[("TOKEN", "1"), ("X", "2")]);
        let same = spec(&["a", "b"], &[("X", "2"), ("TOKEN", "1")]);
        assert_eq!(of(&base, ""), of(&same, ""));
        let others = [
            spec(&["ab"], &[("TOKEN", "1"), ("X", "2")]),
            spec(&["a", "b"], &[("TOKEN", "2"), ("X", "2")]),
            spec(&["a", "b", "TOKEN"], &[("1X", "2")]),
            ServerSpec { cwd: Some("/tmp".into()), ..base.clone() },
        ];
        for other in &others {
            assert_ne!(of(&base, ""), of(other, ""));
        }
        assert_ne!(of(&base, ""), of(&base, "secret"));
    }
}
