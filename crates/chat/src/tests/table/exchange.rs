//! Rows whose expectation is all resulting stanzas: to the sessions of Alice (`desk` and `phone`) and of Bob
//! (`bob`), and to other servers (`x`). A session signs in when it is named first; `desk` asks for the roster
//! and is available before the row begins. A requirement that has a test of its own is a row that names it.

use super::*;
use crate::presence::subscription::SubscriptionState;

/// A client's question for its roster.
pub(super) const ROSTER: &str = "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>";

/// The end of a client's stream.
pub(super) const END: &str = "</stream:stream>";

/// In the order in which rows list them; `x` is all other servers.
const CAST: [(&str, &str); 3] = [
    ("desk", "alice@example.org/desk"),
    ("phone", "alice@example.org/phone"),
    ("bob", "bob@example.org/home"),
];

/// One requirement.
pub(super) struct Row {
    section: &'static str,
    demand: &'static str,
    proof: Proof,
}

/// The kind of check for a requirement.
enum Proof {
    Exchange(Exchange),
    /// By a test of its own: `path::name`, below `src`.
    Test(&'static str),
}

#[derive(Default)]
struct Exchange {
    contacts: Vec<(&'static str, &'static str)>,
    is_away: bool,
    before: Vec<(&'static str, String)>,
    sent: Vec<(&'static str, String)>,
    comes: &'static [&'static str],
}

pub(super) fn row(section: &'static str, demand: &'static str) -> Row {
    Row { section, demand, proof: Proof::Exchange(Exchange::default()) }
}

pub(super) fn test(section: &'static str, demand: &'static str, path: &'static str) -> Row {
    Row { section, demand, proof: Proof::Test(path) }
}

impl Row {
    fn exchange(&mut self) -> &mut Exchange {
        match &mut self.proof {
            Proof::Exchange(exchange) => exchange,
            Proof::Test(path) => panic!("{path} has its own exchange"),
        }
    }

    /// An item of Alice's roster in a state of RFC 6121 Appendix A.1, as `from+out`; `+approved` is of §3.4.
    pub(super) fn contact(mut self, contact: &'static str, state: &'static str) -> Row {
        self.exchange().contacts.push((contact, state));
        self
    }

    /// No session of Alice's is there at first.
    pub(super) fn away(mut self) -> Row {
        self.exchange().is_away = true;
        self
    }

    pub(super) fn after(mut self, client: &'static str, xml: impl Into<String>) -> Row {
        self.exchange().before.push((client, xml.into()));
        self
    }

    pub(super) fn when(mut self, client: &'static str, xml: impl Into<String>) -> Row {
        self.exchange().sent.push((client, xml.into()));
        self
    }

    /// Each line one stanza: its receiver, and a short form of it.
    pub(super) fn comes(mut self, lines: &'static [&'static str]) -> Row {
        self.exchange().comes = lines;
        self
    }

    /// A report of the difference, if there is one.
    fn check(&self) -> Option<String> {
        match &self.proof {
            Proof::Test(path) => {
                requirements::fault_of(path).map(|fault| format!("§{}: {fault}\n", self.section))
            }
            Proof::Exchange(exchange) => {
                let came = exchange.play();
                let list = |lines: &mut dyn Iterator<Item = &str>| {
                    lines.map(|line| format!("    {line}\n")).collect::<String>()
                };
                (came != exchange.comes).then(|| {
                    format!(
                        "§{} {}\n  expected\n{}  came\n{}",
                        self.section,
                        self.demand,
                        list(&mut exchange.comes.iter().copied()),
                        list(&mut came.iter().map(String::as_str))
                    )
                })
            }
        }
    }
}

/// All rows of a part at once, so that a change shows all that it breaks.
pub(super) fn check(rows: &[Row]) {
    let wrong: Vec<String> = rows.iter().filter_map(Row::check).collect();
    requirements::assert_none(&wrong, rows.len());
}

impl Exchange {
    fn play(&self) -> Vec<String> {
        let mut stage = Stage { world: HostWorld::new(&[ALICE, "bob@example.org"]), clients: Vec::new() };
        let alice = Bare::parse(ALICE).unwrap();
        for (contact, state) in &self.contacts {
            let item = (Bare::parse(contact).unwrap(), item(contact, state));
            stage.world.store.users.get_mut(&alice).unwrap().roster.push(item);
        }
        if !self.is_away {
            stage.send("desk", ROSTER);
            stage.send("desk", "<presence/>");
        }
        for (client, xml) in &self.before {
            stage.send(client, xml);
        }
        stage.world.got.clear();
        stage.world.abroad.clear();
        for (client, xml) in &self.sent {
            stage.send(client, xml);
        }
        stage.came()
    }
}

fn item(contact: &str, state: &str) -> RosterItem {
    let (subscription, pending) = state.split_once('+').unwrap_or((state, ""));
    let is_both = subscription == "both";
    let state = SubscriptionState {
        to: is_both || subscription == "to",
        from: is_both || subscription == "from",
        pending_out: pending.contains("out"),
        pending_in: pending.contains("in"),
        approved: pending.contains("approved"),
    };
    let request = Element::new("presence", ns::CLIENT)
        .with("type", "subscribe")
        .with("from", contact)
        .with("to", ALICE);
    let mut item = RosterItem { asked: Some(Box::new(request)), ..RosterItem::default() };
    state.write(&mut item);
    // §3.1.3: a contact that only asks is in no roster.
    item.is_listed = subscription != "none" || pending != "in";
    item
}

struct Stage {
    world: HostWorld,
    clients: Vec<(&'static str, u64)>,
}

impl Stage {
    /// One second after the one before.
    fn send(&mut self, client: &'static str, xml: &str) {
        self.world.now = self.world.now + Duration::from_secs(1);
        let xml = self.with_ids(xml);
        if client == "x" {
            return self.world.arrive(&xml);
        }
        let number = self.client(client);
        if xml != END {
            return self.world.say(number, &xml);
        }
        self.clients.retain(|(known, _)| *known != client);
        self.world.tell(|host, now, out| host.handle_gone(now, edge(number), true, out));
    }

    fn client(&mut self, client: &'static str) -> u64 {
        if let Some((_, number)) = self.clients.iter().find(|(known, _)| *known == client) {
            return *number;
        }
        let (_, jid) = CAST.iter().find(|(known, _)| *known == client).expect("a client of the cast");
        let number = self.world.sign_in(jid);
        self.clients.push((client, number));
        number
    }

    /// Ids of archived messages with short forms: `#1` is the first message in an archive.
    fn ids(&self, is_shown: impl Fn(&str) -> bool) -> Vec<(String, Box<str>)> {
        let mut numbers: HashMap<&str, usize> = HashMap::new();
        let archive = self.world.store.messages.archive.iter();
        archive
            .filter(|(owner, _)| is_shown(owner.as_str()))
            .map(|(owner, (id, ..))| {
                let number = numbers.entry(owner.as_str()).or_default();
                *number += 1;
                (format!("#{number}"), id.clone())
            })
            .collect()
    }

    /// With ids of Alice's archive for their short forms.
    fn with_ids(&self, xml: &str) -> String {
        let ids = self.ids(|owner| owner == ALICE);
        ids.iter().fold(xml.to_owned(), |xml, (short, id)| xml.replace(short, id))
    }

    fn came(&mut self) -> Vec<String> {
        let ids = self.ids(|_| true);
        let mut lines = Vec::new();
        for (client, _) in CAST {
            let number = self.clients.iter().find(|(known, _)| *known == client).map(|(_, number)| *number);
            let got = number.and_then(|number| self.world.got.remove(&number)).unwrap_or_default();
            lines.extend(got.iter().map(|stanza| format!("{client}: {}", describe(stanza))));
        }
        let abroad = std::mem::take(&mut self.world.abroad);
        lines.extend(abroad.iter().map(|stanza| format!("x: {}", describe(stanza))));
        let short = |line: String| {
            let line = ids.iter().fold(line, |line, (short, id)| line.replace(&**id, short));
            line.replace("@example.org", "")
        };
        lines.into_iter().map(short).collect()
    }
}

/// `chat carol@x.org/1 > alice [body hi]`: a stanza by its type, addresses and children.
fn describe(stanza: &Element) -> String {
    let default = match stanza.name() {
        "presence" => "available",
        "message" => "message",
        _ => "iq",
    };
    let mut line = stanza.attr("type").unwrap_or(default).to_owned();
    if line == "error" {
        line = format!("{} error", stanza.name());
    }
    for (attr, mark) in [("from", ""), ("to", "> ")] {
        line += &stanza.attr(attr).map_or(String::new(), |jid| format!(" {mark}{jid}"));
    }
    match stanza.get("error", ns::CLIENT) {
        Some(error) => format!("{line} {}", error.first().map_or("without a condition", Element::name)),
        None => line + &inside(stanza),
    }
}

fn inside(element: &Element) -> String {
    let children: Vec<String> = element.elements().map(described_child).collect();
    let text = if children.is_empty() { element.content().into_owned() } else { children.join(", ") };
    match (text.is_empty(), children.is_empty()) {
        (true, _) => String::new(),
        (_, true) => format!(" {text}"),
        _ => format!(" [{text}]"),
    }
}

fn described_child(child: &Element) -> String {
    if child.ns() == ns::CLIENT && matches!(child.name(), "message" | "presence" | "iq") {
        return describe(child);
    }
    let attr = |name| child.attr(name).unwrap_or("none");
    if child.ns() == ns::ROSTER && child.name() != "group" {
        return described_roster(child);
    }
    if child.is("stanza-id", ns::SID) {
        return format!("{} at {}", attr("id"), attr("by"));
    }
    if child.is("result", ns::MAM) {
        let forwarded = child.get("forwarded", ns::FORWARD).map(inside).unwrap_or_default();
        return format!("result {} {}{forwarded}", attr("queryid"), attr("id"));
    }
    if child.is("delay", ns::DELAY) && child.attributes().len() == 1 {
        return seconds(attr("stamp"));
    }
    format!("{}{}{}", child.name(), described_attributes(child, &[]), inside(child))
}

/// `roster ver=1 [carol@x.org both ask=subscribe]`.
fn described_roster(child: &Element) -> String {
    let (jid, subscription) = (child.attr("jid"), child.attr("subscription"));
    let name = match (jid, subscription) {
        (Some(jid), Some(subscription)) => format!("{jid} {subscription}"),
        _ => "roster".to_owned(),
    };
    name + &described_attributes(child, &["jid", "subscription"]) + &inside(child)
}

fn described_attributes(element: &Element, except: &[&str]) -> String {
    let attributes = element.attributes().iter().filter(|known| !except.contains(&&*known.name));
    attributes.map(|known| format!(" {}={}", &*known.name, seconds(&known.value))).collect()
}

/// A time as seconds since the start, others as they are.
fn seconds(text: &str) -> String {
    xmpp::time::parse(text).map_or_else(|| text.to_owned(), |at| format!("{}s", at.since(START).as_secs()))
}
