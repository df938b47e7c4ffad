//! RFC 6121 §5: exchanging messages.

use super::*;

fn message(kind: &str, to: &str) -> String {
    format!("<message{kind} from='carol@x.org/1' to='{to}'><body>hi</body></message>")
}

#[test]
fn sending() {
    check(&[
        row("5.2.1", "a message without an address is for the sender's own account")
            .when("desk", "<message type='chat'><body>hi</body></message>")
            .comes(&["desk: chat alice/desk > alice [body hi, #1 at alice]"]),
        row("5.2.1", "a message for another server is routed from the full address, its `to` as it is")
            .when("desk", "<message type='chat' to='carol@x.org/1'><body>hi</body></message>")
            .comes(&["x: chat alice/desk > carol@x.org/1 [body hi]"]),
        row("5.2.2", "a message without a type is normal")
            .when("x", message("", "alice@example.org"))
            .comes(&["desk: message carol@x.org/1 > alice [body hi, #1 at alice]"]),
        row("5.2.2", "a type that is not known is as normal: for an absent resource it comes back")
            .when("x", message(" type='loud'", "alice@example.org/gone"))
            .comes(&["x: message error alice/gone > carol@x.org/1 service-unavailable"]),
        row("5.2.2", "and for the account it is delivered")
            .when("x", message(" type='loud'", "alice@example.org"))
            .comes(&["desk: loud carol@x.org/1 > alice [body hi, #1 at alice]"]),
        row("5.2.3", "bodies in several languages are delivered as they are")
            .when(
                "x",
                "<message from='carol@x.org/1' to='alice@example.org'><body>hi</body>\
                 <body xml:lang='cs'>ahoj</body></message>",
            )
            .comes(&["desk: message carol@x.org/1 > alice [body hi, body lang=cs ahoj, #1 at alice]"]),
        row("5.2.4", "subjects and threads too (§5.2.5), and content that is not known (§5.3)")
            .when(
                "x",
                "<message from='carol@x.org/1' to='alice@example.org'><subject>s</subject>\
                 <body>hi</body><thread parent='p'>t</thread>\
                 <x xmlns='urn:x'><y/></x></message>",
            )
            .comes(&[
                "desk: message carol@x.org/1 > alice [subject s, body hi, thread parent=p t, x [y], #1 at alice]",
            ]),
        row("5.2.1", "between accounts of this server")
            .when("bob", "<message type='chat' to='alice@example.org/desk'><body>hi</body></message>")
            .comes(&["desk: chat bob/home > alice/desk [body hi, #1 at alice]"]),
    ]);
}
