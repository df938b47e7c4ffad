//! Tokens and invitations admit their owners, once.

use super::{Database, database};
use stdx::Instant;
use store::access::{
    AccessLoaded, AccessRead, AccessWrite, FreshToken, Invitation, TokenRow, TokenWrite, UsedToken,
};
use store::xmpp::{RosterRow, XmppLoaded, XmppRead, XmppWrite};
use store::{Address, Admin, Loaded, NewAccount, Read, StoreError, Write, limits};

struct World {
    admin: Admin,
    _database: Database,
}

fn at(seconds: u64) -> Instant {
    Instant::from_unix_seconds(seconds)
}

fn fresh(id: u8, issued_at: u64) -> FreshToken {
    FreshToken {
        id: [id].into(),
        mechanism: "HT-SHA-256-NONE".into(),
        issued_at: at(issued_at),
        expires_at: at(issued_at + 1_000),
    }
}

fn used(id: u8, count: Option<u64>) -> UsedToken {
    UsedToken { id: [id].into(), count, revoked: false }
}

fn invitation(hash: u8, inviter: Option<&str>) -> Invitation {
    Invitation {
        hash: [hash; 32],
        domain: "a".into(),
        name: Some("bob".into()),
        inviter: inviter.map(Box::from),
        registers: true,
        expires_at: at(100),
    }
}

impl World {
    fn new() -> World {
        let database = database();
        let store = database.store();
        let mut admin = Admin::new(&*store).unwrap();
        admin.ensure_domain("a", at(1)).unwrap();
        World { admin, _database: database }
    }

    fn write(&mut self, write: AccessWrite) -> Result<(), StoreError> {
        self.admin.write(&Write::Access(write)).map(drop)
    }

    fn tokens(
        &mut self,
        agent: &str,
        used: Option<UsedToken>,
        fresh: Option<FreshToken>,
    ) -> Result<(), StoreError> {
        let write = TokenWrite { user: "alice@a".into(), agent: agent.into(), used, fresh };
        self.write(AccessWrite::Tokens(Box::new(write)))
    }

    fn rows(&mut self, agent: &str) -> Vec<TokenRow> {
        let read = AccessRead::Tokens { user: "alice@a".into(), agent: agent.into() };
        match self.admin.read(&Read::Access(read)).unwrap() {
            Loaded::Access(AccessLoaded::Tokens(rows)) => rows,
            other => panic!("{other:?}"),
        }
    }

    fn ids(&mut self, agent: &str) -> Vec<u8> {
        self.rows(agent).iter().map(|row| row.id[0]).collect()
    }

    fn register(&mut self, name: &str, invitation: Option<u8>) -> Result<(), StoreError> {
        self.register_at(1, (name, "a"), invitation)
    }

    fn register_at(
        &mut self,
        seconds: u64,
        (name, domain): (&str, &str),
        invitation: Option<u8>,
    ) -> Result<(), StoreError> {
        let address = Address::new(name, domain).unwrap();
        let account = NewAccount::with_password(address, "secret", at(seconds)).unwrap();
        let invitation = invitation.map(|hash| [hash; 32]);
        self.write(AccessWrite::Register { account: Box::new(account), invitation })
    }

    fn use_invitation(&mut self, hash: u8, inviter: &str, now: u64) -> Result<(), StoreError> {
        let (hash, inviter) = ([hash; 32], inviter.into());
        self.write(AccessWrite::UseInvitation { hash, inviter, now: at(now) })
    }

    fn reserved(&mut self, name: &str, now: u64) -> bool {
        let read = AccessRead::Reserved { domain: "a".into(), name: name.into(), now: at(now) };
        matches!(self.admin.read(&Read::Access(read)).unwrap(), Loaded::Access(AccessLoaded::Reserved(true)))
    }
}

#[test]
fn a_client_keeps_its_used_token_until_the_newer_one_is_used() {
    let mut world = World::new();
    world.tokens("phone", None, Some(fresh(1, 10))).unwrap();
    // It never used the first, so it has not got it.
    world.tokens("phone", None, Some(fresh(2, 20))).unwrap();
    assert_eq!(world.ids("phone"), [2]);
    world.tokens("phone", Some(used(2, None)), Some(fresh(3, 30))).unwrap();
    world.tokens("desk", None, Some(fresh(9, 30))).unwrap();
    assert_eq!(world.ids("phone"), [3, 2], "the older one is good until the newer one is used");
    world.tokens("phone", Some(used(3, Some(5))), None).unwrap();
    let rows = world.rows("phone");
    assert_eq!((rows.len(), rows[0].count, rows[0].used, rows[0].expires_at), (1, 5, true, at(1_030)));
    assert_eq!(world.ids("desk"), [9], "another client's");
    world.tokens("phone", Some(UsedToken { revoked: true, ..used(3, None) }), None).unwrap();
    assert_eq!(world.ids("phone"), [0; 0]);
}

#[test]
fn a_token_count_is_accepted_once() {
    let mut world = World::new();
    world.tokens("phone", None, Some(fresh(1, 10))).unwrap();
    world.tokens("phone", Some(used(1, Some(1))), None).unwrap();
    for count in [0, 1] {
        let again = world.tokens("phone", Some(used(1, Some(count))), Some(fresh(2, 20)));
        assert!(matches!(again, Err(StoreError::NotFound { .. })), "{count}");
    }
    assert_eq!(world.ids("phone"), [1], "nothing was written");
    world.tokens("phone", Some(used(1, Some(2))), None).unwrap();
    assert!(world.tokens("phone", Some(used(7, None)), None).is_err(), "one that never was");
}

#[test]
fn tokens_of_an_account_have_a_bound_and_an_end() {
    let mut world = World::new();
    let many = u8::try_from(limits::MAX_TOKENS).unwrap() + 3;
    for number in 0..many {
        world.tokens(&format!("agent{number}"), None, Some(fresh(number, u64::from(number)))).unwrap();
    }
    assert_eq!((world.ids("agent2").len(), world.ids("agent3").len()), (0, 1), "the oldest went");
    world.write(AccessWrite::Clean { before: at(1_004) }).unwrap();
    assert_eq!((world.ids("agent3").len(), world.ids("agent4").len()), (0, 1));
    world.write(AccessWrite::ForgetTokens { user: "alice@a".into() }).unwrap();
    assert_eq!(world.ids("agent4").len(), 0);
}

#[test]
fn an_invitation_makes_one_account() {
    let mut world = World::new();
    world.write(AccessWrite::Invite(Box::new(invitation(1, Some("alice@a"))))).unwrap();
    let read = Read::Access(AccessRead::Invitation { hash: [1; 32] });
    let found = world.admin.read(&read).unwrap();
    let expected = AccessLoaded::Invitation(Some(Box::new(invitation(1, Some("alice@a")))));
    assert_eq!(found, Loaded::Access(expected));
    assert!(world.reserved("bob", 99) && !world.reserved("bob", 100) && !world.reserved("eve", 100));
    world.register("bob", Some(1)).unwrap();
    world.register("taken", None).unwrap();
    world.write(AccessWrite::Invite(Box::new(Invitation { name: None, ..invitation(2, None) }))).unwrap();
    assert!(matches!(world.register("taken", Some(2)), Err(StoreError::Exists { .. })));
    assert!(matches!(world.register("carol", Some(1)), Err(StoreError::NotFound { .. })), "used up");
    assert!(world.admin.account(&Address::new("carol", "a").unwrap()).is_err());
    assert_eq!(world.admin.read(&read).unwrap(), Loaded::Access(AccessLoaded::Invitation(None)));
}

#[test]
fn invitations_have_a_bound_and_an_end() {
    let mut world = World::new();
    for number in 0..limits::MAX_INVITATIONS {
        let hash = u8::try_from(number).unwrap();
        world.write(AccessWrite::Invite(Box::new(invitation(hash, Some("alice@a"))))).unwrap();
    }
    let one_more = AccessWrite::Invite(Box::new(invitation(200, Some("alice@a"))));
    assert!(world.write(one_more.clone()).is_err());
    world.write(AccessWrite::Invite(Box::new(invitation(201, Some("bob@a"))))).unwrap();
    world.use_invitation(0, "alice@a", 99).unwrap();
    assert!(world.use_invitation(0, "alice@a", 99).is_err());
    world.write(one_more).unwrap();
    world.write(AccessWrite::Clean { before: at(101) }).unwrap();
    assert!(world.use_invitation(201, "bob@a", 1).is_err(), "too old");
}

#[test]
fn an_invitation_is_for_its_domain_its_name_and_its_time_in_the_write_itself() {
    let mut world = World::new();
    world.admin.ensure_domain("b", at(1)).unwrap();
    let named = invitation(1, None);
    let any = Invitation { name: None, ..invitation(2, Some("alice@a")) };
    let contact_only = Invitation { name: None, registers: false, ..invitation(3, Some("alice@a")) };
    for invitation in [named, any, contact_only] {
        world.write(AccessWrite::Invite(Box::new(invitation))).unwrap();
    }
    let not_found = |result: Result<(), StoreError>| matches!(result, Err(StoreError::NotFound { .. }));
    assert!(not_found(world.register_at(1, ("bob", "b"), Some(1))), "another domain");
    assert!(not_found(world.register_at(1, ("carol", "b"), Some(2))), "another domain");
    assert!(not_found(world.register_at(1, ("carol", "a"), Some(1))), "another name");
    assert!(not_found(world.register_at(100, ("bob", "a"), Some(1))), "too late");
    assert!(not_found(world.register_at(1, ("carol", "a"), Some(3))), "makes a contact only");
    assert!(matches!(world.register_at(1, ("bob", "a"), None), Err(StoreError::Exists { .. })), "kept");
    for name in ["bob", "carol"] {
        assert!(world.admin.account(&Address::new(name, "a").unwrap()).is_err(), "no account was made");
    }
    world.register_at(99, ("bob", "a"), Some(1)).unwrap();
    world.register_at(99, ("carol", "a"), Some(2)).unwrap();
    // A failed write uses nothing up, and a contact's invitation is its inviter's.
    assert!(not_found(world.use_invitation(3, "eve@a", 99)));
    assert!(not_found(world.use_invitation(3, "alice@a", 100)));
    world.use_invitation(3, "alice@a", 99).unwrap();
}

#[test]
fn concurrent_registrations_by_one_invitation_create_one_account() {
    let database = database();
    let mut admin = Admin::new(&*database.store()).unwrap();
    admin.ensure_domain("a", at(1)).unwrap();
    let any = Invitation { name: None, ..invitation(1, None) };
    admin.write(&Write::Access(AccessWrite::Invite(Box::new(any)))).unwrap();
    // As nodes would that share the record.
    let database = &database;
    let register = &|number: usize| {
        let mut admin = Admin::new(&*database.store()).unwrap();
        let address = Address::new(&format!("user{number}"), "a").unwrap();
        let account = Box::new(NewAccount::with_password(address, "secret", at(1)).unwrap());
        let invitation = Some([1; 32]);
        admin.write(&Write::Access(AccessWrite::Register { account, invitation })).is_ok()
    };
    let made = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|number| scope.spawn(move || register(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).filter(|made| *made).count()
    });
    assert_eq!(made, 1);
}

#[test]
fn removing_an_account_removes_its_tokens_and_roster() {
    let mut world = World::new();
    world.register("alice", None).unwrap();
    world.tokens("phone", None, Some(fresh(1, 10))).unwrap();
    let item = Some(Box::new(RosterRow::default()));
    let (user, contact): (Box<str>, _) = ("alice@a".into(), "bob@a".into());
    let roster = XmppWrite::Roster { user: user.clone(), contact, item, version: 1 };
    world.admin.write(&Write::Xmpp(roster)).unwrap();
    world.admin.remove_account(Address::new("alice", "a").unwrap()).unwrap();
    assert_eq!(world.ids("phone"), [0; 0]);
    let Loaded::Xmpp(XmppLoaded::User(row)) =
        world.admin.read(&Read::Xmpp(XmppRead::User { user, nodes: &[] })).unwrap()
    else {
        panic!("no row");
    };
    assert_eq!(*row, store::xmpp::UserRow::default());
}
