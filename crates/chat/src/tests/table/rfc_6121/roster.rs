//! RFC 6121 §2: managing the roster.

use super::*;

const ITEM: &str = "<item jid='carol@x.org' name='Carol'><group>Friends</group></item>";

const REMOVE: &str = "<item jid='carol@x.org' subscription='remove'/>";

fn versioned(ver: &str) -> String {
    format!("<iq type='get' id='r'><query xmlns='jabber:iq:roster' ver='{ver}'/></iq>")
}

#[test]
fn getting() {
    check(&[
        row("2.1.3", "a roster get is answered by the roster, each contact an item")
            .contact(CAROL, "both")
            .contact("dave@x.org", "none+out")
            .when("desk", ROSTER)
            .comes(&["desk: result > alice/desk [roster [carol@x.org both, dave@x.org none ask=subscribe]]"]),
        row("2.1.3", "an account without contacts has an empty query")
            .when("desk", ROSTER)
            .comes(&["desk: result > alice/desk [roster]"]),
        row("2.1.2.1", "`approved` tells of an approval before the request")
            .contact(CAROL, "none+approved")
            .when("desk", ROSTER)
            .comes(&["desk: result > alice/desk [roster [carol@x.org none approved=true]]"]),
        row("3.1.3", "a contact that only asks for a subscription is not in the roster")
            .contact(CAROL, "none+in")
            .when("desk", ROSTER)
            .comes(&["desk: result > alice/desk [roster]"]),
        row("2.2", "a resource that has asked for the roster gets pushes though it is not available")
            .after("phone", ROSTER)
            .when("desk", roster_set(ITEM))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org none name=Carol [group Friends]]]",
                "desk: result > alice/desk",
                "phone: set > alice/phone [roster ver=1 [carol@x.org none name=Carol [group Friends]]]",
            ]),
        row("2.2", "a resource that has not asked for it gets none, available or not")
            .after("phone", "<presence/>")
            .when("desk", roster_set(ITEM))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org none name=Carol [group Friends]]]",
                "desk: result > alice/desk",
            ]),
        row("2.1.6", "the client's answer to a push ends there")
            .after("desk", roster_set(ITEM))
            .when("desk", "<iq type='result' id='p'/>")
            .when("desk", "<iq type='error' id='p' to='alice@example.org'/>")
            .comes(&[]),
    ]);
}

#[test]
fn setting() {
    check(&[
        test(
            "2.1.2",
            "`subscription`, `ask` and `approved` of a set are the server's and have no effect",
            "chat/src/tests/roster.rs::a_contact_is_stored_pushed_to_interested_clients_and_answered",
        ),
        row("2.3.2", "a new item is pushed to all interested resources and then answered by a result")
            .after("phone", ROSTER)
            .when("phone", roster_set(ITEM))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org none name=Carol [group Friends]]]",
                "phone: set > alice/phone [roster ver=1 [carol@x.org none name=Carol [group Friends]]]",
                "phone: result > alice/phone",
            ]),
        test(
            "2.3.2",
            "a push comes only once the item is stored",
            "chat/src/tests/roster.rs::nothing_is_said_before_it_is_written_and_the_next_one_waits",
        ),
        test(
            "2.3.3",
            "an error for each fault of a set",
            "chat/src/tests/roster.rs::invalid_contacts_are_refused",
        ),
        test(
            "2.3.3",
            "`forbidden` for a set of another account's roster",
            "chat/src/tests/roster.rs::a_roster_set_for_another_account_is_forbidden",
        ),
        row("2.4.2", "an update has a new name and groups, and leaves the subscription as it is")
            .contact(CAROL, "both")
            .when(
                "desk",
                roster_set("<item jid='carol@x.org' name='C' subscription='none'><group>Work</group></item>"),
            )
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org both name=C [group Work]]]",
                "desk: result > alice/desk",
            ]),
        row("2.4.1", "an update without a name and groups removes them")
            .after("desk", roster_set(ITEM))
            .when("desk", roster_set("<item jid='carol@x.org' name=''/>"))
            .comes(&[
                "desk: set > alice/desk [roster ver=2 [carol@x.org none]]",
                "desk: result > alice/desk",
            ]),
    ]);
}

#[test]
fn deleting() {
    check(&[
        row("2.5.2", "the item is pushed with `remove`; a contact with both subscriptions gets both ends")
            .contact(CAROL, "both")
            .after("phone", ROSTER)
            .when("desk", roster_set(REMOVE))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org remove]]",
                "desk: result > alice/desk",
                "phone: set > alice/phone [roster ver=1 [carol@x.org remove]]",
                "x: unsubscribe alice > carol@x.org",
                "x: unsubscribed alice > carol@x.org",
                "x: unavailable alice/desk > carol@x.org",
            ]),
        row("2.5.2", "of the user's subscription: `unsubscribe`")
            .contact(CAROL, "to")
            .when("desk", roster_set(REMOVE))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org remove]]",
                "desk: result > alice/desk",
                "x: unsubscribe alice > carol@x.org",
            ]),
        row("2.5.2", "of the contact's subscription: `unsubscribed`")
            .contact(CAROL, "from")
            .when("desk", roster_set(REMOVE))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org remove]]",
                "desk: result > alice/desk",
                "x: unsubscribed alice > carol@x.org",
                "x: unavailable alice/desk > carol@x.org",
            ]),
        row("2.5.2", "without a subscription the contact learns nothing")
            .contact(CAROL, "none")
            .when("desk", roster_set(REMOVE))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org remove]]",
                "desk: result > alice/desk",
            ]),
        row("2.5.3", "`item-not-found` for an item that is not there")
            .when("desk", roster_set(REMOVE))
            .comes(&["desk: iq error > alice/desk item-not-found"]),
        row("2.5.3", "and for a contact that only asks: it is in no roster")
            .contact(CAROL, "none+in")
            .when("desk", roster_set(REMOVE))
            .comes(&["desk: iq error > alice/desk item-not-found"]),
        test(
            "2.5.2",
            "first the push, then the result, then what goes to the contact",
            "chat/src/tests/roster.rs::a_removal_is_answered_before_the_contact_learns_of_it",
        ),
    ]);
}

#[test]
fn versions() {
    check(&[
        test(
            "2.6.1",
            "the feature `ver` is announced",
            "xmpp/src/c2s/tests.rs::roster_versions_and_approvals_are_announced",
        ),
        row("2.6.2", "without a version in the request there is none in the result")
            .after("desk", roster_set(ITEM))
            .when("desk", ROSTER)
            .comes(&[
                "desk: result > alice/desk [roster [carol@x.org none name=Carol [group Friends]]]",
            ]),
        row("2.6.2", "with an empty one the result is the roster and its version")
            .after("desk", roster_set(ITEM))
            .when("desk", versioned(""))
            .comes(&[
                "desk: result > alice/desk [roster ver=1 [carol@x.org none name=Carol [group Friends]]]",
            ]),
        row("2.6.3", "the current version is answered by an empty result")
            .after("desk", roster_set(ITEM))
            .when("desk", versioned("1"))
            .comes(&["desk: result > alice/desk"]),
        row("2.6.3", "an older one by the changes or the roster: here the roster")
            .after("desk", roster_set(ITEM))
            .after("desk", roster_set("<item jid='dave@x.org'/>"))
            .when("desk", versioned("1"))
            .comes(&[
                "desk: result > alice/desk [roster ver=2 [carol@x.org none name=Carol [group Friends], dave@x.org none]]",
            ]),
        row("2.6.3", "a version that the server never gave is answered by the roster")
            .after("desk", roster_set(ITEM))
            .when("desk", versioned("ver14"))
            .comes(&[
                "desk: result > alice/desk [roster ver=1 [carol@x.org none name=Carol [group Friends]]]",
            ]),
        row("2.6.3", "each push has a version of its own")
            .when("desk", roster_set(ITEM))
            .when("desk", roster_set(REMOVE))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org none name=Carol [group Friends]]]",
                "desk: result > alice/desk",
                "desk: set > alice/desk [roster ver=2 [carol@x.org remove]]",
                "desk: result > alice/desk",
            ]),
    ]);
}
