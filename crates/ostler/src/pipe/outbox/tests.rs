use std::sync::Arc;

use super::*;

/// A pipe with a scripted result for each write.
struct Script<S>(S);

impl<S: FnMut(&[u8]) -> Poll<io::Result<usize>> + Unpin> AsyncWrite for Script<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        (self.0)(bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

type Heard = Arc<Mutex<Vec<String>>>;

/// An outbox that runs `meanwhile` during the first write, and a record of all writes.
fn disturbed(meanwhile: impl FnOnce(&Outbox) + Send + Unpin + 'static) -> (Arc<Outbox>, Heard) {
    let (outbox, heard) = (Arc::new(Outbox::default()), Heard::default());
    let (weak, list) = (Arc::downgrade(&outbox), Arc::clone(&heard));
    let mut meanwhile = Some(meanwhile);
    let steps = move |bytes: &[u8]| {
        list.lock().unwrap().push(String::from_utf8_lossy(bytes).into_owned());
        if let (Some(meanwhile), Some(outbox)) = (meanwhile.take(), weak.upgrade()) {
            meanwhile(&outbox);
        }
        Poll::Ready(Ok(bytes.len()))
    };
    outbox.open(Script(steps));
    (outbox, heard)
}

fn say(outbox: &Outbox, text: &'static str) -> Result<(), SendError> {
    outbox.send(Bytes::from_static(text.as_bytes()), 1000)
}

#[test]
fn lines_queued_during_a_write_are_written_together() {
    let (outbox, heard) = disturbed(|outbox| {
        say(outbox, "two\n").unwrap();
        say(outbox, "three\n").unwrap();
    });
    say(&outbox, "one\n").unwrap();
    assert_eq!(*heard.lock().unwrap(), ["one\n", "two\nthree\n"]);
    assert_eq!(outbox.waiting(), 0);
}

#[test]
fn a_pipe_closed_during_a_write_is_not_written_to_again() {
    let (outbox, heard) = disturbed(|outbox| {
        say(outbox, "two\n").unwrap();
        outbox.close();
        assert_eq!(say(outbox, "three\n"), Err(SendError::Closed));
    });
    say(&outbox, "one\n").unwrap();
    assert_eq!(*heard.lock().unwrap(), ["one\n"]);
    assert_eq!(say(&outbox, "four\n"), Err(SendError::Closed));
    assert_eq!(outbox.waiting(), 0);
}

#[test]
fn a_failed_write_is_reported_only_to_callers_whose_line_was_not_written() {
    for (own, fate) in [(true, Ok(())), (false, Err(SendError::Closed))] {
        let outbox = Arc::new(Outbox::default());
        let weak = Arc::downgrade(&outbox);
        let mut is_first = true;
        let steps = move |bytes: &[u8]| {
            if let Some(outbox) = weak.upgrade().filter(|_| is_first) {
                say(&outbox, "of another\n").unwrap();
            }
            let is_read = mem::take(&mut is_first) && own;
            let result =
                if is_read { Ok(bytes.len()) } else { Err(io::ErrorKind::BrokenPipe.into()) };
            Poll::Ready(result)
        };
        outbox.open(Script(steps));
        assert_eq!(say(&outbox, "own\n"), fate);
        assert_eq!(say(&outbox, "later\n"), Err(SendError::Closed));
    }
}

#[test]
fn a_caller_writes_for_others_only_a_few_times() {
    let outbox = Arc::new(Outbox::default());
    let weak = Arc::downgrade(&outbox);
    let steps = move |bytes: &[u8]| {
        if let Some(outbox) = weak.upgrade() {
            say(&outbox, "more\n").unwrap();
        }
        Poll::Ready(Ok(bytes.len()))
    };
    outbox.open(Script(steps));
    say(&outbox, "own\n").unwrap();
    assert_eq!(outbox.waiting(), "more\n".len());
}

#[tokio::test]
async fn the_flush_task_writes_queued_lines_together() {
    let (outbox, heard) = disturbed(|_| {});
    for line in ["one\n", "two\n", "three\n"] {
        outbox.send_along(Bytes::from_static(line.as_bytes()), 1000).unwrap();
    }
    assert!(heard.lock().unwrap().is_empty());
    tokio::select! {
        stuck = outbox.flush(|| Duration::from_secs(1)) => panic!("{stuck:?}"),
        () = async { while outbox.waiting() > 0 { yield_now().await } } => {}
    }
    assert_eq!(*heard.lock().unwrap(), ["one\ntwo\nthree\n"]);
}

#[tokio::test]
async fn a_full_pipe_is_flushed_in_order_when_it_is_read() {
    let (mut reader, writer) = tokio::io::duplex(8);
    let outbox = Outbox::default();
    outbox.open(writer);
    for line in ["first\n", "second\n", "third\n"] {
        outbox.send(Bytes::from_static(line.as_bytes()), 1000).unwrap();
    }
    assert_eq!(outbox.waiting(), "first\nsecond\nthird\n".len() - 8);
    let read = async {
        let mut text = [0; 19];
        tokio::io::AsyncReadExt::read_exact(&mut reader, &mut text).await.unwrap();
        text
    };
    tokio::select! {
        stuck = outbox.flush(|| Duration::from_mins(1)) => panic!("{stuck:?}"),
        text = read => assert_eq!(&text, b"first\nsecond\nthird\n"),
    }
    outbox.drained().await;
    assert_eq!(outbox.waiting(), 0);
}

#[test]
fn the_flush_task_knows_of_a_broken_pipe_as_soon_as_the_sender_does() {
    let outbox = Outbox::default();
    outbox.open(Script(|_: &[u8]| Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))));
    let mut flush = std::pin::pin!(outbox.flush(|| Duration::from_secs(1)));
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(flush.as_mut().poll(&mut cx), Poll::Pending);
    assert_eq!(say(&outbox, "one\n"), Err(SendError::Closed));
    assert_eq!(flush.as_mut().poll(&mut cx), Poll::Ready(Stuck::Closed));
}
