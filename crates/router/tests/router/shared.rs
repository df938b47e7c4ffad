//! Nodes that share a database: routers whose buckets move between them, against a database with a fence. Messages are lost, come
//! twice and out of order, reads and writes fail or wait for a database that is away, nodes lose their authority and die.
//!
//! Each question gets exactly one answer; an acknowledged REGISTER is in the database; and a lookup finds every REGISTER that was
//! acknowledged before it was asked, whichever shards were asked and owned the address meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cluster::tenure::{Tenure, TenureEffect};
use cluster::{Bucket, Epoch};
use router::{
    Answer, AskId, BucketEffect, BucketSet, Change, Effect, Life, OpenQuestions, OwnedBuckets, Query,
    QuestionEffect, ReadFailed, Register, Router, RouterSettings, RowPage, ShardAddress, WaitingQuestion,
    WriteFailed, bindings_of_record, limits,
};
use stdx::Instant;
use stdx::rng::SplitMix64;

use crate::support::{START, contact};

const AORS: [&str; 5] = ["alice@a", "bob@a", "carol@a", "dave@a", "erin@a"];

#[derive(Clone, Copy, Default)]
struct Held {
    holder: Option<Life>,
    epoch: Epoch,
}

/// The database: the latest row of each address, the holder of each bucket, and the lives that may not write.
#[derive(Default)]
struct Database {
    rows: BTreeMap<&'static str, (i64, Box<[u8]>)>,
    held: BTreeMap<Bucket, Held>,
    fenced: BTreeSet<Life>,
    last_row: i64,
}

/// So many rows are a page.
const PAGE: usize = 2;

impl Database {
    /// Rows of these buckets, by bucket and address; of the first those behind this address.
    fn page(&self, buckets: &[Bucket], after: &str) -> Vec<(&'static str, i64, &[u8])> {
        let place = |aor: &str| buckets.iter().position(|bucket| *bucket == Bucket::of(aor));
        let is_unread = |aor: &str| place(aor).is_some_and(|place| place > 0 || aor > after);
        let mut rows: Vec<_> = self.rows.iter().filter(|(aor, _)| is_unread(aor)).collect();
        rows.sort_by_key(|(aor, _)| (place(aor), **aor));
        rows.into_iter().take(PAGE).map(|(aor, (row, record))| (*aor, *row, &**record)).collect()
    }
}

enum Job {
    /// `after` is the last address that was read of the first bucket.
    Page {
        number: u64,
        buckets: Vec<Bucket>,
        after: Box<str>,
        is_kept: bool,
    },
    Row {
        number: u64,
        aor: &'static str,
    },
    Write {
        ticket: u64,
        aor: &'static str,
        record: Box<[u8]>,
    },
    Claim {
        bucket: Bucket,
        epoch: Epoch,
    },
    Give {
        bucket: Bucket,
        epoch: Epoch,
    },
}

struct Node {
    life: Life,
    has_authority: bool,
    owned: OwnedBuckets,
    questions: OpenQuestions,
    router: Router,
    tenures: BTreeMap<Bucket, Tenure>,
    jobs: Vec<Job>,
    view: BTreeMap<Bucket, (Life, Epoch)>,
}

enum Message {
    Ask { from: Life, id: AskId, query: Query },
    Answer { id: AskId, answer: Answer },
}

/// A question of a client that has no answer.
struct Asked {
    life: Life,
    aor: &'static str,
    /// The CSeq of a REGISTER; for a lookup the highest one acknowledged before.
    cseq: u32,
    is_register: bool,
}

struct Farm {
    now: Instant,
    rng: SplitMix64,
    nodes: Vec<Node>,
    dead: BTreeSet<Life>,
    messages: Vec<(Life, Message)>,
    database: Database,
    map: BTreeMap<Bucket, (Life, Epoch)>,
    asked: BTreeMap<u64, Asked>,
    acknowledged: BTreeMap<&'static str, u32>,
    last_cseq: u32,
    last_life: u32,
    /// Nothing fails any more.
    is_calm: bool,
    figures: Figures,
}

#[derive(Debug, Default)]
struct Figures {
    registered: usize,
    found: usize,
    failed: usize,
}

fn known(aor: &str) -> &'static str {
    AORS.into_iter().find(|known| *known == aor).unwrap()
}

fn cseq_of(bindings: &[router::Binding]) -> u32 {
    bindings.iter().map(|binding| binding.cseq).max().unwrap_or(0)
}

fn address(life: Life) -> ShardAddress {
    ShardAddress::new(life, 0)
}

impl Node {
    fn new(life: Life, now: Instant) -> Node {
        Node {
            life,
            has_authority: true,
            owned: OwnedBuckets::default(),
            questions: OpenQuestions::new(now),
            router: Router::new(RouterSettings::default(), [7; 16], now),
            tenures: BTreeMap::new(),
            jobs: Vec::new(),
            view: BTreeMap::new(),
        }
    }
}

impl Node {
    /// A page of rows was read, or could not be.
    fn put_rows(
        &mut self,
        now: Instant,
        number: u64,
        rows: Vec<(&str, i64, &[u8])>,
        has_failed: bool,
    ) -> Vec<BucketEffect> {
        let next = rows.last().filter(|_| rows.len() == PAGE).map(|row| row.0.into());
        let page = if has_failed { Err(ReadFailed) } else { Ok(RowPage { next }) };
        let mut out = Vec::new();
        let read = self.owned.handle_page(now, self.has_authority, number, page, &mut out);
        for (_, row, record) in rows.into_iter().filter(|(aor, ..)| read.contains(&Bucket::of(aor))) {
            self.router.replay(now, row, record, &[], &mut Vec::new()).unwrap();
        }
        out
    }
}

impl Farm {
    fn new(seed: u64) -> Farm {
        let mut farm = Farm {
            now: START,
            rng: SplitMix64::new(seed),
            nodes: Vec::new(),
            dead: BTreeSet::new(),
            messages: Vec::new(),
            database: Database::default(),
            map: BTreeMap::new(),
            asked: BTreeMap::new(),
            acknowledged: BTreeMap::new(),
            last_cseq: 0,
            last_life: 0,
            is_calm: false,
            figures: Figures::default(),
        };
        (0..3).for_each(|_| farm.start_node());
        farm.assign_all();
        farm
    }

    fn chance(&mut self, percent: u64) -> bool {
        !self.is_calm && self.rng.below(100) < percent
    }

    fn pick(&mut self, count: usize) -> usize {
        usize::try_from(self.rng.below(count as u64)).unwrap()
    }

    fn start_node(&mut self) {
        self.last_life += 1;
        self.nodes.push(Node::new(Life(self.last_life), self.now));
    }

    fn node(&mut self, life: Life) -> Option<usize> {
        self.nodes.iter().position(|node| node.life == life)
    }

    /// The map gives each bucket of a dead life, or any, to a random node.
    fn assign_all(&mut self) {
        for aor in AORS {
            let bucket = Bucket::of(aor);
            let (owner, epoch) = self.map.get(&bucket).copied().unwrap_or_default();
            if self.node(owner).is_none() || self.chance(30) {
                let index = self.pick(self.nodes.len());
                let life = self.nodes[index].life;
                self.map.insert(bucket, (life, epoch));
            }
        }
    }

    /// A node learns the present map.
    fn adopt_map(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.view = self.map.clone();
        let (view, life) = (node.view.clone(), node.life);
        let (mut questions, mut buckets) = (Vec::new(), Vec::new());
        node.owned.handle_map(|bucket| view.get(&bucket).map_or(Epoch(0), |(_, epoch)| *epoch), &mut buckets);
        let owner = |bucket: Bucket| view.get(&bucket).map(|(life, _)| address(*life));
        node.questions.handle_view(self.now, owner, &mut questions);
        self.perform(index, buckets, questions);
        for (bucket, (owner, epoch)) in view {
            self.tenure(index, bucket, |tenure, now, out| {
                if owner == life { tenure.assign(now, epoch, out) } else { tenure.revoke(now, out) }
            });
        }
    }

    fn tenure(
        &mut self,
        index: usize,
        bucket: Bucket,
        act: impl FnOnce(&mut Tenure, Instant, &mut Vec<TenureEffect>),
    ) {
        let (now, node) = (self.now, &mut self.nodes[index]);
        let (mut orders, mut out) = (Vec::new(), Vec::new());
        act(node.tenures.entry(bucket).or_default(), now, &mut orders);
        for order in orders {
            match order {
                TenureEffect::Fence(epoch) => node.jobs.push(Job::Claim { bucket, epoch }),
                TenureEffect::Give(epoch) => node.jobs.push(Job::Give { bucket, epoch }),
                TenureEffect::Load(epoch) => node.owned.load(now, &[(bucket, epoch)], &mut out),
                TenureEffect::Serve(epoch) => {
                    self.map.entry(bucket).or_default().1 = epoch;
                    node.owned.serve(now, node.has_authority, &[(bucket, epoch)], &mut out);
                }
                TenureEffect::Stop(epoch) => node.owned.stop(now, &[(bucket, epoch)], &mut out),
            }
        }
        self.perform(index, out, Vec::new());
    }

    fn perform(&mut self, index: usize, buckets: Vec<BucketEffect>, questions: Vec<QuestionEffect>) {
        for effect in buckets {
            self.perform_for_bucket(index, effect);
        }
        for effect in questions {
            match effect {
                QuestionEffect::Send { to, id, query } => {
                    let from = self.nodes[index].life;
                    self.messages.push((to.life, Message::Ask { from, id, query }));
                }
                QuestionEffect::Answer { id, answer } => self.answered(id, Some(answer)),
                QuestionEffect::Fail { id, .. } => self.answered(id, None),
            }
        }
    }

    fn perform_for_bucket(&mut self, index: usize, effect: BucketEffect) {
        let node = &mut self.nodes[index];
        match effect {
            BucketEffect::Forget(buckets) => {
                let mut out = Vec::new();
                node.router.forget_buckets(&buckets, &mut out);
                self.perform_router(index, out);
            }
            BucketEffect::End(buckets) => {
                let mut out = Vec::new();
                node.router.end_buckets(&buckets, &mut out);
                self.perform_router(index, out);
                self.report_drained(index);
            }
            BucketEffect::ReadBindings { number, buckets, after } => {
                node.jobs.push(Job::Page { number, buckets, after, is_kept: false });
            }
            BucketEffect::ReadKeptCounts { number, buckets } => {
                node.jobs.push(Job::Page { number, buckets, after: "".into(), is_kept: true });
            }
            BucketEffect::ReadRow { number, aor, .. } => {
                node.jobs.push(Job::Row { number, aor: known(&aor) });
            }
            BucketEffect::Perform(WaitingQuestion { from, id, query }) => {
                assert!(
                    node.owned.is_served(Bucket::of(query.aor())),
                    "performed for a bucket that is not served"
                );
                assert!(node.has_authority, "performed without authority");
                let mut out = Vec::new();
                node.router.handle_query(self.now, from, id, query, &mut out);
                self.perform_router(index, out);
            }
            BucketEffect::Answer { to, id, answer } => {
                self.messages.push((to.life, Message::Answer { id, answer }));
            }
            BucketEffect::Loaded(buckets) => {
                for (bucket, epoch) in buckets {
                    self.tenure(index, bucket, |tenure, _, out| tenure.handle_loaded(epoch, out));
                }
            }
            BucketEffect::Drained(buckets) => {
                for (bucket, epoch) in buckets {
                    self.tenure(index, bucket, |tenure, now, out| tenure.handle_drained(now, epoch, out));
                }
            }
        }
    }

    fn perform_router(&mut self, index: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Answer { to, id, answer } => {
                    self.messages.push((to.life, Message::Answer { id, answer }));
                }
                Effect::WriteBinding { ticket, row } => {
                    let aor = known(&row.aor);
                    self.nodes[index].jobs.push(Job::Write { ticket, aor, record: row.record });
                }
                other => panic!("{other:?}"),
            }
        }
    }

    fn report_drained(&mut self, index: usize) {
        let (node, mut out) = (&mut self.nodes[index], Vec::new());
        let writing: BucketSet = node.router.writing_buckets();
        node.owned.report_drained(&writing, &mut out);
        self.perform(index, out, Vec::new());
    }

    /// A client has its answer.
    fn answered(&mut self, AskId(id): AskId, answer: Option<Answer>) {
        let asked = self.asked.remove(&id).expect("exactly one answer");
        match answer {
            Some(Answer::Registered(Ok(bindings))) => {
                assert!(asked.is_register && cseq_of(&bindings) >= asked.cseq);
                let (_, record) = &self.database.rows[asked.aor];
                let stored = bindings_of_record(self.now, record, &[]).unwrap();
                assert!(cseq_of(&stored) >= asked.cseq, "acknowledged and not in the database");
                let last = self.acknowledged.entry(asked.aor).or_default();
                *last = asked.cseq.max(*last);
                self.figures.registered += 1;
            }
            Some(Answer::Registered(Err(_))) => assert!(asked.is_register),
            Some(Answer::Bindings(bindings)) => {
                assert!(!asked.is_register);
                assert!(cseq_of(&bindings) >= asked.cseq, "{}: an old owner has answered", asked.aor);
                self.figures.found += 1;
            }
            Some(other) => panic!("{other:?}"),
            None => self.figures.failed += 1,
        }
    }

    fn ask(&mut self) {
        let (index, which) = (self.pick(self.nodes.len()), self.pick(AORS.len()));
        let (aor, is_register) = (AORS[which], self.rng.below(2) == 0);
        self.last_cseq += 1;
        let cseq =
            if is_register { self.last_cseq } else { self.acknowledged.get(aor).copied().unwrap_or(0) };
        let id = u64::from(self.last_cseq);
        let register = || Register {
            aor: aor.into(),
            call_id: "c".into(),
            cseq,
            change: Change::Update(vec![contact("sip:u@192.0.2.1", 3_600)]),
            max_contacts: 10,
        };
        let query = if is_register {
            Query::Register(Box::new(register()))
        } else {
            Query::Lookup { aor: aor.into() }
        };
        let node = &mut self.nodes[index];
        self.asked.insert(id, Asked { life: node.life, aor, cseq, is_register });
        let mut out = Vec::new();
        let owner = |bucket: Bucket| node.view.get(&bucket).map(|(life, _)| address(*life));
        node.questions.ask(self.now, AskId(id), query, owner, &mut out);
        self.perform(index, Vec::new(), out);
    }

    fn deliver(&mut self) {
        if self.messages.is_empty() {
            return;
        }
        let at = self.pick(self.messages.len());
        let (to, message) = self.messages.swap_remove(at);
        let (is_lost, Some(index)) = (self.chance(5), self.node(to)) else { return };
        if is_lost {
            return;
        }
        let (mut buckets, mut questions) = (Vec::new(), Vec::new());
        let is_twice = self.chance(10);
        let node = &mut self.nodes[index];
        match message {
            Message::Ask { from, id, query } => {
                if is_twice && query.is_repeatable() {
                    let query = query.clone();
                    self.messages.push((to, Message::Ask { from, id, query }));
                }
                let question = WaitingQuestion { from: address(from), id, query };
                node.owned.handle_question(self.now, node.has_authority, question, &mut buckets);
            }
            Message::Answer { id, answer } => {
                node.questions.handle_answer(self.now, id, answer, &mut questions);
            }
        }
        self.perform(index, buckets, questions);
    }

    /// The store of a node does one thing.
    fn work(&mut self, index: usize) {
        let count = self.nodes[index].jobs.len();
        if count == 0 {
            return;
        }
        // The writer works in order; readers and the hold of buckets have connections of their own.
        let mut at = self.pick(count);
        let jobs = &self.nodes[index].jobs;
        let is_held = |job: &Job| matches!(job, Job::Claim { .. } | Job::Give { .. });
        if matches!(jobs[at], Job::Write { .. }) {
            at = jobs.iter().position(|job| matches!(job, Job::Write { .. })).unwrap();
        } else if is_held(&jobs[at]) {
            at = jobs.iter().position(is_held).unwrap();
        }
        let job = self.nodes[index].jobs.remove(at);
        let (has_failed, now) = (self.chance(15), self.now);
        let mut out = Vec::new();
        match job {
            Job::Page { number, buckets, after, is_kept } => {
                let rows = if is_kept { Vec::new() } else { self.database.page(&buckets, &after) };
                out = self.nodes[index].put_rows(now, number, rows, has_failed);
            }
            Job::Row { number, aor } => {
                let row = self.database.rows.get(aor);
                let bindings = row.map_or(Ok(Vec::new()), |(_, record)| bindings_of_record(now, record, &[]));
                let bindings = bindings
                    .map_err(|_| ReadFailed)
                    .and_then(|read| if has_failed { Err(ReadFailed) } else { Ok(read) });
                let node = &mut self.nodes[index];
                node.owned.handle_row(node.has_authority, number, bindings, &mut out);
            }
            Job::Write { ticket, aor, record } => self.write(index, ticket, (aor, record), has_failed),
            Job::Claim { bucket, epoch } => self.claim(index, bucket, epoch),
            Job::Give { bucket, epoch } => self.give(index, bucket, epoch),
        }
        self.perform(index, out, Vec::new());
    }

    /// Writes a row, or does not.
    fn write(
        &mut self,
        index: usize,
        ticket: u64,
        (aor, record): (&'static str, Box<[u8]>),
        has_failed: bool,
    ) {
        let (life, now) = (self.nodes[index].life, self.now);
        let is_fenced = self.database.fenced.contains(&life);
        // The database is away: the write is not in it, or is, and its answer was lost.
        let (is_away, is_lost) = (!is_fenced && self.chance(15), self.chance(50));
        let result = if has_failed || is_fenced || (is_away && !is_lost) {
            Err(WriteFailed)
        } else {
            let held = self.database.held.get(&Bucket::of(aor)).copied().unwrap_or_default();
            assert_eq!(held.holder, Some(life), "{aor}: written after the bucket was given back");
            self.database.last_row += 1;
            let row = self.database.last_row;
            self.database.rows.insert(aor, (row, record));
            Ok(row)
        };
        let mut effects = Vec::new();
        let router = &mut self.nodes[index].router;
        if is_away {
            router.handle_unreachable(now, ticket, &mut effects);
        } else {
            router.handle_written(now, ticket, result, &mut effects);
        }
        self.perform_router(index, effects);
        if self.nodes[index].owned.is_draining() {
            self.report_drained(index);
        }
    }

    fn give(&mut self, index: usize, bucket: Bucket, epoch: Epoch) {
        let held = self.database.held.entry(bucket).or_default();
        if (held.holder, held.epoch) == (Some(self.nodes[index].life), epoch) {
            held.holder = None;
        }
        self.tenure(index, bucket, |tenure, now, out| tenure.handle_given(now, epoch, out));
    }

    /// The rule of `sim/tests/farm`: the database gives the next epoch if its holder has given the bucket back or is fenced.
    fn claim(&mut self, index: usize, bucket: Bucket, epoch: Epoch) {
        let life = self.nodes[index].life;
        if self.database.fenced.contains(&life) {
            return;
        }
        let held = self.database.held.get(&bucket).copied().unwrap_or_default();
        let is_dead = held.holder.is_some_and(|holder| self.dead.contains(&holder));
        if held.holder == Some(life) {
            self.tenure(index, bucket, |tenure, now, out| tenure.handle_taken(now, held.epoch, out));
        } else if held.epoch == epoch && (held.holder.is_none() || is_dead) {
            self.database.fenced.extend(held.holder);
            let epoch = held.epoch.next();
            self.database.held.insert(bucket, Held { holder: Some(life), epoch });
            self.tenure(index, bucket, |tenure, now, out| tenure.handle_taken(now, epoch, out));
        } else {
            self.tenure(index, bucket, |tenure, now, out| tenure.handle_refused(now, held.epoch, out));
        }
    }

    fn set_authority(&mut self, index: usize, has_authority: bool) {
        self.nodes[index].has_authority = has_authority;
        for aor in AORS {
            self.tenure(index, Bucket::of(aor), |tenure, now, out| {
                if has_authority { tenure.resume(now, out) } else { tenure.lapse(out) }
            });
        }
    }

    /// The process has gone, or is cut off for good: it may still write what it had begun.
    fn end_node(&mut self, index: usize) {
        let life = self.nodes[index].life;
        self.dead.insert(life);
        for job in std::mem::take(&mut self.nodes[index].jobs) {
            let Job::Write { aor, record, .. } = job else { continue };
            if self.rng.below(2) == 0 && !self.database.fenced.contains(&life) {
                self.database.last_row += 1;
                self.database.rows.insert(aor, (self.database.last_row, record));
            }
        }
        self.nodes.remove(index);
        self.asked.retain(|_, asked| asked.life != life);
        self.start_node();
        self.assign_all();
    }

    fn pass(&mut self, millis: u64) {
        self.now = self.now + Duration::from_millis(millis);
        for index in 0..self.nodes.len() {
            let (mut buckets, mut questions) = (Vec::new(), Vec::new());
            let node = &mut self.nodes[index];
            node.owned.expire(self.now, &mut buckets);
            let view = &node.view;
            let owner = |bucket: Bucket| view.get(&bucket).map(|(life, _)| address(*life));
            node.questions.expire(self.now, owner, &mut questions);
            let mut effects = Vec::new();
            node.router.expire(self.now, &mut effects);
            self.perform_router(index, effects);
            self.perform(index, buckets, questions);
            for aor in AORS {
                self.tenure(index, Bucket::of(aor), |tenure, now, out| tenure.expire(now, out));
            }
        }
    }

    fn step(&mut self) {
        let index = self.pick(self.nodes.len());
        match self.rng.below(1_000) {
            0..150 => self.ask(),
            150..450 => self.deliver(),
            450..800 => self.work(index),
            800..880 => self.adopt_map(index),
            880..970 => {
                let millis = self.rng.below(80);
                self.pass(millis);
            }
            970..980 => self.assign_all(),
            980..988 => self.set_authority(index, false),
            988..996 => self.set_authority(index, true),
            996..998 => {
                let pause = self.rng.below(3_000);
                self.pass(pause);
            }
            _ => self.end_node(index),
        }
    }

    /// Nothing fails any more, until all questions have their answers and all buckets are served.
    fn calm(&mut self) {
        self.is_calm = true;
        for _ in 0..2_000 {
            for index in 0..self.nodes.len() {
                if !self.nodes[index].has_authority {
                    self.set_authority(index, true);
                }
                self.adopt_map(index);
                (0..8).for_each(|_| self.work(index));
            }
            (0..16).for_each(|_| self.deliver());
            self.pass(10);
        }
        let unanswered: Vec<_> = self.asked.values().map(|asked| asked.aor).collect();
        assert!(unanswered.is_empty(), "no answer: {unanswered:?}");
        for (bucket, (life, _)) in self.map.clone() {
            let index = self.node(life).unwrap();
            assert!(self.nodes[index].owned.is_served(bucket), "not served by its owner");
        }
        for node in &self.nodes {
            assert!(node.questions.is_empty());
        }
    }
}

#[test]
fn acknowledged_registrations_are_found_wherever_buckets_move() {
    let mut sum = Figures::default();
    for seed in 0..60 {
        let mut farm = Farm::new(seed);
        (0..3).for_each(|index| farm.adopt_map(index));
        let steps = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..1_500).for_each(|_| farm.step());
            farm.calm();
        }));
        assert!(steps.is_ok(), "seed {seed}");
        sum.registered += farm.figures.registered;
        sum.found += farm.figures.found;
        sum.failed += farm.figures.failed;
    }
    // A farm that refuses everything would pass all else.
    assert!(sum.registered > 1_000 && sum.found > 1_500, "{sum:?}");
}

/// The store holds a write back. The next owner must not read the bucket before it has ended, and a write that fails ends, too.
#[test]
fn a_bucket_is_drained_only_after_its_writes() {
    let bucket = Bucket::of("alice@a");
    let orders = [(bucket, Epoch(1))];
    for result in [Ok(7), Err(WriteFailed)] {
        let mut node = Node::new(Life(1), START);
        let (mut out, mut effects) = (Vec::new(), Vec::new());
        node.owned.serve(START, true, &orders, &mut out);
        for number in [1, 2] {
            node.owned.handle_page(START, true, number, Ok(RowPage { next: None }), &mut out);
        }
        out.clear();
        let change = Change::Update(vec![contact("sip:u@192.0.2.1", 3_600)]);
        let (aor, call_id): (Box<str>, _) = ("alice@a".into(), "c".into());
        let register = Register { aor, call_id, cseq: 1, change, max_contacts: 10 };
        let query = Query::Register(Box::new(register));
        node.router.handle_query(START, address(Life(9)), AskId(1), query, &mut effects);
        let [Effect::WriteBinding { ticket, .. }] = effects[..] else { panic!("{effects:?}") };
        effects.clear();

        node.owned.stop(START, &orders, &mut out);
        assert_eq!(std::mem::take(&mut out), [BucketEffect::End([bucket].into_iter().collect())]);
        node.owned.report_drained(&node.router.writing_buckets(), &mut out);
        node.owned.expire(START + limits::REPORT_AGAIN, &mut out);
        assert!(out.is_empty() && node.owned.is_draining(), "its write is under way: {out:?}");
        node.router.handle_written(START, ticket, result, &mut effects);
        assert!(matches!(effects[0], Effect::Answer { id: AskId(1), .. }), "{effects:?}");
        node.owned.report_drained(&node.router.writing_buckets(), &mut out);
        assert_eq!(out, [BucketEffect::Drained(orders.into())]);
        assert!(!node.owned.is_draining());
    }
}

fn last_page() -> Result<RowPage, ReadFailed> {
    Ok(RowPage { next: None })
}

/// Each page is read once more after a failure, and the next one from where it ended.
#[test]
fn buckets_are_read_page_by_page_and_again_after_a_failure() {
    let (mut owned, mut out) = (OwnedBuckets::default(), Vec::new());
    let mut all: Vec<Bucket> = ["alice@a", "bob@a", "carol@a"].map(Bucket::of).into();
    all.sort_unstable();
    let orders: Vec<_> = all.iter().rev().map(|bucket| (*bucket, Epoch(1))).collect();
    owned.load(START, &orders, &mut out);
    let read = |number: u64, buckets: &[Bucket], after: &str| {
        let (buckets, after) = (buckets.to_vec(), after.into());
        BucketEffect::ReadBindings { number, buckets, after }
    };
    assert_eq!(std::mem::take(&mut out), [read(1, &all, "")]);
    // The page ends within the second bucket.
    let aor = ["alice@a", "bob@a", "carol@a"].into_iter().find(|aor| Bucket::of(aor) == all[1]).unwrap();
    let page = || Ok(RowPage { next: Some(aor.into()) });
    assert_eq!(owned.handle_page(START, true, 1, page(), &mut out), all);
    assert_eq!(std::mem::take(&mut out), [read(2, &all[1..], aor)]);
    assert_eq!(owned.handle_page(START, true, 2, Err(ReadFailed), &mut out), []);
    assert_eq!(owned.handle_page(START, true, 2, last_page(), &mut out), [], "it was given up");
    assert_eq!(owned.deadline(), Some(START + limits::LOAD_RETRY));
    owned.expire(START + limits::LOAD_RETRY, &mut out);
    assert_eq!(std::mem::take(&mut out), [read(3, &all[1..], aor)]);
    assert_eq!(owned.handle_page(START, true, 3, last_page(), &mut out), all);
    let counts = BucketEffect::ReadKeptCounts { number: 4, buckets: all.clone() };
    assert_eq!(std::mem::take(&mut out), [counts]);
    assert_eq!(owned.handle_page(START, true, 4, last_page(), &mut out), all);
    let loaded = all.iter().map(|bucket| (*bucket, Epoch(1))).collect();
    assert_eq!(std::mem::take(&mut out), [BucketEffect::Loaded(loaded)]);
}

/// A read under way has rows from before the new epoch.
#[test]
fn rows_of_a_bucket_that_is_loaded_anew_or_stopped_meanwhile_are_passed_over() {
    let (mut owned, mut out) = (OwnedBuckets::default(), Vec::new());
    let mut all: Vec<Bucket> = ["alice@a", "bob@a", "carol@a"].map(Bucket::of).into();
    all.sort_unstable();
    let orders = |epoch: u64, buckets: &[Bucket]| -> Vec<_> {
        buckets.iter().map(|bucket| (*bucket, Epoch(epoch))).collect()
    };
    owned.load(START, &orders(1, &all), &mut out);
    owned.load(START, &orders(2, &all[..1]), &mut out);
    owned.stop(START, &orders(1, &all[1..2]), &mut out);
    out.clear();
    assert_eq!(owned.handle_page(START, true, 1, last_page(), &mut out), all[2..]);
    // The first bucket has a read of its own.
    assert_eq!(owned.handle_page(START, true, 2, last_page(), &mut out), all[..1]);
    out.clear();
    assert_eq!(owned.handle_page(START, true, 3, last_page(), &mut out), all[2..]);
    assert_eq!(owned.handle_page(START, true, 4, last_page(), &mut out), all[..1]);
    let loaded = [orders(1, &all[2..]), orders(2, &all[..1])].map(BucketEffect::Loaded);
    assert_eq!(out, loaded);
    assert!(all[1..2].iter().all(|bucket| owned.epoch(*bucket).is_none()));
}

/// A farm of one node takes thousands of buckets at once.
#[test]
fn few_buckets_are_read_at_a_time() {
    let (mut owned, mut out) = (OwnedBuckets::default(), Vec::new());
    let all: Vec<_> = (0..100).map(|number| (Bucket::with_number(number).unwrap(), Epoch(1))).collect();
    owned.load(START, &all, &mut out);
    assert_eq!(out.len(), limits::LOADS);
    let mut loaded = 0;
    while let Some(effect) = out.pop() {
        match effect {
            BucketEffect::ReadBindings { number, .. } | BucketEffect::ReadKeptCounts { number, .. } => {
                owned.handle_page(START, true, number, Ok(RowPage { next: None }), &mut out);
            }
            BucketEffect::Loaded(buckets) => loaded += buckets.len(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(loaded, 100);
}

fn publish(id: u64) -> WaitingQuestion {
    let publish = router::Publish { aor: "alice@a".into(), etag: None, document: None, expires: 60 };
    let query = Query::Publish(Box::new(publish));
    WaitingQuestion { from: address(Life(9)), id: AskId(id), query }
}

#[test]
fn questions_wait_in_their_order_until_the_bucket_is_served() {
    let (mut owned, mut out) = (OwnedBuckets::default(), Vec::new());
    let bucket = Bucket::of("alice@a");
    owned.load(START, &[(bucket, Epoch(1))], &mut out);
    for id in [1, 2, 1, 3] {
        owned.handle_question(START, true, publish(id), &mut out);
    }
    owned.handle_page(START, true, 1, Ok(RowPage { next: None }), &mut out);
    owned.handle_page(START, true, 2, Ok(RowPage { next: None }), &mut out);
    out.clear();
    owned.serve(START, true, &[(bucket, Epoch(1))], &mut out);
    let performed: Vec<_> = [1, 2, 3].map(|id| BucketEffect::Perform(publish(id))).into();
    assert_eq!(std::mem::take(&mut out), performed);
    // Without authority nothing is answered, and after the stop neither.
    let refused = |id| {
        let (to, id, answer) = (address(Life(9)), AskId(id), Answer::Unavailable);
        BucketEffect::Answer { to, id, answer }
    };
    owned.handle_question(START, false, publish(4), &mut out);
    assert_eq!(std::mem::take(&mut out), [refused(4)]);
    owned.stop(START, &[(bucket, Epoch(1))], &mut out);
    out.clear();
    owned.handle_question(START, true, publish(5), &mut out);
    assert_eq!(std::mem::take(&mut out), [refused(5)]);
    // Memory is right if the epoch is still the same.
    owned.serve(START, true, &[(bucket, Epoch(1))], &mut out);
    owned.handle_question(START, true, publish(6), &mut out);
    assert_eq!(std::mem::take(&mut out), [BucketEffect::Perform(publish(6))]);
    // Another owner has taken over: memory is given free, and the order to serve begins with reading.
    owned.handle_map(|_| Epoch(2), &mut out);
    assert_eq!(std::mem::take(&mut out), [BucketEffect::Forget([bucket].into_iter().collect())]);
    owned.serve(START, true, &[(bucket, Epoch(3))], &mut out);
    assert!(matches!(out[..], [BucketEffect::ReadBindings { .. }]), "{out:?}");
}

#[test]
fn a_line_is_bounded_and_its_patience_ends() {
    let (mut owned, mut out) = (OwnedBuckets::default(), Vec::new());
    owned.load(START, &[(Bucket::of("alice@a"), Epoch(1))], &mut out);
    out.clear();
    let most = limits::WAITING_IN_BUCKET as u64;
    (1..=most).for_each(|id| owned.handle_question(START, true, publish(id), &mut out));
    assert_eq!(out, []);
    owned.handle_question(START, true, publish(most + 1), &mut out);
    assert_eq!(std::mem::take(&mut out).len(), 1);
    owned.expire(START + limits::WAITING_PATIENCE, &mut out);
    assert_eq!(out.len(), limits::WAITING_IN_BUCKET);
}

/// A message would be kept twice: it is asked again only after a refusal.
#[test]
fn a_question_that_changes_something_each_time_is_not_asked_twice() {
    let (mut questions, mut out) = (OpenQuestions::new(START), Vec::new());
    let [a, b] = [address(Life(1)), address(Life(2))];
    questions.ask(START, AskId(70), publish(0).query, |_| Some(a), &mut out);
    let send = |to| QuestionEffect::Send { to, id: AskId(1), query: publish(0).query };
    assert_eq!(std::mem::take(&mut out), [send(a)]);
    questions.handle_view(START, |_| Some(b), &mut out);
    questions.expire(START + limits::NO_ANSWER, |_| Some(b), &mut out);
    assert_eq!(out, []);
    let later = START + limits::NO_ANSWER;
    questions.handle_answer(later, AskId(1), Answer::Unavailable, &mut out);
    questions.handle_view(later, |_| Some(b), &mut out);
    assert_eq!(std::mem::take(&mut out), [send(b)]);
    questions.expire(START + limits::QUESTION_PATIENCE, |_| Some(b), &mut out);
    let failed = QuestionEffect::Fail { id: AskId(70), query: publish(0).query };
    assert_eq!(std::mem::take(&mut out), [failed]);
    questions.handle_answer(later, AskId(1), Answer::Unavailable, &mut out);
    assert!(out.is_empty() && questions.is_empty());
}
