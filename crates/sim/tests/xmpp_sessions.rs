//! The memory of a chat client that has signed in and is silent, without its connection and its task.

use std::collections::VecDeque;
use std::sync::Arc;

use chat::effect::AccountData;
use chat::phones::{Phone, PhoneEvent};
use chat::{Effect, Host, ItemPage, Load, RowPage, StoreReply};
use sim::Counting;
use stdx::Instant;
use xmpp::c2s::{self, C2s, Framing, Security};
use xmpp::sasl::CredentialAnswer;
use xmpp::{ConnectionId, ShardAddress};

#[global_allocator]
static ALLOCATOR: Counting = Counting::new();

const START: Instant = Instant::from_unix_seconds(1_800_000_000);
const SESSIONS: u64 = 4_000;
/// The budget of an idle session without TLS is 4 KB resident; connection, task and tables have their part of it.
const BUDGET: usize = 1_400;

const HEADER: &str = "<?xml version='1.0'?><stream:stream to='example.org' xmlns='jabber:client' \
    xmlns:stream='http://etherx.jabber.org/streams' version='1.0'>";
const BIND: &str = "<iq type='set' id='b'><bind xmlns='urn:ietf:params:xml:ns:xmpp-bind'>\
    <resource>phone</resource></bind></iq>";
/// As clients send it.
const PRESENCE: &str = "<presence><show>away</show><status>at lunch</status>\
    <c xmlns='http://jabber.org/protocol/caps' hash='sha-1' node='https://example.com/client' \
    ver='QgayPKawpkPSDYmwT/WM94uAlu0='/></presence>";

fn stream_settings() -> Arc<c2s::C2sSettings> {
    let domains = vec!["example.org".into()];
    Arc::new(c2s::C2sSettings { domains, max_stanza: 65_536, secret: [7; 32], ..c2s::C2sSettings::default() })
}

fn host_settings() -> Arc<chat::HostSettings> {
    Arc::new(chat::HostSettings {
        domains: vec!["example.org".into()],
        rooms: "conference".into(),
        pubsub: "pubsub".into(),
        sessions: chat::SessionLimit { most: 100, ends_oldest: false },
        started: START,
        ..chat::HostSettings::default()
    })
}

type Act<'a, M, O> = Box<dyn FnOnce(&mut M, &mut O) + 'a>;

/// A host and its clients' streams; the database knows every account and nothing else.
struct Shard {
    host: Host,
    settings: Arc<c2s::C2sSettings>,
    streams: Vec<C2s>,
}

impl Shard {
    fn sign_in(&mut self, number: u64) {
        let nonce = format!("{number:032x}").into();
        let settings = Arc::clone(&self.settings);
        let security = Security { encrypted: true, ..Security::default() };
        self.streams.push(C2s::new(settings, Framing::Stream, security, number, nonce));
        let plain = xmpp::sasl::encode(format!("\0user{number}\0secret").as_bytes());
        for text in [
            HEADER,
            &format!("<auth xmlns='urn:ietf:params:xml:ns:xmpp-sasl' mechanism='PLAIN'>{plain}</auth>"),
            HEADER,
            BIND,
            "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>",
            PRESENCE,
        ] {
            self.tell_stream(number, Box::new(|c2s, out| c2s.handle_bytes(text.as_bytes(), out)));
        }
        assert!(self.streams[number as usize].is_bound());
    }

    fn tell_stream(&mut self, number: u64, act: Act<'_, C2s, c2s::Outbox>) {
        let mut out = c2s::Outbox::default();
        act(&mut self.streams[number as usize], &mut out);
        let edge = ConnectionId { shard: ShardAddress::default(), connection: number };
        for effect in out.effects {
            match effect {
                c2s::Effect::Find { .. } => {
                    let user = format!("user{number}");
                    let known = CredentialAnswer::Password(true);
                    let act =
                        move |c2s: &mut C2s, out: &mut c2s::Outbox| c2s.handle_found_as(known, &user, out);
                    self.tell_stream(number, Box::new(act));
                }
                c2s::Effect::Bind(request) => {
                    self.tell_host(Box::new(move |host, out| host.handle_bind(START, edge, &request, out)));
                }
                c2s::Effect::Stanza(element) => {
                    self.tell_host(Box::new(move |host, out| host.handle_stanza(START, edge, element, out)));
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn tell_host(&mut self, act: Act<'_, Host, chat::Outbox>) {
        let mut out = Vec::new();
        act(&mut self.host, &mut out);
        let mut todo = VecDeque::from(out);
        while let Some(effect) = todo.pop_front() {
            let mut out = Vec::new();
            match effect {
                Effect::Bound { edge, bound } => {
                    self.tell_stream(edge.connection, Box::new(|c2s, out| c2s.handle_bound(bound, out)));
                }
                Effect::Load { ticket, load } => {
                    let loaded = match load {
                        Load::User { .. } => StoreReply::User(Some(Box::new(AccountData::default()))),
                        Load::Nodes { .. } => {
                            StoreReply::Rows(RowPage { rows: Vec::new(), is_complete: true })
                        }
                        _ => StoreReply::Items(ItemPage::default()),
                    };
                    self.host.handle_store_reply(START, ticket, Ok(loaded), &mut out);
                }
                Effect::Route(element) => self.host.handle_routed(START, *element, &mut out),
                Effect::AskPhone { user } => {
                    let event = PhoneEvent::Changed { user, phone: Phone::default() };
                    self.host.handle_phone(START, event, &mut out);
                }
                _ => {}
            }
            todo.extend(out);
        }
    }
}

#[test]
fn a_silent_session_costs_little() {
    let mut shard = Shard {
        host: Host::new(host_settings(), ShardAddress::default(), [3; 32]),
        settings: stream_settings(),
        streams: Vec::with_capacity(1 + SESSIONS as usize),
    };
    // Memory that is allocated once: tables, buffers, the kind of client.
    shard.sign_in(0);
    let before = ALLOCATOR.bytes();
    for number in 1..=SESSIONS {
        shard.sign_in(number);
    }
    assert_eq!(shard.host.accounts().session_count() as u64, SESSIONS + 1);
    let heap = (ALLOCATOR.bytes() - before) / SESSIONS as usize;
    let each = heap + size_of::<C2s>();
    println!("{each} bytes a session, {} of them its stream itself", size_of::<C2s>());
    assert!(each <= BUDGET, "{each} bytes a session");
}
