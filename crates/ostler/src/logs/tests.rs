use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::file::generation;
use super::*;
use crate::id::InstanceId;

fn entries(text: &[u8]) -> Vec<Entry<'static>> {
    text.split(|byte| *byte == b'\n').filter_map(Entry::parse).collect()
}

fn texts(text: &[u8]) -> Vec<String> {
    entries(text).into_iter().map(|entry| entry.text.into_owned()).collect()
}

/// A log in a directory of its own.
fn log() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let log = directory.path().join("logs/a.log");
    (directory, log)
}

/// The files of a log that exist.
fn files(log: &Path) -> Vec<PathBuf> {
    let old = (1..10).map(|age| generation(log, age));
    old.chain([log.to_owned()]).filter(|path| path.exists()).collect()
}

fn all_lines(log: &Path) -> Vec<String> {
    new_lines(&mut LogReader::new(log.to_owned()))
}

fn new_lines(reader: &mut LogReader) -> Vec<String> {
    let mut lines = Vec::new();
    reader.read(|entry| lines.push(entry.text.into_owned())).unwrap();
    lines
}

fn line(text: &str) -> Vec<u8> {
    let mut block = Vec::new();
    Recorder::new(None).write(SystemTime::now(), format!("{text}\n").as_bytes(), &mut block);
    block
}

#[test]
fn lines_are_put_together_and_know_their_instance() {
    let (mut recorder, mut block) = (Recorder::new(Some(3)), Vec::new());
    let (id, at) = (InstanceId::random().unwrap(), SystemTime::UNIX_EPOCH + Duration::from_secs(7));
    recorder.identify(id);
    for part in ["one\r\ntw", "o\n", "\n", "thr", "ee"] {
        recorder.write(at, part.as_bytes(), &mut block);
    }
    recorder.note(at, "it has exited", &mut block);
    recorder.finish(at, &mut block);
    assert_eq!(texts(&block), ["one", "two", "", "three", "it has exited"]);
    for entry in entries(&block) {
        assert_eq!((entry.at, entry.instance, entry.number), (7000, Some(id), Some(3)));
        let is_ours = entry.text == "it has exited";
        assert_eq!(entry.source, if is_ours { Source::Ostler } else { Source::Stderr });
    }
}

#[test]
fn an_endless_line_is_stored_once_and_cut() {
    let (mut recorder, mut block) = (Recorder::new(None), Vec::new());
    for _ in 0..1000 {
        recorder.write(SystemTime::now(), &[b'x'; 1000], &mut block);
    }
    recorder.write(SystemTime::now(), b"end\nnext\n", &mut block);
    let stored = entries(&block);
    assert_eq!(stored.len(), 2);
    assert!(stored[0].cut && stored[0].text.len() == LONGEST_LINE && !stored[1].cut);
    assert_eq!(stored[1].text, "next");
}

#[test]
fn garbage_stays_one_line_of_text() {
    let (mut recorder, mut block) = (Recorder::new(None), Vec::new());
    recorder.write(SystemTime::now(), b"\xff\xfe\0\x1b[2J\"\\\n", &mut block);
    assert_eq!(texts(&block), ["\u{fffd}\u{fffd}\0\u{1b}[2J\"\\"]);
    assert_eq!(String::from_utf8(block).unwrap().lines().count(), 1);
}

#[test]
fn a_flood_is_dropped_counted_and_bounded_and_the_next_second_is_kept() {
    let (mut recorder, mut block) = (Recorder::new(None), Vec::new());
    let now = SystemTime::now();
    let flood = "a line of a flood\n".repeat(1000);
    let mut stored = 0;
    for _ in 0..100 {
        recorder.write(now, flood.as_bytes(), &mut block);
        stored += entries(&std::mem::take(&mut block)).len();
    }
    assert!(stored > 1000 && stored < 20_000, "{stored}");
    recorder.write(now + Duration::from_secs(1), b"later\n", &mut block);
    let after = texts(&block);
    assert_eq!(
        after[0],
        format!("lines dropped: {} (more than 256 KiB/s, or a slow disk)", 100_000 - stored)
    );
    assert_eq!(after[1..], ["later"]);
    // A writer that does not take the block away does not let it grow.
    block.clear();
    for second in 2..50 {
        recorder.write(now + Duration::from_secs(second), flood.as_bytes(), &mut block);
    }
    let most = MOST_WAITING + 1000;
    assert!((MOST_WAITING..most).contains(&block.len()), "{}", block.len());
    // Then other instances that share the block lose lines, and count them.
    let mut other = Recorder::new(None);
    other.write(now, b"other\n", &mut block);
    block.clear();
    other.write(now, b"again\n", &mut block);
    assert_eq!(texts(&block), ["lines dropped: 1 (more than 256 KiB/s, or a slow disk)", "again"]);
}

#[test]
fn a_log_is_rotated_bounded_and_private() {
    let (_directory, log) = log();
    let mut writer = LogWriter::new(log.clone());
    for number in 0..1000 {
        writer.append(&line(&format!("{number} {}", "x".repeat(8000))));
    }
    let files = files(&log);
    assert_eq!(files.len(), KEPT + 1);
    for file in &files {
        let found = fs::metadata(file).unwrap();
        assert!(found.len() <= LARGEST, "{}", found.len());
        assert_eq!(found.permissions().mode() & 0o777, 0o600);
    }
    let mode = fs::metadata(log.parent().unwrap()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
    // The latest lines, in order and without a hole.
    let numbers = all_lines(&log);
    let numbers: Vec<usize> =
        numbers.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (1000 - numbers.len()..1000).collect::<Vec<_>>());
}

#[test]
fn two_writers_lose_nothing_but_the_oldest() {
    let (_directory, log) = log();
    let most = 300;
    std::thread::scope(|scope| {
        for name in ["a", "b"] {
            let mut writer = LogWriter::new(log.clone());
            scope.spawn(move || {
                for number in 0..most {
                    writer.append(&line(&format!("{name} {number} {}", "x".repeat(8000))));
                }
                assert!(!writer.is_failing());
            });
        }
    });
    let lines = all_lines(&log);
    for name in ["a ", "b "] {
        let own: Vec<&String> = lines.iter().filter(|line| line.starts_with(name)).collect();
        assert!(own.len() > 100, "{}", own.len());
        assert!(own.last().unwrap().starts_with(&format!("{name}{} ", most - 1)));
    }
}

#[test]
fn a_log_that_another_process_rotates_for_ever_stays_bounded() {
    let (_directory, log) = log();
    let mut writer = LogWriter::new(log.clone());
    writer.append(&line("first"));
    let directory = File::open(log.parent().unwrap()).unwrap();
    directory.try_lock().unwrap();
    for _ in 0..500 {
        writer.append(&line(&"x".repeat(8000)));
    }
    assert!(writer.is_failing());
    assert!(fs::metadata(&log).unwrap().len() <= 2 * LARGEST + (16 << 10));
    drop(directory);
    writer.append(&line("again"));
    let later = all_lines(&log).split_off(1);
    let lost = later.iter().find(|line| line.starts_with("lines that ")).unwrap();
    assert!(lost.ends_with(" (the log is being rotated)"), "{lost}");
    assert_eq!(later.last().unwrap(), "again");
}

#[test]
fn what_could_not_be_written_is_counted_in_the_log() {
    let (directory, log) = log();
    // Its place is taken by a file, which fails also for root.
    fs::write(directory.path().join("logs"), "").unwrap();
    let mut writer = LogWriter::new(log.clone());
    writer.append(&[line("one"), line("two")].concat());
    writer.append(&line("three"));
    assert!(writer.is_failing());
    fs::remove_file(directory.path().join("logs")).unwrap();
    writer.append(&line("four"));
    let lines = all_lines(&log);
    assert!(lines[0].starts_with("lines that could not be written: 3 ("), "{lines:?}");
    assert_eq!(lines[1..], ["four"]);
}

#[test]
fn a_half_written_line_does_not_swallow_the_next_one() {
    let (_directory, log) = log();
    let mut writer = LogWriter::new(log.clone());
    writer.append(&line("whole"));
    let half = line("half");
    fs::write(&log, [fs::read(&log).unwrap(), half[..half.len() / 2].to_vec()].concat()).unwrap();
    writer.append(&line("next"));
    assert_eq!(all_lines(&log), ["whole", "next"]);
}

#[test]
fn links_and_devices_are_neither_written_nor_read() {
    let (directory, log) = log();
    let target = directory.path().join("precious");
    fs::write(&target, "precious\n").unwrap();
    fs::create_dir_all(log.parent().unwrap()).unwrap();
    symlink(&target, &log).unwrap();
    let mut writer = LogWriter::new(log.clone());
    writer.append(&line("x"));
    assert!(writer.is_failing());
    assert_eq!(fs::read_to_string(&target).unwrap(), "precious\n");
    let refusal = LogReader::new(log.clone()).read(|_| ()).unwrap_err();
    assert_eq!(refusal.path, log);
    // A link in place of the directory is refused as well.
    let places = Places::new([directory.path().join("state")]);
    fs::create_dir_all(directory.path().join("state")).unwrap();
    symlink(directory.path(), directory.path().join("state/logs")).unwrap();
    let refusal = Logs::create(&places).unwrap_err().to_string();
    assert!(refusal.ends_with("state/logs is a symbolic link"), "{refusal}");
    assert_eq!(Logs::all(&places), []);
}

#[test]
fn logs_of_servers_that_write_no_more_are_removed_in_time() {
    let (_directory, log) = log();
    let logs = log.parent().unwrap();
    LogWriter::new(log.clone()).append(&line("x"));
    let long_ago = SystemTime::now() - Duration::from_hours(24 * 31);
    let old = logs.join("old.log.2");
    fs::write(&old, "x").unwrap();
    File::open(&old).unwrap().set_modified(long_ago).unwrap();
    let foreign = logs.join("notes.txt");
    fs::write(&foreign, "x").unwrap();
    File::open(&foreign).unwrap().set_modified(long_ago).unwrap();
    for number in 0..1100 {
        fs::write(logs.join(format!("s{number}.log")), "x").unwrap();
    }
    let big = generation(&logs.join("big.log"), 1);
    let file = File::create(&big).unwrap();
    file.set_len(300 << 20).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_hours(1)).unwrap();
    LogWriter::new(logs.join("new.log")).append(&line("x"));
    assert!(!old.exists() && !big.exists() && foreign.exists() && logs.join("new.log").exists());
    assert!(fs::read_dir(logs).unwrap().count() <= 1001);
}

#[test]
fn servers_with_a_log_are_listed_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let logs = Logs::create(&Places::new([directory.path().join("state")])).unwrap();
    for server in ["github", "../evil", ""] {
        LogWriter::new(logs.path(server)).append(&line("x"));
    }
    let mut servers = logs.servers();
    servers.sort_unstable();
    assert_eq!(servers, ["", "../evil", "github"]);
    assert_eq!(Logs::all(&Places::new([directory.path().join("state")])), [logs]);
}

#[test]
fn a_reader_follows_a_log_across_rotations_and_repeats_nothing() {
    let (_directory, log) = log();
    let (mut writer, mut reader) = (LogWriter::new(log.clone()), LogReader::new(log.clone()));
    assert_eq!(new_lines(&mut reader), [""; 0]);
    let mut seen = Vec::new();
    for number in 0..1000 {
        writer.append(&line(&format!("{number} {}", "x".repeat(8000))));
        // Several rotations may happen between two reads.
        if number % 200 == 0 {
            seen.extend(new_lines(&mut reader));
        }
    }
    seen.extend(new_lines(&mut reader));
    let numbers = seen.iter().map(|line| line.split(' ').next().unwrap().parse().unwrap());
    assert_eq!(numbers.collect::<Vec<u32>>(), (0..1000).collect::<Vec<_>>());
    assert_eq!(new_lines(&mut reader), [""; 0]);
}

#[test]
fn a_reader_sees_what_a_slow_writer_appends_to_a_rotated_file() {
    let (_directory, log) = log();
    LogWriter::new(log.clone()).append(&line("one"));
    let mut reader = LogReader::new(log.clone());
    assert_eq!(new_lines(&mut reader), ["one"]);
    fs::rename(&log, generation(&log, 1)).unwrap();
    LogWriter::new(log.clone()).append(&line("three"));
    assert_eq!(new_lines(&mut reader), ["three"]);
    LogWriter::new(generation(&log, 1)).append(&line("two"));
    assert_eq!(new_lines(&mut reader), ["two"]);
}

#[test]
fn a_reader_skips_endless_lines_and_starts_over_when_the_log_was_emptied() {
    let (_directory, log) = log();
    let mut writer = LogWriter::new(log.clone());
    writer.append(&line("one"));
    writer.append(&vec![b'x'; 1 << 20]);
    writer.append(&line("two"));
    let mut reader = LogReader::new(log.clone());
    assert_eq!(new_lines(&mut reader), ["one", "two"]);
    File::options().write(true).open(&log).unwrap().set_len(0).unwrap();
    assert_eq!(new_lines(&mut reader), [""; 0]);
    writer.append(&line("three"));
    assert_eq!(new_lines(&mut reader), ["three"]);
}

#[test]
fn secrets_are_masked_before_they_are_stored() {
    let (mut recorder, mut block) = (Recorder::new(None), Vec::new());
    let long = "word ".repeat(LONGEST_LINE / 5 - 1);
    for text in ["API_TOKEN=s3cret\n", "Authorization: Bearer s3c", "ret\n", &long, "s3cret12\n"] {
        recorder.write(SystemTime::now(), text.as_bytes(), &mut block);
    }
    let stored = String::from_utf8(block.clone()).unwrap();
    assert!(!stored.contains("s3c"), "{stored}");
    assert_eq!(texts(&block)[..2], ["API_TOKEN=…", "Authorization: Bearer …"]);
    assert_eq!(texts(&block)[2], long.trim_end());
    assert!(entries(&block)[2].cut);
}
