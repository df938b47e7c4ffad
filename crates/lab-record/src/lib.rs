//! Scenarios from captures: the SIP of a pcap or pcapng file, call by call, written as a caller's and a
//! callee's scenario.
//!
//! The way of the bytes: `pcap` takes the link header off each frame and gives IP packets with their times;
//! `packets` puts fragments together and gives datagrams and segments; `tcp` puts segments in order and cuts
//! messages by Content-Length; `message` parses each; `calls` groups them by Call-ID and drops
//! retransmissions; `scenario` writes both ends as SIPp's XML. `media_streams` reads the same file a second
//! time for the RTP of one call.
//!
//! [`read_capture`] does the first half for the whole file, [`recorded_calls`] tells the calls apart,
//! [`scenarios`] writes both ends of one. No socket, no clock, no file: bytes in, texts out. The command
//! `ringer record` (crate `lab`) reads and writes the files.
//!
//! A capture comes from a stranger. Any bytes give messages, notes or a [`CaptureError`], never a panic, and
//! memory stays within `limits` and a multiple of the file.

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
