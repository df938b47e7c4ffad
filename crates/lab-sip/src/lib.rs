//! The SIP half of the load lab: SIPp's scenarios compiled, one call as a pure machine, and its media.
//!
//! `lab::engine` owns the shards, their sockets for signalling and the clock; it gives each call messages and time, and performs its
//! effects. Also here, because both halves and the engine use them: the options of a run, its counters and its tracer.

#![warn(missing_docs)]

pub mod auth;
pub mod call;
mod distribution;
pub mod inject;
pub mod local_time;
pub mod options;
pub mod regex;
pub mod rtp;
pub mod scenario;
pub mod stats;
pub mod trace;
