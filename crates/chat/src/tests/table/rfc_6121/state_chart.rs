//! RFC 6121 Appendix A: each stanza in each state of a subscription, with the outgoing stanza, the stanza to
//! the user, and the push.

use super::*;

/// Each state of Appendix A.1, and all that comes in it.
type Chart = [(&'static str, &'static [&'static str]); 9];

fn chart(section: &'static str, client: &'static str, xml: &str, cells: Chart) {
    let row = |(state, comes)| row(section, state).contact(CAROL, state).when(client, xml).comes(comes);
    check(&cells.map(row));
}

#[test]
fn outbound_subscribe() {
    chart(
        "A.2.1",
        "desk",
        &to_carol("subscribe"),
        [
            (
                "none",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none ask=subscribe]]",
                    "x: subscribe alice > carol@x.org",
                ],
            ),
            ("none+out", &["x: subscribe alice > carol@x.org"]),
            (
                "none+in",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none ask=subscribe]]",
                    "x: subscribe alice > carol@x.org",
                ],
            ),
            ("none+out+in", &["x: subscribe alice > carol@x.org"]),
            ("to", &["x: subscribe alice > carol@x.org"]),
            ("to+in", &["x: subscribe alice > carol@x.org"]),
            (
                "from",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org from ask=subscribe]]",
                    "x: subscribe alice > carol@x.org",
                ],
            ),
            ("from+out", &["x: subscribe alice > carol@x.org"]),
            ("both", &["x: subscribe alice > carol@x.org"]),
        ],
    );
}

#[test]
fn outbound_unsubscribe() {
    chart(
        "A.2.2",
        "desk",
        &to_carol("unsubscribe"),
        [
            ("none", &["x: unsubscribe alice > carol@x.org"]),
            (
                "none+out",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                    "x: unsubscribe alice > carol@x.org",
                ],
            ),
            ("none+in", &["x: unsubscribe alice > carol@x.org"]),
            (
                "none+out+in",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                    "x: unsubscribe alice > carol@x.org",
                ],
            ),
            (
                "to",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                    "x: unsubscribe alice > carol@x.org",
                ],
            ),
            (
                "to+in",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                    "x: unsubscribe alice > carol@x.org",
                ],
            ),
            ("from", &["x: unsubscribe alice > carol@x.org"]),
            (
                "from+out",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org from]]",
                    "x: unsubscribe alice > carol@x.org",
                ],
            ),
            (
                "both",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org from]]",
                    "x: unsubscribe alice > carol@x.org",
                ],
            ),
        ],
    );
}

#[test]
fn outbound_subscribed() {
    chart(
        "A.2.3",
        "desk",
        &to_carol("subscribed"),
        [
            ("none", &["desk: set > alice/desk [roster ver=1 [carol@x.org none approved=true]]"]),
            (
                "none+out",
                &["desk: set > alice/desk [roster ver=1 [carol@x.org none ask=subscribe approved=true]]"],
            ),
            (
                "none+in",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org from]]",
                    "x: subscribed alice > carol@x.org",
                    "x: available alice/desk > carol@x.org",
                ],
            ),
            (
                "none+out+in",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org from ask=subscribe]]",
                    "x: subscribed alice > carol@x.org",
                    "x: available alice/desk > carol@x.org",
                ],
            ),
            ("to", &["desk: set > alice/desk [roster ver=1 [carol@x.org to approved=true]]"]),
            (
                "to+in",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org both]]",
                    "x: subscribed alice > carol@x.org",
                    "x: available alice/desk > carol@x.org",
                ],
            ),
            ("from", &[]),
            ("from+out", &[]),
            ("both", &[]),
        ],
    );
}

#[test]
fn outbound_unsubscribed() {
    chart(
        "A.2.4",
        "desk",
        &to_carol("unsubscribed"),
        [
            ("none", &[]),
            ("none+out", &[]),
            ("none+in", &["x: unsubscribed alice > carol@x.org"]),
            ("none+out+in", &["x: unsubscribed alice > carol@x.org"]),
            ("to", &[]),
            ("to+in", &["x: unsubscribed alice > carol@x.org"]),
            (
                "from",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                    "x: unsubscribed alice > carol@x.org",
                    "x: unavailable alice/desk > carol@x.org",
                ],
            ),
            (
                "from+out",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none ask=subscribe]]",
                    "x: unsubscribed alice > carol@x.org",
                    "x: unavailable alice/desk > carol@x.org",
                ],
            ),
            (
                "both",
                &[
                    "desk: set > alice/desk [roster ver=1 [carol@x.org to]]",
                    "x: unsubscribed alice > carol@x.org",
                    "x: unavailable alice/desk > carol@x.org",
                ],
            ),
        ],
    );
}

#[test]
fn inbound_subscribe() {
    chart(
        "A.3.1",
        "x",
        &from_carol("subscribe"),
        [
            ("none", &["desk: subscribe carol@x.org > alice"]),
            ("none+out", &["desk: subscribe carol@x.org > alice"]),
            ("none+in", &[]),
            ("none+out+in", &[]),
            ("to", &["desk: subscribe carol@x.org > alice"]),
            ("to+in", &[]),
            ("from", &["x: subscribed alice > carol@x.org", "x: available alice/desk > carol@x.org"]),
            ("from+out", &["x: subscribed alice > carol@x.org", "x: available alice/desk > carol@x.org"]),
            ("both", &["x: subscribed alice > carol@x.org", "x: available alice/desk > carol@x.org"]),
        ],
    );
}

#[test]
fn inbound_unsubscribe() {
    chart(
        "A.3.2",
        "x",
        &from_carol("unsubscribe"),
        [
            ("none", &[]),
            ("none+out", &[]),
            ("none+in", &["desk: unsubscribe carol@x.org > alice"]),
            ("none+out+in", &["desk: unsubscribe carol@x.org > alice"]),
            ("to", &[]),
            ("to+in", &["desk: unsubscribe carol@x.org > alice"]),
            (
                "from",
                &[
                    "desk: unsubscribe carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                    "x: unavailable alice/desk > carol@x.org",
                ],
            ),
            (
                "from+out",
                &[
                    "desk: unsubscribe carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none ask=subscribe]]",
                    "x: unavailable alice/desk > carol@x.org",
                ],
            ),
            (
                "both",
                &[
                    "desk: unsubscribe carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org to]]",
                    "x: unavailable alice/desk > carol@x.org",
                ],
            ),
        ],
    );
}

#[test]
fn inbound_subscribed() {
    chart(
        "A.3.3",
        "x",
        &from_carol("subscribed"),
        [
            ("none", &[]),
            (
                "none+out",
                &[
                    "desk: subscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org to]]",
                ],
            ),
            ("none+in", &[]),
            (
                "none+out+in",
                &[
                    "desk: subscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org to]]",
                ],
            ),
            ("to", &[]),
            ("to+in", &[]),
            ("from", &[]),
            (
                "from+out",
                &[
                    "desk: subscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org both]]",
                ],
            ),
            ("both", &[]),
        ],
    );
}

#[test]
fn inbound_unsubscribed() {
    chart(
        "A.3.4",
        "x",
        &from_carol("unsubscribed"),
        [
            ("none", &[]),
            (
                "none+out",
                &[
                    "desk: unsubscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                ],
            ),
            ("none+in", &[]),
            (
                "none+out+in",
                &[
                    "desk: unsubscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                ],
            ),
            (
                "to",
                &[
                    "desk: unsubscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                ],
            ),
            (
                "to+in",
                &[
                    "desk: unsubscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org none]]",
                ],
            ),
            ("from", &[]),
            (
                "from+out",
                &[
                    "desk: unsubscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org from]]",
                ],
            ),
            (
                "both",
                &[
                    "desk: unsubscribed carol@x.org > alice",
                    "desk: set > alice/desk [roster ver=1 [carol@x.org from]]",
                ],
            ),
        ],
    );
}
