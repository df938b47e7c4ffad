//! The load lab: SIPp's scenarios on all cores, media, search, plans and honest reports.

pub mod auth;
pub mod call;
pub mod chat;
pub mod cli;
pub mod command;
pub mod control;
pub mod distribution;
pub mod engine;
pub mod fd;
pub mod find;
pub mod growth;
pub mod inject;
pub mod live;
mod local_time;
pub mod options;
pub mod plan;
pub mod prometheus;
pub mod regex;
pub mod report;
pub mod rtp;
pub mod scenario;
pub mod screen;
pub mod session;
pub mod stats;
pub mod threshold;
pub mod trace;
pub mod watch;
