//! Real-time block lists: the client of a list in virtual time, and what accounts get of addresses that a list has.

use sha2::{Digest, Sha256};

use super::effect::{RosterItem, Subscription};
use super::*;
use crate::limits;
use crate::rtbl::{RtblClient, RtblEffect, RtblFailure, RtblLists, RtblSource};

const SERVICE: &str = "lists.x.org";
const NODE: &str = "muc_bans_sha256";

fn source() -> RtblSource {
    RtblSource { service: Bare::parse(SERVICE).unwrap(), node: NODE.into(), rooms: true, strangers: true }
}

fn id_of(address: &str) -> String {
    stdx::hex::encode(&Sha256::digest(address.as_bytes()))
}

fn parse(xml: &str) -> Element {
    xmpp::xml::parse(xml.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap()
}

/// The content of a list with these addresses, as the client publishes it.
pub(super) fn lists_of(addresses: &[&str]) -> Arc<RtblLists> {
    let mut world = ListWorld::new();
    world.answer("<pubsub xmlns='http://jabber.org/protocol/pubsub'/>");
    world.answer(&page(addresses, ""));
    world.lists()
}

/// A page of items; `set` is what is said of pages.
fn page(addresses: &[&str], set: &str) -> String {
    let items: String = addresses.iter().map(|address| format!("<item id='{}'/>", id_of(address))).collect();
    format!("<pubsub xmlns='{}'><items node='{NODE}'>{items}</items>{set}</pubsub>", ns::PUBSUB)
}

/// A client of one list, which the test answers.
struct ListWorld {
    client: RtblClient,
    now: Instant,
    sent: Vec<Element>,
    lists: Arc<RtblLists>,
    published: usize,
    reports: Vec<String>,
}

impl ListWorld {
    fn new() -> ListWorld {
        let mut world = ListWorld {
            client: RtblClient::new(&[source()], START, [3; 32]),
            now: START,
            sent: Vec::new(),
            lists: Arc::default(),
            published: 0,
            reports: Vec::new(),
        };
        world.expire();
        world
    }

    fn perform(&mut self, effects: Vec<RtblEffect>) {
        for effect in effects {
            match effect {
                RtblEffect::Send(iq) => self.sent.push(*iq),
                RtblEffect::Publish(lists) => {
                    self.lists = lists;
                    self.published += 1;
                }
                RtblEffect::Loaded { entries, .. } => self.reports.push(format!("loaded {entries}")),
                RtblEffect::Failed { failure, entries, .. } => {
                    self.reports.push(format!("{failure}; {entries}"));
                }
                RtblEffect::Full { .. } => self.reports.push("full".to_owned()),
            }
        }
    }

    fn expire(&mut self) {
        let mut out = Vec::new();
        self.client.expire(self.now, "example.org", &mut out);
        self.perform(out);
    }

    /// Until the next deadline.
    fn wait(&mut self) -> Duration {
        let deadline = self.client.deadline().unwrap();
        let waited = deadline.since(self.now);
        self.now = self.now.max(deadline);
        self.expire();
        waited
    }

    /// Answers the last request, from another address or with another id if so wanted.
    fn answer_as(&mut self, from: &str, id: Option<&str>, kind: &str, payload: &str) {
        let id = id.unwrap_or_else(|| self.sent.last().unwrap().attr("id").unwrap());
        let iq =
            parse(&format!("<iq type='{kind}' id='{id}' from='{from}' to='example.org/x'>{payload}</iq>"));
        let mut out = Vec::new();
        self.client.handle_answer(self.now, &iq, &mut out);
        self.perform(out);
    }

    fn answer(&mut self, payload: &str) {
        self.answer_as(SERVICE, None, "result", payload);
    }

    fn refuse(&mut self, condition: &str) {
        let xmlns = "urn:ietf:params:xml:ns:xmpp-stanzas";
        let error = format!("<error type='cancel'><{condition} xmlns='{xmlns}'/></error>");
        self.answer_as(SERVICE, None, "error", &error);
    }

    fn event(&mut self, from: &str, inside: &str) {
        let xml = format!(
            "<message from='{from}' to='example.org'><event xmlns='{}'>{inside}</event></message>",
            ns::PUBSUB_EVENT
        );
        self.client.handle_event(self.now, &parse(&xml));
    }

    /// The content, once it is published.
    fn lists(&mut self) -> Arc<RtblLists> {
        if self.client.deadline().is_some_and(|at| at.since(self.now) <= limits::RTBL_PUBLISH) {
            self.wait();
        }
        Arc::clone(&self.lists)
    }

    fn last(&self) -> String {
        String::from_utf8(self.sent.last().unwrap().to_bytes(ns::CLIENT)).unwrap()
    }
}

/// True if a host with these lists refuses a room to the address.
fn is_listed(lists: &Arc<RtblLists>, address: &str) -> bool {
    let mut world = HostWorld::new(&[]);
    world.host.rtbl.set_lists(Arc::clone(lists));
    world.arrive(&format!("<presence from='{address}/1' to='den@conference.example.org/nick'/>"));
    world.host.rtbl.refused() == 1
}

#[test]
fn a_client_subscribes_and_reads_all_pages_of_a_list() {
    let mut world = ListWorld::new();
    assert!(
        world.last().contains("<subscribe") && world.last().contains("jid='example.org'"),
        "{}",
        world.last()
    );
    world.answer("<pubsub xmlns='http://jabber.org/protocol/pubsub'/>");
    assert!(world.last().contains("<items node='muc_bans_sha256'/>"), "{}", world.last());
    let rsm = |last: &str| format!("<set xmlns='{}'><last>{last}</last><count>3</count></set>", ns::RSM);
    world.answer(&page(&["a@y.org", "b@y.org"], &rsm("second")));
    assert!(world.last().contains("<after>second</after>"), "{}", world.last());
    assert_eq!(world.published, 0, "half a list is none");
    world.answer(&page(&["spam.org"], &rsm("third")));
    let lists = world.lists();
    assert_eq!((lists.entries(), &world.reports[..]), (3, &["loaded 3".to_owned()][..]));
    for (address, listed) in
        [("a@y.org", true), ("c@y.org", false), ("any@spam.org", true), ("spam.org", true)]
    {
        assert_eq!(is_listed(&lists, address), listed, "{address}");
    }
    assert_eq!(world.wait(), limits::RTBL_REFRESH, "the next round");
    assert!(world.last().contains("<subscribe"));
}

#[test]
fn items_that_are_added_retracted_or_purged_count_at_once() {
    let mut world = ListWorld::new();
    world.answer("");
    world.answer(&page(&["a@y.org"], ""));
    assert!(is_listed(&world.lists(), "a@y.org"));
    let items = |inside: String| format!("<items node='{NODE}'>{inside}</items>");
    world.event(SERVICE, &items(format!("<item id='{}'/>", id_of("b@y.org"))));
    world.event(SERVICE, &items(format!("<retract id='{}'/>", id_of("a@y.org"))));
    let lists = world.lists();
    assert_eq!((is_listed(&lists, "a@y.org"), is_listed(&lists, "b@y.org")), (false, true));
    // Other services, other nodes, and ids that are no hashes.
    world.event("lists.evil.org", &items(format!("<item id='{}'/>", id_of("c@y.org"))));
    world.event(SERVICE, &format!("<items node='other'><item id='{}'/></items>", id_of("c@y.org")));
    world.event(SERVICE, &items("<item id='c@y.org'/><item/>".to_owned()));
    assert_eq!(world.lists().entries(), 1);
    world.event(SERVICE, &format!("<delete node='{NODE}'/>"));
    assert_eq!(world.lists().entries(), 1, "a deleted node leaves what it had");
    world.event(SERVICE, &format!("<purge node='{NODE}'/>"));
    assert_eq!(world.lists().entries(), 0);
}

#[test]
fn a_change_during_a_read_is_not_lost() {
    let mut world = ListWorld::new();
    world.answer("");
    let set = format!("<set xmlns='{}'><last>1</last><count>2</count></set>", ns::RSM);
    world.answer(&page(&["a@y.org"], &set));
    world.event(SERVICE, &format!("<items node='{NODE}'><item id='{}'/></items>", id_of("c@y.org")));
    world.event(SERVICE, &format!("<items node='{NODE}'><retract id='{}'/></items>", id_of("a@y.org")));
    world.answer(&page(&["b@y.org"], &set.replace(">1<", ">2<")));
    let lists = world.lists();
    let listed = ["a@y.org", "b@y.org", "c@y.org"].map(|address| is_listed(&lists, address));
    assert_eq!(listed, [false, true, true]);
}

#[test]
fn a_list_of_an_absent_service_keeps_its_content_and_is_asked_for_again() {
    let mut world = ListWorld::new();
    world.answer("");
    world.answer(&page(&["a@y.org"], ""));
    world.lists();
    world.wait();
    // The answers of others are none.
    world.answer_as("lists.evil.org", None, "result", "");
    world.answer_as(SERVICE, Some("guessed"), "result", "");
    assert!(world.last().contains("<subscribe"));
    assert_eq!(world.wait(), limits::RTBL_ANSWER);
    assert_eq!(world.client.failing(), 1);
    assert_eq!(world.reports.last().unwrap(), "no answer in time; 1");
    for seconds in [5, 10, 20] {
        assert_eq!(world.wait(), Duration::from_secs(seconds));
        world.answer("");
        world.refuse("remote-server-not-found");
    }
    assert_eq!(world.reports.len(), 2, "one report of a state: {:?}", world.reports);
    assert!(is_listed(&world.lists(), "a@y.org"), "the last content stays");
    world.wait();
    world.answer("");
    world.answer(&page(&["a@y.org", "b@y.org"], ""));
    assert_eq!((world.reports.last().unwrap().as_str(), world.client.failing()), ("loaded 2", 0));
}

#[test]
fn a_refused_subscription_is_reported_and_the_items_count_all_the_same() {
    let mut world = ListWorld::new();
    world.refuse("forbidden");
    world.answer(&page(&["a@y.org"], ""));
    let failure = RtblFailure::NotSubscribed("forbidden".into());
    assert_eq!(world.reports, [format!("{failure}; 1")]);
    assert!(is_listed(&world.lists(), "a@y.org"));
}

#[test]
fn a_service_that_gives_the_same_page_for_ever_or_too_much_is_asked_no_further() {
    let mut world = ListWorld::new();
    world.answer("");
    let set = format!("<set xmlns='{}'><last>1</last></set>", ns::RSM);
    world.answer(&page(&["a@y.org"], &set));
    world.answer(&page(&["a@y.org"], &set));
    assert_eq!((world.sent.len(), world.lists().entries()), (3, 1));
    world.wait();
    world.answer("");
    let mut number = 0;
    while !world.reports.contains(&"full".to_owned()) {
        let items: String = (0..2_000)
            .map(|_| {
                number += 1;
                format!("<item id='{number:064x}'/>")
            })
            .collect();
        let set = format!("<set xmlns='{}'><last>{number}</last></set>", ns::RSM);
        world.answer(&format!(
            "<pubsub xmlns='{}'><items node='{NODE}'>{items}</items>{set}</pubsub>",
            ns::PUBSUB
        ));
    }
    assert_eq!(world.lists().entries(), limits::RTBL_ENTRIES);
}

#[test]
fn many_notifications_are_published_once_a_second() {
    let mut world = ListWorld::new();
    world.answer("");
    world.answer(&page(&[], ""));
    world.lists();
    let before = world.published;
    for number in 0..1_000 {
        world.event(SERVICE, &format!("<items node='{NODE}'><item id='{number:064x}'/></items>"));
    }
    assert_eq!(world.wait(), limits::RTBL_PUBLISH);
    assert_eq!((world.published - before, world.lists.entries()), (1, 1_000));
}

#[test]
fn a_listed_stranger_reaches_no_account_and_a_listed_contact_does() {
    let mut world = HostWorld::new(&["alice@example.org", "bob@example.org"]);
    let store = world.store.users.get_mut(&Bare::parse("alice@example.org").unwrap()).unwrap();
    let friend = RosterItem { subscription: Subscription::Both, is_listed: true, ..Default::default() };
    store.roster.push((Bare::parse("friend@y.org").unwrap(), friend));
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    world.host.rtbl.set_lists(lists_of(&["spam@y.org", "friend@y.org", "bob@example.org"]));
    world.hear(alice);
    world.sent_abroad();
    let message = |from: &str| {
        format!("<message type='chat' from='{from}/1' to='alice@example.org'><body>x</body></message>")
    };
    world.arrive(&message("spam@y.org"));
    world.arrive("<presence type='subscribe' from='spam@y.org' to='alice@example.org'/>");
    assert!(world.hear(alice).is_empty());
    let answers = world.sent_abroad();
    assert!(answers.len() == 2 && answers.iter().all(|answer| answer.contains("<forbidden")), "{answers:?}");
    assert_eq!(world.host.rtbl.refused(), 2);
    // RFC 6121 §5.2.2: a message of a type that is none is a normal one.
    for kind in ["unavailable", "result", "unsubscribed"] {
        world.arrive(&message("spam@y.org").replace("type='chat'", &format!("type='{kind}'")));
        assert!(world.hear(alice).is_empty(), "{kind}");
    }
    assert_eq!(world.host.rtbl.refused(), 5);
    for known in ["friend@y.org", "other@y.org", "bob@example.org"] {
        world.arrive(&message(known));
        assert_eq!(world.hear(alice).len(), 1, "{known}");
    }
    // An answer to the account's own question.
    world.arrive(
        "<message type='error' from='spam@y.org/1' to='alice@example.org/desk'><body>x</body></message>",
    );
    assert_eq!(world.host.rtbl.refused(), 5);
}

#[test]
fn a_notification_of_a_list_is_not_answered_with_an_error() {
    let mut world = HostWorld::new(&[]);
    let settings = HostSettings { rtbl: vec![source()], ..settings() };
    world.host.reload(Arc::new(settings));
    let event = |from: &str| {
        let event = format!("<event xmlns='{}'><items node='{NODE}'/></event>", ns::PUBSUB_EVENT);
        format!("<message from='{from}' to='example.org'>{event}</message>")
    };
    world.arrive(&event(SERVICE));
    assert!(world.sent_abroad().is_empty());
    world.arrive(&event("other.x.org"));
    assert_eq!(world.sent_abroad().len(), 1);
}

/// The service is our own (XEP-0060 with pages of XEP-0059): a list of more than one page is read whole, and what is retracted from it (§7.2) is
/// no entry any more.
#[test]
fn a_list_of_our_own_service_is_read_by_pages_and_retracted_entries_are_forgotten() {
    let (mut world, alice, _, eve) = pubsub::world();
    pubsub::create(&mut world, alice, NODE, &[("access_model", "open"), ("max_items", "max")]);
    let total = limits::RTBL_PAGE + 1;
    for number in 0..total {
        assert!(pubsub::publish(&mut world, alice, NODE, &format!("{number:064x}")).contains("result"));
    }
    // Notifications go to the sessions of the subscriber that take messages.
    world.say(eve, "<presence/>");
    world.hear(eve);
    let source = RtblSource { service: Bare::parse(pubsub::ALICE).unwrap(), ..source() };
    let mut client = RtblClient::new(&[source], world.now, [3; 32]);
    let (mut lists, mut asked) = (Arc::<RtblLists>::default(), 0);
    // A client stands for the server that follows the list: its address is that of the requests.
    let mut settle = |world: &mut HostWorld, client: &mut RtblClient| {
        world.now = world.now + limits::RTBL_PUBLISH;
        let mut out = Vec::new();
        client.expire(world.now, pubsub::EVE, &mut out);
        while let Some(effect) = out.pop() {
            match effect {
                RtblEffect::Send(iq) => {
                    asked += usize::from(iq.attr("type") == Some("get"));
                    world.say(eve, &String::from_utf8(iq.to_bytes(ns::CLIENT)).unwrap());
                }
                RtblEffect::Publish(published) => lists = published,
                RtblEffect::Loaded { .. } => {}
                other => panic!("{other:?}"),
            }
            for stanza in std::mem::take(world.got.entry(eve).or_default()) {
                match stanza.name() {
                    "iq" => client.handle_answer(world.now, &stanza, &mut out),
                    _ => client.handle_event(world.now, &stanza),
                }
            }
            if client.deadline().is_some_and(|at| at <= world.now) {
                client.expire(world.now, pubsub::EVE, &mut out);
            }
        }
        (lists.entries(), asked)
    };
    // The item that the service sends with the subscription is published before all pages are read.
    assert_eq!(settle(&mut world, &mut client), (1, 2));
    assert_eq!(settle(&mut world, &mut client), (total, 2));
    let retract = format!("<retract node='{NODE}'><item id='{:064x}'/></retract>", 7);
    assert!(pubsub::set(&mut world, alice, pubsub::ALICE, &retract).contains("result"));
    for stanza in std::mem::take(world.got.entry(eve).or_default()) {
        client.handle_event(world.now, &stanza);
    }
    assert_eq!(settle(&mut world, &mut client), (total - 1, 2));
}
