//! Scenarios from captures: the SIP of a pcap or pcapng file, call by call, written as a caller's and a callee's scenario.
//!
//! [`read_capture`] puts datagrams and TCP streams together and finds SIP messages in them, [`recorded_calls`] tells the calls apart,
//! [`scenarios`] writes both ends of one. No socket, no clock, no file: bytes in, texts out.

#![warn(missing_docs)]

mod calls;
mod capture;
pub mod limits;
mod media_streams;
mod message;
mod packets;
mod pcap;
mod scenario;
mod tcp;
#[cfg(test)]
mod tests;

pub use calls::{RecordedCall, RecordedMessage, recorded_calls};
pub use capture::{CapturedMessage, CapturedSip, TransportName, read_capture};
pub use message::{SipMessage, StartLine};
pub use pcap::CaptureError;
pub use scenario::{RecordOptions, RecordedFile, RecordedScenarios, scenarios};
