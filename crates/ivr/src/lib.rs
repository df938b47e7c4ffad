//! Programmable voice: RCML and TwiML documents to typed verbs, and the interpreter of one call.
//!
//! The way of a call: the driver (the crate `voice`) makes a [`Script`] with the call's facts and the first URL, gives it the response to each
//! request as bytes, [`Document::parse`] makes verbs of them, and the script performs one after the other by effects. Nothing here waits, connects or
//! reads a clock.
//!
//! Bytes and time in, effects out. The caller that drives a [`Script`] fetches, plays, dials and records;
//! this crate decides.

#![warn(missing_docs)]

pub mod document;
pub mod dry_run;
pub mod limits;
pub mod request;
pub mod script;
pub mod sid;
pub mod signature;

pub use document::{Document, Note, Severity};
pub use script::{Effect, Script};
