//! BOSH (XEP-0124), and XMPP over it (XEP-0206): a stream in the bodies of HTTP requests and their answers.
//!
//! A [`Session`] puts requests in order, keeps them waiting and remembers their answers. Their content
//! becomes an [`Input`] for the stream ([`C2s`](crate::c2s::C2s) with `Framing::Bodies`); the stream's output
//! goes into the next answer. It knows neither HTTP nor the clock.

mod request;
mod session;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use request::Request;
pub use session::{Input, Outbox, Reply, Session};

use crate::limits;
use crate::{Level, Specification};

/// Specifications of XMPP over HTTP.
pub const SPECIFICATIONS: &[Specification] = &[
    Specification {
        name: "XEP-0124",
        title: "Bidirectional-streams Over Synchronous HTTP (BOSH)",
        version: "1.11.2",
        level: Level::Complete,
        file: "crates/xmpp/src/bosh/session.rs",
        note: "one stream a session; no reports of lost answers, no other charsets, no compressed bodies",
    },
    Specification {
        name: "XEP-0206",
        title: "XMPP Over BOSH",
        version: "1.4",
        level: Level::Complete,
        file: "crates/xmpp/src/bosh/session.rs",
        note: "",
    },
    Specification {
        name: "XEP-0156",
        title: "Discovering Alternative XMPP Connection Methods",
        version: "1.4.0",
        level: Level::Complete,
        file: "crates/xmpp-io/src/streams/http/route.rs",
        note: "the server's own HTTP answers host-meta; at port 443 of the domain something has to lead there",
    },
];

/// The same for all sessions.
#[derive(Clone, Debug)]
pub struct BoshSettings {
    /// Longest time that a request waits for its answer.
    pub wait: Duration,
    /// Requests that wait at the same time, at most.
    pub hold: u32,
    /// Time without a request after which the client is gone.
    pub inactivity: Duration,
    /// The same of a client that polls.
    pub inactivity_of_polling: Duration,
    /// Empty requests come no faster than this.
    pub polling: Duration,
    /// Longest pause that a client may ask for.
    pub max_pause: Duration,
}

impl Default for BoshSettings {
    fn default() -> BoshSettings {
        BoshSettings {
            wait: limits::BOSH_WAIT,
            hold: limits::BOSH_HOLD,
            inactivity: limits::BOSH_INACTIVITY,
            inactivity_of_polling: limits::BOSH_INACTIVITY_OF_POLLING,
            polling: limits::BOSH_POLLING,
            max_pause: limits::BOSH_MAX_PAUSE,
        }
    }
}

/// Why a session ends (XEP-0124 §17.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// `bad-request`.
    BadRequest,
    /// `host-unknown`.
    HostUnknown,
    /// `internal-server-error`.
    InternalServerError,
    /// `item-not-found`.
    ItemNotFound,
    /// `other-request`.
    OtherRequest,
    /// `policy-violation`.
    PolicyViolation,
    /// `remote-stream-error`.
    RemoteStreamError,
    /// `system-shutdown`.
    SystemShutdown,
}

impl Condition {
    /// The condition's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Condition::BadRequest => "bad-request",
            Condition::HostUnknown => "host-unknown",
            Condition::InternalServerError => "internal-server-error",
            Condition::ItemNotFound => "item-not-found",
            Condition::OtherRequest => "other-request",
            Condition::PolicyViolation => "policy-violation",
            Condition::RemoteStreamError => "remote-stream-error",
            Condition::SystemShutdown => "system-shutdown",
        }
    }

    /// The condition for a stream error, or for a stream that ends without one.
    pub fn of_stream(error: Option<&str>) -> Option<Condition> {
        match error? {
            "host-unknown" => Some(Condition::HostUnknown),
            "system-shutdown" => Some(Condition::SystemShutdown),
            _ => Some(Condition::RemoteStreamError),
        }
    }

    /// §17.1: for clients older than these conditions.
    fn legacy_status(self) -> u16 {
        match self {
            Condition::BadRequest => 400,
            Condition::PolicyViolation => 403,
            Condition::ItemNotFound => 404,
            _ => 200,
        }
    }
}
