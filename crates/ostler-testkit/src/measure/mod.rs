//! Support for benchmarks: samples, tables, and the machine.

pub mod machine;
pub mod sample;
pub mod table;

/// How many repetitions: enough for the record, or only enough to see that everything works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// For the record.
    Full,
    /// To see that it works.
    Quick,
}

impl Effort {
    /// The value for this effort.
    pub fn choose<T>(self, full: T, quick: T) -> T {
        match self {
            Self::Full => full,
            Self::Quick => quick,
        }
    }
}

/// The benchmarks that the command line selects, and the effort; `None`
/// if this is not a benchmark's run: `cargo test --benches` runs the same binary, and minutes of
/// measuring are not a test.
pub fn chosen<T: Copy>(
    arguments: &[String],
    all: &[(T, &str)],
) -> Result<Option<(Vec<T>, Effort)>, String> {
    // Cargo adds it to a benchmark, and to nothing else.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(None);
    }
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let names = arguments.iter().filter(|name| !["--bench", "--quick"].contains(&name.as_str()));
    let find = |name: &String| {
        let known = all.iter().find(|(_, known)| known == name);
        known.map(|(benchmark, _)| *benchmark).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(|(_, name)| *name).collect();
            format!("no benchmark '{name}'; there are {} and --quick", names.join(", "))
        })
    };
    let chosen = names.map(find).collect::<Result<Vec<_>, _>>()?;
    let everything = || all.iter().map(|(benchmark, _)| *benchmark).collect();
    let benchmarks = if chosen.is_empty() { everything() } else { chosen };
    Ok(Some((benchmarks, if quick { Effort::Quick } else { Effort::Full })))
}
