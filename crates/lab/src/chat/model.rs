//! One load of users, checked.

use std::net::SocketAddr;
use std::time::Duration;

use stdx::rng::Rng;
use xmpp::sasl::Hash;

use super::{MaxFailures, Mix, Monitors, People, Retry, Stanza};

#[derive(Debug, Clone)]
pub struct Chat {
    pub target: SocketAddr,
    pub people: People,
    pub mechanism: Mechanism,
    pub security: Security,
    /// In place of a TCP stream.
    pub web: Option<Web>,
    /// Sign-ins a second.
    pub logins: f64,
    pub mix: Mix,
    pub think: Think,
    /// Bytes of a message's body.
    pub body: usize,
    /// Users make the rosters themselves, before the load.
    pub befriend: bool,
    /// Rooms of the load, each user in one; only when the mix has rooms.
    pub rooms: u32,
    pub rooms_domain: String,
    /// The service with the node of the load; only when the mix publishes there.
    pub pubsub_domain: String,
    /// What `raw` sends.
    pub stanzas: Vec<Stanza>,
    /// How long actions go on once everybody is in.
    pub length: Duration,
    /// Time that everything has to arrive in at the end; what has not by then is lost.
    pub settle: Duration,
    /// For an answer, or for signing in.
    pub patience: Duration,
    /// Accounts are made before the load, and removed after it (XEP-0077), so many a second.
    pub register: bool,
    pub unregister: bool,
    pub registrations: f64,
    pub monitors: Monitors,
    pub redirect: Redirect,
    pub retry: Retry,
    /// With more failures than these the run ends early.
    pub max_failures: Option<MaxFailures>,
}

/// How users connect over HTTP, and the path there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Web {
    /// RFC 7395.
    WebSocket(String),
    /// XEP-0206.
    Bosh(String),
}

impl Chat {
    /// Over HTTP; empty without.
    pub fn path(&self) -> &str {
        match &self.web {
            Some(Web::WebSocket(path) | Web::Bosh(path)) => path,
            None => "",
        }
    }

    pub fn is_bosh(&self) -> bool {
        matches!(self.web, Some(Web::Bosh(_)))
    }

    /// Sockets of each user.
    pub fn sockets(&self) -> u32 {
        if self.is_bosh() { 2 } else { 1 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    Plain,
    Scram(Hash),
    /// RFC 4505: the server makes up who it is, so nobody knows anybody.
    Anonymous,
}

impl Mechanism {
    pub fn parse(name: &str) -> Result<Mechanism, String> {
        Ok(match name {
            "PLAIN" => Mechanism::Plain,
            "ANONYMOUS" => Mechanism::Anonymous,
            "SCRAM-SHA-1" => Mechanism::Scram(Hash::Sha1),
            "SCRAM-SHA-256" => Mechanism::Scram(Hash::Sha256),
            "SCRAM-SHA-512" => Mechanism::Scram(Hash::Sha512),
            _ => {
                return Err(format!(
                    "mechanism {name:?}: expected PLAIN, SCRAM-SHA-1, SCRAM-SHA-256, SCRAM-SHA-512 or ANONYMOUS"
                ));
            }
        })
    }

    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Plain => "PLAIN",
            Mechanism::Anonymous => "ANONYMOUS",
            Mechanism::Scram(Hash::Sha1) => "SCRAM-SHA-1",
            Mechanism::Scram(Hash::Sha256) => "SCRAM-SHA-256",
            Mechanism::Scram(Hash::Sha512) => "SCRAM-SHA-512",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    None,
    StartTls,
    /// From the first byte.
    Tls,
}

impl Security {
    pub fn parse(name: &str) -> Result<Security, String> {
        Ok(match name {
            "none" => Security::None,
            "starttls" => Security::StartTls,
            "direct" => Security::Tls,
            _ => return Err(format!("{name:?}: expected none, starttls or direct")),
        })
    }
}

/// What users do when the server names another host (RFC 6120 §4.9.3.19).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redirect {
    Follow,
    /// It is a failure, counted as such.
    Count,
}

impl Redirect {
    pub fn parse(name: &str) -> Result<Redirect, String> {
        Ok(match name {
            "follow" => Redirect::Follow,
            "count" => Redirect::Count,
            _ => return Err(format!("{name:?}: expected follow or count")),
        })
    }
}

/// Time from one action of a user to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Think {
    Fixed(Duration),
    /// With this mean.
    Exponential(Duration),
}

impl Think {
    pub fn draw(self, rng: &mut Rng) -> Duration {
        match self {
            Think::Fixed(time) => time,
            Think::Exponential(mean) => {
                #[expect(clippy::cast_precision_loss, reason = "32 bits")]
                let share = (rng.below(1 << 32) + 1) as f64 / (1_u64 << 32) as f64;
                // Beyond twenty means there is one in 500 million.
                mean.mul_f64(-share.ln()).min(mean * 20)
            }
        }
    }
}

/// What is timed, in the order of the report: from the due time and from the sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Timed {
    /// To the contact.
    Message,
    /// To each contact who is there.
    Presence,
    /// From the connection to `<success/>`.
    Authentication,
    /// From the connection to the roster.
    SignIn,
    Roster,
    Vcard,
    Archive,
    /// To the room and back.
    Room,
    /// From the wish to enter, or for another nick, to the room's word that it is so.
    RoomJoin,
    Ping,
    Disco,
    Pep,
    Block,
    Pubsub,
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
        let sum: Duration = (0..20_000).map(|_| Think::Exponential(mean).draw(&mut rng)).sum();
        let got = sum / 20_000;
        assert!(got.abs_diff(mean) < Duration::from_secs(3), "{got:?}");
        assert_eq!(Think::Fixed(mean).draw(&mut rng), mean);
    }

    #[test]
    fn words_are_understood() {
        for name in ["PLAIN", "SCRAM-SHA-1", "SCRAM-SHA-256", "SCRAM-SHA-512", "ANONYMOUS"] {
            assert_eq!(Mechanism::parse(name).unwrap().name(), name);
        }
        assert!(Mechanism::parse("GSSAPI").unwrap_err().contains("expected PLAIN"));
        assert!(Security::parse("yes").unwrap_err().contains("starttls"));
    }
}
