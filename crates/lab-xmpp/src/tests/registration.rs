//! Accounts made and removed by the load.

use super::*;

fn registering() -> XmppLoad {
    XmppLoad { register: true, unregister: true, ..chat("message=1") }
}

fn with_accounts(fault: Fault, accounts: &[&str]) -> Server {
    let accounts = accounts.iter().map(|name| (*name).to_owned()).collect();
    Server { accounts: Some(accounts), ..Server::new(fault) }
}

#[test]
fn accounts_are_made_before_the_load_and_removed_after_it() {
    let (stats, stage, server) = run_against(with_accounts(Fault::None, &[]), registering(), 1, 600);
    let counts = &stats.counts;
    assert_eq!((stage, lost(&stats), counts[Count::FailedCall]), (LoadStage::Leaving, 0, 0), "{counts:?}");
    assert_eq!((counts[Count::Registered], counts[Count::Unregistered]), (10, 10));
    assert_eq!(server.accounts, Some(BTreeSet::new()));
    assert!(counts[Count::ChatSent] > 100);
    assert_eq!(counts[Count::OutgoingCall], counts[Count::SuccessfulCall]);
    assert_eq!(stats.rtds[TimerName::Registration as usize].response.n, 20);
}

#[test]
fn registration_has_its_own_rate_and_comes_first() {
    let chat = XmppLoad { registrations: 1.0, ..registering() };
    let (stats, stage, server) = run_against(with_accounts(Fault::None, &[]), chat, 1, 5);
    assert!((5..=6).contains(&stats.counts[Count::Registered]), "{:?}", stats.counts);
    assert_eq!((stage, server.online.len()), (LoadStage::Registering, 0));
}

#[test]
fn an_existing_account_is_no_failure() {
    let server = with_accounts(Fault::None, &["user1", "user5", "user8"]);
    let (stats, _, _) = run_against(server, registering(), 1, 600);
    let counts = &stats.counts;
    assert_eq!((counts[Count::Registered], counts[Count::AlreadyRegistered]), (7, 3));
    assert_eq!((counts[Count::FailedCall], counts[Count::Unregistered]), (0, 10));
}

#[test]
fn a_refusal_is_not_asked_again_and_throttling_is() {
    let chat = XmppLoad { retry: Retry { first: Duration::from_secs(1), give_up: 1 }, ..registering() };
    let (stats, stage, server) = run_against(with_accounts(Fault::RefuseRegistration, &[]), chat, 1, 60);
    assert_eq!(server.errors[0], "user0 is refused, not-allowed: not here");
    let counts = &stats.counts;
    assert_eq!((counts[Count::FailedCallRejected], counts[Count::Registered]), (10, 0));
    assert_eq!(
        (counts[Count::FailedNotAuthorized], stage),
        (10, LoadStage::Leaving),
        "no user has an account"
    );
    let (stats, _, _) = run_against(with_accounts(Fault::ThrottleRegistration, &[]), registering(), 1, 600);
    let counts = &stats.counts;
    assert_eq!((counts[Count::FailedThrottled], counts[Count::FailedCall]), (1, 1), "{counts:?}");
    assert_eq!((counts[Count::Registered], counts[Count::Unregistered]), (10, 10));
}
