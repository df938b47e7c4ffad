//! The host of all accounts and rooms dies at any time, and the node of the connections announces the sessions to the next one: clients
//! that stay connected agree on who is available and who is in the room, which has a password and is temporary, counts are right, and no acknowledged message is lost.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use xmpp::stanza::{StanzaKind, kind_of};

use super::effect::{RosterItem, Subscription};
use super::*;

const USERS: usize = 4;
const ROOM: &str = "coven@conference.example.org";

/// A client with stream management, and its node's view of the session.
struct Client {
    user: usize,
    followed: FollowedSession,
    /// The session is announced, and the next host has not answered.
    is_waiting: bool,
    /// Stanzas of the client, and those that it has received, since it enabled stream management.
    sent: u32,
    received: u32,
    is_available: bool,
    sees: BTreeSet<String>,
    is_in_room: bool,
    /// It has asked for entry and not for its end: the answer to its leaving may be lost with a host that has acknowledged it.
    wants_room: bool,
    occupants: BTreeSet<String>,
}

struct Play {
    world: HostWorld,
    /// The occupants that the node of the connections has seen.
    seen: SeenOccupants,
    clients: BTreeMap<u64, Client>,
    said: Vec<String>,
    /// Stanzas that the host sends are not delivered.
    is_lossy: bool,
}

fn address(user: usize) -> String {
    format!("u{user}@example.org")
}

impl Play {
    fn new() -> Play {
        let users: Vec<String> = (0..USERS).map(address).collect();
        let mut world = HostWorld::new(&users.iter().map(String::as_str).collect::<Vec<_>>());
        let both = RosterItem { subscription: Subscription::Both, is_listed: true, ..Default::default() };
        for user in &users {
            let others = users.iter().filter(|other| *other != user);
            let roster = others.map(|other| (Bare::parse(other).unwrap(), both.clone())).collect();
            world.store.users.get_mut(&Bare::parse(user).unwrap()).unwrap().roster = roster;
        }
        (world.is_slow, world.reads_slowly) = (true, true);
        crate::ownership::share_addresses(&mut world.host);
        Play {
            world,
            seen: SeenOccupants::default(),
            clients: BTreeMap::new(),
            said: Vec::new(),
            is_lossy: false,
        }
    }

    fn step(&mut self, (what, nth, other): (u8, u8, u8)) {
        let (nth, other) = (usize::from(nth), usize::from(other) % USERS);
        let is_settled = self.clients.values().all(|client| !client.is_waiting)
            && self.world.unread.is_empty()
            && self.world.unwritten.is_empty();
        let key = self.clients.keys().copied().nth(nth % self.clients.len().max(1));
        match (what % 27, key) {
            (0..=2, _) => self.come(other),
            (3 | 4, _) => (0..4).for_each(|_| self.read()),
            (5 | 6, _) => (0..3).for_each(|_| self.write()),
            (7, _) => self.die(nth % 2 == 0),
            (_, None) => {}
            (8, Some(key)) if is_settled => self.part(key),
            (9, Some(key)) => self.say(key, "<presence type='unavailable'/>"),
            (10 | 11, Some(key)) => self.say(key, "<presence/>"),
            (12..=14, Some(key)) => self.enter(key),
            (15, Some(key)) => self.leave(key),
            (16, Some(key)) => self.kick(key, other),
            (17..=19, Some(key)) => {
                let text = format!("text-{}", self.said.len());
                self.say(
                    key,
                    &format!(
                        "<message type='chat' id='{text}' to='{}'><body>{text}</body></message>",
                        address(other)
                    ),
                );
                self.said.push(text);
            }
            // A stanza that waits for a read is counted as handled, as without a farm.
            (20..=22, Some(key)) if self.world.unread.is_empty() => {
                self.say_nonza(key, "<r xmlns='urn:xmpp:sm:3'/>");
            }
            (23, Some(key)) => {
                let received = self.clients[&key].received;
                self.say_nonza(key, &format!("<a xmlns='urn:xmpp:sm:3' h='{received}'/>"));
            }
            // The host dies, and what it has sent of the last event is lost with it.
            (24 | 25, Some(key)) if !self.clients[&key].is_waiting => {
                self.is_lossy = true;
                match (what % 27, nth % 2) {
                    (24, _) => self.leave(key),
                    (_, 0) => self.kick(key, other),
                    _ if is_settled => self.part(key),
                    _ => {}
                }
                self.is_lossy = false;
                self.world.got.clear();
                self.die(other % 2 == 0);
            }
            _ => {}
        }
        self.listen();
    }

    fn enter(&mut self, key: u64) {
        let nick = self.clients[&key].user;
        self.clients.get_mut(&key).unwrap().wants_room = true;
        self.say(
            key,
            &format!(
                "<presence to='{ROOM}/u{nick}'><x xmlns='http://jabber.org/protocol/muc'><password>sesame</password></x></presence>"
            ),
        );
        // For the client that has created it.
        self.say(key, &format!("<iq type='set' id='c' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_passwordprotectedroom'><value>1</value></field><field var='muc#roomconfig_roomsecret'><value>sesame</value></field></x></query></iq>"));
    }

    fn leave(&mut self, key: u64) {
        let nick = self.clients[&key].user;
        self.clients.get_mut(&key).unwrap().wants_room = false;
        self.say(key, &format!("<presence to='{ROOM}/u{nick}' type='unavailable'/>"));
    }

    fn kick(&mut self, key: u64, other: usize) {
        self.say(key, &format!("<iq type='set' id='k' to='{ROOM}'><query xmlns='http://jabber.org/protocol/muc#admin'><item nick='u{other}' role='none'/></query></iq>"));
    }

    fn read(&mut self) {
        if !self.world.unread.is_empty() {
            self.world.read();
        }
        self.listen();
    }

    fn write(&mut self) {
        if !self.world.unwritten.is_empty() {
            self.world.write();
        }
        self.listen();
    }

    fn come(&mut self, user: usize) {
        if self.clients.values().any(|client| client.user == user || client.is_waiting) {
            return;
        }
        let key = self.world.sign_in(&format!("{}/desk", address(user)));
        let jid = Jid::parse(&format!("{}/desk", address(user))).unwrap();
        let request = BindRequest {
            user: jid.bare().into_jid(),
            is_anonymous: false,
            resource: None,
            tag: None,
            agent: None,
            is_bind2: false,
            can_move: false,
            inline: Vec::new(),
        };
        let mut followed = FollowedSession::new(&request);
        followed.handle_bound(&jid, &[]);
        let client = Client {
            user,
            followed,
            is_waiting: false,
            sent: 0,
            received: 0,
            is_available: false,
            sees: BTreeSet::new(),
            is_in_room: false,
            wants_room: false,
            occupants: BTreeSet::new(),
        };
        self.clients.insert(key, client);
        self.say_nonza(key, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
        self.say(key, "<presence/>");
    }

    fn part(&mut self, key: u64) {
        // Afterwards nothing sends its stanzas again.
        let is_lossy = std::mem::take(&mut self.is_lossy);
        self.settle();
        self.is_lossy = is_lossy;
        self.clients.remove(&key);
        self.seen.remove(key);
        self.world.tell(|host, now, out| host.handle_gone(now, edge(key), true, out));
        if !is_lossy {
            // docs/farm.md names that limit: only the dead host knew of a session that has just ended.
            self.settle();
        }
    }

    fn say(&mut self, key: u64, xml: &str) {
        let client = self.clients.get_mut(&key).unwrap();
        client.sent += 1;
        match xml {
            "<presence/>" => client.is_available = true,
            "<presence type='unavailable'/>" => {
                (client.is_available, client.wants_room) = (false, false);
                client.sees.clear();
            }
            _ => {}
        }
        // As its stream stamps it.
        let stanza = parsed(xml).with("from", client.full());
        client.followed.handle_stanza(&stanza);
        if !client.is_waiting {
            self.world.say(key, xml);
        }
        self.listen();
    }

    fn say_nonza(&mut self, key: u64, xml: &str) {
        let client = self.clients.get_mut(&key).unwrap();
        client.followed.handle_nonza(&parsed(xml));
        if !client.is_waiting {
            self.world.say(key, xml);
        }
        self.listen();
    }

    /// Writes and reads that the host has not finished are lost with it.
    fn die(&mut self, is_late: bool) {
        let settings = Arc::new(self.world.host.settings().clone());
        self.world.host = Host::new(settings, ShardAddress::default(), [2; 32]);
        crate::ownership::share_addresses(&mut self.world.host);
        self.world.unwritten.clear();
        self.world.unread.clear();
        for seen in self.seen.announce(self.world.now, |_| true) {
            self.world.tell(|host, now, out| host.handle_routed(now, seen, out));
        }
        for (key, client) in &mut self.clients {
            let session = client.followed.announce().expect("little waits");
            client.is_waiting = true;
            self.world.bound.remove(key);
            let (edge, manner) = (edge(*key), RestoreManner { is_late });
            self.world.tell(|host, now, out| {
                handle_restore(host, now, (edge, session), manner, |_| true, out);
            });
        }
        self.listen();
    }

    /// Clients get what the host has sent, and the next host gets the rest of a session's stanzas after its answer.
    fn listen(&mut self) {
        if self.is_lossy {
            return;
        }
        loop {
            for (key, element) in std::mem::take(&mut self.world.got)
                .into_iter()
                .flat_map(|(key, all)| all.into_iter().map(move |one| (key, one)))
            {
                let Some(client) = self.clients.get_mut(&key) else { continue };
                client.hear(&element);
                if let Some(occupant) = occupant_of(&element) {
                    self.seen.handle_delivered(self.world.now, key, &occupant, &element);
                }
                client.followed.handle_delivered(element);
            }
            assert!(self.world.closed.is_empty(), "{:?}", self.world.closed);
            let answered = self
                .clients
                .iter()
                .find(|(key, client)| client.is_waiting && self.world.bound.contains_key(key));
            let Some(key) = answered.map(|(key, _)| *key) else { return };
            let client = self.clients.get_mut(&key).unwrap();
            assert!(matches!(self.world.bound[&key], Bound::Session { .. }), "{:?}", self.world.bound[&key]);
            client.is_waiting = false;
            for element in client.followed.repeat() {
                let xml = String::from_utf8(element.to_bytes(ns::CLIENT)).unwrap();
                self.world.say(key, &xml);
            }
        }
    }

    fn settle(&mut self) {
        while !self.world.unwritten.is_empty() || !self.world.unread.is_empty() {
            self.read();
            self.write();
        }
        self.listen();
    }

    fn check(&mut self) {
        let available: BTreeSet<String> =
            self.clients.values().filter(|client| client.is_available).map(Client::full).collect();
        let in_room: BTreeSet<String> = self
            .clients
            .values()
            .filter(|client| client.is_there())
            .map(|client| format!("u{}", client.user))
            .collect();
        for client in self.clients.values() {
            let others: BTreeSet<&String> = available.iter().filter(|full| **full != client.full()).collect();
            if client.is_available {
                assert_eq!(client.sees.iter().collect::<BTreeSet<_>>(), others, "u{}", client.user);
            }
            if client.is_there() {
                assert_eq!(client.occupants, in_room, "the room of u{}", client.user);
            }
        }
        let stored: BTreeSet<String> =
            self.world.store.changes.iter().map(|change| format!("{change:?}")).collect();
        for text in &self.said {
            let is_stored =
                |change: &String| ["\"", "'", "<"].iter().any(|end| change.contains(&format!("{text}{end}")));
            assert!(stored.iter().any(is_stored), "{text} is not archived");
        }
        for key in self.clients.keys().copied().collect::<Vec<_>>() {
            let sent = self.clients[&key].sent;
            self.world.say(key, "<r xmlns='urn:xmpp:sm:3'/>");
            let heard = self.world.hear(key);
            let answer = format!("<a xmlns='urn:xmpp:sm:3' h='{sent}'/>");
            assert!(heard.contains(&answer), "{sent} of {key}: {heard:?}");
        }
    }
}

impl Client {
    fn full(&self) -> String {
        format!("{}/desk", address(self.user))
    }

    /// It is in the room, and wants to be.
    fn is_there(&self) -> bool {
        self.is_in_room && self.wants_room
    }

    fn hear(&mut self, stanza: &Element) {
        let kind = kind_of(stanza);
        if kind.is_some() {
            self.received += 1;
        }
        if kind != Some(StanzaKind::Presence) {
            return;
        }
        let is_there = match stanza.attr("type") {
            None => true,
            Some("unavailable") => false,
            _ => return,
        };
        let from = Jid::parse(stanza.attr("from").unwrap()).unwrap();
        if from.bare_str() == ROOM {
            let nick = from.resource().unwrap().to_owned();
            if nick == format!("u{}", self.user) {
                self.is_in_room = is_there;
                if !is_there {
                    self.occupants.clear();
                }
            }
            if is_there {
                self.occupants.insert(nick)
            } else {
                self.occupants.remove(&nick)
            };
        } else if from.bare_str() == address(self.user) {
        } else if is_there {
            self.sees.insert(from.to_string());
        } else if from.is_bare() {
            // RFC 6121 §4.3.2: no session of the contact is available.
            self.sees.retain(|full| !full.starts_with(&format!("{from}/")));
        } else {
            self.sees.remove(from.as_str());
        }
    }
}

fn parsed(xml: &str) -> Element {
    let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
    xmpp::xml::parse(xml.as_bytes(), &prefixes).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 4_000, ..ProptestConfig::default() })]

    #[test]
    fn clients_that_stay_connected_agree_after_the_deaths_of_hosts(steps in prop::collection::vec(any::<(u8, u8, u8)>(), 1..200)) {
        let mut play = Play::new();
        for step in steps {
            play.step(step);
        }
        play.settle();
        // Rooms tell their occupants of those that have not come back.
        play.world.wait(crate::limits::ROOM_RESTORE);
        play.settle();
        play.check();
    }
}
