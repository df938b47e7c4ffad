//! Notifications of the events of a node: to subscribers, and clients that ask for it by their abilities (XEP-0060 §7.1.2,
//! XEP-0163 §4).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use stdx::Instant;
use stdx::cache::Cache;
use xmpp::stanza::StanzaError;
use xmpp::{Bare, Element, Jid, ns};

use super::super::blocking::Blocklist;
use super::super::effect::Load;
use super::super::{Host, ItemQuery, Outbox};
use super::items_of;
use super::node::{Node, NodeSubscription, Nodes, SendLast};
use super::publish::event_item;
use crate::limits;

/// Others' and our own, that get the newest items when they come.
pub(super) struct NotifiedClients {
    /// By hash of owner and client: the hash of the abilities it had when it was told.
    told: Cache<u64, u64>,
    /// By the hash of abilities that are still asked for.
    curious: Cache<Box<str>, Vec<(Bare, Jid)>>,
}

impl Default for NotifiedClients {
    fn default() -> NotifiedClients {
        NotifiedClients {
            told: Cache::new(limits::NODE_NOTIFIED),
            curious: Cache::new(limits::NODE_INTERESTED),
        }
    }
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Host {
    pub(super) fn notify_items(
        &mut self,
        now: Instant,
        owner: &Bare,
        name: &str,
        node: &Rc<Node>,
        items: Vec<Element>,
        out: &mut Outbox,
    ) {
        let items = Element::new("items", ns::PUBSUB_EVENT).with("node", name).children(items);
        self.notify(now, owner, (name, node), items, out);
    }

    pub(super) fn notify(
        &mut self,
        now: Instant,
        owner: &Bare,
        (name, node): (&str, &Node),
        event: Element,
        out: &mut Outbox,
    ) {
        if !node.config.notifies {
            return;
        }
        if owner.local().is_none() {
            return self.tell_audience(owner, name, node, &event, out);
        }
        let (user, name, node) = (owner.clone(), Box::<str>::from(name), node.clone());
        // The audience is in the roster, which may not be in memory now.
        self.with_account_data(now, owner, out, move |host, _, out| {
            host.tell_audience(&user, &name, &node, &event, out);
        });
    }

    fn tell_audience(&mut self, owner: &Bare, name: &str, node: &Node, event: &Element, out: &mut Outbox) {
        for to in self.audience(owner, name, node) {
            self.send_event(owner, to.as_str(), event.clone(), out);
        }
    }

    fn audience(&self, owner: &Bare, name: &str, node: &Node) -> Vec<Jid> {
        let subscribed = node.subscriptions.iter().filter(|(jid, state)| {
            let is_his = || node.may_subscribe(&jid.bare(), &self.relation(owner, jid)).is_ok();
            *state == NodeSubscription::Subscribed && is_his()
        });
        let mut audience: Vec<Jid> = subscribed.map(|(jid, _)| jid.clone()).collect();
        let explicit = audience.len();
        let feature = format!("{name}+notify");
        let mut contacts = vec![owner];
        if let Some(data) = self.accounts.data(owner) {
            let blocked = Blocklist::new(&data.blocked);
            let sees = data.roster.iter().filter(|(_, item)| item.subscription.has_from());
            contacts
                .extend(sees.map(|(contact, _)| contact).filter(|contact| !blocked.has(contact.as_jid())));
        }
        for contact in contacts {
            let mut clients = self.caps.clients_with(contact, &feature).peekable();
            if clients.peek().is_none()
                || node.may_read(contact, &self.relation(owner, contact.as_jid())).is_err()
            {
                continue;
            }
            for client in clients {
                let has_it = audience[..explicit].iter().any(|jid| jid == client || jid == contact.as_jid());
                if !has_it {
                    audience.push(client.clone());
                }
            }
        }
        audience
    }

    pub(super) fn send_event(&mut self, owner: &Bare, to: &str, event: Element, out: &mut Outbox) {
        self.route(message(owner, to, event), out);
    }

    /// With the time it was published.
    pub(super) fn send_newest(
        &mut self,
        owner: &Bare,
        name: &str,
        node: &Rc<Node>,
        to: &Jid,
        out: &mut Outbox,
    ) {
        let (owner, name, node, to) = (owner.clone(), Box::<str>::from(name), Rc::clone(node), to.clone());
        let query = Box::new(ItemQuery::newest());
        let load = Load::Items { owner: owner.clone(), node: name.clone(), query };
        self.load(load, out, move |host, _, result, out| {
            // When it cannot be read now, the next publication is told anyway.
            let newest = items_of(result).ok().and_then(|page| page.items.into_iter().next());
            let Some((_, at, item)) = newest else { return };
            let items = Element::new("items", ns::PUBSUB_EVENT)
                .with("node", name)
                .child(event_item(&item, &node.config));
            let delay = Element::new("delay", ns::DELAY)
                .with("from", owner.as_str())
                .with("stamp", xmpp::time::stamp(at));
            host.route(message(&owner, to.as_str(), items).child(delay), out);
        });
    }

    /// Presence that an account of ours got, or one of its sessions sent.
    pub(crate) fn pubsub_presence(
        &mut self,
        now: Instant,
        user: &Bare,
        from: &Jid,
        presence: &Element,
        out: &mut Outbox,
    ) {
        if presence.attr("type").is_some() {
            self.pubsub.clients.told.remove(&hash((user, from)));
            return;
        }
        let Some(ver) = presence.get("c", ns::CAPS).and_then(|caps| caps.attr("ver")) else { return };
        let relation = self.relation(user, from);
        if !(relation.is_owner || relation.has_presence) || self.accounts.is_anonymous(user) {
            return;
        }
        if self.caps.abilities_of(ver).is_some() {
            return self.tell_newest(now, user, from, ver, out);
        }
        let curious = &mut self.pubsub.clients.curious;
        let who = (user.clone(), from.clone());
        match curious.get_mut(ver) {
            Some(known) if known.len() < limits::NODE_INTERESTED_CLIENTS && !known.contains(&who) => {
                known.push(who);
            }
            Some(_) => {}
            None => drop(curious.insert(ver.into(), vec![who])),
        }
    }

    /// From now on the contact sees the account's presence, and perhaps its nodes.
    pub(crate) fn pubsub_let_in(&mut self, now: Instant, user: &Bare, contact: &Bare, out: &mut Outbox) {
        for (client, ver) in self.caps.clients_of(contact) {
            if self.caps.abilities_of(&ver).is_some() {
                self.tell_newest(now, user, &client, &ver, out);
            }
        }
    }

    /// These abilities are known from now on.
    pub(crate) fn pubsub_caps_known(&mut self, now: Instant, ver: &str, out: &mut Outbox) {
        for (user, client) in self.pubsub.clients.curious.remove(ver).unwrap_or_default() {
            // The audience is in the roster, which may have left memory meanwhile.
            if self.accounts.users.contains_key(&user) {
                let (of, ver) = (user.clone(), Box::<str>::from(ver));
                self.with_account_data(now, &user, out, move |host, now, out| {
                    host.tell_newest(now, &of, &client, &ver, out);
                });
            }
        }
    }

    /// XEP-0163 §4.1: a client that comes, or can do something new, gets the newest items of the nodes that
    /// it asks for.
    fn tell_newest(&mut self, now: Instant, user: &Bare, client: &Jid, ver: &str, out: &mut Outbox) {
        let Some(abilities) = self.caps.abilities_of(ver) else { return };
        let wanted = abilities.iter().filter_map(|feature| feature.strip_suffix("+notify"));
        let wanted: Vec<Box<str>> = wanted.map(Box::from).collect();
        let (who, ver) = (hash((user, client)), hash(ver));
        if wanted.is_empty() || self.pubsub.clients.told.insert(who, ver) == Some(ver) {
            return;
        }
        let (owner, client) = (user.clone(), client.clone());
        let job = move |host: &mut Host, _, nodes: Result<Rc<Nodes>, StanzaError>, out: &mut Outbox| {
            let (Ok(nodes), relation) = (nodes, host.relation(&owner, &client)) else { return };
            let contact = client.bare();
            for name in wanted {
                let Some(node) = nodes.get(&name) else { continue };
                let is_due = node.config.send_last == SendLast::OnSubscribeAndPresence
                    && node.config.notifies
                    && node.config.persists;
                if is_due && node.may_read(&contact, &relation).is_ok() {
                    host.send_newest(&owner, &name, node, &client, out);
                }
            }
        };
        self.with_nodes(now, user, out, Box::new(job));
    }
}

fn message(owner: &Bare, to: &str, event: Element) -> Element {
    Element::new("message", ns::CLIENT)
        .with("type", "headline")
        .with("from", owner.as_str())
        .with("to", to)
        .child(Element::new("event", ns::PUBSUB_EVENT).child(event))
}
