//! Parses command-line flags like the docker and podman commands do.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The flags of a command. Names of one letter are short flags.
pub(super) struct Table {
    /// Flags without a value.
    pub(super) switches: &'static [&'static str],
    pub(super) valued: Valued,
}

/// Flags with a value.
pub(super) enum Valued {
    /// Only these; any other flag is unknown.
    These(&'static [&'static str]),
    /// All that are not switches.
    AllOthers,
}

/// A flag on the command line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flag<'a> {
    pub(super) name: &'a str,
    pub(super) value: Option<&'a OsStr>,
}

/// The flags before the first positional argument.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Flags<'a> {
    pub(super) given: Vec<Flag<'a>>,
    /// Number of arguments that they take up.
    pub(super) words: usize,
}

impl<'a> Flags<'a> {
    /// Parses flags up to the first positional argument. `None` if a flag is unknown or lacks its value.
    pub(super) fn read(words: &'a [OsString], table: &Table) -> Option<Self> {
        let mut flags = Self { given: Vec::new(), words: 0 };
        while let Some(word) = words.get(flags.words) {
            let bytes = word.as_bytes();
            if bytes.len() < 2 || !bytes.starts_with(b"-") || bytes == b"--" {
                break;
            }
            flags.words += 1;
            match bytes.strip_prefix(b"--") {
                Some(long) => flags.long(long, words, table)?,
                None => flags.short(bytes.get(1..)?, words, table)?,
            }
        }
        Some(flags)
    }

    /// The last occurrence, which is the one that counts.
    pub(super) fn last(&self, names: &[&str]) -> Option<&Flag<'a>> {
        self.all(names).next_back()
    }

    pub(super) fn all(&self, names: &[&str]) -> impl DoubleEndedIterator<Item = &Flag<'a>> {
        self.given.iter().filter(|flag| names.contains(&flag.name))
    }

    /// Whether a switch is on. The last occurrence counts, which may be `--name=false`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        let off = ["0", "f", "F", "false", "False", "FALSE"];
        let value =
            |flag: &Flag<'_>| flag.value.and_then(OsStr::to_str).is_some_and(|v| off.contains(&v));
        self.last(&[name]).is_some_and(|flag| !value(flag))
    }

    fn long(&mut self, text: &'a [u8], words: &'a [OsString], table: &Table) -> Option<()> {
        let mut parts = text.splitn(2, |byte| *byte == b'=');
        let name = std::str::from_utf8(parts.next()?).ok()?;
        let has_value = table.has_value(name)?;
        let value = match parts.next() {
            Some(value) => Some(OsStr::from_bytes(value)),
            None if has_value => Some(self.next_word(words)?),
            None => None,
        };
        self.given.push(Flag { name, value });
        Some(())
    }

    /// Parses the letters after a single dash: switches, and possibly a flag with a value at the end.
    fn short(&mut self, mut letters: &'a [u8], words: &'a [OsString], table: &Table) -> Option<()> {
        while let Some((letter, rest)) = letters.split_at_checked(1).filter(|(l, _)| !l.is_empty())
        {
            let name = std::str::from_utf8(letter).ok()?;
            let has_value = table.has_value(name)?;
            let value = match rest {
                [b'=', value @ ..] if !value.is_empty() => Some(OsStr::from_bytes(value)),
                _ if !has_value => None,
                [] => Some(self.next_word(words)?),
                value => Some(OsStr::from_bytes(value)),
            };
            letters = if value.is_some() { &[] } else { rest };
            self.given.push(Flag { name, value });
        }
        Some(())
    }

    fn next_word(&mut self, words: &'a [OsString]) -> Option<&'a OsStr> {
        let word = words.get(self.words)?;
        self.words += 1;
        Some(word)
    }
}

impl Flag<'_> {
    /// The flag as one argument.
    pub(super) fn word(&self) -> OsString {
        let is_short = self.name.len() == 1;
        let mut word = OsString::from(if is_short { "-" } else { "--" });
        word.push(self.name);
        if let Some(value) = self.value {
            word.push("=");
            word.push(value);
        }
        word
    }
}

impl Table {
    /// Whether the flag takes a value; `None` if it is unknown.
    fn has_value(&self, name: &str) -> Option<bool> {
        if self.switches.contains(&name) {
            return Some(false);
        }
        match self.valued {
            Valued::These(names) => names.contains(&name).then_some(true),
            Valued::AllOthers => Some(true),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table =
        Table { switches: &["debug", "D", "t"], valued: Valued::These(&["host", "H"]) };

    type Read = (Vec<(String, Option<String>)>, usize);

    fn read(line: &str) -> Option<Read> {
        let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let flags = Flags::read(&words, &TABLE)?;
        let text = |flag: &Flag<'_>| {
            (flag.name.to_owned(), flag.value.map(|v| v.to_str().unwrap().to_owned()))
        };
        Some((flags.given.iter().map(text).collect(), flags.words))
    }

    #[test]
    fn flags_are_read_as_the_commands_read_them() {
        for (line, given, words) in [
            ("run -D", &[][..], 0),
            ("-D run", &[("D", None)], 1),
            ("--host a run", &[("host", Some("a"))], 2),
            ("--host=a=b run", &[("host", Some("a=b"))], 1),
            ("--host= run", &[("host", Some(""))], 1),
            ("-H a run", &[("H", Some("a"))], 2),
            ("-Ha run", &[("H", Some("a"))], 1),
            ("-H=a run", &[("H", Some("a"))], 1),
            ("-DtH a run", &[("D", None), ("t", None), ("H", Some("a"))], 2),
            ("-DHa run", &[("D", None), ("H", Some("a"))], 1),
            ("--debug=false run", &[("debug", Some("false"))], 1),
            ("-H -- run", &[("H", Some("--"))], 2),
            ("-D -- run", &[("D", None)], 1),
            ("- run", &[], 0),
            ("-D", &[("D", None)], 1),
        ] {
            let given = given.iter().map(|(n, v)| ((*n).to_owned(), v.map(str::to_owned)));
            assert_eq!(read(line), Some((given.collect(), words)), "{line}");
        }
    }

    #[test]
    fn unknown_or_incomplete_flags_are_not_guessed() {
        for line in ["--what run", "-x run", "-Dx run", "--host", "-H", "--=x run"] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    #[test]
    fn the_last_occurrence_of_a_switch_counts() {
        for (line, on) in [("--debug", true), ("--debug=false", false), ("--debug=0 --debug", true)]
        {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(Flags::read(&words, &TABLE).unwrap().is_on("debug"), on, "{line}");
        }
    }
}
