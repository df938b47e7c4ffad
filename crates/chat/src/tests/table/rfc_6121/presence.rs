//! RFC 6121 §4: exchanging presence information.

use super::*;

const FROM: &str = "dave@x.org";

const GONE: &str = "<presence type='unavailable'><status>bye</status></presence>";

fn probe(to: &str) -> String {
    format!("<presence type='probe' from='carol@x.org/1' to='{to}'/>")
}

/// One contact for each kind of subscription, and one that has none.
fn contacts(row: Row) -> Row {
    let row = row.contact(CAROL, "both").contact(FROM, "from").contact("eve@x.org", "to");
    row.contact("none@x.org", "none+out")
}

#[test]
fn becoming_available() {
    check(&[
        contacts(row(
            "4.2.2",
            "initial presence goes to contacts that are subscribed and own resources; and probes (§4.3.1)",
        ))
        .away()
        .when("desk", "<presence><show>away</show><priority>1</priority></presence>")
        .comes(&[
            "desk: available alice/desk [show away, priority 1]",
            "x: available alice/desk > carol@x.org [show away, priority 1]",
            "x: available alice/desk > dave@x.org [show away, priority 1]",
            "x: probe alice/desk > carol@x.org",
            "x: probe alice/desk > eve@x.org",
        ]),
        row("4.2.2", "the new resource gets the presence of the others")
            .when("phone", "<presence><show>xa</show></presence>")
            .comes(&[
                "desk: available alice/phone [show xa]",
                "phone: available alice/desk",
                "phone: available alice/phone [show xa]",
            ]),
        row("4.2.3", "a contact's presence comes to all available resources, whatever their priority")
            .contact(CAROL, "to")
            .after("phone", "<presence><priority>-1</priority></presence>")
            .when("x", "<presence from='carol@x.org/1' to='alice@example.org'><show>dnd</show></presence>")
            .comes(&[
                "desk: available carol@x.org/1 > alice [show dnd]",
                "phone: available carol@x.org/1 > alice [show dnd]",
            ]),
        row("4.2.3", "and to none that is not available")
            .contact(CAROL, "to")
            .after("phone", ROSTER)
            .when("x", "<presence from='carol@x.org/1' to='alice@example.org'/>")
            .comes(&["desk: available carol@x.org/1 > alice"]),
        row("4.4.2", "later presence goes to the same, without probes")
            .contact(CAROL, "both")
            .contact(FROM, "from")
            .contact("eve@x.org", "to")
            .after("phone", "<presence/>")
            .when("desk", "<presence><show>dnd</show></presence>")
            .comes(&[
                "desk: available alice/desk [show dnd]",
                "phone: available alice/desk [show dnd]",
                "x: available alice/desk > carol@x.org [show dnd]",
                "x: available alice/desk > dave@x.org [show dnd]",
            ]),
        test(
            "4.7.2.3",
            "a priority is an integer from -128 to 127",
            "chat/src/tests/presence.rs::presence_that_cannot_be_is_refused",
        ),
        row("4.7.1", "an unknown type is refused by `bad-request`")
            .when("desk", "<presence type='invisible'/>")
            .comes(&["desk: presence error > alice/desk bad-request"]),
    ]);
}

#[test]
fn probes() {
    check(&[
        row("4.3.2", "a subscribed contact gets each resource's presence; the probe stops here")
            .contact(CAROL, "from")
            .after("phone", "<presence><show>away</show></presence>")
            .when("x", probe("alice@example.org"))
            .comes(&[
                "x: available alice/desk > carol@x.org/1",
                "x: available alice/phone > carol@x.org/1 [show away]",
            ]),
        row("4.3.2", "the presence is the last one, whole")
            .contact(CAROL, "from")
            .after("desk", "<presence><show>xa</show><status>out</status><x xmlns='urn:x'/></presence>")
            .when("x", probe("alice@example.org"))
            .comes(&["x: available alice/desk > carol@x.org/1 [show xa, status out, x]"]),
        row("4.3.2", "without an available resource: unavailable, since when, and the last status")
            .contact(CAROL, "both")
            .after("desk", GONE)
            .when("x", probe("alice@example.org"))
            .comes(&["x: unavailable alice > carol@x.org/1 [status bye, delay from=alice stamp=3s]"]),
        row("4.3.2", "a contact that is not subscribed gets `unsubscribed`")
            .contact(CAROL, "to")
            .when("x", probe("alice@example.org"))
            .comes(&["x: unsubscribed alice > carol@x.org/1"]),
        row("4.3.2", "and so does a stranger")
            .when("x", probe("alice@example.org"))
            .comes(&["x: unsubscribed alice > carol@x.org/1"]),
        row("4.3.2", "and one that asks for an account that is not there")
            .when("x", probe("ghost@example.org"))
            .comes(&["x: unsubscribed ghost > carol@x.org/1"]),
        row("4.3.2", "which has not moved: neither `gone` nor `redirect`")
            .when("x", probe("gone@example.org"))
            .comes(&["x: unsubscribed gone > carol@x.org/1"]),
        row("4.3.2", "a probe of a full address is answered for that resource")
            .contact(CAROL, "from")
            .after("phone", "<presence/>")
            .when("x", probe("alice@example.org/phone"))
            .comes(&["x: available alice/phone > carol@x.org/1"]),
        row("4.6.4", "a receiver of directed presence may probe that resource")
            .after("desk", "<presence to='carol@x.org/1'/>")
            .when("x", probe("alice@example.org"))
            .comes(&["x: available alice/desk > carol@x.org/1"]),
    ]);
}

#[test]
fn becoming_unavailable() {
    check(&[
        contacts(row("4.5.2", "unavailable presence goes to subscribed contacts and to all resources"))
            .after("phone", "<presence/>")
            .when("desk", GONE)
            .comes(&[
                "desk: unavailable alice/desk [status bye]",
                "phone: unavailable alice/desk [status bye]",
                "x: unavailable alice/desk > carol@x.org [status bye]",
                "x: unavailable alice/desk > dave@x.org [status bye]",
            ]),
        row("4.5.2", "an end of the stream without it is told as unavailable presence by the server")
            .contact(CAROL, "both")
            .after("phone", "<presence/>")
            .when("desk", END)
            .comes(&["phone: unavailable alice/desk", "x: unavailable alice/desk > carol@x.org"]),
        row("4.5.2", "but not a second time")
            .contact(CAROL, "both")
            .after("phone", "<presence/>")
            .after("desk", GONE)
            .when("desk", END)
            .comes(&[]),
        row("4.5.3", "a contact's unavailable presence comes to all available resources")
            .contact(CAROL, "to")
            .after("phone", "<presence/>")
            .when("x", "<presence type='unavailable' from='carol@x.org/1' to='alice@example.org'/>")
            .comes(&["desk: unavailable carol@x.org/1 > alice", "phone: unavailable carol@x.org/1 > alice"]),
        row("4.5.2", "a resource that is not available any more gets no presence")
            .contact(CAROL, "to")
            .after("desk", GONE)
            .when("x", "<presence from='carol@x.org/1' to='alice@example.org'/>")
            .comes(&[]),
    ]);
}

#[test]
fn directed() {
    check(&[
        row("4.6.3", "directed presence is routed as it is, though the resource is not available")
            .when("phone", "<presence to='carol@x.org/1'><show>chat</show></presence>")
            .comes(&["x: available alice/phone > carol@x.org/1 [show chat]"]),
        row("4.6.3", "its receivers get no later presence")
            .after("desk", "<presence to='carol@x.org/1'/>")
            .when("desk", "<presence><show>away</show></presence>")
            .comes(&["desk: available alice/desk [show away]"]),
        row("4.6.3", "but the end: unavailable presence goes to them too")
            .after("desk", "<presence to='carol@x.org/1'/>")
            .when("desk", GONE)
            .comes(&[
                "desk: unavailable alice/desk [status bye]",
                "x: unavailable alice/desk > carol@x.org/1 [status bye]",
            ]),
        row("4.6.3", "and the end of the stream")
            .after("desk", "<presence to='carol@x.org/1'/>")
            .when("desk", END)
            .comes(&["x: unavailable alice/desk > carol@x.org/1"]),
        row("4.6.3", "not after directed unavailable presence")
            .after("desk", "<presence to='carol@x.org/1'/>")
            .after("desk", "<presence type='unavailable' to='carol@x.org/1'/>")
            .when("desk", END)
            .comes(&[]),
        row("4.6.3", "a contact that is subscribed gets the end once")
            .contact(CAROL, "from")
            .after("desk", "<presence to='carol@x.org'/>")
            .when("desk", GONE)
            .comes(&[
                "desk: unavailable alice/desk [status bye]",
                "x: unavailable alice/desk > carol@x.org [status bye]",
            ]),
        row("4.6.5", "a stranger's presence comes to all available resources")
            .after("phone", "<presence/>")
            .when("x", "<presence from='carol@x.org/1' to='alice@example.org'/>")
            .comes(&["desk: available carol@x.org/1 > alice", "phone: available carol@x.org/1 > alice"]),
        row("4.6.5", "or to the resource that it is for")
            .after("phone", "<presence/>")
            .when("x", "<presence from='carol@x.org/1' to='alice@example.org/phone'/>")
            .comes(&["phone: available carol@x.org/1 > alice/phone"]),
    ]);
}
