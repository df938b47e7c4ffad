//! A shard in a farm: follows the farm's view, and performs what other nodes send. Messages to them go by `node_links`; SIP messages
//! on their way between nodes are the part of `sip_relay`.

mod moved_slots;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::voice::RoomHomes;
use cluster::ShardAddress;
use cluster::link::{Message, SendError, SendFailure};
use cluster::relay::Passage;
use farm::agent::FarmAgent;
use farm::links::{LinkCounters, LinkEvent, LinkSettings, Links};
use farm::view::FarmView;
use net::clock::Clock;
use router::Answer;
use sip::endpoint::Endpoint;
use stdx::Instant;

use super::Shard;
use super::buckets::{self, BucketAdapter};
use super::chat_farm;
use super::edge_accounts::AccountQuestions;
use super::node_links::node_links;
use super::sip_relay::sip_relay;
use crate::farm::traffic::LinkTraffic;
use crate::farm::{FarmBoard, ShardFarm};
use crate::limits;
use crate::message::ShardMessage;
use shard_message::wire;
use shard_message::wire::Decoded;
use shard_message::wire::Probe;

use moved_slots::MovedSlots;

/// A shard's part in the farm.
pub(super) struct FarmAdapter {
    /// Sends reports to the thread of the agent, and knows if the node has the authority of an owner.
    pub(super) agent: FarmAgent,
    /// The farm as this shard knows it; none until the node has read a map.
    pub(super) view: Option<Arc<FarmView>>,
    /// Only where the node shares a database, or asks those that do.
    pub(super) buckets: Option<Box<BucketAdapter>>,
    /// The edges without a database that ask this shard for accounts.
    pub(super) edges: AccountQuestions,
    /// The links to other nodes; only the first shard has them.
    pub(super) links: Option<Links>,
    traffic: LinkTraffic,
    /// Gets the figures of the links, and messages of other nodes for operators.
    board: Arc<FarmBoard>,
    last_probe: Instant,
    pub(super) moved: MovedSlots,
    /// The buffer of `read_links`.
    events: Vec<LinkEvent>,
}

impl FarmAdapter {
    /// On the shard's thread.
    ///
    /// # Errors
    /// When the listener of links cannot be used.
    pub(super) fn new(edge: ShardAddress, parts: ShardFarm, clock: Clock) -> std::io::Result<FarmAdapter> {
        let ShardFarm { agent, board, view, links, shares_database, asks_owners } = parts;
        let has_buckets = shares_database || asks_owners;
        let mut adapter = FarmAdapter {
            agent,
            view,
            buckets: has_buckets.then(|| Box::new(BucketAdapter::new(clock.now()))),
            edges: AccountQuestions::default(),
            links: None,
            traffic: LinkTraffic::default(),
            board,
            last_probe: Instant::default(),
            moved: MovedSlots::default(),
            events: Vec::new(),
        };
        if let Some(parts) = links {
            let mut links = Links::new(LinkSettings {
                farm: parts.farm,
                life: edge.life,
                build: env!("CARGO_PKG_VERSION").into(),
                wire: wire::WIRE,
                secret: parts.secret,
                encryption: parts.encryption,
                clock: Rc::new(move || clock.now()),
                random: Rc::new(random),
            });
            links.listen(parts.listener)?;
            adapter.links = Some(links);
        }
        if let (Some(links), Some(view)) = (&mut adapter.links, &adapter.view) {
            links.set_view(view);
        }
        Ok(adapter)
    }

    pub(super) fn view(&self) -> Option<&FarmView> {
        self.view.as_deref()
    }

    /// True while the node has the authority of an owner.
    pub(super) fn may_act(&self, now: Instant) -> bool {
        self.agent.may_act(now)
    }

    /// The time at which `buckets::expire` is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.buckets.as_ref()?.deadline()
    }

    /// The figures of the links; zero at shards without them.
    pub(super) fn counters(&self) -> LinkCounters {
        self.links.as_ref().map(Links::counters).unwrap_or_default()
    }

    /// Closes the links: nothing is read and acknowledged any more that no turn of the shard would handle.
    pub(super) fn close_links(&mut self) {
        self.links = None;
    }

    /// The node leaves the farm next.
    pub(super) fn leave(&self) {
        self.links.iter().for_each(Links::leave);
    }

    pub(super) fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()> {
        self.links.as_ref().map_or(Poll::Pending, |links| links.poll_ready(context))
    }
}

/// A nonce of a handshake. Without randomness the zeros that remain make a handshake that a listener could repeat, and
/// still none without the secret.
fn random() -> [u8; 32] {
    let mut bytes = [0; 32];
    let _ = getrandom::fill(&mut bytes);
    bytes
}

impl FarmAdapter {
    /// True if messages for this address go to another node.
    fn leads_to(&self, own: ShardAddress, address: ShardAddress) -> bool {
        address.life != own.life && self.view().is_some_and(|view| view.has(address))
    }

    /// True if the packet's call slot has moved to or from this shard a moment ago, and the other worker lives.
    pub(super) fn may_be_at_two_nodes(&self, now: Instant, packet: &[u8]) -> bool {
        let other = self.moved.other_worker(now, packet);
        other.is_some_and(|other| self.view().is_some_and(|view| view.has(other)))
    }

    /// Returns the view before.
    fn set_view(&mut self, view: Arc<FarmView>) -> Option<Arc<FarmView>> {
        if let Some(links) = &mut self.links {
            links.set_view(&view);
        }
        self.view.replace(view)
    }

    /// Sends by the links, which only the first shard has, and counts.
    pub(super) fn send(
        &mut self,
        now: Instant,
        to: cluster::Life,
        message: Message,
    ) -> Result<(), SendError> {
        let Some(links) = &self.links else {
            return Err(SendError { reason: SendFailure::NotConnected, message });
        };
        let (bytes, class) = (message.wire_bytes(), wire::class_of(&message));
        let has_packet = wire::has_packet(&message);
        let sent = links.send(now, to, class, message);
        match &sent {
            Ok(()) => {
                self.traffic.count_sent(class, bytes);
                self.traffic.peer_mut(to).relayed_to += u64::from(has_packet);
            }
            Err(_) => self.traffic.count_refused(class),
        }
        sent
    }

    /// Counts what the links have brought. Probes are answered here, and messages for operators go to the board; the rest is returned for
    /// the shard.
    fn handle_event(&mut self, now: Instant, own: cluster::Life, event: LinkEvent) -> Option<LinkEvent> {
        match &event {
            LinkEvent::Received { from, class, message } => {
                self.traffic.count_received(*class, message);
                self.traffic.peer_mut(*from).relayed_from += u64::from(wire::has_packet(message));
                match Probe::read(message) {
                    Some(Probe::Asked { sent_at, .. }) => {
                        // A probe without an answer is repeated.
                        let _ = self.send(now, *from, Probe::Answered { sent_at, from: own }.message());
                        return None;
                    }
                    Some(Probe::Answered { sent_at, .. }) => {
                        let delay = now.since(Instant::from_micros(sent_at));
                        self.traffic.peer_mut(*from).delay = Some(delay);
                        return None;
                    }
                    None => {}
                }
                if self.board.take(*from, message) {
                    return None;
                }
            }
            LinkEvent::Returned { class, .. } => self.traffic.count_refused(*class),
            LinkEvent::Lost { .. } | LinkEvent::Fault { .. } => {}
        }
        Some(event)
    }

    /// Puts up the figures of the links, and probes them when it is time. Called twice a second.
    pub(super) fn report(&mut self, now: Instant, own: cluster::Life) {
        let Some(links) = &self.links else { return };
        self.traffic.batches = links.counters().writes;
        let connected = links.connected();
        self.traffic.clear_delays(|life| !connected.contains(&life));
        if now.since(self.last_probe) >= limits::LINK_PROBE {
            self.last_probe = now;
            for life in connected {
                // A class that is full says enough about the delay.
                let _ = self.send(now, life, Probe::new(now, own).message());
            }
            self.flush(now);
        }
        if let Some(view) = &self.view {
            self.traffic.keep_peers(|life| view.peers.contains_key(&life));
        }
        self.board.set_traffic(self.traffic.clone());
    }

    pub(super) fn flush(&self, now: Instant) {
        if let Some(links) = &self.links {
            links.flush(now);
        }
    }
}

/// True if messages for this address can go to another node.
pub(super) fn is_at_other_node(shard: &Shard, address: ShardAddress) -> bool {
    shard.farm.as_ref().is_some_and(|farm| farm.leads_to(shard.parts.edge, address))
}

/// The farm is now so.
pub(super) fn set_view(shard: &mut Shard, now: Instant, view: &Arc<FarmView>) {
    set_lives(&mut shard.parts.endpoint, view);
    let mut has_this_map = false;
    if let Some(farm) = &mut shard.farm {
        shard.pace.set_view(view, farm.links.is_some());
        farm.edges.keep(|edge| view.has(edge));
        let before = farm.set_view(Arc::clone(view));
        has_this_map = before.as_ref().is_some_and(|before| before.map.version() == view.map.version());
        farm.moved.handle_map(now, shard.parts.edge, (&**view, before.as_deref()), &mut shard.parts.endpoint);
        if !has_this_map {
            moved_slots::give_waiting_to_workers(shard, now, view);
            moved_slots::end_moved_calls(shard, now, view, before.as_deref());
        }
        buckets::handle_view(shard, now, before.as_deref());
        chat_farm::handle_view(shard, now, view);
    }
    // Homes are those of the map: nodes that come and go without another map change nothing.
    if !has_this_map {
        set_room_homes(shard, now, view);
    }
}

/// The calls of applications learn where the map has conferences and queues. Of nodes of the version before each has its own.
fn set_room_homes(shard: &mut Shard, now: Instant, view: &FarmView) {
    if shard.voice.is_none() {
        return;
    }
    let homes = if view.map.level() >= wire::ROOMS_SINCE {
        RoomHomes { homes: view.room_homes(), dead: view.map.dead().iter().copied().collect() }
    } else {
        RoomHomes::default()
    };
    shard.with_voice(now, |voice, world| ::voice::set_room_homes(voice, now, homes, world));
}

/// The farm as it is when the shard starts.
pub(super) fn begin(shard: &mut Shard, now: Instant) {
    let Some(farm) = &shard.farm else { return };
    match farm.view.clone() {
        Some(view) => {
            shard.pace.set_view(&view, farm.links.is_some());
            set_lives(&mut shard.parts.endpoint, &view);
            set_room_homes(shard, now, &view);
        }
        None => shard.parts.endpoint.set_dead_lives(&[]),
    }
}

/// The lives whose responses the endpoint may forward by their Vias.
fn set_lives(endpoint: &mut Endpoint, view: &FarmView) {
    endpoint.set_dead_lives(view.map.dead());
    endpoint.set_peer_lives(view.peers.keys().copied().filter(|life| *life != view.own));
}

/// Sends a message that another shard of this node has put into this one's inbox, because the links are here. One that cannot be sent goes
/// back to its shard as a failure.
pub(super) fn pass_to_node(shard: &mut Shard, now: Instant, life: cluster::Life, message: Message) {
    let to = ShardAddress::new(life, u16::from(message.shard));
    if let Err(SendError { message, reason }) = node_links(shard).send(now, to, message)
        && !chat_farm::handle_returned(shard, now, (life, reason == SendFailure::Dead), &message)
    {
        take_back_from_node(shard, now, life, &message, true);
    }
}

/// Handles what the links have brought. Returns the number of messages.
pub(super) fn read_links(shard: &mut Shard, now: Instant) -> usize {
    let Some(adapter) = &mut shard.farm else { return 0 };
    let Some(links) = &adapter.links else { return 0 };
    let mut events = std::mem::take(&mut adapter.events);
    links.take(&mut events);
    let count = shard.pace.note_links(&events);
    let own = shard.parts.edge.life;
    for event in events.drain(..) {
        let Some(event) = shard.farm.as_mut().and_then(|adapter| adapter.handle_event(now, own, event))
        else {
            continue;
        };
        match event {
            LinkEvent::Received { from, message, .. } => handle_from_node(shard, now, from, &message),
            LinkEvent::Returned { to, message, .. } => {
                // Messages of chat wait for a connection as long as the node lives, unless its link is a new one.
                let view = shard.farm.as_ref().and_then(|farm| farm.view.as_ref());
                let is_dead = !view.is_some_and(|view| view.peers.contains_key(&to));
                if !chat_farm::handle_returned(shard, now, (to, is_dead), &message) {
                    take_back_from_node(shard, now, to, &message, false);
                }
            }
            LinkEvent::Lost { life, is_refused } => sip_relay(shard).handle_link_lost(life, is_refused),
            LinkEvent::Fault { address, reason } => {
                tracing::warn!(%address, %reason, "a connection between nodes was closed");
            }
        }
    }
    if let Some(adapter) = &mut shard.farm {
        adapter.events = events;
    }
    count
}

/// Handles a message of another node for any shard of this one: its own are handled at once, those of other shards go to their inboxes.
fn handle_from_node(shard: &mut Shard, now: Instant, sender: cluster::Life, message: &Message) {
    let number = usize::from(message.shard);
    match wire::read(message) {
        // An answer goes to the node that asks, and to no third one.
        Ok(Decoded::Message(ShardMessage::Ask { from, .. }) | Decoded::LaterQuery { from, .. })
            if from.life != sender =>
        {
            tracing::warn!(%sender, %from, "a question of another node names a third one; it is passed over");
        }
        // So do the members of a room, and its home.
        Ok(Decoded::Message(ShardMessage::Room(room))) if room.from.life != sender => {
            tracing::warn!(%sender, from = %room.from, "a message of a conference names a third node; it is passed over");
        }
        // To the first shard: it has the links.
        Ok(Decoded::Message(ShardMessage::SharedResponse(shared))) => {
            node_links(shard).give_to_shards(&shared);
            shard.handle_message(now, ShardMessage::SharedResponse(shared));
        }
        Ok(Decoded::Relayed { passage, message }) if passage.to() == shard.parts.edge.life => {
            handle_from_node(shard, now, sender, &message);
        }
        Ok(Decoded::Relayed { passage, message }) => {
            sip_relay(shard).pass_on_or_end(now, &passage.after(sender), &message);
        }
        Ok(Decoded::Message(read)) if number == usize::from(shard.parts.edge.shard) => {
            shard.handle_message(now, read);
        }
        Ok(Decoded::Message(read)) => {
            node_links(shard).post(message.shard.into(), read.into());
        }
        // Without the answer its asker would wait for its deadline.
        Ok(Decoded::LaterQuery { from, id }) => {
            let _ = node_links(shard).send(now, from, wire::not_understood(from, id));
        }
        Ok(Decoded::NotUnderstood(id)) => {
            tracing::debug!(%sender, "a node does not know a question");
            if number == usize::from(shard.parts.edge.shard) {
                buckets::drive(shard, now, |driver| driver.handle_not_understood(id));
            } else {
                // It asks until its patience ends.
                let answer = ShardMessage::Answer { id, answer: Answer::Unavailable };
                node_links(shard).post(message.shard.into(), answer.into());
            }
        }
        // Of a later version: its sender asks again in the way of this one.
        Ok(Decoded::LaterKind) => {}
        Err(error) => tracing::warn!(%error, "a message of another node is passed over"),
    }
}

/// A message that the node of a life did not take. `is_unsent`: no part of it has left. Else the node may have received it, so that a
/// question which must not be performed twice does not fail: its asker waits for its deadline. Messages of the class of calls are unsent in
/// either case (`cluster::link`), and go on by another node.
fn take_back_from_node(
    shard: &mut Shard,
    now: Instant,
    to: cluster::Life,
    message: &Message,
    is_unsent: bool,
) {
    let own = shard.parts.edge.life;
    match wire::read(message) {
        Ok(Decoded::Relayed { passage, message }) => {
            sip_relay(shard).pass_on_or_end(now, &passage.given_back(own, to), &message);
        }
        Ok(Decoded::Message(
            ShardMessage::Packets(_) | ShardMessage::SharedResponse(_) | ShardMessage::Transmit { .. },
        )) => sip_relay(shard).pass_on_or_end(now, &Passage::new(to).given_back(own, to), message),
        Ok(Decoded::Message(ShardMessage::Ask { from, id, query })) if is_unsent || query.is_repeatable() => {
            if from == shard.parts.edge {
                buckets::drive(shard, now, |driver| driver.handle_answer(now, id, Answer::Unavailable));
            } else {
                let answer = ShardMessage::Answer { id, answer: Answer::Unavailable };
                node_links(shard).post(from.shard, answer.into());
            }
        }
        _ => {}
    }
}
