//! RFC 6121 §8: the server's rules for stanzas by their address and kind.

use super::*;

const PING: &str = "<ping xmlns='urn:xmpp:ping'/>";

fn message(kind: &str, to: &str) -> String {
    format!("<message type='{kind}' from='carol@x.org/1' to='{to}'><body>hi</body></message>")
}

fn iq(kind: &str, to: &str, payload: &str) -> String {
    format!("<iq type='{kind}' id='q' from='carol@x.org/1' to='{to}'>{payload}</iq>")
}

fn presence(to: &str) -> String {
    format!("<presence from='carol@x.org/1' to='{to}'/>")
}

const UNKNOWN: &str = "<query xmlns='urn:x'/>";

#[test]
fn addresses() {
    check(&[
        row("8.2", "presence without an address is for all that are subscribed")
            .contact(CAROL, "from")
            .when("desk", "<presence/>")
            .comes(&["desk: available alice/desk", "x: available alice/desk > carol@x.org"]),
        row("8.2", "a question without one is the account's: the server answers")
            .when("desk", format!("<iq type='get' id='q'>{PING}</iq>"))
            .comes(&["desk: result > alice/desk"]),
        row("8.3", "stanzas for another domain are routed there")
            .when("desk", format!("<iq type='get' id='q' to='x.org'>{PING}</iq>"))
            .comes(&["x: get alice/desk > x.org [ping]"]),
        row("8.4", "a question for the domain is answered by the server")
            .when("x", iq("get", "example.org", PING))
            .comes(&["x: result example.org > carol@x.org/1"]),
        row("8.4", "a message for the domain is refused, as the server handles none")
            .when("x", message("chat", "example.org"))
            .comes(&["x: message error example.org > carol@x.org/1 service-unavailable"]),
        row("8.4", "presence for the domain is ignored").when("x", presence("example.org")).comes(&[]),
        row("8.5.1", "no such account: a message is ignored or `service-unavailable`")
            .when("x", message("chat", "ghost@example.org"))
            .comes(&["x: message error ghost > carol@x.org/1 service-unavailable"]),
        row("8.5.1", "an error for it is ignored")
            .when("x", message("error", "ghost@example.org"))
            .comes(&[]),
        row("8.5.1", "presence is ignored").when("x", presence("ghost@example.org")).comes(&[]),
        row("8.5.1", "a subscription request is ignored")
            .when("x", "<presence type='subscribe' from='carol@x.org' to='ghost@example.org/1'/>")
            .comes(&[]),
        row("8.5.1", "a question is `service-unavailable`")
            .when("x", iq("get", "ghost@example.org", PING))
            .comes(&["x: iq error ghost > carol@x.org/1 service-unavailable"]),
        row("8.5.1", "with a resource too")
            .when("x", iq("get", "ghost@example.org/1", PING))
            .comes(&["x: iq error ghost/1 > carol@x.org/1 service-unavailable"]),
        row("8.5.1", "an answer is ignored").when("x", iq("result", "ghost@example.org", "")).comes(&[]),
    ]);
}

#[test]
fn the_account() {
    const TO: &str = "alice@example.org";
    check(&[
        row("8.5.2.1.1", "each resource of a priority that is not negative, `to` as it was")
            .after("phone", "<presence><priority>5</priority></presence>")
            .when("x", message("chat", TO))
            .comes(&[
                "desk: chat carol@x.org/1 > alice [body hi, #1 at alice]",
                "phone: chat carol@x.org/1 > alice [body hi, #1 at alice]",
            ]),
        row("8.5.2.1.1", "not to one of a negative priority")
            .after("phone", "<presence><priority>-1</priority></presence>")
            .when("x", message("chat", TO))
            .comes(&["desk: chat carol@x.org/1 > alice [body hi, #1 at alice]"]),
        row("8.5.2.1.1", "not to one that is not available")
            .after("phone", ROSTER)
            .when("x", message("normal", TO))
            .comes(&["desk: normal carol@x.org/1 > alice [body hi, #1 at alice]"]),
        row("8.5.2.1.1", "a headline comes to all of them")
            .after("phone", "<presence/>")
            .when("x", message("headline", TO))
            .comes(&[
                "desk: headline carol@x.org/1 > alice [body hi]",
                "phone: headline carol@x.org/1 > alice [body hi]",
            ]),
        row("8.5.2.1.1", "groupchat is refused by `service-unavailable`")
            .when("x", message("groupchat", TO))
            .comes(&["x: message error alice > carol@x.org/1 service-unavailable"]),
        row("8.5.2.1.1", "an error is ignored").when("x", message("error", TO)).comes(&[]),
        row("8.5.2.1.2", "presence comes to all available resources")
            .after("phone", "<presence><priority>-1</priority></presence>")
            .when("x", presence(TO))
            .comes(&["desk: available carol@x.org/1 > alice", "phone: available carol@x.org/1 > alice"]),
        row("8.5.2.1.3", "a question is answered by the server, not by a resource")
            .when("x", iq("get", TO, UNKNOWN))
            .comes(&["x: iq error alice > carol@x.org/1 service-unavailable"]),
        row("8.5.2.1.3", "an answer comes to none").when("x", iq("result", TO, "")).comes(&[]),
    ]);
}

#[test]
fn an_account_without_an_available_resource() {
    const TO: &str = "alice@example.org";
    check(&[
        row("8.5.2.2.1", "without an available resource chat is kept, and comes with initial presence")
            .away()
            .after("x", message("chat", TO))
            .when("desk", "<presence/>")
            .comes(&[
                "desk: available alice/desk",
                "desk: chat carol@x.org/1 > alice [body hi, #1 at alice, delay from=example.org stamp=1s]",
            ]),
        row("8.5.2.2.1", "and a normal message; the sender learns nothing of it")
            .away()
            .when("x", message("normal", TO))
            .when("desk", "<presence/>")
            .comes(&[
                "desk: available alice/desk",
                "desk: normal carol@x.org/1 > alice [body hi, #1 at alice, delay from=example.org stamp=1s]",
            ]),
        row("8.5.2.2.1", "groupchat is refused")
            .away()
            .when("x", message("groupchat", TO))
            .comes(&["x: message error alice > carol@x.org/1 service-unavailable"]),
        row("8.5.2.2.1", "a headline is ignored")
            .away()
            .when("x", message("headline", TO))
            .when("desk", "<presence/>")
            .comes(&["desk: available alice/desk"]),
        row("8.5.2.2.1", "what is not kept is refused: an extension without text")
            .away()
            .when(
                "x",
                format!("<message from='carol@x.org/1' to='{TO}' type='chat'><geoloc xmlns='urn:x'/></message>"),
            )
            .comes(&["x: message error alice > carol@x.org/1 service-unavailable"]),
        row("8.5.2.2.1", "but for signals of the moment, and what its sender says may be lost")
            .away()
            .after(
                "x",
                format!(
                    "<message from='carol@x.org/1' to='{TO}' type='chat'>\
                     <composing xmlns='http://jabber.org/protocol/chatstates'/><thread>t</thread></message>"
                ),
            )
            .when(
                "x",
                format!(
                    "<message from='carol@x.org/1' to='{TO}'><x xmlns='urn:x'/><no-store xmlns='urn:xmpp:hints'/></message>"
                ),
            )
            .comes(&[]),
        row("8.5.2.2.1", "and an error").away().when("x", message("error", TO)).comes(&[]),
        row("8.5.2.2.2", "presence is ignored").away().when("x", presence(TO)).comes(&[]),
        row("8.5.2.2.3", "a question is answered by the server")
            .away()
            .when("x", iq("get", TO, UNKNOWN))
            .comes(&["x: iq error alice > carol@x.org/1 service-unavailable"]),
    ]);
}

#[test]
fn the_table_of_delivery() {
    check(&[
        test(
            "8.5.4",
            "the table: each kind of message",
            "chat/src/tests/delivery.rs::messages_go_where_the_table_says",
        ),
        test(
            "8.5.4",
            "with a resource of a negative priority",
            "chat/src/tests/offline.rs::messages_go_where_the_table_says",
        ),
        test(
            "8.5.4",
            "without an available resource",
            "chat/src/tests/offline.rs::only_messages_worth_keeping_are_kept",
        ),
        test(
            "8.5.4",
            "questions and presence",
            "chat/src/tests/delivery.rs::questions_and_presence_go_where_the_table_says",
        ),
    ]);
}

#[test]
fn a_resource() {
    const TO: &str = "alice@example.org/phone";
    check(&[
        row("8.5.3.1", "a message comes to the resource that it is for, and to no other")
            .after("phone", "<presence><priority>-1</priority></presence>")
            .when("x", message("chat", TO))
            .comes(&["phone: chat carol@x.org/1 > alice/phone [body hi, #1 at alice]"]),
        row("8.5.3.1", "also when it is connected and not available")
            .after("phone", ROSTER)
            .when("x", message("groupchat", TO))
            .comes(&["phone: groupchat carol@x.org/1 > alice/phone [body hi]"]),
        row("8.5.3.1", "an error too")
            .after("phone", "<presence/>")
            .when("x", message("error", TO))
            .comes(&["phone: message error carol@x.org/1 > alice/phone [body hi]"]),
        row("8.5.3.1", "a question")
            .after("phone", "<presence/>")
            .when("x", iq("get", TO, UNKNOWN))
            .comes(&["phone: get carol@x.org/1 > alice/phone [query]"]),
        row("8.5.3.1", "an answer")
            .after("phone", "<presence/>")
            .when("x", iq("result", TO, ""))
            .comes(&["phone: result carol@x.org/1 > alice/phone"]),
        row("8.5.3.2.1", "chat for an absent resource is as if it were for the account")
            .when("x", message("chat", TO))
            .comes(&["desk: chat carol@x.org/1 > alice/phone [body hi, #1 at alice]"]),
        row("8.5.3.2.1", "normal: ignored or `service-unavailable`")
            .when("x", message("normal", TO))
            .comes(&["x: message error alice/phone > carol@x.org/1 service-unavailable"]),
        row("8.5.3.2.1", "groupchat")
            .when("x", message("groupchat", TO))
            .comes(&["x: message error alice/phone > carol@x.org/1 service-unavailable"]),
        row("8.5.3.2.1", "a headline").when("x", message("headline", TO)).comes(&[]),
        row("8.5.3.2.1", "an error is ignored").when("x", message("error", TO)).comes(&[]),
        row("8.5.3.2.2", "presence is ignored").when("x", presence(TO)).comes(&[]),
        row("8.5.3.2.3", "a question is `service-unavailable`")
            .when("x", iq("get", TO, UNKNOWN))
            .comes(&["x: iq error alice/phone > carol@x.org/1 service-unavailable"]),
        row("8.5.3.2.3", "an answer is ignored").when("x", iq("result", TO, "")).comes(&[]),
    ]);
}
