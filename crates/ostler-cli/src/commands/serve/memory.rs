//! Allocator settings that return the memory of large messages to the system.

/// Smallest block with a mapping of its own. Calls are far smaller.
#[cfg(target_env = "gnu")]
const LARGE: std::ffi::c_int = 1 << 20;

/// Returns large blocks to the system as soon as they are freed.
///
/// By default glibc raises the threshold for separate mappings to the size of the largest block ever freed, and keeps up to twice
/// that in each thread's heap: after a few messages of 16 MiB the gateway would hold more than 100 MiB of unused memory.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator's settings have no safe wrapper")]
pub(super) fn return_large_blocks() {
    // SAFETY: called before the gateway has another thread; the call changes a number in the allocator.
    // If the call fails, the allocator keeps its default.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Other allocators keep their defaults.
#[cfg(not(target_env = "gnu"))]
pub(super) fn return_large_blocks() {}
