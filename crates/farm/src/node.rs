//! The membership of this node: joins what the council says, the lease and the map. Events and time in, [`NodeEffect`]s out.
//!
//! The map is changed by whichever node sees the need: each plans alike from the same members, the council takes the first
//! change and refuses the others, which then plan again from the new map. Usually the live node with the smallest life is
//! the first; the others wait [`PLAN_DELAY`] for it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cluster::lease::{Lease, LeaseEffect};
use cluster::map::FarmMap;
use cluster::member::{Member, MemberState};
use cluster::membership::{Members, MembershipEffect, Refusal};
use cluster::plan::Candidate;
use cluster::{Life, ShardAddress};
use stdx::Instant;

use crate::council::{CouncilCommand, CouncilEvent, JoinRefused};
use crate::view::{FarmPeer, FarmView};

/// The time that a node leaves the planning of the map to the one with the smallest life.
pub const PLAN_DELAY: Duration = Duration::from_millis(700);

/// The time after which a change of the map that the council has not answered is made again.
pub const SWAP_ANSWER: Duration = Duration::from_secs(2);

/// An order or news of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEffect {
    /// For the council.
    Command(CouncilCommand),
    /// The shards decide by this view from now on.
    View(Arc<FarmView>),
    /// Another node is not accepted as a member.
    MemberRefused {
        /// Its life.
        life: Life,
        /// The reason.
        refusal: Refusal,
    },
    /// A node is dead.
    Died(Life),
    /// The council is away, with the reason, or back.
    Council(Option<Box<str>>),
    /// This node's part in the farm is over; the process ends.
    End(NodeEnd),
}

/// The reason that a node's part in the farm is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEnd {
    /// The council did not admit it.
    Refused(JoinRefused),
    /// The farm counts this start as dead: it was stopped or cut off for too long.
    Dead,
    /// Another process has the node's name.
    Superseded(Life),
    /// It has given everything away after a drain.
    Drained,
}

impl fmt::Display for NodeEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeEnd::Refused(refused) => refused.fmt(f),
            NodeEnd::Dead => f.write_str("the farm counts this start of the node as dead, as it did not renew its lease in time (stopped, overloaded or cut off): start it again"),
            NodeEnd::Superseded(life) => write!(f, "another process (life {life}) has taken this node's name"),
            NodeEnd::Drained => f.write_str("the node has been drained"),
        }
    }
}

/// The membership of one node.
#[derive(Debug)]
pub struct FarmNode {
    own: Member,
    members: Members,
    lease: Lease,
    /// The newest revision of each member's key.
    revisions: BTreeMap<Life, u64>,
    /// The council was asked for these at that time.
    questions: BTreeMap<Box<str>, (Life, Instant)>,
    map: FarmMap,
    map_revision: u64,
    /// A change of the map is on its way since then.
    swapped_at: Option<Instant>,
    /// The map does not fit the members since then.
    unplanned_since: Option<Instant>,
    away: Option<Box<str>>,
    has_news: bool,
}

impl FarmNode {
    /// The machine of a node that the council has admitted as `own.life`.
    pub fn new(now: Instant, own: Member) -> FarmNode {
        let mut members = Members::new(&own.farm, own.wire, now);
        members.set_council_away(now, false);
        FarmNode {
            members,
            lease: Lease::new(now),
            revisions: BTreeMap::new(),
            questions: BTreeMap::new(),
            map: FarmMap::default(),
            map_revision: 0,
            swapped_at: None,
            unplanned_since: None,
            away: None,
            has_news: true,
            own,
        }
    }

    /// Handles news of the council.
    pub fn handle_event(&mut self, now: Instant, event: CouncilEvent, out: &mut Vec<NodeEffect>) {
        match event {
            CouncilEvent::Joined { .. } | CouncilEvent::Refused(_) => {}
            CouncilEvent::Renewed { token } => self.lease.handle_renewed(Instant::from_micros(token)),
            CouncilEvent::Expired => self.announce_again(out),
            CouncilEvent::Superseded { by } => out.push(NodeEffect::End(NodeEnd::Superseded(Life(by)))),
            CouncilEvent::Member { life, revision, value, .. } => {
                self.handle_member(now, Life(life), revision, &value, out);
            }
            CouncilEvent::NotRenewed { node, .. } => self.handle_not_renewed(now, &node, out),
            CouncilEvent::Withdrawn { node } => self.handle_withdrawn(now, &node, out),
            CouncilEvent::Map { revision, value } => self.handle_map(now, revision, &value, out),
            CouncilEvent::SwapRefused { .. } => self.swapped_at = None,
            CouncilEvent::Away { reason } => self.set_away(now, Some(reason), out),
            CouncilEvent::Back => self.set_away(now, None, out),
        }
        self.settle(now, out);
    }

    /// A link to a node broke; `is_refused` if the node's host refuses connections.
    pub fn handle_link_lost(
        &mut self,
        now: Instant,
        life: Life,
        is_refused: bool,
        out: &mut Vec<NodeEffect>,
    ) {
        let mut effects = Vec::new();
        if is_refused {
            self.members.handle_connection_refused(now, life, &mut effects);
        } else {
            self.members.handle_link_lost(now, life, &mut effects);
        }
        self.perform(now, effects, out);
        self.settle(now, out);
    }

    /// Gives everything away; [`NodeEnd::Drained`] follows.
    pub fn drain(&mut self, now: Instant, out: &mut Vec<NodeEffect>) {
        self.own.state = MemberState::Draining;
        self.renew(now, out);
        self.settle(now, out);
    }

    /// Does what is due.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<NodeEffect>) {
        let mut effects = Vec::new();
        self.members.expire(now, &mut effects);
        self.perform(now, effects, out);
        let mut orders = Vec::new();
        self.lease.expire(now, &mut orders);
        if orders.iter().any(|order| matches!(order, LeaseEffect::Renew { .. })) {
            self.renew(now, out);
        }
        self.settle(now, out);
    }

    /// When to call [`FarmNode::expire`].
    pub fn deadline(&self) -> Instant {
        self.lease.deadline().min(self.members.deadline())
    }

    /// True while the node may act as an owner.
    pub fn may_act(&self, now: Instant) -> bool {
        self.lease.may_act(now)
    }

    /// The end of the node's authority; none without any.
    pub fn lease_ends(&self) -> Option<Instant> {
        self.lease.authority_ends()
    }

    fn renew(&self, now: Instant, out: &mut Vec<NodeEffect>) {
        let value = Bytes::from(self.own.encode());
        out.push(NodeEffect::Command(CouncilCommand::Renew { token: now.as_micros(), value }));
    }

    /// The council has forgotten the node's key. The farm may have agreed meanwhile that the node is dead; then the map says
    /// so, and the node ends when it reads it.
    fn announce_again(&mut self, out: &mut Vec<NodeEffect>) {
        if !self.map.is_dead(self.own.life) {
            let value = Bytes::from(self.own.encode());
            out.push(NodeEffect::Command(CouncilCommand::Announce { value }));
        }
    }

    fn handle_member(
        &mut self,
        now: Instant,
        life: Life,
        revision: u64,
        value: &[u8],
        out: &mut Vec<NodeEffect>,
    ) {
        let Ok(mut member) = Member::decode(value) else { return };
        // The life is the council's word; the announcement was written before the node knew it.
        member.life = life;
        if self.revisions.get(&life).is_some_and(|seen| *seen >= revision) {
            return;
        }
        self.revisions.insert(life, revision);
        let mut effects = Vec::new();
        self.members.handle_announced(now, member, &mut effects);
        self.perform(now, effects, out);
    }

    fn handle_not_renewed(&mut self, now: Instant, node: &str, out: &mut Vec<NodeEffect>) {
        let Some((life, asked_at)) = self.questions.remove(node) else { return };
        let mut effects = Vec::new();
        self.members.handle_absent(now, life, asked_at, &mut effects);
        self.perform(now, effects, out);
    }

    fn handle_withdrawn(&mut self, now: Instant, node: &str, out: &mut Vec<NodeEffect>) {
        let gone: Vec<Member> = self.members.live().filter(|member| *member.name == *node).cloned().collect();
        for mut member in gone {
            member.state = MemberState::Left;
            let mut effects = Vec::new();
            self.members.handle_announced(now, member, &mut effects);
            self.perform(now, effects, out);
        }
    }

    fn handle_map(&mut self, now: Instant, revision: u64, value: &[u8], out: &mut Vec<NodeEffect>) {
        let Ok(map) = FarmMap::decode(value) else { return };
        if revision <= self.map_revision {
            return;
        }
        (self.map, self.map_revision, self.swapped_at, self.has_news) = (map, revision, None, true);
        if self.map.is_dead(self.own.life) {
            out.push(NodeEffect::End(NodeEnd::Dead));
        }
        let mut effects = Vec::new();
        for life in self.map.dead().to_vec() {
            if self.members.get(life).is_some() {
                self.members.handle_dead(now, life, &mut effects);
            }
        }
        self.perform(now, effects, out);
    }

    fn set_away(&mut self, now: Instant, reason: Option<Box<str>>, out: &mut Vec<NodeEffect>) {
        if self.away.is_some() == reason.is_some() {
            return;
        }
        self.members.set_council_away(now, reason.is_some());
        self.away.clone_from(&reason);
        self.has_news = true;
        // A change on its way may be lost; it is made again.
        self.swapped_at = None;
        out.push(NodeEffect::Council(reason));
    }

    fn perform(&mut self, now: Instant, effects: Vec<MembershipEffect>, out: &mut Vec<NodeEffect>) {
        for effect in effects {
            match effect {
                MembershipEffect::Joined(_) | MembershipEffect::Changed(_) | MembershipEffect::Left(_) => {
                    self.has_news = true;
                }
                MembershipEffect::Died(life) => {
                    self.has_news = true;
                    out.push(NodeEffect::Died(life));
                }
                MembershipEffect::Suspected(_) | MembershipEffect::Recovered(_) => {}
                MembershipEffect::Ask(life) => self.ask(now, life, out),
                MembershipEffect::Refused(life, refusal) => {
                    out.push(NodeEffect::MemberRefused { life, refusal });
                }
            }
        }
    }

    fn ask(&mut self, now: Instant, life: Life, out: &mut Vec<NodeEffect>) {
        let Some(name) = self.members.get(life).map(|member| member.name.clone()) else { return };
        let seen = self.revisions.get(&life).copied().unwrap_or(0);
        self.questions.insert(name.clone(), (life, now));
        let token = now.as_micros();
        out.push(NodeEffect::Command(CouncilCommand::Ask { token, node: name, seen }));
    }

    /// Plans the map if it does not fit, and tells the shards of news.
    fn settle(&mut self, now: Instant, out: &mut Vec<NodeEffect>) {
        self.plan(now, out);
        if std::mem::take(&mut self.has_news) {
            out.push(NodeEffect::View(Arc::new(self.view())));
        }
        if self.own.state == MemberState::Draining && !self.holds_anything() {
            out.push(NodeEffect::End(NodeEnd::Drained));
        }
    }

    fn holds_anything(&self) -> bool {
        let is_own = |address: Option<ShardAddress>| address.is_some_and(|at| at.life == self.own.life);
        self.map.owners().any(|(_, ownership)| is_own(ownership.owner))
            || self.map.workers().any(|(_, slot)| is_own(slot.worker))
    }

    fn plan(&mut self, now: Instant, out: &mut Vec<NodeEffect>) {
        if self.away.is_some() || self.members.get(self.own.life).is_none() {
            return;
        }
        let Some(next) = self.wanted_map(now) else {
            self.unplanned_since = None;
            return;
        };
        let since = *self.unplanned_since.get_or_insert(now);
        let is_first = self.members.live().next().is_some_and(|first| first.life == self.own.life);
        let is_under_way = self.swapped_at.is_some_and(|at| now.since(at) < SWAP_ANSWER);
        if is_under_way || !(is_first || now.since(since) >= PLAN_DELAY) {
            return;
        }
        self.swapped_at = Some(now);
        let value = Bytes::from(next.encode());
        out.push(NodeEffect::Command(CouncilCommand::SwapMap { expected: self.map_revision, value }));
    }

    /// The map that fits the members; none if the present one does.
    fn wanted_map(&self, now: Instant) -> Option<FarmMap> {
        let mut next = self.map.clone();
        self.members.dead().for_each(|life| next.insert_dead(life));
        let routers = self.candidates(|member| member.roles.is_router);
        let edges = self.candidates(|member| member.roles.is_edge);
        let moves = next.plan(&routers, &edges);
        next.apply(now, &moves);
        next.set_level(self.members.live().map(|member| member.wire.1).min().unwrap_or(0));
        if next == self.map {
            return None;
        }
        next.expire(now);
        next.succeed(self.map.version());
        Some(next)
    }

    /// The shards of serving members with a task; each node's weight is divided among its shards.
    fn candidates(&self, has_task: impl Fn(&Member) -> bool) -> Vec<Candidate> {
        let serving = |member: &&Member| has_task(member) && member.state == MemberState::Serving;
        let shards = |member: &Member| {
            let (life, weight) = (member.life, member.weight);
            (0..member.shards).map(move |shard| Candidate { address: ShardAddress::new(life, shard), weight })
        };
        self.members.live().filter(serving).flat_map(shards).collect()
    }

    fn view(&self) -> FarmView {
        let peer = |member: &Member| {
            let peer = FarmPeer {
                name: member.name.clone(),
                address: member.address.parse().ok()?,
                shards: member.shards,
                build: member.build.clone(),
                is_serving: member.state == MemberState::Serving,
            };
            Some((member.life, peer))
        };
        FarmView {
            own: self.own.life,
            map: self.map.clone(),
            peers: self.members.live().filter_map(peer).collect(),
            is_council_away: self.away.is_some(),
        }
    }
}
