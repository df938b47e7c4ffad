//! SIP messages of a shard in a farm: packets for the worker of their call at another node, messages on connections that another node
//! holds, and responses that other nodes may need.
//!
//! A packet that comes over a link is worked on here, whatever the map says, so two nodes that see different maps cannot send it to and fro. A
//! node without a link to the worker gives the packet to a third node, by the passage that comes with it ([`cluster::relay`],
//! `docs/decisions/0088`).

use cluster::link::{Message, SendError};
use cluster::relay::{Neighbours, Passage};
use cluster::{Life, ShardAddress};
use sip::endpoint::{Endpoint, EndpointOutbox, SharedResponse, handle_packet_off_slot, has_ended};
use sip::transport::{Packet, Transmit};
use stdx::Instant;

use super::node_links::NodeLinks;
use super::{Shard, StatusBoard};
use crate::message::{LocalMessage, ShardMessage};
use shard_message::wire::{self, Decoded};

/// The endpoint of a shard, and the ways from it to other nodes.
pub(super) struct SipRelay<'a> {
    endpoint: &'a mut Endpoint,
    effects: &'a mut EndpointOutbox,
    links: NodeLinks<'a>,
    /// Counts the panics of the endpoint.
    board: &'a StatusBoard,
}

/// The part of a shard that works on SIP messages.
pub(super) fn sip_relay(shard: &mut Shard) -> SipRelay<'_> {
    SipRelay {
        endpoint: &mut shard.parts.endpoint,
        effects: &mut shard.scratch.effects,
        links: NodeLinks::new(shard.parts.edge, shard.farm.as_mut(), &mut shard.post),
        board: &shard.parts.board,
    }
}

impl SipRelay<'_> {
    /// Works on a packet of this shard by its endpoint. If its call slot has moved to or from this shard a moment ago, the other worker may
    /// have it, too.
    pub(super) fn work(&mut self, now: Instant, packet: Packet) {
        let farm = self.links.farm.as_deref();
        match farm.is_some_and(|farm| farm.may_be_at_two_nodes(now, &packet.bytes)) {
            true => self.work_off_slot(now, packet),
            false => self.survive_panic(|endpoint, effects| endpoint.handle_packet(now, packet, effects)),
        }
    }

    /// The packet is for a worker that cannot be reached, or that has it as well.
    pub(super) fn work_off_slot(&mut self, now: Instant, packet: Packet) {
        if let Some(farm) = self.links.farm.as_deref_mut() {
            farm.moved.note_work_for_other(now);
        }
        self.survive_panic(|endpoint, effects| handle_packet_off_slot(endpoint, now, packet, effects));
    }

    /// Gives the endpoint a message. A panic there is our bug; it costs that message, not the shard. The endpoint goes on with the state
    /// that the panic left, and effects that it had pushed before are performed.
    fn survive_panic(&mut self, act: impl FnOnce(&mut Endpoint, &mut EndpointOutbox)) {
        let (endpoint, effects) = (&mut *self.endpoint, &mut *self.effects);
        let handle = std::panic::AssertUnwindSafe(|| act(endpoint, effects));
        if std::panic::catch_unwind(handle).is_err() {
            sip::endpoint::forget_off_slot(self.endpoint);
            self.board.count_panic();
            tracing::error!("a message made the SIP core panic: it was dropped; please report what is above");
        }
    }

    /// Gives a packet to the worker of its call at another node. Without a link to it a third node passes the packet on. A packet that no
    /// node can take is worked on here: a request that is repeated there is forwarded with the same branch.
    pub(super) fn relay(&mut self, now: Instant, to: ShardAddress, packet: &Packet) {
        self.send(now, to, wire::packet(to, packet));
    }

    /// True for the repetition of a request that was worked on here, as its worker before could not be reached: the next worker, a shard of this node
    /// or another, does not know it.
    pub(super) fn keeps(&self, now: Instant, packet: &Packet) -> bool {
        let farm = self.links.farm.as_deref();
        farm.is_some_and(|farm| farm.moved.has_request(now, self.endpoint, packet))
    }

    /// Sends a message on a connection that another node holds. Without a link to it a third node passes the message on.
    pub(super) fn transmit(&mut self, now: Instant, to: ShardAddress, transmit: &Transmit) {
        self.send(now, to, wire::transmit(to, transmit, self.links.own));
    }

    fn send(&mut self, now: Instant, to: ShardAddress, message: Message) {
        if let Err(SendError { message, .. }) = self.links.send(now, to, message) {
            let passage = Passage::new(to.life).given_back(self.links.own.life, to.life);
            self.pass_on_or_end(now, &passage, &message);
        }
    }

    /// Gives a message to its receiver or to a third node, as its passage says. False if no node can take it, or the receiver's process has
    /// ended: what it had is worked on by those that are left.
    fn pass_on(&mut self, now: Instant, passage: &Passage, message: &Message) -> bool {
        let own = self.links.own.life;
        let Some(adapter) = self.links.farm.as_deref_mut() else { return false };
        let Some((links, view)) = adapter.links.as_ref().zip(adapter.view.as_ref()) else { return false };
        if !wire::is_relayed(message.kind)
            || view.map.level() < wire::SHARED_SINCE
            || !view.peers.contains_key(&passage.to())
            || has_ended(self.endpoint, passage.to())
        {
            return false;
        }
        let connected = links.connected();
        let next = passage.next_nodes(&Neighbours { own, connected: &connected, map: &view.map });
        let relayed = wire::relayed(&passage.after(own), message);
        next.into_iter().any(|node| adapter.send(now, node, relayed.clone()).is_ok())
    }

    /// As [`SipRelay::pass_on`]. A packet that no node can take is worked on here; the sender of a message for a connection learns that it
    /// failed, if the sender is this node. Other messages are lost, and replaced by timers.
    pub(super) fn pass_on_or_end(&mut self, now: Instant, passage: &Passage, message: &Message) {
        if self.pass_on(now, passage, message) {
            return;
        }
        match wire::read(message) {
            Ok(Decoded::Message(ShardMessage::Packets(packets))) => {
                packets.into_iter().for_each(|packet| self.work_off_slot(now, packet));
            }
            Ok(Decoded::Message(ShardMessage::Transmit {
                transmit: Transmit { report: Some(report), .. },
                from,
            })) => {
                if from == self.links.own {
                    self.endpoint.handle_send_failed(now, report, self.effects);
                } else if from.life == self.links.own.life {
                    self.links.post(from.shard, ShardMessage::SendFailed(report).into());
                }
            }
            _ => {}
        }
    }

    /// Gives a response to all other shards of this node, and to all other nodes.
    pub(super) fn share_response(&mut self, now: Instant, shared: &SharedResponse) {
        self.links.give_to_shards(shared);
        let Some(view) = self.links.farm.as_ref().and_then(|farm| farm.view.clone()) else { return };
        if view.map.level() < wire::SHARED_SINCE {
            return;
        }
        for life in view.peers.keys().copied().filter(|life| *life != view.own) {
            let to = ShardAddress::new(life, 0);
            // Without a way to a node the response is lost there: it times out, if it has the request.
            if let Err(SendError { message, .. }) =
                self.links.send(now, to, wire::shared_response(to, shared))
            {
                let passage = Passage::new(life).given_back(view.own, life);
                self.pass_on(now, &passage, &message);
            }
        }
    }

    /// A link has ended. The agent decides whether the life is dead. All shards learn that its process has ended, if its host refuses
    /// connections.
    pub(super) fn handle_link_lost(&mut self, life: Life, is_refused: bool) {
        if let Some(adapter) = &self.links.farm {
            adapter.agent.link_lost(life, is_refused);
        }
        // Each attempt to open a connection is refused; the shards hear of the first.
        if is_refused && self.endpoint.set_host_refuses(life) {
            self.links.post_to_others(|| LocalMessage::HostRefuses(life).into());
        }
    }
}
