//! Calls that are not made: what an author of documents is told of them.

use ivr::document::Item;
use ivr::dry_run::{Behaviour, DryRun, Progress, Step};
use ivr::request::{Form, Request};
use ivr::script::{CallStatus, FetchResponse, Plan, Start};

use crate::world::{call, plan, target};

/// Each step in a line.
fn line(step: &Step) -> String {
    let asked = |request: &Request| {
        let own = |name: &str| ["Digits", "SpeechResult", "DialCallStatus"].contains(&name);
        let form: Form = request.form.iter().filter(|(name, _)| own(name)).cloned().collect();
        format!("{} {} {}", request.method.as_str(), request.url, ivr::request::encode(&form))
    };
    match step {
        Step::Request(request) => format!("request {}", asked(request)),
        Step::Callback(request) => format!("callback {}", asked(request)),
        Step::Document { url, .. } => format!("document {}", url.as_deref().unwrap_or("given")),
        Step::Note(note) => {
            let place = (note.line.unwrap_or_default(), note.column.unwrap_or_default());
            format!("{} {place:?} {}", note.severity.as_str(), note.text)
        }
        Step::Prompt(pieces) => {
            let items = pieces.iter().flat_map(|piece| &piece.items);
            let words = items.map(|item| match item {
                Item::Speech { text, .. } => text.clone(),
                Item::Audio { url } => url.clone(),
                other => format!("{other:?}"),
            });
            format!("hears {}", words.collect::<Vec<_>>().join(", "))
        }
        other => format!("{other:?}"),
    }
}

fn inline(document: &str, inputs: &[&str], dial: CallStatus) -> DryRun {
    let plan = Plan { start: Start::Document(document.as_bytes().to_vec()), ..plan() };
    let inputs = inputs.iter().map(|input| (*input).to_owned()).collect();
    DryRun::new(call(), plan, Behaviour { inputs, dial })
}

fn lines(run: &DryRun) -> Vec<String> {
    run.steps().iter().map(line).collect()
}

#[test]
fn a_menu_shows_its_prompts_and_the_request_of_its_keys() {
    let menu = "<Response><Gather action='http://app/menu' numDigits='1'><Say>Press one</Say></Gather>\
                <Say>Nothing</Say></Response>";
    let mut run = inline(menu, &["1"], CallStatus::Completed);
    let Progress::Wanted(request) = run.advance() else { panic!("{:?}", lines(&run)) };
    assert_eq!(request.url, "http://app/menu");
    let keys = request.form.iter().find(|(name, _)| name == "Digits").map(|(_, value)| value.as_str());
    assert_eq!(keys, Some("1"));
    let before = [
        "document given",
        "Answer",
        "Listen { keys: true, speech: false }",
        "hears Press one",
        "Keys(\"1\")",
        "request POST http://app/menu Digits=1",
    ];
    assert_eq!(lines(&run), before);
    // It goes on with the document that the application gives.
    let body = b"<Response><Play>bye.wav</Play></Response>".to_vec();
    run.handle_fetched(Ok(FetchResponse { status: 200, body, ..FetchResponse::default() }));
    assert_eq!(run.advance(), Progress::Over);
    let after = ["document http://app/menu", "hears http://app/bye.wav", "Hangup", "Ended(Completed)"];
    assert_eq!(lines(&run)[before.len()..], after);

    let mut silent = inline(menu, &[], CallStatus::Completed);
    assert_eq!(silent.advance(), Progress::Over);
    assert_eq!(lines(&silent)[4..], ["NoInput", "hears Nothing", "Hangup", "Ended(Completed)"]);
}

#[test]
fn a_dial_shows_its_parties_and_its_action_the_outcome() {
    let document = "<Response><Dial action='http://app/dialed' hangupOnStar='true' callerId='+1777'>\
                    <Number>+1999</Number><Client>bob</Client></Dial></Response>";
    let dialed = |dial: CallStatus| {
        let mut run = inline(document, &[], dial);
        let Progress::Wanted(request) = run.advance() else { panic!("{:?}", lines(&run)) };
        let status = request.form.iter().find(|(name, _)| name == "DialCallStatus").unwrap().1.clone();
        (lines(&run), status)
    };
    let (steps, status) = dialed(CallStatus::Completed);
    assert_eq!(status, "completed");
    let parties = "Dial { to: [\"+1999\", \"client:bob\"], caller_id: Some(\"+1777\"), is_recorded: false }";
    assert!(steps.contains(&parties.to_owned()) && steps.contains(&"Connected".to_owned()), "{steps:#?}");
    for (outcome, expected) in [(CallStatus::Busy, "busy"), (CallStatus::NoAnswer, "no-answer")] {
        let (steps, status) = dialed(outcome);
        assert_eq!(status, expected);
        assert!(!steps.contains(&"Connected".to_owned()), "{steps:#?}");
    }
}

#[test]
fn mistakes_have_their_line_and_column() {
    let mut run =
        inline("<Response>\n  <Sey>ä</Sey>\n  <Say voise='x'>é</Say></Response>", &[], CallStatus::Busy);
    run.advance();
    let steps = lines(&run);
    assert!(steps[1].starts_with("error (2, 3) <Sey> means nothing"), "{steps:#?}");
    assert!(steps[2].starts_with("warning (3, 8) `voise` means nothing"), "{steps:#?}");
    let mut broken = inline("<Response>\n<Say></Response>", &[], CallStatus::Busy);
    broken.advance();
    let steps = lines(&broken);
    assert!(steps[1].starts_with("error (2, 6) not a document: "), "{steps:#?}");
    assert!(steps.contains(&"Refuse(500)".to_owned()), "{steps:#?}");
}

#[test]
fn every_verb_comes_to_an_end_and_a_long_document_is_cut() {
    let document = "<Response><Record/><Enqueue>q</Enqueue><Sms>hello</Sms>\
                    <Email to='a@b' from='c@d'>x</Email><Dial><Conference>room</Conference></Dial>\
                    <Start><Stream url='wss://app/s'/></Start><Connect><Stream url='wss://app/c'/></Connect>\
                    <Refer><Sip>sip:x@y</Sip></Refer><Pause length='3'/><Echo/></Response>";
    let plan = Plan { start: Start::Url(target("http://app/start")), ..plan() };
    let mut run = DryRun::new(call(), plan, Behaviour { inputs: Vec::new(), dial: CallStatus::Completed });
    let mut asked = 0;
    while let Progress::Wanted(request) = run.advance() {
        asked += 1;
        // The first is the document; the recording's action asks for its own URL again.
        let body = if request.url == "http://app/start" && asked == 1 { document } else { "<Response/>" };
        run.handle_fetched(Ok(FetchResponse { status: 200, body: body.into(), ..FetchResponse::default() }));
        assert!(asked < 5, "{:#?}", lines(&run));
    }
    assert!(matches!(run.steps().last(), Some(Step::Ended(_))), "{:#?}", lines(&run));

    let document = document.replace("<Record/>", "");
    let mut run = inline(&document, &[], CallStatus::Completed);
    assert_eq!(run.advance(), Progress::Over, "{:#?}", lines(&run));
    let steps = lines(&run);
    for expected in ["Queue", "Message", "Mail", "Conference", "Stream", "Refer", "Echo", "Ended"] {
        assert!(steps.iter().any(|step| step.starts_with(expected)), "{expected}: {steps:#?}");
    }
    let long = format!("<Response>{}</Response>", "<Say>a</Say>".repeat(500));
    let mut run = inline(&long, &[], CallStatus::Completed);
    assert_eq!(run.advance(), Progress::Over);
    assert_eq!(run.steps().len(), ivr::limits::DRY_RUN_STEPS + 1);
    assert_eq!(run.steps().last(), Some(&Step::TooLong));
}

#[test]
fn one_bad_sound_has_one_note() {
    for document in [
        "<Response><Play>ftp://x/a.wav</Play></Response>",
        "<Response><Play></Play></Response>",
        "<Response><Play>ftp://x/a.wav</Play><Say>Hello</Say></Response>",
        "<Response><Gather><Play>ftp://x/a.wav</Play></Gather></Response>",
        "<Response><Play>nothing.wav</Play></Response>",
        "<Response><Play>ftp://x/a.wav</Play><Record/></Response>",
    ] {
        let mut run = inline(document, &["1"], CallStatus::Completed);
        assert_eq!(run.advance(), Progress::Over, "{:#?}", lines(&run));
        let steps = lines(&run);
        let notes = steps.iter().filter(|step| step.contains(" is no URL of HTTP")).count();
        assert!(notes <= 1, "{document}: {steps:#?}");
        assert!(!steps.iter().any(|step| step.contains(")  is no URL")), "{document}: {steps:#?}");
    }
}
