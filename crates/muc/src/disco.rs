//! The room's features and occupants (XEP-0045 §6.3 to §6.6, §15.5.4; §7.12 for one's reserved nickname). All that is shown
//! here may be asked for by any user of any server, so it has no address of an occupant, and nicknames only where the room is
//! open.
//!
//! `query` calls `disco_info` and `disco_items`.

use xmpp::stanza::{self, Condition};
use xmpp::{Element, Jid, ns};

use super::form::{field, form};
use super::rules::Affiliation;
use super::{Room, RoomEffect, hats, refuse};
use crate::limits::HISTORY;

/// `FORM_TYPE` of the form in an answer about the room (§15.5.4).
const ROOM_INFO: &str = "http://jabber.org/protocol/muc#roominfo";
/// The node that asks for one's own reserved nickname (§7.12).
const OWN_ITEM: &str = "x-roomuser-item";
/// The node that asks which namespaces may be used in the room (§17.1.1).
const TRAFFIC: &str = "http://jabber.org/protocol/muc#traffic";

/// The features of each room; `RoomConfig::features` adds those of its type.
const FEATURES: [&str; 18] = [
    ns::DISCO_INFO,
    ns::DISCO_ITEMS,
    ns::MUC,
    ns::REGISTER,
    ns::PING,
    ns::SID,
    ns::OCCUPANT_ID,
    ns::VCARD,
    ns::MODERATE,
    ns::RETRACT,
    ns::COMMANDS,
    ns::HATS,
    "http://jabber.org/protocol/muc#stable_id",
    "http://jabber.org/protocol/muc#self-ping-optimization",
    // The registry (§16.3) has a feature for support of each of these forms.
    "http://jabber.org/protocol/muc#register",
    "http://jabber.org/protocol/muc#roomconfig",
    "http://jabber.org/protocol/muc#roominfo",
    // COMPAT(clients of Prosody): the registry has it as a form only, and clients such as aioxmpp offer to ask for voice (§7.13) where it is a feature.
    "http://jabber.org/protocol/muc#request",
];

fn identity(category: &'static str, kind: &'static str, name: &str) -> Element {
    Element::new("identity", ns::DISCO_INFO)
        .with("category", category)
        .with("type", kind)
        .with_opt("name", Some(name).filter(|name| !name.is_empty()))
}

fn feature(var: &'static str) -> Element {
    Element::new("feature", ns::DISCO_INFO).with("var", var)
}

impl Room {
    pub(super) fn disco_info(&self, from: &Jid, query: &Element, iq: &Element, out: &mut Vec<RoomEffect>) {
        let answer = Element::new("query", ns::DISCO_INFO).with_opt("node", query.attr("node"));
        let answer = match query.attr("node") {
            None => self.info(answer),
            // §7.12: the nickname is shown to the user that reserved it, and no identity to others.
            Some(OWN_ITEM) => {
                let nick = self.users.affiliations.nick_of(&from.bare());
                answer.children(nick.map(|nick| identity("conference", "text", nick)))
            }
            // XEP-0050 §2.2: the commands, for users that may give them.
            Some(ns::COMMANDS) => answer.child(identity("automation", "command-list", "Commands")),
            Some(node) if hats::commands_of(&self.users, from).any(|(known, _)| known == node) => {
                let name = hats::commands_of(&self.users, from)
                    .find(|(known, _)| *known == node)
                    .map_or("", |(_, name)| name);
                answer
                    .child(identity("automation", "command-node", name))
                    .child(feature(ns::COMMANDS))
                    .child(feature(ns::DATA))
            }
            // §17.1.1: everything may be said here, so there is no list of it.
            Some(TRAFFIC) => return refuse(iq, Condition::FeatureNotImplemented, out),
            // XEP-0030 §7: "item-not-found" for a node that is not there.
            Some(_) => return refuse(iq, Condition::ItemNotFound, out),
        };
        out.push(RoomEffect::Send(stanza::result(iq, Some(answer))));
    }

    fn info(&self, answer: Element) -> Element {
        let config = &self.users.config;
        let mut answer = answer.child(identity("conference", "text", &config.name));
        for var in FEATURES.into_iter().chain(config.features()) {
            answer.push(feature(var));
        }
        // XEP-0313 §6.1.2: a room announces its archive itself.
        if self.is_archived() {
            answer.push(feature(ns::MAM));
            answer.push(feature(ns::MAM_EXTENDED));
            answer.push(feature(ns::FULL_TEXT));
            answer.push(feature(ns::RETRACT_TOMBSTONE));
        }
        let text = |var: &'static str, value: &str| field(var, "text-single", "", [value]);
        let on = |var: &'static str, value: bool| field(var, "boolean", "", [if value { "1" } else { "0" }]);
        let subject = self.subject.text();
        let mut about = form("result", ROOM_INFO)
            .child(text("muc#roominfo_description", &config.description))
            .child(text("muc#roominfo_occupants", &self.users.occupants.len().to_string()))
            .child(on("muc#roominfo_subjectmod", config.may_change_subject))
            // `muc#roominfo_subjectmod` is the registered name (§15.5.4).
            // COMPAT(clients of ejabberd and Prosody): the name in an example of older versions.
            .child(on("muc#roominfo_changesubject", config.may_change_subject))
            .child(text("muc#maxhistoryfetch", &HISTORY.to_string()))
            .child(on("muc#roomconfig_changesubject", config.may_change_subject))
            .child(on("{http://prosody.im/protocol/muc}roomconfig_allowmemberinvites", config.may_invite));
        if let Some(subject) = subject {
            about.push(text("muc#roominfo_subject", &subject));
        }
        if !config.contacts.is_empty() {
            let contacts = config.contacts.iter().map(|jid| &**jid);
            about.push(field("muc#roominfo_contactjid", "jid-multi", "", contacts));
        }
        for (var, value) in [("muc#roominfo_lang", &config.lang), ("muc#roominfo_pubsub", &config.pubsub)] {
            if !value.is_empty() {
                about.push(text(var, value));
            }
        }
        // XEP-0486 §3: of several pictures a vCard shows one.
        if let Some(hash) = self.vcard.hash() {
            about.push(field("muc#roominfo_avatarhash", "text-multi", "", [hash]));
        }
        answer.push(about);
        answer
    }

    /// Occupants of a hidden room are visible to its members only.
    pub(super) fn disco_items(&self, from: &Jid, query: &Element, iq: &Element, out: &mut Vec<RoomEffect>) {
        match query.attr("node") {
            None => {}
            Some(ns::COMMANDS) => {
                let item = |(node, name)| {
                    Element::new("item", ns::DISCO_ITEMS)
                        .with("jid", self.users.address.as_str())
                        .with("node", node)
                        .with("name", name)
                };
                let items = hats::commands_of(&self.users, from).map(item);
                let answer =
                    Element::new("query", ns::DISCO_ITEMS).with("node", ns::COMMANDS).children(items);
                return out.push(RoomEffect::Send(stanza::result(iq, Some(answer))));
            }
            Some(_) => return refuse(iq, Condition::ItemNotFound, out),
        }
        let affiliation = self.users.affiliation(&from.bare());
        let is_insider =
            self.users.occupants.of_session(from).is_some() || affiliation >= Affiliation::Member;
        let is_open = self.users.config.is_public
            && !self.users.config.is_members_only
            && affiliation != Affiliation::Outcast;
        let mut answer = Element::new("query", ns::DISCO_ITEMS);
        if is_insider || is_open {
            let item = |nick: &str| {
                Element::new("item", ns::DISCO_ITEMS).with("jid", self.users.address.of_nick(nick))
            };
            answer = answer.children(self.users.occupants.values().map(|occupant| item(&occupant.nick)));
        }
        out.push(RoomEffect::Send(stanza::result(iq, Some(answer))));
    }
}
