//! One module per command.

pub(crate) mod call;
pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod connect;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod down;
pub(crate) mod events;
pub(crate) mod example_server;
pub(crate) mod login;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod ps;
pub(crate) mod reap;
pub(crate) mod reload;
pub(crate) mod restart;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod serve;
pub(crate) mod sessions;
pub(crate) mod status;
pub(crate) mod stop;
pub(crate) mod tools;
pub(crate) mod warm;
pub(crate) mod why;
