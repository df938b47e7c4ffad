//! One load of users, checked.

use std::net::SocketAddr;
use std::time::Duration;

use stdx::rng::Rng;
use xmpp::sasl::Hash;

use super::{ActionMix, MaxFailures, MonitorOptions, Retry, StanzaTemplate, UserDirectory};

/// The settings of a load of users.
#[derive(Debug, Clone)]
pub struct XmppLoad {
    /// Address and port that users connect to.
    pub target: SocketAddr,
    /// The users of the load: their addresses, passwords and contacts.
    pub people: UserDirectory,
    /// The SASL mechanism of all sign-ins.
    pub mechanism: SaslMechanism,
    /// TLS of all connections.
    pub security: StreamSecurity,
    /// In place of a TCP stream.
    pub web: Option<HttpTransport>,
    /// Sign-ins a second.
    pub logins: f64,
    /// The actions of users with their weights.
    pub mix: ActionMix,
    /// Time from the due time of one action of a user to that of the next.
    pub think: ThinkTime,
    /// Bytes of a message's body.
    pub body: usize,
    /// Users make the rosters themselves, before the load.
    pub befriend: bool,
    /// Rooms of the load, each user in one; only when the mix has rooms.
    pub rooms: u32,
    /// The domain of the multi-user chat service that has the rooms.
    pub rooms_domain: String,
    /// The service with the node of the load; only when the mix publishes there.
    pub pubsub_domain: String,
    /// The stanzas of the action `raw`.
    pub stanzas: Vec<StanzaTemplate>,
    /// The duration of the stage of actions, which begins when all users are signed in.
    pub length: Duration,
    /// Time that everything has to arrive in at the end; what has not by then is lost.
    pub settle: Duration,
    /// For an answer, or for signing in.
    pub patience: Duration,
    /// Accounts are made before the load, and removed after it (XEP-0077), so many a second.
    pub register: bool,
    /// Accounts are removed after the load (XEP-0077 §3.2).
    pub unregister: bool,
    /// Accounts made or removed a second.
    pub registrations: f64,
    /// The monitor pairs beside the load.
    pub monitors: MonitorOptions,
    /// The reaction to the stream error `see-other-host`.
    pub redirect: RedirectPolicy,
    /// The wait between a failure of a user and its next sign-in.
    pub retry: Retry,
    /// With more failures than these the run ends early.
    pub max_failures: Option<MaxFailures>,
}

/// The kind of HTTP connection, and the path of its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpTransport {
    /// RFC 7395.
    WebSocket(String),
    /// XEP-0206.
    Bosh(String),
}

impl XmppLoad {
    /// Over HTTP; empty without.
    pub fn path(&self) -> &str {
        match &self.web {
            Some(HttpTransport::WebSocket(path) | HttpTransport::Bosh(path)) => path,
            None => "",
        }
    }

    /// The transport is BOSH.
    pub fn is_bosh(&self) -> bool {
        matches!(self.web, Some(HttpTransport::Bosh(_)))
    }

    /// Sockets of each user.
    pub fn sockets(&self) -> u32 {
        if self.is_bosh() { 2 } else { 1 }
    }
}

/// The SASL mechanism of sign-ins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaslMechanism {
    /// `PLAIN` (RFC 4616).
    Plain,
    /// SCRAM with this hash, without channel binding (RFC 5802, RFC 7677).
    Scram(Hash),
    /// RFC 4505: the server makes up the address, so users have no contacts.
    Anonymous,
}

impl SaslMechanism {
    /// The mechanism by its name on the command line.
    pub fn parse(name: &str) -> Result<SaslMechanism, String> {
        Ok(match name {
            "PLAIN" => SaslMechanism::Plain,
            "ANONYMOUS" => SaslMechanism::Anonymous,
            "SCRAM-SHA-1" => SaslMechanism::Scram(Hash::Sha1),
            "SCRAM-SHA-256" => SaslMechanism::Scram(Hash::Sha256),
            "SCRAM-SHA-512" => SaslMechanism::Scram(Hash::Sha512),
            _ => {
                return Err(format!(
                    "mechanism {name:?}: expected PLAIN, SCRAM-SHA-1, SCRAM-SHA-256, SCRAM-SHA-512 or ANONYMOUS"
                ));
            }
        })
    }

    /// The name of the mechanism in SASL.
    pub fn name(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::Anonymous => "ANONYMOUS",
            SaslMechanism::Scram(Hash::Sha1) => "SCRAM-SHA-1",
            SaslMechanism::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            SaslMechanism::Scram(Hash::Sha512) => "SCRAM-SHA-512",
        }
    }
}

/// TLS on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamSecurity {
    /// No TLS.
    None,
    /// Negotiated in the stream (RFC 6120 §5).
    StartTls,
    /// From the first byte.
    Tls,
}

impl StreamSecurity {
    /// The security by its name on the command line.
    pub fn parse(name: &str) -> Result<StreamSecurity, String> {
        Ok(match name {
            "none" => StreamSecurity::None,
            "starttls" => StreamSecurity::StartTls,
            "direct" => StreamSecurity::Tls,
            _ => return Err(format!("{name:?}: expected none, starttls or direct")),
        })
    }
}

/// The reaction to a host that the server names instead of itself (RFC 6120 §4.9.3.19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectPolicy {
    /// The user connects to the named host.
    Follow,
    /// It is a failure, counted as such.
    Count,
}

impl RedirectPolicy {
    /// The policy by its name on the command line.
    pub fn parse(name: &str) -> Result<RedirectPolicy, String> {
        Ok(match name {
            "follow" => RedirectPolicy::Follow,
            "count" => RedirectPolicy::Count,
            _ => return Err(format!("{name:?}: expected follow or count")),
        })
    }
}

/// Time from one action of a user to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ThinkTime {
    /// Always this time.
    Fixed(Duration),
    /// With this mean.
    Exponential(Duration),
}

impl ThinkTime {
    /// A random think time.
    pub fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            ThinkTime::Fixed(time) => time,
            ThinkTime::Exponential(mean) => {
                #[expect(clippy::cast_precision_loss, reason = "32 bits")]
                let share = (rng.below(1 << 32) + 1) as f64 / (1_u64 << 32) as f64;
                // Beyond twenty means there is one in 500 million.
                mean.mul_f64(-share.ln()).min(mean * 20)
            }
        }
    }
}

/// A timer of the report, in its order; each is measured from the due time and from the sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum TimerName {
    /// To the contact.
    Message,
    /// To each contact that is signed in.
    Presence,
    /// From the connection to `<success/>`.
    Authentication,
    /// From the connection to the roster.
    SignIn,
    /// A request or change of the roster, to its answer.
    Roster,
    /// A request or change of a vCard, to its answer.
    Vcard,
    /// A query of the archive, to its answer.
    Archive,
    /// To the room and back.
    Room,
    /// From the wish to enter, or for another nick, to the room's word that it is so.
    RoomJoin,
    /// A ping, to its answer.
    Ping,
    /// A service discovery query, to its answer.
    Disco,
    /// A PEP request, to its answer.
    Pep,
    /// A blocking command, to its answer.
    Block,
    /// A request to the shared node, to its answer.
    Pubsub,
    /// An `iq` of the action `raw`, to its answer.
    Raw,
    /// An account made or removed, from the connection or the question.
    Registration,
    /// To the partner and back.
    MonitorMessage,
    /// To the partner.
    MonitorPresence,
    /// As `Authentication`.
    MonitorAuthentication,
}

/// Their names in reports and thresholds (`response.presence.p99`).
pub const TIMERS: [&str; 19] = [
    "message",
    "presence",
    "authentication",
    "sign-in",
    "roster",
    "vcard",
    "archive",
    "room",
    "room-join",
    "ping",
    "disco",
    "pep",
    "block",
    "pubsub",
    "raw",
    "registration",
    "monitor.message",
    "monitor.presence",
    "monitor.authentication",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thinking_takes_its_mean() {
        let mut rng = Rng::seeded(2);
        let mean = Duration::from_secs(75);
        let sum: Duration = (0..20_000).map(|_| ThinkTime::Exponential(mean).draw(&mut rng)).sum();
        let got = sum / 20_000;
        assert!(got.abs_diff(mean) < Duration::from_secs(3), "{got:?}");
        assert_eq!(ThinkTime::Fixed(mean).draw(&mut rng), mean);
    }

    #[test]
    fn words_are_understood() {
        for name in ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", "ANONYMOUS"] {
            assert_eq!(SaslMechanism::parse(name).unwrap().name(), name);
        }
        assert!(SaslMechanism::parse("GSSAPI").unwrap_err().contains("expected PLAIN"));
        assert!(StreamSecurity::parse("yes").unwrap_err().contains("starttls"));
    }
}
