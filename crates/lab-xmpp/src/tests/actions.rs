//! Actions of users other than messages.

use super::*;
use crate::limits::ASKING;
use crate::{ACTIONS, StanzaTemplate};

/// One of each kind; the name of the message is one that the load's own could have.
const STANZAS: &str = "<message to='{contact}' id='msg7'><body>{id}</body></message>\
    <presence to='{contact}'><status>raw</status></presence>\
    <iq type='get' to='{domain}'><query xmlns='urn:raw'>{user} {n} {jid}</query></iq>";

fn with_stanzas(mix: &str) -> XmppLoad {
    XmppLoad { stanzas: StanzaTemplate::parse_all(STANZAS, "stanzas.xml").unwrap(), ..chat(mix) }
}

impl Server {
    /// One node, which has to be made.
    pub(super) fn pubsub(&mut self, name: &str, id: &str, pubsub: &Element) -> String {
        let refused = |condition: &str| {
            let error = format!("<{condition} xmlns='{}'/>", ns::STANZA_ERRORS);
            format!("<iq type='error' id='{id}'><error type='cancel'>{error}</error></iq>")
        };
        let is_there = !self.creators.is_empty() && self.fault != Fault::RefuseNode;
        if pubsub.get("create", ns::PUBSUB).is_some() {
            self.creators.push(name.to_owned());
            return match self.fault {
                Fault::RefuseNode => refused("forbidden"),
                _ if is_there => refused("conflict"),
                _ => format!("<iq type='result' id='{id}'/>"),
            };
        }
        if is_there { format!("<iq type='result' id='{id}'/>") } else { refused("item-not-found") }
    }
}

#[test]
fn all_actions_at_once_and_all_accounts_are_even() {
    let mix: Vec<String> = ACTIONS.iter().map(|(name, ..)| format!("{name}=1")).collect();
    for seed in 0..5 {
        let chat = XmppLoad { rooms: 3, ..with_stanzas(&mix.join(",")) };
        let (stats, stage, _) = run_load(chat, Fault::None, seed, 600);
        let counts = &stats.counts;
        assert_eq!((stage, lost(&stats), unseen(&stats)), (LoadStage::Leaving, 0, 0), "seed {seed}");
        assert_eq!(counts[Count::FailedCall], 0, "{counts:?}");
        assert_eq!(counts[Count::OutgoingCall], counts[Count::SuccessfulCall], "each has its answer");
        let beside = [
            TimerName::Registration,
            TimerName::MonitorMessage,
            TimerName::MonitorPresence,
            TimerName::MonitorAuthentication,
        ];
        for (timer, name) in stats.rtds.iter().zip(TIMERS) {
            let is_beside = beside.iter().any(|timed| TIMERS[*timed as usize] == name);
            assert_eq!(timer.response.n > 0, !is_beside, "{name}, seed {seed}");
        }
    }
}

#[test]
fn messages_to_an_absent_user_wait_and_come() {
    let (stats, _, _) = run_load(chat("message-offline=80,logout=20"), Fault::None, 1, 600);
    let counts = &stats.counts;
    assert_eq!(lost(&stats), 0);
    let (sent, stored) = (counts[Count::ChatSent], counts[Count::ChatStored]);
    assert!(stored > 30, "{stored} of {sent}");
    assert_eq!(stored, sent, "no message for an absent user arrives at once");
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
    let lonely = || XmppLoad { befriend: true, ..chat("message=1") };
    let (_, stage, server) = run_load(lonely(), Fault::Strangers, 1, 600);
    let pairs = lonely().people.count() * lonely().people.contacts() / 2;
    assert_eq!((server.asked.len(), stage), (pairs as usize, LoadStage::Leaving));
    let (_, stage, server) = run_load(lonely(), Fault::Unfriendly, 1, 600);
    let asking: BTreeSet<_> = server.asked.iter().map(|(name, _)| name).collect();
    assert_eq!((server.asked.len(), stage), (asking.len(), LoadStage::Leaving), "{:?}", server.asked);
}

/// Their errors are not those of the load's own messages.
#[test]
fn stanzas_of_a_file_are_sent_and_answered_and_no_accounts_are_theirs() {
    let (stats, _, _) = run_load(with_stanzas("message=50,presence=10,raw=50"), Fault::None, 1, 600);
    let counts = &stats.counts;
    assert_eq!((lost(&stats), unseen(&stats), counts[Count::FailedCall]), (0, 0, 0));
    let answered = stats.rtds[TimerName::Raw as usize].response.n;
    assert!((50..200).contains(&answered), "a third of some 300: {answered}");
    let (stats, _, server) = run_load(with_stanzas("message=50,raw=50"), Fault::Refuse, 1, 600);
    let counts = &stats.counts;
    assert_eq!((lost(&stats), counts[Count::ChatRefused]), (0, counts[Count::ChatSent]));
    assert_eq!(counts[Count::FailedCallRejected], counts[Count::FailedCall], "by what was answered");
    assert!(counts[Count::FailedCall] > 50 && stats.rtds[TimerName::Raw as usize].response.n == 0);
    assert!(server.errors[0].ends_with("is refused, no condition"), "{:?}", server.errors);
}

#[test]
fn the_node_is_made_once_by_the_first_user_that_needs_it() {
    let mix = "pubsub-publish=50,pubsub-get=50";
    let (stats, _, server) = run_load(chat(mix), Fault::None, 1, 600);
    assert_eq!((server.creators.len(), stats.counts[Count::FailedCall]), (1, 0));
    assert_eq!(stats.counts[Count::OutgoingCall], stats.counts[Count::SuccessfulCall]);
    let mut server = Server::new(Fault::None);
    server.creators.push("an earlier run".to_owned());
    let (stats, _, server) = run_against(server, chat(mix), 1, 600);
    assert_eq!((server.creators.len(), stats.counts[Count::FailedCall]), (2, 0), "a conflict is fine");
}

#[test]
fn without_a_node_nothing_is_published() {
    let (stats, _, server) = run_load(chat("pubsub-publish=1"), Fault::RefuseNode, 1, 600);
    let counts = &stats.counts;
    assert!(
        counts[Count::FailedCallRejected] > 100 && stats.rtds[TimerName::Pubsub as usize].response.n == 0
    );
    assert_eq!(server.creators.len() as u64, counts[Count::FailedCall], "each asks anew");
    assert!(server.errors[0].ends_with("is refused, forbidden"), "{:?}", server.errors);
    assert!(server.errors[1].ends_with("is refused, item-not-found"), "{:?}", server.errors);
}

#[test]
fn only_so_many_ask_for_a_friend_at_once() {
    let people = UserDirectory::new(300, 3, 0, ("user{n}", "secret"), "d").unwrap();
    let many = || XmppLoad { befriend: true, logins: 300.0, people: people.clone(), ..chat("message=1") };
    // The server answers no request: after the response time of five seconds the next users send theirs.
    let asked = |seconds| run_load(many(), Fault::Unfriendly, 1, seconds).2.asked.len();
    assert_eq!((asked(5), asked(10)), (ASKING, 2 * ASKING));
    let (_, stage, server) = run_load(many(), Fault::Strangers, 1, 600);
    assert_eq!((server.asked.len(), stage), (450, LoadStage::Leaving), "300 users of three friends each");
}
