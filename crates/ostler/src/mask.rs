//! Masks secrets in command lines and in lines of stderr.
//!
//! Secrets are recognised by heuristics: a switch or name that suggests a secret (`--api-key X`, `TOKEN=X`), the value
//! of an environment or header switch, credentials and queries in URLs, the word after `Bearer`, and long words that
//! mix letters and digits. Masking prefers to cover too much; references such as `${TOKEN}` stay, because they hold no
//! value. `exposed_secrets` uses the same rules for warnings and leaves out words that are only suspicious.

/// Replaces a secret.
const MASK: &str = "…";

/// Parts of names that suggest a secret.
const TELLTALES: &[&str] =
    &["auth", "bearer", "cookie", "credential", "key", "pass", "pwd", "secret", "session", "token"];

/// Switches whose value is `NAME=value` or `Name: value`.
const PAIRS: &[&str] = &["-e", "--env", "-H", "--header"];

/// Words that precede a credential, in lower case.
const SCHEMES: &[&str] = &["bearer", "basic"];

/// Shortest word of letters and digits that counts as a token, in characters.
const LONGEST_WORD: usize = 20;

/// Masks the words of a running process's command line. A word may itself hold a whole command line: the script of a
/// shell, or the title that a program gave itself.
pub fn masked_command(words: &[String]) -> Vec<String> {
    let is_line = |word: &str| word.contains(char::is_whitespace);
    let both = masked(words).into_iter().zip(words);
    both.map(
        |(shown, word)| if shown == *word && is_line(word) { masked_line(word) } else { shown },
    )
    .collect()
}

/// Secrets on a command line, masked, each with the switch or name that identifies it. Unlike masking, which covers too
/// much, this omits words that are only suspicious.
pub fn exposed_secrets(words: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    let mut before = "";
    for word in words {
        let is_value = PAIRS.contains(&before) || (before.starts_with('-') && tells(before));
        if word.contains(char::is_whitespace) && !is_value {
            let inner: Vec<String> = word.split_whitespace().map(str::to_owned).collect();
            found.extend(exposed_secrets(&inner));
        } else {
            found.extend(exposed(before, word));
        }
        before = word;
    }
    found
}

fn exposed(before: &str, word: &str) -> Option<String> {
    if SCHEMES.contains(&&*before.to_lowercase()) && !is_reference(word) {
        return Some(format!("{before} {MASK}"));
    }
    let masked = mask(before, word);
    if masked == *word {
        return None;
    }
    let announced = before.starts_with('-') && !before.contains('=') && tells(before);
    let named =
        word.split_once(['=', ':']).is_some_and(|(name, value)| tells(name) && !value.is_empty());
    let has_login = word.split_once("://").is_some_and(|(_, rest)| {
        let place = rest.split(['/', '?', '#']).next().unwrap_or_default();
        place.rsplit_once('@').is_some_and(|(login, _)| login.contains(':'))
    });
    // A long word in a path is more likely the name of a cache directory.
    let is_token = !word.contains(['/', '=', ':', '.']) && masked == MASK;
    match (announced && masked == MASK, named || has_login || is_token) {
        (true, _) => Some(format!("{before} {masked}")),
        (false, true) => Some(masked),
        (false, false) => None,
    }
}

/// Masks the words of a command.
pub fn masked(words: &[String]) -> Vec<String> {
    let before = std::iter::once("").chain(words.iter().map(String::as_str));
    before.zip(words).map(|(before, word)| mask(before, word)).collect()
}

/// Masks the words of a line that a server wrote to stderr.
pub fn masked_line(line: &str) -> String {
    let mut before = "";
    let mut words = Vec::new();
    for word in line.split(' ') {
        words.push(mask_in_prose(before, word));
        if !word.is_empty() {
            before = word;
        }
    }
    words.join(" ")
}

fn mask_in_prose(before: &str, word: &str) -> String {
    let is_scheme = |word: &str| SCHEMES.contains(&&*word.to_lowercase());
    // Python's `KeyError: 'NAME'` names a key and holds no value.
    let names = before.ends_with([':', '=']) && tells(before) && before != "KeyError:";
    let announced = is_scheme(before) || names;
    if announced && !word.is_empty() && !is_reference(word) && !is_scheme(word) {
        return MASK.to_owned();
    }
    if word.contains("://") || is_value_of_secret(before, word) {
        return mask(before, word);
    }
    let parts = word.split_inclusive([',', ';', '&']);
    parts.map(|part| mask_named(part).unwrap_or_else(|| mask_alone(before, part))).collect()
}

/// Masks the value in `name:value` or `"name":"value"` if the name suggests a secret.
fn mask_named(part: &str) -> Option<String> {
    let at = part.find([':', '='])?;
    let (name, value) = (&part[..at], &part[at + 1..]);
    let name = name.trim_matches(|c: char| !c.is_alphanumeric());
    let is_name = name.chars().all(|c| c.is_alphanumeric() || c == '_' || c == '-');
    let end = &value[value.trim_end_matches([',', ';', '&']).len()..];
    let is_secret = is_name && tells(name) && value != end && !is_reference(value);
    is_secret.then(|| format!("{}{MASK}{end}", &part[..=at]))
}

fn mask(before: &str, word: &str) -> String {
    if is_value_of_secret(before, word) { MASK.to_owned() } else { mask_alone(before, word) }
}

/// Whether the word before is a switch that suggests a secret, and this word is its value.
fn is_value_of_secret(before: &str, word: &str) -> bool {
    let is_value = before.starts_with('-') && !word.starts_with('-') && !is_reference(word);
    is_value && !before.contains('=') && tells(before)
}

/// Masks a word for its own sake, or because the one before is a switch that takes a pair.
fn mask_alone(before: &str, word: &str) -> String {
    if is_reference(word) {
        return word.to_owned();
    }
    if PAIRS.contains(&before) {
        return pair(word);
    }
    match word.split_once('=') {
        Some((name, value)) if !name.contains("://") && (tells(name) || is_variable(name)) => {
            assigned(name, '=', value)
        }
        _ => mask_url(word).unwrap_or_else(|| mask_token(word)),
    }
}

/// Masks the value of `NAME=value` or `Name: value`, or a lone word that looks like a token.
fn pair(word: &str) -> String {
    match word.find(['=', ':']) {
        Some(at) => {
            let separator = if word[at..].starts_with('=') { '=' } else { ':' };
            assigned(&word[..at], separator, &word[at + 1..])
        }
        None => mask_token(word),
    }
}

fn assigned(name: &str, separator: char, value: &str) -> String {
    let value = if is_reference(value.trim()) { value } else { MASK };
    format!("{name}{separator}{value}")
}

/// Whether a word is only a reference to a variable, such as `${TOKEN}`.
fn is_reference(word: &str) -> bool {
    let inner = word.strip_prefix("${").and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| !inner.contains(['$', '}']))
}

fn tells(name: &str) -> bool {
    let name = name.to_lowercase();
    TELLTALES.iter().any(|part| name.contains(part))
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// Masks user, password and query of a URL, and its path if it contains a token.
fn mask_url(word: &str) -> Option<String> {
    let (scheme, rest) = word.split_once("://")?;
    let (place, query) = rest.split_once(['?', '#']).map_or((rest, ""), |(place, _)| (place, "?…"));
    let (host, path) = place.split_once('/').unwrap_or((place, ""));
    let host = host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("{MASK}@{host}"));
    let slash = if place.contains('/') { "/" } else { "" };
    Some(format!("{scheme}://{host}{slash}{}{query}", mask_token(path)))
}

fn mask_token(word: &str) -> String {
    let is_token = |part: &str| {
        part.len() >= LONGEST_WORD
            && part.contains(|c: char| c.is_ascii_digit())
            && part.contains(|c: char| c.is_ascii_alphabetic())
    };
    // The digest of a container image is long, but no secret.
    let plain = word.split("@sha256:").next().unwrap_or(word);
    let has_token = plain.split(|c: char| !c.is_ascii_alphanumeric()).any(is_token);
    if has_token { MASK.to_owned() } else { word.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked_and_words_are_not() {
        for (line, expected) in [
            ("npx -y @modelcontextprotocol/server-everything@2025.11.25", ""),
            ("docker run -i --rm -e GITHUB_TOKEN ghcr.io/github/github-mcp-server", ""),
            ("docker run -e TOKEN=s3cret x", "docker run -e TOKEN=… x"),
            ("docker run -e A=${A} x@sha256:0123456789abcdef0123456789abcdef", ""),
            ("curl -H Authorization:s3cret -H X:${T}", "curl -H Authorization:… -H X:${T}"),
            ("x --api-key s3cret --verbose", "x --api-key … --verbose"),
            ("x --api-key --verbose", ""),
            ("x --token=s3cret --level=3", "x --token=… --level=3"),
            ("x --token=${TOKEN} --token ${TOKEN}", ""),
            ("x --token=${TOKEN}s3cret", "x --token=…"),
            ("env PASSWORD=s3cret x", "env PASSWORD=… x"),
            ("x postgres://me:s3cret@db/name", "x postgres://…@db/name"),
            ("x https://example.invalid/mcp?key=s3cret", "x https://example.invalid/mcp?…"),
            ("x ghp_0123456789abcdefghijABCDEFGHIJ", "x …"),
            ("x https://example.invalid/0123456789abcdefghijk/mcp", "x https://example.invalid/…"),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            let expected = if expected.is_empty() { line } else { expected };
            assert_eq!(masked(&words).join(" "), expected);
        }
    }

    #[test]
    fn only_secrets_are_reported_as_exposed() {
        for (line, expected) in [
            ("npx -y @modelcontextprotocol/server-everything@2025.11.25", &[][..]),
            ("docker run -i -e LOG_LEVEL=debug -e TOKEN x", &[]),
            ("node /u/.npm/_npx/0123456789abcdef0123456789/node_modules/.bin/x-mcp", &[]),
            ("x --repo-id 0b7e1a52-6a8a-4f2b-9c1f-000000000000", &[]),
            ("x --api-key s3cret --verbose", &["--api-key …"]),
            ("x --token=s3cret", &["--token=…"]),
            ("docker run -e API_TOKEN=s3cret x", &["API_TOKEN=…"]),
            ("x postgres://me:s3cret@db/name", &["postgres://…@db/name"]),
            ("x https://example.invalid/mcp?page=2", &[]),
            ("x ghp_0123456789abcdefghijABCDEFGHIJ", &["…"]),
        ] {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(exposed_secrets(&words), expected, "{line}");
        }
    }

    #[test]
    fn secrets_inside_of_a_word_are_masked_and_named() {
        for (words, shown, expected) in [
            (["sh", "-c", "x --api-key s3cret"], "sh -c x --api-key …", "--api-key …"),
            (["npm exec x --token=s3cret", "", ""], "npm exec x --token=…  ", "--token=…"),
            (
                ["npm exec x --header Authorization: Bearer s3cret", "", ""],
                "npm exec x --header Authorization:… Bearer …  ",
                "Bearer …",
            ),
            (
                ["x", "--header", "Authorization: Bearer s3cret"],
                "x --header Authorization:…",
                "Authorization:…",
            ),
        ] {
            let words = words.map(str::to_owned);
            assert_eq!(masked_command(&words).join(" "), shown);
            assert_eq!(exposed_secrets(&words), [expected]);
        }
    }

    #[test]
    fn masking_takes_time_in_proportion_to_the_line() {
        let half = 256 << 10;
        let line = format!("-{} {}", "a".repeat(half), ",".repeat(half));
        assert_eq!(masked_line(&line), line);
        let line = format!("--token{} {}", "a".repeat(half), ",".repeat(half));
        assert_eq!(masked_line(&line).len(), half + 8 + MASK.len());
    }

    #[test]
    fn secrets_in_prose_are_masked_and_the_rest_is_unchanged() {
        for (line, expected) in [
            ("", ""),
            ("  at open (/src/auth/login.js:12:34)  twice", ""),
            ("Error: connect ECONNREFUSED 127.0.0.1:5432", ""),
            ("Authorization: Bearer s3cret rejected", "Authorization: Bearer … rejected"),
            ("bad password: s3cret", "bad password: …"),
            (r#"{"a":1,"apiKey":"s3cret","b":2}"#, r#"{"a":1,"apiKey":…,"b":2}"#),
            ("token=s3cret", "token=…"),
            ("KeyError: 'MY_API_KEY'", ""),
            ("postgres://me:s3cret@db/x is down", "postgres://…@db/x is down"),
            ("ghp_0123456789abcdefghijABCDEFGHIJ is expired", "… is expired"),
        ] {
            let expected = if expected.is_empty() { line } else { expected };
            assert_eq!(masked_line(line), expected);
        }
    }
}
