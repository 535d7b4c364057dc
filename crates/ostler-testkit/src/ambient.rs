//! Inherited descriptors of the test process.
#![expect(
    unsafe_code,
    reason = "close_range on descriptors without an owner in this process has no safe wrapper"
)]

use std::io;

/// Sets close-on-exec on descriptors that the test runner left open (a build's job server, a terminal's pipes). Otherwise lists of
/// descriptors would depend on the runner, and a survivor would keep the runner's pipes open.
pub(crate) fn keep_descriptors_from_programs() {
    let flags = libc::CLOSE_RANGE_CLOEXEC.cast_signed();
    // SAFETY: nothing is closed; a flag is set on each descriptor that is passed to no program on purpose.
    let result = unsafe { libc::close_range(3, libc::c_uint::MAX, flags) };
    assert!(result == 0, "close_range: {}", io::Error::last_os_error());
}
