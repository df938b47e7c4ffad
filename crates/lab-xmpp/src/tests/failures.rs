//! Users that fail or are redirected: the targets, the number of attempts, and their end.

use super::*;
use crate::redirect::HOPS;

#[test]
fn a_redirected_user_goes_to_the_other_host() {
    let (stats, stage, server) = run_load(chat("message=1"), Fault::SeeOtherHostOnce, 1, 600);
    let counts = &stats.counts;
    assert_eq!((stage, lost(&stats), counts[Count::FailedCall]), (LoadStage::Leaving, 0, 0));
    assert_eq!((counts[Count::Redirected], server.elsewhere.len()), (10, 10), "each of ten users once");
    assert_eq!(server.elsewhere[0], RedirectTarget { host: "other".into(), port: Some(5333) });
    assert_eq!(
        counts[Count::OutgoingCall],
        counts[Count::SuccessfulCall],
        "one sign-in each, redirect or not"
    );
}

#[test]
fn two_hosts_that_name_each_other_are_given_up() {
    let (stats, _, server) = run_load(chat("message=1"), Fault::SeeOtherHost("other"), 1, 15);
    let failed = usize::try_from(stats.counts[Count::FailedSeeOtherHost]).unwrap();
    assert!(failed >= 10, "ten users, once at least: {failed}");
    assert_eq!(server.elsewhere.len(), failed * usize::from(HOPS));
}

#[test]
fn a_redirect_can_be_a_failure() {
    let chat = XmppLoad { redirect: RedirectPolicy::Count, ..chat("message=1") };
    let (stats, _, server) = run_load(chat, Fault::SeeOtherHostOnce, 1, 15);
    assert!(stats.counts[Count::FailedSeeOtherHost] >= 10 && server.elsewhere.is_empty());
    assert_eq!(stats.counts[Count::Redirected], 0);
}

#[test]
fn a_user_redirected_from_a_session_goes_there_and_loses_nothing() {
    let (stats, stage, server) = run_load(chat("message=1"), Fault::SendAway, 1, 600);
    assert_eq!((stage, lost(&stats), stats.counts[Count::FailedCall]), (LoadStage::Leaving, 0, 0));
    assert_eq!(server.elsewhere, [RedirectTarget { host: "2001:db8::1".into(), port: None }]);
}

#[test]
fn a_user_that_fails_too_often_in_a_row_stays_away() {
    let retry = Retry { first: Duration::from_secs(1), give_up: 3 };
    let (stats, stage, _) = run_load(XmppLoad { retry, ..chat("message=1") }, Fault::WrongPassword, 1, 60);
    let counts = &stats.counts;
    assert_eq!((counts[Count::GaveUp], counts[Count::FailedNotAuthorized]), (10, 30));
    assert_eq!(stage, LoadStage::Leaving);
}
