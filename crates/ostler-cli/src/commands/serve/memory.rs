//! How the gateway's memory goes back to the system.

/// Calls are far smaller than this, so that none pays for a mapping of its own.
#[cfg(target_env = "gnu")]
const LARGE: std::ffi::c_int = 1 << 20;

/// Has large messages leave the process as soon as they are freed.
///
/// By itself glibc's allocator raises its limit for separate mappings to the size of the largest block that was ever
/// freed. From then on it keeps up to twice that in each thread's heap: after a few messages of 16 MiB the gateway
/// would hold 100 MiB and more that no client uses.
#[cfg(target_env = "gnu")]
#[expect(unsafe_code, reason = "the allocator's settings have no safe wrapper")]
pub(super) fn return_large_blocks() {
    // SAFETY: called before the gateway has another thread; the call changes a number in the allocator.
    // If it is refused, the allocator stays as it was.
    let _ = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Other allocators decide by themselves.
#[cfg(not(target_env = "gnu"))]
pub(super) fn return_large_blocks() {}
