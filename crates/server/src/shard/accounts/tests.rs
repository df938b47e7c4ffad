use super::*;

const NOW: Instant = Instant::from_unix_seconds(1_700_000_000);

/// A question of an asker that is answered when its read fails.
fn at_once(id: AskId) -> Question {
    Question { id, arrived: NOW, may_wait: false }
}

/// The queries that waited for a read.
fn waiting(accounts: &mut Accounts, ticket: u64, known: Option<CachedAccount>) -> Option<Vec<AskId>> {
    accounts.loaded(NOW, ticket, known).map(|loaded| loaded.waiting)
}

#[test]
fn a_query_during_a_read_of_the_same_address_waits_for_that_read() {
    let mut accounts = Accounts::new(8, false);
    assert!(accounts.wait("bob@a", at_once(AskId(1)), 10), "the store is asked");
    assert!(!accounts.wait("bob@a", at_once(AskId(2)), 11), "and only once");
    assert!(accounts.wait("eve@a", at_once(AskId(3)), 12), "another address is another read");
    assert_eq!(waiting(&mut accounts, 10, Some(None)), Some(vec![AskId(1), AskId(2)]));
    assert_eq!(waiting(&mut accounts, 10, Some(None)), None, "one answer to a read");
    assert!(matches!(accounts.get(NOW, "bob@a"), Some(None)), "a missing account is cached too");
}

#[test]
fn a_failed_read_is_not_cached() {
    let mut accounts = Accounts::new(8, false);
    assert!(accounts.wait("bob@a", at_once(AskId(1)), 10));
    assert_eq!(waiting(&mut accounts, 10, None), Some(vec![AskId(1)]));
    assert!(accounts.get(NOW, "bob@a").is_none());
    assert!(accounts.wait("bob@a", at_once(AskId(2)), 11), "the next one asks again");
}

#[test]
fn an_entry_is_believed_for_a_while_or_until_it_changes() {
    let mut accounts = Accounts::new(8, false);
    for (ticket, address) in [(1, "bob@a"), (2, "eve@a")] {
        accounts.wait(address, at_once(AskId(ticket)), ticket);
        accounts.loaded(NOW, ticket, Some(None));
    }
    accounts.forget(Some("bob@a"));
    assert!(accounts.get(NOW, "bob@a").is_none());
    assert!(accounts.get(NOW + LIFETIME / 2, "eve@a").is_some());
    assert!(accounts.get(NOW + LIFETIME * 2, "eve@a").is_none());
    accounts.forget(None);
    assert_eq!(accounts.len(), 0);
}

#[test]
fn an_account_leaves_the_cache_when_its_chat_user_signs_in() {
    for is_on_server in [false, true] {
        let mut accounts = Accounts::new(8, is_on_server);
        accounts.wait("bob@a", at_once(AskId(1)), 1);
        accounts.loaded(NOW, 1, Some(account("bob")));
        accounts.let_go(NOW, "bob@a");
        assert_eq!(accounts.len(), 0);
        assert!(accounts.wait("bob@a", at_once(AskId(2)), 2), "the next one asks again");
    }
}

#[test]
fn an_account_that_calls_have_asked_for_stays_when_its_chat_user_signs_in() {
    let mut accounts = Accounts::new(8, true);
    accounts.wait("bob@a", patient(1, 0), 1);
    accounts.loaded(NOW, 1, Some(account("then")));
    // The sign-in reads it anew: calls are still those that need it.
    accounts.forget(None);
    accounts.wait("bob@a", at_once(AskId(2)), 2);
    accounts.loaded(NOW, 2, Some(account("now")));
    accounts.let_go(NOW, "bob@a");
    accounts.forget(None);
    accounts.wait("bob@a", patient(3, 1), 3);
    let failed = accounts.loaded(at(1), 3, None).unwrap();
    assert_eq!((failed.waiting, name(&failed.outdated)), (vec![AskId(3)], Some("now")));
}

#[test]
fn a_change_while_it_is_read_is_not_covered_by_the_older_read() {
    let mut accounts = Accounts::new(8, false);
    accounts.wait("bob@a", at_once(AskId(1)), 10);
    // The account changes: the read may have seen it before.
    accounts.forget(Some("bob@a"));
    assert_eq!(
        waiting(&mut accounts, 10, Some(None)),
        Some(vec![AskId(1)]),
        "the query that waits is answered"
    );
    assert!(accounts.get(NOW, "bob@a").is_none(), "but the next one asks again");
}

fn account(name: &str) -> CachedAccount {
    Some(Box::new(store::Account {
        id: 1,
        name: "bob".into(),
        domain: "a".into(),
        display_name: name.into(),
        verifiers: store::Verifiers::underived(),
        disabled: false,
        limits: store::AccountLimits::default(),
        created_at: NOW,
    }))
}

fn name(account: &CachedAccount) -> Option<&str> {
    account.as_ref().map(|account| &*account.display_name)
}

#[test]
fn an_account_that_was_read_is_used_while_the_database_is_away() {
    let mut accounts = Accounts::new(8, true);
    for (ticket, address, known) in [(1, "bob@a", account("then")), (2, "eve@a", None)] {
        accounts.wait(address, at_once(AskId(ticket)), ticket);
        accounts.loaded(NOW, ticket, Some(known));
    }
    let later = NOW + LIFETIME * 2;
    assert!(accounts.get(later, "bob@a").is_none(), "it is asked again");
    assert!(accounts.outdated(later, "bob@a").is_none(), "as long as the database answers");
    accounts.wait("bob@a", at_once(AskId(3)), 3);
    let failed = accounts.loaded(later, 3, None).unwrap();
    assert_eq!((failed.waiting, name(&failed.outdated)), (vec![AskId(3)], Some("then")));
    // The next one waits for no read that fails.
    assert_eq!(name(&accounts.outdated(later, "bob@a")), Some("then"));
    assert!(accounts.may_try("bob@a"));
    accounts.try_again(later, "bob@a", 4);
    assert!(!accounts.may_try("bob@a"), "one read at a time");
    assert!(!accounts.wait("bob@a", at_once(AskId(5)), 5), "it is the read of all");
    // An address without bindings, and one that was never read.
    for (ticket, address) in [(6, "eve@a"), (7, "carol@a")] {
        accounts.wait(address, at_once(AskId(ticket)), ticket);
        assert!(accounts.loaded(later, ticket, None).unwrap().outdated.is_none(), "{address}");
    }
    assert!(accounts.outdated(NOW + limits::OUTDATED_ACCOUNT, "bob@a").is_none(), "its time is over");
    let found = accounts.loaded(later, 4, Some(account("now"))).unwrap();
    assert_eq!((found.waiting, name(&found.outdated)), (vec![AskId(5)], None));
    assert_eq!(accounts.get(later, "bob@a").and_then(name), Some("now"));
    // Changes may have been missed: it is asked again, and used if the database is away again.
    accounts.forget(None);
    assert!(accounts.get(later, "bob@a").is_none());
    accounts.wait("bob@a", at_once(AskId(8)), 8);
    assert_eq!(name(&accounts.loaded(later, 8, None).unwrap().outdated), Some("now"));
    // A change of the account itself voids it.
    accounts.forget(Some("bob@a"));
    accounts.wait("bob@a", at_once(AskId(9)), 9);
    assert!(accounts.loaded(later, 9, None).unwrap().outdated.is_none());
}

#[test]
fn an_account_that_was_read_before_is_used_while_its_read_takes_long() {
    let mut accounts = Accounts::new(8, true);
    accounts.wait("bob@a", at_once(AskId(1)), 1);
    accounts.loaded(NOW, 1, Some(account("then")));
    let slow = u64::try_from(limits::SLOW_READ.as_millis()).unwrap();
    let begin = u64::try_from(LIFETIME.as_millis()).unwrap() + 1;
    assert!(accounts.outdated(at(begin), "bob@a").is_none(), "the database answers, as far as is known");
    assert!(accounts.wait("bob@a", patient(2, begin), 2));
    assert!(!accounts.wait("bob@a", at_once(AskId(3)), 3), "an edge waits for the read");
    assert!(accounts.wait("carol@a", patient(4, begin), 4));
    assert_eq!(accounts.deadline(), Some(at(begin + slow)));
    assert!(accounts.expire_slow(at(begin + slow - 1)).is_none());
    let (ids, known) = accounts.expire_slow(at(begin + slow)).unwrap();
    assert_eq!((ids, name(&known)), (vec![AskId(2)], Some("then")));
    assert!(accounts.expire_slow(at(begin + slow)).is_none(), "carol was never read");
    // The next one does not wait at all, and its read is under way.
    assert_eq!(name(&accounts.outdated(at(begin + slow), "bob@a")), Some("then"));
    assert!(!accounts.may_try("bob@a"));
    let late = accounts.loaded(at(begin + 2 * slow), 2, Some(account("now"))).unwrap();
    assert_eq!((late.waiting, accounts.deadline()), (vec![AskId(3)], None));
    // It is slow until a read is quick.
    let later = 2 * begin + 2 * slow;
    assert_eq!(name(&accounts.outdated(at(later), "bob@a")), Some("now"));
    assert!(accounts.may_try("bob@a"), "each use reads it anew");
    accounts.try_again(at(later), "bob@a", 5);
    accounts.loaded(at(later + 1), 5, Some(account("newest")));
    assert!(accounts.outdated(at(later + begin + 1), "bob@a").is_none());
    // A change that is known of voids it, however slow its read is.
    accounts.wait("bob@a", patient(6, later + begin + 1), 6);
    accounts.forget(Some("bob@a"));
    assert!(accounts.expire_slow(at(later + begin + 1 + slow)).is_none());
}

#[test]
fn a_database_in_a_file_is_never_away_so_nothing_is_kept_for_that() {
    let mut accounts = Accounts::new(8, false);
    accounts.wait("bob@a", at_once(AskId(1)), 1);
    accounts.loaded(NOW, 1, Some(account("then")));
    accounts.sweep(NOW + LIFETIME);
    assert_eq!(accounts.len(), 0);
}

/// Milliseconds after the beginning.
fn at(milliseconds: u64) -> Instant {
    NOW + Duration::from_millis(milliseconds)
}

/// A question that came then.
fn patient(id: u64, arrived: u64) -> Question {
    Question { id: AskId(id), arrived: at(arrived), may_wait: true }
}

fn expired(accounts: &mut Accounts, now: Instant) -> Vec<AskId> {
    std::iter::from_fn(|| accounts.expire(now)).collect()
}

#[test]
fn a_question_waits_for_a_database_that_is_away_and_goes_on_when_it_is_back() {
    let mut accounts = Accounts::new(8, true);
    assert!(accounts.wait("bob@a", patient(1, 0), 10));
    assert!(!accounts.wait("bob@a", at_once(AskId(2)), 11));
    let failed = accounts.loaded(at(5), 10, None).unwrap();
    assert_eq!(failed.waiting, [AskId(2)], "chat and edges without a database have times of their own");
    // The next one is a read of its own, as none is under way. A third one waits for that.
    assert!(!accounts.hold(at(10), "eve@a", patient(3, 10)));
    assert!(accounts.wait("eve@a", patient(3, 10), 12));
    assert!(accounts.hold(at(11), "carol@a", patient(4, 11)));
    assert_eq!(accounts.deadline(), Some(at(55)));
    let tried = accounts.take_try(at(55)).unwrap();
    assert_eq!((tried.arrived, &tried.request), (at(0), &(AskId(1), "bob@a".into())));
    let back = accounts.loaded(at(60), 12, Some(account("now"))).unwrap();
    assert_eq!(back.waiting, [AskId(3)]);
    let released: Vec<_> = back.released.into_iter().map(|held| held.request).collect();
    assert_eq!(released, [(AskId(4), "carol@a".into())]);
    assert_eq!(accounts.deadline(), None);
}

#[test]
fn a_question_waits_for_some_seconds_and_not_at_all_in_a_long_outage() {
    let mut accounts = Accounts::new(8, true);
    accounts.wait("bob@a", patient(1, 0), 1);
    assert!(accounts.loaded(at(0), 1, None).unwrap().waiting.is_empty());
    let patience = u64::try_from(limits::HELD_PATIENCE.as_millis()).unwrap();
    assert_eq!(expired(&mut accounts, at(patience - 1)), []);
    assert_eq!(expired(&mut accounts, at(patience)), [AskId(1)]);
    let long = u64::try_from(limits::AWAY_FOR_LONG.as_millis()).unwrap();
    accounts.wait("bob@a", patient(2, long), 2);
    let failed = accounts.loaded(at(long), 2, None).unwrap();
    assert_eq!(failed.waiting, [AskId(2)], "it is refused as soon as its read has failed");
    // The first read that succeeds ends the outage.
    accounts.wait("bob@a", patient(3, long), 3);
    accounts.loaded(at(long + 9), 3, Some(None));
    accounts.wait("eve@a", patient(4, long + 10), 4);
    assert!(accounts.loaded(at(long + 10), 4, None).unwrap().waiting.is_empty());
}

/// Each change of the routes is news of all accounts, as the first notice after a connection is. An account that was being read at that
/// moment is used in the next outage like one that was read before.
#[test]
fn a_read_that_news_of_all_accounts_overtook_is_used_while_the_database_is_away() {
    let mut accounts = Accounts::new(8, true);
    accounts.wait("bob@a", patient(1, 0), 1);
    accounts.wait("eve@a", patient(2, 0), 2);
    accounts.forget(None);
    accounts.forget(Some("eve@a"));
    for ticket in [1, 2] {
        accounts.loaded(NOW, ticket, Some(account("then")));
    }
    assert!(accounts.get(NOW, "bob@a").is_none(), "it may have been read before the change");
    accounts.wait("bob@a", patient(3, 1), 3);
    let failed = accounts.loaded(at(1), 3, None).unwrap();
    assert_eq!((failed.waiting, name(&failed.outdated)), (vec![AskId(3)], Some("then")));
    // News of the account itself: its password may be another, and it may be gone.
    assert!(accounts.outdated(at(2), "eve@a").is_none());
}

/// A file cannot be away, so that nothing is kept for that.
#[test]
fn a_read_of_a_file_that_news_of_all_accounts_overtook_is_not_kept() {
    let mut accounts = Accounts::new(8, false);
    accounts.wait("bob@a", patient(1, 0), 1);
    accounts.forget(None);
    accounts.loaded(NOW, 1, Some(account("then")));
    assert_eq!(accounts.len(), 0);
}

/// A store with too much to do is there: requests that it refuses are shed at once. To keep them would have each read that ends ask for all of them.
#[test]
fn a_read_that_the_store_does_not_take_is_no_outage() {
    let mut accounts = Accounts::new(8, true);
    accounts.wait("bob@a", patient(1, 0), 1);
    accounts.loaded(NOW, 1, Some(account("then")));
    accounts.wait("eve@a", patient(2, 1), 2);
    assert_eq!(accounts.refused(at(1), 2).unwrap().waiting, [AskId(2)]);
    assert!(!accounts.is_away() && accounts.deadline().is_none());
    // The entry read before is used, as while the database is away.
    let later = NOW + LIFETIME;
    accounts.wait("bob@a", patient(3, 60_000), 3);
    let refused = accounts.refused(later, 3).unwrap();
    assert_eq!((refused.waiting, name(&refused.outdated)), (vec![AskId(3)], Some("then")));
    assert!(!accounts.is_away() && accounts.may_try("bob@a"));
}

#[test]
fn an_account_that_was_read_before_is_used_at_once() {
    let mut accounts = Accounts::new(8, true);
    accounts.wait("bob@a", patient(1, 0), 1);
    accounts.loaded(NOW, 1, Some(account("then")));
    accounts.forget(None);
    accounts.wait("bob@a", patient(2, 1), 2);
    let failed = accounts.loaded(at(1), 2, None).unwrap();
    assert_eq!((failed.waiting, name(&failed.outdated)), (vec![AskId(2)], Some("then")));
}
