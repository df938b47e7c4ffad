//! RFC 6121 §3: presence subscriptions.

use super::*;

const GHOST: &str = "<presence type='subscribe' from='carol@x.org' to='ghost@example.org'/>";

#[test]
fn requesting() {
    check(&[
        row("3.1.2", "a request goes out from and to bare addresses, and is pushed as `ask`")
            .after("phone", ROSTER)
            .when(
                "desk",
                "<presence type='subscribe' to='carol@x.org/home' id='1'><status>hi</status></presence>",
            )
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org none ask=subscribe]]",
                "phone: set > alice/phone [roster ver=1 [carol@x.org none ask=subscribe]]",
                "x: subscribe alice > carol@x.org [status hi]",
            ]),
        row("3.1.2", "a request that waits for its answer is sent again without a push")
            .contact(CAROL, "none+out")
            .when("desk", to_carol("subscribe"))
            .comes(&["x: subscribe alice > carol@x.org"]),
        row("3.1.2", "the server does not send it again of its own accord")
            .contact(CAROL, "none+out")
            .away()
            .when("desk", "<presence/>")
            .comes(&["desk: available alice/desk"]),
    ]);
}

#[test]
fn being_asked() {
    check(&[
        row("3.1.3", "a request comes to all available resources, and no push with it")
            .after("phone", ROSTER)
            .when(
                "x",
                "<presence type='subscribe' from='carol@x.org/home' to='alice@example.org'>\
                 <status>hi</status><x xmlns='urn:x'/></presence>",
            )
            .comes(&["desk: subscribe carol@x.org > alice [status hi, x]"]),
        row("3.1.3", "no reply to a request that waits already")
            .after("x", from_carol("subscribe"))
            .when("x", from_carol("subscribe"))
            .comes(&[]),
        row(
            "3.1.3",
            "a request without an available resource is kept, and comes whole with initial presence",
        )
        .away()
        .after(
            "x",
            "<presence type='subscribe' from='carol@x.org' to='alice@example.org'>\
                 <status>hi</status><x xmlns='urn:x'/></presence>",
        )
        .when("desk", "<presence/>")
        .comes(&["desk: available alice/desk", "desk: subscribe carol@x.org > alice [status hi, x]"]),
        row("3.1.3", "each resource that becomes available gets it until it is answered")
            .after("x", from_carol("subscribe"))
            .when("phone", "<presence/>")
            .comes(&[
                "desk: available alice/phone",
                "phone: available alice/desk",
                "phone: available alice/phone",
                "phone: subscribe carol@x.org > alice",
            ]),
        row("3.1.3", "not after an answer")
            .after("x", from_carol("subscribe"))
            .after("desk", to_carol("unsubscribed"))
            .when("phone", "<presence/>")
            .comes(&[
                "desk: available alice/phone",
                "phone: available alice/desk",
                "phone: available alice/phone",
            ]),
        test(
            "3.1.3",
            "of several requests of one contact one is kept",
            "chat/src/tests/presence.rs::a_request_to_an_absent_user_waits_and_is_not_listed",
        ),
        row("3.1.3", "a contact that is subscribed already is answered by the server")
            .contact(CAROL, "from")
            .when("x", from_carol("subscribe"))
            .comes(&["x: subscribed alice > carol@x.org", "x: available alice/desk > carol@x.org"]),
        row("3.1.3", "an account that is not there").when("x", GHOST).comes(&[]),
    ]);
}

#[test]
fn answering() {
    check(&[
        row(
            "3.1.5",
            "an approval goes out from the bare address, is pushed, and each resource's presence follows",
        )
        .contact(CAROL, "none+in")
        .after("phone", "<presence><show>away</show></presence>")
        .when("desk", "<presence type='subscribed' to='carol@x.org/home'/>")
        .comes(&[
            "desk: set > alice/desk [roster ver=1 [carol@x.org from]]",
            "x: subscribed alice > carol@x.org",
            "x: available alice/desk > carol@x.org",
            "x: available alice/phone > carol@x.org [show away]",
        ]),
        row("3.1.6", "an approval comes to interested resources, then the push")
            .contact(CAROL, "none+out")
            .after("phone", "<presence/>")
            .when("x", from_carol("subscribed"))
            .comes(&[
                "desk: subscribed carol@x.org > alice",
                "desk: set > alice/desk [roster ver=1 [carol@x.org to]]",
            ]),
        row("3.1.6", "an approval that was not asked for is ignored")
            .when("x", from_carol("subscribed"))
            .comes(&[]),
        row("3.2.2", "a request is refused by `unsubscribed`; without presence, as the contact had none")
            .contact(CAROL, "none+in")
            .when("desk", to_carol("unsubscribed"))
            .comes(&["x: unsubscribed alice > carol@x.org"]),
        row("3.1.6", "both sides are of this server")
            .after("bob", ROSTER)
            .after("bob", "<presence/>")
            .after("desk", "<presence type='subscribe' to='bob@example.org'/>")
            .when("bob", "<presence type='subscribed' to='alice@example.org'/>")
            .comes(&[
                "desk: subscribed bob > alice",
                "desk: set > alice/desk [roster ver=2 [bob to]]",
                "desk: available bob/home > alice",
                "bob: set > bob/home [roster ver=1 [alice from]]",
            ]),
    ]);
}

#[test]
fn ending() {
    check(&[
        row("3.2.2", "a subscription is cancelled: `unsubscribed` and unavailable presence of each resource")
            .contact(CAROL, "both")
            .after("phone", "<presence/>")
            .when("desk", to_carol("unsubscribed"))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org to]]",
                "x: unsubscribed alice > carol@x.org",
                "x: unavailable alice/desk > carol@x.org",
                "x: unavailable alice/phone > carol@x.org",
            ]),
        row("3.2.2", "a cancellation of nothing goes nowhere")
            .when("desk", to_carol("unsubscribed"))
            .comes(&[]),
        row("3.2.3", "a cancellation comes to interested resources, then the push")
            .contact(CAROL, "both")
            .after("phone", "<presence/>")
            .when("x", from_carol("unsubscribed"))
            .comes(&[
                "desk: unsubscribed carol@x.org > alice",
                "desk: set > alice/desk [roster ver=1 [carol@x.org from]]",
            ]),
        row("3.2.3", "of a request that has no answer yet too")
            .contact(CAROL, "none+out")
            .when("x", from_carol("unsubscribed"))
            .comes(&[
                "desk: unsubscribed carol@x.org > alice",
                "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
            ]),
        row("3.2.3", "of no subscription it is ignored").when("x", from_carol("unsubscribed")).comes(&[]),
        row("3.3.2", "the user unsubscribes: the contact learns it, the push has what remains")
            .contact(CAROL, "both")
            .when("desk", "<presence type='unsubscribe' to='carol@x.org/home'/>")
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org from]]",
                "x: unsubscribe alice > carol@x.org",
            ]),
        row(
            "3.3.3",
            "the contact unsubscribes: it comes to interested resources; unavailable presence goes out",
        )
        .contact(CAROL, "both")
        .after("phone", "<presence/>")
        .when("x", from_carol("unsubscribe"))
        .comes(&[
            "desk: unsubscribe carol@x.org > alice",
            "desk: set > alice/desk [roster ver=1 [carol@x.org to]]",
            "x: unavailable alice/desk > carol@x.org",
            "x: unavailable alice/phone > carol@x.org",
        ]),
        row("3.3.3", "a request is taken back before it is answered")
            .contact(CAROL, "none+in")
            .when("x", from_carol("unsubscribe"))
            .comes(&["desk: unsubscribe carol@x.org > alice"]),
        row("3.3.3", "of no subscription it is ignored").when("x", from_carol("unsubscribe")).comes(&[]),
    ]);
}

#[test]
fn approving_before_the_request() {
    check(&[
        test(
            "3.4.1",
            "the feature `sub` is announced",
            "xmpp/src/c2s/tests.rs::roster_versions_and_approvals_are_announced",
        ),
        row("3.4.2", "it is pushed as `approved` and not routed; the contact need not be in the roster")
            .when("desk", to_carol("subscribed"))
            .comes(&["desk: set > alice/desk [roster ver=1 [carol@x.org none approved=true]]"]),
        row("3.4.2", "a contact in the state None")
            .contact(CAROL, "none")
            .when("desk", to_carol("subscribed"))
            .comes(&["desk: set > alice/desk [roster ver=1 [carol@x.org none approved=true]]"]),
        row("3.4.2", "To")
            .contact(CAROL, "to")
            .when("desk", to_carol("subscribed"))
            .comes(&["desk: set > alice/desk [roster ver=1 [carol@x.org to approved=true]]"]),
        row("3.4.2", "ignored in the state From")
            .contact(CAROL, "from")
            .when("desk", to_carol("subscribed"))
            .comes(&[]),
        row("3.4.2", "and Both").contact(CAROL, "both").when("desk", to_carol("subscribed")).comes(&[]),
        row("3.4.2", "an approval is taken back by `unsubscribed`, which is not routed")
            .contact(CAROL, "none+approved")
            .when("desk", to_carol("unsubscribed"))
            .comes(&["desk: set > alice/desk [roster ver=1 [carol@x.org none]]"]),
        row("3.4.2", "the request that then comes is answered by the server, pushed, and not delivered")
            .contact(CAROL, "to+approved")
            .when("x", from_carol("subscribe"))
            .comes(&[
                "desk: set > alice/desk [roster ver=1 [carol@x.org both approved=true]]",
                "x: subscribed alice > carol@x.org",
                "x: available alice/desk > carol@x.org",
            ]),
    ]);
}
