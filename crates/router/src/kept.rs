//! Messages kept until their address comes back. The store has them; here are only their number, and the
//! edges that deliver them.

use std::collections::{HashMap, VecDeque};

use cluster::Bucket;
use stdx::Instant;
use stdx::hash::Keyed;
use stdx::wheel::Wheel;

use crate::interface::{Aor, KeepRefused, Push, ShardAddress, WaitingMessage};
use crate::limits;
use crate::owned_buckets::ReadFailed;
use crate::router::{Effect, Router};

pub(crate) struct MessageQueue {
    keyed: Keyed,
    /// By the hash of the address: most addresses have none.
    counts: HashMap<u64, Count>,
    deliveries: HashMap<u64, Delivery>,
    wheel: Wheel<u64>,
}

#[derive(Clone, Copy)]
struct Count {
    kept: u32,
    /// Accepted, on their way to the disk: fewer than `limits::KEPT_PER_ADDRESS`.
    writing: u16,
    /// The number of the address's bucket.
    bucket: u16,
}

/// Messages on their way out, one at a time, so that they arrive in the order they were sent.
struct Delivery {
    edge: ShardAddress,
    /// Given up then; the rest waits for the next REGISTER.
    until: Instant,
    stage: Stage,
}

enum Stage {
    /// `written`: messages that reached the disk meanwhile. The read may return them or not.
    Loading {
        written: u32,
    },
    Sending {
        outstanding: u64,
        rest: VecDeque<WaitingMessage>,
    },
}

impl Count {
    fn is_of(&self, buckets: impl Fn(Bucket) -> bool) -> bool {
        Bucket::with_number(self.bucket).is_some_and(buckets)
    }
}

impl MessageQueue {
    pub(crate) fn new(keyed: Keyed, now: Instant) -> Self {
        MessageQueue { keyed, counts: HashMap::new(), deliveries: HashMap::new(), wheel: Wheel::new(now) }
    }

    pub(crate) fn seed(&mut self, aor: &str, count: u32) {
        self.set(self.hash(aor), Count { kept: count, writing: 0, bucket: Bucket::of(aor).number() });
    }

    /// Forgets the counts of buckets that `is_gone` names, and the deliveries of their messages.
    pub(crate) fn forget(&mut self, is_gone: impl Fn(Bucket) -> bool) {
        self.end_deliveries(&is_gone);
        self.counts.retain(|_, count| !count.is_of(&is_gone));
    }

    /// No message of these buckets is delivered from here any more.
    pub(crate) fn end_deliveries(&mut self, is_gone: impl Fn(Bucket) -> bool) {
        let counts = &self.counts;
        self.deliveries.retain(|hash, _| !counts.get(hash).is_some_and(|count| count.is_of(&is_gone)));
    }

    /// The number of messages kept for this address.
    pub(crate) fn count(&self, aor: &str) -> u32 {
        // Every registration asks, and mostly no message is kept at all.
        if self.counts.is_empty() {
            0
        } else {
            self.counts.get(&self.hash(aor)).map_or(0, |count| count.kept)
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.counts.values().map(|count| count.kept as usize).sum()
    }

    /// Counts the message as on its way to the record, which numbers it, while fewer than `limit` are kept.
    pub(crate) fn accept(&mut self, message: &WaitingMessage, limit: u32) -> Result<(), KeepRefused> {
        if message.body.len() > limits::KEPT_BYTES {
            return Err(KeepRefused::TooLarge);
        }
        let hash = self.hash(&message.aor);
        let count = self.count_or_none(hash, &message.aor);
        if count.kept.saturating_add(u32::from(count.writing)) >= limit {
            return Err(KeepRefused::TooMany);
        }
        self.set(hash, Count { writing: count.writing + 1, ..count });
        Ok(())
    }

    pub(crate) fn handle_written(&mut self, aor: &str, written: bool) {
        let hash = self.hash(aor);
        let count = self.count_or_none(hash, aor);
        let kept = count.kept.saturating_add(u32::from(written));
        self.set(hash, Count { kept, writing: count.writing.saturating_sub(1), ..count });
        if let Some(Delivery { stage: Stage::Loading { written: so_far }, .. }) =
            self.deliveries.get_mut(&hash)
        {
            *so_far += u32::from(written);
        }
    }

    pub(crate) fn expire(&mut self, now: Instant) {
        let mut due = Vec::new();
        self.wheel.expire(now, &mut due);
        for hash in due {
            // A delivery that went on since has a later entry.
            if self.deliveries.get(&hash).is_some_and(|delivery| delivery.until <= now) {
                self.deliveries.remove(&hash);
            }
        }
    }

    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.wheel.deadline()
    }

    fn start(&mut self, now: Instant, hash: u64, edge: ShardAddress, stage: Stage) {
        let until = now + limits::DELIVERY_PATIENCE;
        self.wheel.insert(until, hash);
        self.deliveries.insert(hash, Delivery { edge, until, stage });
    }

    fn set(&mut self, hash: u64, count: Count) {
        if count.kept == 0 && count.writing == 0 {
            self.counts.remove(&hash);
        } else {
            self.counts.insert(hash, count);
        }
    }

    fn set_kept(&mut self, hash: u64, aor: &str, kept: u32) {
        let count = self.count_or_none(hash, aor);
        self.set(hash, Count { kept, ..count });
    }

    /// The count of an address; zero for one that nothing is kept for.
    fn count_or_none(&self, hash: u64, aor: &str) -> Count {
        let none = || Count { kept: 0, writing: 0, bucket: Bucket::of(aor).number() };
        self.counts.get(&hash).copied().unwrap_or_else(none)
    }

    fn hash(&self, aor: &str) -> u64 {
        self.keyed.hash(aor.as_bytes())
    }
}

impl Router {
    /// The address is there, by way of this edge: the messages kept for it may go out.
    pub(crate) fn load_kept(&mut self, now: Instant, edge: ShardAddress, aor: &Aor, out: &mut Vec<Effect>) {
        if self.kept.count(aor) == 0 {
            return;
        }
        let hash = self.kept.hash(aor);
        match self.kept.deliveries.get_mut(&hash) {
            Some(delivery) if delivery.until > now => delivery.edge = edge,
            _ => {
                self.kept.start(now, hash, edge, Stage::Loading { written: 0 });
                out.push(Effect::LoadKept { aor: aor.clone() });
            }
        }
    }

    /// The answer to `Effect::LoadKept`: all that is kept, oldest first. A read that failed says nothing about what is kept: the count
    /// stays, so that the next REGISTER asks again.
    pub fn handle_kept(
        &mut self,
        now: Instant,
        aor: &str,
        messages: Result<Vec<WaitingMessage>, ReadFailed>,
        out: &mut Vec<Effect>,
    ) {
        let hash = self.kept.hash(aor);
        let Some(Delivery { edge, stage: Stage::Loading { written }, .. }) = self.kept.deliveries.get(&hash)
        else {
            return;
        };
        let (edge, written) = (*edge, *written);
        let Ok(messages) = messages else {
            self.kept.deliveries.remove(&hash);
            return;
        };
        let oldest = now - limits::LONGEST_KEPT;
        let (fresh, stale): (Vec<_>, Vec<_>) =
            messages.into_iter().partition(|message| message.sent_at >= oldest && !message.has_expired(now));
        // The truth, as far as we know it: at most too high, until the next load.
        self.kept.set_kept(hash, aor, u32::try_from(fresh.len()).unwrap_or(u32::MAX).saturating_add(written));
        for message in stale {
            out.push(Effect::ForgetMessage { aor: message.aor, id: message.id });
        }
        self.notify(now, aor, out);
        self.deliver(now, edge, aor, fresh.into(), out);
    }

    /// It got through, or was refused for good.
    pub(crate) fn handle_delivered(&mut self, now: Instant, aor: &Aor, message: u64, out: &mut Vec<Effect>) {
        out.push(Effect::ForgetMessage { aor: aor.clone(), id: message });
        let hash = self.kept.hash(aor);
        let Some(Delivery { edge, stage: Stage::Sending { outstanding, rest }, .. }) =
            self.kept.deliveries.get_mut(&hash)
        else {
            // Late: the delivery was given up. The count is put right by the next load.
            return;
        };
        if *outstanding != message {
            return;
        }
        let (edge, mut rest) = (*edge, std::mem::take(rest));
        let before = rest.len();
        // RFC 3428 §4: those that have expired since they were read are not delivered.
        rest.retain(|waiting| {
            let has_expired = waiting.has_expired(now);
            if has_expired {
                out.push(Effect::ForgetMessage { aor: aor.clone(), id: waiting.id });
            }
            !has_expired
        });
        // Those, and the one that was delivered.
        let gone = u32::try_from(before - rest.len()).unwrap_or(u32::MAX).saturating_add(1);
        self.kept.set_kept(hash, aor, self.kept.count(aor).saturating_sub(gone));
        self.notify(now, aor, out);
        self.deliver(now, edge, aor, rest, out);
    }

    fn deliver(
        &mut self,
        now: Instant,
        edge: ShardAddress,
        aor: &str,
        mut messages: VecDeque<WaitingMessage>,
        out: &mut Vec<Effect>,
    ) {
        let hash = self.kept.hash(aor);
        let bindings = self.location.lookup(now, aor);
        let Some(message) = messages.pop_front().filter(|_| !bindings.is_empty()) else {
            self.kept.deliveries.remove(&hash);
            return;
        };
        self.kept.start(now, hash, edge, Stage::Sending { outstanding: message.id, rest: messages });
        out.push(Effect::Push { to: edge, push: Push::Deliver { bindings, message: Box::new(message) } });
    }
}
