//! Stanzas of other servers, as they are written, and as they are here.

use super::bad::TestCaller;
use super::*;

/// The element that is delivered when the server evil.test sends this text.
fn passed(caller: &mut TestCaller, text: &str) -> Element {
    let answer = caller.say(text);
    match &caller.effects[..] {
        [Effect::Deliver(element)] => (**element).clone(),
        other => panic!("{text}: {other:?} {answer}"),
    }
}

const ADDRESSES: &str = "from='x@evil.test' to='y@a.test'";

#[test]
fn the_namespace_of_the_stream_may_be_said_outright() {
    let plain = passed(&mut TestCaller::proved(), &format!("<message {ADDRESSES}><body>hi</body></message>"));
    for text in [
        format!("<message xmlns='jabber:server' {ADDRESSES}><body>hi</body></message>"),
        format!("<message {ADDRESSES}><body xmlns='jabber:server'>hi</body></message>"),
        format!("<message xmlns=\"jabber:server\" {ADDRESSES}><body>hi</body></message>"),
        format!("<s:message xmlns:s='jabber:server' {ADDRESSES}><s:body>hi</s:body></s:message>"),
        format!("<message xmlns='jabber&#58;server' {ADDRESSES}><body>hi</body></message>"),
    ] {
        assert_eq!(passed(&mut TestCaller::proved(), &text), plain, "{text}");
    }
    let forwarded = "<message xmlns='jabber:server' from='x@evil.test' to='y@a.test'>\
        <forwarded xmlns='urn:xmpp:forward:0'><message xmlns='jabber:client'><body>1</body></message>\
        <message xmlns='jabber:server'><body>2</body></message></forwarded></message>";
    let passed = passed(&mut TestCaller::proved(), forwarded);
    let inner = passed.get("forwarded", "urn:xmpp:forward:0").unwrap();
    assert!(inner.elements().all(|message| message.content_of("body", ns::CLIENT).is_some()), "{inner}");
    // The sender is checked all the same.
    let forged = "<message xmlns='jabber:server' from='x@bank.test' to='y@a.test'/>";
    TestCaller::proved().ends_with(forged, "invalid-from");
    TestCaller::secure()
        .ends_with(&format!("<message xmlns='jabber:server' {ADDRESSES}/>"), "not-authorized");
}

#[test]
fn marks_of_ours_come_off_stanzas_of_other_servers() {
    let text =
        format!("<message xmlns:m='urn:belfry:handled' m:mark='1.1' {ADDRESSES}><body>hi</body></message>");
    let passed = passed(&mut TestCaller::proved(), &text);
    assert_eq!(passed.attributes().len(), 2, "{passed}");
    let handled = format!("<handled xmlns='urn:belfry:handled' {ADDRESSES} mark='1.1'/>");
    TestCaller::proved().ends_with(&handled, "unsupported-stanza-type");
}

#[test]
fn a_stanza_without_a_language_has_that_of_its_stream() {
    let caller = |lang: &str| {
        let header = super::bad::HEADER.replace(" version=", &format!(" xml:lang='{lang}' version="));
        let mut caller = TestCaller::new(|_| (), Security { encrypted: true, ..Security::default() });
        caller.say(&header);
        caller.say("<db:result from='evil.test' to='a.test'>right</db:result>");
        caller.verified(Verdict::Valid);
        caller
    };
    let plain = format!("<message {ADDRESSES}><body>hallo</body></message>");
    assert_eq!(passed(&mut caller("de-AT"), &plain).lang(), Some("de-AT"));
    let own = format!("<message xml:lang='en' {ADDRESSES}><body>hello</body></message>");
    assert_eq!(passed(&mut caller("de"), &own).lang(), Some("en"));
    assert_eq!(passed(&mut TestCaller::proved(), &plain).lang(), None);
    // It would be added to each stanza.
    for none in ["", "d e", &"x".repeat(crate::limits::LANG + 1)] {
        assert_eq!(passed(&mut caller(none), &plain).lang(), None, "{none}");
    }
}
