//! Discovery (XEP-0030): the identities, features and items of an address; with the operator's contacts
//! (XEP-0157).
//!
//! Each feature announces itself in the table of `feature`; here the announcements become the answers of the server and of
//! accounts, with those of components that answer delegated namespaces. Accounts answer only entities that see their presence; nodes of accounts answer for themselves (`pubsub`).

use privilege::{DiscoveryTarget, NestedDiscovery};
use xmpp::stanza::Condition;
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::feature::{FEATURES, Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::{IqEffect, answer_from_nodes};
use super::{HostSettings, caps};
use crate::account_memory::AccountMemory;
use crate::{commands, invite, offline};

const FILE: &str = "crates/chat/src/disco.rs";

/// The features of accounts that anonymous accounts have, too: nothing of these accounts is stored (XEP-0175 §4).
const OF_ANONYMOUS: [&str; 8] = [
    ns::BLOCKING,
    ns::CARBONS,
    ns::CARBON_RULES,
    ns::DISCO_INFO,
    ns::DISCO_ITEMS,
    ns::HINTS,
    ns::LAST,
    ns::PING,
];

/// The features of the server that anonymous accounts are refused, for nothing of theirs is stored.
const REFUSED_TO_ANONYMOUS: [&str; 3] = [ns::PRIVATE, ns::REGISTER, ns::UPLOAD];

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0030",
            title: "Service Discovery",
            version: "2.5.0",
            level: Level::Complete,
            file: FILE,
            note: "accounts tell only themselves and who is subscribed to them",
        },
        Specification {
            name: "XEP-0157",
            title: "Contact Addresses for XMPP Services",
            version: "1.1.1",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
    ],
    account: &[ns::DISCO_INFO, ns::DISCO_ITEMS],
    server: &[ns::DISCO_INFO, ns::DISCO_ITEMS],
    handles: &[
        IqHandler { at: IqTarget::Server, name: "query", ns: ns::DISCO_INFO, run: of_server },
        IqHandler { at: IqTarget::Server, name: "query", ns: ns::DISCO_ITEMS, run: items_of_server },
        IqHandler { at: IqTarget::Account, name: "query", ns: ns::DISCO_INFO, run: of_account },
        IqHandler { at: IqTarget::Account, name: "query", ns: ns::DISCO_ITEMS, run: items_of_account },
    ],
};

/// The identities and features of one of our domains.
pub(super) fn server_info(settings: &HostSettings, nested: &NestedDiscovery) -> Element {
    // A feature that is not configured here is not announced: clients would offer it and fail.
    let is_offered = |var: &&&str| match **var {
        ns::UPLOAD => settings.uploads.is_some(),
        ns::EXTDISCO => !settings.services.is_empty(),
        ns::COMMANDS | ns::REPORTING => !settings.admins.is_empty(),
        _ => true,
    };
    let is_own = |var: &str| !nested.replaces(DiscoveryTarget::Server, var);
    let features = FEATURES.iter().flat_map(|feature| feature.server).filter(is_offered);
    let features = features.filter(|var| is_own(var));
    let query = Element::new("query", ns::DISCO_INFO)
        .child(identity("server", "im").with("name", settings.software.clone()))
        // XEP-0363 §3: clients look for this.
        .children(settings.uploads.map(|_| identity("store", "file").with("name", "Files")))
        .children(features.map(|var| feature(var)))
        .children(delegated(settings, |var| is_own(var) && announces(|own| own.server, var)).map(feature));
    let query = query.children(contacts(settings)).children(super::upload::form(settings));
    nested.merge(DiscoveryTarget::Server, query)
}

/// True if a feature of our own announces it.
fn announces(own: fn(&Feature) -> &'static [&'static str], var: &str) -> bool {
    FEATURES.iter().any(|feature| own(feature).contains(&var))
}

/// The namespaces that components answer in place of this server (XEP-0355 §7.1), and that are not announced already, sorted; before them
/// that there are any.
fn delegated(settings: &HostSettings, is_announced: impl Fn(&str) -> bool) -> impl Iterator<Item = &str> {
    let all = settings.privileges.iter().flat_map(|known| &known.delegations);
    let all = all.map(|delegation| &*delegation.namespace);
    let mut names: Vec<&str> = all.filter(|name| !is_announced(name)).collect();
    names.sort_unstable();
    names.dedup();
    let is_any = settings.privileges.iter().any(|known| !known.delegations.is_empty());
    is_any.then_some(ns::DELEGATION).into_iter().chain(names)
}

/// XEP-0157 §3: one field for each kind of contact.
fn contacts(settings: &HostSettings) -> Option<Element> {
    if settings.contacts.is_empty() {
        return None;
    }
    let field =
        |var: &str, kind: &'static str| Element::new("field", ns::DATA).with("type", kind).with("var", var);
    let value = |text: &str| Element::new("value", ns::DATA).text(text);
    let mut form = Element::new("x", ns::DATA)
        .with("type", "result")
        .child(field("FORM_TYPE", "hidden").child(value("http://jabber.org/network/serverinfo")));
    // Sorted: the hash of the server's features (XEP-0115) must not depend on the configuration's order.
    let mut kinds: Vec<&str> = settings.contacts.iter().map(|(kind, _)| &**kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let addresses = settings.contacts.iter().filter(|(known, _)| **known == *kind);
        let values = addresses.map(|(_, address)| value(address));
        form.push(field(kind, "list-multi").children(values));
    }
    Some(form)
}

/// An identity of an address (XEP-0030 §3.1); the registry has the categories and types.
pub(super) fn identity(category: &'static str, kind: &'static str) -> Element {
    Element::new("identity", ns::DISCO_INFO).with("category", category).with("type", kind)
}

/// A feature of an address.
pub(super) fn feature(var: &str) -> Element {
    Element::new("feature", ns::DISCO_INFO).with("var", var)
}

/// The server itself, or one of its nodes: a command, or the hash that it announces. Another node is `item-not-found`.
fn of_server(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    // XEP-0050 §2: a command is a node, and describes itself to those that may run it.
    let describe = |node| {
        commands::describe_command(view.settings, iq.from, node)
            .or_else(|| invite::describe_invitation(view.settings, iq.from, node))
    };
    if let Some(command) = iq.payload.attr("node").and_then(describe) {
        return IqReply::Result(Some(command));
    }
    // XEP-0050 §2.2: a node with items to list describes itself.
    if iq.payload.attr("node") == Some(ns::COMMANDS) && commands_of_server(view, iq).next().is_some() {
        let query = Element::new("query", ns::DISCO_INFO).with("node", ns::COMMANDS);
        let list = identity("automation", "command-list").with("name", "Commands");
        return IqReply::Result(Some(query.child(list).child(feature(ns::COMMANDS))));
    }
    let mut info = server_info(view.settings, view.nested);
    let Some(node) = iq.payload.attr("node") else {
        if view.accounts.is_anonymous(&iq.from.bare()) {
            remove_refused(&mut info);
        }
        return IqReply::Result(Some(info));
    };
    // XEP-0115 §6.2: the hash that we announce is a node of ours. It is announced before a client has signed in, so it is that of all features.
    if !caps::is_of(node, &info) {
        return IqReply::Error(Condition::ItemNotFound.into());
    }
    info.set("node", node);
    IqReply::Result(Some(info))
}

/// The nodes and names of the commands that the sender may run.
fn commands_of_server(view: &IqView<'_>, iq: &IqRequest<'_>) -> impl Iterator<Item = (String, &'static str)> {
    let own = commands::list_commands(view.settings, iq.from).into_iter().flatten();
    own.chain(invite::list_invitations(view.settings, iq.from))
}

/// Removes what an anonymous account cannot use from the server's information.
fn remove_refused(info: &mut Element) {
    let is_of_files = |child: &Element| {
        let is_form = |field: &Element| field.content_of("value", ns::DATA).as_deref() == Some(ns::UPLOAD);
        child.attr("type") == Some("file") || child.is("x", ns::DATA) && child.elements().any(is_form)
    };
    let is_refused = |child: &Element| {
        child.attr("var").is_some_and(|var| REFUSED_TO_ANONYMOUS.contains(&var)) || is_of_files(child)
    };
    info.remove_children(is_refused);
}

/// The services of a domain, or the commands of its node for commands: those that the sender may run.
fn items_of_server(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    if let Some(node) = iq.payload.attr("node") {
        let mut commands = commands_of_server(view, iq).peekable();
        if node != ns::COMMANDS || commands.peek().is_none() {
            return IqReply::Error(Condition::ItemNotFound.into());
        }
        let item = |(node, name): (String, &'static str)| {
            let item = Element::new("item", ns::DISCO_ITEMS).with("jid", iq.to.as_str());
            item.with("node", node).with("name", name)
        };
        let query = Element::new("query", ns::DISCO_ITEMS).with("node", node);
        return IqReply::Result(Some(query.children(commands.map(item))));
    }
    // Services of this server and components together: a client need not know which they are.
    let rooms = format!("{}.{}", view.settings.rooms, iq.to.domain());
    let item =
        |jid: &str, name: &str| Element::new("item", ns::DISCO_ITEMS).with("jid", jid).with("name", name);
    // The component describes itself.
    let component = |jid: &str| Element::new("item", ns::DISCO_ITEMS).with("jid", jid);
    let components = components_of(view.settings, iq.to.domain()).map(component);
    let nodes = format!("{}.{}", view.settings.pubsub, iq.to.domain());
    let query = Element::new("query", ns::DISCO_ITEMS).child(item(&rooms, "Rooms"));
    let proxy = view.settings.bytestreams.as_ref().map(|proxy| format!("{}.{}", proxy.label, iq.to.domain()));
    let query = query.child(item(&nodes, "Publish-subscribe"));
    let query = query.children(proxy.map(|proxy| item(&proxy, "File transfer"))).children(components);
    IqReply::Result(Some(query))
}

/// The components that a domain lists: those whose domain is below it, and those that are below none of our domains.
fn components_of<'a>(settings: &'a HostSettings, domain: &str) -> impl Iterator<Item = &'a str> {
    let is_below = |component: &str, domain: &str| {
        component.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'))
    };
    let is_named = move |component: &&str| {
        is_below(component, domain) || !settings.domains.iter().any(|other| is_below(component, other))
    };
    settings.components.iter().map(|component| &**component).filter(is_named)
}

/// An account shows its service discovery to itself and to its contacts; to others it looks like an
/// address without account (XEP-0030 §8).
pub(super) fn is_seen_by(accounts: &AccountMemory, user: &Bare, from: &Jid) -> bool {
    let contact = from.bare();
    contact == *user || accounts.subscription(user, &contact).has_from()
}

/// The account itself, or one of its nodes. The waiting messages are a node for the account alone; others are those of
/// publish-subscribe.
fn of_account(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let user = iq.to.bare();
    if iq.payload.attr("node") == Some(ns::OFFLINE) && iq.from.bare() == user {
        return offline::handle_disco(view, iq);
    }
    if !is_seen_by(view.accounts, &user, iq.from) {
        return IqReply::Error(Condition::ServiceUnavailable.into());
    }
    if iq.is_set {
        return IqReply::Error(Condition::BadRequest.into());
    }
    if let Some(node) = iq.payload.attr("node") {
        let node: Box<str> = node.into();
        let describe = answer_from_nodes(iq, move |nodes, _| nodes.describe(&node));
        return IqReply::Perform(IqEffect::ViewNodes(describe));
    }
    let is_anonymous = view.accounts.is_anonymous(&user);
    let kind = if is_anonymous { "anonymous" } else { "registered" };
    let is_own = |var: &str| !view.nested.replaces(DiscoveryTarget::Account, var);
    let is_offered = |var: &str| !is_anonymous || OF_ANONYMOUS.contains(&var);
    // XEP-0163 §6.1: "if … the account is provisioned for PEP". A component that answers for publish-subscribe says itself what it is.
    let pep = (is_own(ns::PUBSUB) && is_offered(ns::PUBSUB)).then(|| identity("pubsub", "pep"));
    let features = FEATURES.iter().flat_map(|feature| feature.account);
    let features = features.filter(|var| is_own(var) && is_offered(var));
    let query = Element::new("query", ns::DISCO_INFO)
        .child(identity("account", kind))
        .children(pep)
        .children(features.map(|var| feature(var)))
        .children(
            delegated(view.settings, |var| is_own(var) && announces(|own| own.account, var)).map(feature),
        );
    IqReply::Result(Some(view.nested.merge(DiscoveryTarget::Account, query)))
}

/// True if a stanza is a question for the items of its addressee.
pub(super) fn asks_for_items(iq: &Element) -> bool {
    iq.attr("type") == Some("get") && iq.get("query", ns::DISCO_ITEMS).is_some()
}

/// XEP-0030 §8: the items of an account that is not there, or that the entity which asks may not see, are an empty set.
pub(super) fn no_items(query: &Element) -> Element {
    Element::new("query", ns::DISCO_ITEMS).with_opt("node", query.attr("node"))
}

/// The nodes of an account (XEP-0060 §5.2).
fn items_of_account(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    let user = iq.to.bare();
    if iq.payload.attr("node") == Some(ns::OFFLINE) && iq.from.bare() == user {
        return offline::handle_disco(view, iq);
    }
    let is_seen = is_seen_by(view.accounts, &user, iq.from);
    if iq.is_set {
        let condition = if is_seen { Condition::BadRequest } else { Condition::ServiceUnavailable };
        return IqReply::Error(condition.into());
    }
    if !is_seen {
        return IqReply::Result(Some(no_items(iq.payload)));
    }
    // XEP-0060 §5.5 has the items of a node here as an option. They are read by the node's own request, which checks the access
    // model.
    if let Some(node) = iq.payload.attr("node") {
        return IqReply::Result(Some(Element::new("query", ns::DISCO_ITEMS).with("node", node)));
    }
    let list = answer_from_nodes(iq, |nodes, owner| {
        Ok(Element::new("query", ns::DISCO_ITEMS).children(nodes.items(owner)))
    });
    IqReply::Perform(IqEffect::ViewNodes(list))
}
