//! Users' changes of their accounts, and their invitations.

use std::time::Duration;

use xmpp::sasl::Secret;

use super::effect::{Invitation, RosterItem, Subscription};
use super::pubsub::ask;
use super::*;

/// The accounts and invitations in the store.
#[derive(Default)]
pub(super) struct Known {
    pub(super) passwords: Vec<(String, Secret)>,
    pub(super) invitations: HashMap<Box<str>, Invitation>,
}

impl Known {
    pub(super) fn access(&mut self, access: Access) -> Result<StoreReply, StoreFailure> {
        match access {
            Access::Password { user, password } => self.passwords.push((user.to_string(), password)),
            Access::Remove { .. } => {}
            Access::Invite { token, invitation } => drop(self.invitations.insert(token, *invitation)),
            Access::Invitation { token } => {
                let found = self.invitations.get(&token).cloned().map(Box::new);
                return Ok(StoreReply::Invitation(found));
            }
            Access::UseInvitation { token, inviter } => {
                let is_of = |found: &Invitation| found.inviter.as_ref() == Some(&inviter);
                let found = self.invitations.remove(&token).filter(is_of);
                return found.map(|_| StoreReply::Done).ok_or(StoreFailure::NotFound);
            }
        }
        Ok(StoreReply::Done)
    }
}

const USERS: [&str; 3] = ["alice@example.org", "bob@example.org", "admin@example.org"];

fn world(change: impl FnOnce(&mut HostSettings)) -> HostWorld {
    let mut world = HostWorld::new(&USERS);
    let mut settings = settings();
    settings.accounts = crate::register::AccountSettings {
        may_change_password: true,
        may_remove: true,
        min_password: 8,
        external: Vec::new(),
    };
    settings.invitations = crate::invite::InvitationSettings {
        by_users: false,
        by_admins: true,
        good_for: Duration::from_secs(1_000),
        pages: None,
    };
    settings.admins = vec![Bare::parse(USERS[2]).unwrap()];
    change(&mut settings);
    world.host = Host::new(Arc::new(settings), ShardAddress::default(), [1; 32]);
    world
}

fn register(inner: &str) -> String {
    format!("<query xmlns='jabber:iq:register'>{inner}</query>")
}

fn new_password(user: &str, password: &str) -> String {
    register(&format!("<username>{user}</username><password>{password}</password>"))
}

#[test]
fn a_registered_user_is_told_of_its_account() {
    let mut world = world(|_| {});
    let alice = world.sign_in("alice@example.org/desk");
    for to in ["example.org", "alice@example.org"] {
        let answer = ask(&mut world, alice, "get", to, &register(""));
        assert!(answer.contains("<registered/><username>alice</username>"), "{answer}");
    }
}

#[test]
fn a_new_password_ends_the_other_sessions() {
    let mut world = world(|_| {});
    let alice = world.sign_in("alice@example.org/desk");
    let phone = world.sign_in("alice@example.org/phone");
    let bob = world.sign_in("bob@example.org/desk");
    let answer = ask(&mut world, alice, "set", "example.org", &new_password("alice", "new secret"));
    assert!(answer.contains("type='result'"), "{answer}");
    assert_eq!(world.store.accounts.passwords, [("alice@example.org".into(), Secret("new secret".into()))]);
    assert_eq!(world.closed, [(phone, "reset")]);
    // By a form, too.
    let form = "<x xmlns='jabber:x:data' type='submit'><field var='username'><value>bob</value></field>\
                <field var='password'><value>longer secret</value></field></x>";
    let answer = ask(&mut world, bob, "set", "example.org", &register(form));
    assert!(answer.contains("type='result'"), "{answer}");
    assert_eq!(world.store.accounts.passwords.len(), 2);
}

#[test]
fn changes_that_are_not_allowed_are_refused() {
    let mut world = world(|settings| settings.accounts.may_remove = false);
    let alice = world.sign_in("alice@example.org/desk");
    let guest = world.sign_in_as("guest@example.org/x", true);
    let case = |world: &mut HostWorld, client, inner: &str, condition: &str| {
        let answer = ask(world, client, "set", "example.org", inner);
        assert!(answer.contains(condition), "{inner}: {answer}");
    };
    case(&mut world, alice, &register("<remove/>"), "<not-allowed");
    case(&mut world, alice, &new_password("bob", "new secret"), "<not-allowed");
    case(&mut world, alice, &new_password("alice", "short"), "<not-acceptable");
    case(&mut world, alice, &register("<username>alice</username>"), "<bad-request");
    case(&mut world, guest, &new_password("guest", "new secret"), "<not-allowed");
    world.store.is_broken = true;
    case(&mut world, alice, &new_password("alice", "new secret"), "<resource-constraint");
    let mut settings = settings();
    settings.accounts.may_change_password = false;
    world.store.is_broken = false;
    world.host.reload(Arc::new(settings));
    case(&mut world, alice, &new_password("alice", "new secret"), "<not-allowed");
    assert!(world.store.accounts.passwords.is_empty() && world.closed.is_empty());
}

#[test]
fn an_account_that_is_removed_leaves_no_session_and_no_contact() {
    let mut world = world(|_| {});
    let both = RosterItem { subscription: Subscription::Both, is_listed: true, ..RosterItem::default() };
    for (user, contact) in
        [("alice@example.org", "bob@example.org"), ("bob@example.org", "alice@example.org")]
    {
        let store = world.store.users.get_mut(&Bare::parse(user).unwrap()).unwrap();
        store.roster = vec![(Bare::parse(contact).unwrap(), both.clone())];
    }
    let alice = world.sign_in("alice@example.org/desk");
    let phone = world.sign_in("alice@example.org/phone");
    let bob = world.sign_in("bob@example.org/desk");
    for client in [alice, phone, bob] {
        world.say(client, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
        world.say(client, "<presence/>");
        world.hear(client);
    }
    let answer =
        ask(&mut world, alice, "set", "example.org", &register("<remove/><username>alice</username>"));
    assert!(answer.contains("<bad-request"), "it stands alone: {answer}");
    let answer = ask(&mut world, alice, "set", "example.org", &register("<remove/>"));
    assert!(answer.contains("type='result'"), "{answer}");
    assert_eq!(world.closed, [(alice, "not-authorized"), (phone, "not-authorized")]);
    let heard = world.hear(bob).join("\n");
    assert!(heard.contains("type='unsubscribed'") && heard.contains("type='unavailable'"), "{heard}");
    let bobs = &world.store.users[&Bare::parse("bob@example.org").unwrap()].roster;
    assert_eq!(bobs[0].1.subscription, Subscription::None);
    let is_hers =
        |change: &Change| matches!(change, Change::LastSeen { user, .. } if user.local() == Some("alice"));
    assert!(!world.store.changes.iter().any(is_hers), "nothing is written of who is no more");
}

/// Each kind of contact learns the end of its subscriptions, by the stored roster, when its user has not been
/// here.
#[test]
fn contacts_of_an_absent_user_learn_the_end_of_their_subscriptions_too() {
    let mut world = world(|_| {});
    let contact = |user: &str, subscription, ask| {
        let item = RosterItem { subscription, ask, is_listed: true, ..RosterItem::default() };
        (Bare::parse(&format!("{user}@elsewhere.example")).unwrap(), item)
    };
    let kept = [
        contact("to", Subscription::To, false),
        contact("from", Subscription::From, false),
        contact("both", Subscription::Both, false),
        contact("asked", Subscription::None, true),
        contact("none", Subscription::None, false),
    ];
    let user = Bare::parse("ghost@example.org").unwrap();
    let all =
        ["unsubscribe to", "unsubscribed from", "unsubscribe both", "unsubscribed both", "unsubscribe asked"];
    for (ending, expected) in [
        (Some(SessionEndReason::Changed), &[][..]),
        (Some(SessionEndReason::Removed), &all),
        // At a node of a farm that has removed the account of another node.
        (None, &all),
    ] {
        world.tell(|host, now, out| match ending {
            Some(ending) => host.end_account(now, &user, ending, &kept, out),
            None => crate::register::tell_contacts_of_removed(host, now, &user, &kept, out),
        });
        let told = world.abroad.drain(..).filter(|stanza| stanza.attr("type") != Some("unavailable"));
        let told: Vec<String> = told
            .map(|stanza| {
                assert_eq!(stanza.attr("from"), Some("ghost@example.org"));
                let to = stanza.attr("to").unwrap().split('@').next().unwrap().to_owned();
                format!("{} {to}", stanza.attr("type").unwrap())
            })
            .collect();
        assert_eq!(told, expected, "{ending:?}");
    }
}

#[test]
fn a_session_that_waits_for_its_client_ends_with_the_others() {
    let mut world = world(|_| {});
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<presence/>");
    world.say(alice, "<enable xmlns='urn:xmpp:sm:3' resume='true'/>");
    let enabled = world.hear(alice).join("");
    let id = enabled.split("id='").last().unwrap().split('\'').next().unwrap().to_owned();
    world.tell(|host, now, out| host.handle_gone(now, edge(alice), false, out));
    assert_eq!(world.host.accounts().session_count(), 1, "it sleeps");
    let user = Bare::parse("alice@example.org").unwrap();
    world.tell(|host, now, out| host.end_account(now, &user, SessionEndReason::Changed, &[], out));
    assert_eq!(world.host.accounts().session_count(), 0);
    world.tell(|host, now, out| host.handle_resume(now, edge(9), (user.as_jid(), &id, 0), out));
    assert!(matches!(world.bound[&9], Bound::NotResumed { .. }), "nor is it to be had again");
}

fn command(world: &mut HostWorld, client: u64, node: &str, inner: &str) -> String {
    let command = format!(
        "<command xmlns='http://jabber.org/protocol/commands' node='urn:xmpp:invite#{node}'>{inner}</command>"
    );
    ask(world, client, "set", "example.org", &command)
}

fn token(answer: &str) -> String {
    let after = answer.split("preauth=").nth(1).unwrap_or_else(|| panic!("no token: {answer}"));
    after.chars().take_while(char::is_ascii_alphanumeric).collect()
}

#[test]
fn a_stranger_that_asks_with_the_token_of_an_invitation_becomes_a_contact() {
    let mut world = world(|_| {});
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    world.say(alice, "<presence/>");
    world.hear(alice);
    let answer = command(&mut world, alice, "invite", "");
    assert!(answer.contains("status='completed'"), "{answer}");
    assert!(answer.contains("<value>xmpp:alice@example.org?roster;preauth="), "{answer}");
    assert!(!answer.contains("ibr=y"), "users of this server cannot invite to an account: {answer}");
    assert!(answer.contains("<field var='expire'"), "{answer}");
    let token = token(&answer);
    let ask = |from: &str| {
        format!(
            "<presence type='subscribe' from='{from}' to='alice@example.org'>\
             <preauth xmlns='urn:xmpp:pars:0' token='{token}'/></presence>"
        )
    };
    world.arrive(&ask("carol@elsewhere.org"));
    let sent = world.sent_abroad().join("\n");
    assert!(sent.contains("type='subscribed'") && sent.contains("type='subscribe'"), "{sent}");
    let heard = world.hear(alice).join("\n");
    assert!(heard.contains("jid='carol@elsewhere.org' subscription='from' ask='subscribe'"), "{heard}");
    world.arrive("<presence type='subscribed' from='carol@elsewhere.org' to='alice@example.org'/>");
    assert!(world.hear(alice).join("").contains("subscription='both'"));
    // It was good once.
    world.arrive(&ask("eve@elsewhere.org"));
    assert!(world.sent_abroad().iter().all(|sent| !sent.contains("subscribed")));
    assert!(world.hear(alice).join("").contains("type='subscribe'"), "the user decides");
}

/// XEP-0401 §5: "the server SHOULD provide the landing-url field".
#[test]
fn an_invitation_names_its_page() {
    let mut world = world(|settings| settings.invitations.pages = Some("https://chat.example.org/".into()));
    let alice = world.sign_in("alice@example.org/desk");
    let answer = command(&mut world, alice, "invite", "");
    let page = format!(
        "<field var='landing-url' type='text-single'><value>https://chat.example.org/invite/{}</value></field>",
        token(&answer)
    );
    assert!(answer.contains(&page), "{answer}");
}

#[test]
fn an_invitation_is_of_one_inviter_and_for_a_while() {
    let mut world = world(|_| {});
    let alice = world.sign_in("alice@example.org/desk");
    let bob = world.sign_in("bob@example.org/desk");
    for client in [alice, bob] {
        world.say(client, "<presence/>");
    }
    let token = token(&command(&mut world, alice, "invite", ""));
    let ask = |to: &str| {
        format!(
            "<presence type='subscribe' from='carol@elsewhere.org' to='{to}'>\
             <preauth xmlns='urn:xmpp:pars:0' token='{token}'/></presence>"
        )
    };
    world.arrive(&ask("bob@example.org"));
    world.now = START + Duration::from_secs(1_000);
    world.arrive(&ask("alice@example.org"));
    assert!(world.sent_abroad().iter().all(|sent| !sent.contains("subscribed")));
    assert_eq!(world.store.accounts.invitations.len(), 1, "nor is it used up");
}

#[test]
fn an_administrator_makes_an_invitation_to_an_account() {
    let mut world = world(|_| {});
    let admin = world.sign_in("admin@example.org/desk");
    let alice = world.sign_in("alice@example.org/desk");
    assert!(command(&mut world, alice, "create-account", "").contains("<forbidden"));
    let answer = command(&mut world, admin, "create-account", "");
    assert!(answer.contains("status='executing'") && answer.contains("var='username'"), "{answer}");
    let form = |name: &str, contact: bool| {
        format!(
            "<x xmlns='jabber:x:data' type='submit'><field var='username'><value>{name}</value></field>\
             <field var='roster-subscription'><value>{contact}</value></field></x>"
        )
    };
    let answer = command(&mut world, admin, "create-account", &form("carol", true));
    assert!(answer.contains("<value>xmpp:carol@example.org?register;preauth="), "{answer}");
    let invitation = world.store.accounts.invitations.remove(&*token(&answer)).unwrap();
    assert_eq!((invitation.name.as_deref(), invitation.registers), (Some("carol"), true));
    assert_eq!(invitation.inviter.unwrap().as_str(), "admin@example.org");
    let answer = command(&mut world, admin, "create-account", &form("", false));
    assert!(answer.contains("<value>xmpp:example.org?register;preauth="), "{answer}");
    assert!(command(&mut world, admin, "create-account", &form("bob", false)).contains("<conflict"));
    assert!(command(&mut world, admin, "create-account", &form("b b", false)).contains("<jid-malformed"));
    let answer = command(&mut world, admin, "invite", "");
    assert!(answer.contains("?roster;preauth=") && answer.contains(";ibr=y"), "{answer}");
    let items =
        "<query xmlns='http://jabber.org/protocol/disco#items' node='http://jabber.org/protocol/commands'/>";
    let answer = ask(&mut world, alice, "get", "example.org", items);
    assert!(answer.contains("urn:xmpp:invite#invite") && !answer.contains("#create-account"), "{answer}");
}

#[test]
fn an_invited_user_is_a_contact_at_once() {
    let mut world = world(|_| {});
    let alice = world.sign_in("alice@example.org/desk");
    world.say(alice, "<iq type='get' id='r'><query xmlns='jabber:iq:roster'/></iq>");
    world.say(alice, "<presence/>");
    world.hear(alice);
    let [one, other] = [USERS[0], USERS[1]].map(|user| Bare::parse(user).unwrap());
    world.tell(|host, now, out| host.befriend_both(now, &other, &one, out));
    let heard = world.hear(alice).join("\n");
    assert!(heard.contains("jid='bob@example.org' subscription='both'"), "{heard}");
    let bob = world.sign_in("bob@example.org/desk");
    world.say(bob, "<presence/>");
    assert!(world.hear(alice).join("").contains("from='bob@example.org/desk'"));
    assert!(world.hear(bob).join("").contains("from='alice@example.org/desk'"));
}
