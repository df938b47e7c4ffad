//! The load lab: the engine that runs calls (`lab_sip`) and users (`lab_xmpp`) on all cores, observers, reports (`lab_report`), search, plans and the
//! command line of `ringer`.
//!
//! A run in the order of its parts: `cli` or `plan` read what is wanted and build an [`engine::Setup`]; [`engine::Run`] binds the
//! sockets and starts one thread a shard; [`session::drive`] takes an interval from the run each second and gives it to the observers
//! (`screen`, `live`, `trace`, `prometheus`, `watch`, `report`), and lets the controllers (`control`, `find`) change the run.

#![warn(missing_docs)]

// Before the modules that print.
#[macro_use]
mod output;

pub mod cli;
pub mod command;
pub mod control;
mod dns;
pub mod engine;
pub mod fd;
pub mod find;
pub mod live;
pub mod plan;
pub mod prometheus;
pub mod report;
pub mod screen;
pub mod session;
pub mod threshold;
pub mod trace;
mod unanswered;
pub mod watch;
mod whole_file;
