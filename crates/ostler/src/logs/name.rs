//! File names of logs. Names of servers come from configurations and may hold anything: slashes, dots, line breaks.

use std::fmt::Write as _;

/// Ending of the newest file of a log.
pub(super) const ENDING: &str = ".log";

/// Longest escaped name in bytes; a longer one is cut and gets a hash. File systems allow 255 bytes.
const LONGEST: usize = 120;
/// Bytes that are kept of a longer name.
const KEPT: usize = 90;

/// File name of a server's log.
pub(super) fn file_name(server: &str) -> String {
    format!("{}{ENDING}", escaped(server))
}

/// The server that a file name belongs to; `None` for older generations and other files. A name that was cut is returned as
/// it is stored.
pub(super) fn server(file_name: &str) -> Option<String> {
    let stem = file_name.strip_suffix(ENDING)?;
    Some(unescaped(stem).unwrap_or_else(|| stem.to_owned()))
}

/// Whether a file belongs to a log: its newest or an older generation.
pub(super) fn is_of_a_log(file_name: &str) -> bool {
    let stem = match file_name.rsplit_once('.') {
        Some((stem, age)) if !age.is_empty() && age.bytes().all(|b| b.is_ascii_digit()) => stem,
        _ => file_name,
    };
    stem.ends_with(ENDING)
}

/// Keeps letters, digits, `-`, `_` and inner dots, and writes every other byte as `%2F`.
fn escaped(server: &str) -> String {
    let mut name = String::new();
    for byte in server.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        if is_plain || (byte == b'.' && !name.is_empty()) {
            name.push(byte.into());
        } else {
            let _ = write!(name, "%{byte:02X}");
        }
    }
    if name.is_empty() {
        name.push('%');
    }
    if name.len() > LONGEST {
        name.truncate(KEPT);
        let _ = write!(name, "%-{:016x}", fnv1a(server.as_bytes()));
    }
    name
}

fn unescaped(name: &str) -> Option<String> {
    if name == "%" {
        return Some(String::new());
    }
    let mut parts = name.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (hex, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(hex, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

/// 64-bit FNV-1a: names with equal beginnings get different files.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leaves_the_directory_and_is_found_again() {
        for (name, file) in [
            ("github", "github.log"),
            ("a.b-c_1", "a.b-c_1.log"),
            ("../../etc/passwd", "%2E.%2F..%2Fetc%2Fpasswd.log"),
            ("/", "%2F.log"),
            (".", "%2E.log"),
            ("", "%.log"),
            ("a\n\0b", "a%0A%00b.log"),
            ("100%", "100%25.log"),
            ("ä", "%C3%A4.log"),
            ("a.log.1", "a.log.1.log"),
        ] {
            let made = file_name(name);
            assert!(!made.contains('/') && !made.starts_with('.'), "{made}");
            assert_eq!(made, file);
            assert_eq!(server(&made).as_deref(), Some(name));
            assert!(is_of_a_log(&made) && is_of_a_log(&format!("{made}.3")), "{made}");
        }
        assert_eq!(server("a.log.1"), None);
        assert!(!is_of_a_log("a.txt") && !is_of_a_log("a.log.x") && !is_of_a_log("log"));
    }

    #[test]
    fn long_names_with_equal_beginnings_have_files_of_their_own() {
        let (one, other) = (file_name(&"é".repeat(500)), file_name(&"é".repeat(501)));
        assert_ne!(one, other);
        assert!(one.len() < 130 && server(&one).is_some(), "{one}");
    }
}
