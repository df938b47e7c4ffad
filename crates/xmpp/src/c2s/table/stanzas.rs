//! RFC 6120 §8: stanzas, as far as the client's stream has to do with them.

use super::*;

#[test]
fn attributes() {
    play(vec![
        row("8.1.1.1", "a stanza without `to` is the host's to handle")
            .sent("<message id='m'><body>hi</body></message>")
            .passed(&["<message ", "id='m'", "! to="]),
        row("8.1.2.1", "the server MUST add `from`, the full address")
            .sent("<message to='b@example.org'/>")
            .passed(&["from='alice@example.org/desk'"]),
        row("8.1.2.1", "`from` MUST be the client's: its full address is")
            .sent("<message from='alice@example.org/desk' to='b@example.org'/>")
            .passed(&["from='alice@example.org/desk'"]),
        row("8.1.2.1", "its bare address is, and becomes the full one")
            .sent("<presence from='alice@example.org'/>")
            .passed(&["from='alice@example.org/desk'"]),
        row("8.1.2.1", "another resource is not")
            .sent("<message from='alice@example.org/phone' to='b@example.org'/>")
            .fails("invalid-from"),
        row("8.1.2.1", "nor is another account")
            .sent("<message from='bob@example.org/desk' to='b@example.org'/>")
            .fails("invalid-from"),
        row("8.1.3", "`id` is passed on as it is")
            .sent("<iq type='get' id='a&amp;b' to='b@example.org'><q xmlns='urn:x'/></iq>")
            .passed(&["id='a&amp;b'"]),
        row("8.1.5", "`xml:lang` of a stanza stays")
            .sent("<message xml:lang='fr' to='b@example.org'/>")
            .passed(&["xml:lang='fr'"]),
        row("8.1.5", "one without has that of the stream")
            .test("xmpp/src/c2s/tests.rs::a_stanza_without_a_language_has_that_of_its_stream"),
        row("8.4", "payloads that the server does not know are passed on as they are")
            .sent("<message to='b@example.org'><a xmlns='urn:a' b='c'><d xmlns='urn:d'/>t</a></message>")
            .passed(&["<a xmlns='urn:a' b='c'><d xmlns='urn:d'/>t</a>"]),
    ]);
}

#[test]
fn kinds() {
    play(vec![
        row("8.2", "there are messages, presence and iq; another element: unsupported-stanza-type")
            .sent("<other/>")
            .fails("unsupported-stanza-type"),
        row("8.2", "and they are in the stream's namespace")
            .sent("<message xmlns='urn:x' to='b@example.org'/>")
            .fails("unsupported-stanza-type"),
        row("10.1", "stanzas are processed in the order in which they came")
            .sent(
                "<message id='1' to='b@example.org'/><presence id='2'/><message id='3' to='b@example.org'/>",
            )
            .passed(&["id='1'", "id='2'", "id='3'"]),
    ]);
}
