//! Stanzas of sessions as their streams see them.

use std::time::Duration;

use super::*;

const NOW: Instant = Instant::from_unix_seconds(1_800_000_000);

/// A stanza so many milliseconds after the begin; `<` is from the client.
fn stanza(after: u64, way: char, session: &str, label: &str, xml: &str) -> Stanza {
    Stanza::of(NOW + Duration::from_millis(after), way == '<', session, label, xml).unwrap()
}

#[test]
fn an_iq_lasts_until_its_answer() {
    let (mut spans, mut made) = (StanzaSpans::new("n1"), Vec::new());
    let session = "alice@a.test/desk";
    spans.handle_stanza(
        &stanza(0, '<', session, "iq get query", "<iq type='get' id='1'><x/></iq>"),
        &mut made,
    );
    spans.handle_stanza(&stanza(1, '>', session, "iq get ping", "<iq id=\"1\" type=\"get\"/>"), &mut made);
    // The id of another session, and an answer to nothing.
    spans
        .handle_stanza(&stanza(2, '>', "bob@a.test/x", "iq result", "<iq id='1' type='result'/>"), &mut made);
    assert!(made.is_empty());
    spans.handle_stanza(&stanza(5, '>', session, "iq result query", "<iq id='1' type='result'/>"), &mut made);
    spans.handle_stanza(&stanza(9, '<', session, "iq error", "<iq id='1' type='error'/>"), &mut made);
    let [query, ping] = &made[..] else { panic!("{made:?}") };
    let millis = |span: &Span| span.end.since(span.begin).as_millis();
    assert_eq!(
        (&*query.name, query.kind, millis(query), query.is_error),
        ("iq get", SpanKind::Server, 5, false)
    );
    assert_eq!((&*ping.name, ping.kind, millis(ping), ping.is_error), ("iq get", SpanKind::Client, 8, true));
    assert_ne!(query.trace, ping.trace);
    assert_eq!(query.attributes[1].1, AttributeValue::Text("iq get query".into()));
}

#[test]
fn the_iq_that_binds_a_session_is_answered_to_its_full_address() {
    let (mut spans, mut made) = (StanzaSpans::new(""), Vec::new());
    spans.handle_stanza(&stanza(0, '<', "alice@a.test", "iq set bind", "<iq type='set' id='1'/>"), &mut made);
    spans.handle_stanza(&stanza(1, '>', "alice@a.testing/x", "iq result", "<iq id='1'/>"), &mut made);
    assert!(made.is_empty());
    spans.handle_stanza(&stanza(2, '>', "alice@a.test/x", "iq result", "<iq id='1'/>"), &mut made);
    assert_eq!(made.len(), 1);
}

#[test]
fn a_message_is_one_trace_at_its_sender_and_its_recipient() {
    let (mut alice, mut bob, mut made) = (StanzaSpans::new("n1"), StanzaSpans::new("n2"), Vec::new());
    let sent = "<message id='m1' to='bob@a.test'><body>x</body></message>";
    let delivered = "<message from='alice@a.test/desk' id='m1' to='bob@a.test'><body>x</body></message>";
    alice.handle_stanza(&stanza(0, '<', "alice@a.test/desk", "message chat body", sent), &mut made);
    bob.handle_stanza(&stanza(3, '>', "bob@a.test/x", "message chat body", delivered), &mut made);
    let carols = "<message from='carol@a.test/desk' id='m1'/>";
    bob.handle_stanza(&stanza(4, '>', "bob@a.test/x", "message", carols), &mut made);
    bob.handle_stanza(&stanza(5, '<', "bob@a.test/x", "presence", "<presence/>"), &mut made);
    assert_eq!(
        made.iter().map(|span| &*span.name).collect::<Vec<_>>(),
        ["message", "message", "message", "presence"]
    );
    assert_eq!(made[0].trace, made[1].trace);
    assert_ne!(made[0].id, made[1].id);
    assert_ne!(made[1].trace, made[2].trace);
}

#[test]
fn iqs_without_answers_end_and_are_bounded() {
    let (mut spans, mut made) = (StanzaSpans::new(""), Vec::new());
    for number in 0..limits::OPEN_IQS + 5 {
        let xml = format!("<iq id='{number}' type='set'/>");
        spans.handle_stanza(&stanza(0, '<', "alice@a.test/desk", "iq set", &xml), &mut made);
    }
    assert_eq!((made.len(), spans.missed()), (0, 5));
    spans.expire(NOW + limits::IQ_TIME / 2, &mut made);
    assert!(made.is_empty());
    spans.expire(NOW + limits::IQ_TIME, &mut made);
    assert_eq!(made.len(), limits::OPEN_IQS);
    assert!(made[0].attributes.contains(&("belfry.unanswered", AttributeValue::Flag(true))));
}

#[test]
fn only_attributes_of_the_outermost_element_are_read() {
    let xml = "<iq  to=\"a b='c' id='no'>\"\n\tid='it\"s'><query id='inner' from='x'/></iq>";
    assert_eq!(attribute(xml, "id"), Some("it\"s"));
    assert_eq!(attribute(xml, "to"), Some("a b='c' id='no'>"));
    assert_eq!(attribute(xml, "from"), None);
    for end in 0..xml.len() {
        let _ = attribute(&xml[..end], "from");
    }
    assert_eq!(attribute("", "id"), None);
    assert!(Stanza::of(NOW, true, "a@b/c", "auth", "<auth id='1'/>").is_none());
}
