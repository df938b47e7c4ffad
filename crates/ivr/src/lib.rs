//! Programmable voice: RCML and TwiML documents to typed verbs, and the interpreter of one call.
//!
//! Bytes and time in, effects out. The caller that drives a [`Script`] fetches, plays, dials and records;
//! this crate decides.

#![warn(missing_docs)]

pub mod document;
pub mod limits;
pub mod request;
pub mod script;
pub mod sid;
pub mod signature;

pub use document::{Document, Note, Severity};
pub use script::{Effect, Script};
