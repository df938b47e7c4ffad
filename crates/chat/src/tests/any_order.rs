//! Everything at once, in any order and with a record that takes its time: no host panics, every question has
//! one answer, counts are right, presence is what rosters say, and nothing stays behind.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use xmpp::stanza::{StanzaKind, kind_of};

use super::effect::Subscription;
use super::*;

const USERS: [&str; 3] = ["alice", "bob", "carol"];
const NAMES: [&str; 2] = ["desk", "phone"];
const ROOM: &str = "coven@conference.example.org";

/// The stanzas of the client `from`; `U` is another user's address, `R` the resource of one, `N` a number
/// that is never the same.
const SAID: [&str; 42] = [
    "<presence/>",
    "<presence><priority>-1</priority><status>away</status></presence>",
    "<presence type='unavailable'/>",
    "<presence type='subscribe' to='U'/>",
    "<presence type='subscribed' to='U'/>",
    "<presence type='unsubscribe' to='U'/>",
    "<presence type='unsubscribed' to='U'/>",
    "<presence type='subscribe' to='eve@other.example'/>",
    "<message to='U' type='chat' id='N'><body>N</body></message>",
    "<message to='U/R' type='chat' id='N'><body>N</body></message>",
    "<message to='U' id='N'><retract xmlns='urn:xmpp:message-retract:1' id='1'/></message>",
    "<message to='U/R' type='headline' id='N'><body>N</body></message>",
    "<message to='eve@other.example' type='chat' id='N'><body>N</body></message>",
    "<message to='ROOM' type='groupchat' id='N'><body>N</body></message>",
    "<message to='ROOM/U' type='chat' id='N'><body>N</body></message>",
    "<presence to='ROOM/R'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
    "<presence to='ROOM/R' type='unavailable'/>",
    "<iq type='get' id='N'><query xmlns='jabber:iq:roster'/></iq>",
    "<iq type='set' id='N'><query xmlns='jabber:iq:roster'><item jid='U' name='N'><group>g</group></item></query></iq>",
    "<iq type='set' id='N'><query xmlns='jabber:iq:roster'><item jid='U' subscription='remove'/></query></iq>",
    "<iq type='get' id='N' to='U'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
    "<iq type='get' id='N' to='example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>",
    "<iq type='get' id='N' to='ROOM'><query xmlns='http://jabber.org/protocol/disco#info'/></iq>",
    "<iq type='get' id='N' to='conference.example.org'><query xmlns='http://jabber.org/protocol/disco#items'/></iq>",
    "<iq type='set' id='N' to='ROOM'><query xmlns='http://jabber.org/protocol/muc#owner'><x xmlns='jabber:x:data' type='submit'><field var='muc#roomconfig_persistentroom'><value>1</value></field></x></query></iq>",
    "<iq type='set' id='N' to='ROOM'><query xmlns='http://jabber.org/protocol/muc#admin'><item nick='R' role='none'/></query></iq>",
    "<iq type='set' id='N'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'><item><x xmlns='urn:x'/></item></publish></pubsub></iq>",
    "<iq type='get' id='N' to='U'><pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'/></pubsub></iq>",
    "<iq type='set' id='N'><pubsub xmlns='http://jabber.org/protocol/pubsub#owner'><delete node='n'/></pubsub></iq>",
    "<iq type='set' id='N'><query xmlns='jabber:iq:private'><x xmlns='urn:y'/></query></iq>",
    "<iq type='set' id='N'><vCard xmlns='vcard-temp'><FN>N</FN></vCard></iq>",
    "<iq type='set' id='N'><query xmlns='urn:xmpp:mam:2'/></iq>",
    "<iq type='set' id='N'><query xmlns='urn:xmpp:mam:2'><x xmlns='jabber:x:data' type='submit'>\
     <field var='{urn:xmpp:fulltext:0}fulltext'><value>x</value></field></x></query></iq>",
    "<iq type='set' id='N'><enable xmlns='urn:xmpp:carbons:2'/></iq>",
    "<iq type='set' id='N'><block xmlns='urn:xmpp:blocking'><item jid='U'/></block></iq>",
    "<iq type='set' id='N'><unblock xmlns='urn:xmpp:blocking'/></iq>",
    "<iq type='set' id='N' to='pubsub.example.org'><pubsub xmlns='http://jabber.org/protocol/pubsub'><create node='n'/></pubsub></iq>",
    "<iq type='set' id='N' to='pubsub.example.org'><pubsub xmlns='http://jabber.org/protocol/pubsub'><subscribe node='n' jid='U'/></pubsub></iq>",
    "<iq type='set' id='N' to='pubsub.example.org'><pubsub xmlns='http://jabber.org/protocol/pubsub'><publish node='n'><item><x xmlns='urn:x'/></item></publish></pubsub></iq>",
    "<iq type='get' id='N' to='U'><query xmlns='jabber:iq:last'/></iq>",
    "<iq type='get' id='N' to='proxy.example.org'><query xmlns='http://jabber.org/protocol/bytestreams'/></iq>",
    "<iq type='set' id='N' to='proxy.example.org'><query xmlns='http://jabber.org/protocol/bytestreams' sid='s'><activate>U/R</activate></query></iq>",
];

/// Stanzas of another server and of a privileged component.
const ARRIVES: [&str; 9] = [
    "<message from='eve@other.example/x' to='U' type='chat'><body>N</body></message>",
    "<message from='eve@other.example/x' to='U/R' type='chat'><body>N</body></message>",
    "<presence from='eve@other.example' to='U' type='subscribe'/>",
    "<presence from='eve@other.example/x' to='ROOM/eve'><x xmlns='http://jabber.org/protocol/muc'/></presence>",
    "<presence from='eve@other.example/x' to='U' type='probe'/>",
    "<message from='eve@other.example/x' to='ROOM' type='error'><error type='cancel'><gone xmlns='urn:ietf:params:xml:ns:xmpp-stanzas'/></error></message>",
    "<iq type='set' id='N' from='gate.other.example' to='U'><query xmlns='jabber:iq:roster'><item jid='pal@gate.other.example' subscription='both'/></query></iq>",
    "<message from='gate.other.example' to='U'><privilege xmlns='urn:xmpp:privilege:2'><forwarded xmlns='urn:xmpp:forward:0'>\
     <message from='U' to='eve@other.example' type='chat'><body>N</body></message></forwarded></privilege></message>",
    "<iq type='get' id='N' from='gate.other.example' to='U'><privileged_iq xmlns='urn:xmpp:privilege:2'><iq xmlns='jabber:client' type='get' id='N'>\
     <pubsub xmlns='http://jabber.org/protocol/pubsub'><items node='n'/></pubsub></iq></privileged_iq></iq>",
];

/// A component that may do everything.
fn component() -> privilege::Privileges {
    let all = privilege::RequestAccess { get: true, set: true };
    privilege::Privileges {
        component: "gate.other.example".into(),
        roster: all,
        roster_pushes: true,
        messages: true,
        presence: privilege::PresenceAccess::Roster,
        requests: vec![("http://jabber.org/protocol/pubsub".into(), all)],
        delegations: Vec::new(),
    }
}

fn proxy() -> crate::bytestreams::BytestreamSettings {
    crate::bytestreams::BytestreamSettings { label: "proxy".into(), host: "192.0.2.1".into(), port: 7777 }
}

/// One client's connection, as its client sees it.
#[derive(Default)]
struct Client {
    user: usize,
    /// The number of answers to each of its questions.
    answers: BTreeMap<String, usize>,
    /// Those of them that other users answer.
    asked_users: BTreeSet<String>,
    sees: BTreeSet<String>,
    /// Stanzas since it enabled stream management.
    sent: Option<u32>,
    session: Option<String>,
    is_gone: bool,
    is_available: bool,
}

struct Play {
    world: HostWorld,
    clients: BTreeMap<u64, Client>,
    number: usize,
    /// Users that ever blocked an address.
    blockers: BTreeSet<usize>,
}

impl Play {
    fn new() -> Play {
        let users: Vec<String> = USERS.iter().map(|user| format!("{user}@example.org")).collect();
        let mut world = HostWorld::new(&users.iter().map(String::as_str).collect::<Vec<_>>());
        let settings = world.host.settings().clone();
        world.host.reload(Arc::new(HostSettings {
            privileges: vec![component()],
            bytestreams: Some(proxy()),
            ..settings
        }));
        world.is_slow = true;
        world.reads_slowly = true;
        Play { world, clients: BTreeMap::new(), number: 0, blockers: BTreeSet::new() }
    }

    fn fill(&mut self, template: &str, user: usize, name: usize) -> String {
        self.number += 1;
        // First the capitals of the placeholders that have more than one.
        template
            .replace("ROOM", ROOM)
            .replace("'U", &format!("'{}@example.org", USERS[user]))
            .replace("/U'", &format!("/{}'", NAMES[name]))
            .replace("/R'", &format!("/{}'", NAMES[name]))
            .replace("'R'", &format!("'{}'", NAMES[name]))
            .replace('N', &self.number.to_string())
    }

    fn awake(&self, nth: u8) -> Option<u64> {
        let awake: Vec<u64> =
            self.clients.iter().filter(|(_, one)| !one.is_gone).map(|(key, _)| *key).collect();
        (!awake.is_empty()).then(|| awake[usize::from(nth) % awake.len()])
    }

    fn step(&mut self, (what, nth, user, name): (u8, u8, u8, u8)) {
        let (user, name) = (usize::from(user) % USERS.len(), usize::from(name) % NAMES.len());
        match what % 64 {
            0..=5 => self.come(user, name),
            6 => self.part(nth, false),
            7 => self.part(nth, true),
            8 => self.world.wait(Duration::from_secs(100)),
            9 => self.resume(nth),
            10..=15 => (0..3).for_each(|_| self.write()),
            16..=20 => (0..4).for_each(|_| self.read()),
            21..=24 => {
                let xml = self.fill(ARRIVES[usize::from(nth) % ARRIVES.len()], user, name);
                self.world.arrive(&xml);
            }
            25 => {
                self.world.store.is_broken = true;
                self.write();
                self.world.store.is_broken = false;
            }
            _ => {
                let Some(key) = self.awake(nth) else { return };
                let xml = self.fill(SAID[usize::from(what) % SAID.len()], user, name);
                self.say(key, &xml);
            }
        }
        self.listen();
    }

    fn write(&mut self) {
        if !self.world.unwritten.is_empty() {
            self.world.write();
        }
    }

    fn read(&mut self) {
        if !self.world.unread.is_empty() {
            self.world.read();
        }
    }

    fn come(&mut self, user: usize, name: usize) {
        let jid = format!("{}@example.org/{}", USERS[user], NAMES[name]);
        let key = self.world.sign_in(&jid);
        self.clients.insert(key, Client { user, ..Client::default() });
        if !key.is_multiple_of(3) {
            self.world.say(key, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
            self.clients.get_mut(&key).unwrap().sent = Some(0);
        }
        self.say(key, "<presence/>");
    }

    fn say(&mut self, key: u64, xml: &str) {
        let Some(client) = self.clients.get_mut(&key) else { return };
        if xml.contains("<block ") {
            self.blockers.insert(client.user);
        }
        let is_for_user = USERS.iter().any(|user| xml.contains(&format!("to='{user}@")));
        if let Some((_, rest)) = xml.split_once("<iq ") {
            let id = rest.split("id='").nth(1).and_then(|rest| rest.split('\'').next()).unwrap();
            if is_for_user {
                client.asked_users.insert(id.to_owned());
            }
            client.answers.insert(id.to_owned(), 0);
        }
        if xml.starts_with("<presence/>") || xml.starts_with("<presence><priority") {
            client.is_available = true;
        }
        if xml.starts_with("<presence type='unavailable'/>") {
            client.is_available = false;
            client.sees.clear();
        }
        client.sent = client.sent.map(|sent| sent + 1);
        self.world.say(key, xml);
    }

    fn part(&mut self, nth: u8, in_order: bool) {
        let Some(key) = self.awake(nth) else { return };
        self.clients.get_mut(&key).unwrap().is_gone = true;
        self.world.tell(|host, now, out| host.handle_gone(now, edge(key), in_order, out));
    }

    /// A client that was lost comes back, or finds that it is too late.
    fn resume(&mut self, nth: u8) {
        let lost = self.clients.iter().filter(|(_, one)| one.is_gone && one.session.is_some());
        let lost: Vec<u64> = lost.map(|(key, _)| *key).collect();
        let Some(key) = lost.get(usize::from(nth) % lost.len().max(1)).copied() else { return };
        let old = self.clients.get_mut(&key).unwrap();
        let (id, user) = (old.session.take().unwrap(), format!("{}@example.org", USERS[old.user]));
        let number = self.world.resume(&user, &id, 0);
        // Stanzas of its client are written first.
        while !self.world.bound.contains_key(&number) {
            assert!(
                !self.world.unwritten.is_empty() || !self.world.unread.is_empty(),
                "it waits for nothing"
            );
            self.read();
            self.write();
        }
        if matches!(self.world.bound[&number], Bound::Resumed { .. }) {
            // Stanzas that it received and did not acknowledge come once more.
            let mut client = self.clients.remove(&key).unwrap();
            client.is_gone = false;
            client.answers.clear();
            client.session = Some(id);
            self.clients.insert(number, client);
        }
    }

    fn listen(&mut self) {
        for (key, _) in std::mem::take(&mut self.world.closed) {
            if let Some(client) = self.clients.get_mut(&key) {
                client.is_gone = true;
            }
        }
        let got = std::mem::take(&mut self.world.got);
        for (key, stanzas) in got {
            let Some(client) = self.clients.get_mut(&key) else { continue };
            for stanza in stanzas {
                client.hear(&stanza);
            }
        }
    }

    /// The store has written all, and all clients have received the results.
    fn settle(&mut self) {
        while !self.world.unwritten.is_empty() || !self.world.unread.is_empty() {
            self.read();
            self.write();
            self.listen();
        }
        self.listen();
    }

    fn store(&self, user: usize) -> &AccountData {
        &self.world.store.users[&Bare::parse(&format!("{}@example.org", USERS[user])).unwrap()]
    }

    fn contact(&self, user: usize, contact: usize) -> Subscription {
        let contact = Bare::parse(&format!("{}@example.org", USERS[contact])).unwrap();
        self.store(user).contact(&contact).map(|item| item.subscription).unwrap_or_default()
    }

    fn blocks(&self, user: usize, contact: usize) -> bool {
        let contact = format!("{}@example.org", USERS[contact]);
        self.store(user).blocked.iter().any(|blocked| blocked.as_str() == contact)
    }

    /// RFC 6121 §4: a client that is subscribed by both rosters sees all available sessions; any other sees
    /// none.
    fn check_presence(&self) {
        let available: Vec<(usize, String)> = self
            .clients
            .iter()
            .filter_map(|(key, client)| {
                let session = self.world.host.accounts.by_edge.get(&edge(*key))?;
                let session = self.world.host.accounts.sessions.get(*session)?;
                session.is_available().then(|| (client.user, session.jid.to_string()))
            })
            .collect();
        for (key, client) in self.clients.iter().filter(|(_, client)| !client.is_gone && client.is_available)
        {
            for other in (0..USERS.len()).filter(|other| *other != client.user) {
                // A user with blocked contacts does not learn that they go, also not later (XEP-0191 §3.3).
                if self.blockers.contains(&client.user) {
                    continue;
                }
                let to = self.contact(client.user, other).has_to();
                let from = self.contact(other, client.user).has_from();
                let prefix = format!("{}@example.org/", USERS[other]);
                let seen: BTreeSet<&String> =
                    client.sees.iter().filter(|jid| jid.starts_with(&prefix)).collect();
                let asleep = self
                    .world
                    .host
                    .accounts
                    .sessions
                    .iter()
                    .filter(|(_, session)| session.is_available() && session.edge.is_none());
                let mut there: BTreeSet<String> =
                    available.iter().filter(|(user, _)| *user == other).map(|(_, jid)| jid.clone()).collect();
                there.extend(
                    asleep.map(|(_, one)| one.jid.to_string()).filter(|jid| jid.starts_with(&prefix)),
                );
                if to && from && !self.blocks(other, client.user) {
                    assert_eq!(seen, there.iter().collect(), "client {key} of {prefix}");
                } else if !from || self.blocks(other, client.user) {
                    assert!(seen.is_empty(), "client {key} sees {seen:?} and may not");
                }
            }
        }
    }

    fn check_answers(&self) {
        for (key, client) in self.clients.iter().filter(|(_, client)| !client.is_gone) {
            for (id, answers) in &client.answers {
                // The answer of a user that is blocked meanwhile is not let in.
                if !self.blockers.is_empty() && client.asked_users.contains(id) {
                    continue;
                }
                assert_eq!(*answers, 1, "answers to question {id} of client {key}");
            }
        }
    }

    fn check_counts(&mut self) {
        let managed: Vec<(u64, u32)> = self
            .clients
            .iter()
            .filter(|(_, client)| !client.is_gone)
            .filter_map(|(key, client)| Some((*key, client.sent?)))
            .collect();
        for (key, sent) in managed {
            self.world.say(key, "<r xmlns='urn:xmpp:sm:3'/>");
            let heard = self.world.hear(key);
            assert!(
                heard.contains(&format!("<a xmlns='urn:xmpp:sm:3' h='{sent}'/>")),
                "{sent} of {key}: {heard:?}"
            );
        }
    }

    /// All clients leave, and the host is as empty as before.
    fn end(mut self) {
        for key in self.clients.keys().copied().collect::<Vec<_>>() {
            self.world.tell(|host, now, out| host.handle_gone(now, edge(key), true, out));
        }
        self.world.wait(Duration::from_secs(301));
        // The occupant of another server is still in the room.
        self.world
            .arrive(&format!("<presence from='eve@other.example/x' to='{ROOM}/eve' type='unavailable'/>"));
        self.settle();
        self.world.wait(crate::limits::ROOM_IDLE * 2);
        let host = &self.world.host;
        let left = [
            ("sessions", host.accounts.sessions.len()),
            ("edges", host.accounts.by_edge.len()),
            ("users", host.accounts.users.len()),
            ("questions", host.store.pending.len()),
            ("sleepers", host.sleeping.len()),
            ("turns", host.accounts.changes.len()),
            ("reads", host.store.reads.len()),
            ("order", host.store.writes.len()),
            ("handling", host.pending_acks.len()),
            ("offline", host.offline.len()),
            ("rooms", host.rooms.len()),
            ("nodes", host.pubsub.busy()),
            ("requests to nodes", host.feature_continuations.len()),
            ("requests of components", usize::from(host.privileged.deadline().is_some())),
        ];
        assert_eq!(
            left.iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>(),
            Vec::<&(&str, usize)>::new()
        );
        assert!(host.accounts.idle.len() <= USERS.len(), "bounded");
    }
}

impl Client {
    fn hear(&mut self, stanza: &Element) {
        match kind_of(stanza) {
            Some(StanzaKind::Iq) if matches!(stanza.attr("type"), Some("result" | "error")) => {
                if let Some(count) = stanza.attr("id").and_then(|id| self.answers.get_mut(id)) {
                    *count += 1;
                }
            }
            Some(StanzaKind::Presence) => {
                let from = stanza.attr("from").unwrap_or_default().to_owned();
                match stanza.attr("type") {
                    None => drop(self.sees.insert(from)),
                    Some("unavailable") => drop(self.sees.remove(&from)),
                    _ => {}
                }
            }
            None if stanza.is("enabled", ns::SM) => self.session = stanza.attr("id").map(Into::into),
            _ => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_invariants_hold_after_any_steps(steps in prop::collection::vec(any::<(u8, u8, u8, u8)>(), 1..300)) {
        let mut play = Play::new();
        for step in steps {
            play.step(step);
        }
        play.settle();
        play.check_answers();
        play.check_presence();
        play.check_counts();
        play.end();
    }
}
