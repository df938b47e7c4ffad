//! The members of a farm as one node sees them: from announcements in the council, from links, and from the time that has passed.
//!
//! A link that breaks is a hint, a lease that ends is a death. A node is missing when its renewals have not been seen for
//! [`TAKEOVER`] *and* the council, asked after that, has no newer one either. Time in which this node was stopped or the
//! council was away proves nothing and is not counted. A council that is back may have forgotten all keys, and other nodes may
//! be back there later than this one: a member has [`COUNCIL_RETURN`] to be seen again. A host that refuses connections
//! shortens the wait: a process that runs, even a stopped one, is not refused.

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
    WireRange {
        /// The least wire version that the refused node speaks.
        least: u16,
        /// The greatest wire version that the refused node speaks.
        most: u16,
    },
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

    /// The announced members that are neither dead nor left, in ascending order of their lives. Missing ones are among them: until the map
    /// counts them as dead they may come back.
    pub fn announced(&self) -> impl Iterator<Item = &Member> {
        self.known.values().filter(|known| !known.is_over()).filter_map(|known| known.member.as_ref())
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
        let is_late = |known: &Known| matches!(known.health, Health::Suspect { .. } | Health::Missing);
        self.known.get(&life).is_some_and(is_late)
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
mod tests;
