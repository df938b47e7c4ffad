//! Entity capabilities (XEP-0115): the features of contacts' clients, asked once for each kind of client and
//! checked.
//!
//! `presence` calls `handle_presence` for each presence that an account sends or gets, and routes the request that it may
//! return; `route` gives the response to `handle_response`. Features are believed once their hash fits the announced one,
//! and then for all clients that announce it. `pubsub` asks which clients want the events of a node (`clients_with`).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use privilege::NestedDiscovery;
use sha1::{Digest, Sha1};
use stdx::Instant;
use stdx::cache::Cache;
use stdx::rng::Rng;
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::effect::Subscription;
use super::feature::Feature;
use super::{HostSettings, disco, token};
use crate::account_memory::AccountMemory;
use crate::limits;

pub(super) const FEATURE: Feature = Feature {
    specifications: &[Specification {
        name: "XEP-0115",
        title: "Entity Capabilities",
        version: "1.6.0",
        level: Level::Complete,
        file: "crates/chat/src/caps.rs",
        note: "SHA-1 only, as clients and servers announce it",
    }],
    account: &[],
    server: &[ns::CAPS],
    handles: &[],
};

/// Names the software, not a place (XEP-0115 §4).
const NODE: &str = "urn:belfry:xmpp";

/// The time for which a response is expected; the next presence after it asks again.
const PATIENCE: Duration = Duration::from_secs(60);

/// A hash, as it is announced.
type Ver = Rc<str>;

/// Features of a kind of client.
pub(super) type ClientFeatures = Rc<HashSet<Box<str>>>;

/// The feature: the kinds of clients and their features. It is told of presence and of responses, and returns requests.
pub(super) struct Caps {
    /// Features whose hash was checked. They are true for every client with that hash, of any account.
    known: Cache<Ver, ClientFeatures>,
    /// Clients that are here, by account: ours and contacts'.
    clients: Cache<Bare, Vec<(Jid, Ver)>>,
    /// Requests that are not answered: one for each hash.
    asked: HashMap<Ver, CapsQuery>,
    /// The hashes of these requests by the ids of their iqs, which are unpredictable: nothing else can
    /// answer.
    ids: HashMap<Box<str>, Ver>,
}

/// A request for the features of a kind of client.
struct CapsQuery {
    /// The id of the iq.
    id: Box<str>,
    /// The client that is asked: only its response counts.
    of: Jid,
    /// The account that asks, and the clients that are asked when the response is wrong.
    asker: Bare,
    others: Vec<(Jid, Bare)>,
    node: Box<str>,
    /// The time until which a response counts as coming; later the next presence asks again.
    until: Instant,
}

/// A kind of client that a presence announced and that is not known yet.
struct Announcement {
    ver: Ver,
    node: Box<str>,
}

/// Everything that a response causes.
pub(super) enum CapsEffect {
    /// A request to another client of the same kind.
    Send(Element),
    /// The features of this kind of client are known from now on.
    FeaturesKnown(Ver),
}

impl Default for Caps {
    fn default() -> Caps {
        Caps {
            known: Cache::new(limits::CAPS),
            clients: Cache::new(limits::CAPS_ACCOUNTS),
            asked: HashMap::new(),
            ids: HashMap::new(),
        }
    }
}

impl Caps {
    /// Clients of an account that are here and can do that: `…+notify` for events (XEP-0163 §4).
    pub(super) fn clients_with<'a>(&'a self, account: &Bare, feature: &str) -> impl Iterator<Item = &'a Jid> {
        let clients = self.clients.get(account).map(|clients| &clients[..]).unwrap_or_default();
        let is_able = move |ver: &Ver| self.known.get(ver).is_some_and(|known| known.contains(feature));
        clients.iter().filter(move |(_, ver)| is_able(ver)).map(|(jid, _)| jid)
    }

    /// The clients of an account that are here, with their hashes.
    pub(super) fn clients_of(&self, account: &Bare) -> Vec<(Jid, Ver)> {
        self.clients.get(account).cloned().unwrap_or_default()
    }

    /// The features of a hash, if they were checked.
    pub(super) fn abilities_of(&self, ver: &str) -> Option<ClientFeatures> {
        self.known.get(ver).cloned()
    }

    /// The shared string of a hash: thousands of clients announce the same.
    fn shared(&self, ver: &str) -> Ver {
        let asked = || self.asked.get_key_value(ver).map(|(ver, _)| ver.clone());
        self.known.get_key(ver).cloned().or_else(asked).unwrap_or_else(|| ver.into())
    }

    /// True if nothing is to be learnt from a presence: client and features are known.
    fn is_noted(&self, jid: &Jid, ver: &str) -> bool {
        let clients = self.clients.get(&jid.bare());
        let is_it = |(known, its): &(Jid, Ver)| known == jid && **its == *ver;
        self.known.get(ver).is_some() && clients.is_some_and(|clients| clients.iter().any(is_it))
    }

    /// Notes the kind of a client, also while its features are not known: it is found when they are.
    fn note(&mut self, jid: &Jid, ver: &Ver) {
        let account = jid.bare();
        let Some(clients) = self.clients.get_mut(&account) else {
            self.clients.insert(account, vec![(jid.clone(), ver.clone())]);
            return;
        };
        match clients.iter().position(|(known, _)| known == jid) {
            Some(at) => clients[at].1 = ver.clone(),
            None if clients.len() < limits::CAPS_RESOURCES => clients.push((jid.clone(), ver.clone())),
            None => {}
        }
    }

    /// Forgets a client that is gone. The features of its kind stay known.
    pub(super) fn forget(&mut self, jid: &Jid) {
        let account = jid.bare();
        if let Some(clients) = self.clients.get_mut(&account) {
            clients.retain(|(known, _)| known != jid);
            if clients.is_empty() {
                self.clients.remove(&account);
            }
        }
    }

    /// Forgets requests that got no response in time.
    fn tidy(&mut self, now: Instant) {
        let ids = &mut self.ids;
        self.asked.retain(|_, query| {
            let is_open = now < query.until;
            if !is_open {
                ids.remove(&query.id);
            }
            is_open
        });
    }
}

impl Caps {
    /// Notes the kind of client that a presence announces. Returns the announcement if its features are not known and it can
    /// be asked about: [`Self::learn`] takes it, if the client may be asked.
    fn announced(&mut self, from: &Jid, presence: &Element) -> Option<Announcement> {
        // Unavailable or an error: the client is gone, and so are its interests.
        if presence.attr("type").is_some() {
            self.forget(from);
            return None;
        }
        let caps = presence.get("c", ns::CAPS)?;
        let (Some("sha-1"), Some(node), Some(ver)) = (caps.attr("hash"), caps.attr("node"), caps.attr("ver"))
        else {
            return None;
        };
        // A SHA-1 has 28 characters in base64.
        let is_sound = !from.is_bare() && ver.len() == 28 && node.len() <= limits::JID_PART;
        (is_sound && !self.is_noted(from, ver))
            .then(|| Announcement { ver: self.shared(ver), node: node.into() })
    }

    /// Notes a client of a known account, and returns the request for its features if no other client is asked for them.
    fn learn(
        &mut self,
        now: Instant,
        announcement: Announcement,
        (of, asker): (&Jid, &Bare),
        rng: &mut Rng,
    ) -> Option<Element> {
        let Announcement { ver, node } = announcement;
        self.note(of, &ver);
        if self.known.get(&ver).is_some() {
            return None;
        }
        if let Some(query) = self.asked.get_mut(&ver).filter(|query| now < query.until) {
            // One client of a kind is asked; the others of it are asked in turn if it answers wrongly.
            let is_known = query.of == *of || query.others.iter().any(|(other, _)| other == of);
            if !is_known && query.others.len() < limits::CAPS_OTHERS {
                query.others.push((of.clone(), asker.clone()));
            }
            return None;
        }
        if self.asked.len() >= limits::CAPS_QUESTIONS {
            self.tidy(now);
        }
        if self.asked.len() >= limits::CAPS_QUESTIONS {
            return None;
        }
        let node = format!("{node}#{ver}").into();
        let (of, asker) = (of.clone(), asker.clone());
        let query = CapsQuery { id: "".into(), of, asker, others: Vec::new(), node, until: now };
        Some(self.request(now, ver, query, rng))
    }

    /// Builds a request from the account itself, so that the response comes to the host that asked.
    fn request(&mut self, now: Instant, ver: Ver, mut query: CapsQuery, rng: &mut Rng) -> Element {
        query.id = token(rng)[..16].into();
        query.until = now + PATIENCE;
        let iq = Element::new("iq", ns::CLIENT)
            .with("type", "get")
            .with("id", query.id.clone())
            .with("from", query.asker.as_str())
            .with("to", query.of.as_str())
            .child(Element::new("query", ns::DISCO_INFO).with("node", query.node.clone()));
        self.ids.insert(query.id.clone(), ver.clone());
        if let Some(old) = self.asked.insert(ver, query) {
            self.ids.remove(&old.id);
        }
        iq
    }

    /// A presence that one of our accounts sent or got. Returns a question for the features of its client, when they are not
    /// known.
    pub(super) fn handle_presence(
        &mut self,
        now: Instant,
        accounts: &AccountMemory,
        (from, user): (&Jid, &Bare),
        presence: &Element,
        rng: &mut Rng,
    ) -> Option<Element> {
        let announcement = self.announced(from, presence)?;
        // Clients of occupants and of strangers are not remembered.
        if !may_be_asked(accounts, user, from) {
            return None;
        }
        self.learn(now, announcement, (from, user), rng)
    }

    /// Takes a response to one of these requests; other iqs have no effect.
    pub(super) fn handle_response(
        &mut self,
        now: Instant,
        from: &Jid,
        iq: &Element,
        rng: &mut Rng,
    ) -> Option<CapsEffect> {
        let ver = iq.attr("id").and_then(|id| self.ids.get(id)).cloned()?;
        // A client answers for itself only.
        if self.asked.get(&ver).is_none_or(|query| query.of != *from) {
            return None;
        }
        let mut query = self.asked.remove(&ver)?;
        self.ids.remove(&query.id);
        let info = iq.get("query", ns::DISCO_INFO).filter(|_| iq.attr("type") == Some("result"));
        let info = info.filter(|info| hash(info).is_some_and(|hash| *hash == *ver));
        if let Some(info) = info {
            self.known.insert(ver.clone(), Rc::new(features(info).map(Box::from).collect()));
            return Some(CapsEffect::FeaturesKnown(ver));
        }
        // XEP-0115 §5.4: features that do not fit their hash are forged. Another client that announces the same hash may have
        // the true ones.
        self.forget(from);
        if query.others.is_empty() {
            return None;
        }
        (query.of, query.asker) = query.others.remove(0);
        Some(CapsEffect::Send(self.request(now, ver, query, rng)))
    }
}

/// Accounts and their contacts only: a stranger could otherwise make the server remember clients and send requests by mere
/// presence.
fn may_be_asked(accounts: &AccountMemory, user: &Bare, from: &Jid) -> bool {
    let contact = from.bare();
    contact == *user || accounts.subscription(user, &contact) != Subscription::None
}

/// The features in an answer, in its order.
fn features(info: &Element) -> impl Iterator<Item = &str> {
    info.elements().filter(|child| child.is("feature", ns::DISCO_INFO)).filter_map(|child| child.attr("var"))
}

/// The server's own `<c/>`, for stream features (XEP-0115 §6.3). `None`: components answer for some of its features, which come and go
/// with them (XEP-0355 §7.2), so a hash would soon be that of other features; clients ask instead.
pub fn of_server(settings: &HostSettings) -> Option<Element> {
    if settings.privileges.iter().any(|known| !known.delegations.is_empty()) {
        return None;
    }
    let caps = Element::new("c", ns::CAPS).with("hash", "sha-1").with("node", NODE);
    Some(caps.with_opt("ver", hash(&disco::server_info(settings, &NestedDiscovery::default()))))
}

/// True if that node is the one that is announced for this `info`.
pub(super) fn is_of(node: &str, info: &Element) -> bool {
    node.strip_prefix(NODE)
        .and_then(|rest| rest.strip_prefix('#'))
        .is_some_and(|ver| hash(info).as_deref() == Some(ver))
}

/// The hash of XEP-0115 §5.1. `None`: `info` is ill-formed (§5.4), or has two readings, by which hashes are forged.
fn hash(info: &Element) -> Option<String> {
    let mut text = String::new();
    for part in identities(info)?.iter().chain(&vars(info)?).chain(&forms(info)?) {
        text.push_str(part);
        text.push('<');
    }
    Some(BASE64_STANDARD.encode(Sha1::digest(text.as_bytes())))
}

/// The text, unless it has the separator in it.
fn plain(text: &str) -> Option<&str> {
    (!text.contains('<')).then_some(text)
}

/// Sorted; `None` if one occurs twice.
fn sorted(mut all: Vec<String>) -> Option<Vec<String>> {
    let given = all.len();
    all.sort_unstable();
    all.dedup();
    (all.len() == given).then_some(all)
}

/// The identities in the form of XEP-0115 §5.1: category, type, language and name, with slashes between them.
fn identities(info: &Element) -> Option<Vec<String>> {
    let mut all = Vec::new();
    for identity in info.elements().filter(|child| child.is("identity", ns::DISCO_INFO)) {
        let parts = [identity.attr("category")?, identity.attr("type")?, identity.lang().unwrap_or_default()];
        if parts.iter().any(|part| part.contains('/')) {
            return None;
        }
        let text = format!("{}/{}", parts.join("/"), identity.attr("name").unwrap_or_default());
        all.push(plain(&text)?.to_owned());
    }
    sorted(all)
}

/// The features in the form of XEP-0115 §5.1, at most `limits::CAPS_FEATURES`.
fn vars(info: &Element) -> Option<Vec<String>> {
    let vars: Option<Vec<String>> = features(info).map(|var| plain(var).map(str::to_owned)).collect();
    sorted(vars.filter(|vars| vars.len() <= limits::CAPS_FEATURES)?)
}

/// A form's fields and values in one string each, so that forms are sorted as the text wants them.
fn forms(info: &Element) -> Option<Vec<String>> {
    let mut all = Vec::new();
    let mut kinds = HashSet::new();
    for form in info.elements().filter(|child| child.is("x", ns::DATA)) {
        let mut fields = Vec::new();
        let mut kind = None;
        for field in form.elements().filter(|child| child.is("field", ns::DATA)) {
            let var = plain(field.attr("var")?)?;
            let mut values = field
                .elements()
                .filter(|child| child.is("value", ns::DATA))
                .map(|value| plain(&value.content()).map(str::to_owned))
                .collect::<Option<Vec<String>>>()?;
            values.sort_unstable();
            if var == "FORM_TYPE" {
                // §5.4: a form whose type is not hidden is left out, one with two types is ill-formed.
                let [value] = &values[..] else { return None };
                kind = (field.attr("type") == Some("hidden")).then(|| value.clone());
                continue;
            }
            // Else features at the end of the list could be passed off as a form.
            if values.is_empty() || var.contains(':') {
                return None;
            }
            fields.push(format!("{var}<{}", values.join("<")));
        }
        let Some(kind) = kind else { continue };
        if !kinds.insert(kind.clone()) {
            return None;
        }
        let fields = sorted(fields)?;
        all.push([&[kind], &fields[..]].concat().join("<"));
    }
    all.sort_unstable();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(xml: &str) -> Element {
        let xml = format!("<query xmlns='http://jabber.org/protocol/disco#info'>{xml}</query>");
        xmpp::xml::parse(xml.as_bytes(), &xmpp::xml::Prefixes::of_default(ns::CLIENT)).unwrap()
    }

    const PSI: &str = "<identity xml:lang='en' category='client' name='Psi 0.11' type='pc'/>\
        <identity xml:lang='el' category='client' name='Ψ 0.11' type='pc'/>\
        <feature var='http://jabber.org/protocol/caps'/>\
        <feature var='http://jabber.org/protocol/disco#info'/>\
        <feature var='http://jabber.org/protocol/disco#items'/>\
        <feature var='http://jabber.org/protocol/muc'/>\
        <x xmlns='jabber:x:data' type='result'>\
        <field var='FORM_TYPE' type='hidden'><value>urn:xmpp:dataforms:softwareinfo</value></field>\
        <field var='ip_version'><value>ipv4</value><value>ipv6</value></field>\
        <field var='os'><value>Mac</value></field><field var='os_version'><value>10.5.1</value></field>\
        <field var='software'><value>Psi</value></field>\
        <field var='software_version'><value>0.11</value></field></x>";

    /// XEP-0115 §5.2 and §5.3.
    #[test]
    fn hashes_of_the_text() {
        let exodus = "<identity category='client' type='pc' name='Exodus 0.9.1'/>\
            <feature var='http://jabber.org/protocol/muc'/><feature var='http://jabber.org/protocol/disco#items'/>\
            <feature var='http://jabber.org/protocol/disco#info'/><feature var='http://jabber.org/protocol/caps'/>";
        assert_eq!(hash(&info(exodus)).as_deref(), Some("QgayPKawpkPSDYmwT/WM94uAlu0="));
        assert_eq!(hash(&info(PSI)).as_deref(), Some("q07IKJEyjvHSyhy//CH0CxmKi8w="));
    }

    #[test]
    fn ambiguous_information_has_no_hash() {
        let form = |fields: &str| format!("<x xmlns='jabber:x:data' type='result'>{fields}</x>");
        let kind = "<field var='FORM_TYPE' type='hidden'><value>urn:x</value></field>";
        for wrong in [
            "<feature var='a'/><feature var='a'/>".to_owned(),
            "<feature var='a&lt;b'/>".to_owned(),
            "<identity category='client' type='pc' name='x&lt;urn:y'/>".to_owned(),
            "<identity category='client/pc' type='' name=''/>".to_owned(),
            "<identity category='client'/>".to_owned(),
            "<identity category='a' type='b'/><identity category='a' type='b'/>".to_owned(),
            form(kind) + &form(kind),
            form("<field var='FORM_TYPE' type='hidden'><value>a</value><value>b</value></field>"),
            form(&format!("{kind}<field var='urn:y'><value>z</value></field>")),
            form(&format!("{kind}<field var='y'/>")),
            form(&format!("{kind}<field var='y'><value>a&lt;b</value></field>")),
            (0..=limits::CAPS_FEATURES).map(|n| format!("<feature var='{n}'/>")).collect(),
        ] {
            assert_eq!(hash(&info(&wrong)), None, "{wrong}");
        }
        let open = form("<field var='FORM_TYPE'><value>urn:x</value></field>");
        assert_eq!(hash(&info(&open)), hash(&info("")), "a type that is not hidden (§5.4)");
    }
}
