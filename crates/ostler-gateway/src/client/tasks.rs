//! Owners of MCP tasks, for a client that sees all servers as one.
//!
//! A task (protocol version 2025-11-25) is created by one server, and later requests carry its id only. Ids are
//! passed on unchanged; if two servers use the same id, the later task hides the earlier one.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Most tasks that are remembered for one client; the oldest are forgotten first.
const MOST: usize = 1000;

/// Servers of one client's tasks, by task id.
#[derive(Debug, Default)]
pub(crate) struct TaskOwners {
    owners: HashMap<String, Arc<str>>,
    /// Task ids, the oldest first.
    order: VecDeque<String>,
}

impl TaskOwners {
    /// Stores the server that has created a task.
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

    /// The server that has created a task.
    pub(crate) fn get(&self, task: &str) -> Option<Arc<str>> {
        self.owners.get(task).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_remembered_tasks_is_bounded() {
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
