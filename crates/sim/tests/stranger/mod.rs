//! A peer that is not authenticated, at each kind of XMPP stream. The test `xmpp_bounds` and the fuzz target `xmpp_bounds`
//! drive it.

use std::sync::Arc;
use std::time::Duration;

use stdx::Instant;
use xmpp::c2s::{self, C2s, Framing};
use xmpp::component::{self, Component};
use xmpp::s2s::{self, Servers, ShardMessage, Verdict};
use xmpp::sasl::{CredentialAnswer, Secret};
use xmpp::stanza::Condition;

const START: Instant = Instant::from_unix_seconds(1_800_000_000);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Client,
    WebSocket,
    Bosh,
    Server,
    Component,
}

pub const KINDS: [Kind; 5] = [Kind::Client, Kind::WebSocket, Kind::Bosh, Kind::Server, Kind::Component];

/// Boxed: as a server has them.
pub enum Stranger {
    Client(Box<C2s>),
    Bosh(Box<C2s>),
    Server(Box<Servers>, u64),
    Component(Box<Component>),
}

fn client(framing: Framing) -> Box<C2s> {
    let settings = c2s::C2sSettings {
        domains: vec!["a.test".into()],
        anonymous: true,
        registration: true,
        invitations: true,
        tokens: true,
        max_stanza: xmpp::limits::STANZA,
        secret: [7; 32],
        ..c2s::C2sSettings::default()
    };
    let security = c2s::Security { encrypted: true, ..c2s::Security::default() };
    Box::new(C2s::new(Arc::new(settings), framing, security, 1, "0123456789abcdef0123456789abcdef".into()))
}

impl Stranger {
    pub fn new(kind: Kind) -> Stranger {
        match kind {
            Kind::Client => Stranger::Client(client(Framing::Stream)),
            Kind::WebSocket => Stranger::Client(client(Framing::Messages)),
            Kind::Bosh => Stranger::Bosh(client(Framing::Bodies)),
            Kind::Server => {
                let settings = s2s::S2sSettings {
                    domains: vec!["a.test".into()],
                    tls: true,
                    policy: s2s::Policy { admission: s2s::Admission::Open, ..s2s::Policy::default() },
                    max_stanza: xmpp::limits::STANZA,
                    connect: Duration::from_secs(20),
                    authorize: Duration::from_secs(30),
                    idle: Duration::from_secs(600),
                    secret: [7; 32],
                    posh: false,
                };
                let mut servers = Servers::new(Arc::new(settings), xmpp::ShardAddress::default(), [3; 32]);
                let number =
                    servers.accept(START, s2s::Security { encrypted: true, ..s2s::Security::default() });
                Stranger::Server(Box::new(servers), number)
            }
            Kind::Component => {
                let known = component::ComponentCredentials {
                    domain: "echo.test".into(),
                    secret: Secret("hush".into()),
                };
                let settings = component::ComponentSettings {
                    components: vec![known],
                    max_stanza: xmpp::limits::STANZA,
                };
                Stranger::Component(Box::new(Component::new(Arc::new(settings), "3BF96D32".into())))
            }
        }
    }

    /// Handles bytes that came; for WebSocket a message, for BOSH a body. Returns the number of bytes sent in
    /// answer.
    pub fn hear(&mut self, bytes: &[u8]) -> usize {
        match self {
            Stranger::Client(stream) => tell_client(stream, |stream, out| stream.handle_bytes(bytes, out)),
            Stranger::Bosh(stream) => hear_body(stream, bytes),
            Stranger::Server(servers, number) => hear_server(servers, *number, bytes),
            Stranger::Component(stream) => {
                let mut out = component::Outbox::default();
                stream.handle_bytes(bytes, &mut out);
                out.bytes.len()
            }
        }
    }

    /// The time that strangers have is over. False: it is still there.
    pub fn is_gone_in_time(&mut self) -> bool {
        let Stranger::Server(servers, _) = self else { return true };
        let mut out = Vec::new();
        // One that asks about keys is a server, and has as long as servers may be silent.
        servers.expire(START + Duration::from_secs(601), &mut out);
        servers.counts().incoming == 0
    }
}

fn hear_body(stream: &mut C2s, bytes: &[u8]) -> usize {
    let Ok(request) = xmpp::bosh::Request::parse(bytes) else { return 0 };
    if request.is_for_known {
        return 0;
    }
    let payload = request.payload.into_iter();
    payload.map(|element| tell_client(stream, |stream, out| stream.handle_payload(element, out))).sum()
}

fn tell_client(stream: &mut C2s, act: impl FnOnce(&mut C2s, &mut c2s::Outbox)) -> usize {
    // As the driver: what cannot be looked at yet is not read.
    if stream.is_waiting() {
        return 0;
    }
    let mut out = c2s::Outbox::default();
    act(stream, &mut out);
    let mut sent = out.bytes.len();
    for effect in out.effects {
        if let c2s::Effect::Find { .. } = effect {
            let mut out = c2s::Outbox::default();
            stream.handle_found(CredentialAnswer::NoAccount, &mut out);
            sent += out.bytes.len();
        }
    }
    sent
}

fn hear_server(servers: &mut Servers, number: u64, bytes: &[u8]) -> usize {
    let mut out = Vec::new();
    servers.handle_bytes(START, number, bytes, &mut out);
    let mut sent = 0;
    while let Some(effect) = out.pop() {
        match effect {
            s2s::Effect::Write { bytes, .. } => sent += bytes.len(),
            // The domain has no server that answers.
            s2s::Effect::Send(ShardMessage::Verify { edge, question }) => {
                let verdict = Verdict::Error(Condition::RemoteServerNotFound);
                let letter = ShardMessage::Verified { edge, question, verdict };
                servers.handle_shard_message(START, letter, &mut out);
            }
            _ => {}
        }
    }
    sent
}
