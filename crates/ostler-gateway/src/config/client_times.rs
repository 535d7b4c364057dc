//! Timeouts of other clients: plain numbers in units that differ from client to client.

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;
use ostler::duration;

use super::form::ServerForm;
use super::reader::{Reader, Setting, put};
use super::values::SomeTime;

/// Largest `timeout` that is read as seconds, as some clients mean it; larger numbers are milliseconds. A number of
/// milliseconds below this bound becomes a longer timeout, which does no harm.
const MOST_SECONDS: u64 = 3600;

/// Reads `timeout`, whose unit depends on the client that the entry was written for.
pub(super) fn timeout(form: &mut ServerForm, property: &ObjectProp<'_>, reader: &mut Reader<'_>) {
    let key = property.name.range();
    let Value::NumberLit(number) = &property.value else {
        return reader.fill(&mut form.call_timeout, key, &property.value);
    };
    let in_seconds = number.value.parse().is_ok_and(|number: u64| number <= MOST_SECONDS);
    let unit = if in_seconds { "s" } else { "ms" };
    let message = format!("taken as `callTimeout`: \"{}{unit}\"", number.value);
    reader.notice(key, &message);
    if in_seconds {
        put(&mut form.call_timeout, property, reader, |s: Seconds| s.0);
    } else {
        put(&mut form.call_timeout, property, reader, |ms: Milliseconds| ms.0);
    }
}

pub(super) struct Seconds(pub(super) SomeTime);

pub(super) struct Milliseconds(pub(super) SomeTime);

impl Setting for Seconds {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        number_of("s", value, reader).map(Self)
    }
}

impl Setting for Milliseconds {
    fn read(value: &Value<'_>, reader: &mut Reader<'_>) -> Option<Self> {
        number_of("ms", value, reader).map(Self)
    }
}

fn number_of(unit: &str, value: &Value<'_>, reader: &mut Reader<'_>) -> Option<SomeTime> {
    let Value::NumberLit(number) = value else {
        reader.expected(value, "a number");
        return None;
    };
    let read = duration::parse(&format!("{}{unit}", number.value));
    let read = read.ok().filter(|time| !time.is_zero());
    if read.is_none() {
        reader.wrong_word(value.range(), "write a number above 0, and not more than a day");
    }
    read.map(SomeTime)
}
