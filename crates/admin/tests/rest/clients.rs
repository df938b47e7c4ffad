//! A client changes the account that was made with it, and no other account of its address.

use std::sync::atomic::Ordering;

use admin::Repository as _;
use stdx::Instant;
use store::rest::types::{Client, Common};
use store::{Account, Address, Loaded, NewAccount, Read, Verifiers, Write};

use crate::plane::START;
use crate::world::World;

/// An account of REST below the first one: its sid, its token and the path of its clients.
struct Below<'a> {
    world: &'a World,
    sid: String,
    token: String,
    clients: String,
}

impl<'a> Below<'a> {
    fn new(world: &'a World) -> Self {
        let made = world.ask("POST", "/2010-04-01/Accounts.json", "FriendlyName=below").json();
        let text = |name: &str| made[name].as_str().unwrap().to_owned();
        let (sid, token) = (text("sid"), text("auth_token"));
        let clients = format!("{}/Clients", world.path("").replace(&world.me.sid, &sid));
        Below { world, sid, token, clients }
    }

    /// The status of the answer.
    fn ask(&self, method: &str, rest: &str, form: &str) -> u16 {
        let path = format!("{}{rest}.json", self.clients);
        self.world.send_as((&self.sid, &self.token), method, &path, form).status
    }

    /// Makes a client, and returns the rest of its path.
    fn make(&self, form: &str) -> String {
        let path = format!("{}.json", self.clients);
        let answer = self.world.send_as((&self.sid, &self.token), "POST", &path, form);
        assert_eq!(answer.status, 201, "{}", answer.text());
        format!("/{}", answer.json()["sid"].as_str().unwrap())
    }

    fn count(&self) -> Option<u64> {
        let path = format!("{}.json", self.clients);
        self.world.send_as((&self.sid, &self.token), "GET", &path, "").json()["total"].as_u64()
    }
}

fn address(user: &str) -> Address {
    Address::new(user, "example.org").unwrap()
}

fn account(world: &World, user: &str) -> Option<Account> {
    let Address { user, domain } = address(user);
    match world.repository.read(Read::Account { user, domain }).unwrap() {
        Loaded::Account(account) => account.map(|account| *account),
        other => panic!("{other:?}"),
    }
}

/// As the command line adds an account, so many seconds after the start.
fn add(world: &World, user: &str, seconds: u64) {
    let at = Instant::from_unix_seconds(START + seconds);
    let account = NewAccount::with_password(address(user), "own", at).unwrap();
    world.repository.write(Write::AddAccount(Box::new(account))).unwrap();
}

fn own_password(user: &str) -> Verifiers {
    Verifiers::from_password(user, "example.org", "own")
}

#[test]
fn the_client_goes_with_its_account_and_changes_no_later_one_of_that_name() {
    let world = World::new();
    let below = Below::new(&world);
    let bob = below.make("Login=bob&Password=x");
    world.repository.write(Write::RemoveAccount { account: address("bob") }).unwrap();
    assert_eq!(below.count(), Some(0));
    add(&world, "bob", 0);
    for form in ["Password=evil", "Status=0", "Status=1", "FriendlyName=Eve"] {
        assert_eq!(below.ask("POST", &bob, form), 404, "{form}");
    }
    assert_eq!(below.ask("DELETE", &bob, ""), 404);
    let bob = account(&world, "bob").unwrap();
    assert_eq!((bob.verifiers, bob.disabled, &*bob.display_name), (own_password("bob"), false, ""));
}

/// Versions before left the row when its account was removed, and also where the account had never been the client's.
#[test]
fn a_client_that_was_left_behind_changes_no_account_and_can_be_deleted() {
    let world = World::new();
    let below = Below::new(&world);
    for (number, (user, seconds)) in [("bob", 60), ("carol", 0)].into_iter().enumerate() {
        let made_at = Instant::from_unix_seconds(START + if user == "bob" { 0 } else { 60 });
        let sid = format!("CL{number:032}");
        let common =
            Common { sid: sid.clone(), account: below.sid.clone(), created_at: made_at, updated_at: made_at };
        world.insert(&Client {
            common,
            login: user.into(),
            domain: "example.org".into(),
            status: "1".into(),
            ..Client::default()
        });
        add(&world, user, seconds);
        let path = format!("/{sid}");
        for form in ["Password=evil", "Status=0", "FriendlyName=Eve"] {
            assert_eq!(below.ask("POST", &path, form), 404, "{user} {form}");
        }
        assert_eq!(below.ask("GET", &format!("{path}/Limits"), ""), 404);
        assert_eq!(below.ask("DELETE", &path, ""), 204);
        let account = account(&world, user).unwrap();
        assert_eq!((account.verifiers, account.disabled), (own_password(user), false));
    }
    assert_eq!(below.count(), Some(0));
}

#[test]
fn a_disabled_client_is_made_whole_or_not_at_all() {
    let world = World::new();
    let below = Below::new(&world);
    below.make("Login=bob&Password=x&Status=0");
    assert!(account(&world, "bob").unwrap().disabled);
    add(&world, "carol", 0);
    assert_eq!(below.ask("POST", "", "Login=carol&Password=x&Status=0"), 409);
    assert_eq!((below.count(), account(&world, "carol").unwrap().disabled), (Some(1), false));
}

#[test]
fn an_account_that_the_operator_has_disabled_stays_disabled() {
    let world = World::new();
    let below = Below::new(&world);
    let bob = below.make("Login=bob&Password=x");
    let operator = |disabled| {
        world.repository.write(Write::SetDisabled { account: address("bob"), disabled }).unwrap();
    };
    let is_disabled = || account(&world, "bob").unwrap().disabled;
    operator(true);
    for form in ["Status=1", "Status=0"] {
        assert_eq!(below.ask("POST", &bob, form), 403, "{form}");
    }
    assert!(is_disabled());
    operator(false);
    assert_eq!((below.ask("POST", &bob, "Status=0"), is_disabled()), (200, true));
    // The client was disabled already, and by the operator now.
    operator(true);
    assert_eq!((below.ask("POST", &bob, "Status=1"), is_disabled()), (403, true));
    operator(false);
    assert_eq!((below.ask("POST", &bob, "Status=0"), is_disabled()), (200, true));
    assert_eq!((below.ask("POST", &bob, "Status=1"), is_disabled()), (200, false));
}

#[test]
fn accounts_with_a_role_are_changed_by_the_first_account_only() {
    let world = World::new();
    let below = Below::new(&world);
    let bob = below.make("Login=bob&Password=x");
    let before = account(&world, "bob");
    *world.plane.privileged.lock().unwrap() = vec![address("bob"), address("chief")];
    assert_eq!(below.ask("POST", "", "Login=chief&Password=x"), 403);
    assert_eq!(account(&world, "chief"), None);
    for (method, form) in [("POST", "Password=evil"), ("POST", "Status=0"), ("DELETE", "")] {
        assert_eq!(below.ask(method, &bob, form), 403, "{method} {form}");
    }
    assert_eq!(account(&world, "bob"), before);
    let path = format!("{}{bob}.json", below.clients);
    assert_eq!(world.ask("POST", &path, "Password=other").status, 200);
    assert_eq!(world.post("/Clients.json", "Login=chief&Password=x").status, 201);
    world.plane.clock.fetch_add(60, Ordering::Relaxed);
    assert_eq!(world.ask("DELETE", &path, "").status, 204);
    assert_eq!(account(&world, "bob"), None);
}
