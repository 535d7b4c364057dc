//! Values of configuration files, independent of the file's format.

use std::collections::BTreeMap;
use std::fmt;

/// A value. Members of an object keep the order of the file.
#[derive(Clone, PartialEq, Eq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number or a date, as it is written.
    Number(String),
    /// Text.
    String(String),
    /// A list.
    Array(Vec<Value>),
    /// Members by key.
    Object(Vec<(String, Value)>),
    /// Something without a counterpart in the other formats, such as a YAML alias, as it is written.
    Other(String),
}

impl Value {
    /// An object from its members.
    pub fn object<K: Into<String>>(members: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Object(members.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    /// A list of texts.
    pub fn strings<S: Into<String>>(texts: impl IntoIterator<Item = S>) -> Self {
        Self::Array(texts.into_iter().map(|text| Self::String(text.into())).collect())
    }

    /// The member with this key, of an object.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.members().iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    /// The value below these keys.
    pub fn at<S: AsRef<str>>(&self, path: &[S]) -> Option<&Self> {
        path.iter().try_fold(self, |value, key| value.get(key.as_ref()))
    }

    /// The members of an object; none of anything else.
    pub fn members(&self) -> &[(String, Self)] {
        match self {
            Self::Object(members) => members,
            _ => &[],
        }
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The texts of a list of strings; `None` if it is anything else.
    pub fn as_strings(&self) -> Option<Vec<String>> {
        match self {
            Self::Array(items) => {
                items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
            }
            _ => None,
        }
    }

    /// Sets the value below these keys, and makes the objects on the way. False if something else is in the way.
    pub(crate) fn set(&mut self, path: &[String], value: Self) -> bool {
        let Some((key, rest)) = path.split_first() else {
            *self = value;
            return true;
        };
        if *self == Self::Null {
            *self = Self::Object(Vec::new());
        }
        let Self::Object(members) = self else { return false };
        let at = members.iter().position(|(name, _)| name == key).unwrap_or_else(|| {
            members.push((key.clone(), Self::Null));
            members.len() - 1
        });
        members[at].1.set(rest, value)
    }

    /// Removes the value below these keys. False if there is none.
    pub(crate) fn remove(&mut self, path: &[String]) -> bool {
        let (Self::Object(members), Some((key, rest))) = (self, path.split_first()) else {
            return false;
        };
        let Some(at) = members.iter().position(|(name, _)| name == key) else { return false };
        if rest.is_empty() {
            members.remove(at);
            return true;
        }
        members[at].1.remove(rest)
    }

    /// Removes the objects above a path that hold nothing, from the innermost on.
    pub(crate) fn prune(&mut self, path: &[String]) {
        let is_empty = |value: &Self| *value == Self::Null || *value == Self::Object(Vec::new());
        for depth in (1..path.len()).rev() {
            let above = &path[..depth];
            if !self.at(above).is_some_and(is_empty) {
                return;
            }
            self.remove(above);
        }
    }

    /// Whether both mean the same; the order of members does not matter.
    pub(crate) fn means(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(left), Self::Array(right)) => {
                left.len() == right.len() && left.iter().zip(right).all(|(a, b)| a.means(b))
            }
            (Self::Object(left), Self::Object(right)) => {
                let mut pairs = sorted(left).into_iter().zip(sorted(right));
                left.len() == right.len() && pairs.all(|(a, b)| a.0 == b.0 && a.1.means(&b.1))
            }
            _ => self == other,
        }
    }
}

/// Members by key; those with the same key keep their order.
fn sorted(members: &[(String, Value)]) -> Vec<&(String, Value)> {
    let mut sorted: Vec<&(String, Value)> = members.iter().collect();
    sorted.sort_by(|one, two| one.0.cmp(&two.0));
    sorted
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<&BTreeMap<String, String>> for Value {
    fn from(map: &BTreeMap<String, String>) -> Self {
        Self::object(map.iter().map(|(key, value)| (key.clone(), Self::from(value.as_str()))))
    }
}

impl fmt::Debug for Value {
    /// Shows nothing: a value may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value(…)")
    }
}
