//! A shard in a farm: hands packets to the worker of their call at another node, sends on connections that another node
//! holds, and performs what other nodes send.
//!
//! The first shard of a node has the links; the others send through its inbox. A packet that comes over a link is worked
//! on here, whatever the map says, so two nodes that see different maps cannot send it to and fro. A node without a link to the worker
//! gives the packet to a third node, by the passage that comes with it ([`cluster::relay`], `docs/decisions/0088`).

mod moved_slots;

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use ::voice::{RoomHomes, RoomMessage};
use cluster::link::{Message, SendError, SendFailure};
use cluster::relay::{Neighbours, Passage};
use cluster::{CallSlot, ShardAddress};
use farm::agent::FarmAgent;
use farm::links::{LinkCounters, LinkEvent, LinkSettings, Links};
use farm::view::FarmView;
use net::clock::Clock;
use router::Answer;
use sip::endpoint::{SharedResponse, handle_packet_off_slot, has_ended};
use sip::transport::{Packet, Transmit};
use sip::wire::raw_call_id;
use stdx::Instant;

use super::Shard;
use super::buckets::{self, BucketAdapter};
use super::chat_farm;
use super::edge_accounts::AccountQuestions;
use super::perform::survive_panic;
use crate::farm::traffic::LinkTraffic;
use crate::farm::{FarmBoard, ShardFarm};
use crate::limits;
use crate::message::{LocalMessage, ShardMessage};
use shard_message::wire;
use shard_message::wire::Decoded;
use shard_message::wire::Probe;

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
    links: Option<Links>,
    traffic: LinkTraffic,
    /// Gets the figures of the links, and messages of other nodes for operators.
    board: Arc<FarmBoard>,
    last_probe: Instant,
    /// Until then, nodes may pass requests of call slots that have moved to or from this shard to the worker before.
    slots_move_until: Instant,
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
            slots_move_until: Instant::default(),
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

    /// True if the packet's call slot has moved a moment ago.
    fn may_be_at_two_nodes(&self, now: Instant, packet: &[u8]) -> bool {
        if now >= self.slots_move_until {
            return false;
        }
        let slot = raw_call_id(packet).map(|id| CallSlot::of(id).number());
        let previous = self.view().zip(slot).and_then(|(view, slot)| view.map.worker(slot).previous(now));
        previous.is_some_and(|previous| self.view().is_some_and(|view| view.has(previous)))
    }

    /// Returns the view before.
    fn set_view(&mut self, view: Arc<FarmView>) -> Option<Arc<FarmView>> {
        if let Some(links) = &mut self.links {
            links.set_view(&view);
        }
        self.view.replace(view)
    }

    /// Sends by the links, which only the first shard has, and counts.
    fn send(&mut self, now: Instant, to: cluster::Life, message: Message) -> Result<(), SendError> {
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

    /// Puts up the figures of the links, and probes them when it is time.
    fn report(&mut self, now: Instant, own: cluster::Life) {
        let Some(links) = &self.links else { return };
        self.traffic.batches = links.counters().writes;
        if now.since(self.last_probe) >= limits::LINK_PROBE {
            self.last_probe = now;
            for life in links.connected() {
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
    set_lives(shard, view);
    let mut has_this_map = false;
    if let Some(farm) = &mut shard.farm {
        shard.pace.set_view(view, farm.links.is_some());
        farm.edges.keep(|edge| view.has(edge));
        let before = farm.set_view(Arc::clone(view));
        has_this_map = before.as_ref().is_some_and(|before| before.map.version() == view.map.version());
        if !has_this_map {
            moved_slots::handle_map(shard, now, before.as_deref(), view);
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
            set_lives(shard, &view);
            set_room_homes(shard, now, &view);
        }
        None => shard.parts.endpoint.set_dead_lives(&[]),
    }
}

/// The lives whose responses the endpoint may forward by their Vias.
fn set_lives(shard: &mut Shard, view: &FarmView) {
    let endpoint = &mut shard.parts.endpoint;
    endpoint.set_dead_lives(view.map.dead());
    endpoint.set_peer_lives(view.peers.keys().copied().filter(|life| *life != view.own));
}

/// Works on a packet of this shard by its endpoint. A panic there is our bug; it costs that message, not the shard. If its call slot has moved to or from this shard a moment ago, the other worker may have it, too.
pub(super) fn work(shard: &mut Shard, now: Instant, packet: Packet) {
    let may_be_twice = shard.farm.as_ref().is_some_and(|farm| farm.may_be_at_two_nodes(now, &packet.bytes));
    match may_be_twice {
        true => work_off_slot(shard, now, packet),
        false => survive_panic(shard, |endpoint, effects| endpoint.handle_packet(now, packet, effects)),
    }
}

/// Gives a packet to the worker of its call at another node. Without a link to it a third node passes the packet on. A packet that no
/// node can take is worked on here: a request that is repeated there is forwarded with the same branch.
pub(super) fn relay(shard: &mut Shard, now: Instant, to: ShardAddress, packet: &Packet) {
    if let Err(SendError { message, .. }) = send_to_node(shard, now, to, wire::packet(to, packet)) {
        let passage = Passage::new(to.life).given_back(shard.parts.edge.life, to.life);
        pass_on_or_end(shard, now, &passage, &message);
    }
}

/// The packet is for a worker that cannot be reached, or that has it as well.
fn work_off_slot(shard: &mut Shard, now: Instant, packet: Packet) {
    survive_panic(shard, |endpoint, effects| handle_packet_off_slot(endpoint, now, packet, effects));
}

/// Gives a message to its receiver or to a third node, as its passage says. False if no node can take it, or the receiver's process has
/// ended: what it had is worked on by those that are left.
fn pass_on(shard: &mut Shard, now: Instant, passage: &Passage, message: &Message) -> bool {
    let own = shard.parts.edge.life;
    let Some(adapter) = &mut shard.farm else { return false };
    let Some((links, view)) = adapter.links.as_ref().zip(adapter.view.as_ref()) else { return false };
    if !wire::is_relayed(message.kind)
        || view.map.level() < wire::SHARED_SINCE
        || !view.peers.contains_key(&passage.to())
        || has_ended(&shard.parts.endpoint, passage.to())
    {
        return false;
    }
    let connected = links.connected();
    let next = passage.next_nodes(&Neighbours { own, connected: &connected, map: &view.map });
    let relayed = wire::relayed(&passage.after(own), message);
    next.into_iter().any(|node| adapter.send(now, node, relayed.clone()).is_ok())
}

/// As [`pass_on`]. A packet that no node can take is worked on here; the sender of a message for a connection learns that it failed, if the
/// sender is this node. Other messages are lost, and replaced by timers.
fn pass_on_or_end(shard: &mut Shard, now: Instant, passage: &Passage, message: &Message) {
    if pass_on(shard, now, passage, message) {
        return;
    }
    match wire::read(message) {
        Ok(Decoded::Message(ShardMessage::Packets(packets))) => {
            packets.into_iter().for_each(|packet| work_off_slot(shard, now, packet));
        }
        Ok(Decoded::Message(ShardMessage::Transmit {
            transmit: Transmit { report: Some(report), .. },
            from,
        })) => {
            if from == shard.parts.edge {
                shard.parts.endpoint.handle_send_failed(now, report, &mut shard.scratch.effects);
            } else if from.life == shard.parts.edge.life
                && let Some(post) = shard.post.get_mut(usize::from(from.shard))
            {
                post.push(ShardMessage::SendFailed(report).into());
            }
        }
        _ => {}
    }
}

/// Gives a response to all other shards of this node, and to all other nodes.
pub(super) fn share_response(shard: &mut Shard, now: Instant, shared: &SharedResponse) {
    give_to_shards(shard, shared);
    let Some(view) = shard.farm.as_ref().and_then(|farm| farm.view.clone()) else { return };
    if view.map.level() < wire::SHARED_SINCE {
        return;
    }
    for life in view.peers.keys().copied().filter(|life| *life != view.own) {
        let to = ShardAddress::new(life, 0);
        // Without a way to a node the response is lost there: it times out, if it has the request.
        if let Err(SendError { message, .. }) =
            send_to_node(shard, now, to, wire::shared_response(to, shared))
        {
            let passage = Passage::new(life).given_back(view.own, life);
            pass_on(shard, now, &passage, &message);
        }
    }
}

/// Gives a response to the other shards of this node.
fn give_to_shards(shard: &mut Shard, shared: &SharedResponse) {
    let own = usize::from(shard.parts.edge.shard);
    for (_, post) in shard.post.iter_mut().enumerate().filter(|(number, _)| *number != own) {
        post.push(ShardMessage::SharedResponse(shared.clone()).into());
    }
}

/// Sends a message on a connection that another node holds. Without a link to it a third node passes the message on.
pub(super) fn transmit_at_node(shard: &mut Shard, now: Instant, to: ShardAddress, transmit: &Transmit) {
    let message = wire::transmit(to, transmit, shard.parts.edge);
    if let Err(SendError { message, .. }) = send_to_node(shard, now, to, message) {
        let passage = Passage::new(to.life).given_back(shard.parts.edge.life, to.life);
        pass_on_or_end(shard, now, &passage, &message);
    }
}

/// Sends by the link, or through the shard that has it.
pub(super) fn send_to_node(
    shard: &mut Shard,
    now: Instant,
    to: ShardAddress,
    message: Message,
) -> Result<(), SendError> {
    match shard.farm.as_mut().filter(|adapter| adapter.links.is_some()) {
        Some(adapter) => adapter.send(now, to.life, message),
        None => {
            shard.post[0].push(LocalMessage::ToNode { life: to.life, message }.into());
            Ok(())
        }
    }
}

/// Sends a message that another shard of this node has put into this one's inbox, because the links are here. One that cannot be sent goes
/// back to its shard as a failure.
pub(super) fn pass_to_node(shard: &mut Shard, now: Instant, life: cluster::Life, message: Message) {
    let to = ShardAddress::new(life, u16::from(message.shard));
    if let Err(SendError { message, reason }) = send_to_node(shard, now, to, message)
        && !chat_farm::handle_returned(shard, now, (life, reason == SendFailure::Dead), &message)
    {
        take_back_from_node(shard, now, life, &message, true);
    }
}

/// Puts the figures of the links on the board. Called twice a second.
pub(super) fn report(shard: &mut Shard, now: Instant) {
    let own = shard.parts.edge.life;
    if let Some(adapter) = &mut shard.farm {
        adapter.report(now, own);
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
                // Messages of chat wait for a connection as long as the node lives.
                if !chat_farm::handle_returned(shard, now, (to, true), &message) {
                    take_back_from_node(shard, now, to, &message, false);
                }
            }
            LinkEvent::Lost { life, is_refused } => handle_link_lost(shard, life, is_refused),
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

/// The agent decides whether the life is dead. All shards learn that its process has ended, if its host refuses connections.
fn handle_link_lost(shard: &mut Shard, life: cluster::Life, is_refused: bool) {
    if let Some(adapter) = &shard.farm {
        adapter.agent.link_lost(life, is_refused);
    }
    // Each attempt to open a connection is refused; the shards hear of the first.
    if is_refused && shard.parts.endpoint.set_host_refuses(life) {
        let own = usize::from(shard.parts.edge.shard);
        for (_, post) in shard.post.iter_mut().enumerate().filter(|(number, _)| *number != own) {
            post.push(LocalMessage::HostRefuses(life).into());
        }
    }
}

/// Sends the router's answer or news to the shard of another node that asked or watches. What cannot be sent now is lost: the
/// asker has a deadline, and a watch is refreshed.
pub(super) fn answer_at_node(shard: &mut Shard, now: Instant, to: ShardAddress, answer: &ShardMessage) {
    for message in wire::encode(to, answer) {
        let _ = send_to_node(shard, now, to, message);
    }
}

/// Sends a message between a conference or queue and its members to another node. One that cannot be sent now is lost: both sides repeat
/// each second what they know, and sound that is late is worth nothing.
pub(super) fn post_room(shard: &mut Shard, now: Instant, to: ShardAddress, message: RoomMessage) {
    for message in wire::encode(to, &ShardMessage::Room(message)) {
        let _ = send_to_node(shard, now, to, message);
    }
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
            give_to_shards(shard, &shared);
            shard.handle_message(now, ShardMessage::SharedResponse(shared));
        }
        Ok(Decoded::Relayed { passage, message }) if passage.to() == shard.parts.edge.life => {
            handle_from_node(shard, now, sender, &message);
        }
        Ok(Decoded::Relayed { passage, message }) => {
            pass_on_or_end(shard, now, &passage.after(sender), &message);
        }
        Ok(Decoded::Message(read)) if number == usize::from(shard.parts.edge.shard) => {
            shard.handle_message(now, read);
        }
        Ok(Decoded::Message(read)) => {
            if let Some(post) = shard.post.get_mut(number) {
                post.push(read.into());
            }
        }
        // Without the answer its asker would wait for its deadline.
        Ok(Decoded::LaterQuery { from, id }) => {
            let _ = send_to_node(shard, now, from, wire::not_understood(from, id));
        }
        Ok(Decoded::NotUnderstood(id)) => {
            tracing::debug!(%sender, "a node does not know a question");
            if number == usize::from(shard.parts.edge.shard) {
                buckets::handle_not_understood(shard, now, id);
            } else if let Some(post) = shard.post.get_mut(number) {
                // It asks until its patience ends.
                post.push(ShardMessage::Answer { id, answer: Answer::Unavailable }.into());
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
            pass_on_or_end(shard, now, &passage.given_back(own, to), &message);
        }
        Ok(Decoded::Message(
            ShardMessage::Packets(_) | ShardMessage::SharedResponse(_) | ShardMessage::Transmit { .. },
        )) => pass_on_or_end(shard, now, &Passage::new(to).given_back(own, to), message),
        Ok(Decoded::Message(ShardMessage::Ask { from, id, query })) if is_unsent || query.is_repeatable() => {
            if from == shard.parts.edge {
                buckets::handle_answer(shard, now, id, Answer::Unavailable);
            } else if let Some(post) = shard.post.get_mut(usize::from(from.shard)) {
                post.push(ShardMessage::Answer { id, answer: Answer::Unavailable }.into());
            }
        }
        _ => {}
    }
}
