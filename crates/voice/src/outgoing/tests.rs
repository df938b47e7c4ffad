//! Calls that the REST interface begins, with a phone that the test plays, and nothing sent over any wire.

use bytes::Bytes;
use router::{Life, ShardAddress};
use sip::endpoint::{Endpoint, EndpointEffect, EndpointOutbox};
use sip::transport::{Packet, Source, Transport};
use sip::wire::{Message, Method, Reply};

use super::*;
use crate::testing::{NoSockets, common, place, shard_of};
use crate::{Destination, Done, HelperResult, Ticket, VoiceEffect};

pub(super) const US: &str = "127.0.0.1:5060";
pub(super) const BOB: &str = "127.0.0.1:5072";

pub(super) struct Stage {
    pub(super) voice: Voice,
    pub(super) endpoint: Endpoint,
    pub(super) out: EndpointOutbox,
    pub(super) outbox: Vec<VoiceEffect>,
    pub(super) sockets: NoSockets,
    pub(super) now: Instant,
}

impl Stage {
    fn new() -> Stage {
        Stage::of(1, 4)
    }

    /// One shard of so many.
    pub(super) fn of(shard: u16, shards: u16) -> Stage {
        let now = Instant::from_unix_seconds(1_700_000_000);
        Stage {
            voice: Voice::new(&common([127, 0, 0, 78]), place(shard, shards)),
            endpoint: Endpoint::new(
                sim::settings(ShardAddress::new(Life(0), 1), &[US.parse().unwrap()]),
                now,
            ),
            out: Vec::new(),
            outbox: Vec::new(),
            sockets: NoSockets::new(),
            now,
        }
    }

    pub(super) fn act(&mut self, act: impl FnOnce(&mut Voice, Instant, &mut World<'_>)) {
        let Stage { endpoint, out, outbox, sockets, .. } = self;
        let mut world = World { endpoint, out, outbox, sockets };
        act(&mut self.voice, self.now, &mut world);
    }

    /// A call to bob, whose address is asked for: the ticket.
    fn call(&mut self) -> u64 {
        self.place("<Pause length='600'/>");
        let outbox = std::mem::take(&mut self.outbox);
        let [VoiceEffect::Resolve { ticket, address, .. }] = &outbox[..] else { panic!("{outbox:?}") };
        assert_eq!((&*address.user, &*address.host), ("bob", ""));
        *ticket
    }

    /// A call to bob that performs these verbs once it is answered.
    pub(super) fn place(&mut self, verbs: &str) {
        let owner = Arc::new(Owner { account: "AC1".into(), signing_key: "".into() });
        let plan = Plan {
            role: ivr::script::Role::Call,
            start: ivr::script::Start::Document(format!("<Response>{verbs}</Response>").into_bytes()),
            fallback: None,
            status: None,
            answer_on_bridge: false,
            time_limit: None,
        };
        let call = Outgoing {
            sid: "CA1".into(),
            owner,
            to: Address::Client { name: "bob".into() },
            send_digits: Vec::new(),
            from: "+15550100".into(),
            plan,
            timeout: Duration::from_secs(60),
            record: None,
            row: None,
            redial_of: None,
        };
        self.act(|voice, now, world| super::start_call(voice, now, call, world));
    }

    /// Bob's phones are at these ports: the INVITEs.
    fn found(&mut self, ticket: u64, ports: &[u16]) -> Vec<Message> {
        let reach = |port: &u16| Destination {
            uri: format!("sip:bob@127.0.0.1:{port}").into(),
            path: "".into(),
            received: None,
            public_only: false,
            is_binding: false,
        };
        let group = ports.iter().map(reach).collect();
        self.act(|voice, now, world| voice.handle_resolved(now, ticket, Ok(vec![group]), world));
        self.sent()
    }

    /// Requests that were sent, once all that happens has been told.
    pub(super) fn sent(&mut self) -> Vec<Message> {
        let mut sent = Vec::new();
        while !self.out.is_empty() {
            for effect in std::mem::take(&mut self.out) {
                match effect {
                    EndpointEffect::Transmit(transmit) => sent.push(Message::parse(transmit.bytes).unwrap()),
                    EndpointEffect::Session(event) => {
                        self.act(|voice, now, world| voice.handle_event(now, event, world));
                    }
                    _ => {}
                }
            }
        }
        sent
    }

    pub(super) fn hears(&mut self, bytes: Bytes) -> Vec<Message> {
        let (local, remote) = (US.parse().unwrap(), BOB.parse().unwrap());
        let source = Source { transport: Transport::Udp, local, remote, flow: None };
        self.endpoint.handle_packet(self.now, Packet { bytes, source }, &mut self.out);
        self.sent()
    }

    pub(super) fn reply(&mut self, request: &Message, status: u16) -> Vec<Message> {
        let mut reply = Reply::new(request, US.parse().unwrap(), status, "So", Some("b"));
        reply.header("Contact", format!("<sip:bob@{BOB}>").as_bytes());
        let sdp = "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio 4000 RTP/AVP 8\r\n";
        let is_ok = status == 200 && request.method() == Method::Invite;
        self.hears(if is_ok { reply.finish_with("application/sdp", sdp.as_bytes()) } else { reply.finish() })
    }

    /// Legs, ports, parties and lookups.
    fn left(&self) -> (u64, u64, usize, usize) {
        let counts = self.voice.counts();
        (counts.calls, self.sockets.used(), self.voice.dials.len(), self.voice.resolutions.len())
    }
}

fn methods(messages: &[Message]) -> Vec<Method> {
    messages.iter().map(Message::method).collect()
}

#[test]
fn a_call_is_the_scripts_once_it_is_answered_and_over_with_its_bye() {
    let mut stage = Stage::new();
    let ticket = stage.call();
    let invites = stage.found(ticket, &[5072, 5073]);
    assert_eq!(methods(&invites), [Method::Invite, Method::Invite]);
    let from = String::from_utf8_lossy(invites[0].header(sip::wire::Header::From).unwrap()).into_owned();
    assert!(from.starts_with("<sip:+15550100@example.test>;tag="), "{from}");
    for invite in &invites {
        let shard = shard_of(invite.call_id().unwrap(), 4);
        assert_eq!(shard, 1, "the peer's requests in the dialog come to this shard");
        stage.reply(invite, 180);
    }
    let sent = stage.reply(&invites[0], 200);
    assert_eq!(methods(&sent), [Method::Ack, Method::Cancel]);
    // RFC 3326 §3.1: the phone lists no missed call.
    let reason = sent[1].header_named("Reason").unwrap();
    assert!(reason.starts_with(b"SIP;cause=200;"), "{}", reason.escape_ascii());
    let live: Vec<_> =
        stage.voice.calls.legs.iter().map(|(_, leg)| (leg.sid.as_str(), leg.main.is_some())).collect();
    assert_eq!(live, [("CA1", true)]);
    stage.act(|voice, now, world| voice.hang_up_all(now, world));
    assert_eq!(methods(&stage.sent()), [Method::Bye]);
    assert_eq!(stage.left(), (0, 0, 0, 0));
}

#[test]
fn a_refused_outgoing_call_is_over() {
    let mut stage = Stage::new();
    let ticket = stage.call();
    let invites = stage.found(ticket, &[5072]);
    stage.reply(&invites[0], 486);
    assert_eq!(stage.left(), (0, 0, 0, 0));
    let ticket = stage.call();
    stage.act(|voice, now, world| voice.handle_resolved(now, ticket, Err(480), world));
    assert_eq!(stage.left(), (0, 0, 0, 0));
}

#[test]
fn one_that_is_given_up_while_it_is_looked_up_or_rings_leaves_nothing() {
    let mut stage = Stage::new();
    let ticket = stage.call();
    stage.act(|voice, now, world| voice.hang_up_all(now, world));
    assert_eq!(stage.left(), (0, 0, 0, 0));
    assert!(stage.found(ticket, &[5072]).is_empty(), "the answer came too late");
    let ticket = stage.call();
    let invites = stage.found(ticket, &[5072]);
    stage.reply(&invites[0], 180);
    stage.act(|voice, now, world| voice.hang_up_all(now, world));
    assert_eq!(methods(&stage.sent()), [Method::Cancel]);
    assert_eq!(stage.left(), (0, 0, 0, 0));
}

#[test]
fn an_address_that_a_document_names_is_in_no_private_network() {
    let mut stage = Stage::new();
    for (target, sent) in [("sip:pbx@127.0.0.9:5099", 0), ("sip:pbx@10.1.2.3", 0), ("sip:pbx@8.8.8.8", 1)] {
        stage.place(&format!("<Dial><Sip>{target}</Sip></Dial>"));
        let mut ticket = None;
        for effect in std::mem::take(&mut stage.outbox) {
            if let VoiceEffect::Resolve { ticket: asked, .. } = effect {
                ticket = Some(asked);
            }
        }
        let first = stage.found(ticket.unwrap(), &[5072]);
        stage.reply(&first[0], 200);
        let Some(VoiceEffect::Resolve { ticket, .. }) = std::mem::take(&mut stage.outbox)
            .into_iter()
            .find(|effect| matches!(effect, VoiceEffect::Resolve { .. }))
        else {
            panic!("the dialled address is looked up")
        };
        // The plan has no route there.
        stage.act(|voice, now, world| voice.handle_resolved(now, ticket, Ok(Vec::new()), world));
        let invites = methods(&stage.sent()).into_iter().filter(|method| *method == Method::Invite).count();
        assert_eq!(invites, sent, "{target}");
    }
}

#[test]
fn the_next_group_is_called_where_the_first_is_not_there() {
    let mut stage = Stage::new();
    let ticket = stage.call();
    let reach = |port: u16| Destination {
        uri: format!("sip:bob@127.0.0.1:{port}").into(),
        path: "".into(),
        received: None,
        public_only: false,
        is_binding: false,
    };
    let groups = vec![vec![reach(5072)], vec![reach(5073)], vec![reach(5074)]];
    stage.act(|voice, now, world| voice.handle_resolved(now, ticket, Ok(groups), world));
    let first = stage.sent();
    let sent = stage.reply(&first[0], 503);
    assert_eq!(methods(&sent), [Method::Ack, Method::Invite]);
    assert_eq!(sent[1].uri(), b"sip:bob@127.0.0.1:5073");
    let sent = stage.reply(&sent[1], 486);
    assert_eq!(methods(&sent), [Method::Ack], "a busy phone was reached");
    assert_eq!(stage.left(), (0, 0, 0, 0));
}

/// `[voice] end_pause`: the last word is heard before the BYE comes.
#[test]
fn a_call_stays_up_for_a_pause_after_its_last_word() {
    let mut stage = Stage::new();
    stage.place("<Say>good bye</Say>");
    let Some(VoiceEffect::Resolve { ticket, .. }) = stage.outbox.pop() else { panic!("bob is looked up") };
    let invites = stage.found(ticket, &[5072]);
    assert_eq!(methods(&stage.reply(&invites[0], 200)), [Method::Ack]);
    // A second of words; tickets of other questions take no sound.
    for ticket in 1..10 {
        let done = Done::Samples(Ok(vec![1_000_i16; 8_000].into()));
        let result = HelperResult::new(Ticket { shard: 1, id: ticket }, done);
        stage.act(|voice, now, world| voice.handle_result(now, result, world));
    }
    let (answered, mut spoken) = (stage.now, None);
    let bye = loop {
        stage.now = stage.now + Duration::from_millis(5);
        stage.act(|voice, now, world| voice.expire(now, world));
        if stage.voice.counts().prompts == 0 {
            spoken = spoken.or(Some(stage.now));
        }
        let sent = stage.sent();
        if !sent.is_empty() {
            break sent;
        }
        assert!(stage.now.since(answered) < Duration::from_secs(5), "the call did not end");
    };
    assert_eq!(methods(&bye), [Method::Bye]);
    let spoken = spoken.expect("the words are spoken before the BYE");
    let words = spoken.since(answered);
    assert!((1_000..=1_100).contains(&words.as_millis()), "{words:?}");
    let pause = stage.now.since(spoken);
    assert!((495..=525).contains(&pause.as_millis()), "{pause:?}");
    assert_eq!(stage.left(), (0, 0, 0, 0));
}
