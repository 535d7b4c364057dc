//! Host names in a static build.
//!
//! glibc loads the services that `/etc/nsswitch.conf` names as shared libraries, which need the libc of their machine. A
//! static program would run them beside its own libc, of another version. So a static build resolves names with the two
//! services that are linked into it: `/etc/hosts` and DNS.
#![expect(unsafe_code, reason = "no safe wrapper for a setting of the C library")]

use std::ffi::{CStr, c_char, c_int};

const DATABASE: &CStr = c"hosts";
const SERVICES: &CStr = c"files dns";

unsafe extern "C" {
    fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
}

/// Restricts the lookup of host names to the linked services. Called before any other thread exists.
pub(crate) fn use_linked_services() {
    // SAFETY: both arguments are constant strings that end with a NUL, and no other thread resolves a name meanwhile. An
    // error means that glibc does not know the database, and changes nothing.
    unsafe { __nss_configure_lookup(DATABASE.as_ptr(), SERVICES.as_ptr()) };
}
