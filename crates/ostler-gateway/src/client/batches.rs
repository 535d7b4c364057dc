//! The answers to requests that came as one batch, collected until all of them are there.

use std::collections::HashMap;

use bytes::Bytes;

/// The batches of one client that are not answered yet.
#[derive(Debug, Default)]
pub(crate) struct Batches {
    /// The batch that each request without an answer came with.
    of: HashMap<Bytes, u64>,
    open: HashMap<u64, Batch>,
    last: u64,
}

/// One batch.
#[derive(Debug)]
pub(crate) struct Batch {
    /// All its requests.
    pub(crate) ids: Vec<Bytes>,
    answers: Vec<Bytes>,
    /// Requests that have no answer yet.
    left: usize,
}

/// What becomes of an answer.
#[derive(Debug)]
pub(crate) enum Answered {
    /// It is for a request that came alone.
    Alone,
    /// It waits for the others.
    Waits,
    /// It was the last one of this batch.
    All(Batch),
}

impl Batches {
    /// These requests came as one; none of them is in flight already.
    pub(crate) fn expect(&mut self, ids: Vec<Bytes>) {
        if ids.is_empty() {
            return;
        }
        self.last += 1;
        self.of.extend(ids.iter().map(|id| (id.clone(), self.last)));
        let left = ids.len();
        self.open.insert(self.last, Batch { ids, answers: Vec::new(), left });
    }

    /// A request is answered with this line, or will have no answer.
    pub(crate) fn answer(&mut self, id: &[u8], line: Option<&Bytes>) -> Answered {
        if self.of.is_empty() {
            return Answered::Alone;
        }
        let Some(number) = self.of.remove(id) else { return Answered::Alone };
        let Some(batch) = self.open.get_mut(&number) else { return Answered::Alone };
        batch.answers.extend(line.map(|line| line.slice(..line.len() - 1)));
        batch.left -= 1;
        if batch.left > 0 {
            return Answered::Waits;
        }
        self.open.remove(&number).map_or(Answered::Waits, Answered::All)
    }
}

impl Batch {
    /// All answers as one line, if there is any.
    pub(crate) fn line(&self) -> Option<Bytes> {
        let line = [&b"["[..], &self.answers.join(&b","[..]), b"]\n"].concat();
        (!self.answers.is_empty()).then(|| line.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_is_answered_when_all_its_requests_are() {
        let mut batches = Batches::default();
        let [a, b, c] = ["1", "2", "3"].map(|id| Bytes::from_static(id.as_bytes()));
        let line = Bytes::from_static(b"{}\n");
        batches.expect(vec![a.clone(), b.clone()]);
        assert!(matches!(batches.answer(&c, Some(&line)), Answered::Alone));
        assert!(matches!(batches.answer(&b, Some(&line)), Answered::Waits));
        let Answered::All(batch) = batches.answer(&a, Some(&line)) else { panic!("not all") };
        assert_eq!(batch.line().unwrap(), "[{},{}]\n");
        batches.expect(vec![a.clone()]);
        let Answered::All(batch) = batches.answer(&a, None) else { panic!("not all") };
        assert_eq!(batch.line(), None);
    }
}
