//! Benchmarks of the fence.
fn main() {
    ostler::guardian::run_if_asked();
}
