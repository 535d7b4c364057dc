//! Values as people and programs read them.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ostler::{ContainerView, Holding};
use serde::Serialize;

use crate::exit;

/// Columns as wide as their widest cell; numbers to the right.
pub(crate) fn table<const N: usize>(headers: [&str; N], rows: &[[String; N]]) -> String {
    let headers = headers.map(String::from);
    let lines: Vec<&[String; N]> = std::iter::once(&headers).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..N).map(|column| width(column).unwrap_or(0)).collect();
    let numeric: Vec<bool> = (0..N).map(|column| is_numeric(rows, column)).collect();
    let mut text = String::new();
    for line in lines {
        let cells = line.iter().zip(&widths).zip(&numeric).map(|((cell, width), right)| {
            if *right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn is_numeric<const N: usize>(rows: &[[String; N]], column: usize) -> bool {
    rows.iter().all(|row| row[column].starts_with(|c: char| c.is_ascii_digit() || c == '-'))
}

/// A value on stdout, for programs.
pub(crate) fn json(value: &impl Serialize) -> ExitCode {
    let written = serde_json::to_string_pretty(value).map_err(io::Error::other);
    exit::written(written.and_then(|text| writeln!(io::stdout(), "{text}")))
}

/// A text on stdout, for people.
pub(crate) fn text(text: &str) -> ExitCode {
    exit::written(io::stdout().write_all(text.as_bytes()))
}

/// `812 B`, `9.1 MB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let exponent = (bytes.ilog10() / 3).min(4);
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let number = bytes as f64 / 1000f64.powi(exponent.cast_signed());
    format!("{number:.1} {}", UNITS[exponent as usize - 1])
}

/// How long ago that was: `42s`, `3m`, `5h`, `2d`.
pub(crate) fn age(milliseconds_since_1970: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(milliseconds_since_1970);
    let passed = SystemTime::now().duration_since(at).unwrap_or_default();
    duration(u64::try_from(passed.as_millis()).unwrap_or(u64::MAX))
}

/// So many milliseconds: `42s`, `3m`, `5h`, `2d`.
pub(crate) fn duration(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..=99 => format!("{seconds}s"),
        100..=5999 => format!("{}m", seconds / 60),
        6000..=172_799 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `0123456789ab web (nginx, running)`.
pub(crate) fn container(container: &ContainerView) -> String {
    let ContainerView { id, names, image, state, .. } = container;
    let name = names.first().map(|name| format!(" {name}")).unwrap_or_default();
    let short: String = id.chars().take(12).collect();
    format!("{short}{name} ({image}, {state})")
}

/// What an instance has in its engine, a line for each.
pub(crate) fn holding(holding: &Holding) -> impl Iterator<Item = String> {
    let containers = holding.containers.iter().map(|one| format!("container {}", container(one)));
    containers.chain(holding.unreachable.iter().map(|why| format!("containers, if any: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_aligned() {
        let rows = [["long name".into(), "7".into()], ["a".into(), "123".into()]];
        assert_eq!(
            table(["NAME", "PID"], &rows),
            "NAME       PID\nlong name    7\na          123\n"
        );
    }

    #[test]
    fn sizes_have_three_digits() {
        let sizes = [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (9_100_000, "9.1 MB")];
        for (bytes, text) in sizes {
            assert_eq!(size(bytes), text);
        }
        assert_eq!(size(u64::MAX), "18446744.1 TB");
    }
}
