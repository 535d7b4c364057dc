//! Which lines of a log are printed.

use ostler::InstanceId;
use ostler::logs::Entry;

use super::since::Since;

/// Shortest prefix of an id that is accepted; shorter ones look like numbers.
const SHORTEST_ID: usize = 4;
/// Length of an id, as it is shown.
const SHOWN: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct Filter {
    pub(super) since: Option<Since>,
    pub(super) instance: Option<InstanceName>,
}

/// An instance as the user names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InstanceName {
    number: Option<u64>,
    /// Beginning of its id.
    prefix: Option<String>,
}

impl Filter {
    pub(super) fn wants(&self, entry: &Entry<'_>) -> bool {
        self.since.is_none_or(|since| since.is_before(entry.at))
            && self.instance.as_ref().is_none_or(|name| name.is_of(entry))
    }
}

impl InstanceName {
    fn is_of(&self, entry: &Entry<'_>) -> bool {
        let has_prefix = |prefix: &String| {
            entry.instance.is_some_and(|id| id.to_string().starts_with(prefix.as_str()))
        };
        (self.number.is_some() && self.number == entry.number)
            || self.prefix.as_ref().is_some_and(has_prefix)
    }
}

/// Parses `3`, `#3`, or an id that may be cut after the fourth character.
pub(super) fn parse(text: &str) -> Result<InstanceName, &'static str> {
    let number = text.strip_prefix('#').unwrap_or(text).parse().ok();
    let is_id = text.len() >= SHORTEST_ID && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let prefix = is_id.then(|| text.to_lowercase());
    if number.is_none() && prefix.is_none() {
        return Err("write a number, or at least 4 characters of an id");
    }
    Ok(InstanceName { number, prefix })
}

/// Name of an instance: its number in a gateway, else the start of its id.
pub(super) fn name(number: Option<u64>, instance: Option<InstanceId>) -> String {
    let id = || instance.map(|id| id.to_string().chars().take(SHOWN).collect());
    number.map(|number| format!("#{number}")).or_else(id).unwrap_or_else(|| "-".into())
}

#[cfg(test)]
mod tests {
    use ostler::logs::Source;

    use super::*;

    fn entry(number: Option<u64>, instance: Option<InstanceId>) -> Entry<'static> {
        Entry { at: 0, instance, number, source: Source::Stderr, text: "".into(), cut: false }
    }

    #[test]
    fn an_instance_is_named_by_its_number_or_by_the_start_of_its_id() {
        let id: InstanceId = "0123456789abcdef0123456789abcdef".parse().unwrap();
        let (numbered, wrapped) = (entry(Some(3), Some(id)), entry(None, Some(id)));
        for (text, is_numbered, is_wrapped) in [
            ("3", true, false),
            ("#3", true, false),
            ("0123", true, true),
            ("01234567", true, true),
            ("0124", false, false),
            ("33", false, false),
        ] {
            let name = parse(text).unwrap();
            assert_eq!((name.is_of(&numbered), name.is_of(&wrapped)), (is_numbered, is_wrapped));
        }
        for text in ["", "#", "abc", "-3", "github", "#0123456789abcdef"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_instance_without_a_number_shows_its_id() {
        let id: InstanceId = "0123456789abcdef0123456789abcdef".parse().unwrap();
        assert_eq!(name(Some(3), Some(id)), "#3");
        assert_eq!(name(None, Some(id)), "01234567");
        assert_eq!(name(None, None), "-");
    }
}
