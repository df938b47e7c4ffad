//! What users do besides talking.

use super::*;
use crate::chat::ACTIONS;
use crate::chat::limits::ASKING;

#[test]
fn all_actions_at_once_and_all_accounts_are_even() {
    let mix: Vec<String> = ACTIONS.iter().map(|(name, ..)| format!("{name}=1")).collect();
    for seed in 0..5 {
        let chat = Chat { rooms: 3, ..chat(&mix.join(",")) };
        let (stats, stage, _) = run_load(chat, Fault::None, seed, 600);
        let counts = &stats.counts;
        assert_eq!((stage, lost(&stats), unseen(&stats)), (Stage::Leaving, 0, 0), "seed {seed}");
        assert_eq!(counts[Count::FailedCall], 0, "{counts:?}");
        assert_eq!(counts[Count::OutgoingCall], counts[Count::SuccessfulCall], "each has its answer");
        let beside = [
            Timed::Registration,
            Timed::MonitorMessage,
            Timed::MonitorPresence,
            Timed::MonitorAuthentication,
        ];
        for (timer, name) in stats.rtds.iter().zip(TIMERS) {
            let is_beside = beside.iter().any(|timed| TIMERS[*timed as usize] == name);
            assert_eq!(timer.response.n > 0, !is_beside, "{name}, seed {seed}");
        }
    }
}

#[test]
fn messages_to_who_is_away_wait_for_him_and_come() {
    let (stats, _, _) = run_load(chat("message-offline=80,logout=20"), Fault::None, 1, 600);
    let counts = &stats.counts;
    assert_eq!(lost(&stats), 0);
    let (sent, stored) = (counts[Count::ChatSent], counts[Count::ChatStored]);
    assert!(stored > 30, "{stored} of {sent}");
    assert_eq!(stored, sent, "nobody gets what is for later at once");
    let (stats, _, _) = run_load(chat("message-online=80,logout=20"), Fault::None, 1, 600);
    assert!(stats.counts[Count::ChatSent] > 100);
    assert_eq!((lost(&stats), stats.counts[Count::ChatStored]), (0, 0));
}

#[test]
fn presence_for_one_is_accounted_for() {
    let seen = |fault| run("presence-directed=1", fault, 1, 600).0;
    let good = seen(Fault::None);
    assert!(good.counts[Count::PresenceSeen] > 100 && unseen(&good) == 0);
    assert_eq!(unseen(&seen(Fault::LosePresence)), 1);
}

/// One after another, so that a slow server is not flooded; and one that makes no friends does not hold the load up.
#[test]
fn friends_are_made_one_after_another() {
    let lonely = || Chat { befriend: true, ..chat("message=1") };
    let (_, stage, server) = run_load(lonely(), Fault::Strangers, 1, 600);
    let pairs = lonely().people.count() * lonely().people.contacts() / 2;
    assert_eq!((server.asked.len(), stage), (pairs as usize, Stage::Leaving));
    let (_, stage, server) = run_load(lonely(), Fault::Unfriendly, 1, 600);
    let asking: BTreeSet<_> = server.asked.iter().map(|(name, _)| name).collect();
    assert_eq!((server.asked.len(), stage), (asking.len(), Stage::Leaving), "{:?}", server.asked);
}

#[test]
fn only_so_many_ask_for_a_friend_at_once() {
    let people = People::new(300, 3, 0, ("user{n}", "secret"), "d").unwrap();
    let many = || Chat { befriend: true, logins: 300.0, people: people.clone(), ..chat("message=1") };
    // Nobody is answered: after their patience of five seconds it is the next ones' turn.
    let asked = |seconds| run_load(many(), Fault::Unfriendly, 1, seconds).2.asked.len();
    assert_eq!((asked(5), asked(10)), (ASKING, 2 * ASKING));
    let (_, stage, server) = run_load(many(), Fault::Strangers, 1, 600);
    assert_eq!((server.asked.len(), stage), (450, Stage::Leaving), "300 users of three friends each");
}
