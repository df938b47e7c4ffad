//! Documents that are none, applications that do not answer, and the parameters of a request.

use std::time::Duration;

use ivr::document::{Document, Item, Verb, code};
use ivr::limits;
use ivr::script::{Call, Plan, Start};

use crate::play;
use crate::verbs::performs;
use crate::world::{Play, call, plan, play_with, target};

const APOLOGY: &str = "play Man/en \"We are sorry. An application error has occurred. Goodbye.\"";

/// RestComm's and Twilio's common parameters; `ParentCallSid` only for a leg.
#[test]
fn requests_have_the_parameters_of_the_call() {
    let call = Call {
        forwarded_from: Some("+8".into()),
        parent_sid: Some("CA0".into()),
        extra: vec![("SipHeader_X-A".into(), "b".into())],
        ..call()
    };
    play_with(
        call,
        plan(),
        "rest: all
         caller: calls
         > ask POST http://app/start CallSid=CA1 AccountSid=AC1 From=+1555 To=+1234 Caller=+1555 Called=+1234 CallStatus=ringing ApiVersion=2012-04-24 Direction=inbound CallerName=Alice ForwardedFrom=+8 ParentCallSid=CA0 SipHeader_X-A=b
         app: <Gather numDigits='1'/>
         > answer
         caller: answers
         > listen digits
         caller: presses 1
         > stop listening
         > ask POST http://app/start CallSid=CA1 AccountSid=AC1 From=+1555 To=+1234 Caller=+1555 Called=+1234 CallStatus=in-progress ApiVersion=2012-04-24 Direction=inbound CallerName=Alice ForwardedFrom=+8 ParentCallSid=CA0 SipHeader_X-A=b Digits=1
         caller: hangs up
         > end completed",
    );
}

/// Twilio speaks Amazon's elements, whose prefix no document declares.
#[test]
fn a_prefix_that_no_one_declares_makes_a_document_no_worse() {
    let text = "<?xml version='1.0'?>\n<!-- a > b -->\n<Response>\n\
                <Say>a <amazon:effect name='whispered'>b</amazon:effect></Say>\n\
                <Pause xsi:type='p' length='2'/><Other/>\n</Response>";
    let document = Document::parse(text.as_bytes(), None).unwrap();
    let [Verb::Say(said), Verb::Pause(length)] = &document.verbs[..] else { panic!("{document:?}") };
    let [Item::Speech { text, .. }] = &said.items[..] else { panic!("{said:?}") };
    assert_eq!((text.as_str(), *length), ("a b", Duration::from_secs(2)));
    let places: Vec<_> = document.notes.iter().map(|note| (note.line, note.column)).collect();
    assert_eq!(places, [(4, 8), (5, 33)], "{document:?}");
    let refused = |text: &str| Document::parse(text.as_bytes(), None).unwrap_err().code;
    assert_eq!(refused("<a:b xmlns='x'/>"), code::NOT_A_DOCUMENT);
    let many: String = (0..99).map(|number| format!("<p{number}:a/>")).collect();
    assert_eq!(refused(&format!("<Response>{many}</Response>")), code::NOT_A_DOCUMENT);
}

/// An application that fails before the answer costs the caller nothing: 500.
#[test]
fn without_a_document_an_unanswered_call_is_refused_by_code() {
    for (answer, note) in [
        ("status 500", "11200: status 500"),
        ("fails", "11205: connection refused"),
        ("raw", "12100: line 1: not a document: the document does not have a root node (error 12100)"),
        ("image x", "12300: image/png is neither document, audio nor text"),
        ("raw <Resp/>", "12100: line 1: <Resp>: a document begins with <Response> (error 12100)"),
    ] {
        play(&format!(
            "caller: calls
             > ask POST http://app/start
             app: {answer}
             > note {note}
             > refuse ApplicationError
             > end failed"
        ));
    }
    play(
        "caller: calls
         > ask POST http://app/start
         deadline: passes
         > note 11205: no answer in 60 seconds
         > refuse ApplicationError
         > end failed
         app: <Say>late</Say>",
    );
}

/// Once answered, the caller is told by voice, and the apology's failure ends the call.
#[test]
fn without_a_document_an_answered_call_hears_an_apology() {
    performs(
        "<Gather numDigits='1'/>",
        &format!(
            "> listen digits
             caller: presses 1
             > stop listening
             > ask POST http://app/start Digits=1
             app: raw <Response><Say>open</Response>
             > note 12100: line 1: not a document: expected 'Say' tag, not 'Response' at 1:20 (error 12100)
             > {APOLOGY}
             media: broken
             > note 13420: no such file
             > hang up
             > end completed"
        ),
    );
}

#[test]
fn the_fallback_is_requested_once_with_the_error() {
    let with_fallback = Plan { fallback: Some(target("http://spare/f")), ..plan() };
    play_with(
        call(),
        with_fallback.clone(),
        r#"caller: calls
           > ask POST http://app/start
           app: status 503
           > note 11200: status 503
           > ask POST http://spare/f ErrorCode=11200 ErrorUrl=http://app/start
           app: <Say>spare</Say><Redirect>g</Redirect>
           > answer
           caller: answers
           > play Man/en "spare"
           media: over
           > ask POST http://spare/g
           app: fails
           > note 11205: connection refused
           > ask POST http://spare/f ErrorCode=11205 ErrorUrl=http://spare/g
           caller: hangs up
           > end completed"#,
    );
    play_with(
        call(),
        with_fallback,
        "caller: calls
         > ask POST http://app/start
         app: status 503
         > note 11200: status 503
         > ask POST http://spare/f ErrorCode=11200 ErrorUrl=http://app/start
         app: status 404
         > note 11200: status 404
         > refuse ApplicationError
         > end failed",
    );
}

/// Twilio: an answer of `audio/*` is a Play, one of `text/plain` a Say.
#[test]
fn audio_is_played_and_text_is_spoken() {
    for (answer, heard) in
        [("audio", "http://app/start".to_owned()), ("text Hello there", "Man/en \"Hello there\"".to_owned())]
    {
        play(&format!(
            "caller: calls
             > ask POST http://app/start
             app: {answer}
             > answer
             caller: answers
             > play {heard}
             media: over
             > hang up
             > end completed"
        ));
    }
}

/// RFC 9110 §15.3.5: 204 has no content, which is an empty document.
#[test]
fn no_content_ends_the_call() {
    play(
        "caller: calls
         > ask POST http://app/start
         app: status 204
         > answer
         caller: answers
         > hang up
         > end completed",
    );
}

#[test]
fn notes_have_their_lines_and_the_rest_is_performed() {
    performs(
        "<Say>a</Say>",
        r#"> play Man/en "a"
           rest: performs <Pay/><Say voice='robot'>b</Say><Fax>c</Fax><Start><Recording/></Start>
           > stop playing
           > note 12200: <Pay> needs a payment provider: passed over
           > note 12200: voice="robot" on <Say>: expected man, woman, alice, or a voice as Polly.Joanna or Google.en-US-Wavenet-C; man is taken
           > note 12200: <Fax> needs a fax provider: passed over
           > note 12200: <Recording> is begun by <Record>, the `record` of <Dial>, or the REST interface: passed over
           > note 12200: <Start> without <Stream>: passed over
           > play Man/en "b"
           caller: hangs up
           > stop playing
           > end completed"#,
    );
}

/// Documents that lead to each other without a verb that takes time are cut off with code 11215.
#[test]
fn a_circle_of_redirects_ends() {
    let mut stage = Play::new(call(), plan());
    stage.happens("caller: calls");
    let mut asked = 1;
    let last = loop {
        let effects = stage.happens("app: <Redirect>/start</Redirect>");
        if effects.iter().any(|effect| effect.starts_with("ask")) {
            asked += 1;
            continue;
        }
        break effects;
    };
    assert_eq!(asked, limits::DOCUMENTS_WITHOUT_PAUSE);
    assert_eq!(last[0], "note 11215: documents lead to documents without end, at last to /start");
    assert_eq!(last[1..], ["refuse ApplicationError", "end failed"]);
}

/// A circle that plays a word each time stays below that limit; the number of documents of a call ends it.
#[test]
fn a_slow_circle_ends_too() {
    let mut stage = Play::new(call(), plan());
    stage.happens("caller: calls");
    stage.happens("app: <Pause/><Redirect>/start</Redirect>");
    let (mut asked, mut last) = (1, Vec::new());
    while !stage.ended {
        last = stage.happens("wait: 1000");
        asked += u32::from(last.iter().any(|effect| effect.starts_with("ask")));
        stage.happens("app: <Pause/><Redirect>/start</Redirect>");
    }
    assert_eq!(asked, limits::DOCUMENTS_PER_CALL);
    assert!(last[0].starts_with("note 11215"), "{last:?}");
}

/// REST's `Twiml`: the document comes with the request that makes the call.
#[test]
fn an_inline_document_needs_no_application() {
    let inline = Plan { start: Start::Document(b"<Response><Say>hi</Say></Response>".to_vec()), ..plan() };
    play_with(
        call(),
        inline,
        r#"caller: calls
           > answer
           caller: answers
           > play Man/en "hi"
           media: over
           > hang up
           > end completed"#,
    );
    let bad =
        Plan { start: Start::Document(b"<Response><Redirect>/x</Redirect></Response>".to_vec()), ..plan() };
    play_with(
        call(),
        bad,
        "caller: calls
         > note 11100: /x is no URL of HTTP
         > refuse ApplicationError
         > end failed",
    );
}

/// A document of an application that names `file:` URLs must not read the server's files.
#[test]
fn only_files_of_the_server_lead_to_files_of_the_server() {
    let start = |url: &str| Plan { start: Start::Url(target(url)), ..plan() };
    play_with(
        call(),
        start("file:///menu.xml"),
        r#"caller: calls
           > ask POST file:///menu.xml
           app: <Redirect>next.xml</Redirect>
           > ask POST file:///next.xml
           app: <Redirect>http://app/x</Redirect>
           > ask POST http://app/x
           app: <Redirect>file:menu.xml</Redirect>
           > note 11100: file:menu.xml is no URL of HTTP
           > refuse ApplicationError
           > end failed"#,
    );
    let inline = Start::Document(b"<Response><Redirect>file:menu.xml</Redirect></Response>".to_vec());
    play_with(
        call(),
        Plan { start: inline, ..plan() },
        r#"caller: calls
           > note 11100: file:menu.xml is no URL of HTTP
           > refuse ApplicationError
           > end failed"#,
    );
}
