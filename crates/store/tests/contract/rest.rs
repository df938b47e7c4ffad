//! Rows of the REST interface: written, found, filtered, summed, forgotten.

use super::{Database, database};
use stdx::Instant;
use store::rest::types::{Client, Common, IncomingNumber, Queue, Recording, RestCall, TextMessage};
use store::rest::{
    Kind, Period, Resource, RestFilter, RestLoaded, RestRead, RestWrite, Row, SortBy, Sum, UsageFilter,
};
use store::{Address, Admin, Loaded, NewAccount, Read, StoreError, Write, WriteDone, limits};

fn admin() -> (Database, Admin) {
    let database = database();
    let store = database.store();
    (database, Admin::new(&*store).unwrap())
}

fn common(sid: &str, account: &str, seconds: u64) -> Common {
    let at = Instant::from_unix_seconds(seconds);
    Common { sid: sid.into(), account: account.into(), created_at: at, updated_at: at }
}

fn insert(admin: &mut Admin, resource: &impl Resource) -> Result<WriteDone, StoreError> {
    admin.write(&Write::Rest(RestWrite::Insert(Box::new(resource.row().unwrap()))))
}

fn read(admin: &mut Admin, read: RestRead) -> RestLoaded {
    match admin.read(&Read::Rest(read)).unwrap() {
        Loaded::Rest(loaded) => loaded,
        other => panic!("{other:?}"),
    }
}

fn list(admin: &mut Admin, filter: RestFilter) -> (Vec<Row>, u64) {
    match read(admin, RestRead::List(filter)) {
        RestLoaded::Page { rows, total } => (rows, total),
        other => panic!("{other:?}"),
    }
}

fn call(sid: &str, seconds: u64, duration: u32) -> RestCall {
    RestCall {
        common: common(sid, "AC1", seconds),
        from: "alice".into(),
        status: "completed".into(),
        direction: "inbound".into(),
        duration: Some(duration),
        ..RestCall::default()
    }
}

#[test]
fn a_resource_comes_back_as_it_was_and_can_be_replaced() {
    let (_database, mut admin) = admin();
    let mut one = call("CA1", 5, 7);
    one.ended_at = Some(Instant::from_micros(12_345_678));
    insert(&mut admin, &one).unwrap();
    let sid = || RestRead::Sid { kind: Kind::Call, sid: "CA1".into() };
    let RestLoaded::Row(Some(row)) = read(&mut admin, sid()) else { panic!() };
    assert_eq!(RestCall::from_row(&row).unwrap(), one);
    assert_eq!(*row, one.row().unwrap());
    one.status = "failed".into();
    admin.write(&Write::Rest(RestWrite::Replace(Box::new(one.row().unwrap())))).unwrap();
    let RestLoaded::Row(Some(row)) = read(&mut admin, sid()) else { panic!() };
    assert_eq!(RestCall::from_row(&row).unwrap().status, "failed");
    // This sid has no row of another kind.
    let other = RestRead::Sid { kind: Kind::Queue, sid: "CA1".into() };
    assert_eq!(read(&mut admin, other), RestLoaded::Row(None));
    let remove = Write::Rest(RestWrite::Remove { kind: Kind::Call, sid: "CA1".into() });
    admin.write(&remove).unwrap();
    assert_eq!(admin.write(&remove), Err(StoreError::NotFound { what: "CA1".into() }));
    let replace = Write::Rest(RestWrite::Replace(Box::new(one.row().unwrap())));
    assert_eq!(admin.write(&replace), Err(StoreError::NotFound { what: "CA1".into() }));
}

#[test]
fn numbers_are_unique_in_all_and_queues_in_their_account() {
    let (_database, mut admin) = admin();
    let number = |sid: &str, account: &str| IncomingNumber {
        common: common(sid, account, 1),
        phone_number: "+1234".into(),
        ..IncomingNumber::default()
    };
    insert(&mut admin, &number("PN1", "AC1")).unwrap();
    let taken = Err(StoreError::Exists { what: "+1234".into() });
    assert_eq!(insert(&mut admin, &number("PN2", "AC2")), taken);
    let queue = |sid: &str, account: &str| Queue {
        common: common(sid, account, 1),
        friendly_name: "support".into(),
        max_size: 1,
        ..Queue::default()
    };
    insert(&mut admin, &queue("QU1", "AC1")).unwrap();
    insert(&mut admin, &queue("QU2", "AC2")).unwrap();
    assert_eq!(insert(&mut admin, &queue("QU3", "AC1")), Err(StoreError::Exists { what: "support".into() }));
    let name = RestRead::Name { kind: Kind::Queue, account: Some("AC2".into()), name: "support".into() };
    let RestLoaded::Row(Some(row)) = read(&mut admin, name) else { panic!() };
    assert_eq!(&*row.sid, "QU2");
}

#[test]
fn a_row_that_is_ensured_is_made_once_and_stays_as_it_was() {
    let (_database, mut admin) = admin();
    let mut queue = Queue {
        common: common("QU1", "AC1", 1),
        friendly_name: "support".into(),
        max_size: 10,
        ..Queue::default()
    };
    let ensure = |admin: &mut Admin, queue: &Queue| {
        admin.write(&Write::Rest(RestWrite::Ensure(Box::new(queue.row().unwrap()))))
    };
    assert_eq!(ensure(&mut admin, &queue), Ok(WriteDone::Changed { rows: 1 }));
    queue.max_size = 20;
    assert_eq!(ensure(&mut admin, &queue), Ok(WriteDone::Changed { rows: 0 }));
    // Another sid with the same name.
    queue.common.sid = "QU2".into();
    assert_eq!(ensure(&mut admin, &queue), Ok(WriteDone::Changed { rows: 0 }));
    let RestLoaded::Row(Some(row)) = read(&mut admin, RestRead::Sid { kind: Kind::Queue, sid: "QU1".into() })
    else {
        panic!()
    };
    assert_eq!(Queue::from_row(&row).unwrap().max_size, 10);
}

#[test]
fn lists_are_filtered_sorted_and_cut() {
    let (_database, mut admin) = admin();
    for number in 0..5 {
        insert(&mut admin, &call(&format!("CA{number}"), 100 + number, 10 - u32::try_from(number).unwrap()))
            .unwrap();
    }
    let filter =
        RestFilter { account: Some("AC1".into()), limit: 2, offset: 1, ..RestFilter::all(Kind::Call) };
    let (rows, total) = list(&mut admin, filter.clone());
    let sids = |rows: &[Row]| rows.iter().map(|row| row.sid.to_string()).collect::<Vec<_>>();
    assert_eq!((sids(&rows), total), (vec!["CA3".to_owned(), "CA2".to_owned()], 5));
    let by_amount = RestFilter { sort: SortBy::Amount, ascending: true, offset: 0, ..filter.clone() };
    assert_eq!(sids(&list(&mut admin, by_amount).0), ["CA4", "CA3"]);
    let from = Some(Instant::from_unix_seconds(103));
    assert_eq!(list(&mut admin, RestFilter { created_from: from, ..filter.clone() }).1, 2);
    assert_eq!(list(&mut admin, RestFilter { created_to: from, ..filter.clone() }).1, 4);
    assert_eq!(list(&mut admin, RestFilter { from: Some("bob".into()), ..filter.clone() }).1, 0);
    assert_eq!(list(&mut admin, RestFilter { account: Some("AC2".into()), ..filter }).1, 0);
}

#[test]
fn usage_adds_up_by_day_and_minutes_are_rounded_up() {
    let (_database, mut admin) = admin();
    let day = 86_400;
    for (sid, at, seconds) in [("CA1", 0, 1), ("CA2", 1, 61), ("CA3", day, 0)] {
        insert(&mut admin, &call(sid, at, seconds)).unwrap();
    }
    let message =
        TextMessage { common: common("SM1", "AC1", 0), body: "x".repeat(161), ..TextMessage::default() };
    insert(&mut admin, &message).unwrap();
    let filter = UsageFilter { account: "AC1".into(), from: None, to: None, by: Period::Day };
    let RestLoaded::Sums(sums) = read(&mut admin, RestRead::Usage(filter.clone())) else { panic!() };
    let sum = |kind, direction: Option<&str>, period: &str, count, amount, minutes| Sum {
        kind,
        direction: direction.map(Box::from),
        period: period.into(),
        count,
        amount,
        minutes,
    };
    let expected = [
        sum(Kind::Call, Some("inbound"), "1970-01-02", 1, 0, 0),
        sum(Kind::Call, Some("inbound"), "1970-01-01", 2, 62, 3),
        sum(Kind::Message, None, "1970-01-01", 1, 2, 1),
    ];
    assert_eq!(sums, expected);
    let to = Some(Instant::from_unix_seconds(1));
    let RestLoaded::Sums(sums) =
        read(&mut admin, RestRead::Usage(UsageFilter { to, by: Period::All, ..filter }))
    else {
        panic!()
    };
    assert_eq!(sums[0], sum(Kind::Call, Some("inbound"), "", 1, 1, 1));
}

#[test]
fn old_rows_of_a_kind_are_forgotten_and_a_body_has_a_limit() {
    let (_database, mut admin) = admin();
    for number in 0..4 {
        insert(&mut admin, &call(&format!("CA{number}"), number, 0)).unwrap();
    }
    let before = Instant::from_unix_seconds(3);
    let forget = |kind| Write::Rest(RestWrite::Forget { kind, before });
    assert_eq!(admin.write(&forget(Kind::Message)), Ok(WriteDone::Changed { rows: 0 }));
    assert_eq!(admin.write(&forget(Kind::Call)), Ok(WriteDone::Changed { rows: 3 }));
    assert_eq!(list(&mut admin, RestFilter::all(Kind::Call)).1, 1);
    let long = TextMessage { body: "x".repeat(limits::MAX_REST_BODY), ..TextMessage::default() };
    assert!(matches!(long.row(), Err(StoreError::Invalid { .. })));
}

#[test]
fn recordings_of_a_mailbox_are_found_and_the_unheard_are_counted() {
    let (_database, mut admin) = admin();
    let recording = |sid: &str, to: &str, heard: Option<u64>| Recording {
        common: common(sid, "AC1", 5),
        to: to.into(),
        from: "bob".into(),
        heard_at: heard.map(Instant::from_unix_seconds),
        ..Recording::default()
    };
    for (sid, to, heard) in [("RE1", "alice@a", None), ("RE2", "alice@a", Some(9)), ("RE3", "carol@a", None)]
    {
        insert(&mut admin, &recording(sid, to, heard)).unwrap();
    }
    insert(&mut admin, &recording("RE4", "", None)).unwrap();
    // A call to the same address is none of them.
    insert(&mut admin, &RestCall { to: "alice@a".into(), ..call("CA1", 5, 7) }).unwrap();
    let all = RestFilter { to: Some("alice@a".into()), ..RestFilter::all(Kind::Recording) };
    let (rows, total) = list(&mut admin, all.clone());
    let sids: Vec<&str> = rows.iter().map(|row| &*row.sid).collect();
    assert_eq!((sids, total), (vec!["RE2", "RE1"], 2));
    assert_eq!(Recording::from_row(&rows[0]).unwrap(), recording("RE2", "alice@a", Some(9)));
    let heard = RestFilter { ended_from: Some(Instant::from_micros(0)), ..all };
    assert_eq!(list(&mut admin, heard).1, 1);
}

#[test]
fn a_removed_account_takes_its_voicemail_with_it_and_no_other_recording() {
    let (_database, mut admin) = admin();
    let address = |name: &str| Address::new(name, "example.org").unwrap();
    admin.ensure_domain("example.org", Instant::from_unix_seconds(1)).unwrap();
    let add = |admin: &mut Admin, name: &str| {
        let new = NewAccount::with_password(address(name), "secret", Instant::from_unix_seconds(1)).unwrap();
        admin.add_account(new).unwrap();
    };
    add(&mut admin, "alice");
    let recording = |sid: &str, to: &str| Recording {
        common: common(sid, "AC1", 5),
        to: to.into(),
        node: "n1".into(),
        ..Recording::default()
    };
    let alice = "alice@example.org";
    for (sid, to) in [("RE1", alice), ("RE2", ""), ("RE3", "alice@example.net"), ("RE4", "carol@example.org")]
    {
        insert(&mut admin, &recording(sid, to)).unwrap();
    }
    insert(&mut admin, &RestCall { to: alice.into(), ..call("CA1", 5, 7) }).unwrap();
    admin.remove_account(address("alice")).unwrap();
    add(&mut admin, "alice");
    let of_alice = RestFilter { to: Some(alice.into()), ..RestFilter::all(Kind::Recording) };
    assert_eq!(list(&mut admin, of_alice).1, 0);
    let (rows, _) = list(&mut admin, RestFilter::all(Kind::Recording));
    let sids: Vec<&str> = rows.iter().map(|row| &*row.sid).collect();
    assert_eq!(sids, ["RE4", "RE3", "RE2"]);
    assert_eq!(list(&mut admin, RestFilter::all(Kind::Call)).1, 1);
    // The node that deletes the sound finds it by the row, which nothing else shows.
    let sid = RestRead::Sid { kind: Kind::Recording, sid: "RE1".into() };
    assert_eq!(read(&mut admin, sid), RestLoaded::Row(None));
    let (rows, total) = list(&mut admin, RestFilter::all(Kind::RemovedVoicemail));
    assert_eq!((Recording::from_row(&rows[0]).unwrap(), total), (recording("RE1", alice), 1));
    let late = RestWrite::Replace(Box::new(recording("RE1", alice).row().unwrap()));
    assert_eq!(admin.write(&Write::Rest(late)), Err(StoreError::NotFound { what: "RE1".into() }));
    let remove = RestWrite::Remove { kind: Kind::RemovedVoicemail, sid: "RE1".into() };
    admin.write(&Write::Rest(remove)).unwrap();
}

/// A client of that login with its account, both made at that second.
fn add_client(seconds: u64, login: &str, account: &str) -> Write {
    let client = Client {
        common: common(&format!("CL{login}"), "AC1", seconds),
        login: login.into(),
        domain: "example.org".into(),
        status: "1".into(),
        ..Client::default()
    };
    let address = Address::new(account, "example.org").unwrap();
    let account = NewAccount::with_password(address, "secret", Instant::from_unix_seconds(seconds)).unwrap();
    Write::AddClient { row: Box::new(client.row().unwrap()), account: Box::new(account), disabled: true }
}

fn of_client(login: &str, write: Write) -> Write {
    Write::OfClient { sid: format!("CL{login}").into(), write: Box::new(write) }
}

#[test]
fn a_client_and_its_account_are_made_and_removed_together() {
    let (_database, mut admin) = admin();
    admin.ensure_domain("example.org", Instant::from_unix_seconds(1)).unwrap();
    let bob = || Address::new("bob", "example.org").unwrap();
    let clients = |admin: &mut Admin| list(admin, RestFilter::all(Kind::Client)).1;
    assert!(matches!(admin.write(&add_client(5, "bob", "bob")), Ok(WriteDone::ClientAdded { .. })));
    assert!(admin.account(&bob()).unwrap().disabled);
    // The login is a client's, or the address an account's: neither of both rows is added.
    assert_eq!(admin.write(&add_client(5, "bob", "eve")), Err(StoreError::Exists { what: "bob".into() }));
    let taken = StoreError::Exists { what: "account bob@example.org".into() };
    assert_eq!(admin.write(&add_client(5, "eve", "bob")), Err(taken));
    assert_eq!(clients(&mut admin), 1);
    assert!(admin.account(&Address::new("eve", "example.org").unwrap()).is_err());
    let removed = admin.write(&Write::RemoveAccount { account: bob() }).unwrap();
    assert_eq!(removed, WriteDone::Removed { roster: Vec::new(), had_client: true });
    assert_eq!(clients(&mut admin), 0);
    // An account without a client.
    admin.write(&add_client(5, "bob", "bob")).unwrap();
    admin.write(&Write::Rest(RestWrite::Remove { kind: Kind::Client, sid: "CLbob".into() })).unwrap();
    let removed = admin.write(&Write::RemoveAccount { account: bob() }).unwrap();
    assert_eq!(removed, WriteDone::Removed { roster: Vec::new(), had_client: false });
}

#[test]
fn a_client_changes_only_the_account_that_was_made_with_it() {
    let (_database, mut admin) = admin();
    admin.ensure_domain("example.org", Instant::from_unix_seconds(1)).unwrap();
    let address = |user: &str| Address::new(user, "example.org").unwrap();
    admin.write(&add_client(5, "bob", "bob")).unwrap();
    admin.write(&add_client(5, "eve", "eve")).unwrap();
    let rename = |user: &str| Write::SetDisplayName { account: address(user), display_name: "B".into() };
    admin.write(&of_client("bob", rename("bob"))).unwrap();
    let missing = |what: &str| Err(StoreError::NotFound { what: what.into() });
    assert_eq!(admin.write(&of_client("bob", rename("eve"))), missing("CLbob"));
    assert_eq!(admin.write(&of_client("eva", rename("eve"))), missing("CLeva"));
    // Only changes of accounts are of a client.
    assert_eq!(admin.write(&of_client("bob", Write::KeepDigests(true))), missing("CLbob"));
    // The row of a version before, which left it when the account was removed.
    let RestLoaded::Row(Some(row)) =
        read(&mut admin, RestRead::Sid { kind: Kind::Client, sid: "CLbob".into() })
    else {
        panic!()
    };
    let remove = || Write::RemoveAccount { account: address("bob") };
    admin.write(&of_client("bob", remove())).unwrap();
    admin.write(&Write::Rest(RestWrite::Insert(row))).unwrap();
    let later = Instant::from_unix_seconds(11);
    admin.add_account(NewAccount::with_password(address("bob"), "x", later).unwrap()).unwrap();
    assert_eq!(admin.write(&of_client("bob", rename("bob"))), missing("CLbob"));
    assert_eq!(admin.write(&of_client("bob", remove())), missing("CLbob"));
    assert_eq!(&*admin.account(&address("bob")).unwrap().display_name, "");
}

#[test]
fn a_client_counts_as_enabled_when_another_request_disables_its_account() {
    let (_database, mut admin) = admin();
    admin.ensure_domain("example.org", Instant::from_unix_seconds(1)).unwrap();
    admin.write(&add_client(5, "bob", "bob")).unwrap();
    let status = |admin: &mut Admin| {
        let RestLoaded::Row(Some(row)) =
            read(admin, RestRead::Sid { kind: Kind::Client, sid: "CLbob".into() })
        else {
            panic!()
        };
        (row.status.clone(), Client::from_row(&row).unwrap().status)
    };
    let disable =
        || Write::SetDisabled { account: Address::new("bob", "example.org").unwrap(), disabled: true };
    let mut client = Client {
        common: common("CLbob", "AC1", 5),
        login: "bob".into(),
        domain: "example.org".into(),
        status: "0".into(),
        ..Client::default()
    };
    admin.write(&Write::Rest(RestWrite::Replace(Box::new(client.row().unwrap())))).unwrap();
    admin.write(&of_client("bob", disable())).unwrap();
    assert_eq!(status(&mut admin), (Some("0".into()), "0".to_owned()));
    admin.write(&disable()).unwrap();
    client.status = "1".into();
    assert_eq!(status(&mut admin), (client.row().unwrap().status, client.status));
}
