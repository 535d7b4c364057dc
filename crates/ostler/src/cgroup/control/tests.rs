//! Tests on plain directories with the kernel's file names, because a machine offers only one cgroup version.
//! `tests/limits.rs` tests the effect in the kernel.

use super::*;

/// A directory that is removed at the end of the test.
struct Directory(PathBuf);

impl Directory {
    fn with(files: &[(&str, &str)]) -> Self {
        let path =
            std::env::temp_dir().join(format!("ostler-unit-{}", InstanceId::random().unwrap()));
        fs::create_dir(&path).unwrap();
        for (name, content) in files {
            fs::write(path.join(name), content).unwrap();
        }
        Self(path)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap()
    }

    fn control(&self, limit: Limit) -> Control {
        Control { limit, version: Version::V2, directory: self.0.clone() }
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn memory() -> Limit {
    Limit::Memory("64m".parse().unwrap())
}

#[test]
fn a_controller_of_v2_is_set_in_the_leaf() {
    let files = [("memory.max", ""), ("memory.swap.max", ""), ("cpu.max", ""), ("pids.max", "")];
    let leaf = Directory::with(&files);
    leaf.control(memory()).make(0).unwrap();
    leaf.control(Limit::Cpus("1.5".parse().unwrap())).make(0).unwrap();
    leaf.control(Limit::Pids(NonZeroU64::new(10).unwrap())).make(1).unwrap();
    assert_eq!(
        (leaf.read("memory.max"), leaf.read("memory.swap.max")),
        ("67108864".into(), "0".into())
    );
    assert_eq!(
        (leaf.read("cpu.max"), leaf.read("pids.max")),
        ("150000 100000".into(), "11".into())
    );
}

#[test]
fn a_file_that_the_kernel_does_not_offer_is_never_made() {
    let leaf = Directory::with(&[]);
    assert!(leaf.control(memory()).make(0).is_err());
    assert_eq!(fs::read_dir(&leaf.0).unwrap().count(), 0);
}

#[test]
fn only_kills_of_the_memory_limit_are_counted() {
    let reached = Directory::with(&[("memory.events", "low 0\nmax 7\noom 1\noom_kill 2\n")]);
    let expected = Excess::Memory { limit: "64m".parse().unwrap(), killed: 2 };
    assert_eq!(reached.control(memory()).excess(), Some(expected));
    let machine = Directory::with(&[("memory.events", "low 0\nmax 0\noom 0\noom_kill 2\n")]);
    assert_eq!(machine.control(memory()).excess(), None);
}

#[test]
fn a_controller_is_only_used_where_it_is_handed_down() {
    let own = Directory::with(&[("cgroup.subtree_control", "cpu memory\n")]);
    let leaf = own.0.join("ostler-x");
    assert!(is_handed_down(&leaf, "memory"));
    assert!(!is_handed_down(&leaf, "pids"));
}
