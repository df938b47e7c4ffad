//! The node while it is a member: the machine's inputs from council, database and shards, and its effects.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use cluster::council_queue::{CouncilQueue, NewsKind};
use cluster::farm::{Claim, FarmEffect, FarmNode, Revision};
use cluster::figures::NodeFigures;
use cluster::limits::COUNCIL_AWAY;
use cluster::map::FarmMap;
use cluster::member::Member;
use cluster::{Epoch, Life, ShardAddress};
use stdx::Instant;
use tokio::sync::mpsc;

use super::{AgentRequest, FarmEnd, FarmListener, HANDOVER, LEAVE};
use crate::council::{CouncilCommand, CouncilEvent};
use crate::database::{ClaimResult, DatabaseEvent, DatabaseThread, GivenBack, OpenDatabase};
use crate::order::{BucketOrder, BucketReports, ShardOrders};
use crate::tenure_log::TenureLog;
use crate::view::{FarmPeer, FarmView};

/// The node while it is a member.
pub(super) struct Session {
    pub(super) node: FarmNode,
    pub(super) commands: mpsc::Sender<CouncilCommand>,
    listener: Box<dyn FarmListener>,
    /// The life that each name's key had last.
    names: BTreeMap<Box<str>, Life>,
    joined_at: Instant,
    pub(super) is_council_away: bool,
    /// The reason that the connection to the council gives for its absence.
    away_reason: Option<Box<str>>,
    /// The news of the council that the machine has not had.
    events: CouncilQueue<CouncilEvent>,
    /// The map or the members have changed since the shards had their view.
    has_news: bool,
    /// The buckets that the present input begins or ends.
    tenures: TenureLog,
    /// The orders of the present input to the shards.
    orders: ShardOrders,
    /// The shared database, if there is one.
    pub(super) database: Option<DatabaseThread>,
    /// The nodes share a database: true also when its thread has ended.
    shares_database: bool,
    /// The node has given everything away; the listener is told then.
    drained_at: Option<Instant>,
    /// The node leaves, and waits until then for the council to know it.
    pub(super) leaves_until: Option<Instant>,
    pub(super) has_ended: bool,
}

impl Session {
    pub(super) fn new(
        now: Instant,
        node: FarmNode,
        commands: mpsc::Sender<CouncilCommand>,
        listener: Box<dyn FarmListener>,
    ) -> Session {
        Session {
            node,
            commands,
            listener,
            names: BTreeMap::new(),
            joined_at: now,
            is_council_away: false,
            away_reason: None,
            events: CouncilQueue::default(),
            has_news: false,
            tenures: TenureLog::default(),
            orders: ShardOrders::default(),
            database: None,
            shares_database: false,
            drained_at: None,
            leaves_until: None,
            has_ended: false,
        }
    }

    pub(super) fn begin_database(&mut self, life: Life, open: Option<OpenDatabase>) {
        let Some(open) = open else { return };
        self.shares_database = true;
        match DatabaseThread::start(life, open) {
            Ok(thread) => self.database = Some(thread),
            Err(error) => {
                tracing::error!(%error, "the database of the farm has no thread: this node owns no buckets");
            }
        }
    }

    /// The end of the authority by the clock of the shards; zero without any.
    pub(super) fn authority_ends(&self, now: Instant, shard_now: Instant) -> Instant {
        let ends = self.node.lease().authority_ends().filter(|_| !self.has_ended);
        ends.map_or(Instant::default(), |ends| shard_now + ends.since(now))
    }

    pub(super) fn deadline(&self) -> Instant {
        let deadline = self.node.deadline();
        self.drained_at.map_or(deadline, |at| at.min(deadline))
    }

    /// Tells of the drain once no node sends here any more.
    pub(super) fn tell_drained(&mut self, now: Instant) {
        if self.drained_at.is_some_and(|at| at <= now) {
            self.drained_at = None;
            self.listener.drained();
        }
    }

    pub(super) fn handle_request(&mut self, now: Instant, request: AgentRequest) {
        match request {
            AgentRequest::LinkLost { life, is_refused } => {
                self.drive(now, |node, now, out| node.handle_link_lost(now, life, is_refused, out));
            }
            AgentRequest::Drain => self.drive(now, FarmNode::leave),
            AgentRequest::AskToDrain { life: Life(life), node } => {
                self.command(CouncilCommand::AskToDrain { node, life });
            }
            AgentRequest::Leave => {
                self.leaves_until.get_or_insert(now + LEAVE);
                // A drained node says goodbye; one that still has calls is taken over from as if it had died.
                self.drive(now, FarmNode::end);
            }
        }
    }

    /// The shards have loaded or stopped buckets.
    pub(super) fn handle_reports(&mut self, now: Instant, reports: BucketReports) {
        self.drive(now, |node, now, out| {
            for (bucket, epoch) in reports.loaded {
                node.handle_loaded(now, bucket, epoch, out);
            }
            for (bucket, epoch) in reports.drained {
                node.handle_drained(now, bucket, epoch, out);
            }
        });
    }

    pub(super) fn handle_database(&mut self, now: Instant, event: DatabaseEvent) {
        self.drive(now, |node, now, out| match event {
            DatabaseEvent::Unfenced(sent_at) => node.handle_unfenced(now, sent_at, out),
            DatabaseEvent::Fenced => node.handle_fenced(out),
            DatabaseEvent::Lost => node.handle_database_lost(now, out),
            DatabaseEvent::Claimed(results) => {
                for result in results {
                    handle_claim_result(node, now, result, out);
                }
            }
            DatabaseEvent::Given(given) => {
                for GivenBack { bucket, epoch, .. } in given {
                    node.handle_given(now, bucket, epoch, out);
                }
            }
        });
    }

    /// Keeps news of the council for the next look, and forgets what it supersedes.
    pub(super) fn queue(&mut self, event: CouncilEvent) {
        let kind = match &event {
            CouncilEvent::Renewed { .. } | CouncilEvent::Expired | CouncilEvent::Superseded { .. } => {
                NewsKind::Renewal
            }
            CouncilEvent::Member { life, .. } => NewsKind::Announcement(Life(*life)),
            CouncilEvent::MapWritten { .. } => NewsKind::Map,
            CouncilEvent::MapRead { .. } | CouncilEvent::Swapped { .. } => NewsKind::MapAnswer,
            _ => NewsKind::Other,
        };
        self.events.push(kind, event);
    }

    /// Does what is due, and renews the lease early if a map waits; true if news of the council wait.
    pub(super) fn prepare(&mut self, now: Instant) -> bool {
        if self.events.has_map() {
            self.drive(now, FarmNode::expire_before_map);
        } else if self.node.deadline() <= now {
            self.drive(now, FarmNode::expire);
        }
        self.has_events()
    }

    /// True if news of the council wait.
    pub(super) fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The news of the council that are read next.
    pub(super) fn take_events(&mut self) -> impl Iterator<Item = CouncilEvent> + use<> {
        self.events.take()
    }

    pub(super) fn handle_event(&mut self, now: Instant, event: CouncilEvent) {
        match event {
            CouncilEvent::Joined { .. } | CouncilEvent::Refused(_) => {}
            CouncilEvent::Renewed { token } => {
                self.listener.renewed();
                self.drive(now, |node, now, out| node.handle_renewed(now, Instant::from_micros(token), out));
            }
            CouncilEvent::Expired => self.announce_again(),
            CouncilEvent::Superseded { by } => self.end(&FarmEnd::Superseded(Life(by))),
            CouncilEvent::Member { life, node, value } => self.handle_member(now, Life(life), node, &value),
            CouncilEvent::MemberRead { node, token, found } => {
                self.handle_member_read(now, &node, Instant::from_micros(token), found.as_ref());
            }
            CouncilEvent::DrainAsked => self.listener.drain_asked(),
            CouncilEvent::Withdrawn { node } => {
                if let Some(life) = self.names.get(&node).copied() {
                    self.drive(now, |node, now, out| node.handle_key_gone(now, life, out));
                }
            }
            CouncilEvent::MembersRead => self.drive(now, FarmNode::handle_members_read),
            CouncilEvent::MapWritten { revision, value } => {
                let Some(map) = read_map(&value) else { return };
                self.drive(now, |node, now, out| node.handle_map_written(now, Revision(revision), map, out));
            }
            CouncilEvent::MapRead { revision, value } => {
                let map = value.as_deref().and_then(read_map);
                self.drive(now, |node, now, out| node.handle_map(now, Revision(revision), map, out));
            }
            CouncilEvent::Swapped { revision } => {
                self.drive(now, |node, now, out| node.handle_swapped(now, revision.map(Revision), out));
            }
            CouncilEvent::WatchBegun => self.drive(now, FarmNode::handle_watch_begun),
            CouncilEvent::Away { reason } => self.away_reason = Some(reason),
            CouncilEvent::Back => self.away_reason = None,
        }
    }

    fn handle_member(&mut self, now: Instant, life: Life, name: Box<str>, value: &[u8]) {
        if let Some(member) = read_member(life, value) {
            self.names.insert(name, life);
            // An announcement that can be read can be read for its figures.
            self.listener.node_renewed(life, NodeFigures::of_announcement(value).ok().flatten());
            self.drive(now, |node, now, out| node.handle_announced(now, member, out));
        }
    }

    fn handle_member_read(
        &mut self,
        now: Instant,
        name: &str,
        asked_at: Instant,
        found: Option<&(u32, Bytes)>,
    ) {
        // A start of the node that followed another one soon has the name of it: the answer is for both.
        let has_name = |member: &&Member| *member.name == *name;
        let lives: Vec<Life> =
            self.node.members().live().filter(has_name).map(|member| member.life).collect();
        for life in lives {
            // A later life of the node is no sign of this one.
            let value = found.filter(|(of, _)| *of == life.0).map(|(_, value)| value);
            let member = value.and_then(|value| read_member(life, value));
            self.drive(now, |node, now, out| node.handle_member_read(now, life, asked_at, member, out));
        }
    }

    /// The council has forgotten the node's key. The farm may have agreed meanwhile that the node is dead; then the map says
    /// so, and the node ends when it reads it.
    fn announce_again(&mut self) {
        if !self.node.map().is_dead(self.node.own().life) {
            let value = Bytes::from(self.node.own().encode());
            self.command(CouncilCommand::Announce { value });
        }
    }

    /// Tells of the council's absence when the lease counts it as away, and of its return with the first renewal.
    pub(super) fn tell_absence(&mut self, now: Instant) {
        // A node that has just joined waits for the answer to its first renewal.
        let is_new = now.since(self.joined_at) < COUNCIL_AWAY;
        let is_away = !is_new && self.node.lease().council_is_away(now);
        if self.is_council_away != is_away {
            self.is_council_away = is_away;
            let reason = self.away_reason.as_deref().unwrap_or("renewals are not answered");
            self.listener.council(is_away.then_some(reason));
            self.has_news = true;
        }
    }

    /// Gives the machine an input and performs its effects; an effect that is answered at once is another input.
    pub(super) fn drive(
        &mut self,
        now: Instant,
        input: impl FnOnce(&mut FarmNode, Instant, &mut Vec<FarmEffect>),
    ) {
        let mut effects = Vec::new();
        input(&mut self.node, now, &mut effects);
        while !effects.is_empty() {
            let mut more = Vec::new();
            for effect in effects {
                self.has_news |= matches!(effect, FarmEffect::MapChanged | FarmEffect::Member(_));
                self.perform(now, effect, &mut more);
            }
            effects = more;
        }
        self.tenures.write(self.node.own().life);
        for (shard, orders) in self.orders.take() {
            self.listener.buckets(shard, orders);
        }
    }

    /// Tells the shards how the farm is now, if it has changed.
    pub(super) fn show_news(&mut self) {
        if std::mem::take(&mut self.has_news) {
            self.show();
        }
    }

    fn perform(&mut self, now: Instant, effect: FarmEffect, out: &mut Vec<FarmEffect>) {
        match effect {
            FarmEffect::Announce { sent_at, member } => {
                let mut value = member.encode();
                self.listener.own_figures().append_to(&mut value);
                self.command(CouncilCommand::Renew { token: sent_at.as_micros(), value: value.into() });
            }
            FarmEffect::ReadMembers => self.command(CouncilCommand::ReadMembers),
            FarmEffect::ReadMember { life, asked_at } => self.read_member(now, life, asked_at, out),
            FarmEffect::ReadMap => self.command(CouncilCommand::ReadMap),
            FarmEffect::SwapMap { expected, map } => {
                let value = Bytes::from(map.encode());
                self.command(CouncilCommand::SwapMap { expected: expected.0, value });
            }
            effect @ (FarmEffect::AskFence { .. }
            | FarmEffect::Take { .. }
            | FarmEffect::Give { .. }
            | FarmEffect::Load { .. }
            | FarmEffect::Serve { .. }
            | FarmEffect::Stop { .. }) => {
                if self.shares_database {
                    self.perform_for_bucket(effect);
                } else {
                    self.grant(now, effect, out);
                }
            }
            FarmEffect::MapChanged => {}
            FarmEffect::Member(news) => self.listener.member(&news),
            FarmEffect::Drained => self.drained_at = Some(now + HANDOVER),
            FarmEffect::End(reason) => self.end(&FarmEnd::Ended(reason)),
        }
    }

    /// Passes an effect on to the shared database or to a shard.
    fn perform_for_bucket(&mut self, effect: FarmEffect) {
        match effect {
            FarmEffect::Load { bucket, shard, epoch } => {
                self.orders.push(shard, BucketOrder::Load { bucket, epoch });
            }
            FarmEffect::Serve { bucket, shard, epoch } => {
                self.tenures.serve(bucket, epoch);
                self.orders.push(shard, BucketOrder::Serve { bucket, epoch });
            }
            FarmEffect::Stop { bucket, shard, epoch } => {
                self.tenures.stop(bucket, epoch);
                self.orders.push(shard, BucketOrder::Stop { bucket, epoch });
            }
            effect => {
                // A thread that has ended has told that the life is fenced.
                let Some(database) = &self.database else { return };
                match effect {
                    FarmEffect::AskFence { sent_at } => database.ask_fence(sent_at),
                    FarmEffect::Take { claims, dead } => database.take(claims, dead),
                    FarmEffect::Give { bucket, holder, epoch } => {
                        database.give(GivenBack { bucket, holder, epoch });
                    }
                    _ => {}
                }
            }
        }
    }

    /// Answers an effect at once, where each node has a database of its own.
    fn grant(&mut self, now: Instant, effect: FarmEffect, out: &mut Vec<FarmEffect>) {
        match effect {
            FarmEffect::AskFence { sent_at } => self.node.handle_unfenced(now, sent_at, out),
            FarmEffect::Take { claims, .. } => {
                // A version of the map has one owner of each bucket, so as an epoch it is one owner's: two nodes of which one stood
                // still never serve under the same.
                let version = Epoch(self.node.map().version());
                for Claim { bucket, after, .. } in claims {
                    self.node.handle_taken(now, bucket, version.max(after.next()), out);
                }
            }
            FarmEffect::Give { bucket, epoch, .. } => self.node.handle_given(now, bucket, epoch, out),
            FarmEffect::Load { bucket, epoch, .. } => self.node.handle_loaded(now, bucket, epoch, out),
            FarmEffect::Stop { bucket, epoch, .. } => {
                self.tenures.stop(bucket, epoch);
                self.node.handle_drained(now, bucket, epoch, out);
            }
            FarmEffect::Serve { bucket, epoch, .. } => self.tenures.serve(bucket, epoch),
            _ => {}
        }
    }

    fn read_member(&mut self, now: Instant, life: Life, asked_at: Instant, out: &mut Vec<FarmEffect>) {
        match self.node.members().get(life).map(|member| member.name.clone()) {
            Some(node) => self.command(CouncilCommand::ReadMember { node, token: asked_at.as_micros() }),
            // A life that owns something and that no key has told of since this node joined: the council, whose keys are names, has
            // none of it.
            None => self.node.handle_member_read(now, life, asked_at, None, out),
        }
    }

    fn command(&mut self, command: CouncilCommand) {
        // A council that is away long takes no more; the machine asks again.
        let _ = self.commands.try_send(command);
    }

    fn end(&mut self, end: &FarmEnd) {
        if !self.has_ended {
            self.has_ended = true;
            self.listener.ended(end);
        }
    }

    fn show(&mut self) {
        let peer = |member: &Member| {
            let peer = FarmPeer {
                name: member.name.clone(),
                address: member.address.parse().ok()?,
                shards: member.shards,
                build: member.build.clone(),
                state: member.state,
                roles: member.roles,
                weight: member.weight,
                is_suspect: self.node.members().is_suspect(member.life),
            };
            Some((member.life, peer))
        };
        let view = FarmView {
            own: self.node.own().life,
            map: self.node.map().clone(),
            // A missing node may come back until the map counts it as dead: then its links and sessions end.
            peers: self.node.members().announced().filter_map(peer).collect(),
            is_council_away: self.is_council_away,
        };
        self.listener.view(Arc::new(view));
    }
}

fn handle_claim_result(node: &mut FarmNode, now: Instant, result: ClaimResult, out: &mut Vec<FarmEffect>) {
    match result {
        ClaimResult::Taken { bucket, epoch } => node.handle_taken(now, bucket, epoch, out),
        ClaimResult::Refused { bucket, holder, epoch } => {
            // The machine looks at the life alone: one that no node hears of is declared dead.
            let holder = holder.map(|life| ShardAddress::new(life, 0));
            node.handle_refused(now, bucket, holder, epoch, out);
        }
    }
}

fn read_member(life: Life, value: &[u8]) -> Option<Member> {
    let member = Member::decode(value);
    let member =
        member.inspect_err(|error| tracing::warn!(%life, %error, "a node's announcement is passed over"));
    Some(Member { life, ..member.ok()? })
}

fn read_map(bytes: &[u8]) -> Option<FarmMap> {
    let map = FarmMap::decode(bytes);
    map.inspect_err(|error| tracing::warn!(%error, "the farm's map is passed over")).ok()
}
