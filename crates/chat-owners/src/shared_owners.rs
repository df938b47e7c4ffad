//! The owners of chat addresses in a farm whose nodes share a database: buckets move between shards of all nodes. A message
//! for an address whose owner is not known, or does not serve the bucket yet, waits here, in the order of its bucket, until the owner
//! is there or its patience ends. [`ShardQueues`](super::shard_queues::ShardQueues) asks it for the way of each message; the server performs the rest.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use cluster::{Bucket, ShardAddress, ShardMap};
use farm::view::FarmView;
use router::BucketSet;
use shard_message::XmppShardMessage;
use stdx::Instant;

use super::message::{bucket_of, bytes_of};
use super::restore_barrier::RestoreBarrier;
use super::shard_queues::{MessageTarget, Way};
use crate::limits::{XMPP_OWNER_PATIENCE, XMPP_OWNER_WAITING, XMPP_OWNER_WAITING_BYTES};

/// The pause between two looks at messages that wait: views of nodes differ for about as long when the map changes.
const RETRY: Duration = Duration::from_millis(100);

/// Bytes of a message beside its stanza, about.
const MESSAGE_HEAD: usize = 256;

/// A message that waits for its receiver.
#[derive(Debug)]
pub struct WaitingMessage {
    /// The receiver.
    pub target: MessageTarget,
    /// The message itself.
    pub message: XmppShardMessage,
    /// The end of its patience.
    until: Instant,
    bytes: usize,
}

/// The writes of buckets that this shard has stopped to serve. The next owner reads them from the database, so that the buckets are not
/// drained before the writes have ended.
#[derive(Debug)]
struct DrainingBuckets {
    buckets: BucketSet,
    /// Requests of the store up to this number have to be answered.
    mark: u64,
    /// The answers may have caused more requests, so many times: the mark is then set to the last request as it is at that time.
    rounds: u8,
}

/// A read of an account, the write that follows from it, and one that had waited for that write.
const DRAIN_ROUNDS: u8 = 3;

/// The owners as one shard knows them, and the messages that wait for them.
#[derive(Debug)]
pub struct SharedOwners {
    own: ShardAddress,
    /// The farm as this shard knows it.
    pub view: Option<Arc<FarmView>>,
    /// Buckets that this shard owns and serves.
    served: BucketSet,
    /// The node has the authority of an owner.
    may_act: bool,
    /// Those for one bucket in the order in which they came.
    waiting: VecDeque<WaitingMessage>,
    /// The number of messages that wait for the owner of each bucket; none of them is 0.
    waiting_of: HashMap<Bucket, usize>,
    /// Bytes of the messages that wait.
    bytes: usize,
    /// The next look at them.
    next_try: Option<Instant>,
    draining: Vec<DrainingBuckets>,
    /// Buckets of the owner that has died last.
    lost: BucketSet,
    /// Buckets of dead owners whose sessions are being announced.
    barrier: RestoreBarrier,
    /// Messages for the buckets that the shard begins to serve are handled now, for the first time.
    is_beginning: bool,
    /// The time to look for accounts of new buckets whose messages wait for phones.
    begin_at: Option<Instant>,
}

/// A change of the farm, as chat has to follow it.
#[derive(Debug, Default)]
pub struct OwnerChange {
    /// Buckets that have another owner than before.
    pub moved: BucketSet,
    /// Those of them whose earlier owner is dead.
    pub lost: BucketSet,
    /// Shards that were not there before.
    pub new_shards: Vec<ShardAddress>,
    /// Nodes have gone, and their connections with them.
    pub has_lost_nodes: bool,
}

impl SharedOwners {
    /// The owners as this shard knows them before the first view of the farm: none.
    pub fn new(own: ShardAddress) -> SharedOwners {
        SharedOwners {
            own,
            view: None,
            served: BucketSet::default(),
            may_act: false,
            waiting: VecDeque::new(),
            waiting_of: HashMap::new(),
            bytes: 0,
            next_try: None,
            draining: Vec::new(),
            lost: BucketSet::default(),
            barrier: RestoreBarrier::default(),
            is_beginning: false,
            begin_at: None,
        }
    }

    /// The way of a message now; messages that came before it for the same bucket go first.
    pub fn way(&self, target: MessageTarget, local: ShardMap) -> Way {
        match target {
            MessageTarget::Owner(bucket) if self.waiting_of.contains_key(&bucket) => Way::Wait,
            _ => self.direct_way(target, local),
        }
    }

    /// The way of a message as if none waited.
    fn direct_way(&self, target: MessageTarget, local: ShardMap) -> Way {
        let view = self.view.as_deref();
        let has = |address: &ShardAddress| view.is_some_and(|view| view.has(*address));
        match target {
            MessageTarget::Owner(bucket) => match view.and_then(|view| view.owner(bucket)).filter(has) {
                Some(owner) if owner == self.own && self.serves(bucket) => Way::Own,
                None => Way::Wait,
                // Ours by the map, and not loaded yet, or without the authority of an owner.
                Some(owner) if owner == self.own => Way::Wait,
                Some(owner) if local.has(owner) => Way::Shard(owner),
                Some(owner) => Way::Node(owner),
            },
            MessageTarget::Shard(shard) if shard == self.own => Way::Own,
            MessageTarget::Shard(shard) if local.has(shard) => Way::Shard(shard),
            MessageTarget::Shard(shard) if has(&shard) => Way::Node(shard),
            MessageTarget::Shard(_) => Way::Nowhere,
        }
    }

    /// True if the shard answers for addresses of this bucket now.
    pub fn serves(&self, bucket: Bucket) -> bool {
        self.may_act && self.served.contains(bucket)
    }

    /// True if messages can be sent to this shard.
    pub fn has(&self, shard: ShardAddress) -> bool {
        self.view.as_ref().is_some_and(|view| view.has(shard))
    }

    /// The target that a message from another shard waits for; none if the host may handle it now. Without the authority of an owner all
    /// messages for the host wait.
    pub fn handle_arrival(&self, message: &XmppShardMessage) -> Option<MessageTarget> {
        if let Some(bucket) = bucket_of(message) {
            // Behind those that wait for the same bucket, even if it is served now: they came before.
            let is_next = self.serves(bucket) && !self.waiting_of.contains_key(&bucket);
            return (!is_next).then_some(MessageTarget::Owner(bucket));
        }
        let is_for_host = matches!(
            message,
            XmppShardMessage::Stanza { .. }
                | XmppShardMessage::Nonza { .. }
                | XmppShardMessage::Gone { .. }
                | XmppShardMessage::Drained { .. }
        );
        (is_for_host && !self.may_act).then_some(MessageTarget::Shard(self.own))
    }

    /// Keeps a message until its receiver is there.
    ///
    /// # Errors
    /// The message: too many wait.
    pub fn wait(
        &mut self,
        now: Instant,
        target: MessageTarget,
        message: XmppShardMessage,
    ) -> Result<(), XmppShardMessage> {
        let bytes = MESSAGE_HEAD + bytes_of(&message);
        // The sender gets an error, and its client tries again; memory is bounded while owners are away.
        if self.waiting.len() >= XMPP_OWNER_WAITING || self.bytes + bytes > XMPP_OWNER_WAITING_BYTES {
            return Err(message);
        }
        self.bytes += bytes;
        if let MessageTarget::Owner(bucket) = target {
            *self.waiting_of.entry(bucket).or_default() += 1;
        }
        // A session comes before what is for it, and the occupants that were in a room before those that enter it.
        let is_first = match &message {
            XmppShardMessage::Restore { .. } => true,
            XmppShardMessage::Routed(element) => chat::announces_seen(element),
            _ => false,
        };
        let message = WaitingMessage { target, message, until: now + XMPP_OWNER_PATIENCE, bytes };
        if is_first {
            self.waiting.push_front(message);
        } else {
            self.waiting.push_back(message);
        }
        self.next_try.get_or_insert(now + RETRY);
        Ok(())
    }

    /// These messages wait for owners before all others. They have been sent before, and were within the bounds of
    /// [`UnhandledMessages`](super::unhandled::UnhandledMessages).
    pub fn wait_first(&mut self, now: Instant, messages: Vec<(Bucket, XmppShardMessage)>) {
        let mut first = VecDeque::with_capacity(messages.len());
        for (bucket, message) in messages {
            let bytes = MESSAGE_HEAD + bytes_of(&message);
            self.bytes += bytes;
            *self.waiting_of.entry(bucket).or_default() += 1;
            first.push_back(WaitingMessage {
                target: bucket.into(),
                message,
                until: now + XMPP_OWNER_PATIENCE,
                bytes,
            });
        }
        self.keep(now, first);
    }

    /// Drops the waiting elements of these streams of this shard: they go to the next owner with their sessions.
    pub fn drop_elements(&mut self, is_meant: impl Fn(u64) -> bool) {
        let own = self.own;
        let is_dropped = |waiting: &WaitingMessage| match &waiting.message {
            XmppShardMessage::Stanza { edge, .. } | XmppShardMessage::Nonza { edge, .. } => {
                edge.shard == own && is_meant(edge.connection)
            }
            _ => false,
        };
        let all = std::mem::take(&mut self.waiting);
        let (dropped, kept) = all.into_iter().partition::<VecDeque<_>, _>(is_dropped);
        self.waiting = kept;
        dropped.iter().for_each(|message| self.release(message));
    }

    /// Moves out the messages that wait; each goes back by [`SharedOwners::keep`] or to [`SharedOwners::release`].
    pub fn take_waiting(&mut self) -> VecDeque<WaitingMessage> {
        self.next_try = None;
        std::mem::take(&mut self.waiting)
    }

    /// The way of a message that has waited; `blocked` has the buckets of which an earlier message still waits.
    pub fn way_of_waiting(
        &self,
        waiting: &WaitingMessage,
        blocked: &HashSet<Bucket>,
        local: ShardMap,
    ) -> Way {
        match waiting.target {
            MessageTarget::Owner(bucket) if blocked.contains(&bucket) => Way::Wait,
            MessageTarget::Shard(shard) if shard == self.own && !self.may_act => Way::Wait,
            target => self.direct_way(target, local),
        }
    }

    /// The message waits no longer.
    pub fn release(&mut self, waiting: &WaitingMessage) {
        self.bytes -= waiting.bytes;
        if let MessageTarget::Owner(bucket) = waiting.target
            && let Some(count) = self.waiting_of.get_mut(&bucket)
        {
            *count -= 1;
            if *count == 0 {
                self.waiting_of.remove(&bucket);
            }
        }
    }

    /// These wait on, before those that have come since [`SharedOwners::take_waiting`].
    pub fn keep(&mut self, now: Instant, mut kept: VecDeque<WaitingMessage>) {
        kept.append(&mut self.waiting);
        self.waiting = kept;
        if !self.waiting.is_empty() {
            self.next_try = Some(now + RETRY);
        }
    }

    /// The farm is now so.
    pub fn set_view(&mut self, view: &Arc<FarmView>) -> OwnerChange {
        // The first view: nothing has moved, and every shard is new.
        let Some(before) = self.view.replace(Arc::clone(view)) else {
            return OwnerChange { new_shards: view.shards().collect(), ..OwnerChange::default() };
        };
        let is_lost = |bucket: &Bucket| {
            before.owner(*bucket).is_some_and(|earlier| !view.peers.contains_key(&earlier.life))
        };
        let has_moved = |bucket: &Bucket| {
            let earlier = before.owner(*bucket);
            // A bucket without an owner before has no session that could have moved.
            earlier.is_some() && earlier != view.owner(*bucket)
        };
        let moved: BucketSet = (0..).map_while(Bucket::with_number).filter(has_moved).collect();
        let lost: BucketSet = moved.iter().filter(is_lost).collect();
        if !lost.is_empty() {
            self.lost.clone_from(&lost);
        }
        let own = self.own;
        let may_be_next = |bucket| view.owner(bucket).is_none_or(|owner| owner == own);
        self.barrier.handle_view(&lost, |shard| view.has(shard), may_be_next);
        OwnerChange {
            moved,
            lost,
            new_shards: view.shards().filter(|shard| !before.has(*shard)).collect(),
            has_lost_nodes: before.peers.keys().any(|life| !view.peers.contains_key(life)),
        }
    }

    /// Buckets of the owner that has died last.
    pub fn lost(&self) -> &BucketSet {
        &self.lost
    }

    /// The buckets whose sessions are being announced.
    pub fn barrier(&mut self) -> &mut RestoreBarrier {
        &mut self.barrier
    }

    /// The owner to which all messages of this bucket that have waited here are sent. None: it is not known, or some wait.
    pub fn informed_owner(&self, bucket: Bucket) -> Option<ShardAddress> {
        let owner = self.view.as_ref()?.owner(bucket).filter(|owner| self.has(*owner))?;
        (owner == self.own || !self.waiting_of.contains_key(&bucket)).then_some(owner)
    }

    /// True while the messages are handled that have waited for buckets which the shard begins to serve: nothing of these buckets was
    /// answered before.
    pub fn is_beginning(&self) -> bool {
        self.is_beginning
    }

    /// Sets [`SharedOwners::is_beginning`].
    pub fn set_beginning(&mut self, is_beginning: bool) {
        self.is_beginning = is_beginning;
    }

    /// The node has the authority of an owner, or has it no longer.
    pub fn set_may_act(&mut self, may_act: bool) {
        self.may_act = may_act;
    }

    /// The shard serves these buckets from now on. The store has all of them.
    pub fn serve(&mut self, now: Instant, buckets: &BucketSet) {
        buckets.iter().for_each(|bucket| self.served.insert(bucket));
        self.next_try = Some(now);
        self.begin_at.get_or_insert(now + RETRY);
    }

    /// The shard serves these buckets no longer. Returns those that it served.
    pub fn stop(&mut self, buckets: &BucketSet) -> BucketSet {
        self.barrier.remove(buckets);
        buckets.iter().filter(|bucket| self.served.remove(*bucket)).collect()
    }

    /// These buckets have ended; their requests to the store have numbers up to `last`.
    pub fn drain(&mut self, buckets: BucketSet, last: u64) {
        self.draining.push(DrainingBuckets { buckets, mark: last, rounds: DRAIN_ROUNDS });
    }

    /// Adds the ended buckets that have requests to the store under way to `writing`. `earliest`: the earliest request without an answer;
    /// `last`: the last request.
    pub fn writing(&mut self, earliest: Option<u64>, last: u64, writing: &mut BucketSet) {
        self.draining.retain_mut(|draining| {
            while earliest.is_none_or(|earliest| earliest > draining.mark) {
                // No request has been made since the mark: nothing can follow from the answers any more.
                if draining.rounds == 0 || draining.mark == last {
                    return false;
                }
                draining.rounds -= 1;
                draining.mark = last;
            }
            draining.buckets.iter().for_each(|bucket| writing.insert(bucket));
            true
        });
    }

    /// True once, when accounts of new buckets are to be looked for whose messages wait for phones.
    pub fn take_begin(&mut self, now: Instant) -> bool {
        let is_due = self.begin_at.is_some_and(|at| at <= now);
        if is_due {
            self.begin_at = None;
        }
        is_due
    }

    /// True if messages that wait are to be looked at.
    pub fn is_retry_due(&self, now: Instant) -> bool {
        self.next_try.is_some_and(|at| at <= now)
    }

    /// The time at which messages that wait, accounts of new buckets or the barrier are to be looked at.
    pub fn deadline(&self) -> Option<Instant> {
        self.next_try.into_iter().chain(self.begin_at).chain(self.barrier.deadline()).min()
    }
}

impl WaitingMessage {
    /// True if it has waited too long.
    pub fn is_over(&self, now: Instant) -> bool {
        self.until <= now
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use cluster::Life;
    use cluster::map::{FarmMap, Move};
    use cluster::member::{MemberState, Roles};
    use farm::view::FarmPeer;
    use xmpp::{Element, ns};

    use super::*;
    use crate::shard_queues::ShardQueues;

    const OWN: ShardAddress = ShardAddress { life: Life(1), shard: 0 };
    const OTHER: ShardAddress = ShardAddress { life: Life(2), shard: 0 };

    fn local() -> ShardMap {
        ShardMap::of_process(Life(1), 1)
    }

    /// The view in which these nodes of one shard live, and the last of them owns all buckets.
    pub(crate) fn view(lives: &[Life]) -> Arc<FarmView> {
        let peer = |life: &Life| FarmPeer {
            name: format!("n{life}").into(),
            address: "127.0.0.1:5280".parse().unwrap(),
            shards: 1,
            build: "0".into(),
            state: MemberState::Serving,
            roles: Roles::default(),
            weight: 100,
            is_suspect: false,
        };
        let mut map = FarmMap::default();
        let owner = ShardAddress::new(*lives.last().unwrap(), 0);
        let moves: Vec<Move> =
            (0..cluster::BUCKETS).map(|bucket| Move::Bucket { bucket, to: Some(owner) }).collect();
        map.apply(Instant::default(), &moves);
        let peers = lives.iter().map(|life| (*life, peer(life))).collect();
        Arc::new(FarmView { own: OWN.life, map, peers, is_council_away: false })
    }

    fn message(to: &str, number: usize) -> XmppShardMessage {
        let element = Element::new("message", ns::CLIENT).with("to", to).with("id", number.to_string());
        XmppShardMessage::Routed(Box::new(element))
    }

    fn bucket() -> Bucket {
        Bucket::of("alice@example.net")
    }

    fn of(bucket: Bucket) -> BucketSet {
        std::iter::once(bucket).collect()
    }

    #[test]
    fn a_message_goes_to_the_owner_once_it_serves_the_bucket() {
        let mut owners = SharedOwners::new(OWN);
        let (target, now) = (MessageTarget::from(bucket()), Instant::default());
        assert_eq!(owners.way(target, local()), Way::Wait, "no view");
        owners.set_view(&view(&[OWN.life, OTHER.life]));
        assert_eq!(owners.way(target, local()), Way::Node(OTHER));
        let change = owners.set_view(&view(&[OTHER.life, OWN.life]));
        assert!(change.moved.contains(bucket()) && !change.has_lost_nodes);
        assert_eq!(owners.way(target, local()), Way::Wait, "it is being read");
        owners.serve(now, &of(bucket()));
        assert_eq!(owners.way(target, local()), Way::Wait, "without authority");
        owners.set_may_act(true);
        assert_eq!(owners.way(target, local()), Way::Own);
        assert!(owners.handle_arrival(&message("alice@example.net/desk", 1)).is_none());
        assert!(owners.set_view(&view(&[OWN.life])).has_lost_nodes);
        assert!(!owners.stop(&of(bucket())).is_empty());
        assert_eq!(owners.handle_arrival(&message("alice@example.net/desk", 1)), Some(target));
    }

    #[test]
    fn occupants_are_announced_before_others_enter_their_room() {
        let (mut owners, now) = (SharedOwners::new(OWN), Instant::default());
        let stanza = |from: &'static str| {
            let seen =
                Element::new("presence", ns::CLIENT).with("to", "coven@conference.x").with("from", from);
            XmppShardMessage::Routed(Box::new(seen.child(Element::new("seen", "urn:belfry:rooms"))))
        };
        for from in ["alice@x/desk", "conference.x"] {
            let target = MessageTarget::from(Bucket::of("coven@conference.x"));
            owners.wait(now, target, stanza(from)).unwrap();
        }
        let XmppShardMessage::Routed(first) = &owners.take_waiting()[0].message else { panic!("a stanza") };
        assert_eq!(first.attr("from"), Some("conference.x"));
    }

    #[test]
    fn messages_of_one_bucket_keep_their_order() {
        let (mut queues, now) = (ShardQueues::new(OWN, local()), Instant::default());
        queues.share_buckets();
        let owners = queues.shared_mut().unwrap();
        let target = MessageTarget::from(bucket());
        owners.wait(now, target, message("alice@example.net", 1)).unwrap();
        owners.set_view(&view(&[OWN.life, OTHER.life]));
        assert_eq!(owners.way(target, local()), Way::Wait, "an earlier one waits");
        let waiting = owners.take_waiting();
        // One that comes while the others are looked at is behind them.
        owners.wait(now, target, message("alice@example.net", 2)).unwrap();
        let blocked = HashSet::from([bucket()]);
        assert_eq!(owners.way_of_waiting(&waiting[0], &HashSet::new(), local()), Way::Node(OTHER));
        assert_eq!(owners.way_of_waiting(&waiting[0], &blocked, local()), Way::Wait);
        owners.keep(now, waiting);
        assert!(owners.is_retry_due(now + RETRY) && !owners.is_retry_due(now));
        let ids = |waiting: &VecDeque<WaitingMessage>| -> Vec<String> {
            let id = |waiting: &WaitingMessage| match &waiting.message {
                XmppShardMessage::Routed(element) => element.attr("id").unwrap_or_default().to_owned(),
                _ => String::new(),
            };
            waiting.iter().map(id).collect()
        };
        let waiting = owners.take_waiting();
        assert_eq!(ids(&waiting), ["1", "2"]);
        waiting.iter().for_each(|message| owners.release(message));
        assert_eq!(owners.way(target, local()), Way::Node(OTHER), "none waits any more");
        assert_eq!(owners.bytes, 0);
    }

    #[test]
    fn messages_that_a_dead_owner_had_go_before_those_that_wait() {
        let (mut owners, now) = (SharedOwners::new(OWN), Instant::default());
        owners.wait(now, bucket().into(), message("alice@example.net", 3)).unwrap();
        let lost = [1, 2].map(|number| (bucket(), message("alice@example.net", number)));
        owners.wait_first(now, lost.into());
        let waiting = owners.take_waiting();
        let ids = waiting.iter().map(|waiting| match &waiting.message {
            XmppShardMessage::Routed(element) => element.attr("id").unwrap_or_default(),
            _ => "",
        });
        assert_eq!(ids.collect::<Vec<_>>(), ["1", "2", "3"]);
        waiting.iter().for_each(|message| owners.release(message));
        assert_eq!((owners.bytes, owners.waiting_of.len()), (0, 0));
    }

    #[test]
    fn so_many_messages_wait_and_for_so_long() {
        let (mut owners, now) = (SharedOwners::new(OWN), Instant::default());
        for number in 0..XMPP_OWNER_WAITING {
            owners.wait(now, bucket().into(), message("alice@example.net", number)).unwrap();
        }
        assert!(owners.wait(now, bucket().into(), message("alice@example.net", 0)).is_err());
        let waiting = owners.take_waiting();
        assert!(waiting[0].is_over(now + XMPP_OWNER_PATIENCE) && !waiting[0].is_over(now));
    }

    #[test]
    fn a_bucket_has_ended_when_its_requests_and_those_that_follow_from_them_are_answered() {
        let (mut owners, now) = (SharedOwners::new(OWN), Instant::default());
        owners.serve(now, &of(bucket()));
        let served = owners.stop(&of(bucket()));
        owners.drain(served, 10);
        let is_writing = |owners: &mut SharedOwners, earliest, last| {
            let mut writing = BucketSet::default();
            owners.writing(earliest, last, &mut writing);
            writing.contains(bucket())
        };
        assert!(is_writing(&mut owners, Some(8), 10));
        // The read of an account is answered, and a message is written.
        assert!(is_writing(&mut owners, Some(12), 12));
        // Requests of other buckets go on for ever.
        assert!(is_writing(&mut owners, Some(14), 20));
        assert!(is_writing(&mut owners, Some(22), 30));
        assert!(!is_writing(&mut owners, Some(32), 40));
        assert!(!is_writing(&mut owners, Some(32), 40), "it is reported once");
    }
}
