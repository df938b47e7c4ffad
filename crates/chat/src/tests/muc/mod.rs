//! Rooms: plays of XEP-0045. The cast is its own: Crone1 owns `coven`, Wiccarocks is a local friend, Hag66 comes from
//! another server.

mod avatar;
mod clients;
mod departed;
mod discover;
mod enter;
mod hats;
mod keep;
mod listed;
mod operate;
mod own;
mod privileges;
mod registered;
mod rule;
mod shared;
mod stored;
mod table;
mod talk;

use std::collections::{HashMap, VecDeque};

use super::*;
use crate::effect::MamPage;

/// As the store has it, but less.
const ROOMS_OF_USER: usize = 3;

const ROOM: &str = "coven@conference.example.org";
const CRONE: &str = "crone1@example.org/desktop";
const WICCA: &str = "wiccarocks@example.org/laptop";
const HAG: &str = "hag66@shakespeare.lit/pda";

/// One host with rooms, a store in memory, and mailboxes of all other addresses.
struct Hall {
    host: Host,
    now: Instant,
    rooms: HashMap<Bare, Element>,
    changes: Vec<Change>,
    loads: usize,
    history: Vec<(Box<str>, Instant, Element)>,
    is_broken: bool,
    /// Changes are not answered until `release`.
    holds: bool,
    held: Vec<(Ticket, Change)>,
    mail: HashMap<String, Vec<Element>>,
}

impl Hall {
    fn new() -> Hall {
        Hall::with(settings())
    }

    fn with(settings: HostSettings) -> Hall {
        Hall {
            host: Host::new(Arc::new(settings), ShardAddress::default(), [7; 32]),
            now: START,
            rooms: HashMap::new(),
            changes: Vec::new(),
            loads: 0,
            history: Vec::new(),
            is_broken: false,
            holds: false,
            held: Vec::new(),
            mail: HashMap::new(),
        }
    }

    /// With `coven`, configured so, and its owner in it as `firstwitch`.
    fn coven(config: &[(&str, &str)]) -> Hall {
        let mut hall = Hall::new();
        hall.enter(CRONE, "firstwitch");
        hall.configure(config);
        hall.forget();
        hall
    }

    fn tell(&mut self, act: impl FnOnce(&mut Host, Instant, &mut Outbox)) {
        let mut out = Outbox::new();
        act(&mut self.host, self.now, &mut out);
        let mut todo = VecDeque::from(out);
        while let Some(effect) = todo.pop_front() {
            let mut out = Outbox::new();
            match effect {
                Effect::Route(stanza) => {
                    let to = stanza.attr("to").unwrap().to_owned();
                    let domain = Jid::parse(&to).unwrap().domain().to_owned();
                    if self.host.settings().rooms_of(&domain).is_some() {
                        self.host.handle_routed(self.now, *stanza, &mut out);
                    } else {
                        self.mail.entry(to).or_default().push(*stanza);
                    }
                }
                Effect::Load { ticket, load: Load::Act(act) } => {
                    let acted = StoreReply::HostActionResult(self.host.act(self.now, &act, &mut out));
                    self.host.handle_store_reply(self.now, ticket, Ok(acted), &mut out);
                }
                Effect::Load { ticket, load } => {
                    self.loads += 1;
                    let loaded = self.load(&load);
                    self.host.handle_store_reply(self.now, ticket, loaded, &mut out);
                }
                Effect::Change { ticket, change } if self.holds => self.held.push((ticket, change)),
                Effect::Change { ticket, change } => {
                    let done = self.change(change);
                    self.host.handle_store_reply(self.now, ticket, done, &mut out);
                }
                other => panic!("{other:?}"),
            }
            todo.extend(out);
        }
    }

    fn load(&self, load: &Load) -> Result<StoreReply, StoreFailure> {
        if self.is_broken {
            return Err(StoreFailure::Unavailable);
        }
        Ok(match load {
            Load::Room { room } => StoreReply::Room(self.rooms.get(room).cloned().map(Box::new)),
            Load::Rooms { domain, after } => {
                let here = self.rooms.iter().filter(|(room, _)| {
                    *room.domain() == **domain && after.as_ref().is_none_or(|after| *room.as_str() > **after)
                });
                let mut rows: Vec<_> =
                    here.map(|(room, config)| (room.as_str().into(), START, config.clone())).collect();
                rows.sort_by(|(one, ..): &(Box<str>, _, _), (other, ..)| one.cmp(other));
                StoreReply::Rows(super::page_of(rows))
            }
            Load::Archive { query, .. } if !query.ids.is_empty() => {
                StoreReply::Page(self.archived(&query.ids[0]))
            }
            Load::Archive { .. } => StoreReply::Page(MamPage {
                stanzas: self.history.clone(),
                is_complete: true,
                ..MamPage::default()
            }),
            other => panic!("{other:?}"),
        })
    }

    /// As it was written last.
    fn archived(&self, wanted: &str) -> MamPage {
        let found = self.changes.iter().rev().find_map(|change| match change {
            Change::Archive { id, at, stanza, .. } if **id == *wanted => {
                Some((id.clone(), *at, Element::clone(stanza)))
            }
            _ => None,
        });
        MamPage { is_unknown: found.is_none(), stanzas: found.into_iter().collect(), ..MamPage::default() }
    }

    fn change(&mut self, change: Change) -> Result<StoreReply, StoreFailure> {
        if self.is_broken {
            return Err(StoreFailure::Unavailable);
        }
        if let Change::Room { room, config, charged } = &change {
            let of = |change: &&Change| matches!(change, Change::Room { charged: Some(of), .. } if Some(of) == charged.as_ref());
            if self.changes.iter().filter(of).count() >= ROOMS_OF_USER && charged.is_some() {
                return Err(StoreFailure::Beyond);
            }
            match config {
                Some(config) => drop(self.rooms.insert(room.clone(), Element::clone(config))),
                None => drop(self.rooms.remove(room)),
            }
        }
        self.changes.push(change);
        Ok(StoreReply::Done)
    }

    /// Performs the changes that were held back, or lets them fail.
    fn release(&mut self) {
        self.holds = false;
        for (ticket, change) in std::mem::take(&mut self.held) {
            let done = self.change(change);
            self.tell(|host, now, out| host.handle_store_reply(now, ticket, done, out));
        }
    }

    fn say(&mut self, from: &str, xml: &str) {
        let prefixes = xmpp::xml::Prefixes::of_default(ns::CLIENT);
        let element = xmpp::xml::parse(xml.as_bytes(), &prefixes).unwrap().with("from", from);
        self.tell(|host, now, out| host.handle_routed(now, element, out));
    }

    /// Enters with a presence that has this content.
    fn enter_with(&mut self, from: &str, nick: &str, inside: &str) {
        let x = "http://jabber.org/protocol/muc";
        self.say(
            from,
            &format!("<presence id='e' to='{ROOM}/{nick}'><x xmlns='{x}'>{inside}</x></presence>"),
        );
    }

    fn enter(&mut self, from: &str, nick: &str) {
        self.enter_with(from, nick, "");
    }

    fn groupchat(&mut self, from: &str, body: &str) {
        self.say(
            from,
            &format!("<message id='m' type='groupchat' to='{ROOM}'><body>{body}</body></message>"),
        );
    }

    fn iq(&mut self, from: &str, kind: &str, payload: &str) -> Element {
        self.mail.remove(from);
        self.say(from, &format!("<iq id='q' type='{kind}' to='{ROOM}'>{payload}</iq>"));
        let answer = self.mail.get_mut(from).and_then(Vec::pop).unwrap();
        assert!(answer.name() == "iq" && answer.attr("id") == Some("q"), "{answer}");
        answer
    }

    fn admin(&mut self, from: &str, item: &str) -> String {
        let query = format!("<query xmlns='{}'>{item}</query>", ns::MUC_ADMIN);
        outcome(&self.iq(from, "set", &query))
    }

    fn configure(&mut self, fields: &[(&str, &str)]) {
        let fields: String = fields
            .iter()
            .map(|(var, value)| format!("<field var='muc#roomconfig_{var}'><value>{value}</value></field>"))
            .collect();
        let form = format!("<x xmlns='jabber:x:data' type='submit'>{fields}</x>");
        let answer = self.iq(CRONE, "set", &format!("<query xmlns='{}'>{form}</query>", ns::MUC_OWNER));
        assert_eq!(answer.attr("type"), Some("result"), "{answer}");
    }

    fn hear(&mut self, jid: &str) -> Vec<Element> {
        self.mail.remove(jid).unwrap_or_default()
    }

    /// The only stanza that this one got.
    fn only(&mut self, jid: &str) -> Element {
        let mut heard = self.hear(jid);
        assert_eq!(heard.len(), 1, "{jid}: {heard:?}");
        heard.remove(0)
    }

    fn forget(&mut self) {
        self.mail.clear();
    }

    fn room(&self) -> Option<&Element> {
        self.rooms.get(&Bare::parse(ROOM).unwrap())
    }
}

/// `result`, or the condition.
fn outcome(stanza: &Element) -> String {
    match stanza.get("error", ns::CLIENT) {
        Some(error) => error.first().unwrap().name().to_owned(),
        None => stanza.attr("type").unwrap_or("").to_owned(),
    }
}

/// The sender, the event, role and affiliation, and the codes: `firstwitch unavailable none/owner 110 307`.
fn seen(presence: &Element) -> String {
    let nick = presence.attr("from").unwrap().rsplit('/').next().unwrap();
    let x = presence.get("x", ns::MUC_USER).unwrap();
    let item = x.get("item", ns::MUC_USER).unwrap();
    let kind = presence.attr("type").unwrap_or("here");
    let (role, affiliation) = (item.attr("role").unwrap(), item.attr("affiliation").unwrap());
    let codes: String = codes(x).iter().map(|code| format!(" {code}")).collect();
    format!("{nick} {kind} {role}/{affiliation}{codes}")
}

fn codes(x: &Element) -> Vec<u16> {
    let statuses = x.elements().filter(|child| child.is("status", ns::MUC_USER));
    statuses.map(|status| status.attr("code").unwrap().parse().unwrap()).collect()
}

fn all_seen(heard: &[Element]) -> Vec<String> {
    heard.iter().filter(|stanza| stanza.name() == "presence").map(seen).collect()
}

fn item(presence: &Element) -> &Element {
    presence.get("x", ns::MUC_USER).unwrap().get("item", ns::MUC_USER).unwrap()
}

fn body(message: &Element) -> String {
    message.content_of("body", ns::CLIENT).unwrap_or_default().into_owned()
}
