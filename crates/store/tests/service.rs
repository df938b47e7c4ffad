//! The running side: order, groups, queues that are full, databases that are locked.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stdx::Instant;
use store::import::{Existing, Imported, NewUser};
use store::rest::types::{Common, RestCall};
use store::rest::{Kind, Resource, RestFilter, RestLoaded, RestRead, RestWrite};
use store::{
    Address, Admin, BindingWrite, Busy, CallFilter, CallRecord, Completions, Loaded, NewAccount, Options,
    Read, Reader, Service, ServiceOptions, Sqlite, Store, StoreError, Ticket, Write, WriteDone, Writer,
    limits,
};
use tempfile::TempDir;

const LONG: Duration = Duration::from_secs(20);

type Done<T> = (u16, Vec<(u64, Result<T, StoreError>)>);

/// Puts what comes into channels with room for all of a test.
struct Sinks {
    writes: SyncSender<Done<WriteDone>>,
    reads: SyncSender<Done<Loaded>>,
    failures: Mutex<Vec<StoreError>>,
    lost: AtomicUsize,
}

impl Completions for Sinks {
    fn complete(&self, sink: u16, done: Vec<(u64, Result<WriteDone, StoreError>)>) {
        self.writes.send((sink, done)).unwrap();
    }

    fn loaded(&self, sink: u16, done: Vec<(u64, Result<Loaded, StoreError>)>) {
        self.reads.send((sink, done)).unwrap();
    }

    fn failed(&self, error: &StoreError) {
        self.failures.lock().unwrap().push(error.clone());
    }

    fn lost(&self, count: usize) {
        self.lost.fetch_add(count, Ordering::Relaxed);
    }
}

struct World {
    _dir: TempDir,
    store: Sqlite,
    sinks: Arc<Sinks>,
    writes: Receiver<Done<WriteDone>>,
    reads: Receiver<Done<Loaded>>,
    service: Service,
}

fn world(options: &ServiceOptions) -> World {
    world_behind(options, |store| Box::new(store.clone()))
}

/// The service uses the database by way of another one.
fn world_behind(options: &ServiceOptions, way: impl FnOnce(&Sqlite) -> Box<dyn Store>) -> World {
    let dir = tempfile::tempdir().unwrap();
    let quick = Options { busy_timeout: Duration::from_millis(20), ..Options::default() };
    let store = Sqlite::open_with(dir.path().join("belfry.db"), quick).unwrap();
    let (write_sender, writes) = sync_channel(10_000);
    let (read_sender, reads) = sync_channel(10_000);
    let (failures, lost) = (Mutex::default(), AtomicUsize::new(0));
    let sinks = Arc::new(Sinks { writes: write_sender, reads: read_sender, failures, lost });
    let completions: Arc<dyn Completions> = sinks.clone();
    let service = Service::start(&*way(&store), &completions, options).unwrap();
    World { _dir: dir, store, sinks, writes, reads, service }
}

fn binding() -> Write {
    Write::Binding(BindingWrite {
        bucket: 0,
        aor: "a@example.org".into(),
        epoch: 0,
        written_at: Instant::from_micros(1),
        replaces: None,
        empties: false,
        record: [1, 2, 3].into(),
    })
}

fn ticket(sink: u16, id: u64) -> Ticket {
    Ticket { sink, id }
}

#[test]
fn writes_are_answered_in_order_to_the_sink_that_asked() {
    let world = world(&ServiceOptions::default());
    for id in 0..1_000 {
        world.service.write(binding(), ticket(u16::from(id % 3 == 0), id)).unwrap();
    }
    let mut answered = [Vec::new(), Vec::new()];
    while answered[0].len() + answered[1].len() < 1_000 {
        let (sink, done) = world.writes.recv_timeout(LONG).unwrap();
        for (id, result) in done {
            // One writer and one asker: the n-th write is the n-th row.
            assert_eq!(result, Ok(WriteDone::Logged { seq: i64::try_from(id).unwrap() + 1 }));
            assert_eq!(sink, u16::from(id % 3 == 0));
            answered[usize::from(sink)].push(id);
        }
    }
    assert!(answered.iter().all(|ids| ids.is_sorted()));
    assert_eq!(world.service.waiting(), (0, 0));
}

#[test]
fn writes_that_wait_together_form_one_group() {
    // The window is endless, so a group ends when it is full.
    let options = ServiceOptions { max_group: 5, group_window: LONG * 100, ..ServiceOptions::default() };
    let world = world(&options);
    for id in 0..10 {
        world.service.write(binding(), ticket(0, id)).unwrap();
    }
    for _ in 0..2 {
        assert_eq!(world.writes.recv_timeout(LONG).unwrap().1.len(), 5);
    }
}

/// Rows that a cleaning write leaves over are deleted with the next groups, as many chunks as the group could
/// fill.
#[test]
fn a_cleaning_write_goes_on_until_nothing_is_left() {
    let world = world(&ServiceOptions { ride_along: LONG * 100, ..ServiceOptions::default() });
    let chunks = 4;
    for _ in 0..chunks * limits::CLEAN_CHUNK - 1 {
        world.service.write(call(), None).unwrap();
    }
    world.service.write(Write::ForgetCalls { before: Instant::from_micros(2) }, None).unwrap();
    for id in 0..u64::from(chunks) {
        world.service.write(binding(), ticket(0, id)).unwrap();
        world.writes.recv_timeout(LONG).unwrap();
    }
    let filter = CallFilter { limit: 9, ..CallFilter::default() };
    assert_eq!(Admin::new(&world.store).unwrap().calls(filter).unwrap().len(), 0);
}

fn call() -> Write {
    let at = Instant::from_micros(1);
    Write::Call(Box::new(CallRecord {
        call_id: "1".into(),
        from: "a".into(),
        to: "b".into(),
        started_at: at,
        answered_at: None,
        ended_at: at,
        code: 486,
        reason: "".into(),
        account: None,
        callee: None,
    }))
}

#[test]
fn a_call_record_rides_along_or_goes_alone_in_the_end() {
    let options = ServiceOptions { ride_along: LONG * 100, ..ServiceOptions::default() };
    let along = world(&options);
    along.service.write(call(), None).unwrap();
    along.service.write(binding(), ticket(0, 1)).unwrap();
    along.writes.recv_timeout(LONG).unwrap();
    let filter = CallFilter { limit: 9, ..CallFilter::default() };
    assert_eq!(Admin::new(&along.store).unwrap().calls(filter.clone()).unwrap().len(), 1);

    // No other write comes: shutting down writes it.
    let alone = world(&options);
    alone.service.write(call(), None).unwrap();
    alone.service.shutdown();
    assert_eq!(Admin::new(&alone.store).unwrap().calls(filter).unwrap().len(), 1);
}

#[test]
fn a_full_queue_is_busy_and_answers_all_accepted_writes() {
    let options = ServiceOptions {
        write_queue: 3,
        ride_along: LONG * 100,
        group_window: LONG * 100,
        ..ServiceOptions::default()
    };
    let world = world(&options);
    for id in 0..3 {
        world.service.write(binding(), ticket(0, id)).unwrap();
    }
    assert_eq!(world.service.write(binding(), ticket(0, 3)), Err(Busy));
    world.service.shutdown();
    assert_eq!(world.writes.recv_timeout(LONG).unwrap().1.len(), 3);
}

#[test]
fn reads_find_accounts_and_say_when_there_is_none() {
    let world = world(&ServiceOptions { readers: 2, ..ServiceOptions::default() });
    let mut admin = Admin::new(&world.store).unwrap();
    admin.ensure_domain("example.org", Instant::from_micros(1)).unwrap();
    let address = Address::new("alice", "example.org").unwrap();
    admin.add_account(NewAccount::with_password(address, "x", Instant::from_micros(1)).unwrap()).unwrap();
    for (id, user) in ["alice", "bob"].into_iter().enumerate() {
        let read = Read::Account { user: user.into(), domain: "example.org".into() };
        world.service.read(read, ticket(4, id as u64)).unwrap();
    }
    let mut found = Vec::new();
    while found.len() < 2 {
        let (sink, done) = world.reads.recv_timeout(LONG).unwrap();
        assert_eq!(sink, 4);
        found.extend(done);
    }
    found.sort_by_key(|(id, _)| *id);
    assert!(matches!(&found[0].1, Ok(Loaded::Account(Some(account))) if &*account.name == "alice"));
    assert_eq!(found[1].1, Ok(Loaded::Account(None)));
}

#[test]
fn a_locked_database_fails_writes_only_while_it_is_locked() {
    let world = world(&ServiceOptions::default());
    let other = rusqlite::Connection::open(world.store.path()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    world.service.write(binding(), ticket(0, 1)).unwrap();
    let locked = StoreError::Locked { path: world.store.path().to_owned() };
    assert_eq!(world.writes.recv_timeout(LONG).unwrap(), (0, vec![(1, Err(locked.clone()))]));
    assert_eq!(*world.sinks.failures.lock().unwrap(), [locked]);
    // Readers do not mind: calls of cached and uncached accounts go on.
    world.service.read(Read::Domains, ticket(0, 9)).unwrap();
    assert_eq!(world.reads.recv_timeout(LONG).unwrap().1, [(9, Ok(Loaded::Domains(Vec::new())))]);
    other.execute_batch("ROLLBACK").unwrap();
    world.service.write(binding(), ticket(0, 2)).unwrap();
    assert_eq!(world.writes.recv_timeout(LONG).unwrap().1, [(2, Ok(WriteDone::Logged { seq: 1 }))]);
}

#[test]
fn an_invalid_write_is_not_reported_as_a_failure_of_the_store() {
    let world = world(&ServiceOptions::default());
    world.service.write(Write::RemoveRoute { name: "none".into() }, ticket(0, 1)).unwrap();
    let (_, done) = world.writes.recv_timeout(LONG).unwrap();
    assert_eq!(done, [(1, Err(StoreError::NotFound { what: "route none".into() }))]);
    assert_eq!(*world.sinks.failures.lock().unwrap(), []);
}

#[test]
fn an_answered_write_is_visible_to_an_existing_reader() {
    let world = world(&ServiceOptions::default());
    let mut reader = world.store.reader().unwrap();
    assert_eq!(reader.replay(&mut |_| ()), Ok(0));
    world.service.write(binding(), ticket(0, 1)).unwrap();
    world.writes.recv_timeout(LONG).unwrap();
    assert_eq!(reader.replay(&mut |_| ()), Ok(1));
}

/// The state of a [`RemoteStore`].
const IS_THERE: u8 = 0;
const IS_AWAY: u8 = 1;
/// It writes, and the answer is lost.
const LOSES_ANSWERS: u8 = 2;

/// A database at a server that may go away.
struct RemoteStore {
    store: Sqlite,
    state: Arc<AtomicU8>,
}

struct RemoteWriter {
    writer: Box<dyn Writer>,
    state: Arc<AtomicU8>,
}

impl Store for RemoteStore {
    fn reader(&self) -> Result<Box<dyn Reader>, StoreError> {
        self.store.reader()
    }

    fn writer(&self) -> Result<Box<dyn Writer>, StoreError> {
        Ok(Box::new(RemoteWriter { writer: self.store.writer()?, state: self.state.clone() }))
    }
}

impl Writer for RemoteWriter {
    fn write_group(&mut self, group: &[Write]) -> Vec<Result<WriteDone, StoreError>> {
        let state = self.state.load(Ordering::Acquire);
        let away =
            || StoreError::Unreachable { server: "db".into(), detail: "gone".into(), is_refused: false };
        let written = if state == IS_AWAY { Vec::new() } else { self.writer.write_group(group) };
        if state == IS_THERE { written } else { group.iter().map(|_| Err(away())).collect() }
    }

    fn secret(&mut self, name: &str, fresh: [u8; 32]) -> Result<[u8; 32], StoreError> {
        self.writer.secret(name, fresh)
    }

    fn import(
        &mut self,
        users: &[NewUser],
        existing: Existing,
    ) -> Result<(Imported, Vec<Address>), StoreError> {
        self.writer.import(users, existing)
    }
}

fn rest_call(sid: &str, status: &str) -> Box<store::rest::Row> {
    let common = Common { sid: sid.into(), account: "AC1".into(), ..Common::default() };
    Box::new(RestCall { common, status: status.into(), ..RestCall::default() }.row().unwrap())
}

#[test]
fn rows_of_calls_that_ended_while_the_database_was_away_are_written_once() {
    for outage in [IS_AWAY, LOSES_ANSWERS] {
        let state = Arc::new(AtomicU8::new(IS_THERE));
        let options = ServiceOptions { ride_along: Duration::ZERO, ..ServiceOptions::default() };
        let world = world_behind(&options, |store| {
            Box::new(RemoteStore { store: store.clone(), state: state.clone() })
        });
        let write = |write| world.service.write(write, None).unwrap();
        write(Write::Rest(RestWrite::Insert(rest_call("CA1", "in-progress"))));
        world.service.write(binding(), ticket(0, 1)).unwrap();
        assert!(world.writes.recv_timeout(LONG).unwrap().1[0].1.is_ok());
        state.store(outage, Ordering::Release);
        // One call ends, and another one begins and ends.
        write(Write::Rest(RestWrite::Replace(rest_call("CA1", "completed"))));
        write(call());
        write(Write::Rest(RestWrite::Insert(rest_call("CA2", "in-progress"))));
        write(Write::Rest(RestWrite::Replace(rest_call("CA2", "completed"))));
        // A write of the REST interface has an asker, which is told.
        let asked = Write::Rest(RestWrite::Insert(rest_call("CA3", "queued")));
        world.service.write(asked, ticket(0, 2)).unwrap();
        let refused = world.writes.recv_timeout(LONG).unwrap().1;
        assert!(matches!(refused[..], [(2, Err(StoreError::Unreachable { .. }))]), "{refused:?}");
        let waits = || (world.service.waiting().0 == 4).then_some(());
        wait::until("the writes wait", LONG, waits, || format!("{:?}", world.service.waiting()));
        state.store(IS_THERE, Ordering::Release);
        let is_written = || (world.service.waiting().0 == 0).then_some(());
        wait::until("they are written", LONG, is_written, || format!("{:?}", world.service.waiting()));
        let mut admin = Admin::new(&world.store).unwrap();
        assert_eq!(admin.calls(CallFilter { limit: 9, ..CallFilter::default() }).unwrap().len(), 1);
        let list = RestRead::List(RestFilter { ascending: true, ..RestFilter::all(Kind::Call) });
        let Loaded::Rest(RestLoaded::Page { rows, .. }) = admin.read(&Read::Rest(list)).unwrap() else {
            panic!("a page was asked for");
        };
        let found = rows.iter().map(|row| (&*row.sid, row.status.as_deref().unwrap()));
        let mut expected = vec![("CA1", "completed"), ("CA2", "completed")];
        // The node cannot know that it was written.
        expected.extend((outage == LOSES_ANSWERS).then_some(("CA3", "queued")));
        assert_eq!(found.collect::<Vec<_>>(), expected);
        assert_eq!(world.sinks.lost.load(Ordering::Relaxed), 0);
    }
}

#[test]
fn a_record_that_the_database_does_not_take_is_counted_as_lost() {
    let world = world(&ServiceOptions { ride_along: Duration::ZERO, ..ServiceOptions::default() });
    let other = rusqlite::Connection::open(world.store.path()).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    world.service.write(call(), None).unwrap();
    world.service.write(Write::ForgetCalls { before: Instant::from_micros(2) }, None).unwrap();
    let is_lost = || (world.sinks.lost.load(Ordering::Relaxed) == 1).then_some(());
    wait::until("the record is counted", LONG, is_lost, String::new);
}
