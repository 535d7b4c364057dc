//! Checks that work grows linearly with input size.

use crate::cpu_ticks_of;

/// Four times the size takes four times the work if that grows linearly, and sixteen times if it grows with the square.
const LARGER: usize = 4;
const MOST: u64 = 10;
/// Noise of the processor-time clock, in ticks.
const NOISE: u64 = 2;

/// Panics unless the processor time of this process for `work` grows about linearly with its size.
///
/// Time of the processor, because a busy machine does not change it. `small` has to be large enough that work which grows
/// with its square would take seconds for the larger size.
pub fn assert_linear(small: usize, mut work: impl FnMut(usize)) {
    let mut ticks = |size: usize| {
        let before = cpu_ticks_of(std::process::id());
        work(size);
        cpu_ticks_of(std::process::id()) - before
    };
    let (one, other) = (ticks(small), ticks(small * LARGER));
    assert!(
        other <= MOST * (one + NOISE),
        "a size of {small} takes {one} ticks of the processor, {LARGER} times that takes {other}"
    );
}
