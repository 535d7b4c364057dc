//! Types of the values in a configuration file.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64, NonZeroUsize};
use std::time::Duration;

use jsonc_parser::ast::Value;
use jsonc_parser::common::Ranged;
use ostler::{Bytes, Cpus, InvalidResource, duration};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use super::reader::{At, Reader, Setting, name_of};
use super::template::Template;

/// A duration, which may be zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Time(pub(super) Duration);

/// A duration above zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SomeTime(pub(super) Duration);

/// A duration, or `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimeOrNever(pub(super) Option<Duration>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Memory(pub(super) Bytes);

/// A number of processors, which may be fractional.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Processors(pub(super) Cpus);

impl<T: JsonSchema> JsonSchema for At<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

impl Setting for String {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::StringLit(text) = value else {
            reader.expected(value, "a string");
            return None;
        };
        Some(text.value.clone().into_owned())
    }
}

impl Setting for bool {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::BooleanLit(answer) = value else {
            reader.expected(value, "true or false");
            return None;
        };
        Some(answer.value)
    }
}

/// Reads a whole number from `least` to `u32::MAX`.
fn whole(value: &Value<'_>, least: u32, reader: &mut Reader<'_>) -> Option<u32> {
    let Value::NumberLit(number) = value else {
        reader.expected(value, "a number");
        return None;
    };
    let read = number.value.parse().ok().filter(|read| *read >= least);
    if read.is_none() {
        let message = format!("write a whole number from {least} to {}", u32::MAX);
        reader.wrong_word(value.range(), &message);
    }
    read
}

impl Setting for usize {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        whole(value, 0, reader)?.try_into().ok()
    }
}

impl Setting for NonZeroUsize {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        Self::new(whole(value, 1, reader)?.try_into().ok()?)
    }
}

impl Setting for NonZeroU16 {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let port = u16::try_from(whole(value, 1, reader)?).ok();
        if port.is_none() {
            reader.wrong_word(value.range(), "write a whole number from 1 to 65535");
        }
        Self::new(port?)
    }
}

impl Setting for NonZeroU32 {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        Self::new(whole(value, 1, reader)?)
    }
}

impl Setting for NonZeroU64 {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        Self::new(whole(value, 1, reader)?.into())
    }
}

impl<T: Setting> Setting for Vec<T> {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let Value::Array(list) = value else {
            reader.expected(value, "a list");
            return None;
        };
        Some(list.elements.iter().filter_map(|element| T::read(element, reader)).collect())
    }
}

impl<T: Setting> Setting for BTreeMap<String, T> {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let read = reader.properties(value)?.into_iter().filter_map(|property| {
            let name = name_of(property);
            let value = reader.within(name, |reader| T::read(&property.value, reader))?;
            Some((name.to_owned(), value))
        });
        Some(read.collect())
    }
}

/// Reads a duration. Its text is never secret.
fn time(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Duration> {
    let read = match value {
        Value::StringLit(text) => duration::parse(&text.value),
        _ => Err(duration::InvalidDuration),
    };
    read.map_err(|error| reader.wrong_word(value.range(), &error.to_string())).ok()
}

impl Setting for Time {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        time(value, reader).map(Self)
    }
}

impl Setting for SomeTime {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        let read = time(value, reader)?;
        if read.is_zero() {
            reader.wrong_word(value.range(), "there has to be some time for it");
        }
        Some(Self(read))
    }
}

impl Setting for TimeOrNever {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        match value {
            Value::StringLit(text) if text.value == "never" => Some(Self(None)),
            _ => time(value, reader).map(|read| Self(Some(read))),
        }
    }
}

/// Reads a value that can be written as a number or as a string.
fn amount<T>(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<T>
where
    T: std::str::FromStr<Err = InvalidResource>,
{
    let text = match value {
        Value::StringLit(text) => text.value.as_ref(),
        Value::NumberLit(number) => number.value,
        _ => {
            reader.expected(value, "a number or a string");
            return None;
        }
    };
    let wrong = |error: InvalidResource| reader.wrong_word(value.range(), &error.to_string());
    text.parse().map_err(wrong).ok()
}

impl Setting for Memory {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        amount(value, reader).map(Self)
    }
}

impl Setting for Processors {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        amount(value, reader).map(Self)
    }
}

/// Implements `JsonSchema` with a fixed schema.
macro_rules! described {
    ($($kind:ident: $schema:tt)*) => {$(
        impl JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($kind).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

described! {
    Time: {"type": "string", "pattern": "^[0-9.]+(ms|s|m|h)$", "examples": ["1.5s"]}
    SomeTime: {"type": "string", "pattern": "^[0-9.]+(ms|s|m|h)$", "examples": ["60s"]}
    TimeOrNever: {"type": "string", "pattern": "^([0-9.]+(ms|s|m|h)|never)$", "examples": ["10m", "never"]}
    Memory: {"type": ["string", "integer"], "examples": ["512MiB"]}
    Template: {"type": "string"}
    Processors: {"type": ["string", "number"], "examples": [1.5]}
}
