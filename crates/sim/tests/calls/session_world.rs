//! Two servers that call each other for their applications, and what they hear.

use std::time::Duration;

use bytes::Bytes;
use sim::{NodeId, World};
use sip::endpoint::{Decision, Endpoint, EndpointOutbox};
use sip::session::{CommandError, Invite, SessionCounts, SessionEvent, SessionId};
use stdx::Instant;

use super::server::{self, Server};
use super::{SERVER, address};

pub(crate) const OFFER: &[u8] = b"v=0 offer";
pub(crate) const ANSWER: &[u8] = b"v=0 answer";
pub(crate) const NO_HEADERS: Vec<(Box<str>, Box<str>)> = Vec::new();

/// `us` at host 1 places calls to `them` at host 9.
pub(crate) struct Pair {
    pub(crate) world: World,
    pub(crate) us: NodeId,
    pub(crate) them: NodeId,
    pub(crate) session: SessionId,
}

pub(crate) fn agent(host: u8) -> Server {
    Server::new(server::settings(host), |_| Decision::Agent)
}

pub(crate) fn invite_to(target: &str) -> Invite {
    Invite {
        target: target.into(),
        from: "\"Belfry\" <sip:belfry@10.0.0.1>".into(),
        offer: Bytes::from_static(OFFER),
        ..Invite::default()
    }
}

/// Rings at once and answers.
pub(crate) fn answers(now: Instant, event: &SessionEvent, endpoint: &mut Endpoint, out: &mut EndpointOutbox) {
    if let SessionEvent::Invited { session, .. } = event {
        endpoint.sessions(now, out).ring(*session, 180, Bytes::new()).unwrap();
        endpoint.sessions(now, out).answer(*session, Bytes::from_static(ANSWER), NO_HEADERS).unwrap();
    }
}

impl Pair {
    pub(crate) fn new(seed: u64, us: Server, them: Server) -> Pair {
        let mut world = World::new(seed);
        world.set_label(sim::ladder::label_with_method);
        let (us, them) = (us.trusting_its_peers(world.now()), them.trusting_its_peers(world.now()));
        Pair::of(world, us, them)
    }

    /// Neither has heard of the other.
    pub(crate) fn of_unproved(us: Server, them: Server) -> Pair {
        let mut world = World::new(1);
        world.set_label(sim::ladder::label_with_method);
        Pair::of(world, us, them)
    }

    fn of(mut world: World, us: Server, them: Server) -> Pair {
        let us = world.add("us", &[SERVER], us);
        let them = world.add("them", &[address(9)], them);
        Pair { world, us, them, session: SessionId(0) }
    }

    /// With an application on the other side.
    pub(crate) fn with(
        app: impl FnMut(Instant, &SessionEvent, &mut Endpoint, &mut EndpointOutbox) + 'static,
    ) -> Pair {
        Pair::new(1, agent(1), agent(9).with_app(app))
    }

    /// A call that is up, and its ladder begun anew.
    pub(crate) fn up() -> Pair {
        let mut pair = Pair::with(answers);
        pair.call();
        pair.run(1_000);
        pair.world.restart_ladder();
        pair
    }

    pub(crate) fn call(&mut self) {
        self.call_by(invite_to("sip:ivr@10.0.0.9"));
    }

    pub(crate) fn call_by(&mut self, invite: Invite) {
        self.session = self.do_us(|endpoint, now, out| endpoint.sessions(now, out).invite(invite)).unwrap();
    }

    pub(crate) fn do_us<R>(
        &mut self,
        act: impl FnOnce(&mut Endpoint, Instant, &mut EndpointOutbox) -> R,
    ) -> R {
        self.act(self.us, act)
    }

    pub(crate) fn do_them<R>(
        &mut self,
        act: impl FnOnce(&mut Endpoint, Instant, &mut EndpointOutbox) -> R,
    ) -> R {
        self.act(self.them, act)
    }

    fn act<R>(
        &mut self,
        node: NodeId,
        act: impl FnOnce(&mut Endpoint, Instant, &mut EndpointOutbox) -> R,
    ) -> R {
        self.world.act(node, |server: &mut Server, now, out| {
            server.command(now, out, |endpoint, effects| act(endpoint, now, effects))
        })
    }

    pub(crate) fn hang_up(&mut self) {
        let session = self.session;
        self.do_us(|endpoint, now, out| endpoint.sessions(now, out).hang_up(session, None));
    }

    /// The other side's one session.
    pub(crate) fn theirs(&self) -> SessionId {
        session_of(&self.server(self.them).events[0])
    }

    pub(crate) fn offer(&mut self, sdp: &'static str) -> Result<(), CommandError> {
        let session = self.session;
        self.do_us(|endpoint, now, out| endpoint.sessions(now, out).offer(session, &sdp.into()))
    }

    pub(crate) fn server(&self, node: NodeId) -> &Server {
        self.world.node(node)
    }

    pub(crate) fn run(&mut self, millis: u64) {
        self.world.run_for(Duration::from_millis(millis));
    }

    pub(crate) fn ours(&self) -> String {
        heard(self.server(self.us))
    }

    pub(crate) fn others(&self) -> String {
        heard(self.server(self.them))
    }

    /// After every timer there is, nothing is left.
    pub(crate) fn rest(&mut self) {
        self.run(400_000);
        assert_at_rest(self.server(self.us));
        assert_at_rest(self.server(self.them));
    }
}

pub(crate) fn assert_at_rest(server: &Server) {
    assert_eq!(server.endpoint.load(), (0, 0), "nothing stays behind");
    assert_eq!(server.endpoint.session_counts(), SessionCounts::default(), "no session stays behind");
    let ended = |event: &&SessionEvent| matches!(event, SessionEvent::Ended { .. });
    let mut sessions: Vec<SessionId> =
        server.events.iter().filter(|event| is_of_session(event)).map(session_of).collect();
    sessions.sort();
    sessions.dedup();
    for session in sessions {
        let of: Vec<&SessionEvent> = server
            .events
            .iter()
            .filter(|event| is_of_session(event) && session_of(event) == session)
            .collect();
        assert_eq!(of.iter().copied().filter(ended).count(), 1, "each ends once: {of:?}");
        assert!(of.last().is_some_and(ended), "and hears nothing after: {of:?}");
    }
}

fn is_of_session(event: &SessionEvent) -> bool {
    !matches!(event, SessionEvent::MessageAnswered { .. })
}

pub(crate) fn session_of(event: &SessionEvent) -> SessionId {
    match event {
        SessionEvent::Invited { session, .. }
        | SessionEvent::Ringing { session, .. }
        | SessionEvent::Answered { session, .. }
        | SessionEvent::Confirmed { session, .. }
        | SessionEvent::Offered { session, .. }
        | SessionEvent::OfferWithdrawn { session, .. }
        | SessionEvent::OfferAnswered { session, .. }
        | SessionEvent::OfferRefused { session, .. }
        | SessionEvent::OfferCrossed { session }
        | SessionEvent::Info { session, .. }
        | SessionEvent::Referred { session, .. }
        | SessionEvent::ReferAnswered { session, .. }
        | SessionEvent::ReferProgress { session, .. }
        | SessionEvent::Responded { session, .. }
        | SessionEvent::Ended { session, .. } => *session,
        SessionEvent::MessageAnswered { .. } => panic!("of no session"),
    }
}

/// The events in a line: names, and what matters in them.
pub(crate) fn heard(server: &Server) -> String {
    server.events.iter().map(name).collect::<Vec<_>>().join(", ")
}

fn name(event: &SessionEvent) -> String {
    use sip::session::Cause;
    let text =
        |sdp: &Option<Bytes>| sdp.as_ref().map_or("-".into(), |s| String::from_utf8_lossy(s).into_owned());
    match event {
        SessionEvent::Invited { .. } => "invited".into(),
        SessionEvent::Ringing { response, .. } => format!("ringing {}", response.status()),
        SessionEvent::Answered { .. } => "answered".into(),
        SessionEvent::Confirmed { .. } => "confirmed".into(),
        SessionEvent::Offered { sdp, .. } => format!("offered {}", text(sdp)),
        SessionEvent::OfferWithdrawn { .. } => "withdrawn".into(),
        SessionEvent::OfferAnswered { sdp, .. } => format!("offer answered {}", text(sdp)),
        SessionEvent::OfferRefused { status, .. } => format!("offer refused {status}"),
        SessionEvent::OfferCrossed { .. } => "crossed".into(),
        SessionEvent::Info { body, .. } => format!("info {}", String::from_utf8_lossy(body)),
        SessionEvent::Referred { .. } => "referred".into(),
        SessionEvent::ReferAnswered { status, .. } => format!("refer {status}"),
        SessionEvent::ReferProgress { body, over, .. } => {
            format!("progress {:?} {over}", sip::session::sipfrag_status(body))
        }
        SessionEvent::Responded { method, status, .. } => format!("{method} {status}"),
        SessionEvent::MessageAnswered { status, .. } => format!("message {status}"),
        SessionEvent::Ended { cause, .. } => match cause {
            Cause::HungUp { .. } => "ended: hung up".into(),
            Cause::Failed { status, .. } => format!("ended: failed {status}"),
            other => format!("ended: {other:?}").to_lowercase(),
        },
    }
}
