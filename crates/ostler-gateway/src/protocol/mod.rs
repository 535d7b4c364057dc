//! Protocol rules for single messages. No module here knows a client, a server or a connection.

pub(crate) mod batch;
pub(crate) mod initialize;
pub(crate) mod lists;
pub(crate) mod log_level;
pub(crate) mod message;
pub(crate) mod names;
pub(crate) mod params;
pub(crate) mod roots;
pub(crate) mod terms;
pub(crate) mod uris;
pub(crate) mod version;
