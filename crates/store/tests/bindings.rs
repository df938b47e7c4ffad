//! The log of bindings: what lives stays, what is dead leaves the file, and nothing comes back.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeMap;
use std::path::Path;

use rusqlite::Connection;
use stdx::Instant;
use stdx::rng::SplitMix64;
use store::{BindingWrite, Loaded, Read, Sqlite, Store, Write, WriteDone, Writer, limits};
use tempfile::TempDir;

/// When rows are written: after every time that a test cleans with, but for `FAR_FUTURE`.
const WRITTEN: Instant = Instant::from_unix_seconds(2_000_000_000);

/// A store with routers' part of the work: which row is whose, and what is dead.
struct World {
    dir: TempDir,
    writer: Box<dyn Writer>,
    /// The row of each address that has one, and its value. Value 0: nothing bound.
    rows: BTreeMap<u32, (i64, u32)>,
}

impl World {
    fn new() -> World {
        let dir = tempfile::tempdir().unwrap();
        let writer = Sqlite::open(dir.path().join("belfry.db")).unwrap().writer().unwrap();
        World { dir, writer, rows: BTreeMap::new() }
    }

    fn store(&self) -> Sqlite {
        Sqlite::open(self.dir.path().join("belfry.db")).unwrap()
    }

    /// One group that sets each address to a value.
    fn set(&mut self, values: &[(u32, u32)]) {
        let group: Vec<Write> = values.iter().map(|(aor, value)| self.write(*aor, *value)).collect();
        let results = self.writer.write_group(&group);
        for ((aor, value), result) in values.iter().zip(results) {
            let Ok(WriteDone::Logged { seq }) = result else { panic!("{result:?}") };
            self.rows.insert(*aor, (seq, *value));
        }
        self.rows.retain(|_, (_, value)| *value > 0);
    }

    fn write(&self, aor: u32, value: u32) -> Write {
        Write::Binding(BindingWrite {
            bucket: 0,
            aor: aor.to_string().into(),
            epoch: 0,
            written_at: WRITTEN,
            replaces: self.rows.get(&aor).map(|(row, _)| *row),
            empties: value == 0,
            record: record(aor, value),
        })
    }

    fn forget(&mut self, rows: Vec<i64>) {
        let done = self.writer.write_group(&[Write::ForgetBindings { rows: rows.into() }]);
        assert!(matches!(done[..], [Ok(WriteDone::Changed { .. })]));
    }

    fn clean(&mut self, before: Instant) -> u64 {
        match self.writer.write_group(&[Write::CleanBindings { before }])[..] {
            [Ok(WriteDone::Changed { rows })] => rows,
            ref other => panic!("{other:?}"),
        }
    }

    /// `kill -9`: what is dead is forgotten, and found again by reading the log. Fails unless that finds what lives.
    fn restart(&mut self) {
        let (found, dead) = read(&self.store());
        assert_eq!(found, self.rows);
        self.writer = self.store().writer().unwrap();
        self.forget(dead);
    }

    fn in_file(&self) -> u64 {
        self.store().reader().unwrap().replay(&mut |_| ()).unwrap()
    }

    fn pages(&self) -> i64 {
        let conn = Connection::open(self.dir.path().join("belfry.db")).unwrap();
        conn.pragma_query_value(None, "page_count", |row| row.get(0)).unwrap()
    }
}

fn record(aor: u32, value: u32) -> Box<[u8]> {
    let mut record = vec![7; 200];
    record[..4].copy_from_slice(&aor.to_be_bytes());
    record[4..8].copy_from_slice(&value.to_be_bytes());
    record.into()
}

/// Reads the log as routers do: the last row of an address counts. Returns the live rows, and the numbers of
/// the dead ones.
fn read(store: &Sqlite) -> (BTreeMap<u32, (i64, u32)>, Vec<i64>) {
    let (mut rows, mut dead) = (BTreeMap::new(), Vec::new());
    let number = |bytes: &[u8]| u32::from_be_bytes(*bytes.first_chunk().unwrap());
    store
        .reader()
        .unwrap()
        .replay(&mut |row| {
            let (aor, value) = (number(row.record), number(&row.record[4..]));
            let older = rows.insert(aor, (row.seq, value));
            dead.extend(older.filter(|(_, value)| *value > 0).map(|(seq, _)| seq));
            dead.extend((value == 0).then_some(row.seq));
        })
        .unwrap();
    rows.retain(|_, (_, value)| *value > 0);
    (rows, dead)
}

fn roll(dice: &mut SplitMix64, sides: u32) -> u32 {
    u32::try_from(dice.below(u64::from(sides))).unwrap()
}

#[test]
fn refreshes_do_not_grow_the_file() {
    let mut world = World::new();
    let refresh = |world: &mut World, round: u32| {
        for start in (0..3_000).step_by(50) {
            world.set(&Vec::from_iter((start..start + 50).map(|aor| (aor, round))));
        }
    };
    (1..=4).for_each(|round| refresh(&mut world, round));
    let (rows, pages) = (world.in_file(), world.pages());
    assert!(rows < 3_000 + 2_000, "{rows} rows for 3,000 addresses");
    (5..=24).for_each(|round| refresh(&mut world, round));
    assert!(world.in_file() < 3_000 + 2_000);
    assert!(world.pages() <= pages + 10, "{pages} pages became {}", world.pages());
    world.restart();
}

#[test]
fn refreshes_in_any_order_leave_at_most_as_many_dead_rows_as_live_and_a_few() {
    let (mut world, mut dice) = (World::new(), SplitMix64::new(1));
    for _ in 0..1_000 {
        let group = BTreeMap::from_iter((0..20).map(|_| (roll(&mut dice, 2_000), 1 + roll(&mut dice, 9))));
        world.set(&Vec::from_iter(group));
    }
    let rows = world.in_file();
    assert!(rows <= 2 * 2_000 + 4_096 + 1_024, "{rows} rows for 2,000 addresses");
    world.restart();
}

#[test]
fn removed_and_expired_bindings_do_not_return_at_a_restart() {
    for seed in 0..5 {
        let (mut world, mut dice) = (World::new(), SplitMix64::new(seed));
        for step in 0..200 {
            let addresses = [3, 200, 2_000][roll(&mut dice, 3) as usize];
            match roll(&mut dice, 12) {
                0 => {
                    // Bindings ended: the row has no successor.
                    let ended = roll(&mut dice, addresses);
                    if let Some((row, _)) = world.rows.remove(&ended) {
                        world.set(&[]);
                        world.forget(vec![row]);
                    }
                }
                1 => world.restart_if_nothing_ended(),
                _ => {
                    let size = roll(&mut dice, 60);
                    let value = |dice: &mut SplitMix64| if roll(dice, 4) == 0 { 0 } else { step + 1 };
                    let group = (0..size).map(|_| (roll(&mut dice, addresses), value(&mut dice)));
                    let group = BTreeMap::from_iter(group.collect::<Vec<_>>());
                    world.set(&Vec::from_iter(group));
                }
            }
        }
        world.restart_if_nothing_ended();
    }
}

impl World {
    /// As `restart`, where addresses whose bindings have ended may still have their last row: a router drops it by its
    /// time. An older row of theirs must not be there without the newer one.
    fn restart_if_nothing_ended(&mut self) {
        let (found, mut dead) = read(&self.store());
        for (aor, (row, value)) in &found {
            match self.rows.get(aor) {
                Some(lives) => assert_eq!(*lives, (*row, *value), "address {aor}"),
                None => dead.push(*row),
            }
        }
        assert!(self.rows.keys().all(|aor| found.contains_key(aor)), "live bindings are there");
        dead.sort_unstable();
        self.writer = self.store().writer().unwrap();
        self.forget(dead);
    }
}

#[test]
fn dead_rows_leave_an_idle_node_within_two_hours_and_old_ones_by_their_age() {
    let mut world = World::new();
    let rows: u32 = 1_000;
    world.set(&Vec::from_iter((0..rows).map(|aor| (aor, 1))));
    // One row in three has ended: no chunk is worth sweeping by itself.
    let ended = world.rows.values().map(|(row, _)| *row).filter(|row| row % 3 == 0).collect();
    world.forget(ended);
    let start = 1_800_000_000;
    for seconds in [0, 60, 7_000] {
        world.clean(Instant::from_unix_seconds(start + seconds));
        assert_eq!(world.in_file(), 1_000);
    }
    world.clean(Instant::from_unix_seconds(start) + limits::DEAD_BINDING);
    world.clean(Instant::from_unix_seconds(start) + limits::DEAD_BINDING);
    let left = world.in_file();
    assert!(left < 850, "{left}: at most the last chunk waits");
    assert_eq!(read(&world.store()).0.len() as u64, left);
    // Beyond the longest binding a row is dead whatever it holds.
    let late = Instant::FAR_FUTURE;
    while world.clean(late) > 0 {}
    assert_eq!(world.in_file(), 0);
}

#[test]
fn row_numbers_are_not_reused_after_cleaning() {
    let mut world = World::new();
    world.set(&[(1, 1)]);
    let first = world.rows[&1].0;
    while world.clean(Instant::FAR_FUTURE) > 0 {}
    assert_eq!(world.in_file(), 0);
    world.set(&[(2, 1)]);
    assert!(world.rows[&2].0 > first);
}

/// A file of the schema before decision 0029: a log that was never cleaned, and messages numbered by the microsecond.
fn old_file(path: &Path) {
    let conn = Connection::open(path).unwrap();
    for migration in [
        include_str!("../migrations/0001_first.sql"),
        include_str!("../migrations/0002_rest.sql"),
        include_str!("../migrations/0003_xmpp.sql"),
        include_str!("../migrations/0004_access.sql"),
    ] {
        conn.execute_batch(migration).unwrap();
    }
    conn.pragma_update(None, "user_version", 4).unwrap();
    conn.execute_batch("BEGIN").unwrap();
    let mut insert = conn.prepare("INSERT INTO binding_log (written_at, record) VALUES (1, ?1)").unwrap();
    for round in 1..=24 {
        for aor in 0..500 {
            insert.execute([record(aor, round)]).unwrap();
        }
    }
    insert.execute([record(7, 0)]).unwrap();
    drop(insert);
    conn.execute_batch(
        "INSERT INTO kept_message VALUES (1800000000000000, 'a@b', 'sip:c@b', 'text/plain', x'31', 1); COMMIT",
    )
    .unwrap();
}

#[test]
fn a_file_of_the_old_schema_keeps_live_rows_and_loses_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    old_file(&dir.path().join("belfry.db"));
    let store = Sqlite::open(dir.path().join("belfry.db")).unwrap();
    let (rows, dead) = read(&store);
    assert_eq!(rows.len(), 499);
    assert!(rows.values().all(|(_, value)| *value == 24) && !rows.contains_key(&7));
    assert_eq!(dead.len(), 24 * 500 + 1 - 499);
    let mut world = World { dir, writer: store.writer().unwrap(), rows };
    world.forget(dead);
    while world.clean(Instant::from_micros(1)) > 0 {}
    assert_eq!(world.in_file(), 499);
    world.restart();
    let read = Read::KeptMessages { aor: "a@b".into() };
    let Ok(Loaded::KeptMessages(kept)) = world.store().reader().unwrap().load(&read) else { panic!() };
    assert_eq!((kept[0].id, &*kept[0].body), (1_800_000_000_000_000, &b"1"[..]));
}
