//! One node's part in a farm: its lease, the members and the map as it sees them, and the buckets that it owns.
//!
//! The node announces itself, reads members and map, and takes part. The member with the least life among the routers is the coordinator: it
//! changes the map when members come, go or drain. Every node writes the epochs of its own buckets into the map. All
//! writes are compare-and-swap, so two coordinators, which may be for a while, only cost a repetition.
//!
//! Safety does not depend on the council. It may answer late, lose answers, forget keys and show an old map: the database decides
//! who owns a bucket, and refuses writes of any other. `sim` plays this with thousands of seeds (`crates/sim/tests/farm`).

mod effect;
mod map_plan;
mod own_buckets;

use stdx::Instant;

use crate::address::{Epoch, Life, ShardAddress};
use crate::bucket::Bucket;
use crate::lease::{Lease, LeaseEffect};
use crate::limits::{COUNCIL_ANSWER, MAP_READ};
use crate::map::FarmMap;
use crate::member::{Member, MemberState};
use crate::membership::{Members, MembershipEffect, Refusal};
use crate::tenure::{Tenure, TenureEffect};

use map_plan::MapPlan;
use own_buckets::OwnBuckets;

pub use effect::{Claim, EndReason, FarmEffect, Revision};

/// The council's map as it was last read, and the question that is under way.
#[derive(Debug)]
struct CouncilMap {
    revision: Revision,
    /// The version of the map that has this revision.
    version: u64,
    has_been_read: bool,
    /// The time of the last read or swap of the map, until the answer comes.
    asked_at: Option<Instant>,
    /// The map of a swap that is under way.
    swapping: Option<Box<FarmMap>>,
    next_read: Instant,
}

impl CouncilMap {
    /// Asks for the map if it is time, or if an answer is late.
    fn read(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        let is_late = self.asked_at.is_some_and(|at| now.since(at) >= COUNCIL_ANSWER);
        let is_due = self.asked_at.is_none() && now >= self.next_read;
        if is_late || is_due {
            self.swapping = None;
            self.asked_at = Some(now);
            self.next_read = now + MAP_READ;
            out.push(FarmEffect::ReadMap);
        }
    }
}

/// One node's part in a farm.
#[derive(Debug)]
pub struct FarmNode {
    own: Member,
    lease: Lease,
    members: Members,
    have_members_been_read: bool,
    map: FarmMap,
    council: CouncilMap,
    buckets: OwnBuckets,
    /// The lease allowed this node to act at the last input.
    has_authority: bool,
    /// Something has changed that may change the map.
    is_map_due: bool,
    has_told_drained: bool,
    /// The time of the announcement that the node has left.
    left_at: Option<Instant>,
    has_ended: bool,
}

impl FarmNode {
    /// A node that starts. `own` is its announcement, with a life that no other start has; its state is set here. `size` is the
    /// number of buckets, [`crate::BUCKETS`] but in simulations. [`FarmNode::expire`] is due at once.
    pub fn new(now: Instant, own: Member, size: u16) -> FarmNode {
        let life = own.life;
        let council = CouncilMap {
            revision: Revision(0),
            version: 0,
            has_been_read: false,
            asked_at: None,
            swapping: None,
            next_read: now,
        };
        FarmNode {
            lease: Lease::new(now),
            members: Members::new(&own.farm, own.wire, now),
            own: Member { state: MemberState::Joining, ..own },
            have_members_been_read: false,
            map: FarmMap::new(size),
            council,
            buckets: OwnBuckets::new(life),
            has_authority: false,
            is_map_due: false,
            has_told_drained: false,
            left_at: None,
            has_ended: false,
        }
    }

    /// Does what is due.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        if self.has_ended {
            return;
        }
        let mut orders = Vec::new();
        self.lease.expire(now, &mut orders);
        for order in orders {
            match order {
                LeaseEffect::Renew { sent_at } => {
                    if !self.have_members_been_read {
                        out.push(FarmEffect::ReadMembers);
                    }
                    self.announce(sent_at, self.own.state, out);
                }
                LeaseEffect::AskFence { sent_at } => out.push(FarmEffect::AskFence { sent_at }),
            }
        }
        let mut news = Vec::new();
        self.members.expire(now, &mut news);
        self.tell(now, news, out);
        self.buckets.expire(now, out);
        self.council.read(now, out);
        self.settle(now, out);
    }

    /// Does what is due before a map is read, which may take long: renews the lease early.
    pub fn expire_before_map(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        self.lease.hasten(now);
        self.expire(now, out);
    }

    /// The council has the announcement that was sent at this time.
    pub fn handle_renewed(&mut self, now: Instant, sent_at: Instant, out: &mut Vec<FarmEffect>) {
        self.lease.handle_renewed(sent_at);
        if self.left_at.is_some_and(|left_at| sent_at >= left_at) {
            self.finish(EndReason::Left, out);
        }
        // The node sees its own renewal so, whatever its watch of the council does.
        self.handle_announced(now, self.own.clone(), out);
    }

    /// The council has this announcement: it was read, or has just been written.
    pub fn handle_announced(&mut self, now: Instant, member: Member, out: &mut Vec<FarmEffect>) {
        let mut news = Vec::new();
        let is_older = member.life < self.own.life;
        self.members.handle_announced(now, member, &mut news);
        // A farm that this node cannot be part of was there before it.
        if let [MembershipEffect::Refused(_, refusal @ (Refusal::OtherFarm(_) | Refusal::WireRange { .. }))] =
            &news[..]
            && is_older
            && self.own.state == MemberState::Joining
        {
            self.finish(EndReason::Refused(refusal.clone()), out);
        }
        self.tell(now, news, out);
        self.settle(now, out);
    }

    /// All members that the council had when [`FarmEffect::ReadMembers`] was performed have been announced.
    pub fn handle_members_read(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        self.have_members_been_read = true;
        self.settle(now, out);
    }

    /// The council had this key of a life, or none, when it was asked.
    pub fn handle_member_read(
        &mut self,
        now: Instant,
        life: Life,
        asked_at: Instant,
        member: Option<Member>,
        out: &mut Vec<FarmEffect>,
    ) {
        let mut news = Vec::new();
        self.members.handle_read(now, life, asked_at, member, &mut news);
        self.tell(now, news, out);
        self.settle(now, out);
    }

    /// A key has vanished from the council.
    pub fn handle_key_gone(&mut self, now: Instant, life: Life, out: &mut Vec<FarmEffect>) {
        let mut news = Vec::new();
        self.members.handle_key_gone(now, life, &mut news);
        self.tell(now, news, out);
        self.settle(now, out);
    }

    /// The watch of the council begins, at the start or again: keys and map are shown as they are now. The council may have lost
    /// them all, and count its revisions from the beginning.
    pub fn handle_watch_begun(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        self.members.handle_council_returned(now);
        self.council.next_read = now;
        if !self.has_ended {
            self.council.read(now, out);
        }
        self.settle(now, out);
    }

    /// All connections to a life have ended; `is_refused` if its host refuses new ones.
    pub fn handle_link_lost(
        &mut self,
        now: Instant,
        life: Life,
        is_refused: bool,
        out: &mut Vec<FarmEffect>,
    ) {
        let mut news = Vec::new();
        if is_refused {
            self.members.handle_connection_refused(now, life, &mut news);
        } else {
            self.members.handle_link_lost(now, life, &mut news);
        }
        self.tell(now, news, out);
        self.settle(now, out);
    }

    /// The map was written in the council. A notice of a revision that has been read already says nothing.
    pub fn handle_map_written(
        &mut self,
        now: Instant,
        revision: Revision,
        map: FarmMap,
        out: &mut Vec<FarmEffect>,
    ) {
        if revision > self.council.revision {
            self.handle_map(now, revision, Some(map), out);
        }
    }

    /// The council has this map, as it was asked for; none if the key is absent.
    pub fn handle_map(
        &mut self,
        now: Instant,
        revision: Revision,
        map: Option<FarmMap>,
        out: &mut Vec<FarmEffect>,
    ) {
        if self.council.swapping.is_none() {
            self.council.asked_at = None;
        }
        // A council without a map is a new one, or has lost its keys since the last look.
        if map.is_none() && (!self.council.has_been_read || self.council.version > 0) {
            self.members.handle_council_returned(now);
        }
        self.council.has_been_read = true;
        self.council.revision = revision;
        self.council.version = map.as_ref().map_or(0, FarmMap::version);
        self.is_map_due = true;
        if let Some(map) = map
            && (map.version() > self.map.version()
                || (map.version() == self.map.version() && map != self.map))
        {
            self.adopt(now, map, out);
        }
        self.settle(now, out);
    }

    /// The swap of the map has succeeded with this revision, or another map was there.
    pub fn handle_swapped(&mut self, now: Instant, result: Option<Revision>, out: &mut Vec<FarmEffect>) {
        // An answer after the time for it: the map has been read since.
        let Some(map) = self.council.swapping.take() else { return };
        self.council.asked_at = None;
        match result {
            Some(revision) => {
                (self.council.revision, self.council.version) = (revision, map.version());
                self.adopt(now, *map, out);
            }
            None => self.council.next_read = now,
        }
        if !self.has_ended {
            self.council.read(now, out);
        }
        self.settle(now, out);
    }

    /// The database did not refuse this life when it was asked at this time.
    pub fn handle_unfenced(&mut self, now: Instant, sent_at: Instant, out: &mut Vec<FarmEffect>) {
        self.lease.handle_unfenced(sent_at);
        self.settle(now, out);
    }

    /// The database refuses this life.
    pub fn handle_fenced(&mut self, out: &mut Vec<FarmEffect>) {
        self.lease.handle_fenced();
        self.finish(EndReason::Fenced, out);
    }

    /// The connection to the database has ended.
    pub fn handle_database_lost(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        self.lease.handle_database_lost();
        self.settle(now, out);
    }

    /// The database gives a bucket.
    pub fn handle_taken(&mut self, now: Instant, bucket: Bucket, epoch: Epoch, out: &mut Vec<FarmEffect>) {
        self.tenure(now, bucket, out, |tenure, orders| tenure.handle_taken(now, epoch, orders));
    }

    /// The database refuses a bucket: it has this holder and epoch.
    pub fn handle_refused(
        &mut self,
        now: Instant,
        bucket: Bucket,
        holder: Option<ShardAddress>,
        epoch: Epoch,
        out: &mut Vec<FarmEffect>,
    ) {
        let other = holder.map(|holder| holder.life).filter(|life| *life != self.own.life);
        if let Some(life) = other {
            self.members.watch(now, life);
        }
        self.tenure(now, bucket, out, |tenure, orders| tenure.handle_refused(now, epoch, orders));
    }

    /// The rows of a bucket have been read.
    pub fn handle_loaded(&mut self, now: Instant, bucket: Bucket, epoch: Epoch, out: &mut Vec<FarmEffect>) {
        self.tenure(now, bucket, out, |tenure, orders| tenure.handle_loaded(epoch, orders));
    }

    /// All writes of a bucket have been answered.
    pub fn handle_drained(&mut self, now: Instant, bucket: Bucket, epoch: Epoch, out: &mut Vec<FarmEffect>) {
        self.tenure(now, bucket, out, |tenure, orders| tenure.handle_drained(now, epoch, orders));
    }

    /// The database has the bucket back, or it was another's already.
    pub fn handle_given(&mut self, now: Instant, bucket: Bucket, epoch: Epoch, out: &mut Vec<FarmEffect>) {
        self.tenure(now, bucket, out, |tenure, orders| tenure.handle_given(now, epoch, orders));
    }

    /// Gives all buckets and call slots away, to leave the farm: [`FarmEffect::Drained`] follows.
    pub fn leave(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        if matches!(self.own.state, MemberState::Joining | MemberState::Serving) {
            self.announce(now, MemberState::Draining, out);
        }
        self.settle(now, out);
    }

    /// Leaves the farm, after [`FarmEffect::Drained`]: [`EndReason::Left`] follows.
    pub fn end(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        if self.has_told_drained {
            self.left_at = Some(now);
            self.announce(now, MemberState::Left, out);
        }
    }

    /// The epoch under which this node answers for the bucket now; none if it must not.
    pub fn serves(&self, now: Instant, bucket: Bucket) -> Option<Epoch> {
        self.buckets.serving(bucket).filter(|_| !self.has_ended && self.lease.may_act(now))
    }

    /// The newest map that this node has seen.
    pub fn map(&self) -> &FarmMap {
        &self.map
    }

    /// The members as this node sees them.
    pub fn members(&self) -> &Members {
        &self.members
    }

    /// This node's lease.
    pub fn lease(&self) -> &Lease {
        &self.lease
    }

    /// This node's announcement.
    pub fn own(&self) -> &Member {
        &self.own
    }

    /// True once [`FarmEffect::End`] has been pushed.
    pub fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// The time at which [`FarmNode::expire`] is due next.
    pub fn deadline(&self) -> Instant {
        if self.has_ended {
            return Instant::FAR_FUTURE;
        }
        let asked = self.council.asked_at.map(|at| at + COUNCIL_ANSWER);
        let mut next = self.lease.deadline().min(self.members.deadline());
        next = next.min(asked.unwrap_or(self.council.next_read));
        if let Some(end) = self.lease.authority_ends().filter(|_| self.has_authority) {
            next = next.min(end);
        }
        self.buckets.deadline().map_or(next, |deadline| deadline.min(next))
    }

    fn announce(&mut self, now: Instant, state: MemberState, out: &mut Vec<FarmEffect>) {
        self.is_map_due |= self.own.state != state;
        self.own.state = state;
        self.own.renewal += 1;
        out.push(FarmEffect::Announce { sent_at: now, member: Box::new(self.own.clone()) });
    }

    /// Passes news on, and asks the council what the membership wants to know.
    fn tell(&mut self, now: Instant, news: Vec<MembershipEffect>, out: &mut Vec<FarmEffect>) {
        for one in news.into_iter().filter(|_| !self.has_ended) {
            match one {
                MembershipEffect::Ask(life) => out.push(FarmEffect::ReadMember { life, asked_at: now }),
                one => {
                    self.is_map_due = true;
                    out.push(FarmEffect::Member(one));
                }
            }
        }
    }

    fn adopt(&mut self, now: Instant, map: FarmMap, out: &mut Vec<FarmEffect>) {
        if self.has_ended {
            return;
        }
        self.map = map;
        self.is_map_due = true;
        out.push(FarmEffect::MapChanged);
        if self.map.is_dead(self.own.life) && self.own.state != MemberState::Left {
            return self.finish(EndReason::DeclaredDead, out);
        }
        let mut news = Vec::new();
        for life in self.map.dead() {
            self.members.handle_dead(now, *life, &mut news);
        }
        self.tell(now, news, out);
        let all: Vec<_> = self.map.owners().collect();
        for (bucket, ownership) in all {
            self.buckets.reconcile(now, bucket, ownership, out);
        }
    }

    /// Gives an input to one tenure.
    fn tenure(
        &mut self,
        now: Instant,
        bucket: Bucket,
        out: &mut Vec<FarmEffect>,
        input: impl FnOnce(&mut Tenure, &mut Vec<TenureEffect>),
    ) {
        if self.has_ended {
            return;
        }
        if self.buckets.handle(bucket, out, input) {
            self.buckets.reconcile(now, bucket, self.map.owner(bucket), out);
        }
        self.settle(now, out);
    }

    /// Ends every input: authority may have begun or ended, the map may have to change, and claims go out together.
    fn settle(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        if self.has_ended {
            return;
        }
        self.members.set_council_away(now, self.lease.council_is_away(now));
        self.settle_authority(now, out);
        self.join(now, out);
        self.swap_map(now, out);
        let claims = self.buckets.take_claims();
        if !claims.is_empty() {
            out.push(FarmEffect::Take { claims, dead: self.map.dead().to_vec() });
        }
        self.tell_drained(out);
    }

    fn settle_authority(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        let may_act = self.lease.may_act(now);
        let resumes = may_act && !self.has_authority;
        self.has_authority = may_act;
        if resumes {
            self.buckets.resume(now, out);
        } else if !may_act {
            self.buckets.lapse(out);
        }
    }

    /// Takes part once all has been read and no live node has the name of this one.
    fn join(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        let knows_all = self.have_members_been_read && self.council.has_been_read && self.has_authority;
        if self.own.state == MemberState::Joining && knows_all && self.members.check(&self.own).is_ok() {
            self.announce(now, MemberState::Serving, out);
        }
    }

    fn tell_drained(&mut self, out: &mut Vec<FarmEffect>) {
        let is_draining = self.own.state == MemberState::Draining && !self.has_told_drained;
        if is_draining && self.buckets.is_empty() && !MapPlan::new(self).has_own() {
            self.has_told_drained = true;
            out.push(FarmEffect::Drained);
        }
    }

    /// Changes the map in the council if it is to be another one.
    fn swap_map(&mut self, now: Instant, out: &mut Vec<FarmEffect>) {
        let can_swap = self.council.has_been_read && self.council.asked_at.is_none() && self.has_authority;
        self.is_map_due |= self.buckets.take_news(now);
        if !self.is_map_due || !can_swap || self.lease.council_is_away(now) {
            return;
        }
        self.is_map_due = false;
        let mut next = MapPlan::new(self).next(now);
        // A council that has forgotten the newest map gets it again.
        if next == self.map && self.council.version >= self.map.version() {
            return;
        }
        next.succeed(self.map.version().max(self.council.version));
        let map = Box::new(next);
        self.council.asked_at = Some(now);
        self.council.swapping = Some(map.clone());
        out.push(FarmEffect::SwapMap { expected: self.council.revision, map });
    }

    /// Stops all that this node serves, for good.
    fn finish(&mut self, reason: EndReason, out: &mut Vec<FarmEffect>) {
        if self.has_ended {
            return;
        }
        self.has_ended = true;
        self.buckets.lapse(out);
        out.push(FarmEffect::End(reason));
    }
}

#[cfg(test)]
mod tests;
