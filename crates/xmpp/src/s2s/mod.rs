//! Streams between servers (RFC 6120), of one shard: those that other servers open, and those that it opens itself.
//!
//! A domain of others is owned by one shard: the [`Servers`] there keep its stream, with the stanzas that
//! wait for it. A connection that another server opened stays where it was accepted. They exchange
//! [`ShardMessage`]s. The driver passes bytes and time in and performs each [`Effect`].
//!
//! Keys of dialback are an HMAC of a secret that all shards share, so any of them answers for any.
//!
//! TLS accepts every certificate in the handshake; the stream judges it afterwards, by domain and policy, and asks the
//! domain's web server about one that no authority signed for the domain ([`posh`]). No domain of ours is
//! another server's, in either direction ([`S2sSettings::demands`]).

mod backlog;
mod certificate;
mod dial;
pub mod dialback;
mod failed_pairs;
mod incoming;
pub mod locate;
mod outgoing;
mod outgoing_router;
mod policy;
mod posh;
mod receipt;
mod servers;
mod stream;
#[cfg(test)]
mod tests;
mod timers;

use std::borrow::Cow;
use std::time::Duration;

pub use certificate::Certificate;
pub use dialback::Verdict;
pub use policy::{Admission, Demands, Domains, Policy};
pub use posh::{
    CertificateHashes, PoshDocument, PoshFailure, PoshFault, PoshFetch, PoshFingerprints,
    url_of as posh_url_of,
};
pub use receipt::{OutboundStanza, Outcome, Receipt};
pub use servers::Servers;

use crate::stanza::{self, Condition, StanzaError};
use crate::{ConnectionId, Element, Level, ShardAddress, Specification, limits, ns};

/// The same for all shards of a server.
#[derive(Clone, Debug)]
pub struct S2sSettings {
    /// Served here: of accounts, rooms, services and components.
    pub domains: Vec<Box<str>>,
    /// STARTTLS can be done.
    pub tls: bool,
    /// The servers with which ours exchanges stanzas.
    pub policy: Policy,
    /// Bytes.
    pub max_stanza: usize,
    /// To find a server and connect to it.
    pub connect: Duration,
    /// From there until it lets us speak, and for a server that calls until it has authenticated.
    pub authorize: Duration,
    /// Without anything said a stream is closed.
    pub idle: Duration,
    /// The secret of dialback keys. The same for all shards.
    pub secret: [u8; 32],
    /// Certificates that no authority signed for their domain are looked up by POSH (RFC 7711).
    pub posh: bool,
}

impl S2sSettings {
    /// True if we serve the domain.
    pub fn is_local(&self, domain: &str) -> bool {
        self.domains.iter().any(|known| **known == *domain)
    }

    /// The demands on a stream with that domain. `None`: no stream with it is wanted, in either direction. A domain of
    /// ours, of a service or of a component is never another server's, whatever key or certificate is shown for it.
    pub fn demands(&self, domain: &str) -> Option<Demands> {
        if self.is_local(domain) { None } else { self.policy.demands(domain) }
    }
}

/// The security of a connection, at its begin or after a handshake.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Security {
    /// TLS protects the connection.
    pub encrypted: bool,
    /// When an authority that we trust vouches for it.
    pub certificate: Option<Certificate>,
    /// The hashes of the certificate that the peer has shown, with any signature. `None`: it has shown none, or one that is
    /// not valid at this time.
    pub presented: Option<Box<CertificateHashes>>,
}

impl Security {
    fn is_for(&self, domain: &str) -> bool {
        self.certificate.as_ref().is_some_and(|certificate| certificate.is_for(domain))
    }
}

/// A domain of ours and one of another server's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pair {
    /// The domain of ours.
    pub local: Box<str>,
    /// The domain of the other server.
    pub remote: Box<str>,
}

/// The question if that key is the other server's (XEP-0220 §2.4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyQuery {
    /// The domains of the stream.
    pub pair: Pair,
    /// The id of the stream on which it came.
    pub id: Box<str>,
    /// The key of dialback.
    pub key: Box<str>,
}

/// Why a way to another server does not lead there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The condition of the errors that senders get.
    pub condition: Condition,
    /// The description, for people.
    pub text: Box<str>,
}

impl Failure {
    /// A failure with its text for operators and senders.
    pub fn new(condition: Condition, text: impl Into<Box<str>>) -> Failure {
        Failure { condition, text: text.into() }
    }
}

/// A message between shards.
#[derive(Clone, Debug, PartialEq)]
pub enum ShardMessage {
    /// To the owner: ask the authoritative server. Answered by `Verified`.
    Verify {
        /// The connection of the stream.
        edge: ConnectionId,
        /// The key and the domains.
        question: KeyQuery,
    },
    /// To the owner: stanzas may go back over this connection (XEP-0288) ...
    Offer {
        /// The connection of the stream.
        edge: ConnectionId,
        /// The domains of the stream.
        pair: Pair,
    },
    /// ... and no more.
    Withdraw {
        /// The connection of the stream.
        edge: ConnectionId,
        /// The domains of the stream.
        pair: Pair,
    },
    /// The answer to `Verify`.
    Verified {
        /// The connection of the stream.
        edge: ConnectionId,
        /// The key and the domains.
        question: KeyQuery,
        /// The answer of the authoritative server.
        verdict: Verdict,
    },
    /// For the server at the other end.
    Over {
        /// The connection of the stream.
        edge: ConnectionId,
        /// The stanza.
        element: Box<Element>,
        /// The shard that waits for its outcome.
        receipt: Option<Receipt>,
    },
    /// To the owner: out to that server, by whatever way.
    Outbound {
        /// The stanza.
        element: Box<Element>,
    },
}

/// The recipient of a [`ShardMessage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Recipient<'a> {
    /// The shard that owns this domain of others, prepared: each spelling has the same.
    Owner(Cow<'a, str>),
    /// The shard that holds a connection.
    Shard(ShardAddress),
}

/// An effect, which the driver performs.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Find the server and connect: `handle_connected` or `handle_broken`.
    Connect(Connect),
    /// Write bytes to a connection.
    Write {
        /// The number of the stream.
        number: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// After the bytes that were written: TLS, as the side that did (or did not) connect; then `handle_secured` or
    /// `handle_broken`.
    StartTls {
        /// The number of the stream.
        number: u64,
    },
    /// After the bytes that were written. Nothing of it counts any more.
    Close {
        /// The number of the stream.
        number: u64,
    },
    /// To the host of `to`: it came from another server, or answers what could not be sent there.
    Deliver(Box<Element>),
    /// A message for another shard.
    Send(ShardMessage),
    /// The outcome of a stanza, for its origin in the farm. Exactly one for each stanza with a receipt.
    Outcome(Receipt, Outcome),
    /// Fetch a POSH document over HTTPS: `handle_posh`.
    FetchPosh(PoshFetch),
    /// POSH says nothing about the certificates of a domain; for the log.
    PoshFailed {
        /// The domain.
        domain: Box<str>,
        /// The reason.
        why: Box<str>,
    },
    /// An event for the log.
    Note(LogEvent),
}

/// A connection that is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connect {
    /// The number of the stream.
    pub number: u64,
    /// The domains of the stream.
    pub pair: Pair,
    /// Decides the order among targets of one priority.
    pub random: u64,
    /// The number of targets that were tried before.
    pub tried: usize,
}

/// For the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogEvent {
    /// The domains of the stream.
    pub pair: Pair,
    /// The event.
    pub what: S2sStreamEvent,
}

/// An event of a stream to another server, for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum S2sStreamEvent {
    /// We may speak.
    Connected {
        /// The evidence that was accepted.
        by: Proof,
        /// The evidence of the other server: `Certificate` or `Posh`. `None`: it is where DNS or the configuration says.
        peer: Option<Proof>,
        /// TLS protects the stream.
        is_encrypted: bool,
    },
    /// We may not.
    Failed(Failure),
    /// Another server has authenticated.
    Accepted {
        /// The evidence that was accepted.
        by: Proof,
        /// TLS protects the stream.
        is_encrypted: bool,
    },
    /// It has not, or is not wanted.
    Refused {
        /// The connection that it asked on.
        number: u64,
        /// The reason.
        why: Refusal,
    },
    /// The stream has ended.
    Closed {
        /// The reason.
        why: &'static str,
    },
}

/// Why a domain of another server was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The domain's own server has not made the key (XEP-0220 §2.4, `invalid`).
    WrongKey,
    /// The domain's own server could not be asked for the key, or answered with an error (XEP-0220 §2.5).
    Unverified,
    /// SASL EXTERNAL with a certificate of another domain (XEP-0178 §3).
    WrongCertificate,
    /// The policy of this server, before any proof: the reason.
    Policy(&'static str),
}

impl Refusal {
    /// For the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Refusal::WrongKey => "a wrong key",
            Refusal::Unverified => "its key could not be verified with the server of that domain",
            Refusal::WrongCertificate => "its certificate is not of that domain",
            Refusal::Policy(why) => why,
        }
    }
}

/// The evidence of a server's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Dialback (XEP-0220).
    Dialback,
    /// A certificate (RFC 6120 §13.7).
    Certificate,
    /// A certificate that the domain's web server vouches for (RFC 7711).
    Posh,
}

impl Proof {
    /// For the log.
    pub fn as_str(self) -> &'static str {
        match self {
            Proof::Dialback => "dialback",
            Proof::Certificate => "certificate",
            Proof::Posh => "posh",
        }
    }
}

/// Counters since the shard began, and gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Authenticated streams to other servers.
    pub outgoing: u64,
    /// Authenticated streams of other servers.
    pub incoming: u64,
    /// Streams to other servers since the start.
    pub outgoing_total: u64,
    /// Streams of other servers since the start.
    pub incoming_total: u64,
    /// Stanzas that other servers sent.
    pub stanzas_in: u64,
    /// Stanzas that were sent to other servers.
    pub stanzas_out: u64,
    /// Stanzas that wait for a connection, now.
    pub waiting: u64,
    /// Stanzas that came back to their senders.
    pub returned: u64,
    /// Attempts to reach a server that failed.
    pub failures: u64,
    /// Servers that failed to authenticate or are not admitted.
    pub refused: u64,
    /// Streams that the other side's bytes ended.
    pub faults: u64,
    /// Domains that were looked up by POSH.
    pub posh_lookups: u64,
    /// Lookups that found no fingerprints.
    pub posh_failures: u64,
    /// Domains of other servers that POSH proved, in either direction.
    pub posh_proved: u64,
}

/// For `docs/compliance.md`.
pub const SPECIFICATIONS: &[Specification] = &[
    Specification {
        name: "RFC 6120",
        title: "XMPP: Core, between servers",
        version: "2011",
        level: Level::Complete,
        file: "crates/xmpp/src/s2s/mod.rs",
        note: "streams in stream.rs, incoming.rs and outgoing.rs, addresses in locate.rs",
    },
    Specification {
        name: "RFC 7711",
        title: "PKIX over Secure HTTP (POSH)",
        version: "2015",
        level: Level::Complete,
        file: "crates/xmpp/src/s2s/posh/mod.rs",
        note: "the certificate of the streams is told to others (crates/xmpp-io/src/streams/http/route.rs); those of other servers are looked up in both directions",
    },
    Specification {
        name: "XEP-0178",
        title: "Best Practices for Use of SASL EXTERNAL with Certificates",
        version: "1.2",
        level: Level::Complete,
        file: "crates/xmpp/src/s2s/certificate.rs",
        note: "between servers",
    },
    Specification {
        name: "XEP-0185",
        title: "Dialback Key Generation and Validation",
        version: "1.0",
        level: Level::Complete,
        file: "crates/xmpp/src/s2s/dialback.rs",
        note: "",
    },
    Specification {
        name: "XEP-0220",
        title: "Server Dialback",
        version: "1.1.1",
        level: Level::Complete,
        file: "crates/xmpp/src/s2s/dialback.rs",
        note: "with errors, and several pairs of domains on a stream",
    },
    Specification {
        name: "XEP-0288",
        title: "Bidirectional Server-to-Server Connections",
        version: "1.0.1",
        level: Level::Complete,
        file: "crates/xmpp/src/s2s/outgoing_router.rs",
        note: "both roles",
    },
    Specification {
        name: "XEP-0344",
        title: "Impact of TLS and DNSSEC on Dialback",
        version: "0.3",
        level: Level::Partial,
        file: "crates/xmpp/src/s2s/incoming.rs",
        note: "a valid certificate proves what a key would; no DNSSEC",
    },
    Specification {
        name: "XEP-0368",
        title: "SRV records for XMPP over TLS",
        version: "1.1.0",
        level: Level::Complete,
        file: "crates/xmpp/src/s2s/locate.rs",
        note: "between servers",
    },
    Specification {
        name: "XEP-0478",
        title: "Stream Limits Advertisement",
        version: "0.2.0",
        level: Level::Complete,
        file: "crates/xmpp/src/s2s/incoming.rs",
        note: "between servers",
    },
];

/// A peer that asks and does not read the answers.
const UNREAD: (&str, &str) = ("resource-constraint", "what this server answered was not read");

/// XEP-0478 §4: the text of the sender's error.
const TOO_LARGE_FOR_OTHERS: &str = "the other server takes no stanza of this size";

/// The error for the sender of a stanza that another server does not get, if the stanza's kind permits one.
pub fn undelivered(element: &Element, failure: &Failure) -> Option<Element> {
    // Presence goes to many contacts, and only a client that enters a room waits for an answer (XEP-0045
    // §7.2).
    let is_told = element.name() != "presence"
        || (element.attr("type").is_none() && element.get("x", ns::MUC).is_some());
    let is_answered = is_told && stanza::may_be_refused(element) && element.attr("from").is_some();
    is_answered.then(|| stanza::refusal(element, &StanzaError::new(failure.condition, &failure.text)))
}

/// The answer to a stanza from another server that fits as it came, and does not when it is written to a receiver.
fn too_large(element: &Element) -> Option<Effect> {
    let is_answered = stanza::may_be_refused(element) && element.name() != "presence";
    let error = StanzaError::new(Condition::PolicyViolation, stanza::TOO_LARGE);
    let answer = || Box::new(stanza::refusal(element, &error));
    is_answered.then(|| Effect::Send(ShardMessage::Outbound { element: answer() }))
}

/// The limit that the other server announces in its features or its `<bidi/>` (XEP-0478 §3). Limits below the
/// minimum of RFC 6120 §13.12 are raised to it.
fn max_bytes(around: &Element) -> Option<usize> {
    let limits = around.get("limits", ns::STREAM_LIMITS)?;
    let most: usize = limits.content_of("max-bytes", ns::STREAM_LIMITS)?.trim().parse().ok()?;
    Some(most.max(limits::SMALLEST_MAX_BYTES))
}
