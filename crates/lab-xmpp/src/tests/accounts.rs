//! Accounting for users that stay absent, and for presences when there are too many.

use super::*;

#[test]
fn messages_for_a_user_that_does_not_come_back_are_stored_and_not_lost() {
    let mut waited = 0;
    for seed in 0..10 {
        let (stats, stage) = run("message=80,logout=20", Fault::LockOut, seed, 900);
        let counts = &stats.counts;
        assert_eq!((stage, stats.lost()), (LoadStage::Leaving, 0), "seed {seed}: {counts:?}");
        let accounted = counts[Count::ChatReceived] + counts[Count::ChatRefused] + stats.waiting();
        assert_eq!(counts[Count::ChatSent], accounted, "seed {seed}");
        assert!(counts[Count::FailedNotAuthorized] > 0, "seed {seed}: the locked-out user tried");
        waited += stats.waiting();
    }
    assert!(waited > 20, "{waited}");
}

#[test]
fn no_message_waits_when_all_users_are_back() {
    let (stats, _) = run("message=80,logout=20", Fault::None, 1, 900);
    assert!(stats.counts[Count::ChatStored] > 0);
    assert_eq!((stats.waiting(), stats.lost()), (0, 0));
    // A message lost on the way to a signed-in user is not excused.
    assert_eq!(run("message=80,logout=20", Fault::LoseMessage, 1, 900).0.lost(), 1);
}

#[test]
fn a_message_in_flight_when_its_receiver_signs_out_arrives() {
    for seed in 0..5 {
        let (stats, _) = run("message=80,logout=20", Fault::Slow, seed, 900);
        assert!(stats.counts[Count::ChatSent] > 100);
        // The last one is on its way for ever.
        assert!(stats.lost() <= 1, "seed {seed}: {}", stats.lost());
    }
}

/// The times of monitors must not depend on the number of other users.
#[test]
fn monitors_see_each_other_however_few_look() {
    let mut chat = chat("message=80,presence=20");
    chat.people = chat.people.with_monitors(2).unwrap().with_presences_of(5);
    chat.monitors = MonitorOptions { pairs: 2, every: Duration::from_secs(1) };
    let (stats, _, _) = run_load(chat, Fault::None, 1, 600);
    assert_eq!((lost(&stats), unseen(&stats), stats.counts[Count::FailedCall]), (0, 0, 0));
    assert!(stats.rtds[TimerName::MonitorPresence as usize].response.n > 30);
}

/// Counters of ten users with three contacts each.
fn presences(pairs: u64, fault: Fault, seed: u64) -> Stats {
    let mut chat = chat("message=80,presence=20");
    chat.people = chat.people.with_presences_of(pairs);
    run_chat(chat, fault, seed, 600).0
}

#[test]
fn a_sample_of_presences_is_accounted_for_like_all() {
    let count = |stats: &Stats| (stats.counts[Count::PresenceExpected], stats.counts[Count::PresenceSeen]);
    let (all, sample) = (count(&presences(30, Fault::None, 3)), count(&presences(10, Fault::None, 3)));
    assert_eq!((all.0, sample.0), (all.1, sample.1));
    // Four of ten look.
    assert!(sample.0 > 50 && sample.0.abs_diff(all.0 * 4 / 10) < all.0 / 10, "{sample:?} of {all:?}");
    let missed: Vec<i64> = (0..10).map(|seed| unseen(&presences(10, Fault::LosePresence, seed))).collect();
    assert!(missed.iter().any(|missed| *missed > 0), "{missed:?}");
}
