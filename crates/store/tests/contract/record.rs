//! Written rows are read back; rejected writes say why.

use std::sync::Arc;

use super::{Database, database};
use stdx::Instant;
use store::{
    AccountFilter, AccountLimits, Address, Admin, BindingWrite, CallFilter, CallRecord, CallSearch, Loaded,
    NewAccount, Pattern, Read, Route, RouteTarget, ScramHash, ScramKeys, StoreError, Verifiers,
    WaitingMessage, Write, WriteDone, limits,
};

fn admin() -> (Database, Admin) {
    let database = database();
    let store = database.store();
    let mut admin = Admin::new(&*store).unwrap();
    admin.ensure_domain("example.org", at(1)).unwrap();
    (database, admin)
}

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn binding(written_at: u64, record: &[u8], replaces: Option<i64>) -> Write {
    Write::Binding(BindingWrite {
        bucket: 0,
        aor: "a@example.org".into(),
        epoch: 0,
        written_at: at(written_at),
        replaces,
        empties: false,
        record: record.into(),
    })
}

fn address(text: &str) -> Address {
    Address::parse(text, Some("example.org")).unwrap()
}

fn add(admin: &mut Admin, text: &str) {
    admin.add_account(NewAccount::with_password(address(text), "secret", at(7)).unwrap()).unwrap();
}

fn names(admin: &mut Admin, filter: AccountFilter) -> Vec<String> {
    admin.accounts(filter).unwrap().iter().map(|account| account.address().to_string()).collect()
}

#[test]
fn keys_of_scram_are_added_to_the_password_they_are_of() {
    let (_database, mut admin) = admin();
    add(&mut admin, "alice");
    let before = admin.account(&address("alice")).unwrap().verifiers;
    let keys = |byte: u8| -> Arc<[_]> {
        let bytes: Box<[u8]> = [byte; 32].into();
        let (stored, server) = (bytes.clone(), bytes.clone());
        [(ScramHash::Sha256, ScramKeys { salt: bytes, iterations: 4_096, stored, server })].into()
    };
    let add_keys = |admin: &mut Admin, byte| {
        let write = Write::AddScram { account: address("alice"), of: before.sha256, keys: keys(byte) };
        admin.write(&write).unwrap()
    };
    assert_eq!(add_keys(&mut admin, 1), WriteDone::Changed { rows: 1 });
    let with = before.clone().with_scram(&keys(1));
    assert_eq!(admin.account(&address("alice")).unwrap().verifiers, with);
    // The password was changed while keys of the old one were made.
    admin.set_password(address("alice"), "other").unwrap();
    assert_eq!(add_keys(&mut admin, 2), WriteDone::Changed { rows: 0 });
    let verifiers = admin.account(&address("alice")).unwrap().verifiers;
    assert_eq!(verifiers, Verifiers::from_password("alice", "example.org", "other"));
}

#[test]
fn a_learned_password_is_stored_only_if_the_verifiers_are_unchanged() {
    let (_database, mut admin) = admin();
    add(&mut admin, "alice");
    let unknown = Verifiers::without_password(&[7; 32]);
    let known = Verifiers::from_password("alice", "example.org", "known");
    let set = Write::SetVerifiers { account: address("alice"), verifiers: unknown.clone() };
    admin.write(&set).unwrap();
    let learn =
        Write::LearnPassword { account: address("alice"), of: unknown.sha256, verifiers: known.clone() };
    for rows in [1, 0] {
        assert_eq!(admin.write(&learn).unwrap(), WriteDone::Changed { rows });
        assert_eq!(admin.account(&address("alice")).unwrap().verifiers, known);
    }
}

#[test]
fn an_account_is_added_changed_and_removed() {
    let (_database, mut admin) = admin();
    add(&mut admin, "alice");
    let account = admin.account(&address("alice")).unwrap();
    assert_eq!(account.verifiers, Verifiers::from_password("alice", "example.org", "secret"));
    assert_eq!((account.disabled, account.created_at, &*account.display_name), (false, at(7), ""));

    let limits =
        AccountLimits { max_contacts: Some(3), max_calls: None, max_rate: Some(4), deny: vec!["00*".into()] };
    admin.set_password(address("alice"), "other").unwrap();
    admin.set_disabled(address("alice"), true).unwrap();
    admin.write(&Write::SetLimits { account: address("alice"), limits: limits.clone() }).unwrap();
    let name = Write::SetDisplayName { account: address("alice"), display_name: "Alice".into() };
    admin.write(&name).unwrap();
    let account = admin.account(&address("alice")).unwrap();
    assert_eq!(account.verifiers, Verifiers::from_password("alice", "example.org", "other"));
    assert_eq!((account.disabled, account.limits, &*account.display_name), (true, limits, "Alice"));

    admin.remove_account(address("alice")).unwrap();
    let missing = StoreError::NotFound { what: "account alice@example.org".into() };
    assert_eq!(admin.account(&address("alice")), Err(missing.clone()));
    assert_eq!(admin.set_disabled(address("alice"), true), Err(missing.clone()));
    assert_eq!(admin.remove_account(address("alice")), Err(missing));
}

#[test]
fn an_account_is_there_once_and_in_a_domain_we_serve() {
    let (_database, mut admin) = admin();
    add(&mut admin, "alice");
    let twice = NewAccount::with_password(address("alice"), "x", at(7)).unwrap();
    assert_eq!(
        admin.add_account(twice),
        Err(StoreError::Exists { what: "account alice@example.org".into() })
    );
    let elsewhere = NewAccount::with_password(address("alice@elsewhere.org"), "x", at(7)).unwrap();
    let error = admin.add_account(elsewhere).unwrap_err();
    assert_eq!(error.to_string(), "there is no domain elsewhere.org");
}

#[test]
fn the_domain_is_folded_and_the_user_is_not() {
    let (_database, mut admin) = admin();
    add(&mut admin, "Alice@EXAMPLE.org");
    assert!(admin.account(&address("Alice")).is_ok());
    assert!(admin.account(&address("alice")).is_err());
}

#[test]
fn values_beyond_a_limit_are_refused() {
    let long = "x".repeat(limits::MAX_NAME + 1);
    for bad in ["", "a b", "a:b", "a@b@c", long.as_str()] {
        assert!(matches!(Address::new(bad, "d"), Err(StoreError::Invalid { .. })), "{bad}");
    }
    assert!(Address::parse("alice", None).is_err());
    assert!(Address::new("a", "").is_err());
    let password = "p".repeat(limits::MAX_PASSWORD + 1);
    let error = NewAccount::with_password(address("a"), &password, at(1)).unwrap_err();
    assert!(!error.to_string().contains("ppp"), "the error repeats the password");
    let (_database, mut admin) = admin();
    let record = [0; limits::MAX_BINDING_RECORD + 1];
    assert!(admin.write(&binding(1, &record, None)).unwrap_err().is_of_item());
}

#[test]
fn an_alias_leads_to_its_account_and_goes_with_it() {
    let (_database, mut admin) = admin();
    add(&mut admin, "alice");
    add(&mut admin, "bob");
    admin.add_alias(address("sales"), address("alice")).unwrap();
    assert_eq!(&*admin.account(&address("sales")).unwrap().name, "alice");
    assert!(matches!(admin.add_alias(address("sales"), address("bob")), Err(StoreError::Exists { .. })));
    assert!(matches!(admin.add_alias(address("bob"), address("alice")), Err(StoreError::Exists { .. })));
    let named_so = NewAccount::with_password(address("sales"), "x", at(1)).unwrap();
    assert!(matches!(admin.add_account(named_so), Err(StoreError::Exists { .. })));
    assert_eq!(admin.aliases(Some(address("bob"))).unwrap(), []);
    assert_eq!(admin.aliases(None).unwrap().len(), 1);
    admin.remove_account(address("alice")).unwrap();
    assert!(admin.account(&address("sales")).is_err());
    assert!(matches!(admin.remove_alias(address("sales")), Err(StoreError::NotFound { .. })));
}

#[test]
fn a_domain_goes_when_it_is_empty() {
    let (_database, mut admin) = admin();
    add(&mut admin, "alice");
    let error = admin.remove_domain("example.org").unwrap_err();
    assert_eq!(error.to_string(), "domain example.org: expected no account and no alias left in it");
    assert_eq!(admin.domains().unwrap()[0].accounts, 1);
    admin.remove_account(address("alice")).unwrap();
    admin.remove_domain("example.org").unwrap();
    assert_eq!(admin.domains().unwrap(), []);
}

#[test]
fn pages_follow_one_another_across_domains() {
    let (_database, mut admin) = admin();
    admin.ensure_domain("a.org", at(1)).unwrap();
    for name in ["b1", "a1", "a2", "z@a.org"] {
        add(&mut admin, name);
    }
    let mut filter = AccountFilter { limit: 2, ..AccountFilter::default() };
    assert_eq!(names(&mut admin, filter.clone()), ["z@a.org", "a1@example.org"]);
    filter.after = Some(address("a1"));
    assert_eq!(names(&mut admin, filter.clone()), ["a2@example.org", "b1@example.org"]);
    filter.after = Some(address("b1"));
    assert_eq!(names(&mut admin, filter), [""; 0]);
    let prefix = AccountFilter { prefix: "a".into(), limit: 9, ..AccountFilter::default() };
    assert_eq!(names(&mut admin, prefix), ["a1@example.org", "a2@example.org"]);
    let rest = AccountFilter { prefix: "a".into(), after: Some(address("a1")), limit: 9, domain: None };
    assert_eq!(names(&mut admin, rest), ["a2@example.org"]);
    let domain = AccountFilter { domain: Some("a.org".into()), limit: 9, ..AccountFilter::default() };
    assert_eq!(names(&mut admin, domain), ["z@a.org"]);
}

fn route(name: &str) -> Route {
    Route {
        id: 1,
        name: name.into(),
        pattern: Pattern::Prefix("+49".into()),
        targets: vec![RouteTarget { uri: "sip:gw.example.net".into(), weight: 2, priority: 1 }],
        open: false,
        probe: true,
        strip: 1,
        prefix: "00".into(),
        policy: store::RoutePolicy {
            trusted: true,
            max_rate: Some(5),
            deny: vec!["+882*".into()],
            by_address: true,
            certificates: vec!["gw.example.net".into()],
        },
        created_at: at(7),
    }
}

#[test]
fn a_route_is_added_replaced_and_removed() {
    let (_database, mut admin) = admin();
    assert_eq!(admin.add_route(route("germany")).unwrap(), 1);
    assert_eq!(admin.routes().unwrap(), [route("germany")]);
    assert!(matches!(admin.add_route(route("germany")), Err(StoreError::Exists { .. })));
    for pattern in ["number", "user", "regex", "domain"].map(|kind| Pattern::from_parts(kind, "x").unwrap()) {
        let changed = Route { pattern, ..route("germany") };
        admin.write(&Write::ReplaceRoute(Box::new(changed.clone()))).unwrap();
        assert_eq!(admin.routes().unwrap(), [changed]);
    }
    let nowhere = Route { targets: Vec::new(), ..route("nowhere") };
    let crowded = vec![route("many").targets[0].clone(); store::limits::MAX_ROUTE_TARGETS + 1];
    let crowded = Route { targets: crowded, ..route("many") };
    assert!(matches!(admin.add_route(crowded), Err(StoreError::Invalid { .. })));
    assert!(matches!(admin.add_route(nowhere), Err(StoreError::Invalid { .. })));
    admin.remove_route("germany").unwrap();
    assert!(matches!(admin.remove_route("germany"), Err(StoreError::NotFound { .. })));
}

fn call(call_id: &str, ended: u64) -> CallRecord {
    CallRecord {
        call_id: call_id.into(),
        from: "sip:a@example.org".into(),
        to: "sip:b@example.org".into(),
        started_at: at(1),
        answered_at: Some(Instant::from_micros(2_500_000)),
        ended_at: at(ended),
        code: 200,
        reason: "BYE".into(),
        account: Some("a@example.org".into()),
        callee: None,
    }
}

#[test]
fn calls_are_listed_newest_first_and_forgotten() {
    let (_database, mut admin) = admin();
    let other = CallRecord { account: None, answered_at: None, ..call("2", 20) };
    for record in [call("1", 10), other.clone(), call("3", 30)] {
        admin.write(&Write::Call(Box::new(record))).unwrap();
    }
    let all = CallFilter { limit: 9, ..CallFilter::default() };
    assert_eq!(admin.calls(all.clone()).unwrap(), [call("3", 30), other, call("1", 10)]);
    let of_account = CallFilter { account: Some("a@example.org".into()), ..all.clone() };
    assert_eq!(admin.calls(of_account).unwrap().len(), 2);
    let third = call("3", 30);
    let page = |until| CallFilter { ended_until: Some(until), ..all.clone() };
    assert_eq!(admin.calls(page(third.ended_at)).unwrap().len(), 3);
    let just_before = Instant::from_micros(third.ended_at.as_micros() - 1);
    assert_eq!(admin.calls(page(just_before)).unwrap().len(), 2, "the page behind the newest call");
    admin.write(&Write::ForgetCalls { before: at(30) }).unwrap();
    assert_eq!(admin.calls(all).unwrap(), [call("3", 30)]);
}

/// The outcome of the first attempt is not known.
#[test]
fn a_call_that_is_written_again_is_there_once() {
    let (_database, mut admin) = admin();
    let long = CallRecord { reason: "x".repeat(9_000).into(), answered_at: None, ..call("1", 10) };
    let records = [long, call("2", 10), CallRecord { callee: Some("c@example.org".into()), ..call("2", 10) }];
    admin.write(&Write::Call(Box::new(records[0].clone()))).unwrap();
    for (round, expected) in [(0, [0, 1, 1]), (1, [0, 0, 0])] {
        for (record, rows) in records.iter().zip(expected) {
            let done = admin.write(&Write::EnsureCall(Box::new(record.clone()))).unwrap();
            assert_eq!(done, WriteDone::Changed { rows }, "{round}: {record:?}");
        }
    }
    assert_eq!(admin.calls(CallFilter { limit: 9, ..CallFilter::default() }).unwrap().len(), 3);
}

/// Five calls, of which the second and the third ended at one moment.
#[test]
fn calls_are_found_by_text_status_and_time_page_by_page() {
    let (_database, mut admin) = admin();
    let busy = CallRecord { code: 486, reason: "Busy Here".into(), ..call("2", 20) };
    let called = CallRecord {
        to: "sip:+4930Ab@Example.org".into(),
        callee: Some("carol@example.org".into()),
        ..call("3", 20)
    };
    for record in [call("1", 10), busy.clone(), called.clone(), call("4", 40), call("5", 50)] {
        admin.write(&Write::Call(Box::new(record))).unwrap();
    }
    let all = CallSearch { limit: 9, ..CallSearch::default() };
    let mut ids = |search: &CallSearch| {
        let page = admin.search_calls(search.clone()).unwrap();
        let ids = page.calls.iter().map(|call| call.call_id.to_string()).collect::<Vec<_>>();
        (ids.join(" "), page.next)
    };
    let whole = |ids: &str| (ids.to_owned(), None);
    assert_eq!(ids(&all), whole("5 4 2 3 1"));
    let of_text = |text: &str| CallSearch { text: Some(text.into()), ..all.clone() };
    for (text, found) in
        [("4930aB", "3"), ("CAROL", "3"), ("busy", "2"), ("a@example", "5 4 2 3 1"), ("%", "")]
    {
        assert_eq!(ids(&of_text(text)), whole(found), "{text}");
    }
    assert_eq!(ids(&CallSearch { code: Some(486), ..all.clone() }), whole("2"));
    assert_eq!(ids(&CallSearch { call_id: Some("4".into()), ..all.clone() }), whole("4"));
    let of_account = CallSearch { account: Some("carol@example.org".into()), ..all.clone() };
    assert_eq!(ids(&of_account), whole("3"));
    let between = CallSearch { ended_from: Some(at(20)), ended_until: Some(at(40)), ..all.clone() };
    assert_eq!(ids(&between), whole("4 2 3"));

    let mut page = CallSearch { limit: 2, ..all.clone() };
    assert_eq!(ids(&page), ("5 4".to_owned(), Some(at(20))));
    page.ended_until = Some(at(20));
    assert_eq!(ids(&page), ("2 3".to_owned(), Some(at(10))));
    page.ended_until = Some(at(10));
    assert_eq!(ids(&page), whole("1"));
    // A search that looks at two records a time comes to the fifth, too, and says where it goes on.
    let mut short = CallSearch { look_at: Some(2), ended_from: Some(at(10)), ..of_text("4930ab") };
    let mut found = Vec::new();
    for _ in 0..5 {
        let (ids, next) = ids(&short);
        found.extend((!ids.is_empty()).then_some(ids));
        let Some(next) = next else { break };
        assert!(short.ended_until.is_none_or(|until| next < until), "it goes on");
        short.ended_until = Some(next);
    }
    found.dedup();
    assert_eq!(found, ["3"], "on one page or on two that meet there");
}

/// Every second call is of another account; one is between phones of the account, and two ended at one moment.
#[test]
fn a_search_for_an_account_alone_has_its_calls_page_by_page() {
    let (_database, mut admin) = admin();
    let (alice, bob) = ("a@example.org", "bob@example.org");
    let of = |account: &str, callee: Option<&str>, id: &str, seconds: u64| CallRecord {
        account: Some(account.into()),
        callee: callee.map(Into::into),
        ..call(id, seconds)
    };
    for record in [
        of(alice, None, "1", 10),
        of(bob, Some("carol@example.org"), "2", 10),
        of(bob, Some(alice), "3", 20),
        of(alice, Some(bob), "4", 20),
        of(bob, None, "5", 30),
        of(alice, Some(alice), "6", 40),
    ] {
        admin.write(&Write::Call(Box::new(record))).unwrap();
    }
    let all = CallSearch { account: Some(alice.into()), limit: 9, ..CallSearch::default() };
    let mut ids = |search: &CallSearch| {
        let page = admin.search_calls(search.clone()).unwrap();
        let ids = page.calls.iter().map(|call| call.call_id.to_string()).collect::<Vec<_>>();
        (ids.join(" "), page.next)
    };
    let whole = |ids: &str| (ids.to_owned(), None);
    assert_eq!(ids(&all), whole("6 3 4 1"), "each once");
    let first = CallSearch { limit: 2, ..all.clone() };
    assert_eq!(ids(&first), ("6 3".to_owned(), Some(at(20))));
    let second = CallSearch { ended_until: Some(at(20)), ..all.clone() };
    assert_eq!(ids(&second), whole("3 4 1"), "a call ended at the border of two pages is on both");
    assert_eq!(ids(&CallSearch { ended_from: Some(at(20)), ..all.clone() }), whole("6 3 4"));
    assert_eq!(ids(&CallSearch { account: Some("nobody@example.org".into()), ..all }), whole(""));
}

#[test]
fn calls_of_an_account_are_those_it_placed_and_those_it_was_called_by() {
    let (_database, mut admin) = admin();
    let called = CallRecord { account: None, callee: Some("a@example.org".into()), ..call("2", 20) };
    let of_others = CallRecord { account: None, callee: Some("b@example.org".into()), ..call("3", 30) };
    for record in [call("1", 10), called.clone(), of_others] {
        admin.write(&Write::Call(Box::new(record))).unwrap();
    }
    let of = |account: &str| CallFilter { account: Some(account.into()), limit: 9, ..CallFilter::default() };
    assert_eq!(admin.calls(of("a@example.org")).unwrap(), [called, call("1", 10)]);
    assert_eq!(admin.calls(of("b@example.org")).unwrap().len(), 1);
}

#[test]
fn a_call_record_is_cut_rather_than_lost() {
    let (_database, mut admin) = admin();
    let long = CallRecord { reason: "ü".repeat(limits::MAX_CALL_TEXT).into(), ..call("1", 10) };
    admin.write(&Write::Call(Box::new(long))).unwrap();
    let kept = admin.calls(CallFilter { limit: 1, ..CallFilter::default() }).unwrap();
    assert_eq!(kept[0].reason.len(), limits::MAX_CALL_TEXT);
}

#[test]
fn messages_are_kept_until_they_are_forgotten() {
    let (_database, mut admin) = admin();
    let mut message = WaitingMessage {
        id: 0,
        aor: "b@example.org".into(),
        from: "sip:a@example.org".into(),
        content_type: "text/plain".into(),
        body: Arc::from(*b"hello"),
        sent_at: at(5),
        expires_at: Some(at(65)),
    };
    let keep = Write::Keep(Box::new(message.clone()));
    assert_eq!(admin.write(&keep), Ok(WriteDone::Added { id: 1 }));
    assert_eq!(admin.write(&keep), Ok(WriteDone::Added { id: 2 }));
    let load = Read::KeptMessages { aor: "b@example.org".into() };
    let Loaded::KeptMessages(kept) = admin.read(&load).unwrap() else { panic!("another answer") };
    message.id = 1;
    assert_eq!((kept.len(), &kept[0]), (2, &message));
    assert_eq!(admin.read(&Read::KeptCounts).unwrap(), Loaded::KeptCounts(vec![("b@example.org".into(), 2)]));
    let foreign = Write::ForgetMessage { aor: "c@example.org".into(), id: 1 };
    assert_eq!(admin.write(&foreign), Ok(WriteDone::Changed { rows: 0 }));
    let forget = Write::ForgetMessage { aor: "b@example.org".into(), id: 1 };
    assert_eq!(admin.write(&forget), Ok(WriteDone::Changed { rows: 1 }));
    assert_eq!(admin.write(&Write::ForgetMessages { before: at(6) }), Ok(WriteDone::Changed { rows: 1 }));
    assert_eq!(admin.read(&load).unwrap(), Loaded::KeptMessages(Vec::new()));
}

#[test]
fn a_secret_is_created_once_and_survives_a_restart() {
    let (database, mut admin) = admin();
    assert_eq!(admin.secret("nonce", [1; 32]), Ok([1; 32]));
    assert_eq!(admin.secret("nonce", [2; 32]), Ok([1; 32]));
    assert_eq!(admin.secret("route", [3; 32]), Ok([3; 32]));
    drop(admin);
    let mut again = Admin::new(&*database.store()).unwrap();
    assert_eq!(again.secret("nonce", [4; 32]), Ok([1; 32]));
}

#[test]
fn messages_of_two_shards_in_one_microsecond_are_both_kept() {
    let (_database, mut admin) = admin();
    for (shard, aor) in ["a@example.org", "b@example.org", "a@example.org"].into_iter().enumerate() {
        let message = WaitingMessage {
            // An id that two routers would both have chosen.
            id: 1_800_000_000_000_000,
            aor: aor.into(),
            from: "sip:c@example.org".into(),
            content_type: "text/plain".into(),
            body: [u8::try_from(shard).unwrap()][..].into(),
            sent_at: at(5),
            expires_at: None,
        };
        admin.write(&Write::Keep(Box::new(message))).unwrap();
    }
    let mut load = |aor: &str| match admin.read(&Read::KeptMessages { aor: aor.into() }) {
        Ok(Loaded::KeptMessages(messages)) => messages,
        other => panic!("{other:?}"),
    };
    let (a, b) = (load("a@example.org"), load("b@example.org"));
    assert_eq!((a.len(), b.len()), (2, 1));
    assert!(a[0].id < a[1].id && b[0].id != a[0].id);
    // A number is not given again: a late word about the last message deletes no newer one.
    let last = a[1].id;
    admin.write(&Write::ForgetMessage { aor: "a@example.org".into(), id: last }).unwrap();
    let again = Write::Keep(Box::new(WaitingMessage { id: 0, ..a[1].clone() }));
    assert_eq!(admin.write(&again), Ok(WriteDone::Added { id: i64::try_from(last).unwrap() + 1 }));
}

#[test]
fn one_bad_write_does_not_spoil_its_group() {
    let database = database();
    let store = database.store();
    let binding = || binding(1, &[1], None);
    let results = store.writer().unwrap().write_group(&[
        binding(),
        Write::RemoveRoute { name: "none".into() },
        Write::AddDomain { name: "a.org".into(), created_at: at(1) },
        Write::AddDomain { name: "A.org".into(), created_at: at(1) },
        binding(),
    ]);
    assert_eq!(results[0], Ok(WriteDone::Logged { seq: 1 }));
    assert_eq!(results[1], Err(StoreError::NotFound { what: "route none".into() }));
    assert_eq!(results[2], Ok(WriteDone::Added { id: 1 }));
    assert_eq!(results[3], Err(StoreError::Exists { what: "domain a.org".into() }));
    assert_eq!(results[4], Ok(WriteDone::Logged { seq: 2 }));
}

#[test]
fn a_database_without_digests_stores_none_from_any_write() {
    let database = database();
    let mut admin = Admin::new(&*database.store()).unwrap();
    admin.ensure_domain("example.org", Instant::default()).unwrap();
    let keys = |byte: u8| -> Arc<[(ScramHash, ScramKeys)]> {
        let key: Box<[u8]> = [byte; 32].into();
        let (stored, server) = (key.clone(), key);
        [(ScramHash::Sha256, ScramKeys { salt: [byte; 16].into(), iterations: 4_096, stored, server })].into()
    };
    let account = |name: &str, byte: u8| {
        let mut account = NewAccount::with_password(address(name), "secret", Instant::default()).unwrap();
        if byte > 0 {
            account.verifiers = account.verifiers.with_scram(&keys(byte));
        }
        account
    };
    admin.add_account(account("alice", 1)).unwrap();
    admin.add_account(account("phone", 0)).unwrap();
    let left = admin.write(&Write::KeepDigests(false)).unwrap();
    assert_eq!(left, WriteDone::Changed { rows: 1 }, "nothing else proves who the phone is");
    let verifiers = |admin: &mut Admin, name| admin.account(&address(name)).unwrap().verifiers;
    let alice = verifiers(&mut admin, "alice");
    assert!(!alice.are_of_password() && alice.scram(ScramHash::Sha256).is_some());
    // Another process, which knows of no configuration.
    let mut other = Admin::new(&*database.store()).unwrap();
    other.add_account(account("bob", 2)).unwrap();
    assert!(!verifiers(&mut other, "bob").are_of_password());
    assert!(other.add_account(account("carol", 0)).is_err(), "she could not sign in");
    let changed = account("alice", 3).verifiers;
    let write = Write::SetVerifiers { account: address("alice"), verifiers: changed };
    other.write(&write).unwrap();
    let changed = verifiers(&mut other, "alice");
    assert!(!changed.are_of_password() && changed.sha256 != alice.sha256, "another password");
    // Once there are keys, the digests go.
    let of = verifiers(&mut other, "phone").sha256;
    other.write(&Write::AddScram { account: address("phone"), of, keys: keys(4) }).unwrap();
    assert!(!verifiers(&mut other, "phone").are_of_password());
    assert_eq!(other.write(&Write::KeepDigests(false)).unwrap(), WriteDone::Changed { rows: 0 });
    drop((admin, other));
    // Not in the file either.
    let Some(path) = database.file() else { return };
    let bytes = std::fs::read(path).unwrap();
    for name in ["alice", "phone", "bob"] {
        let digests = Verifiers::from_password(name, "example.org", "secret");
        for digest in [&digests.md5[..], &digests.sha256, &digests.sha512_256] {
            assert!(!bytes.windows(digest.len()).any(|part| part == digest), "{name}");
        }
    }
}

#[test]
fn a_domain_in_a_labels_and_u_labels_is_one_domain() {
    let unicode = Address::new("alice", "bücher.example").unwrap();
    for other in ["xn--bcher-kva.example", "XN--Bcher-KVA.Example", "BÜCHER.example"] {
        assert_eq!(Address::new("alice", other).unwrap(), unicode, "{other}");
    }
    for wrong in ["xn--.example", "xn--example-.example", "xn--99999999.example", "-ü.example"] {
        assert!(Address::new("alice", wrong).is_err(), "{wrong}");
    }
}
