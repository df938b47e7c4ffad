//! Pairs beside the load.

use super::*;

const MONITORS: [TimerName; 3] =
    [TimerName::MonitorAuthentication, TimerName::MonitorMessage, TimerName::MonitorPresence];

fn with_monitors(mix: &str) -> XmppLoad {
    let chat = chat(mix);
    let monitors = MonitorOptions { pairs: 2, every: Duration::from_secs(1) };
    XmppLoad { people: chat.people.clone().with_monitors(2).unwrap(), monitors, ..chat }
}

/// Ten users without actions, so that only the monitors' messages are counted.
fn only_monitors() -> XmppLoad {
    XmppLoad { think: ThinkTime::Fixed(Duration::from_secs(10_000)), ..with_monitors("message=1") }
}

fn times(stats: &Stats) -> [u64; 3] {
    MONITORS.map(|timed| stats.rtds[timed as usize].response.n)
}

#[test]
fn they_do_one_thing_after_another_at_their_pace() {
    let (stats, stage, _) = run_load(only_monitors(), Fault::None, 1, 600);
    let counts = &stats.counts;
    assert_eq!((stage, lost(&stats), unseen(&stats)), (LoadStage::Leaving, 0, 0));
    assert_eq!(counts[Count::FailedCall], 0, "{counts:?}");
    let [authentications, messages, presences] = times(&stats);
    // A minute, less what passes before both are there; a third of the steps each; two pairs, and four first sign-ins.
    assert!((36..=40).contains(&messages), "{:?}", times(&stats));
    assert!(messages.abs_diff(presences) <= 2 && authentications.abs_diff(messages + 4) <= 2);
    assert_eq!(counts[Count::ChatSent], 2 * messages, "there and back");
    assert_eq!(counts[Count::Due], counts[Count::OutgoingCall] + counts[Count::Blocked]);
    assert_eq!(counts[Count::OutgoingCall], counts[Count::SuccessfulCall]);
    assert_eq!(stats.rtds[TimerName::Message as usize].response.n, 0, "the mix has its own times");
}

#[test]
fn the_load_goes_on_beside_them() {
    for seed in 0..5 {
        let (stats, _, _) = run_load(with_monitors(SEED_MIX), Fault::None, seed, 600);
        let counts = &stats.counts;
        assert_eq!((lost(&stats), unseen(&stats), counts[Count::FailedCall]), (0, 0, 0), "seed {seed}");
        assert_eq!((counts[Count::ChatMisdelivered], counts[Count::ChatDuplicated]), (0, 0));
        assert!(times(&stats).into_iter().all(|n| n > 30), "{:?}", times(&stats));
        let mix = [TimerName::Message, TimerName::Presence, TimerName::Authentication];
        assert!(mix.into_iter().all(|timed| stats.rtds[timed as usize].response.n > 10));
    }
}

#[test]
fn a_stanza_that_does_not_come_is_a_failure_and_the_next_step_follows() {
    for (fault, failure) in [
        (Fault::LoseMessage, Count::FailedTimeoutOnRecv),
        (Fault::LosePresence, Count::FailedTimeoutOnRecv),
        (Fault::CloseOnce, Count::FailedTcpClosed),
    ] {
        let (stats, stage, _) = run_load(only_monitors(), fault, 1, 600);
        let counts = &stats.counts;
        assert_eq!((counts[failure], counts[Count::FailedCall]), (1, 1), "{fault:?}");
        assert_eq!(stage, LoadStage::Leaving);
        assert_eq!(lost(&stats) + unseen(&stats), i64::from(fault != Fault::CloseOnce), "{fault:?}");
        assert!(times(&stats).into_iter().all(|n| n > 30), "{fault:?}: {:?}", times(&stats));
    }
}
