//! The load lab: SIPp's scenarios on all cores, media, search, plans and honest reports.

pub mod auth;
pub mod call;
pub mod cli;
pub mod control;
pub mod engine;
pub mod inject;
pub mod options;
pub mod regex;
pub mod rtp;
pub mod scenario;
pub mod screen;
pub mod session;
pub mod stats;
pub mod trace;
