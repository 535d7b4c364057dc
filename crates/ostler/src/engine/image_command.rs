//! Edits podman commands that make an image, so that the image carries our labels with empty values.
//!
//! The Door does the same to requests; this is for podman without a service.

use std::ffi::OsString;

use super::flags::{Flags, Table, Valued};
use super::instruction::{check_change, clearing};
use super::invocation::{Invocation, Tool};
use crate::engine::label::{self, INSTANCE, ReservedLabel};
use crate::spec::ServerSpec;

/// Flags of `commit` and `import`.
const CHANGE_OPTIONS: Table = Table {
    switches: &["help", "include-volumes", "p", "pause", "q", "quiet", "s", "squash"],
    valued: Valued::AllOthers,
};

/// Flags of `build`.
const BUILD_OPTIONS: Table = Table {
    switches: &[
        "D",
        "all-platforms",
        "compress",
        "disable-compression",
        "disable-content-trust",
        "force-rm",
        "help",
        "http-proxy",
        "identity-label",
        "layers",
        "logstderr",
        "no-cache",
        "no-hostname",
        "no-hosts",
        "omit-history",
        "pull",
        "pull-always",
        "pull-never",
        "q",
        "quiet",
        "rm",
        "skip-unused-stages",
        "squash",
        "squash-all",
        "stdin",
        "tls-verify",
    ],
    valued: Valued::AllOthers,
};

/// How a command sets labels of its image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LabelSyntax {
    /// `--change "LABEL name=value"`
    Changes,
    /// `--label name=value`
    Labels,
}

/// Makes a podman command that makes an image set our labels to empty values. Refuses a command that sets a reserved
/// label, and leaves other commands alone.
pub(crate) fn clear_labels(spec: &mut ServerSpec) -> Result<(), ReservedLabel> {
    let Some((syntax, at)) = image_command(spec) else { return Ok(()) };
    let added: Vec<OsString> = match syntax {
        LabelSyntax::Changes => {
            each_value(&spec.args[at..], &CHANGE_OPTIONS, &["change", "c"], check_change)?;
            clearing().map(|change| format!("--change={change}").into()).collect()
        }
        LabelSyntax::Labels => {
            each_value(&spec.args[at..], &BUILD_OPTIONS, &["label"], |label| {
                let (name, value) = label::parts(label);
                label::check(name, value)
            })?;
            vec![format!("--label={INSTANCE}=").into()]
        }
    };
    spec.args.splice(at..at, added);
    Ok(())
}

/// How a command that makes an image sets labels, and the argument index of its flags. `None` for other commands.
fn image_command(spec: &ServerSpec) -> Option<(LabelSyntax, usize)> {
    let Invocation { rest, .. } =
        Invocation::of(spec).filter(|found| found.tool == Tool::Podman)?;
    let word = |n: usize| rest.get(n).and_then(|word| word.to_str()).unwrap_or_default();
    let (syntax, count) = match (word(0), word(1)) {
        ("commit" | "import", _) => (LabelSyntax::Changes, 1),
        ("container", "commit") | ("image", "import") => (LabelSyntax::Changes, 2),
        ("build", _) => (LabelSyntax::Labels, 1),
        ("image" | "builder" | "buildx", "build") => (LabelSyntax::Labels, 2),
        _ => return None,
    };
    Some((syntax, spec.args.len() - rest.len() + count))
}

/// Checks each value of a flag, also between and after positional arguments. Podman itself refuses what can't be
/// parsed here.
fn each_value(
    mut words: &[OsString],
    table: &Table,
    names: &[&str],
    check: impl Fn(&str) -> Result<(), ReservedLabel>,
) -> Result<(), ReservedLabel> {
    while let Some(flags) = Flags::read(words, table) {
        let values = flags.all(names).filter_map(|flag| flag.value);
        values.map(|value| value.to_string_lossy()).try_for_each(|value| check(&value))?;
        match words.get(flags.words) {
            Some(word) if word != "--" => words = &words[flags.words + 1..],
            _ => break,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cleared(line: &str) -> Result<String, ReservedLabel> {
        let mut words = line.split(' ').map(|word| OsString::from(word.replace('_', " ")));
        let mut spec = ServerSpec {
            name: "server".into(),
            program: words.next().unwrap(),
            args: words.collect(),
            env: Vec::new(),
            cwd: None,
        };
        clear_labels(&mut spec)?;
        let line = spec.args.iter().map(|word| word.to_str().unwrap().replace(' ', "_"));
        let line = line.collect::<Vec<_>>().join(" ");
        let changes = clearing().map(|change| format!("--change={}", change.replace(' ', "_")));
        let changes = changes.collect::<Vec<_>>().join(" ");
        Ok(line.replace(&changes, "<C>").replace("--label=ostler.instance= ", "<L> "))
    }

    #[test]
    fn images_are_made_with_empty_labels() {
        for (line, expected) in [
            ("podman commit own image", "commit <C> own image"),
            (
                "podman --root r container commit -c CMD_x own",
                "--root r container commit <C> -c CMD_x own",
            ),
            ("podman import - image", "import <C> - image"),
            ("podman image import --change=LABEL_a=b -", "image import <C> --change=LABEL_a=b -"),
            ("podman build --label a=b .", "build <L> --label a=b ."),
            ("podman buildx build .", "buildx build <L> ."),
            ("podman run image commit", "run image commit"),
            ("podman image ls", "image ls"),
            ("docker commit own image", "commit own image"),
        ] {
            assert_eq!(cleared(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn reserved_labels_are_refused_at_every_position() {
        for line in [
            "podman commit -c LABEL_ostler.instance=x own",
            "podman commit own image --quiet --change LABEL_a=b_ostler.owner=x",
            "podman import - --change=LABEL_ostler.instance=x image",
            "podman build --quiet --label ostler.instance=x .",
            "podman build . -t image --pull --label=ostler.call=x",
        ] {
            assert!(cleared(line).is_err(), "{line}");
        }
        assert!(cleared("podman commit own -- --change LABEL_ostler.instance=x").is_ok());
    }
}
