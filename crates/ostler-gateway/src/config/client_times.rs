//! Times as other clients write them: numbers, each in a unit of its own.

use jsonc_parser::ast::{ObjectProp, Value};
use jsonc_parser::common::Ranged;
use ostler::duration;

use super::form::ServerForm;
use super::reader::{Reader, Setting, put};
use super::values::SomeTime;

/// Up to this a `timeout` is taken to be in seconds, as in some clients, and above in milliseconds, as in
/// the others. Who means a few milliseconds gets more, which does no harm.
const MOST_SECONDS: u64 = 3600;

/// A `timeout` in the unit of whichever client it came from.
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

/// A number of seconds.
pub(super) struct Seconds(pub(super) SomeTime);

/// A number of milliseconds.
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
