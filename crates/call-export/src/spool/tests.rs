//! Tests of the queue on disk, over restarts and with damaged files.

use std::os::unix::fs::PermissionsExt as _;

use store::CallRecord;

use super::*;

fn record(number: u64) -> CallRecord {
    CallRecord {
        call_id: number.to_string().into(),
        from: "sip:alice@example.test".into(),
        to: "sip:bob@example.test".into(),
        started_at: Instant::from_unix_seconds(1_800_000_000),
        answered_at: None,
        ended_at: Instant::from_unix_seconds(1_800_000_000 + number),
        code: 404,
        reason: "Not Found".into(),
        account: None,
        callee: None,
    }
}

fn append(spool: &Spool, numbers: std::ops::Range<u64>) -> io::Result<()> {
    let mut lines = Vec::new();
    numbers.clone().for_each(|number| Line::new(record(number)).write(&mut lines));
    spool.append(&lines, numbers.end - numbers.start, record(numbers.start).ended_at)
}

fn numbers(group: &Group) -> Vec<u64> {
    group.lines.iter().map(|line| line.record.call_id.parse().unwrap()).collect()
}

/// The numbers of all records that wait, which are then sent.
fn send_all(spool: &Spool) -> Vec<u64> {
    let mut all = Vec::new();
    while spool.status("").waiting > 0 {
        let group = spool.next_group().unwrap();
        all.extend(numbers(&group));
        spool.finish(&group, 0);
    }
    all
}

fn files(folder: &Path) -> usize {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).count()
}

/// Two starts without a call between them: all files are gone, and the position is beyond the first number.
#[test]
fn records_after_a_start_with_an_empty_queue_are_sent_after_the_next() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    let spool = open();
    append(&spool, 0..3).unwrap();
    assert_eq!(send_all(&spool), [0, 1, 2]);
    drop(spool);
    let spool = open();
    assert_eq!(spool.lock().take_sent(), [0]);
    fs::remove_file(path_of(folder.path(), 0)).unwrap();
    assert_eq!(files(folder.path()), 0);
    drop(spool);
    append(&open(), 3..5).unwrap();
    assert_eq!(send_all(&open()), [3, 4]);
}

#[test]
fn records_come_in_their_order_and_in_groups_also_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    append(&spool, 0..700).unwrap();
    let first = spool.next_group().unwrap();
    assert_eq!(numbers(&first), (0..limits::GROUP as u64).collect::<Vec<_>>());
    spool.finish(&first, 0);
    // This one's answer is not noted before the process ends.
    let lost = spool.next_group().unwrap();
    assert_eq!(numbers(&lost).first(), Some(&500));
    drop(spool);
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    let status = spool.status("them");
    assert_eq!((status.waiting, &*status.receiver), (200, "them"));
    append(&spool, 700..703).unwrap();
    assert_eq!(send_all(&spool), (500..703).collect::<Vec<_>>());
    let status = spool.status("");
    assert_eq!((status.waiting, status.oldest, status.sent), (0, None, 203));
    drop(spool);
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    assert_eq!(spool.status("").waiting, 0);
    append(&spool, 703..704).unwrap();
    assert_eq!(spool.status("").oldest, Some(record(703).ended_at));
    assert_eq!(send_all(&spool), [703]);
    assert_eq!(files(folder.path()), 1, "sent files are removed");
    let queued = spool.lock().segments.back().map(|segment| path_of(folder.path(), segment.number)).unwrap();
    assert_eq!(fs::metadata(queued).unwrap().permissions().mode() & 0o077, 0, "no other user reads it");
}

#[test]
fn a_full_queue_refuses_records_until_others_are_sent() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), 4_000).unwrap();
    append(&spool, 0..10).unwrap();
    let error = append(&spool, 10..20).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    assert_eq!(send_all(&spool), (0..10).collect::<Vec<_>>());
    append(&spool, 20..30).unwrap();
    assert_eq!(send_all(&spool), (20..30).collect::<Vec<_>>());
}

#[test]
fn a_file_of_the_queue_is_bounded_and_removed_when_it_is_sent() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    let mut next = 0;
    while files(folder.path()) < 3 {
        append(&spool, next..next + 1_000).unwrap();
        next += 1_000;
    }
    assert_eq!(send_all(&spool), (0..next).collect::<Vec<_>>());
    append(&spool, next..next + 1).unwrap();
    assert_eq!(send_all(&spool), [next]);
    assert_eq!(files(folder.path()), 1);
}

#[test]
fn damaged_and_cut_lines_spoil_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    append(&spool, 0..2).unwrap();
    drop(spool);
    let path = path_of(folder.path(), 0);
    let text = fs::read_to_string(&path).unwrap();
    let (first, second) = text.split_once('\n').unwrap();
    fs::write(&path, format!("{first}\n\0garbage\n{second}{{\"id\":\"cut")).unwrap();
    fs::write(folder.path().join("position"), "no numbers").unwrap();
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    assert_eq!(spool.status("").waiting, 3);
    assert_eq!(send_all(&spool), [0, 1]);
    assert_eq!(spool.status("").dropped, 1);
}

#[test]
fn a_file_that_was_taken_away_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    append(&spool, 0..2).unwrap();
    fs::remove_file(path_of(folder.path(), 0)).unwrap();
    spool.lock().phase = Phase::Closing;
    assert!(spool.next_group().is_none());
    assert_eq!((spool.status("").dropped, spool.status("").waiting), (2, 0));
    append(&spool, 2..3).unwrap();
    assert_eq!(send_all(&spool), [2]);
}

#[test]
fn a_queue_that_closes_ends_a_pause_and_sends_the_rest() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    append(&spool, 0..1).unwrap();
    assert!(spool.pause(Duration::ZERO));
    assert!(spool.note_failure("away") && !spool.note_failure("still away"));
    assert_eq!(spool.status("").failure.as_deref(), Some("still away"));
    assert!(!spool.close(Duration::ZERO), "no thread has ended");
    assert!(!spool.pause(Duration::from_secs(3_600)));
    assert!(spool.next_group().is_none());
    spool.note_end();
    assert!(spool.close(Duration::from_secs(3_600)));
}

/// `belfry status` asks on the node's own thread: a disk that does not answer must not stop it.
#[test]
fn the_status_is_there_while_the_disk_takes_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let spool = Spool::open(folder.path(), limits::QUEUE_BYTES).unwrap();
    append(&spool, 0..1).unwrap();
    // A pipe that is not read stands for the disk.
    let (mut disk, writer) = io::pipe().unwrap();
    *spool.open.lock().unwrap() = Some(File::from(std::os::fd::OwnedFd::from(writer)));
    let mut lines = Vec::new();
    (1..10_000).for_each(|number| Line::new(record(number)).write(&mut lines));
    std::thread::scope(|scope| {
        let appended = scope.spawn(|| spool.append(&lines, 9_999, record(1).ended_at));
        // The write has begun, and does not end: a pipe holds 64 KiB.
        disk.read_exact(&mut [0]).unwrap();
        assert_eq!(spool.status("").waiting, 1);
        spool.count_dropped(1);
        disk.read_exact(&mut vec![0; lines.len() - 1]).unwrap();
        appended.join().unwrap().unwrap();
    });
    assert_eq!(spool.status("").waiting, 10_000);
}
