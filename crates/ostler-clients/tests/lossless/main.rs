//! Edits change what they say, and no other byte.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that can't go on should stop")]
#![expect(
    clippy::format_push_string,
    clippy::struct_excessive_bools,
    reason = "random documents are put together as text"
)]

mod cases;
mod layout;
mod random;
