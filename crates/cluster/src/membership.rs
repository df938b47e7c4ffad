//! The members of a farm as one node sees them: from announcements in the council, from links, and from the time that has passed.
//!
//! A link that breaks is a hint, a lease that ends is a death. A node is missing when its renewals have not been seen for
//! [`TAKEOVER`] *and* the council, asked after that, has no newer one either. Time in which this node was stopped or the
//! council was away proves nothing and is not counted. A council that is back may have forgotten all keys, and other nodes
//! may be back there later than this one: a member has [`COUNCIL_RETURN`] to be seen again. A host that refuses connections shortens the wait: a process that
//! runs, even a stopped one, is not refused.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use stdx::Instant;

use crate::address::Life;
use crate::limits::{
    COUNCIL_ANSWER, COUNCIL_RETURN, MEMBERS, PAUSE, REFUSED_TAKEOVER, SHARDS, SUSPICION, TAKEOVER,
};
use crate::member::{Member, MemberState};

/// An order of the membership, or news for the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MembershipEffect {
    /// A member is new.
    Joined(Life),
    /// A member has announced something else than before: its state, its wire versions.
    Changed(Life),
    /// A member may be dead. Nothing is taken from it yet.
    Suspected(Life),
    /// A suspected or missing member has renewed its lease after all.
    Recovered(Life),
    /// This node is sure that a member is dead. The coordinator writes it into the map, which makes it a death.
    Missing(Life),
    /// A member is dead for the whole farm: its buckets may be taken after it has been fenced.
    Died(Life),
    /// A member has left in order.
    Left(Life),
    /// Read the member's key in the council. The answer: [`Members::handle_read`].
    Ask(Life),
    /// An announcement was not accepted.
    Refused(Life, Refusal),
}

/// The reason why an announced node is not a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It belongs to another farm.
    OtherFarm(Box<str>),
    /// A live node has the same name. The older one stays.
    NameInUse(Life),
    /// Its wire versions and ours have none in common.
    WireRange { least: u16, most: u16 },
    /// It has none or more than [`SHARDS`] shards.
    TooManyShards(u16),
    /// The farm has [`MEMBERS`] members.
    TooManyMembers,
    /// The farm counts it as dead. It must start again with a new life.
    Dead,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::OtherFarm(farm) => {
                write!(
                    f,
                    "the node belongs to the farm {farm}: give it this farm's id, or a council of its own"
                )
            }
            Refusal::NameInUse(life) => {
                write!(f, "life {life} is a live node of the same name: stop it, or give one another name")
            }
            Refusal::WireRange { least, most } => {
                write!(f, "the node speaks wire versions {least} to {most}: upgrade one version at a time")
            }
            Refusal::TooManyShards(shards) => {
                write!(f, "the node has {shards} shards; 1 to {SHARDS} are possible")
            }
            Refusal::TooManyMembers => write!(f, "the farm has {MEMBERS} members already"),
            Refusal::Dead => write!(f, "the farm counts this start of the node as dead: start it again"),
        }
    }
}

/// The health of a member as this node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    Live,
    /// `asked_at`: when the council was last asked for its key.
    Suspect {
        asked_at: Option<Instant>,
    },
    /// The council has no renewal although the member's time was over.
    Missing,
    /// The farm has agreed.
    Dead,
    Left,
}

/// One member, or a life that owns something and is not announced.
#[derive(Debug)]
struct Known {
    member: Option<Member>,
    /// The last renewal that was seen, or when we began to look.
    seen_at: Instant,
    /// The time after `seen_at` in which it is not missing.
    patience: Duration,
    /// The time at which its host refused a connection, if no renewal was seen since.
    refused_at: Option<Instant>,
    health: Health,
}

/// The members of a farm.
#[derive(Debug)]
pub struct Members {
    farm: Box<str>,
    /// The wire versions of this node.
    wire: (u16, u16),
    known: BTreeMap<Life, Known>,
    /// The time of the last call of `expire`.
    called_at: Instant,
    is_council_away: bool,
    /// Members that have not renewed since the council's return are not missing before this time.
    returned_by: Instant,
}

impl Members {
    /// The members as a node of this farm with these wire versions sees them; itself is one of them once announced.
    pub fn new(farm: &str, wire: (u16, u16), now: Instant) -> Members {
        Members {
            farm: farm.into(),
            wire,
            known: BTreeMap::new(),
            called_at: now,
            is_council_away: true,
            returned_by: now,
        }
    }

    /// A member's key was written in the council: an announcement, or a renewal of its lease.
    pub fn handle_announced(&mut self, now: Instant, member: Member, out: &mut Vec<MembershipEffect>) {
        if let Err(refusal) = self.check(&member) {
            out.push(MembershipEffect::Refused(member.life, refusal));
            return;
        }
        let life = member.life;
        let has_left = member.state == MemberState::Left;
        let Some(known) = self.known.get_mut(&life) else {
            if !has_left {
                self.insert(now, life, Some(member));
                out.push(MembershipEffect::Joined(life));
            }
            return;
        };
        if !known.is_new(&member) {
            return;
        }
        (known.seen_at, known.patience, known.refused_at) = (now, TAKEOVER, None);
        let news = known.renew(member);
        out.extend(news.map(|news| news(life)));
    }

    /// A member's key has vanished from the council. It may have been forgotten there, so the member is asked for.
    pub fn handle_key_gone(&mut self, now: Instant, life: Life, out: &mut Vec<MembershipEffect>) {
        self.suspect(now, life, out);
    }

    /// The council, asked at `asked_at`, has this key of a life, or none.
    pub fn handle_read(
        &mut self,
        now: Instant,
        life: Life,
        asked_at: Instant,
        member: Option<Member>,
        out: &mut Vec<MembershipEffect>,
    ) {
        if let Some(member) = member {
            self.handle_announced(now, member, out);
        }
        let Some(known) = self.known.get_mut(&life) else { return };
        // An answer to a question of before the last renewal, or before the time was over, proves nothing. A key that has
        // just been renewed has ended the suspicion above.
        if !self.is_council_away && known.is_overdue(asked_at) && known.is_overdue(now) {
            known.health = Health::Missing;
            out.push(MembershipEffect::Missing(life));
        }
    }

    /// All links to a member broke. That is a hint.
    pub fn handle_link_lost(&mut self, now: Instant, life: Life, out: &mut Vec<MembershipEffect>) {
        self.suspect(now, life, out);
    }

    /// The member's host refused a connection: no process listens there.
    pub fn handle_connection_refused(&mut self, now: Instant, life: Life, out: &mut Vec<MembershipEffect>) {
        if let Some(known) = self.known.get_mut(&life) {
            known.refused_at.get_or_insert(now);
        }
        self.suspect(now, life, out);
    }

    /// The farm has agreed on a death: the map lists it.
    pub fn handle_dead(&mut self, now: Instant, life: Life, out: &mut Vec<MembershipEffect>) {
        if !self.known.contains_key(&life) {
            self.insert(now, life, None);
        }
        let Some(known) = self.known.get_mut(&life) else { return };
        if !known.is_over() {
            known.health = Health::Dead;
            out.push(MembershipEffect::Died(life));
        }
    }

    /// A life that holds something and may be unknown: its time begins now, unless it is known.
    pub fn watch(&mut self, now: Instant, life: Life) {
        if !self.known.contains_key(&life) {
            self.insert(now, life, None);
        }
    }

    /// The council is away, or back. Renewals of the time between were not seen, so all members begin anew.
    pub fn set_council_away(&mut self, now: Instant, is_away: bool) {
        if self.is_council_away != is_away {
            self.is_council_away = is_away;
            self.begin_anew(now);
        }
    }

    /// A watch of the council begins anew, or the council has lost its keys. Nothing that was not seen before is evidence, and
    /// other nodes may return to it later than this one.
    pub fn handle_council_returned(&mut self, now: Instant) {
        self.returned_by = now + COUNCIL_RETURN;
        for known in self.known.values_mut() {
            known.patience = COUNCIL_RETURN;
        }
        self.begin_anew(now);
    }

    /// Suspects members whose renewals are late, and asks the council for those whose time is over.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<MembershipEffect>) {
        if now.since(self.called_at) > PAUSE {
            self.begin_anew(now);
        }
        self.called_at = now;
        if self.is_council_away {
            return;
        }
        for (life, known) in &mut self.known {
            known.expire(now, *life, out);
        }
    }

    /// The time at which [`Members::expire`] is due: often enough to tell a pause of this node from silence of the others.
    pub fn deadline(&self) -> Instant {
        self.called_at + PAUSE / 2
    }

    /// The announced members that are not missing, dead or left, in ascending order of their lives. Suspects are among them.
    pub fn live(&self) -> impl Iterator<Item = &Member> {
        let is_live = |known: &&Known| matches!(known.health, Health::Live | Health::Suspect { .. });
        self.known.values().filter(is_live).filter_map(|known| known.member.as_ref())
    }

    /// An announced member by its life, if it is neither dead nor left.
    pub fn get(&self, life: Life) -> Option<&Member> {
        self.known.get(&life).filter(|known| !known.is_over()).and_then(|known| known.member.as_ref())
    }

    /// Lives that are dead, have left or are missing, in ascending order.
    pub fn missing(&self) -> impl Iterator<Item = Life> + '_ {
        let is_missing = |known: &Known| known.is_over() || known.health == Health::Missing;
        self.known.iter().filter(move |(_, known)| is_missing(known)).map(|(life, _)| *life)
    }

    /// True if the member's renewals are late.
    pub fn is_suspect(&self, life: Life) -> bool {
        self.known.get(&life).is_some_and(|known| matches!(known.health, Health::Suspect { .. }))
    }

    /// True if the life is dead or has left.
    pub fn is_dead(&self, life: Life) -> bool {
        self.known.get(&life).is_some_and(Known::is_over)
    }

    /// Lives that are dead or have left, in ascending order.
    pub fn dead(&self) -> impl Iterator<Item = Life> + '_ {
        self.known.iter().filter(|(_, known)| known.is_over()).map(|(life, _)| *life)
    }

    /// The reason why a node may not be a member.
    ///
    /// # Errors
    /// The [`Refusal`].
    pub fn check(&self, member: &Member) -> Result<(), Refusal> {
        if member.farm != self.farm {
            return Err(Refusal::OtherFarm(member.farm.clone()));
        }
        if member.wire.1 < self.wire.0 || member.wire.0 > self.wire.1 {
            return Err(Refusal::WireRange { least: member.wire.0, most: member.wire.1 });
        }
        if !(1..=SHARDS).contains(&member.shards) {
            return Err(Refusal::TooManyShards(member.shards));
        }
        if self.is_dead(member.life) && member.state != MemberState::Left {
            return Err(Refusal::Dead);
        }
        let namesake = self.live().find(|other| other.name == member.name && other.life < member.life);
        if let Some(other) = namesake {
            return Err(Refusal::NameInUse(other.life));
        }
        let is_new = !self.known.contains_key(&member.life);
        if is_new && self.known.len() >= MEMBERS && self.dead().next().is_none() {
            return Err(Refusal::TooManyMembers);
        }
        Ok(())
    }

    /// The dead and left are forgotten, the oldest first, when there is no more room.
    fn insert(&mut self, now: Instant, life: Life, member: Option<Member>) {
        if self.known.len() >= MEMBERS {
            let Some(oldest) = self.dead().next() else { return };
            self.known.remove(&oldest);
        }
        // An announcement that is read for the first time may be as old as one that is not there.
        let patience = TAKEOVER.max(self.returned_by.since(now));
        let known = Known { member, seen_at: now, patience, refused_at: None, health: Health::Live };
        self.known.insert(life, known);
    }

    fn suspect(&mut self, now: Instant, life: Life, out: &mut Vec<MembershipEffect>) {
        if let Some(known) = self.known.get_mut(&life) {
            known.suspect(life, out);
            known.ask(now, life, out);
        }
    }

    fn begin_anew(&mut self, now: Instant) {
        for known in self.known.values_mut() {
            known.seen_at = now;
            known.refused_at = known.refused_at.map(|_| now);
        }
    }
}

impl Known {
    /// True if the life will never be a member again.
    fn is_over(&self) -> bool {
        matches!(self.health, Health::Dead | Health::Left)
    }

    /// True if the announcement was made after the one that is known: a key that is read may be an old one.
    fn is_new(&self, member: &Member) -> bool {
        self.member.as_ref().is_none_or(|known| known.renewal < member.renewal)
    }

    /// Takes over an announcement; the news, if it is one.
    fn renew(&mut self, member: Member) -> Option<fn(Life) -> MembershipEffect> {
        if self.is_over() {
            return None;
        }
        let before = self.member.replace(member);
        if self.member.as_ref().is_some_and(|member| member.state == MemberState::Left) {
            self.health = Health::Left;
            return Some(MembershipEffect::Left);
        }
        let was_suspect = self.health != Health::Live;
        self.health = Health::Live;
        match (before, &self.member) {
            (Some(before), Some(member)) if !before.says_the_same(member) => Some(MembershipEffect::Changed),
            (None, _) => Some(MembershipEffect::Joined),
            _ => was_suspect.then_some(MembershipEffect::Recovered as fn(Life) -> MembershipEffect),
        }
    }

    /// True if the member would be missing at that time, unless the council has a renewal that was not seen.
    fn is_overdue(&self, now: Instant) -> bool {
        let is_refused = self.refused_at.is_some_and(|at| now.since(at) >= REFUSED_TAKEOVER);
        matches!(self.health, Health::Suspect { .. })
            && (is_refused || now.since(self.seen_at) >= self.patience)
    }

    fn suspect(&mut self, life: Life, out: &mut Vec<MembershipEffect>) {
        if self.health == Health::Live {
            self.health = Health::Suspect { asked_at: None };
            out.push(MembershipEffect::Suspected(life));
        }
    }

    fn expire(&mut self, now: Instant, life: Life, out: &mut Vec<MembershipEffect>) {
        if now.since(self.seen_at) >= SUSPICION {
            self.suspect(life, out);
        }
        if self.is_overdue(now) {
            self.ask(now, life, out);
        }
    }

    /// Asks once a second. The first question after the time is over must not wait for an earlier one.
    fn ask(&mut self, now: Instant, life: Life, out: &mut Vec<MembershipEffect>) {
        let is_overdue = |at| self.is_overdue(at);
        let Health::Suspect { asked_at } = self.health else { return };
        let is_due =
            asked_at.is_none_or(|at| now.since(at) >= COUNCIL_ANSWER || (is_overdue(now) && !is_overdue(at)));
        if is_due {
            self.health = Health::Suspect { asked_at: Some(now) };
            out.push(MembershipEffect::Ask(life));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::tests::member;

    fn at(millis: u64) -> Instant {
        Instant::from_micros(millis * 1_000)
    }

    /// The announcement of a life at a time.
    fn renewed(life: u32, millis: u64) -> Member {
        Member { renewal: millis + 1, ..member(life) }
    }

    fn after(
        members: &mut Members,
        input: impl FnOnce(&mut Members, &mut Vec<MembershipEffect>),
    ) -> Vec<MembershipEffect> {
        let mut out = Vec::new();
        input(members, &mut out);
        out
    }

    /// The lives 1 and 2 announced at 0; `expire` is called as often as it asks.
    fn two() -> Members {
        let mut members = Members::new("farm", (1, 1), at(0));
        members.set_council_away(at(0), false);
        for life in [1, 2] {
            let news = after(&mut members, |m, out| m.handle_announced(at(0), member(life), out));
            assert_eq!(news, [MembershipEffect::Joined(Life(life))]);
        }
        members
    }

    /// Expires every 100 ms up to `until`; life 1 renews.
    fn pass(members: &mut Members, from: u64, until: u64) -> Vec<MembershipEffect> {
        let mut out = Vec::new();
        for now in (from..=until).step_by(100) {
            members.handle_announced(at(now), renewed(1, now), &mut out);
            members.expire(at(now), &mut out);
        }
        out
    }

    #[test]
    fn silence_makes_a_suspect_and_the_council_decides_after_the_time() {
        let mut members = two();
        assert_eq!(pass(&mut members, 0, 2_100), []);
        assert_eq!(pass(&mut members, 2_200, 4_400), [MembershipEffect::Suspected(Life(2))]);
        // An absence before the time is over proves nothing.
        assert_eq!(after(&mut members, |m, out| m.handle_read(at(4_450), Life(2), at(4_400), None, out)), []);
        assert_eq!(pass(&mut members, 4_500, 4_500), [MembershipEffect::Ask(Life(2))]);
        let died = after(&mut members, |m, out| m.handle_read(at(4_550), Life(2), at(4_500), None, out));
        assert_eq!(died, [MembershipEffect::Missing(Life(2))]);
        assert_eq!(members.live().count(), 1);
        // The map makes it a death.
        let agreed = after(&mut members, |m, out| m.handle_dead(at(4_600), Life(2), out));
        assert_eq!(agreed, [MembershipEffect::Died(Life(2))]);
        assert_eq!(members.check(&member(2)), Err(Refusal::Dead));
    }

    #[test]
    fn a_renewal_recovers_a_suspect() {
        let mut members = two();
        pass(&mut members, 0, 3_000);
        let news = after(&mut members, |m, out| m.handle_announced(at(3_000), renewed(2, 3_000), out));
        assert_eq!(news, [MembershipEffect::Recovered(Life(2))]);
        assert_eq!(pass(&mut members, 3_100, 5_000), []);
    }

    #[test]
    fn a_key_that_the_council_forgot_is_a_hint() {
        let mut members = two();
        pass(&mut members, 0, 500);
        let news = after(&mut members, |m, out| m.handle_key_gone(at(500), Life(2), out));
        assert_eq!(news, [MembershipEffect::Suspected(Life(2)), MembershipEffect::Ask(Life(2))]);
        assert_eq!(after(&mut members, |m, out| m.handle_read(at(510), Life(2), at(500), None, out)), []);
        assert!(members.get(Life(2)).is_some());
    }

    #[test]
    fn a_key_that_was_not_renewed_is_no_sign_of_life() {
        let mut members = two();
        pass(&mut members, 0, 500);
        after(&mut members, |m, out| m.handle_connection_refused(at(500), Life(2), out));
        // The council still has the key, as it was written before.
        let old = Some(renewed(2, 0));
        assert_eq!(
            after(&mut members, |m, out| m.handle_read(at(510), Life(2), at(500), old.clone(), out)),
            []
        );
        assert_eq!(pass(&mut members, 600, 2_000), [MembershipEffect::Ask(Life(2))]);
        let died = after(&mut members, |m, out| m.handle_read(at(2_010), Life(2), at(2_000), old, out));
        assert_eq!(died, [MembershipEffect::Missing(Life(2))]);
    }

    #[test]
    fn a_missing_member_that_the_farm_does_not_count_as_dead_comes_back() {
        let mut members = two();
        pass(&mut members, 0, 4_500);
        after(&mut members, |m, out| m.handle_read(at(4_550), Life(2), at(4_500), None, out));
        let news = after(&mut members, |m, out| m.handle_announced(at(4_600), renewed(2, 4_600), out));
        assert_eq!(news, [MembershipEffect::Recovered(Life(2))]);
        assert_eq!(members.missing().count(), 0);
    }

    #[test]
    fn a_key_that_was_renewed_ends_the_suspicion() {
        let mut members = two();
        pass(&mut members, 0, 4_500);
        let new = Some(renewed(2, 4_000));
        let news = after(&mut members, |m, out| m.handle_read(at(4_510), Life(2), at(4_500), new, out));
        assert_eq!(news, [MembershipEffect::Recovered(Life(2))]);
    }

    #[test]
    fn a_host_that_refuses_connections_shortens_the_wait() {
        let mut members = two();
        pass(&mut members, 0, 500);
        after(&mut members, |m, out| m.handle_connection_refused(at(500), Life(2), out));
        assert_eq!(pass(&mut members, 600, 1_400), []);
        assert_eq!(pass(&mut members, 1_500, 2_000), [MembershipEffect::Ask(Life(2))]);
        let died = after(&mut members, |m, out| m.handle_read(at(2_010), Life(2), at(2_000), None, out));
        assert_eq!(died, [MembershipEffect::Missing(Life(2))]);
    }

    #[test]
    fn nobody_dies_while_the_council_is_away() {
        let mut members = two();
        pass(&mut members, 0, 1_000);
        members.set_council_away(at(1_000), true);
        assert_eq!(pass(&mut members, 1_100, 20_000), []);
        members.set_council_away(at(20_000), false);
        assert_eq!(pass(&mut members, 20_000, 22_000), []);
    }

    #[test]
    fn members_have_time_to_return_to_a_council_that_is_back_without_its_keys() {
        let mut members = two();
        pass(&mut members, 0, 1_000);
        members.handle_council_returned(at(1_000));
        let asked = pass(&mut members, 1_000, 9_900);
        assert_eq!(asked, [MembershipEffect::Suspected(Life(2))]);
        assert_eq!(after(&mut members, |m, out| m.handle_read(at(9_900), Life(2), at(9_900), None, out)), []);
        assert_eq!(pass(&mut members, 10_000, 10_000), [MembershipEffect::Ask(Life(2))]);
        let died = after(&mut members, |m, out| m.handle_read(at(10_010), Life(2), at(10_000), None, out));
        assert_eq!(died, [MembershipEffect::Missing(Life(2))]);
    }

    #[test]
    fn a_member_that_has_returned_is_missing_as_soon_as_ever() {
        let mut members = two();
        members.handle_council_returned(at(1_000));
        after(&mut members, |m, out| m.handle_announced(at(2_000), renewed(2, 2_000), out));
        let asked = pass(&mut members, 2_000, 6_500);
        assert_eq!(asked, [MembershipEffect::Suspected(Life(2)), MembershipEffect::Ask(Life(2))]);
    }

    #[test]
    fn the_time_in_which_this_node_was_stopped_does_not_count() {
        let mut members = two();
        pass(&mut members, 0, 1_000);
        assert_eq!(after(&mut members, |m, out| m.expire(at(60_000), out)), []);
        assert_eq!(pass(&mut members, 60_100, 62_100), []);
    }

    #[test]
    fn refusals_name_their_reason() {
        let members = two();
        let mut other = member(3);
        other.farm = "elsewhere".into();
        assert_eq!(members.check(&other), Err(Refusal::OtherFarm("elsewhere".into())));
        let mut newer = member(3);
        newer.wire = (2, 3);
        assert_eq!(members.check(&newer), Err(Refusal::WireRange { least: 2, most: 3 }));
        let mut namesake = member(3);
        namesake.name = member(1).name;
        assert_eq!(members.check(&namesake), Err(Refusal::NameInUse(Life(1))));
        let mut large = member(3);
        large.shards = 257;
        assert_eq!(members.check(&large), Err(Refusal::TooManyShards(257)));
        assert!(members.check(&member(3)).is_ok());
    }

    #[test]
    fn a_member_that_leaves_is_gone_at_once() {
        let mut members = two();
        let mut left = renewed(2, 100);
        left.state = MemberState::Left;
        let news = after(&mut members, |m, out| m.handle_announced(at(100), left, out));
        assert_eq!(news, [MembershipEffect::Left(Life(2))]);
        assert_eq!(members.dead().collect::<Vec<_>>(), [Life(2)]);
    }

    #[test]
    fn members_are_bounded_and_the_dead_make_room() {
        let mut members = Members::new("farm", (1, 1), at(0));
        for life in 1..=256 {
            after(&mut members, |m, out| m.handle_announced(at(0), member(life), out));
        }
        assert_eq!(members.check(&member(257)), Err(Refusal::TooManyMembers));
        after(&mut members, |m, out| m.handle_dead(at(0), Life(7), out));
        let news = after(&mut members, |m, out| m.handle_announced(at(0), member(257), out));
        assert_eq!(news, [MembershipEffect::Joined(Life(257))]);
    }
}
