//! A user pool and a server in one thread, in virtual time. The server loses, repeats and swaps when it is told to: the
//! accounts must show each.

mod actions;
mod failures;
mod monitors;
mod registration;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lab_sip::stats::{Count, Stats};
use stdx::rng::Rng;
use stdx::time::Instant;
use xmpp::xml::{Frame, Framer, Prefixes, parse, parse_header};
use xmpp::{Element, ns};

use super::load_state::{LoadStage, LoadState};
use super::model::{RedirectPolicy, SaslMechanism, StreamSecurity, TIMERS, ThinkTime, TimerName, XmppLoad};
use super::redirect::RedirectTarget;
use super::user_pool::{ConnectionCommand, Outbox, PoolContext, UserPool};
use super::{ActionMix, MonitorOptions, Retry, UserDirectory};

mod accounts;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fault {
    None,
    LoseMessage,
    RepeatMessage,
    SwapMessages,
    LosePresence,
    Misdeliver,
    Refuse,
    NoMechanism,
    WrongPassword,
    Nonsense,
    CloseOnce,
    SeeOtherHost(&'static str),
    /// Only at the target.
    SeeOtherHostOnce,
    /// Redirects users that are signed in.
    SendAway,
    Throttle,
    RefuseRegistration,
    ThrottleRegistration,
    Silent,
    /// Gone for good when the load is told to end.
    Gone,
    /// One user is let in once.
    LockOut,
    /// Users become contacts only when one asks the other.
    Strangers,
    /// Nor then.
    Unfriendly,
    /// No user may create a node.
    RefuseNode,
    /// No fault: a message is on its way until the next one is, or until its receiver signs out.
    Slow,
}

#[derive(Default)]
struct Conn {
    framer: Framer,
    prefixes: Prefixes,
    name: Option<String>,
    is_bound: bool,
    is_elsewhere: bool,
}

/// A server on which all users are mutual contacts from the start, and a message waits no longer than its receiver is absent.
struct Server {
    fault: Fault,
    done: u32,
    conns: BTreeMap<u32, Conn>,
    online: BTreeMap<String, u32>,
    presences: BTreeMap<String, String>,
    stored: BTreeMap<String, Vec<String>>,
    held: Option<(u32, String)>,
    /// Subscription requests, as sender and receiver.
    asked: Vec<(String, String)>,
    /// Targets of the users that were redirected.
    elsewhere: Vec<RedirectTarget>,
    /// Errors that the users received.
    errors: Vec<String>,
    /// `None`: all users have an account.
    accounts: Option<BTreeSet<String>>,
    /// Users that asked to create the load's node.
    creators: Vec<String>,
}

const START: Instant = Instant::from_unix_seconds(1_700_000_000);

impl Server {
    fn new(fault: Fault) -> Server {
        Server {
            fault,
            done: 0,
            conns: BTreeMap::new(),
            online: BTreeMap::new(),
            presences: BTreeMap::new(),
            stored: BTreeMap::new(),
            held: None,
            asked: Vec::new(),
            elsewhere: Vec::new(),
            errors: Vec::new(),
            accounts: None,
            creators: Vec::new(),
        }
    }

    /// The next of the fault's kind: some of the first are right.
    fn strikes(&mut self, fault: Fault) -> bool {
        if self.fault != fault {
            return false;
        }
        self.done += 1;
        self.done == 5
    }

    fn read(&mut self, slot: u32, bytes: &[u8]) -> Vec<(u32, String)> {
        let mut out = Vec::new();
        let mut frames = Vec::new();
        let is_goodbye = bytes.windows(11).any(|window| window == b"unavailable");
        if self.fault == Fault::Slow && is_goodbye && self.held.as_ref().is_some_and(|held| held.0 == slot) {
            out.extend(self.held.take());
        }
        let Some(conn) = self.conns.get_mut(&slot) else { return out };
        conn.framer.put(bytes);
        loop {
            match conn.framer.next(1 << 20).unwrap() {
                None => break,
                Some(Frame::Whitespace) => {}
                Some(Frame::Close) => frames.push(None),
                Some(Frame::Header(range)) => {
                    let (header, prefixes) = parse_header(conn.framer.bytes(range)).unwrap();
                    conn.prefixes = prefixes;
                    frames.push(Some(header));
                }
                Some(Frame::Stanza(range)) => {
                    let element = parse(conn.framer.bytes(range), &conn.prefixes).unwrap();
                    let is_auth = element.is("auth", ns::SASL);
                    frames.push(Some(element));
                    if is_auth {
                        conn.framer.restart();
                    }
                }
            }
        }
        for frame in frames {
            match frame {
                Some(element) => self.handle(slot, &element, &mut out),
                None => self.gone(slot, &mut out),
            }
        }
        out
    }

    fn gone(&mut self, slot: u32, out: &mut Vec<(u32, String)>) {
        let Some(conn) = self.conns.remove(&slot) else { return };
        if let Some(name) = conn.name {
            self.online.remove(&name);
            self.presences.remove(&name);
            for other in self.online.values() {
                out.push((*other, format!("<presence type='unavailable' from='{name}@d/ringer'/>")));
            }
        }
    }

    fn handle(&mut self, slot: u32, element: &Element, out: &mut Vec<(u32, String)>) {
        let name = self.conns[&slot].name.clone();
        match element.name() {
            "stream" => self.open_stream(slot, name.is_some(), out),
            "auth" => {
                if self.fault == Fault::WrongPassword {
                    let text = format!("<failure xmlns='{}'><not-authorized/></failure>", ns::SASL);
                    return out.push((slot, text));
                }
                let plain = STANDARD.decode(element.content().trim()).unwrap();
                let plain = String::from_utf8(plain).unwrap();
                let name = plain.split('\0').nth(1).unwrap().to_owned();
                assert_eq!(plain.split('\0').nth(2), Some("secret"));
                let is_locked_out = name == "user3" && self.fault == Fault::LockOut && {
                    self.done += 1;
                    self.done > 1
                };
                let is_unknown = self.accounts.as_ref().is_some_and(|accounts| !accounts.contains(&name));
                if is_locked_out || is_unknown {
                    let text = format!("<failure xmlns='{}'><not-authorized/></failure>", ns::SASL);
                    return out.push((slot, text));
                }
                self.conns.get_mut(&slot).unwrap().name = Some(name);
                out.push((slot, format!("<success xmlns='{}'/>", ns::SASL)));
            }
            "iq" => self.answer(slot, element, out),
            "presence" => self.spread(slot, &name.unwrap(), element, out),
            "message" => self.pass(slot, &name.unwrap(), element, out),
            _ => panic!("{element}"),
        }
    }

    fn open_stream(&mut self, slot: u32, is_authenticated: bool, out: &mut Vec<(u32, String)>) {
        let mut text = format!(
            "<stream:stream xmlns='{}' xmlns:stream='{}' id='1' version='1.0'>",
            ns::CLIENT,
            ns::STREAM
        );
        text += &match (self.fault, is_authenticated) {
            (Fault::Nonsense, false) => "<<<".to_owned(),
            (Fault::Silent, false) => String::new(),
            (Fault::SeeOtherHost(host), false) => see_other_host(host),
            (Fault::SeeOtherHostOnce, false) if !self.conns[&slot].is_elsewhere => {
                see_other_host("other:5333")
            }
            (Fault::Throttle, false) => stream_error("policy-violation", ""),
            (_, true) => format!("<stream:features><bind xmlns='{}'/></stream:features>", ns::BIND),
            (fault, false) => {
                let mechanism = if fault == Fault::NoMechanism { "GSSAPI" } else { "PLAIN" };
                format!(
                    "<stream:features><mechanisms xmlns='{}'><mechanism>{mechanism}</mechanism></mechanisms></stream:features>",
                    ns::SASL
                )
            }
        };
        out.push((slot, text));
    }

    fn answer(&mut self, slot: u32, iq: &Element, out: &mut Vec<(u32, String)>) {
        let id = iq.attr("id").unwrap().to_owned();
        if let Some(query) = iq.get("query", ns::REGISTER) {
            return self.register(slot, &id, query, out);
        }
        let name = self.conns[&slot].name.clone().unwrap();
        if let Some(pubsub) = iq.get("pubsub", ns::PUBSUB).filter(|_| iq.attr("to") == Some("pubsub.d")) {
            return out.push((slot, self.pubsub(&name, &id, pubsub)));
        }
        if id == "roster" {
            let items: String =
                (0..14).map(|number| format!("<item jid='user{number}@d' subscription='both'/>")).collect();
            let is_lonely = matches!(self.fault, Fault::Strangers | Fault::Unfriendly);
            let items = if is_lonely { String::new() } else { items };
            out.push((
                slot,
                format!("<iq type='result' id='{id}'><query xmlns='{}'>{items}</query></iq>", ns::ROSTER),
            ));
            self.conns.get_mut(&slot).unwrap().is_bound = true;
            self.online.insert(name, slot);
        } else if self.fault == Fault::Refuse && id.starts_with('i') {
            out.push((slot, format!("<iq type='error' id='{id}'><error type='cancel'/></iq>")));
        } else {
            out.push((slot, format!("<iq type='result' id='{id}'/>")));
        }
    }

    fn register(&mut self, slot: u32, id: &str, query: &Element, out: &mut Vec<(u32, String)>) {
        let refused = |kind: &str, condition: &str| {
            let error =
                format!("<{condition} xmlns='{0}'/><text xmlns='{0}'>not here</text>", ns::STANZA_ERRORS);
            format!("<iq type='error' id='{id}'><error type='{kind}'>{error}</error></iq>")
        };
        let done = format!("<iq type='result' id='{id}'/>");
        if self.strikes(Fault::ThrottleRegistration) {
            return out.push((slot, refused("wait", "resource-constraint")));
        }
        let accounts = self.accounts.get_or_insert_default();
        let Some(username) = query.get("username", ns::REGISTER) else {
            assert!(query.get("remove", ns::REGISTER).is_some());
            let name = self.conns[&slot].name.clone().unwrap();
            assert!(accounts.remove(&name));
            out.push((slot, done));
            return out.push((slot, stream_error("not-authorized", "")));
        };
        assert_eq!(query.get("password", ns::REGISTER).unwrap().content(), "secret");
        let answer = match self.fault {
            Fault::RefuseRegistration => refused("cancel", "not-allowed"),
            _ if accounts.insert(username.content().into_owned()) => done,
            _ => refused("cancel", "conflict"),
        };
        out.push((slot, answer));
    }

    /// Both are friends at once.
    fn befriend(&mut self, slot: u32, name: &str, to: &str, out: &mut Vec<(u32, String)>) {
        self.asked.push((name.to_owned(), to.to_owned()));
        if self.fault == Fault::Strangers {
            let push = |other: &str| {
                let item = format!("<item jid='{other}' subscription='both'/>");
                format!("<iq type='set' id='r'><query xmlns='{}'>{item}</query></iq>", ns::ROSTER)
            };
            out.push((self.online[to.split('@').next().unwrap()], push(&format!("{name}@d"))));
            out.push((slot, push(to)));
        }
    }

    fn spread(&mut self, slot: u32, name: &str, presence: &Element, out: &mut Vec<(u32, String)>) {
        if presence.attr("type") == Some("unavailable") {
            return;
        }
        if presence.attr("type") == Some("subscribe") {
            return self.befriend(slot, name, presence.attr("to").unwrap(), out);
        }
        if let Some(to) = presence.attr("to") {
            return self.direct(slot, name, to, presence, out);
        }
        let is_first = !self.presences.contains_key(name);
        let mut presence = presence.clone();
        presence.set("from", format!("{name}@d/ringer"));
        let text = presence.to_string();
        self.presences.insert(name.to_owned(), text.clone());
        let others: Vec<u32> = self.online.values().copied().filter(|other| *other != slot).collect();
        // The first presence of a user is seen only by users that happen to be signed in.
        if is_first || !self.strikes(Fault::LosePresence) {
            out.extend(others.into_iter().map(|other| (other, text.clone())));
        }
        if is_first {
            for (other, presence) in &self.presences {
                if other != name {
                    out.push((slot, presence.clone()));
                }
            }
            for message in self.stored.remove(name).unwrap_or_default() {
                out.push((slot, message));
            }
        }
    }

    /// To one user, or to a room that admits all users.
    fn direct(&mut self, slot: u32, name: &str, to: &str, presence: &Element, out: &mut Vec<(u32, String)>) {
        let mut presence = presence.clone();
        if to.contains("@conference.") {
            presence.set("from", to.to_owned());
            presence.push(
                Element::new("x", ns::MUC_USER)
                    .child(Element::new("status", ns::MUC_USER).with("code", "110")),
            );
            return out.push((slot, presence.to_string()));
        }
        presence.set("from", format!("{name}@d/ringer"));
        let target = to.split('@').next().and_then(|to| self.online.get(to));
        if let Some(target) = target.copied().filter(|_| !self.strikes(Fault::LosePresence)) {
            out.push((target, presence.to_string()));
        }
    }

    fn pass(&mut self, slot: u32, from: &str, message: &Element, out: &mut Vec<(u32, String)>) {
        let to = message.attr("to").unwrap().split('@').next().unwrap().to_owned();
        let mut message = message.clone();
        if message.attr("type") == Some("groupchat") {
            message.set("from", format!("{to}@conference.d/{from}"));
            return out.push((slot, message.to_string()));
        }
        message.set("from", format!("{from}@d/ringer"));
        if self.fault == Fault::Refuse {
            let id = message.attr("id").unwrap();
            return out.push((slot, format!("<message type='error' id='{id}' from='{to}@d'/>")));
        }
        if self.strikes(Fault::LoseMessage) {
            return;
        }
        let Some(target) = self.online.get(&to).copied() else {
            message.push(Element::new("delay", ns::DELAY));
            return self.stored.entry(to).or_default().push(message.to_string());
        };
        let text = message.to_string();
        if self.fault == Fault::Slow {
            return out.extend(self.held.replace((target, text)));
        }
        if self.strikes(Fault::SendAway) {
            out.push((target, text));
            return out.push((target, see_other_host("[2001:db8::1]")));
        }
        if self.strikes(Fault::CloseOnce) {
            out.push((target, text));
            return out.push((target, "</stream:stream>".to_owned()));
        }
        if self.strikes(Fault::Misdeliver) {
            // User 7 is no contact of the users that 0 to 3 write to.
            out.extend(self.online.values().map(|other| (*other, text.clone())));
            return;
        }
        if self.strikes(Fault::RepeatMessage) {
            out.push((target, text.clone()));
        }
        // The first of two from one to one is held until the second has passed it.
        if self.fault == Fault::SwapMessages {
            match self.held.take() {
                Some((held_for, held)) if held_for == target => {
                    out.push((target, text));
                    out.push((target, held));
                    self.fault = Fault::None;
                    return;
                }
                Some((held_for, held)) => out.push((held_for, held)),
                None => {}
            }
            self.held = Some((target, text));
            return;
        }
        out.push((target, text));
    }
}

fn stream_error(condition: &str, text: &str) -> String {
    let error = format!("<{condition} xmlns='{}'>{text}</{condition}>", ns::STREAM_ERRORS);
    format!("<stream:error>{error}</stream:error></stream:stream>")
}

fn see_other_host(host: &str) -> String {
    stream_error("see-other-host", host)
}

fn chat(mix: &str) -> XmppLoad {
    XmppLoad {
        target: "127.0.0.1:5222".parse().unwrap(),
        people: UserDirectory::new(10, 3, 0, ("user{n}", "secret"), "d").unwrap(),
        mechanism: SaslMechanism::Plain,
        security: StreamSecurity::None,
        web: None,
        logins: 10.0,
        mix: ActionMix::parse(mix).unwrap(),
        think: ThinkTime::Exponential(Duration::from_secs(1)),
        body: 10,
        befriend: false,
        rooms: 0,
        rooms_domain: "conference.d".to_owned(),
        pubsub_domain: "pubsub.d".to_owned(),
        stanzas: Vec::new(),
        length: Duration::from_secs(60),
        settle: Duration::from_secs(10),
        patience: Duration::from_secs(5),
        register: false,
        unregister: false,
        registrations: 10.0,
        monitors: MonitorOptions { pairs: 0, every: Duration::from_secs(1) },
        redirect: RedirectPolicy::Follow,
        retry: Retry { first: Duration::from_secs(2), give_up: 0 },
        max_failures: None,
    }
}

/// Runs a load to its end, or for at most so many seconds, and gives what was counted.
fn run(mix: &str, fault: Fault, seed: u64, seconds: u64) -> (Stats, LoadStage) {
    run_chat(chat(mix), fault, seed, seconds)
}

fn run_chat(chat: XmppLoad, fault: Fault, seed: u64, seconds: u64) -> (Stats, LoadStage) {
    let (stats, stage, _) = run_load(chat, fault, seed, seconds);
    (stats, stage)
}

fn run_load(chat: XmppLoad, fault: Fault, seed: u64, seconds: u64) -> (Stats, LoadStage, Server) {
    run_against(Server::new(fault), chat, seed, seconds)
}

fn run_against(server: Server, chat: XmppLoad, seed: u64, seconds: u64) -> (Stats, LoadStage, Server) {
    let (stats, stage, server, _) = run_at(server, chat, seed, (seconds, u64::MAX));
    (stats, stage, server)
}

/// The same, told to end after `.1` seconds; and how long it lasted.
fn run_quitting(
    chat: XmppLoad,
    fault: Fault,
    seed: u64,
    limits: (u64, u64),
) -> (Stats, LoadStage, Server, Duration) {
    run_at(Server::new(fault), chat, seed, limits)
}

fn run_at(
    mut server: Server,
    chat: XmppLoad,
    seed: u64,
    (seconds, quit): (u64, u64),
) -> (Stats, LoadStage, Server, Duration) {
    let shared = Arc::new(LoadState::new(chat.people.all(), START));
    let mut pool = UserPool::new(Arc::new(chat), Arc::clone(&shared), (0, 1), START, Rng::seeded(seed));
    let mut stats = Stats::sized(0, 0, 0, TIMERS.len(), 0);
    let mut now = START;
    let mut out = Outbox::default();
    while !pool.is_over() && now < START + Duration::from_secs(seconds) {
        now = pool.deadline().max(now);
        if now.since(START) >= Duration::from_secs(quit) {
            pool.end(now, false);
            let gone =
                if server.fault == Fault::Gone { std::mem::take(&mut server.conns) } else { BTreeMap::new() };
            for slot in gone.into_keys() {
                pool.handle_closed(slot, &mut PoolContext { now, stats: &mut stats, out: &mut out });
            }
        }
        pool.expire(&mut PoolContext { now, stats: &mut stats, out: &mut out });
        perform(&mut pool, &mut server, now, &mut stats, &mut out);
    }
    (stats, shared.stage(), server, now.since(START))
}

fn has_roll_call_begun(pool: &UserPool) -> bool {
    pool.sessions.shared.stage() >= LoadStage::RollCall
}

fn perform(pool: &mut UserPool, server: &mut Server, now: Instant, stats: &mut Stats, out: &mut Outbox) {
    while !out.wants.is_empty() {
        let done = std::mem::take(out);
        server.errors.extend(done.errors);
        for (slot, wanted) in done.wants {
            let mut answers = Vec::new();
            match wanted {
                ConnectionCommand::Connect if server.fault == Fault::Gone && has_roll_call_begun(pool) => {
                    pool.handle_closed(slot, &mut PoolContext { now, stats, out });
                }
                ConnectionCommand::Connect => {
                    server.conns.insert(slot, Conn::default());
                    pool.handle_connected(slot, &mut PoolContext { now, stats, out });
                }
                ConnectionCommand::ConnectElsewhere(named) => {
                    server.elsewhere.push(named);
                    server.conns.insert(slot, Conn { is_elsewhere: true, ..Conn::default() });
                    pool.handle_connected(slot, &mut PoolContext { now, stats, out });
                }
                ConnectionCommand::Write(range) => answers = server.read(slot, &done.bytes[range]),
                ConnectionCommand::StartTls => panic!("no user asked for TLS"),
                ConnectionCommand::Close => server.gone(slot, &mut answers),
            }
            for (slot, text) in answers {
                pool.handle_bytes(slot, text.as_bytes(), &mut PoolContext { now, stats, out });
            }
        }
    }
}

fn lost(stats: &Stats) -> i64 {
    let count = |count| i64::try_from(stats.counts[count]).unwrap();
    assert_eq!(stats.waiting(), 0, "all users came back");
    count(Count::ChatSent) - count(Count::ChatReceived) - count(Count::ChatRefused)
}

fn unseen(stats: &Stats) -> i64 {
    let count = |count| i64::try_from(stats.counts[count]).unwrap();
    count(Count::PresenceExpected) - count(Count::PresenceSeen)
}

const SEED_MIX: &str =
    "message=60,presence=20,logout=10,roster-add=4,roster-remove=2,vcard-get=2,vcard-set=1,archive=1";

#[test]
fn with_a_good_server_all_accounts_are_even() {
    for seed in 0..20 {
        let (stats, stage) = run(SEED_MIX, Fault::None, seed, 600);
        let counts = &stats.counts;
        assert_eq!(stage, LoadStage::Leaving);
        assert_eq!((lost(&stats), unseen(&stats)), (0, 0), "seed {seed}");
        for zero in [Count::ChatDuplicated, Count::ChatReordered, Count::ChatMisdelivered, Count::FailedCall]
        {
            assert_eq!(counts[zero], 0, "{zero:?}, seed {seed}, {counts:?}");
        }
        assert!(counts[Count::ChatSent] > 100 && counts[Count::PresenceSeen] > 50, "{counts:?}");
        assert!(counts[Count::ChatStored] > 0, "a user was away, seed {seed}");
        assert_eq!(counts[Count::Due], counts[Count::OutgoingCall] + counts[Count::Blocked]);
        assert_eq!(counts[Count::OutgoingCall], counts[Count::SuccessfulCall]);
        assert_eq!(stats.rtds[0].service.n, counts[Count::ChatReceived] - counts[Count::ChatStored]);
    }
}

#[test]
fn faults_of_a_bad_server_are_noticed() {
    let mix = "message=80,presence=20";
    let noticed = |fault| run(mix, fault, 3, 600).0;
    assert_eq!(lost(&noticed(Fault::LoseMessage)), 1);
    let not_seen = unseen(&noticed(Fault::LosePresence));
    assert!((1..=3).contains(&not_seen), "by those of three friends who were there: {not_seen}");
    let repeated = noticed(Fault::RepeatMessage);
    assert_eq!((repeated.counts[Count::ChatDuplicated], lost(&repeated)), (1, 0));
    assert!(noticed(Fault::Misdeliver).counts[Count::ChatMisdelivered] > 0);
    let swapped = (0..20).map(|seed| run(mix, Fault::SwapMessages, seed, 600).0);
    let reordered: Vec<u64> = swapped.map(|stats| stats.counts[Count::ChatReordered]).collect();
    assert!(reordered.iter().any(|count| *count > 0), "{reordered:?}");
    let refused = run("message=50,vcard-set=50", Fault::Refuse, 3, 600).0;
    assert!(refused.counts[Count::ChatRefused] > 0 && lost(&refused) == 0);
    assert!(refused.counts[Count::FailedCallRejected] > 0);
}

#[test]
fn failed_sign_ins_are_counted_by_cause_and_tried_again() {
    for (fault, count) in [
        (Fault::NoMechanism, Count::FailedNotOffered),
        (Fault::WrongPassword, Count::FailedNotAuthorized),
        (Fault::Nonsense, Count::FailedUnexpectedMessage),
        (Fault::SeeOtherHost("other"), Count::FailedSeeOtherHost),
        (Fault::SeeOtherHost("no place:x"), Count::FailedUnexpectedMessage),
        (Fault::Throttle, Count::FailedThrottled),
        (Fault::Silent, Count::FailedTimeoutOnRecv),
    ] {
        let (stats, stage) = run("message=1", fault, 1, 30);
        assert_eq!(stage, LoadStage::Leaving, "{fault:?}: a load without users ends");
        let failed = stats.counts[count];
        assert!(failed >= 10, "{fault:?}: ten users: {failed}");
        assert_eq!(stats.counts[Count::FailedCall], failed, "{fault:?}");
    }
}

#[test]
fn a_user_with_a_closed_connection_comes_back() {
    let (stats, stage) = run("message=1", Fault::CloseOnce, 1, 600);
    assert_eq!(stats.counts[Count::FailedTcpClosed], 1);
    assert_eq!((stage, lost(&stats)), (LoadStage::Leaving, 0));
}

#[test]
fn a_load_that_is_told_to_end_does_not_wait_for_users_that_cannot_come() {
    let (_, stage, _, lasted) = run_quitting(chat("message=1"), Fault::Silent, 1, (600, 5));
    assert_eq!(stage, LoadStage::Leaving);
    assert!(lasted < Duration::from_secs(6), "no user ever was there: {lasted:?}");
    let (stats, stage, _, lasted) = run_quitting(chat("message=1"), Fault::Gone, 1, (600, 20));
    assert_eq!(stage, LoadStage::Leaving);
    assert!(stats.counts[Count::ChatSent] > 0, "all were there");
    assert!(lasted < Duration::from_secs(35), "no user comes back: {lasted:?}");
}

/// A server keeps what its user never came for.
#[test]
fn messages_of_an_earlier_run_do_not_count_in_this_one() {
    let mut server = Server::new(Fault::None);
    let note = "<n xmlns='urn:x-ringer:note:1' f='1' s='9' d='1' t='1' v='0'/>";
    let left = format!("<message from='user1@d/ringer'>{note}<delay xmlns='{}'/></message>", ns::DELAY);
    server.stored.insert("user0".to_owned(), vec![left]);
    let (stats, ..) = run_at(server, chat("message=100"), 5, (600, u64::MAX));
    assert_eq!(lost(&stats), 0);
    for zero in [Count::ChatDuplicated, Count::ChatReordered, Count::ChatMisdelivered] {
        assert_eq!(stats.counts[zero], 0, "{zero:?}");
    }
}
