//! The table with a time as its argument, and connections that make room.

use std::net::IpAddr;

use super::*;

const GRACE: u32 = 500;

fn source(number: u32) -> Option<SourcePrefix> {
    Some(IpAddr::from(number.to_be_bytes()).into())
}

fn table(total: usize, per_source: usize) -> Arc<Admission> {
    assert_eq!(u128::from(GRACE), limits::IN_PROGRESS_GRACE.as_millis());
    Admission::new(Bounds { total, per_source })
}

#[test]
fn at_a_sources_cap_its_longest_idle_connection_makes_room_and_other_sources_are_not_touched() {
    let admission = table(100, 2);
    let other = admission.enter_at(0, source(2), 10).unwrap();
    let first = admission.enter_at(0, source(1), 10).unwrap();
    let second = admission.enter_at(1, source(1), 10).unwrap();
    assert!(admission.enter_at(GRACE - 1, source(1), 10).is_none(), "none is idle for long enough");
    first.0.0.stepped.store(GRACE, Ordering::Relaxed);
    let third = admission.enter_at(GRACE + 1, source(1), 10).unwrap();
    let evicted = [&other, &first, &second, &third].map(|admitted| admitted.is_evicted());
    assert_eq!(evicted, [false, false, true, false], "the first one has made a step");
    assert_eq!((admission.in_progress(), admission.evicted()), (3, 1));
}

#[test]
fn at_the_total_cap_the_longest_idle_connection_of_all_makes_room() {
    let admission = table(3, 2);
    let held: Vec<_> = (1..4).map(|number| admission.enter_at(number, source(number), 10).unwrap()).collect();
    held[0].0.0.is_busy.store(true, Ordering::Relaxed);
    let _fourth = admission.enter_at(GRACE + 9, source(4), 10).unwrap();
    assert_eq!(held.iter().map(|admitted| admitted.is_evicted()).collect::<Vec<_>>(), [false, true, false]);
    assert_eq!(admission.in_progress(), 3);
}

#[test]
fn established_connections_are_never_evicted_and_have_a_bound_of_their_own() {
    let admission = table(2, 1);
    let held: Vec<_> = (0..5)
        .map(|now| {
            let admitted = admission.enter_at(now, source(1), 5).unwrap();
            admitted.establish();
            admitted
        })
        .collect();
    assert!(admission.enter_at(9_999, source(1), 5).is_none());
    assert!(!admission.has_place(source(1).unwrap(), 5) && admission.has_place(source(2).unwrap(), 5));
    assert!(!held.iter().any(|admitted| admitted.is_evicted()));
    drop(held);
    assert!(admission.enter_at(9_999, source(1), 5).is_some());
    assert!(admission.table().sources.is_empty(), "nothing is remembered of sources without connections");
}

#[test]
fn an_open_connection_keeps_its_place_without_its_entry() {
    let admission = table(2, 2);
    let first = admission.enter_at(0, source(1), 2).unwrap();
    let entry = Arc::downgrade(&first.0.0);
    assert!(first.into_open().unwrap() && entry.upgrade().is_none(), "no memory is kept for it");
    let _second = admission.enter_at(0, source(1), 2).unwrap();
    assert!(!admission.has_place(source(1).unwrap(), 2) && admission.in_progress() == 1);
    admission.leave_open(source(1).unwrap());
    assert!(admission.has_place(source(1).unwrap(), 2));
    assert!(!admission.enter_at(0, None, 2).unwrap().into_open().unwrap(), "no source counts it");
}

#[test]
fn a_connection_that_has_to_make_room_is_not_opened() {
    let admission = table(1, 1);
    let first = admission.enter_at(0, source(1), 10).unwrap();
    let _second = admission.enter_at(GRACE, source(1), 10).unwrap();
    assert!(first.into_open().is_err_and(|evicted| evicted.is_evicted()));
    assert_eq!(admission.table().sources[&source(1).unwrap()].open, 1);
}

#[test]
fn connections_that_come_and_go_leave_no_memory_behind() {
    let admission = table(1_000, 1_000);
    let _held = admission.enter_at(0, source(1), 10).unwrap();
    for now in 0..10_000 {
        drop(admission.enter_at(now, source(1), 10).unwrap());
    }
    let table = admission.table();
    assert_eq!(table.waiting.count, 1);
    assert!(table.waiting.queue.len() <= 3 + limits::IN_PROGRESS_LEFT);
    assert!(table.sources[&source(1).unwrap()].waiting.queue.len() <= 3 + limits::IN_PROGRESS_LEFT);
}

#[test]
fn without_file_descriptors_an_idle_connection_in_progress_ends() {
    let admission = table(10, 10);
    let (silent, established) = (admission.enter(None, 1).unwrap(), admission.enter(None, 1).unwrap());
    established.establish();
    let entered = silent.0.0.stepped.load(Ordering::Relaxed);
    assert!(!admission.shed_at(entered + GRACE - 1), "none is idle for long enough");
    assert!(admission.shed_at(entered + GRACE) && !admission.shed_at(entered + GRACE));
    assert!(silent.is_evicted() && !established.is_evicted());
}

#[test]
fn half_of_the_places_are_one_sources_and_a_small_process_has_few() {
    for (files, total) in [(20_000, 5_000), (1_024, 256), (16, 64), (1_000_000, 8_192)] {
        let bounds = Bounds::of_open_files(files);
        assert_eq!((bounds.total, bounds.per_source), (total, total / 2));
    }
    assert!(open_files().is_some_and(|files| files > 0));
}

#[tokio::test]
async fn work_ends_when_the_connection_is_evicted_or_the_time_is_over() {
    let admission = table(1, 1);
    let first = admission.enter_at(0, source(1), 10).unwrap();
    let never = std::future::pending::<()>;
    assert_eq!(within(Some(&first), Duration::from_millis(1), never()).await, None);
    assert_eq!(within(Some(&first), Duration::from_secs(60), async { 7 }).await, Some(7));
    let (done, _second) = tokio::join!(within(Some(&first), Duration::from_secs(60), never()), async {
        admission.enter_at(GRACE + 60_000, source(1), 10).unwrap()
    });
    assert_eq!(done, None);
}
