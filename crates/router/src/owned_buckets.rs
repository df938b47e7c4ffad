//! The buckets of one shard of a farm whose nodes share a database: each is loaded, served and stopped by the orders of
//! `cluster::tenure`, and a question is answered only while its bucket is served.
//!
//! ```text
//!          load                  all rows read            serve             stop
//!  absent ──────▶ queued/reading ─────────────▶ loaded ─────────▶ serving ─────────▶ stopped
//!    ▲                                                               ▲   serve, same    │
//!    │                                                               └── epoch ─────────┤
//!    └──────────────── the map has a later epoch: memory is given free ────────────────┘
//! ```
//!
//! While a bucket loads, a lookup is answered from its row, and other questions wait in a bounded line. A stopped bucket stays in
//! memory, as the node may have its authority back with the same epoch; `Load` begins with forgetting.
//!
//! The driver performs the effects in their order, with the store and the [`Router`](crate::Router).

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use cluster::{Bucket, Epoch, ShardAddress};
use stdx::Instant;

use crate::buckets::BucketSet;
use crate::interface::{Answer, Aor, AskId, Binding, Query};
use crate::limits;

/// A question of an edge.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitingQuestion {
    /// The edge that gets the answer.
    pub from: ShardAddress,
    /// The edge's number of the question.
    pub id: AskId,
    /// The question.
    pub query: Query,
}

/// An order of [`OwnedBuckets`] to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum BucketEffect {
    /// `Router::forget_buckets`.
    Forget(BucketSet),
    /// `Router::end_buckets`, and then [`OwnedBuckets::report_drained`].
    End(BucketSet),
    /// Read a page of the bindings of some buckets, by bucket and address; [`OwnedBuckets::handle_page`].
    ReadBindings {
        /// The number of the read.
        number: u64,
        /// The buckets, in ascending order.
        buckets: Vec<Bucket>,
        /// The last address that was read of the first bucket; empty if none was.
        after: Aor,
    },
    /// Read the numbers of the buckets' kept messages; [`OwnedBuckets::handle_page`] with the last page.
    ReadKeptCounts {
        /// The number of the read.
        number: u64,
        /// The buckets, in ascending order.
        buckets: Vec<Bucket>,
    },
    /// Read the bindings of one address; [`OwnedBuckets::handle_row`].
    ReadRow {
        /// The number of the read.
        number: u64,
        /// The bucket.
        bucket: Bucket,
        /// The address.
        aor: Aor,
    },
    /// Give the question to the router.
    Perform(WaitingQuestion),
    /// The answer to an edge.
    Answer {
        /// The edge that asked.
        to: ShardAddress,
        /// Its number of the question.
        id: AskId,
        /// The answer.
        answer: Answer,
    },
    /// Report these buckets as loaded, under these epochs.
    Loaded(Vec<(Bucket, Epoch)>),
    /// Report these buckets as drained, under these epochs.
    Drained(Vec<(Bucket, Epoch)>),
}

/// A page of rows that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPage {
    /// The last address of a page that is full; none for the last page.
    pub next: Option<Aor>,
}

/// The store could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFailed;

/// A bucket that memory has rows of, or gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OwnedBucket {
    epoch: Epoch,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// To be read, or being read. `is_served`: the order to serve has come already.
    Loading { is_served: bool },
    /// All rows are in memory.
    Loaded,
    /// Questions are answered.
    Serving,
    /// Questions are not answered any more. `is_drained`: no write is under way.
    Stopped { is_drained: bool },
}

/// The reading of some buckets.
#[derive(Debug)]
struct Load {
    /// The number of the read under way; reads of other numbers have been given up.
    number: u64,
    /// The buckets, in ascending order. One that is forgotten or loaded anew meanwhile is taken out.
    buckets: Vec<Bucket>,
    step: LoadStep,
    /// The next read after one that failed, and the pause before it.
    retry: Option<(Instant, Duration)>,
}

#[derive(Clone, Debug)]
enum LoadStep {
    /// The rows behind this address, which is of the bucket that has been read in part; empty before the first row.
    Bindings {
        after: Aor,
    },
    KeptCounts,
}

impl Load {
    /// The next read.
    fn read(&mut self, number: u64) -> BucketEffect {
        self.number = number;
        match &self.step {
            LoadStep::Bindings { after } => {
                let (buckets, after) = self.unread(after);
                BucketEffect::ReadBindings { number, buckets, after }
            }
            LoadStep::KeptCounts => BucketEffect::ReadKeptCounts { number, buckets: self.buckets.clone() },
        }
    }

    /// The buckets that have rows behind this address, and the address, unless its bucket was taken out.
    fn unread(&self, after: &Aor) -> (Vec<Bucket>, Aor) {
        if after.is_empty() {
            return (self.buckets.clone(), after.clone());
        }
        let last = Bucket::of(after);
        let unread: Vec<Bucket> = self.buckets.iter().copied().filter(|bucket| *bucket >= last).collect();
        let is_there = unread.first() == Some(&last);
        (unread, if is_there { after.clone() } else { "".into() })
    }
}

/// A lookup that is answered from its row.
#[derive(Debug)]
struct RowRead {
    bucket: Bucket,
    from: ShardAddress,
    id: AskId,
    aor: Aor,
}

/// The questions of one bucket that wait until it is served, with the ends of their patience.
type Line = VecDeque<(Instant, WaitingQuestion)>;

/// The buckets of one shard.
#[derive(Debug, Default)]
pub struct OwnedBuckets {
    buckets: HashMap<Bucket, OwnedBucket>,
    /// Buckets whose reading has not begun.
    queue: VecDeque<Bucket>,
    loads: Vec<Load>,
    rows: HashMap<u64, RowRead>,
    lines: HashMap<Bucket, Line>,
    waiting: usize,
    last_number: u64,
    /// The time of the next report of what was reported already, and of the next look at the lines.
    next_look: Option<Instant>,
    /// A stopped bucket may have a write under way.
    is_draining: bool,
}

impl OwnedBuckets {
    /// Orders to load buckets under these epochs: memory forgets what it has of them, and reads.
    pub fn load(&mut self, now: Instant, orders: &[(Bucket, Epoch)], out: &mut Vec<BucketEffect>) {
        self.begin_loads(now, orders, false, out);
    }

    /// Orders to serve buckets under these epochs. One whose rows are not in memory is loaded first.
    /// `may_act`: the node has the authority of an owner.
    pub fn serve(
        &mut self,
        now: Instant,
        may_act: bool,
        orders: &[(Bucket, Epoch)],
        out: &mut Vec<BucketEffect>,
    ) {
        let mut absent = Vec::new();
        for &(bucket, epoch) in orders {
            match self.buckets.get_mut(&bucket) {
                Some(owned) if owned.epoch == epoch => match &mut owned.phase {
                    Phase::Loading { is_served } => *is_served = true,
                    _ => {
                        owned.phase = Phase::Serving;
                        self.release_line(now, may_act, bucket, out);
                    }
                },
                _ => absent.push((bucket, epoch)),
            }
        }
        self.begin_loads(now, &absent, true, out);
    }

    /// Orders to stop buckets under these epochs. `Drained` follows once no write of theirs is under way.
    pub fn stop(&mut self, now: Instant, orders: &[(Bucket, Epoch)], out: &mut Vec<BucketEffect>) {
        let (mut ended, mut forgotten, mut drained) = (BucketSet::default(), Vec::new(), Vec::new());
        for &(bucket, epoch) in orders {
            match self.buckets.get_mut(&bucket) {
                Some(owned) if owned.epoch > epoch => {}
                Some(owned) if matches!(owned.phase, Phase::Serving | Phase::Loaded) => {
                    owned.phase = Phase::Stopped { is_drained: false };
                    ended.insert(bucket);
                    self.refuse_line(bucket, out);
                }
                Some(owned) if matches!(owned.phase, Phase::Stopped { .. }) => {}
                Some(_) => {
                    forgotten.push(bucket);
                    drained.push((bucket, epoch));
                }
                None => drained.push((bucket, epoch)),
            }
        }
        self.forget(forgotten, out);
        if !ended.is_empty() {
            self.is_draining = true;
            out.push(BucketEffect::End(ended));
        }
        if !drained.is_empty() {
            out.push(BucketEffect::Drained(drained));
        }
        self.look_later(now);
        self.begin_next(out);
    }

    /// True if a stopped bucket may still have writes under way: then [`OwnedBuckets::report_drained`] is due after each write.
    pub fn is_draining(&self) -> bool {
        self.is_draining
    }

    /// Reports the stopped buckets that have no write under way; `writing` are those that have one.
    pub fn report_drained(&mut self, writing: &BucketSet, out: &mut Vec<BucketEffect>) {
        let mut drained = Vec::new();
        self.is_draining = false;
        for (bucket, owned) in &mut self.buckets {
            if owned.phase != (Phase::Stopped { is_drained: false }) {
                continue;
            }
            if writing.contains(*bucket) {
                self.is_draining = true;
            } else {
                owned.phase = Phase::Stopped { is_drained: true };
                drained.push((*bucket, owned.epoch));
            }
        }
        if !drained.is_empty() {
            out.push(BucketEffect::Drained(drained));
        }
    }

    /// The map has these epochs. Buckets that another owner has taken over are forgotten.
    pub fn handle_map(&mut self, epoch_of: impl Fn(Bucket) -> Epoch, out: &mut Vec<BucketEffect>) {
        let is_over = |(bucket, owned): (&Bucket, &OwnedBucket)| {
            let is_writing = owned.phase == Phase::Stopped { is_drained: false };
            (!is_writing && epoch_of(*bucket) > owned.epoch).then_some(*bucket)
        };
        let over: Vec<Bucket> = self.buckets.iter().filter_map(is_over).collect();
        self.forget(over, out);
        self.begin_next(out);
    }

    /// Handles a question. `may_act`: the node has the authority of an owner.
    pub fn handle_question(
        &mut self,
        now: Instant,
        may_act: bool,
        question: WaitingQuestion,
        out: &mut Vec<BucketEffect>,
    ) {
        let bucket = Bucket::of(question.query.aor());
        match self.buckets.get(&bucket).map(|owned| owned.phase).filter(|_| may_act) {
            Some(Phase::Serving) => out.push(BucketEffect::Perform(question)),
            Some(Phase::Loading { .. } | Phase::Loaded) => match question.query {
                Query::Lookup { aor } if self.rows.len() < limits::ROW_READS => {
                    let number = self.next_number();
                    let WaitingQuestion { from, id, .. } = question;
                    self.rows.insert(number, RowRead { bucket, from, id, aor: aor.clone() });
                    out.push(BucketEffect::ReadRow { number, bucket, aor });
                }
                _ => self.wait(now, bucket, question, out),
            },
            Some(Phase::Stopped { .. }) | None => refuse(&question, out),
        }
    }

    /// A page of rows was read, or could not be. Returns the buckets, in ascending order, whose rows are to be put into the router
    /// before the effects are performed; rows of others are of no use any more.
    pub fn handle_page(
        &mut self,
        now: Instant,
        may_act: bool,
        number: u64,
        page: Result<RowPage, ReadFailed>,
        out: &mut Vec<BucketEffect>,
    ) -> Vec<Bucket> {
        // A read that was given up is of no use any more.
        let Some(place) = self.loads.iter().position(|load| load.number == number) else {
            return Vec::new();
        };
        let load = &mut self.loads[place];
        let Ok(page) = page else {
            let pause =
                load.retry.map_or(limits::LOAD_RETRY, |(_, pause)| (pause * 2).min(limits::LOAD_RETRY_MOST));
            load.retry = Some((now + pause, pause));
            load.number = 0;
            return Vec::new();
        };
        load.retry = None;
        let buckets = load.buckets.clone();
        match (&load.step, page.next) {
            (LoadStep::Bindings { .. }, Some(after)) if !load.unread(&after).0.is_empty() => {
                load.step = LoadStep::Bindings { after };
            }
            (LoadStep::Bindings { .. }, _) => load.step = LoadStep::KeptCounts,
            (LoadStep::KeptCounts, _) => {
                self.loads.swap_remove(place);
                self.end_load(now, may_act, &buckets, out);
                self.begin_next(out);
                return buckets;
            }
        }
        self.read(place, out);
        buckets
    }

    /// The bindings of a lookup's row were read, or could not be.
    pub fn handle_row(
        &mut self,
        may_act: bool,
        number: u64,
        bindings: Result<Vec<Binding>, ReadFailed>,
        out: &mut Vec<BucketEffect>,
    ) {
        let Some(RowRead { bucket, from, id, aor }) = self.rows.remove(&number) else { return };
        let question = WaitingQuestion { from, id, query: Query::Lookup { aor } };
        match self.buckets.get(&bucket).map(|owned| owned.phase).filter(|_| may_act) {
            // A REGISTER may have come since.
            Some(Phase::Serving) => out.push(BucketEffect::Perform(question)),
            Some(Phase::Loading { .. } | Phase::Loaded) => match bindings {
                Ok(bindings) => {
                    let answer = Answer::Bindings(bindings);
                    out.push(BucketEffect::Answer { to: from, id, answer });
                }
                Err(ReadFailed) => refuse(&question, out),
            },
            Some(Phase::Stopped { .. }) | None => refuse(&question, out),
        }
    }

    /// Reads again what could not be read, reports again, and refuses questions that have waited too long.
    pub fn expire(&mut self, now: Instant, out: &mut Vec<BucketEffect>) {
        for place in 0..self.loads.len() {
            let load = &self.loads[place];
            if load.number == 0 && load.retry.is_some_and(|(at, _)| at <= now) {
                self.read(place, out);
            }
        }
        if self.next_look.is_some_and(|at| at <= now) {
            self.next_look = None;
            self.look(now, out);
        }
    }

    /// The time at which [`OwnedBuckets::expire`] is due.
    pub fn deadline(&self) -> Option<Instant> {
        let retries = self.loads.iter().filter(|load| load.number == 0);
        retries.filter_map(|load| load.retry.map(|(at, _)| at)).chain(self.next_look).min()
    }

    /// The epoch of the bucket's hold, while memory has its rows.
    pub fn epoch(&self, bucket: Bucket) -> Option<Epoch> {
        self.buckets.get(&bucket).map(|owned| owned.epoch)
    }

    /// True if the router has all rows of the bucket and answers for it.
    pub fn is_served(&self, bucket: Bucket) -> bool {
        self.buckets.get(&bucket).is_some_and(|owned| owned.phase == Phase::Serving)
    }

    fn begin_loads(
        &mut self,
        now: Instant,
        orders: &[(Bucket, Epoch)],
        is_served: bool,
        out: &mut Vec<BucketEffect>,
    ) {
        let known =
            orders.iter().map(|(bucket, _)| *bucket).filter(|bucket| self.buckets.contains_key(bucket));
        let known: BucketSet = known.collect();
        if !known.is_empty() {
            // Requests that waited for the load before wait for this one.
            out.push(BucketEffect::Forget(known));
        }
        let ordered: BucketSet = orders.iter().map(|(bucket, _)| *bucket).collect();
        self.give_up_reads(|bucket| ordered.contains(bucket));
        for &(bucket, epoch) in orders {
            let phase = Phase::Loading { is_served };
            let before = self.buckets.insert(bucket, OwnedBucket { epoch, phase });
            let is_queued = matches!(before, Some(OwnedBucket { phase: Phase::Loading { .. }, .. }))
                && self.queue.contains(&bucket);
            if !is_queued {
                self.queue.push_back(bucket);
            }
        }
        self.look_later(now);
        self.begin_next(out);
    }

    /// Begins the next reads, as far as there is room.
    fn begin_next(&mut self, out: &mut Vec<BucketEffect>) {
        while self.loads.len() < limits::LOADS && !self.queue.is_empty() {
            let mut buckets = Vec::new();
            while buckets.len() < limits::LOADED_TOGETHER
                && let Some(bucket) = self.queue.pop_front()
            {
                let is_loading = |owned: &OwnedBucket| matches!(owned.phase, Phase::Loading { .. });
                let is_read = self.loads.iter().any(|load| load.buckets.binary_search(&bucket).is_ok());
                if self.buckets.get(&bucket).is_some_and(is_loading) && !is_read {
                    buckets.push(bucket);
                }
            }
            buckets.sort_unstable();
            buckets.dedup();
            if !buckets.is_empty() {
                let step = LoadStep::Bindings { after: "".into() };
                self.loads.push(Load { number: 0, buckets, step, retry: None });
                self.read(self.loads.len() - 1, out);
            }
        }
    }

    fn read(&mut self, place: usize, out: &mut Vec<BucketEffect>) {
        let number = self.next_number();
        out.push(self.loads[place].read(number));
    }

    /// The reads of these buckets that are under way are of no use any more.
    fn give_up_reads(&mut self, is_over: impl Fn(Bucket) -> bool) {
        for load in &mut self.loads {
            load.buckets.retain(|bucket| !is_over(*bucket));
        }
        self.loads.retain(|load| !load.buckets.is_empty());
    }

    fn end_load(&mut self, now: Instant, may_act: bool, buckets: &[Bucket], out: &mut Vec<BucketEffect>) {
        let (mut loaded, mut served) = (Vec::with_capacity(buckets.len()), Vec::new());
        for bucket in buckets {
            let Some(owned) = self.buckets.get_mut(bucket) else { continue };
            let is_served = owned.phase == Phase::Loading { is_served: true };
            owned.phase = if is_served { Phase::Serving } else { Phase::Loaded };
            loaded.push((*bucket, owned.epoch));
            served.extend(is_served.then_some(*bucket));
        }
        out.push(BucketEffect::Loaded(loaded));
        served.into_iter().for_each(|bucket| self.release_line(now, may_act, bucket, out));
    }

    fn wait(&mut self, now: Instant, bucket: Bucket, question: WaitingQuestion, out: &mut Vec<BucketEffect>) {
        let line = self.lines.entry(bucket).or_default();
        // Asked again: the first copy has its place.
        let is_same = |(_, other): &(Instant, WaitingQuestion)| {
            question.query.is_answered() && (other.from, other.id) == (question.from, question.id)
        };
        if line.iter().any(is_same) {
            return;
        }
        if line.len() >= limits::WAITING_IN_BUCKET || self.waiting >= limits::WAITING_QUESTIONS {
            return refuse(&question, out);
        }
        line.push_back((now + limits::WAITING_PATIENCE, question));
        self.waiting += 1;
        self.look_later(now);
    }

    fn take_line(&mut self, bucket: Bucket) -> Line {
        let line = self.lines.remove(&bucket).unwrap_or_default();
        self.waiting -= line.len();
        line
    }

    fn release_line(&mut self, now: Instant, may_act: bool, bucket: Bucket, out: &mut Vec<BucketEffect>) {
        for (until, question) in self.take_line(bucket) {
            if may_act && until > now {
                out.push(BucketEffect::Perform(question));
            } else {
                refuse(&question, out);
            }
        }
    }

    fn refuse_line(&mut self, bucket: Bucket, out: &mut Vec<BucketEffect>) {
        for (_, question) in self.take_line(bucket) {
            refuse(&question, out);
        }
    }

    /// Forgets buckets with their reads and the questions that wait for them.
    fn forget(&mut self, buckets: Vec<Bucket>, out: &mut Vec<BucketEffect>) {
        if buckets.is_empty() {
            return;
        }
        for bucket in &buckets {
            self.buckets.remove(bucket);
            self.refuse_line(*bucket, out);
        }
        let buckets: BucketSet = buckets.into_iter().collect();
        self.give_up_reads(|bucket| buckets.contains(bucket));
        out.push(BucketEffect::Forget(buckets));
    }

    fn look_later(&mut self, now: Instant) {
        self.next_look.get_or_insert(now + limits::REPORT_AGAIN);
    }

    fn look(&mut self, now: Instant, out: &mut Vec<BucketEffect>) {
        let in_phase = |phase: Phase| {
            let reported = self.buckets.iter().filter(move |(_, owned)| owned.phase == phase);
            reported.map(|(bucket, owned)| (*bucket, owned.epoch)).collect::<Vec<_>>()
        };
        let (loaded, drained) = (in_phase(Phase::Loaded), in_phase(Phase::Stopped { is_drained: true }));
        if !loaded.is_empty() || !drained.is_empty() || self.waiting > 0 {
            self.look_later(now);
        }
        if !loaded.is_empty() {
            out.push(BucketEffect::Loaded(loaded));
        }
        if !drained.is_empty() {
            out.push(BucketEffect::Drained(drained));
        }
        let mut refused = 0;
        for line in self.lines.values_mut() {
            while let Some((_, question)) = line.pop_front_if(|(until, _)| *until <= now) {
                refuse(&question, out);
                refused += 1;
            }
        }
        self.waiting -= refused;
        self.lines.retain(|_, line| !line.is_empty());
    }

    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

fn refuse(question: &WaitingQuestion, out: &mut Vec<BucketEffect>) {
    if question.query.is_answered() {
        let answer = Answer::Unavailable;
        out.push(BucketEffect::Answer { to: question.from, id: question.id, answer });
    }
}
