//! A program that calls the guardian's entry point too late: it has a second thread already.
#![expect(clippy::expect_used, reason = "a test program")]

fn main() {
    let thread = std::thread::Builder::new().spawn(std::thread::park).expect("a thread");
    ostler::guardian::run_if_asked();
    thread.thread().unpark();
    thread.join().expect("a thread that ends");
}
