//! Any stanzas of clients, other servers and rooms, a line each: every one ends, and when all have left no session stays.
//! The first byte of a line says whose it is.
#![no_main]

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chat::effect::{AccountData, MamPage};
use chat::{Effect, Host, HostSettings, ItemPage, Load, Outbox, StanzaPage, StoreFailure, StoreReply};
use libfuzzer_sys::fuzz_target;
use stdx::Instant;
use xmpp::c2s::BindRequest;
use xmpp::{ConnectionId, ShardAddress};
use xmpp::{Element, Jid, ns, stanza, xml};

const CLIENTS: [&str; 3] = ["alice@example.org/desk", "alice@example.org/phone", "bob@example.org/desk"];

/// Stanzas that one line may cause: more would be a circle.
const EFFECTS: usize = 100_000;

fuzz_target!(|data: &[u8]| {
    let mut world = World {
        host: Host::new(Arc::new(settings()), ShardAddress::default(), [7; 32]),
        now: Instant::from_unix_seconds(1),
    };
    for (number, jid) in CLIENTS.iter().enumerate() {
        let jid = Jid::parse(jid).expect("an address");
        let request = BindRequest {
            user: jid.bare().into_jid(),
            is_anonymous: false,
            resource: jid.resource().map(Box::from),
            tag: None,
            agent: None,
            is_bind2: false,
            can_move: false,
            inline: Vec::new(),
        };
        world.tell(|host, now, out| host.handle_bind(now, edge(number), &request, out));
    }
    for line in data.split(|&byte| byte == b'\n').take(200) {
        world.now = world.now + Duration::from_millis(500);
        if let Some((&client, text)) = line.split_first() {
            world.say(usize::from(client), text);
        }
    }
    for number in 0..CLIENTS.len() {
        world.tell(|host, now, out| host.handle_gone(now, edge(number), false, out));
    }
    world.now = world.now + Duration::from_secs(3_600);
    world.tell(|host, now, out| host.expire(now, out));
    assert_eq!(world.host.accounts().session_count(), 0);
});

fn settings() -> HostSettings {
    HostSettings {
        domains: vec!["example.org".into()],
        rooms: "conference".into(),
        pubsub: "pubsub".into(),
        software: "Belfry".into(),
        version: "1".into(),
        resume_for: Duration::from_secs(300),
        contacts: Vec::new(),
        bytestreams: Some(chat::bytestreams::BytestreamSettings {
            label: "proxy".into(),
            host: "192.0.2.1".into(),
            port: 7777,
        }),
        uploads: None,
        services: Vec::new(),
        admins: Vec::new(),
        started: Instant::from_unix_seconds(0),
        privileges: vec![component()],
        ..HostSettings::default()
    }
}

/// A component of another domain that may do everything.
fn component() -> chat::Privileges {
    let all = chat::RequestAccess { get: true, set: true };
    chat::Privileges {
        component: "gate.example.net".into(),
        roster: all,
        roster_pushes: true,
        messages: true,
        presence: chat::PresenceAccess::Roster,
        requests: vec![("http://jabber.org/protocol/pubsub".into(), all)],
        delegations: vec![chat::Delegation { namespace: "urn:x".into(), attributes: Vec::new() }],
    }
}

fn edge(number: usize) -> ConnectionId {
    ConnectionId { shard: ShardAddress::default(), connection: number as u64 }
}

struct World {
    host: Host,
    now: Instant,
}

impl World {
    fn say(&mut self, client: usize, text: &[u8]) {
        let Ok(mut element) = xml::parse(text, &xml::Prefixes::of_default(ns::CLIENT)) else { return };
        let Some(jid) = CLIENTS.get(client % 5) else {
            // Of another server, which says who it is from.
            return self.tell(|host, now, out| host.handle_routed(now, element, out));
        };
        element.set("from", *jid);
        self.tell(|host, now, out| match stanza::kind_of(&element) {
            Some(_) => host.handle_stanza(now, edge(client % 5), element, out),
            None => host.handle_nonza(now, edge(client % 5), &element, out),
        });
    }

    fn tell(&mut self, act: impl FnOnce(&mut Host, Instant, &mut Outbox)) {
        let mut out = Outbox::new();
        act(&mut self.host, self.now, &mut out);
        let mut todo = VecDeque::from(out);
        let mut done = 0;
        while let Some(effect) = todo.pop_front() {
            done += 1;
            assert!(done < EFFECTS, "it never ends: {effect:?}");
            let mut out = Outbox::new();
            self.perform(effect, &mut out);
            todo.extend(out);
        }
    }

    fn perform(&mut self, effect: Effect, out: &mut Outbox) {
        match effect {
            Effect::Route(stanza) => {
                let to = stanza.attr("to").map(Jid::parse);
                let to = to.expect("a routed stanza has an address").expect("and a good one");
                if self.host.settings().is_ours(to.domain()) {
                    self.host.handle_routed(self.now, *stanza, out);
                }
            }
            Effect::Load { ticket, load: Load::Act(act) } => {
                let acted = StoreReply::HostActionResult(self.host.act(self.now, &act, out));
                self.host.handle_store_reply(self.now, ticket, Ok(acted), out);
            }
            Effect::Load { ticket, load } => {
                self.host.handle_store_reply(self.now, ticket, load_of(&load), out);
            }
            Effect::Change { ticket, .. } => {
                self.host.handle_store_reply(self.now, ticket, Ok(StoreReply::Done), out);
            }
            Effect::Deliver { element, .. } => readable(&element),
            Effect::Flush { edge } => self.host.handle_drained(self.now, edge, out),
            _ => {}
        }
    }
}

/// Clients can read every element that they get.
fn readable(element: &Element) {
    let bytes = element.to_bytes(ns::CLIENT);
    let again = xml::parse_of(&bytes, &xml::Prefixes::of_default(ns::CLIENT), usize::MAX);
    assert!(again.is_ok(), "{}", String::from_utf8_lossy(&bytes));
}

fn load_of(load: &Load) -> Result<StoreReply, StoreFailure> {
    Ok(match load {
        Load::User { user } if user.local() == Some("nobody") => StoreReply::User(None),
        Load::User { .. } => StoreReply::User(Some(Box::new(AccountData::default()))),
        Load::Offline { .. } => {
            StoreReply::Stanzas(StanzaPage { is_complete: true, ..StanzaPage::default() })
        }
        Load::Archive { .. } => StoreReply::Page(MamPage { is_complete: true, ..MamPage::default() }),
        Load::Room { .. } => StoreReply::Room(None),
        Load::Items { .. } | Load::Nodes { .. } | Load::Rooms { .. } => {
            StoreReply::Items(ItemPage::default())
        }
        _ => return Err(StoreFailure::Unavailable),
    })
}
