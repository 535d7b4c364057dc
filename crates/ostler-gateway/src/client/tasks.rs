//! Which server runs a task, for a client that sees all servers as one.
//!
//! A task (2025-11-25) is created by one server and asked for by its id alone. Ids are passed on as servers make them; if
//! two servers use the same id, the later task hides the earlier one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Tasks of one client whose servers are remembered; beyond that the oldest are forgotten.
const MOST: usize = 1000;

/// The servers of one client's tasks.
#[derive(Debug, Default)]
pub(crate) struct TaskOwners {
    owners: HashMap<String, Arc<str>>,
    /// Their ids, the oldest first.
    order: VecDeque<String>,
}

impl TaskOwners {
    /// A server has made a task.
    pub(crate) fn insert(&mut self, task: String, server: Arc<str>) {
        if self.owners.insert(task.clone(), server).is_none() {
            self.order.push_back(task);
        }
        if self.order.len() > MOST
            && let Some(oldest) = self.order.pop_front()
        {
            self.owners.remove(&oldest);
        }
    }

    /// The server that has made a task.
    pub(crate) fn get(&self, task: &str) -> Option<Arc<str>> {
        self.owners.get(task).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_remembered() {
        let mut owners = TaskOwners::default();
        for number in 0..3 * MOST {
            owners.insert(number.to_string(), "a".into());
            owners.insert("same".into(), "b".into());
        }
        assert!(owners.owners.len() <= MOST && owners.order.len() <= MOST);
        assert_eq!(owners.get("0"), None);
        assert_eq!(owners.get(&(3 * MOST - 1).to_string()).as_deref(), Some("a"));
    }
}
