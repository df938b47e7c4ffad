//! Nodes and items (XEP-0060) of accounts (XEP-0163) and of services. [`PubSub`] is the machine, the crate `pubsub`; the host
//! performs its effects here.
//!
//! An account has its nodes under its own address, a service (`pubsub.` before a domain) those of all its users. Other features of an
//! account publish and retract by [`Host::publish_for`] and [`Host::retract_for`], and read by `IqEffect::ViewNodes`.

mod entities;

use std::collections::HashMap;
use std::rc::Rc;

use pubsub::{FeatureRequest, NodeChange, NodeLoad, NodePage, NodeReply, Notification, PubSubContext};
use pubsub::{PendingRequest, PubSubEffect, WriteFailure};
use stdx::Instant;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns};

use super::change_queue::not_written;
use super::effect::{Change, Load, StoreFailure, StoreReply};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::private::mirror_publication;
use super::read_queues::with_requester;
use super::store_requests::StoreRequests;
use super::write_group::WriteContinuation;
use super::{Host, ItemPage, ItemQuery, ItemRow, Outbox, token};
use crate::outgoing;
use entities::HostEntities;
pub(super) use pubsub::{Approval, NodesView, PubSub, PubSubEvent, Publication};

const FILE: &str = "crates/chat/src/pubsub/mod.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0060",
            title: "Publish-Subscribe",
            version: "1.26.0",
            level: Level::Partial,
            file: FILE,
            note: "of accounts and of a service; without several subscriptions of one address",
        },
        Specification {
            name: "XEP-0163",
            title: "Personal Eventing Protocol",
            version: "1.2.2",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
        Specification {
            name: "XEP-0248",
            title: "PubSub Collection Nodes",
            version: "0.4.0",
            level: Level::Partial,
            file: "crates/pubsub/src/collection.rs",
            note: "of a service, a node in one collection; without subscriptions of the root, items read by a collection, and leaves that become collections",
        },
        Specification {
            name: "XEP-0223",
            title: "Persistent Storage of Private Data via PubSub",
            version: "1.1.1",
            level: Level::Complete,
            file: FILE,
            note: "",
        },
    ],
    // The names are those of XEP-0060 §10.
    account: pubsub::FEATURES,
    server: &[],
    handles: &[
        IqHandler { at: IqTarget::Account, name: "pubsub", ns: ns::PUBSUB, run: request },
        IqHandler { at: IqTarget::Account, name: "pubsub", ns: ns::PUBSUB_OWNER, run: request },
    ],
};

/// Passes a request on to [`PubSub`]. Anonymous accounts have no nodes, as nothing of them is stored.
fn request(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if view.accounts.is_anonymous(&iq.to.bare()) {
        let error = StanzaError::new(Condition::NotAllowed, "anonymous accounts have no nodes");
        return IqReply::Error(error);
    }
    IqReply::Perform(IqEffect::PubSub)
}

/// The continuation of another feature that gets the nodes.
pub(crate) type ViewContinuation =
    Box<dyn FnOnce(&mut StoreRequests, Result<NodesView, StanzaError>, &mut Outbox)>;

/// The continuations of other features' requests to [`PubSub`], by their numbers. Each is called once.
#[derive(Default)]
pub(super) struct FeatureContinuations {
    last: u64,
    writes: HashMap<FeatureRequest, WriteContinuation>,
    views: HashMap<FeatureRequest, ViewContinuation>,
}

impl FeatureContinuations {
    fn next(&mut self) -> FeatureRequest {
        self.last += 1;
        FeatureRequest(self.last)
    }

    /// A request whose continuation gets the outcome of a write.
    fn insert_write(&mut self, then: WriteContinuation) -> FeatureRequest {
        let request = self.next();
        self.writes.insert(request, then);
        request
    }

    /// A request whose continuation gets nodes.
    pub(super) fn insert_view(&mut self, then: ViewContinuation) -> FeatureRequest {
        let request = self.next();
        self.views.insert(request, then);
        request
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.writes.len() + self.views.len()
    }
}

impl Host {
    /// Passes an event to [`PubSub`] and performs its effects. Every way into the machine is here or in
    /// `perform_pubsub`.
    pub(crate) fn tell_pubsub(&mut self, now: Instant, event: PubSubEvent<'_>, out: &mut Outbox) {
        // Reads for a request are those of its sender.
        let requester = match &event {
            PubSubEvent::Request { from, .. } => Some(self.store.reads.requester_of(from)),
            _ => self.store.reads.requester(),
        };
        let effects = self.with_pubsub(now, |pubsub, context| pubsub.handle(context, event));
        with_requester(self, requester, |host| host.perform_pubsub(now, effects, out));
    }

    /// Calls the machine with the parts of the host that it reads: it changes nothing but itself.
    fn with_pubsub<T>(
        &mut self,
        now: Instant,
        act: impl FnOnce(&mut PubSub, &mut PubSubContext<'_>) -> T,
    ) -> T {
        let entities = HostEntities { settings: &self.settings, accounts: &self.accounts, caps: &self.caps };
        let mut context = PubSubContext { now, entities: &entities, rng: &mut self.rng };
        act(&mut self.pubsub, &mut context)
    }

    /// Performs effects of [`PubSub`]; the store's replies go back into it.
    fn perform_pubsub(&mut self, now: Instant, effects: Vec<PubSubEffect>, out: &mut Outbox) {
        for effect in effects {
            match effect {
                PubSubEffect::Load(load, read) => {
                    self.store.load(load_of(load), out, move |host, now, result, out| {
                        let reply = reply_of(result);
                        let effects = host
                            .with_pubsub(now, |pubsub, context| pubsub.handle_loaded(context, read, reply));
                        host.perform_pubsub(now, effects, out);
                    });
                }
                PubSubEffect::Write(change, write) => {
                    self.store.change(change_of(change), out, move |host, now, result, out| {
                        let result = result.map_err(failure_of);
                        let effects = host.with_pubsub(now, |pubsub, context| {
                            pubsub.handle_written(context, *write, result)
                        });
                        host.perform_pubsub(now, effects, out);
                    });
                }
                PubSubEffect::Answer(iq, Ok(payload)) => outgoing::answer(&iq, Ok(payload), out),
                // A message for the service ends here, too.
                PubSubEffect::Answer(stanza, Err(error)) => self.refuse(&stanza, &error, out),
                PubSubEffect::Reply(asked, result) => outgoing::answer(asked.iq(), result, out),
                // Ids are made here: the machine's effects are plain data without chance.
                PubSubEffect::Send(stanza) => outgoing::send(with_id(stanza, token(&mut self.rng)), out),
                PubSubEffect::Notify(notification) => send_notification(self, now, notification, out),
                PubSubEffect::Published { owner, node, payload } => {
                    // XEP-0398: an avatar that was published as an item goes into the vCard too.
                    let effects = self.avatars.handle_publication(&owner, &node, &payload);
                    crate::vcard::perform(self, now, effects, out);
                }
                PubSubEffect::MirrorBookmarks { asked, node, payload, is_new, answer } => {
                    let change = (payload.as_ref(), is_new);
                    mirror_bookmarks(&mut self.store, (asked, answer), &node, change, out);
                }
                PubSubEffect::LoadAccount { user, client, ver } => {
                    // An account that is not in memory has no client here that could be notified.
                    if self.accounts.users.contains_key(&user) {
                        self.with_account_data(now, &user.clone(), out, move |host, now, out| {
                            let event = PubSubEvent::ClientSeen { user: &user, client: &client, ver: &ver };
                            host.tell_pubsub(now, event, out);
                        });
                    }
                }
                // Continuations of other features, which may use the whole host.
                PubSubEffect::Done(request, result) => {
                    if let Some(then) = self.feature_continuations.writes.remove(&request) {
                        then(self, now, result, out);
                    }
                }
                PubSubEffect::View(request, result) => {
                    if let Some(then) = self.feature_continuations.views.remove(&request) {
                        then(&mut self.store, result, out);
                    }
                }
            }
        }
    }

    /// Publishes something for an account, by another feature of it, such as an avatar from a vCard. `then`
    /// is called once, with the outcome on disk.
    pub(crate) fn publish_for(
        &mut self,
        now: Instant,
        owner: &Bare,
        publication: Publication,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<(), StanzaError>, &mut Outbox) + 'static,
    ) {
        let then = self.feature_continuations.insert_write(Box::new(then));
        self.tell_pubsub(now, PubSubEvent::Publish { owner, publication, then }, out);
    }

    /// Retracts items of an account, by another feature of it; ids of no item are passed over. `then` is called once, with the
    /// outcome on disk.
    pub(crate) fn retract_for(
        &mut self,
        now: Instant,
        owner: &Bare,
        (node, ids): (&'static str, Vec<Box<str>>),
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<(), StanzaError>, &mut Outbox) + 'static,
    ) {
        let then = self.feature_continuations.insert_write(Box::new(then));
        self.tell_pubsub(now, PubSubEvent::Retract { owner, node, ids, then }, out);
    }
}

/// True for a request that goes to [`PubSub`].
pub(super) fn is_request(iq: &Element) -> bool {
    iq.first()
        .is_some_and(|payload| payload.is("pubsub", ns::PUBSUB) || payload.is("pubsub", ns::PUBSUB_OWNER))
}

/// The answer to a request for an account that does not exist.
///
/// # Errors
/// The error for the requester.
pub(super) fn answer_without_account(
    host: &mut Host,
    now: Instant,
    iq: &Element,
    ends: (&Jid, &Jid),
) -> Result<Option<Element>, StanzaError> {
    host.with_pubsub(now, |pubsub, context| pubsub.answer_without_account(context, iq, ends))
}

/// Writes the other form of bookmarks that were published, then answers the request: the client may read either form next.
fn mirror_bookmarks(
    store: &mut StoreRequests,
    (asked, answer): (Rc<PendingRequest>, Option<Element>),
    node: &str,
    change: (Option<&Element>, bool),
    out: &mut Outbox,
) {
    let owner = asked.owner().clone();
    // A copy that cannot be written now follows with the next change: the item itself is on disk.
    let done = move |out: &mut Outbox| outgoing::answer(asked.iq(), Ok(answer), out);
    mirror_publication(store, &owner, node, change, out, done).unwrap_or_else(|done| done(out));
}

/// A read of nodes as a read of the store.
fn load_of(load: NodeLoad) -> Load {
    match load {
        NodeLoad::Nodes { owner, after } => Load::Nodes { owner, after },
        NodeLoad::Items { owner, node, query } => Load::Items { owner, node, query },
    }
}

/// The reason why the store has not written, as [`PubSub`] reads it.
fn failure_of(failure: StoreFailure) -> WriteFailure {
    WriteFailure { is_absent: failure == StoreFailure::NotFound, error: not_written(failure) }
}

/// A change of nodes as a change of the store.
pub(super) fn change_of(change: NodeChange) -> Change {
    match change {
        NodeChange::Node { owner, node, config } => Change::Node { owner, node, config },
        NodeChange::Purge { owner, node } => Change::Purge { owner, node },
        NodeChange::Item { owner, node, id, item, at, keep } => {
            Change::Item { owner, node, id, item, at, keep }
        }
    }
}

/// The store's answer as [`PubSub`] reads it. An unreadable node is an error, and never an empty node.
fn reply_of(result: Result<StoreReply, StoreFailure>) -> Result<NodeReply, StanzaError> {
    match result {
        Ok(StoreReply::Items(page)) => Ok(NodeReply::Items(page)),
        Ok(StoreReply::Rows(page)) => Ok(NodeReply::Nodes(NodePage {
            rows: page.rows.into_iter().map(|(name, _, config)| (name, config)).collect(),
            is_complete: page.is_complete,
        })),
        Ok(_) => Err(Condition::InternalServerError.into()),
        Err(error) => Err(not_read(error)),
    }
}

/// The nodes of a `<user>` of an export, and the kinds of things that are not imported, in the plural.
pub(super) fn imported(owner: &Bare, user: &Element, at: Instant) -> (Vec<Change>, Vec<&'static str>) {
    let (changes, left_out) = pubsub::imported(owner, user, at);
    (changes.into_iter().map(change_of).collect(), left_out)
}

/// Reads the newest item of a node. A node that does not exist has none.
pub(super) fn load_newest(
    store: &mut StoreRequests,
    owner: &Bare,
    node: &str,
    out: &mut Outbox,
    then: impl FnOnce(&mut Host, Instant, Result<Option<Element>, StanzaError>, &mut Outbox) + 'static,
) {
    let query = Box::new(ItemQuery::newest());
    let load = Load::Items { owner: owner.clone(), node: node.into(), query };
    store.load(load, out, move |host, now, result, out| {
        let newest = items_of(result).map(|page| page.items.into_iter().next().map(|(_, _, item)| item));
        then(host, now, newest, out);
    });
}

/// An unreadable node is an error, and never an empty node.
pub(super) fn items_of(result: Result<StoreReply, StoreFailure>) -> Result<ItemPage, StanzaError> {
    match result {
        Ok(StoreReply::Items(page)) => Ok(page),
        Ok(_) => Err(Condition::InternalServerError.into()),
        Err(error) => Err(not_read(error)),
    }
}

/// All items of a node that is small by nature, the oldest first: a part of them is an error.
pub(super) fn whole(result: Result<StoreReply, StoreFailure>) -> Result<Vec<ItemRow>, StanzaError> {
    // A cut page would be taken for all, and written back without the rest.
    let page = items_of(result)?;
    if page.is_cut {
        let text = "the node has more than can be read at once: take items back";
        return Err(StanzaError::new(Condition::ResourceConstraint, text));
    }
    Ok(page.items.into_iter().rev().collect())
}

/// The error of a request for which the store could not be read.
fn not_read(error: StoreFailure) -> StanzaError {
    match error {
        StoreFailure::Unavailable => {
            StanzaError::new(Condition::ResourceConstraint, "cannot be read now: try again later")
        }
        StoreFailure::Beyond => {
            StanzaError::new(Condition::ResourceConstraint, "more than can be read at once")
        }
        StoreFailure::NotFound => Condition::InternalServerError.into(),
    }
}

/// Sends a notification to each of its audience, as the roster and the subscriptions are at that moment.
/// Without the owner's roster it waits for it, so an audience is never computed from a part of the data.
fn send_notification(host: &mut Host, now: Instant, notification: Notification, out: &mut Outbox) {
    let owner = notification.owner().clone();
    let send = move |host: &mut Host, now, out: &mut Outbox| {
        let audience = host.with_pubsub(now, |pubsub, context| pubsub.audience(context, &notification));
        for to in audience {
            let stanza = with_id(notification.message(&to), token(&mut host.rng));
            host.route(stanza, out);
        }
    };
    // The audience is in the owner's roster, which may not be in memory now. A service has none.
    if owner.local().is_none() {
        send(host, now, out);
    } else {
        host.with_account_data(now, &owner, out, send);
    }
}

/// XEP-0060 §7.1.2: a notification has an id.
fn with_id(stanza: Element, id: String) -> Element {
    if stanza.attr("id").is_some() { stanza } else { stanza.with("id", id) }
}
