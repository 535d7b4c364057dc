//! A server driven by a test through a socket.
#![expect(clippy::expect_used, reason = "a test program")]
#![expect(clippy::disallowed_methods, reason = "a server speaks on stdout")]

use std::io;
use std::os::unix::net::UnixStream;

fn main() {
    let path = std::env::args_os().nth(1).expect("a socket");
    let mut strings = UnixStream::connect(path).expect("a listening test");
    let mut heard = strings.try_clone().expect("a second end");
    let hear = move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut heard);
        let _ = heard.shutdown(std::net::Shutdown::Write);
    };
    std::thread::Builder::new().spawn(hear).expect("a thread");
    // Flushes each line, because a test waits for complete lines.
    let mut stdout = io::stdout().lock();
    let mut buffer = vec![0; 65536];
    while let Ok(read @ 1..) = io::Read::read(&mut strings, &mut buffer) {
        if io::Write::write_all(&mut stdout, &buffer[..read]).is_err() {
            return;
        }
        let _ = io::Write::flush(&mut stdout);
    }
}
