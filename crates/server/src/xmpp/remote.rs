//! Other servers and components of a farm whose nodes share a database (`docs/decisions/0101-other-servers-and-components-of-a-farm.md`).
//!
//! The owner of the bucket of another server's domain has the stream to it. A stanza for that server goes from the shard of its sender
//! ([`RemoteQueues`](chat_owners::RemoteQueues)) to this owner (`XmppShardMessage::Outbound`), which gives it to its streams and reports
//! the outcome (`OutboundOutcome`). A component is known at all shards of all nodes and gets its stanzas from each of them
//! (`ToComponent`).

use std::time::Duration;

use chat_owners::{RemoteEffect, ShardQueues};
use cluster::{Bucket, ShardAddress};
use farm::view::FarmView;
use router::BucketSet;
use stdx::Instant;
use xmpp::s2s::{OutboundStanza, Outcome, Receipt, ShardMessage};
use xmpp::{ConnectionId, Element, stanza};
use xmpp_io::servers;

use super::stanza_router::AddressedMessage;
use super::{Xmpp, XmppEffect, privileged};
use crate::message::XmppShardMessage;

/// The pause between two announcements of a component to the other nodes: one that a cut link has lost is made good by the next.
const COMPONENT_NEWS: Duration = Duration::from_secs(20);

/// Sends the outcome of a decision about a stanza's way: what is for other servers by the farm's queues.
pub(super) fn send(xmpp: &mut Xmpp, now: Instant, addressed: AddressedMessage, outbox: &mut Vec<XmppEffect>) {
    let AddressedMessage { to, message } = addressed;
    let XmppShardMessage::Servers(message) = message else { return xmpp.send(now, to, message, outbox) };
    if xmpp.queues.shared().is_none() {
        return xmpp.send(now, to, XmppShardMessage::Servers(message), outbox);
    }
    match *message {
        ShardMessage::Outbound { element } => {
            with_queues(xmpp, now, outbox, |queues, owner, out| queues.push(now, element, owner, out));
        }
        // A stream that takes stanzas back is used if the owner is of this node.
        ShardMessage::Offer { ref pair, .. } | ShardMessage::Withdraw { ref pair, .. } => {
            let owner = owner_of(xmpp, Bucket::of(&pair.remote));
            if let Some(owner) = owner.filter(|owner| xmpp.queues.map().has(*owner)) {
                xmpp.send(now, owner, XmppShardMessage::Servers(message), outbox);
            }
        }
        message => xmpp.send(now, to, XmppShardMessage::Servers(Box::new(message)), outbox),
    }
}

/// Handles a message about components and other servers.
pub(super) fn handle_message(
    xmpp: &mut Xmpp,
    now: Instant,
    message: XmppShardMessage,
    outbox: &mut Vec<XmppEffect>,
) {
    match message {
        XmppShardMessage::ToComponent { edge, element } => {
            handle_to_component(xmpp, now, edge, element, outbox);
        }
        XmppShardMessage::Outbound { receipt, element } => {
            handle_outbound(xmpp, now, receipt, element, outbox);
        }
        XmppShardMessage::OutboundOutcome { receipt, outcome } => {
            handle_outcome(xmpp, now, receipt, outcome, outbox);
        }
        message => privileged::handle_component_message(xmpp, now, message, outbox),
    }
}

/// Every shard of the node, this one included, and of the other nodes with which it shares a database.
pub(super) fn shards_of_farm(queues: &ShardQueues) -> Vec<ShardAddress> {
    queues.map().all().chain(shards_of_others(queues)).collect()
}

/// The shard that owns a bucket, if it can be reached.
fn owner_of(xmpp: &Xmpp, bucket: Bucket) -> Option<ShardAddress> {
    let view = xmpp.queues.shared()?.view.as_ref()?;
    view.owner(bucket).filter(|owner| view.has(*owner))
}

/// Lets the queues handle an input, and performs its effects.
fn with_queues(
    xmpp: &mut Xmpp,
    now: Instant,
    outbox: &mut Vec<XmppEffect>,
    act: impl FnOnce(
        &mut chat_owners::RemoteQueues,
        &dyn Fn(Bucket) -> Option<ShardAddress>,
        &mut Vec<RemoteEffect>,
    ),
) {
    let mut effects = Vec::new();
    let view = xmpp.queues.shared().and_then(|shared| shared.view.clone());
    let owner = |bucket| {
        let view = view.as_deref()?;
        view.owner(bucket).filter(|owner| view.has(*owner))
    };
    act(&mut xmpp.remote, &owner, &mut effects);
    for effect in effects {
        match effect {
            RemoteEffect::Send { to, message } if to == xmpp.queues.own() => {
                xmpp.handle_message(now, message, outbox);
            }
            RemoteEffect::Send { to, message } if xmpp.queues.map().has(to) => xmpp.queues.push(to, message),
            RemoteEffect::Send { to, message } => xmpp.queues.push_for_node(to, message),
            RemoteEffect::Answer(element) => {
                let answer = xmpp.router.route_answer(xmpp.host.get().settings(), *element);
                xmpp.send_addressed(now, answer, outbox);
            }
            RemoteEffect::Report(element) => xmpp.route(now, element, outbox),
        }
    }
}

/// A stanza for another server, at the owner of its domain.
fn handle_outbound(
    xmpp: &mut Xmpp,
    now: Instant,
    receipt: Receipt,
    element: Box<Element>,
    outbox: &mut Vec<XmppEffect>,
) {
    let serves = xmpp.queues.shared().is_some_and(|shared| shared.serves(receipt.bucket));
    if !xmpp.runs.take(&receipt, serves) {
        return report(xmpp, now, receipt, Outcome::Untaken, outbox);
    }
    match &mut xmpp.router.servers {
        Some(servers) => servers.handle_outbound(OutboundStanza { element, receipt: Some(receipt) }),
        None => {
            let settings = xmpp.host.get().settings();
            let answer =
                servers::refuse(&element).and_then(|answer| xmpp.router.route_answer(settings, answer));
            xmpp.send_addressed(now, answer, outbox);
            report(xmpp, now, receipt, Outcome::Ended, outbox);
        }
    }
}

/// Tells the origin of a stanza what became of it.
pub(super) fn report(
    xmpp: &mut Xmpp,
    now: Instant,
    receipt: Receipt,
    outcome: Outcome,
    outbox: &mut Vec<XmppEffect>,
) {
    if outcome == Outcome::Untaken {
        xmpp.runs.refuse(&receipt);
    }
    xmpp.send(now, receipt.origin, XmppShardMessage::OutboundOutcome { receipt, outcome }, outbox);
}

/// Handles the outcome of a stanza of this shard.
pub(super) fn handle_outcome(
    xmpp: &mut Xmpp,
    now: Instant,
    receipt: Receipt,
    outcome: Outcome,
    outbox: &mut Vec<XmppEffect>,
) {
    with_queues(xmpp, now, outbox, |queues, owner, out| {
        queues.handle_outcome(now, &receipt, outcome, owner, out);
    });
}

/// The farm is now so; `moved` has the buckets with another owner, `new_shards` those that were not there before.
pub(super) fn handle_view(
    xmpp: &mut Xmpp,
    now: Instant,
    view: &FarmView,
    (moved, new_shards): (&BucketSet, &[ShardAddress]),
    outbox: &mut Vec<XmppEffect>,
) {
    for component in xmpp.router.components.retain_shards(|shard| view.has(shard)) {
        // It may have connected anew before the death of its first node was noticed, and has not had the presence that there is.
        xmpp.tell_host(now, outbox, |host, _| host.components().handle_attached(now, &component));
    }
    privileged::forget_unconnected(&mut xmpp.host, &xmpp.router.components);
    xmpp.runs.retain_shards(|shard| view.has(shard));
    with_queues(xmpp, now, outbox, |queues, owner, out| {
        queues.handle_view(now, |shard| view.has(shard), owner, out);
    });
    if let Some(servers) = xmpp.router.servers.as_mut().filter(|_| !moved.is_empty()) {
        servers.offer_again(|domain| moved.contains(Bucket::of(domain)));
    }
    for AddressedMessage { to, message } in component_news(xmpp, new_shards) {
        xmpp.send(now, to, message, outbox);
    }
}

/// Does what is due.
pub(super) fn expire(xmpp: &mut Xmpp, now: Instant, outbox: &mut Vec<XmppEffect>) {
    if xmpp.remote.deadline().is_some_and(|deadline| deadline <= now) {
        with_queues(xmpp, now, outbox, |queues, owner, out| queues.expire(now, owner, out));
    }
    if xmpp.component_news.is_none_or(|news| news <= now) {
        xmpp.component_news = Some(now + COMPONENT_NEWS);
        let shards: Vec<ShardAddress> = shards_of_others(&xmpp.queues).collect();
        for AddressedMessage { to, message } in component_news(xmpp, &shards) {
            xmpp.send(now, to, message, outbox);
        }
    }
}

/// The shards of the farm's other nodes.
fn shards_of_others(queues: &ShardQueues) -> impl Iterator<Item = ShardAddress> + '_ {
    let view = queues.shared().and_then(|shared| shared.view.as_ref());
    let own = queues.own().life;
    view.into_iter().flat_map(|view| view.shards()).filter(move |shard| shard.life != own)
}

/// The announcements of the components that are connected here, for these shards of other nodes.
fn component_news(xmpp: &Xmpp, shards: &[ShardAddress]) -> Vec<AddressedMessage> {
    let own = xmpp.queues.own();
    let mut news = Vec::new();
    for (connection, domain) in xmpp.router.components.attached() {
        let edge = ConnectionId { shard: own, connection };
        for shard in shards.iter().filter(|shard| shard.life != own.life) {
            let message = XmppShardMessage::AttachOutcome { edge, domain: domain.clone() };
            news.push(AddressedMessage { to: (*shard).into(), message });
        }
    }
    news
}

/// A stanza for a component that is connected to this shard. Its way ends here, whatever comes of it.
fn handle_to_component(
    xmpp: &mut Xmpp,
    now: Instant,
    edge: ConnectionId,
    mut element: Box<Element>,
    outbox: &mut Vec<XmppEffect>,
) {
    let report = chat::take_report(&mut element);
    if !xmpp.router.components.has(edge.connection)
        && let Ok(Some(to)) = stanza::to(&element)
    {
        // The sender's shard has not been told that it is gone.
        for shard in shards_of_farm(&xmpp.queues) {
            xmpp.send(now, shard, XmppShardMessage::Detached { edge, domain: to.domain().into() }, outbox);
        }
    }
    let message = XmppShardMessage::ToComponent { edge, element };
    let answer = xmpp.router.handle_component_message(xmpp.host.get().settings(), message);
    xmpp.send_addressed(now, answer, outbox);
    if let Some(report) = report {
        xmpp.route(now, Box::new(report), outbox);
    }
}

/// A stanza for a component that another node has not received: its sender gets an error.
pub(super) fn handle_unsent_to_component(
    xmpp: &mut Xmpp,
    now: Instant,
    element: &Element,
    outbox: &mut Vec<XmppEffect>,
) {
    if let Some(report) = chat::report_of_refused(element) {
        xmpp.route(now, Box::new(report), outbox);
    }
    let answer = xmpp.router.refuse_unconnected(xmpp.host.get().settings(), element);
    xmpp.send_addressed(now, answer, outbox);
}

/// True if the stanza is for a component or another server.
pub(super) fn is_foreign(settings: &chat::HostSettings, element: &Element) -> bool {
    let to = stanza::to(element).ok().flatten();
    to.is_some_and(|to| !settings.is_ours(to.domain()))
}

/// The report that a message for a component or another server is handled, if its way ends with `addressed`: it was refused, or has no way.
pub(super) fn report_of_ended(
    report: Option<Element>,
    addressed: Option<&AddressedMessage>,
) -> Option<Element> {
    let message = addressed.map(|addressed| &addressed.message);
    let goes_on =
        matches!(message, Some(XmppShardMessage::ToComponent { .. } | XmppShardMessage::Servers(_)));
    report.filter(|_| !goes_on)
}
