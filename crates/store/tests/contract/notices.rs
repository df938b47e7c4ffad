//! Programs that share a database tell each other what has changed.

use std::time::Duration;

use stdx::Instant;
use store::rest::types::{Common, IncomingNumber};
use store::rest::{Resource, RestWrite};
use store::{
    AccountChange, Address, Admin, Database, ImportOptions, NewAccount, Notice, NoticeListener, Postgres,
    Route, Verifiers, Write,
};

use crate::server::{self, PostgresServer};

const PATIENCE: Duration = Duration::from_secs(60);

fn now() -> Instant {
    Instant::from_unix_seconds(1)
}

fn address(user: &str) -> Address {
    Address::new(user, "example.org").unwrap()
}

/// The database as one program opens it; two of them are two programs.
fn database(url: &str) -> Database {
    Database::Postgres(Box::new(Postgres::open(url).unwrap()))
}

fn listener(database: &Database) -> NoticeListener {
    let mut listener = database.listen().unwrap().unwrap();
    assert_eq!(listener.wait(PATIENCE).unwrap(), [Notice::Everything], "changes until now were missed");
    listener
}

/// All notices until a route is added, which ends each of these tests.
fn until_the_end(listener: &mut NoticeListener, admin: &mut Admin) -> Vec<Notice> {
    admin.write(&Write::RemoveRoute { name: "end".into() }).ok();
    admin.add_route(end()).unwrap();
    let mut heard = Vec::new();
    while heard.last() != Some(&Notice::Plan) {
        heard.extend(listener.wait(PATIENCE).unwrap());
    }
    heard.pop();
    heard
}

fn end() -> Route {
    Route {
        id: 0,
        name: "end".into(),
        pattern: store::Pattern::User("end".into()),
        targets: vec![store::RouteTarget { uri: "sip:127.0.0.1".into(), weight: 1, priority: 1 }],
        open: false,
        probe: false,
        strip: 0,
        prefix: "".into(),
        policy: store::RoutePolicy::default(),
        created_at: now(),
    }
}

fn account(user: &str, change: AccountChange) -> Notice {
    Notice::Account { address: address(user), change }
}

#[test]
fn changes_of_accounts_are_told_with_their_aliases_and_by_their_kind() {
    let url = server::new_postgres_database();
    let mut admin = Admin::new(&database(&url)).unwrap();
    admin.ensure_domain("example.org", now()).unwrap();
    let mut listener = listener(&database(&url));
    let new = NewAccount::with_password(address("bob"), "secret", now()).unwrap();
    admin.add_account(new).unwrap();
    admin.add_alias(address("100"), address("bob")).unwrap();
    let expected = [account("bob", AccountChange::Data), account("100", AccountChange::Data)];
    assert_eq!(until_the_end(&mut listener, &mut admin), expected);
    admin.set_password(address("bob"), "other").unwrap();
    admin.set_disabled(address("bob"), true).unwrap();
    admin.set_disabled(address("bob"), false).unwrap();
    admin.remove_account(address("bob")).unwrap();
    let mut expected = Vec::new();
    for change in
        [AccountChange::Password, AccountChange::Disabled, AccountChange::Data, AccountChange::Removed]
    {
        expected.extend([account("bob", change), account("100", AccountChange::Data)]);
    }
    let heard = until_the_end(&mut listener, &mut admin);
    // The route of before was removed.
    assert_eq!(heard.into_iter().filter(|notice| *notice != Notice::Plan).collect::<Vec<_>>(), expected);
}

#[test]
fn numbers_and_imports_are_told_and_bindings_are_not() {
    let url = server::new_postgres_database();
    let mut admin = Admin::new(&database(&url)).unwrap();
    let mut listener = listener(&database(&url));
    let common = Common { sid: "PN1".into(), account: "AC1".into(), ..Common::default() };
    let number = IncomingNumber { common, phone_number: "+15550100".into(), ..IncomingNumber::default() };
    let ensure = Write::Rest(RestWrite::Ensure(Box::new(number.row().unwrap())));
    admin.write(&ensure).unwrap();
    // It is there now, so that nothing changes.
    admin.write(&ensure).unwrap();
    let binding = store::BindingWrite {
        bucket: 1,
        aor: "sip:bob@example.org".into(),
        epoch: 0,
        written_at: now(),
        replaces: None,
        empties: false,
        record: [1].into(),
    };
    admin.write(&Write::Binding(binding)).unwrap();
    assert_eq!(until_the_end(&mut listener, &mut admin), [Notice::Numbers]);
    let options = ImportOptions::new(Some("example.org"), now());
    admin.import("carol,secret\ndave,secret\n".as_bytes(), &options, &mut |_, _| {}).unwrap();
    let heard = until_the_end(&mut listener, &mut admin);
    assert!(heard.contains(&Notice::Everything), "{heard:?}");
    assert!(!heard.iter().any(|notice| matches!(notice, Notice::Account { .. })), "{heard:?}");
}

#[test]
fn an_import_tells_whose_passwords_it_has_changed() {
    let url = server::new_postgres_database();
    let mut admin = Admin::new(&database(&url)).unwrap();
    let options = ImportOptions::new(Some("example.org"), now());
    admin.import("carol,secret\ndave,secret\n".as_bytes(), &options, &mut |_, _| {}).unwrap();
    let mut listener = listener(&database(&url));
    admin.import("carol,other\ndave,secret\nerin,secret\n".as_bytes(), &options, &mut |_, _| {}).unwrap();
    let heard = until_the_end(&mut listener, &mut admin);
    // Caches are emptied first, so that no client comes back by the old password.
    assert_eq!(heard, [Notice::Everything, Notice::Passwords(vec![address("carol")])]);
}

#[test]
fn a_change_that_failed_or_is_of_ones_own_is_not_told() {
    let url = server::new_postgres_database();
    let own = database(&url);
    let (mut own_admin, mut other) = (Admin::new(&own).unwrap(), Admin::new(&database(&url)).unwrap());
    let mut listener = listener(&own);
    own_admin.ensure_domain("example.org", now()).unwrap();
    let new = NewAccount::with_password(address("bob"), "secret", now()).unwrap();
    own_admin.add_account(new.clone()).unwrap();
    let verifiers = Verifiers::from_password("eve", "example.org", "secret");
    assert!(other.write(&Write::SetVerifiers { account: address("eve"), verifiers }).is_err());
    assert!(other.add_account(new).is_err());
    assert_eq!(until_the_end(&mut listener, &mut other), []);
}

#[test]
fn after_an_absence_of_the_server_the_listener_reports_everything_as_changed() {
    let mut server = PostgresServer::start(&[]);
    let url = server.new_database(&[]);
    let mut admin = Admin::new(&database(&url)).unwrap();
    let mut listener = listener(&database(&url));
    assert_eq!(listener.wait(Duration::from_millis(10)).unwrap(), []);
    server.kill();
    assert!(listener.wait(PATIENCE).is_err());
    server.start_again();
    assert_eq!(listener.wait(PATIENCE).unwrap(), [Notice::Everything]);
    admin.ensure_domain("example.org", now()).unwrap();
    assert_eq!(listener.wait(PATIENCE).unwrap(), [Notice::Plan]);
}
