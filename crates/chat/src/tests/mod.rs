//! A world with one host: clients and a store in memory.

mod any_order;
mod archive;
mod bad_input;
mod bind2;
mod blocking;
mod bytestreams;
mod calls;
mod caps;
mod carbons;
mod commands;
mod csi;
mod delegation;
mod delivery;
mod disco;
mod flow;
mod forms;
mod groups;
mod idle_accounts;
mod last;
mod messages;
mod muc;
mod offline;
mod owner_death;
mod ownership;
mod pep;
mod phones;
mod ping;
mod presence;
mod private;
mod privileged;
mod pubsub;
mod pubsub_service;
mod push;
mod read_queues;
mod register;
mod reports;
mod restore;
mod retract;
mod roster;
mod rosters;
mod rtbl;
mod sm;
mod table;
mod upload;
mod vcard;
mod voicemail;
mod webhooks;

use std::collections::HashMap;
use std::time::Duration;

use xmpp::c2s::{BindRequest, Bound};
use xmpp::{ConnectionId, Jid, ShardAddress, ns};

use super::effect::{AccountData, AccountList, AccountRefusal, Accounts, StoreFailure};
use super::*;

/// True if this is `tests_without_rosters`.
const HAS_NO_ROSTERS: bool = module_path!().len() > "chat::tests".len();

pub(super) const START: Instant = Instant::from_unix_seconds(1_800_000_000);

pub(super) fn settings() -> HostSettings {
    HostSettings {
        domains: vec!["example.org".into()],
        rooms: "conference".into(),
        pubsub: "pubsub".into(),
        software: "Belfry".into(),
        version: "1".into(),
        resume_for: Duration::from_secs(300),
        contacts: Vec::new(),
        bytestreams: None,
        uploads: None,
        services: Vec::new(),
        admins: Vec::new(),
        components: Vec::new(),
        privileges: Vec::new(),
        texts_to_phones: super::phones::TextsToPhones::default(),
        archive: super::archive::ArchiveDefault::default(),
        sessions: SessionLimit { most: 100, ends_oldest: false },
        rosters: if HAS_NO_ROSTERS { RosterMemory(0) } else { RosterMemory::default() },
        accounts: super::register::AccountSettings::default(),
        invitations: super::invite::InvitationSettings::default(),
        started: START,
        rtbl: Vec::new(),
        webhooks: super::webhooks::WebhookSettings::default(),
        groups: Arc::default(),
    }
}

/// Clients by number; the stanzas sent to each. Everything is routed back here, and the store answers at
/// once.
pub(super) struct HostWorld {
    pub(super) host: Host,
    pub(super) now: Instant,
    pub(super) store: FakeStore,
    pub(super) got: HashMap<u64, Vec<Element>>,
    /// Connections that the host closed, and why.
    pub(super) closed: Vec<(u64, &'static str)>,
    /// The application-specific conditions among the causes.
    pub(super) details: Vec<String>,
    /// Stanzas to addresses that are not ours.
    pub(super) abroad: Vec<Element>,
    pub(super) bound: HashMap<u64, Bound>,
    pub(super) phones: phones::Phones,
    /// The store writes nothing until it is told to: `HostWorld::write`.
    pub(super) is_slow: bool,
    pub(super) unwritten: std::collections::VecDeque<(Ticket, Change)>,
    /// As `is_slow`, of reading: `HostWorld::read`.
    pub(super) reads_slowly: bool,
    pub(super) unread: std::collections::VecDeque<(Ticket, Load)>,
    /// Clients that do not read, and those of them that were asked whether they have: `HostWorld::drain`.
    pub(super) reads_nothing: Vec<u64>,
    pub(super) unflushed: Vec<u64>,
    /// Events for applications.
    pub(super) events: Vec<crate::webhooks::WebhookEvent>,
    /// The time that each message of a client with stream management took until it was handled.
    handled: Vec<Duration>,
    next: u64,
}

/// Id, time and item.
type Row = (Box<str>, Instant, Element);

/// The store of a test; features add their parts.
#[derive(Default)]
pub(super) struct FakeStore {
    pub(super) users: HashMap<Bare, AccountData>,
    pub(super) messages: messages::Messages,
    pub(super) changes: Vec<Change>,
    pub(super) loads: Vec<Load>,
    /// The newest last.
    pub(super) items: HashMap<(Bare, Box<str>), Vec<Row>>,
    pub(super) rooms: HashMap<Bare, Element>,
    pub(super) nodes: std::collections::BTreeMap<(Bare, Box<str>), Element>,
    pub(super) is_broken: bool,
    /// The reason why transfers do not begin.
    pub(super) activation: Option<::bytestreams::ActivationFault>,
    pub(super) administered: Vec<Accounts>,
    calls: calls::Calls,
    mailboxes: voicemail::Mailboxes,
    accounts: register::Known,
}

/// Rows of one page: few, so that many tests have several pages.
pub(super) fn page_of(mut rows: Vec<Row>) -> RowPage {
    let is_complete = rows.len() <= 3;
    rows.truncate(3);
    RowPage { rows, is_complete }
}

impl FakeStore {
    pub(super) fn load(&mut self, load: &Load) -> Result<StoreReply, StoreFailure> {
        self.loads.push(load.clone());
        if self.is_broken {
            return Err(StoreFailure::Unavailable);
        }
        Ok(match load {
            Load::User { user } => {
                let store = self.users.get(user).cloned().map(Box::new);
                let waiting = self.messages.offline.iter().filter(|(of, ..)| of == user).count();
                let items = super::user::NODES.iter().filter_map(|node| {
                    let items = self.items.get(&(user.clone(), (*node).into()))?;
                    Some(((*node).into(), items.last()?.2.clone()))
                });
                let items = items.collect();
                StoreReply::User(
                    store.map(|store| Box::new(AccountData { offline: waiting as u32, items, ..*store })),
                )
            }
            Load::Offline { .. } | Load::Archive { .. } => self.messages.load(load),
            Load::Items { owner, node, query } => {
                let items = self.items.get(&(owner.clone(), node.clone()));
                StoreReply::Items(query.page_of(items.map(Vec::as_slice).unwrap_or_default()))
            }
            Load::Nodes { owner, after } => {
                let rows = self.nodes.iter().filter(|((known, name), _)| {
                    known == owner && after.as_ref().is_none_or(|after| name > after)
                });
                StoreReply::Rows(page_of(
                    rows.map(|((_, name), config)| (name.clone(), START, config.clone())).collect(),
                ))
            }
            Load::Act(_) => unreachable!("the world does it"),
            Load::Accounts(accounts) => self.administer(accounts),
            Load::Slot { name, .. } => StoreReply::Slot(Box::new(super::effect::UploadSlot {
                put: format!("https://up.example.org/put/{name}").into(),
                get: format!("https://up.example.org/get/{name}").into(),
                headers: vec![("Authorization".into(), "t".into())],
            })),
            Load::Calls { user, query } => StoreReply::Calls(self.calls.page(user, *query)),
            Load::Voicemail { user, request } => StoreReply::Voicemail(self.mailboxes.perform(user, request)),
            // The world has no connections.
            Load::Activate(_) => StoreReply::Activated(self.activation.map_or(Ok(()), Err)),
            Load::Waiting => {
                StoreReply::Users(self.messages.offline.iter().map(|(user, ..)| user.clone()).collect())
            }
            Load::Rooms { .. } => StoreReply::Rows(page_of(Vec::new())),
            Load::TooMany => return Err(StoreFailure::Unavailable),
            Load::Room { room } => StoreReply::Room(self.rooms.get(room).cloned().map(Box::new)),
        })
    }

    fn administer(&mut self, accounts: &Accounts) -> StoreReply {
        self.administered.push(accounts.clone());
        StoreReply::Accounts(match accounts {
            Accounts::Add { user, .. } if self.users.contains_key(user) => Err(AccountRefusal::Exists),
            Accounts::Add { password, .. } if password.0.len() < 3 => {
                Err(AccountRefusal::Invalid("too short".into()))
            }
            Accounts::Add { user, .. } => {
                self.users.insert(user.clone(), AccountData::default());
                Ok(AccountList::default())
            }
            Accounts::List { max, .. } => {
                let mut accounts: Vec<Bare> = self.users.keys().cloned().collect();
                accounts.sort();
                accounts.truncate(*max as usize);
                Ok(AccountList { total: self.users.len() as u64, accounts })
            }
            _ => Ok(AccountList::default()),
        })
    }

    fn access(&mut self, access: Access) -> Result<StoreReply, StoreFailure> {
        if self.is_broken {
            return Err(StoreFailure::Unavailable);
        }
        if let Access::Remove { user } = &access {
            self.users.remove(user);
        }
        self.accounts.access(access)
    }

    pub(super) fn change(&mut self, change: Change) -> Result<StoreReply, StoreFailure> {
        if self.is_broken {
            return Err(StoreFailure::Unavailable);
        }
        self.apply(&change)?;
        self.changes.push(change);
        Ok(StoreReply::Done)
    }

    /// So that it is there when the account is loaded again.
    fn apply(&mut self, change: &Change) -> Result<(), StoreFailure> {
        match change {
            Change::Roster { user, contact, item, version } => {
                let Some(store) = self.users.get_mut(user) else { return Ok(()) };
                store.roster.retain(|(known, _)| known != contact);
                store.roster.extend(item.clone().map(|item| (contact.clone(), item)));
                store.roster_version = *version;
            }
            Change::Blocked { user, blocked } => {
                let Some(store) = self.users.get_mut(user) else { return Ok(()) };
                store.blocked.clone_from(blocked);
            }
            Change::LastSeen { user, at, status } => {
                let Some(store) = self.users.get_mut(user) else { return Ok(()) };
                store.last_seen = Some((*at, status.clone()));
            }
            Change::Item { owner, node, id, item, at, keep } => {
                let items = self.items.entry((owner.clone(), node.clone())).or_default();
                let known = items.iter().position(|(known, _, _)| known == id);
                if let Some(known) = known {
                    items.remove(known);
                }
                match item {
                    Some(item) => items.push((id.clone(), *at, Element::clone(item))),
                    None if known.is_none() => return Err(StoreFailure::NotFound),
                    None => {}
                }
                let surplus = items.len().saturating_sub(*keep as usize);
                items.drain(..surplus);
            }
            Change::Node { owner, node, config: Some(config) } => {
                self.nodes.insert((owner.clone(), node.clone()), Element::clone(config));
            }
            Change::Node { owner, node, config: None } => {
                self.nodes.remove(&(owner.clone(), node.clone()));
                self.items.remove(&(owner.clone(), node.clone()));
            }
            Change::Purge { owner, node } => {
                self.items.remove(&(owner.clone(), node.clone()));
            }
            Change::Room { room, config: Some(config), .. } => {
                self.rooms.insert(room.clone(), Element::clone(config));
            }
            Change::Room { room, config: None, .. } => {
                self.rooms.remove(room);
                self.messages.apply(change);
            }
            _ => self.messages.apply(change),
        }
        Ok(())
    }
}

impl HostWorld {
    pub(super) fn new(users: &[&str]) -> HostWorld {
        let mut store = FakeStore::default();
        for user in users {
            store.users.insert(Bare::parse(user).unwrap(), AccountData::default());
        }
        HostWorld {
            host: Host::new(Arc::new(settings()), ShardAddress::default(), [1; 32]),
            now: START,
            store,
            got: HashMap::new(),
            closed: Vec::new(),
            details: Vec::new(),
            abroad: Vec::new(),
            bound: HashMap::new(),
            phones: phones::Phones::default(),
            is_slow: false,
            unwritten: Default::default(),
            reads_slowly: false,
            unread: Default::default(),
            reads_nothing: Vec::new(),
            unflushed: Vec::new(),
            events: Vec::new(),
            handled: Vec::new(),
            next: 0,
        }
    }

    /// Accounts that are read from now on stay in memory, in `tests_without_rosters` too.
    pub(super) fn keep_rosters(&mut self) {
        let settings = self.host.settings().clone();
        self.host.reload(Arc::new(HostSettings { rosters: RosterMemory::default(), ..settings }));
    }

    /// Performs what comes of it until nothing is left.
    pub(super) fn tell(&mut self, act: impl FnOnce(&mut Host, Instant, &mut Outbox)) {
        let mut out = Outbox::new();
        act(&mut self.host, self.now, &mut out);
        let mut todo = std::collections::VecDeque::from(out);
        while let Some(effect) = todo.pop_front() {
            let mut out = Outbox::new();
            match effect {
                Effect::Bound { edge, bound } => drop(self.bound.insert(edge.connection, bound)),
                Effect::Deliver { edge, element } => {
                    self.got.entry(edge.connection).or_default().push(element);
                }
                Effect::Flush { edge } if self.reads_nothing.contains(&edge.connection) => {
                    self.unflushed.push(edge.connection);
                }
                Effect::Flush { edge } => self.host.handle_drained(self.now, edge, &mut out),
                Effect::Close { edge, condition, detail } => {
                    self.closed.push((edge.connection, condition));
                    self.details.extend(detail.map(|detail| detail.to_string()));
                }
                Effect::Event(event) => self.events.push(*event),
                Effect::Handled(came) => self.handled.push(self.now.since(came)),
                Effect::Route(stanza) => {
                    let to = Jid::parse(stanza.attr("to").unwrap()).unwrap();
                    if self.host.settings().is_ours(to.domain()) {
                        self.host.handle_routed(self.now, *stanza, &mut out);
                    } else {
                        self.abroad.push(*stanza);
                    }
                }
                Effect::Load { ticket, load: Load::Act(act) } => {
                    let acted = StoreReply::HostActionResult(self.host.act(self.now, &act, &mut out));
                    self.host.handle_store_reply(self.now, ticket, Ok(acted), &mut out);
                }
                Effect::Load { ticket, load } if self.reads_slowly => self.unread.push_back((ticket, load)),
                Effect::Load { ticket, load } => {
                    let loaded = self.store.load(&load);
                    self.host.handle_store_reply(self.now, ticket, loaded, &mut out);
                }
                Effect::Befriend { user, contact } => {
                    self.host.befriend(self.now, (&user, &contact), None, &mut out);
                }
                Effect::Access { ticket, access } => {
                    let done = self.store.access(access);
                    self.host.handle_store_reply(self.now, ticket, done, &mut out);
                }
                Effect::Change { ticket, change } if self.is_slow => {
                    self.unwritten.push_back((ticket, change));
                }
                Effect::Change { ticket, change } => {
                    let done = self.store.change(change);
                    self.host.handle_store_reply(self.now, ticket, done, &mut out);
                }
                effect => self.phones.perform(&mut self.host, self.now, effect, &mut out),
            }
            todo.extend(out);
        }
    }

    /// The client reads what it was given. False: all of it was read already.
    pub(super) fn drain(&mut self, client: u64) -> bool {
        let Some(at) = self.unflushed.iter().position(|known| *known == client) else { return false };
        self.unflushed.swap_remove(at);
        self.tell(|host, now, out| host.handle_drained(now, edge(client), out));
        true
    }

    /// The slow record answers the oldest question.
    pub(super) fn read(&mut self) {
        let (ticket, load) = self.unread.pop_front().unwrap();
        let loaded = self.store.load(&load);
        self.tell(|host, now, out| host.handle_store_reply(now, ticket, loaded, out));
    }

    /// The slow record writes the oldest change.
    pub(super) fn write(&mut self) {
        let (ticket, change) = self.unwritten.pop_front().unwrap();
        let done = self.store.change(change);
        self.tell(|host, now, out| host.handle_store_reply(now, ticket, done, out));
    }

    /// A client signs in as that full address.
    pub(super) fn sign_in(&mut self, jid: &str) -> u64 {
        self.sign_in_as(jid, false)
    }

    pub(super) fn sign_in_as(&mut self, jid: &str, is_anonymous: bool) -> u64 {
        self.sign_in_with(jid, is_anonymous, Vec::new())
    }

    /// With requests of Bind 2.
    pub(super) fn sign_in_with(&mut self, jid: &str, is_anonymous: bool, inline: Vec<Element>) -> u64 {
        self.next += 1;
        let number = self.next;
        let jid = Jid::parse(jid).unwrap();
        let request = BindRequest {
            user: jid.bare().into_jid(),
            is_anonymous,
            resource: jid.resource().map(Box::from),
            tag: None,
            agent: None,
            is_bind2: !inline.is_empty(),
            can_move: false,
            inline,
        };
        self.tell(|host, now, out| host.handle_bind(now, edge(number), &request, out));
        assert!(matches!(&self.bound[&number], Bound::Session { jid: bound, .. } if *bound == jid));
        number
    }

    /// The client sends a stanza; `from` is stamped as its stream does.
    pub(super) fn say(&mut self, client: u64, xml: &str) {
        let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
        let mut element = xmpp::xml::parse(xml.as_bytes(), &prefixes).unwrap();
        let Some(Bound::Session { jid, .. } | Bound::Resumed { jid, .. }) = self.bound.get(&client) else {
            panic!("client {client} is not bound");
        };
        element.set("from", jid.as_str());
        self.tell(|host, now, out| match xmpp::stanza::kind_of(&element) {
            Some(_) => host.handle_stanza(now, edge(client), element, out),
            None => host.handle_nonza(now, edge(client), &element, out),
        });
    }

    /// The connection is lost.
    pub(super) fn lose(&mut self, client: u64) {
        self.tell(|host, now, out| host.handle_gone(now, edge(client), false, out));
    }

    /// A client that has signed in as that account resumes a session; the answer's kind is in `bound`.
    pub(super) fn resume(&mut self, user: &str, id: &str, seen: u32) -> u64 {
        self.next += 1;
        let number = self.next;
        let user = Jid::parse(user).unwrap();
        self.tell(|host, now, out| host.handle_resume(now, edge(number), (&user, id, seen), out));
        number
    }

    pub(super) fn wait(&mut self, duration: Duration) {
        self.now = self.now + duration;
        self.tell(|host, now, out| host.expire(now, out));
    }

    /// From another server.
    pub(super) fn arrive(&mut self, xml: &str) {
        let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
        let element = xmpp::xml::parse(xml.as_bytes(), &prefixes).unwrap();
        self.tell(|host, now, out| host.handle_routed(now, element, out));
    }

    /// The stanzas for other servers since the last call, as text.
    pub(super) fn sent_abroad(&mut self) -> Vec<String> {
        let sent = std::mem::take(&mut self.abroad);
        sent.iter().map(|element| String::from_utf8(element.to_bytes(ns::CLIENT)).unwrap()).collect()
    }

    /// The stanzas for the client since the last call, as text.
    pub(super) fn hear(&mut self, client: u64) -> Vec<String> {
        let got = self.got.remove(&client).unwrap_or_default();
        got.iter().map(|element| String::from_utf8(element.to_bytes(ns::CLIENT)).unwrap()).collect()
    }
}

pub(super) fn edge(connection: u64) -> ConnectionId {
    ConnectionId { shard: ShardAddress::default(), connection }
}

#[test]
fn a_ping_to_the_server_or_oneself_is_answered_and_to_others_is_not() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    for to in ["to='example.org'", "to='alice@example.org'", ""] {
        world.say(alice, &format!("<iq type='get' id='1' {to}><ping xmlns='urn:xmpp:ping'/></iq>"));
        let heard = world.hear(alice);
        assert!(heard.len() == 1 && heard[0].contains("type='result'"), "{to}: {heard:?}");
    }
    world.say(alice, "<iq type='get' id='1' to='bob@example.org'><ping xmlns='urn:xmpp:ping'/></iq>");
    assert!(world.hear(alice)[0].contains("service-unavailable"));
}

#[test]
fn an_unknown_question_is_answered_with_an_error() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let alice = world.sign_in("alice@example.org/desk");
    for (iq, condition) in [
        ("<iq type='get' id='1'><q xmlns='urn:x'/></iq>", "service-unavailable"),
        ("<iq type='get' id='1' to='ghost@example.org'><q xmlns='urn:x'/></iq>", "service-unavailable"),
        ("<iq type='what' id='1'><q xmlns='urn:x'/></iq>", "bad-request"),
        ("<iq type='get' id='1'/>", "bad-request"),
        ("<iq type='get' id='1' to='@'><q xmlns='urn:x'/></iq>", "jid-malformed"),
    ] {
        world.say(alice, iq);
        let heard = world.hear(alice);
        assert!(heard.len() == 1 && heard[0].contains(condition), "{iq}: {heard:?}");
    }
}

#[test]
fn a_record_that_cannot_be_read_ends_its_sessions() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    world.store.is_broken = true;
    let alice = world.sign_in("alice@example.org/desk");
    assert_eq!(world.closed, [(alice, "internal-server-error")]);
    assert_eq!(world.host.accounts().session_count(), 0);
}

#[test]
fn an_account_has_so_many_sessions() {
    for ends_oldest in [false, true] {
        let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
        let sessions = SessionLimit { most: 2, ends_oldest };
        world.host =
            Host::new(Arc::new(HostSettings { sessions, ..settings() }), ShardAddress::default(), [1; 32]);
        let first = world.sign_in("alice@example.org/1");
        world.sign_in("alice@example.org/2");
        world.sign_in("alice@example.org/2");
        world.sign_in("bob@example.org/1");
        world.closed.clear();
        let request = BindRequest {
            user: Jid::parse("alice@example.org").unwrap(),
            is_anonymous: false,
            resource: Some("3".into()),
            tag: None,
            agent: None,
            is_bind2: false,
            can_move: false,
            inline: Vec::new(),
        };
        world.tell(|host, now, out| host.handle_bind(now, edge(99), &request, out));
        if ends_oldest {
            assert!(matches!(world.bound[&99], Bound::Session { .. }));
            assert_eq!(world.closed, [(first, "conflict")]);
        } else {
            let Bound::Refused(error) = &world.bound[&99] else { panic!("{:?}", world.bound[&99]) };
            assert_eq!(error.condition, xmpp::stanza::Condition::ResourceConstraint);
            assert!(world.closed.is_empty());
        }
        assert_eq!(world.host.accounts().session_count(), 3);
    }
}

#[test]
fn a_second_session_of_the_same_name_replaces_the_first() {
    let mut world = HostWorld::new(&["alice@example.org"]);
    let old = world.sign_in("alice@example.org/desk");
    world.sign_in("alice@example.org/desk");
    assert_eq!(world.closed, [(old, "conflict")]);
    assert_eq!(world.host.accounts().session_count(), 1);
}

#[test]
fn a_stanza_that_would_be_too_large_for_its_receiver_is_counted_and_refused() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let (alice, bob) = (world.sign_in("alice@example.org/desk"), world.sign_in("bob@example.org/desk"));
    world.say(alice, "<enable xmlns='urn:xmpp:sm:3'/>");
    world.hear(alice);
    let message = Element::new("message", ns::CLIENT).with("to", "bob@example.org/desk").with("id", "m");
    let mut message = message.with("from", "alice@example.org/desk");
    xmpp::internal::mark_too_large(&mut message);
    world.tell(|host, now, out| host.handle_stanza(now, edge(alice), message, out));
    let heard = world.hear(alice);
    assert!(heard[0].contains("policy-violation") && heard[0].contains("id='m'"), "{heard:?}");
    assert!(world.hear(bob).is_empty());
    world.say(alice, "<r xmlns='urn:xmpp:sm:3'/>");
    assert_eq!(world.hear(alice), ["<a xmlns='urn:xmpp:sm:3' h='1'/>"]);
}
