//! A shard of a farm whose nodes share a database: it owns the buckets that the node's part in the farm orders it to serve, and asks
//! the owners of others, wherever they are. Performs the effects of `router::OwnedBuckets` and `router::OpenQuestions` by the store,
//! the links and the router.
//!
//! A shard of an edge without a database has the questions only. A shard of another node has none of this: it owns what
//! `cluster::ShardMap` says, and asks within its process.

use std::collections::HashMap;

use cluster::{Bucket, Epoch, Life, ShardAddress};
use farm::view::FarmView;
use router::{
    AdmitRefused, Answer, AskId, BucketEffect, BucketSet, KeepRefused, OpenQuestions, OwnedBuckets, Query,
    QuestionEffect, ReadFailed, Router, RowPage, WaitingQuestion,
};
use stdx::Instant;
use store::{Loaded, Read, Service, StoreError, Write};

use super::farm::FarmAdapter;
use super::node_links::node_links;
use super::request_origin::RequestOrigin;
use super::{Shard, chat_farm};
use crate::message::{BucketOrder, ShardMessage};
use shard_message::wire;

/// The buckets and questions of a shard.
pub(super) struct BucketAdapter {
    owned: OwnedBuckets,
    questions: OpenQuestions,
    /// Reads under way, by the ticket of the store.
    reads: HashMap<u64, BucketRead>,
    effects: Vec<BucketEffect>,
    question_effects: Vec<QuestionEffect>,
}

/// A read of the store, with the number that [`OwnedBuckets`] gave it. The store knows it by a ticket.
#[derive(Clone, Copy)]
enum BucketRead {
    /// Rows of buckets that are loaded: bindings, or the numbers of kept messages. `first` is the first of the buckets, for the log.
    Page { number: u64, first: Option<Bucket> },
    /// The bindings of one address, for a lookup while its bucket loads.
    Row { number: u64 },
}

/// The adapter, with the view and the authority that its machines get as arguments.
pub(super) struct Driver<'a> {
    adapter: &'a mut BucketAdapter,
    view: Option<&'a FarmView>,
    may_act: bool,
}

impl BucketAdapter {
    pub(super) fn new(now: Instant) -> BucketAdapter {
        BucketAdapter {
            owned: OwnedBuckets::default(),
            questions: OpenQuestions::new(now),
            reads: HashMap::new(),
            effects: Vec::new(),
            question_effects: Vec::new(),
        }
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.owned.deadline().into_iter().chain(self.questions.deadline()).min()
    }
}

impl Driver<'_> {
    /// Asks the owner of an address.
    pub(super) fn ask(&mut self, now: Instant, id: AskId, query: Query) {
        let BucketAdapter { questions, question_effects, .. } = &mut *self.adapter;
        questions.ask(now, id, query, owner_in(self.view), question_effects);
    }

    /// Handles a question to this shard as the owner of an address.
    pub(super) fn handle_question(&mut self, now: Instant, from: ShardAddress, id: AskId, query: Query) {
        let BucketAdapter { owned, effects, .. } = &mut *self.adapter;
        owned.handle_question(now, self.may_act, WaitingQuestion { from, id, query }, effects);
    }

    /// Handles an answer to a question of this shard, by the number that [`OpenQuestions`] gave it.
    pub(super) fn handle_answer(&mut self, now: Instant, id: AskId, answer: Answer) {
        let BucketAdapter { questions, question_effects, .. } = &mut *self.adapter;
        questions.handle_answer(now, id, answer, question_effects);
    }

    /// The owner's node does not know a question of this shard.
    pub(super) fn handle_not_understood(&mut self, id: AskId) {
        let BucketAdapter { questions, question_effects, .. } = &mut *self.adapter;
        questions.handle_not_understood(id, question_effects);
    }

    /// Performs what is due.
    pub(super) fn expire(&mut self, now: Instant) {
        let BucketAdapter { owned, effects, questions, question_effects, .. } = &mut *self.adapter;
        owned.expire(now, effects);
        questions.expire(now, owner_in(self.view), question_effects);
    }

    /// Handles another view than `before`. Returns the buckets that have another owner.
    fn handle_view(&mut self, now: Instant, before: Option<&FarmView>) -> BucketSet {
        let (earlier, owner) = (owner_in(before), owner_in(self.view));
        let all = (0..).map_while(Bucket::with_number);
        // A bucket without a reachable owner counts as moved only when it has one: until then there is no place
        // to ask.
        let has_moved = |bucket: &Bucket| owner(*bucket).is_some_and(|to| earlier(*bucket) != Some(to));
        let moved = all.filter(has_moved).collect();
        let BucketAdapter { owned, effects, questions, question_effects, .. } = &mut *self.adapter;
        if let Some(view) = self.view {
            owned.handle_map(|bucket| view.map.owner(bucket).epoch, effects);
        }
        questions.handle_view(now, &owner, question_effects);
        moved
    }
}

/// The owner of a bucket, if it can be reached.
fn owner_in(view: Option<&FarmView>) -> impl Fn(Bucket) -> Option<ShardAddress> + '_ {
    move |bucket| {
        let view = view?;
        // The map may name an owner that has died a moment ago: the question then waits for the next one.
        view.owner(bucket).filter(|owner| view.has(*owner))
    }
}

/// Names the owner of an address if it is at another node and may send a list of watched addresses.
pub(super) fn lister(farm: Option<&FarmAdapter>, own: Life) -> impl Fn(&str) -> Option<ShardAddress> + '_ {
    let view = farm.filter(|farm| farm.buckets.is_some()).and_then(|farm| farm.view.as_deref());
    let owner = owner_in(view.filter(|view| view.map.level() >= wire::WATCHED_SINCE));
    move |aor| owner(Bucket::of(aor)).filter(|owner| owner.life != own)
}

/// True if the nodes share a database, or this one asks those that do.
pub(super) fn is_shared(shard: &Shard) -> bool {
    shard.farm.as_ref().is_some_and(|farm| farm.buckets.is_some())
}

/// Gives an input to the machines and performs the effects. Does nothing on a shard without buckets of a farm.
pub(super) fn drive(shard: &mut Shard, now: Instant, act: impl FnOnce(&mut Driver<'_>)) {
    let Some(farm) = shard.farm.as_mut().filter(|farm| farm.buckets.is_some()) else { return };
    let may_act = farm.may_act(now);
    let Some(adapter) = &mut farm.buckets else { return };
    act(&mut Driver { adapter, view: farm.view.as_deref(), may_act });
    perform_all(shard, now);
}

/// Performs effects until none is left: to perform one may cause others, as a read that is refused ends at once.
fn perform_all(shard: &mut Shard, now: Instant) {
    loop {
        let Some(adapter) = shard.farm.as_mut().and_then(|farm| farm.buckets.as_mut()) else { return };
        let mut effects = std::mem::take(&mut adapter.effects);
        let mut questions = std::mem::take(&mut adapter.question_effects);
        if effects.is_empty() && questions.is_empty() {
            adapter.effects = effects;
            adapter.question_effects = questions;
            return;
        }
        // The buffers are out of the adapter meanwhile, so effects that these cause go into new ones and are
        // performed in the next round.
        effects.drain(..).for_each(|effect| perform(shard, now, effect));
        questions.drain(..).for_each(|effect| perform_question(shard, now, effect));
    }
}

/// Performs orders about buckets. Orders of one kind that follow each other are performed together: to forget buckets costs a pass
/// over all addresses.
pub(super) fn handle_orders(shard: &mut Shard, now: Instant, orders: &[BucketOrder]) {
    for run in orders.chunk_by(|a, b| std::mem::discriminant(a) == std::mem::discriminant(b)) {
        let buckets: Vec<(Bucket, Epoch)> = run.iter().map(bucket_of).collect();
        let Some(first) = run.first() else { continue };
        drive(shard, now, |driver| {
            let BucketAdapter { owned, effects, .. } = driver.adapter;
            match first {
                BucketOrder::Load { .. } => owned.load(now, &buckets, effects),
                BucketOrder::Serve { .. } => owned.serve(now, driver.may_act, &buckets, effects),
                BucketOrder::Stop { .. } => owned.stop(now, &buckets, effects),
            }
        });
        chat_farm::set_served(shard, now, buckets.into_iter().map(|(bucket, _)| bucket), is_served);
    }
}

/// True if the shard answers for the addresses of this bucket.
pub(super) fn is_served(shard: &Shard, bucket: Bucket) -> bool {
    let adapter = shard.farm.as_ref().and_then(|farm| farm.buckets.as_ref());
    adapter.is_some_and(|adapter| adapter.owned.is_served(bucket))
}

fn bucket_of(order: &BucketOrder) -> (Bucket, Epoch) {
    match *order {
        BucketOrder::Load { bucket, epoch }
        | BucketOrder::Serve { bucket, epoch }
        | BucketOrder::Stop { bucket, epoch } => (bucket, epoch),
    }
}

/// The view has replaced `before`: open questions go to the present owners, subscriptions watch there, and buckets of other owners
/// are forgotten.
pub(super) fn handle_view(shard: &mut Shard, now: Instant, before: Option<&FarmView>) {
    forget_calls(shard, now);
    let mut moved = BucketSet::default();
    drive(shard, now, |driver| moved = driver.handle_view(now, before));
    if !moved.is_empty() {
        let has_moved = |aor: &str| moved.contains(Bucket::of(aor));
        let (endpoint, effects) = (&mut shard.parts.endpoint, &mut shard.scratch.effects);
        sip::endpoint::watch_again(endpoint, now, has_moved, effects);
        // The next owner does not know that this edge has asked for the accounts in its cache.
        if shard.reads.asks_owners() {
            shard.reads.accounts().forget(None);
        }
    }
}

/// Forgets the calls that shards of nodes which are gone have reported.
fn forget_calls(shard: &mut Shard, now: Instant) {
    let Some(farm) = shard.farm.as_ref().filter(|farm| farm.buckets.is_some()) else { return };
    let Some(view) = farm.view() else { return };
    let own = shard.parts.edge.life;
    let is_live = |from: ShardAddress| from.life == own || view.has(from);
    router::forget_calls(&mut shard.parts.router, now, is_live, &mut shard.scratch.router_effects);
}

/// Handles a read of the store. Returns the result of a read that is another part's.
pub(super) fn take_loaded(
    shard: &mut Shard,
    now: Instant,
    ticket: u64,
    result: Result<Loaded, StoreError>,
) -> Option<Result<Loaded, StoreError>> {
    let adapter = shard.farm.as_mut().and_then(|farm| farm.buckets.as_mut());
    let Some(read) = adapter.and_then(|adapter| adapter.reads.remove(&ticket)) else {
        return Some(result);
    };
    handle_read(shard, now, read, result);
    None
}

/// Writes have ended: stopped buckets may have none any more.
pub(super) fn handle_written(shard: &mut Shard, now: Instant) {
    let adapter = shard.farm.as_ref().and_then(|farm| farm.buckets.as_ref());
    // The common case has no such bucket, and costs no pass over the writes.
    if adapter.is_some_and(|adapter| adapter.owned.is_draining()) {
        report_drained(shard, now);
    }
}

/// The epoch of the writes of an address; 0 where nodes do not share a database.
pub(super) fn epoch_of(shard: &Shard, aor: &str) -> Epoch {
    let adapter = shard.farm.as_ref().and_then(|farm| farm.buckets.as_ref());
    adapter.and_then(|adapter| adapter.owned.epoch(Bucket::of(aor))).unwrap_or_default()
}

/// True if the router's pushes may go out: an owner without authority tells nothing.
pub(super) fn may_push(shard: &Shard, now: Instant) -> bool {
    shard.farm.as_ref().is_none_or(|farm| farm.buckets.is_none() || farm.may_act(now))
}

/// Reports stopped buckets that have no write under way any more, neither of the router nor of chat: their next owner may then read them.
fn report_drained(shard: &mut Shard, now: Instant) {
    let mut writing = shard.parts.router.writing_buckets();
    chat_farm::add_writing(shard.xmpp.as_mut(), &mut writing);
    drive(shard, now, |driver| {
        let BucketAdapter { owned, effects, .. } = driver.adapter;
        owned.report_drained(&writing, effects);
    });
}

/// Gives the result of a read to [`OwnedBuckets`], and rows of buckets that it still wants to the router and to chat.
fn handle_read(shard: &mut Shard, now: Instant, read: BucketRead, result: Result<Loaded, StoreError>) {
    match read {
        BucketRead::Page { number, first } => {
            if let Err(error) = &result {
                let bucket = first.map(Bucket::number);
                tracing::warn!(%error, bucket, "a bucket could not be read; it is tried again");
            }
            let page = match &result {
                Ok(Loaded::Bindings(rows)) => {
                    // A full page may have a next one, which begins after its last address.
                    let is_full = rows.len() >= store::limits::BINDINGS_LOADED as usize;
                    let last = rows.last().filter(|_| is_full);
                    Ok(RowPage { next: last.map(|row| row.aor.clone()) })
                }
                Ok(Loaded::KeptCounts(_)) => Ok(RowPage { next: None }),
                _ => Err(ReadFailed),
            };
            // The effects come after the rows: they may begin to answer.
            let mut read = Vec::new();
            let Some(farm) = &mut shard.farm else { return };
            let may_act = farm.may_act(now);
            if let Some(BucketAdapter { owned, effects, .. }) = farm.buckets.as_deref_mut() {
                read = owned.handle_page(now, may_act, number, page, effects);
            }
            if let Ok(loaded) = result
                && !read.is_empty()
            {
                let (lives, parts) = (lives(shard), &mut shard.parts);
                replay(&mut parts.router, &parts.store, &lives, (now, loaded), |aor| {
                    read.binary_search(&Bucket::of(aor)).is_ok()
                });
            }
            chat_farm::set_served(shard, now, read.into_iter(), is_served);
            perform_all(shard, now);
        }
        BucketRead::Row { number } => {
            let lives = lives(shard);
            let bindings = match result {
                Ok(Loaded::Bindings(rows)) => rows.first().map_or(Ok(Vec::new()), |row| {
                    router::bindings_of_record(now, &row.record, &lives).map_err(|_| ReadFailed)
                }),
                _ => Err(ReadFailed),
            };
            drive(shard, now, |driver| {
                let BucketAdapter { owned, effects, .. } = driver.adapter;
                owned.handle_row(driver.may_act, number, bindings, effects);
            });
        }
    }
}

/// The lives whose connections may be open, this node's among them: a life is one start of a process.
fn lives(shard: &Shard) -> Vec<Life> {
    let view = shard.farm.as_ref().and_then(|farm| farm.view.as_deref());
    view.map(|view| view.peers.keys().copied().collect()).unwrap_or_default()
}

/// Puts rows of the addresses that `is_read` names into the router: a bucket may have been given up while its rows were read. Rows that
/// later ones replace, and those that have expired or whose connection has ended, are deleted from the store.
fn replay(
    router: &mut Router,
    store: &Service,
    lives: &[Life],
    (now, loaded): (Instant, Loaded),
    is_read: impl Fn(&str) -> bool,
) {
    match loaded {
        Loaded::Bindings(rows) => {
            let (mut dead, mut damaged) = (Vec::new(), 0_usize);
            for row in rows.iter().filter(|row| is_read(&row.aor)) {
                damaged += usize::from(router.replay(now, row.seq, &row.record, lives, &mut dead).is_err());
            }
            if damaged > 0 {
                tracing::error!(
                    damaged,
                    "bindings in the database could not be read and are lost until their phones refresh"
                );
            }
            if !dead.is_empty() {
                // Refused when the store is far behind: the rows are then deleted by their age.
                let _ = store.write(Write::ForgetBindings { rows: dead.into() }, None);
            }
        }
        Loaded::KeptCounts(counts) => {
            let counts = counts.iter().filter(|(aor, _)| is_read(aor));
            counts.for_each(|(aor, count)| router.seed_kept(aor, *count));
        }
        _ => {}
    }
}

fn perform(shard: &mut Shard, now: Instant, effect: BucketEffect) {
    match effect {
        BucketEffect::Forget(buckets) => {
            shard.parts.router.forget_buckets(&buckets, &mut shard.scratch.router_effects);
            chat_farm::set_served(shard, now, buckets.iter(), is_served);
        }
        BucketEffect::End(buckets) => {
            chat_farm::set_served(shard, now, buckets.iter(), is_served);
            shard.parts.router.end_buckets(&buckets, &mut shard.scratch.router_effects);
            report_drained(shard, now);
        }
        BucketEffect::ReadBindings { number, buckets, after } => {
            let read = Read::BucketBindings { buckets: numbers(&buckets), after };
            begin_read(shard, now, BucketRead::Page { number, first: buckets.first().copied() }, read);
        }
        BucketEffect::ReadKeptCounts { number, buckets } => {
            let read = Read::BucketKeptCounts { buckets: numbers(&buckets) };
            begin_read(shard, now, BucketRead::Page { number, first: buckets.first().copied() }, read);
        }
        BucketEffect::ReadRow { number, bucket, aor } => {
            let read = Read::Bindings { bucket: bucket.number(), aor };
            begin_read(shard, now, BucketRead::Row { number }, read);
        }
        BucketEffect::Perform(WaitingQuestion { from, id, query }) => shard.query(now, from, id, query),
        BucketEffect::Answer { to, id, answer } => {
            shard.scratch.router_effects.push(router::Effect::Answer { to, id, answer });
        }
        BucketEffect::Loaded(buckets) => {
            if let Some(farm) = &shard.farm {
                farm.agent.buckets_loaded(buckets);
            }
        }
        BucketEffect::Drained(buckets) => {
            if let Some(farm) = &shard.farm {
                farm.agent.buckets_drained(buckets);
            }
        }
    }
}

fn numbers(buckets: &[Bucket]) -> Box<[u16]> {
    buckets.iter().map(|bucket| bucket.number()).collect()
}

/// Begins a read, whose result `take_loaded` finds by its ticket.
fn begin_read(shard: &mut Shard, now: Instant, about: BucketRead, read: Read) {
    let ticket = shard.reads.next_ticket();
    match shard.parts.store.read(read, ticket) {
        Ok(()) => {
            if let Some(adapter) = shard.farm.as_mut().and_then(|farm| farm.buckets.as_mut()) {
                adapter.reads.insert(ticket.id, about);
            }
        }
        // As a read that has failed.
        Err(store::Busy) => {
            let detail = "the queue of reads is full".to_owned();
            handle_read(shard, now, about, Err(StoreError::Internal { detail }));
        }
    }
}

fn perform_question(shard: &mut Shard, now: Instant, effect: QuestionEffect) {
    let own = shard.parts.edge;
    match effect {
        QuestionEffect::Send { to, id, query } if to == own => {
            drive(shard, now, |driver| driver.handle_question(now, own, id, query));
        }
        QuestionEffect::Send { to, id, query } if to.life == own.life => {
            let question = ShardMessage::Ask { from: own, id, query };
            match shard.post.get_mut(usize::from(to.shard)) {
                Some(post) => post.push(question.into()),
                None => drive(shard, now, |driver| driver.handle_answer(now, id, Answer::Unavailable)),
            }
        }
        QuestionEffect::Send { to, id, query } => {
            let sent = node_links(shard).send(now, to, wire::ask(to, own, id, &query));
            if sent.is_err() {
                drive(shard, now, |driver| driver.handle_answer(now, id, Answer::Unavailable));
            }
        }
        QuestionEffect::Answer { id, answer } => shard.give_answer(now, id, answer),
        QuestionEffect::Fail { id, query } => shard.give_answer(now, id, failure_of(id, &query)),
    }
}

/// The answer for the asker of a question that no owner has answered in time.
fn failure_of(id: AskId, query: &Query) -> Answer {
    // The endpoint has an answer for each request; a call of an application has one for each question.
    let is_of_voice = matches!(RequestOrigin::of(id.0), RequestOrigin::Voice(_));
    match query {
        Query::Keep(_) if is_of_voice => Answer::Kept(Err(KeepRefused::StoreFailed)),
        Query::Admit(_) if is_of_voice => Answer::Admitted(Err(AdmitRefused::TooManyCalls)),
        _ => Answer::Unavailable,
    }
}
