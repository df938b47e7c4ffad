//! Real-time block lists of a process: its first shard follows them ([`RtblClient`]), and the hosts of all its shards use what was read.
//!
//! A request is from `DOMAIN/belfry-LIFE.SHARD-ID`, as operators' questions are, so its answer finds this shard. Notifications come to the
//! subscriber, the first domain of the server. The shard that owns the domain gives a copy of each to the first shards of all processes
//! of the farm ([`copies_of_notification`]), as a `Reply` with the token [`EVENT`]: a node that does not follow lists ignores it.
//!
//! The token proves nothing. A notification counts for the service that its `from` names, which the stream that it came by has proved;
//! an answer needs the unguessable id of its request, too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chat::rtbl::{self, RtblClient, RtblEffect, RtblLists, RtblSource};
use chat_owners::ShardQueues;
use cluster::ShardAddress;
use stdx::Instant;
use xmpp::{Element, stanza};

use super::host_driver::HostDriver;
use super::stanza_router::AddressedMessage;
use super::{Xmpp, shard_requests};
use crate::message::XmppShardMessage;

/// The token of notifications on their way to the shards that follow lists.
const EVENT: &str = "rtbl-event";

/// The content of the lists, for all shards of a process.
#[derive(Debug, Default)]
pub(crate) struct SharedRtblLists {
    /// Counts the contents, so that a shard looks at the lock only when there is a new one.
    version: AtomicU64,
    lists: Mutex<Arc<RtblLists>>,
}

impl SharedRtblLists {
    fn publish(&self, lists: Arc<RtblLists>) {
        *self.lists.lock().unwrap_or_else(PoisonError::into_inner) = lists;
        self.version.fetch_add(1, Ordering::Release);
    }

    /// The content, if it is another one than that of this version.
    fn after(&self, seen: &mut u64) -> Option<Arc<RtblLists>> {
        let version = self.version.load(Ordering::Acquire);
        if version == *seen {
            return None;
        }
        *seen = version;
        Some(Arc::clone(&self.lists.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// The lists as one shard uses them.
pub(super) struct ShardRtbl {
    shared: Arc<SharedRtblLists>,
    /// The version of the content that the host has.
    seen: u64,
    /// Entries of that content.
    entries: usize,
    /// Only of the first shard of a process that follows lists.
    client: Option<RtblClient>,
}

impl ShardRtbl {
    pub(super) fn new(shared: Arc<SharedRtblLists>, sources: &[RtblSource], own: ShardAddress) -> ShardRtbl {
        // Without random ids anyone could answer in the name of a service.
        let mut seed = [0; 32];
        let follows = own.shard == 0 && !sources.is_empty() && getrandom::fill(&mut seed).is_ok();
        // All rounds are due at once: at the first turn.
        let client = follows.then(|| RtblClient::new(sources, Instant::default(), seed));
        ShardRtbl { shared, seen: 0, entries: 0, client }
    }

    /// The time at which to call `expire`. Without a domain there is no address to ask from.
    pub(super) fn deadline(&self, settings: &chat::HostSettings) -> Option<Instant> {
        settings.domains.first()?;
        self.client.as_ref().and_then(RtblClient::deadline)
    }

    /// Gives the host the content that another shard has published.
    pub(super) fn update_host(&mut self, host: &mut HostDriver) {
        if let Some(lists) = self.shared.after(&mut self.seen) {
            self.entries = lists.entries();
            host.get_mut().rtbl.set_lists(lists);
        }
    }

    /// Handles the timers that are due at `now`. Returns requests for the services of lists.
    pub(super) fn expire(&mut self, now: Instant, own: ShardAddress, host: &mut HostDriver) -> Vec<Element> {
        if self.deadline(host.get().settings()).is_none_or(|deadline| deadline > now) {
            return Vec::new();
        }
        let Some(domain) = host.get().settings().domains.first().cloned() else { return Vec::new() };
        let mut effects = Vec::new();
        if let Some(client) = &mut self.client {
            client.expire(now, &domain, &mut effects);
        }
        self.perform(effects, own, host)
    }

    /// Handles an answer to this shard, or a notification of a list. Returns requests for the services of lists.
    pub(super) fn handle_reply(
        &mut self,
        now: Instant,
        own: ShardAddress,
        (token, reply): (&str, &Element),
        host: &mut HostDriver,
    ) -> Vec<Element> {
        let mut effects = Vec::new();
        match &mut self.client {
            Some(client) if reply.name() == "iq" => client.handle_answer(now, reply, &mut effects),
            Some(client) if token == EVENT => client.handle_event(now, reply),
            _ => {}
        }
        self.perform(effects, own, host)
    }

    /// Publishes and logs what the client has read. Returns its requests, which the caller routes.
    fn perform(
        &mut self,
        effects: Vec<RtblEffect>,
        own: ShardAddress,
        host: &mut HostDriver,
    ) -> Vec<Element> {
        let mut requests = Vec::new();
        for effect in effects {
            match effect {
                RtblEffect::Send(mut iq) => {
                    let Some(domain) = host.get().settings().domains.first() else { continue };
                    let id = iq.attr("id").unwrap_or_default();
                    let from = shard_requests::address_for_answers(domain, own, id);
                    iq.set("from", from);
                    requests.push(*iq);
                }
                RtblEffect::Publish(lists) => {
                    self.shared.publish(lists);
                    self.update_host(host);
                }
                RtblEffect::Loaded { source, entries } => {
                    let list = name_of(&source);
                    tracing::info!(list, entries, "this block list is followed");
                }
                RtblEffect::Failed { source, failure, entries } => {
                    let list = name_of(&source);
                    tracing::warn!(
                        list,
                        reason = %failure,
                        entries,
                        "this block list is not up to date: its last content stays in use, and its service is asked again; \
                         see [[xmpp.block_lists]]"
                    );
                }
                RtblEffect::Full { source } => {
                    let list = name_of(&source);
                    let entries = chat::limits::RTBL_ENTRIES;
                    tracing::warn!(
                        list,
                        entries,
                        "this block list is longer than that: the rest has no effect"
                    );
                }
            }
        }
        requests
    }
}

/// Figures of a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RtblFigures {
    /// Stanzas that were refused because a list has their sender.
    pub refused: u64,
    /// Entries of all lists; only the first shard reports them.
    pub entries: u64,
    /// Lists that cannot be read now; only the first shard reports them.
    pub failing: u64,
}

/// The figures of now.
pub(super) fn figures(xmpp: &Xmpp) -> RtblFigures {
    let client = xmpp.rtbl.client.as_ref();
    RtblFigures {
        refused: xmpp.host.get().rtbl.refused(),
        entries: client.map_or(0, |_| xmpp.rtbl.entries as u64),
        failing: client.map_or(0, |client| client.failing() as u64),
    }
}

/// The copies of a notification of a list for all shards that follow it. The host of the domain it came to ends its way.
pub(super) fn copies_of_notification(
    message: &Element,
    sources: &[RtblSource],
    queues: &ShardQueues,
) -> Vec<AddressedMessage> {
    // The cheap and rare first: every stanza comes by here.
    if sources.is_empty()
        || message.name() != "message"
        || message.get("event", xmpp::ns::PUBSUB_EVENT).is_none()
    {
        return Vec::new();
    }
    let (Ok(Some(from)), Ok(Some(to))) = (stanza::from(message), stanza::to(message)) else {
        return Vec::new();
    };
    if to.local().is_some() || !rtbl::is_from_source(sources, &from, message) {
        return Vec::new();
    }
    let own = ShardAddress::new(queues.own().life, 0);
    let view = queues.shared().and_then(|shared| shared.view.clone());
    let is_other = |shard: &ShardAddress| shard.shard == 0 && shard.life != own.life;
    let others = view.iter().flat_map(|view| view.shards()).filter(is_other);
    let copy = |shard: ShardAddress| {
        let answer = Box::new(message.clone());
        AddressedMessage {
            to: shard.into(),
            message: XmppShardMessage::Reply { token: EVENT.into(), answer },
        }
    };
    others.chain([own]).map(copy).collect()
}

/// The service and the node, as the address of a node is written (XEP-0060 §12.22).
fn name_of(source: &RtblSource) -> String {
    format!("xmpp:{}?;node={}", source.service.as_str(), source.node)
}
