use std::sync::Arc;

use router::{CallInfo, CallPhase};

use super::*;

/// The first NOTIFY to a subscriber of this package.
fn first(package: &str, account: &'static str, state: State) -> (World, String) {
    let mut world = World { account: Some(account), ..World::new() };
    world.request("SUBSCRIBE", &format!("Event: {package}"), "");
    let notify = world.answer(Answer::State(state));
    (world, body(&notify))
}

fn body(notify: &str) -> String {
    notify.lines().filter_map(|line| line.strip_prefix("  | ")).collect::<Vec<_>>().join("\n")
}

/// The next document after a change.
fn next(world: &mut World, state: State) -> String {
    world.result(200);
    world.wait(Duration::from_secs(2));
    body(&world.push(state))
}

fn call(remote: &str, phase: CallPhase) -> CallInfo {
    CallInfo {
        call_id: "c7@10.0.0.1".into(),
        local_tag: "l1".into(),
        remote_tag: "".into(),
        initiator: true,
        remote: remote.into(),
        phase,
    }
}

/// RFC 7248 §5.2: chat's status comes before a phone's publication.
#[test]
fn presence_carries_the_chat_status() {
    let chat = |show, note: &str| Some(router::Chat { show, note: note.into() });
    let documents = vec![Arc::from(&b"<presence>published</presence>"[..])];
    let away = Presence {
        open: false,
        on_the_phone: false,
        chat: chat(router::Show::Away, "<lunch>"),
        documents: documents.clone(),
    };
    let (mut world, notify) = first("presence", "bob@a.test", State::Presence(away.clone()));
    insta::assert_snapshot!(notify, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <presence xmlns="urn:ietf:params:xml:ns:pidf"
      xmlns:dm="urn:ietf:params:xml:ns:pidf:data-model"
      xmlns:rpid="urn:ietf:params:xml:ns:pidf:rpid" entity="sip:alice@a.test">
      <tuple id="registered">
        <status><basic>closed</basic></status>
        <contact>sip:alice@a.test</contact>
      </tuple>
      <tuple id="chat">
        <status><basic>open</basic></status>
        <contact>sip:alice@a.test</contact>
      </tuple>
      <dm:person id="person">
        <rpid:activities><rpid:away/></rpid:activities>
        <dm:note>&lt;lunch&gt;</dm:note>
      </dm:person>
    </presence>
    "#);
    let talking =
        Presence { open: true, on_the_phone: true, chat: chat(router::Show::Available, ""), ..away.clone() };
    assert!(next(&mut world, State::Presence(talking)).contains("<rpid:on-the-phone/>"));
    let left = Presence { chat: None, ..away };
    assert_eq!(next(&mut world, State::Presence(left)), "<presence>published</presence>");
}

#[test]
fn packages_are_known_by_name() {
    let of = |line: &str| {
        let text = format!("SUBSCRIBE sip:{AOR} SIP/2.0\r\n{line}\r\n\r\n");
        Package::of(&Message::parse(Bytes::from(text)).unwrap())
    };
    assert_eq!(of("Event: dialog"), Some(Package::Dialog));
    assert_eq!(of("o:  Message-Summary ;id=4"), Some(Package::MessageSummary));
    assert_eq!(of("Event: refer"), None);
    assert_eq!(of("Subject: none"), None);
}

/// RFC 3856, RFC 3863.
#[test]
fn presence_says_open_closed_or_on_the_phone() {
    let (mut world, notify) = first("presence", "bob@a.test", presence(true));
    insta::assert_snapshot!(notify, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <presence xmlns="urn:ietf:params:xml:ns:pidf" entity="sip:alice@a.test">
      <tuple id="registered">
        <status><basic>open</basic></status>
        <contact>sip:alice@a.test</contact>
      </tuple>
    </presence>
    "#);
    let talking = Presence { open: true, on_the_phone: true, chat: None, documents: Vec::new() };
    insta::assert_snapshot!(next(&mut world, State::Presence(talking)), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <presence xmlns="urn:ietf:params:xml:ns:pidf"
      xmlns:dm="urn:ietf:params:xml:ns:pidf:data-model"
      xmlns:rpid="urn:ietf:params:xml:ns:pidf:rpid" entity="sip:alice@a.test">
      <tuple id="registered">
        <status><basic>open</basic></status>
        <contact>sip:alice@a.test</contact>
      </tuple>
      <dm:person id="person">
        <rpid:activities><rpid:on-the-phone/></rpid:activities>
      </dm:person>
    </presence>
    "#);
    let document = |text: &str| Arc::from(text.as_bytes());
    let documents = vec![document("<presence>newest</presence>"), document("<presence/>")];
    let published = State::Presence(Presence { open: true, on_the_phone: true, chat: None, documents });
    assert_eq!(next(&mut world, published), "<presence>newest</presence>");
}

/// RFC 4235.
#[test]
fn dialog_lists_calls() {
    let (mut world, notify) = first("dialog", "bob@a.test", State::Dialog(Vec::new()));
    insta::assert_snapshot!(notify, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <dialog-info xmlns="urn:ietf:params:xml:ns:dialog-info" version="0" state="full" entity="sip:alice@a.test">
    </dialog-info>
    "#);
    let calls = vec![
        call("sip:carol@c.test?subject=\"<a&b>\"", CallPhase::Early),
        CallInfo {
            initiator: false,
            remote_tag: "r'1".into(),
            ..call("sip:dave@d.test", CallPhase::Confirmed)
        },
    ];
    insta::assert_snapshot!(next(&mut world, State::Dialog(calls)), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <dialog-info xmlns="urn:ietf:params:xml:ns:dialog-info" version="1" state="full" entity="sip:alice@a.test">
      <dialog id="d93dceabde2d3732c" call-id="c7@10.0.0.1" local-tag="l1" direction="initiator">
        <state>early</state>
        <remote><identity>sip:carol@c.test?subject=&quot;&lt;a&amp;b&gt;&quot;</identity><target uri="sip:carol@c.test?subject=&quot;&lt;a&amp;b&gt;&quot;"/></remote>
      </dialog>
      <dialog id="d8da8ba0a42579ee5" call-id="c7@10.0.0.1" local-tag="l1" remote-tag="r&apos;1" direction="recipient">
        <state>confirmed</state>
        <remote><identity>sip:dave@d.test</identity><target uri="sip:dave@d.test"/></remote>
      </dialog>
    </dialog-info>
    "#);
}

/// RFC 3842.
#[test]
fn message_summary_counts_waiting_messages() {
    let (mut world, notify) = first("message-summary", AOR, State::MessageSummary { waiting: 0 });
    insta::assert_snapshot!(notify, @r#"
    Messages-Waiting: no
    Message-Account: sip:alice@a.test
    Text-Message: 0/0
    "#);
    insta::assert_snapshot!(next(&mut world, State::MessageSummary { waiting: 3 }), @r#"
    Messages-Waiting: yes
    Message-Account: sip:alice@a.test
    Text-Message: 3/0
    "#);
}

/// RFC 3680.
#[test]
fn reg_lists_contacts() {
    let (mut world, notify) = first("reg", AOR, State::Registration(Vec::new()));
    insta::assert_snapshot!(notify, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <reginfo xmlns="urn:ietf:params:xml:ns:reginfo" version="0" state="full">
      <registration aor="sip:alice@a.test" id="ra8334709d46bfd86" state="init">
      </registration>
    </reginfo>
    "#);
    let mut second = binding("sip:alice@[2001:db8::1]:5060;transport=tcp");
    second.contact.q = 250;
    let bindings = vec![binding("sip:alice@192.0.2.9"), second];
    insta::assert_snapshot!(next(&mut world, State::Registration(bindings)), @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <reginfo xmlns="urn:ietf:params:xml:ns:reginfo" version="1" state="full">
      <registration aor="sip:alice@a.test" id="ra8334709d46bfd86" state="active">
        <contact id="c8e524cda7035c2f1" state="active" event="registered" expires="2998" q="1.000" callid="reg1@192.0.2.9" cseq="7">
          <uri>sip:alice@192.0.2.9</uri>
        </contact>
        <contact id="c4a3d4097bf6f1db0" state="active" event="registered" expires="2998" q="0.250" callid="reg1@192.0.2.9" cseq="7">
          <uri>sip:alice@[2001:db8::1]:5060;transport=tcp</uri>
        </contact>
      </registration>
    </reginfo>
    "#);
    let left = next(&mut world, State::Registration(Vec::new()));
    insta::assert_snapshot!(left, @r#"
    <?xml version="1.0" encoding="UTF-8"?>
    <reginfo xmlns="urn:ietf:params:xml:ns:reginfo" version="2" state="full">
      <registration aor="sip:alice@a.test" id="ra8334709d46bfd86" state="terminated">
      </registration>
    </reginfo>
    "#);
}
