//! Description of the machine in reports.

use std::fs;

use rustix::process::{Resource, getrlimit, setrlimit};

use std::io;

/// One line for the head of the report; names nothing that identifies the machine.
pub fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = first_line("/proc/sys/kernel/osrelease");
    let version: Vec<&str> = kernel.split(['.', '-']).take(2).collect();
    format!("{cores} cores, Linux {}, load before {}\n", version.join("."), load())
}

/// The load of the last minute.
pub fn load() -> String {
    first_line("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned()
}

/// Hundreds of servers need more descriptors than the usual soft limit.
pub fn raise_descriptor_limit() -> io::Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    Ok(())
}

fn first_line(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().next().unwrap_or_default().to_owned()
}
