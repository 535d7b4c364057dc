//! The clients that use an instance.

use std::sync::{Arc, Weak};

use crate::in_flight::Attachment;

/// How many more there may be than at the last look before those that have gone are removed.
const SPARE: usize = 16;

/// The clients that use an instance.
#[derive(Debug, Default)]
pub(super) struct Attachments {
    all: Vec<Weak<Attachment>>,
    /// With so many, those that have gone are removed.
    most: usize,
}

impl Attachments {
    pub(super) fn add(&mut self, attachment: &Arc<Attachment>) {
        if self.all.len() >= self.most {
            self.all.retain(|one| one.strong_count() > 0);
            self.most = 2 * self.all.len() + SPARE;
        }
        self.all.push(Arc::downgrade(attachment));
    }

    /// Those that are there.
    pub(super) fn all(&self) -> impl Iterator<Item = Arc<Attachment>> {
        self.all.iter().filter_map(Weak::upgrade)
    }

    /// The one that was added last.
    pub(super) fn last(&self) -> Option<Arc<Attachment>> {
        self.all.iter().rev().find_map(Weak::upgrade)
    }

    /// The only one of which this is true.
    pub(super) fn only(&self, is: impl Fn(&Attachment) -> bool) -> Option<Arc<Attachment>> {
        let mut found = self.all().filter(|one| is(one));
        found.next().filter(|_| found.next().is_none())
    }
}
