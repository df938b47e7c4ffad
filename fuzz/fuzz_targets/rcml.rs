//! Any bytes as a document: verbs, or a mistake inside the text. A readable document is performed while anything happens;
//! the call ends once, and nothing comes after.
#![no_main]

use std::time::Duration;

use ivr::document::Document;
use ivr::request::{Method, Target};
use ivr::script::{
    Call, ConferenceEvent, Direction, Effect, FetchResponse, Id, LegEvent, Plan, QueueEvent, QueueResult,
    Recorded, Role, Script, Speech, Start, StreamEvent,
};
use libfuzzer_sys::fuzz_target;
use stdx::Instant;

fuzz_target!(|data: &[u8]| {
    let mut halves = data.splitn(2, |&byte| byte == b'\n');
    let (events, document) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
    let lines = document.iter().filter(|&&byte| byte == b'\n').count() + 1;
    match Document::parse(document, None) {
        Ok(read) => assert!(read.notes.iter().all(|note| (1..=lines).contains(&(note.line as usize)))),
        Err(note) => assert!((1..=lines).contains(&(note.line as usize)), "{note}"),
    }
    perform(events, document);
});

fn perform(events: &[u8], document: &[u8]) {
    let mut now = Instant::from_unix_seconds(1);
    let mut script = Script::new(call(), plan());
    let (mut last, mut ended) = (Id(0), false);
    let mut out = Vec::new();
    script.start(now, &mut out);
    for event in events.iter().take(200) {
        happen(&mut script, &mut now, *event, last, document, &mut out);
        look(&mut out, &mut last, &mut ended);
    }
    script.handle_hangup(now, &mut out);
    look(&mut out, &mut last, &mut ended);
    script.expire(script.deadline(), &mut out);
    look(&mut out, &mut last, &mut ended);
    assert!(ended && script.is_ended());
}

fn look(out: &mut Vec<Effect>, last: &mut Id, ended: &mut bool) {
    for effect in out.drain(..) {
        assert!(!*ended, "after the end: {effect:?}");
        match effect {
            Effect::Fetch { id, .. } | Effect::Prompt { id, .. } | Effect::Record { id, .. } => *last = id,
            Effect::JoinConference { id, .. }
            | Effect::Enqueue { id, .. }
            | Effect::SendMessage { id, .. } => *last = id,
            Effect::Refer { id, .. } | Effect::StartStream { id, .. } => *last = id,
            Effect::Dial { legs, .. } => *last = legs.last().map_or(*last, |leg| leg.id),
            Effect::Ended(_) => *ended = true,
            _ => {}
        }
    }
}

fn happen(script: &mut Script, now: &mut Instant, event: u8, id: Id, document: &[u8], out: &mut Vec<Effect>) {
    let recorded = || Recorded {
        sid: "RE1".into(),
        url: "http://b/r".into(),
        public_url: None,
        duration: Duration::from_secs(1),
    };
    *now = *now + Duration::from_millis(100);
    match event % 24 {
        0 => {
            *now = script.deadline().min(*now + Duration::from_secs(100_000));
            script.expire(*now, out);
        }
        1 => {
            let answer = FetchResponse { status: 200, body: document.to_vec(), ..FetchResponse::default() };
            script.handle_fetched(*now, id, Ok(answer), out);
        }
        2 => script.handle_answered(*now, out),
        3 => script.handle_prompt(*now, id, None, out),
        4 => script.handle_digit(*now, '1', out),
        5 => script.handle_digit(*now, '#', out),
        6 => script.handle_digit(*now, '*', out),
        7 => script.handle_recorded(*now, id, Ok(recorded()), out),
        8 => script.handle_leg(*now, id, LegEvent::Started { sid: "CA2".into() }, out),
        9 => script.handle_leg(*now, id, LegEvent::Ringing, out),
        10 => script.handle_leg(*now, id, LegEvent::Answered, out),
        11 => script.handle_leg(*now, id, LegEvent::Screened { accepted: true }, out),
        12 => script.handle_leg(*now, id, LegEvent::Screened { accepted: false }, out),
        13 => script.handle_leg(*now, id, LegEvent::Ended { recording: Some(recorded()) }, out),
        14 => script.handle_conference(*now, id, ConferenceEvent::Joined { sid: "CF1".into() }, out),
        15 => script.handle_conference(*now, id, ConferenceEvent::Left { recording: None }, out),
        16 => script.handle_queue(*now, id, QueueEvent::Bridged, out),
        17 => script.handle_queue(*now, id, QueueEvent::Left(QueueResult::Bridged), out),
        18 => script.handle_stream(*now, id, StreamEvent::Ended, out),
        19 => script.handle_referred(*now, id, 202, out),
        20 => script.handle_speech(*now, Speech { text: "a".into(), is_final: false, confidence: None }, out),
        21 => script.handle_fetched(
            *now,
            id,
            Ok(FetchResponse { status: 500, ..FetchResponse::default() }),
            out,
        ),
        22 => script.redirect(*now, Start::Document(document.to_vec()), out),
        _ => script.hang_up(*now, out),
    }
}

fn call() -> Call {
    Call {
        sid: "CA1".into(),
        account_sid: "AC1".into(),
        from: "+1".into(),
        to: "+2".into(),
        direction: Direction::Inbound,
        caller_name: None,
        forwarded_from: None,
        parent_sid: None,
        api_version: "2012-04-24".into(),
        extra: Vec::new(),
        answered: false,
    }
}

fn plan() -> Plan {
    Plan {
        role: Role::Call,
        start: Start::Url(Target { url: "http://a/b".into(), method: Method::Get }),
        fallback: None,
        status: None,
        answer_on_bridge: false,
        time_limit: None,
    }
}
