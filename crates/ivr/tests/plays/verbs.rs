//! Say, Play, Pause, Redirect, Reject, Hangup, Sms, Email, Refer, Echo, streams: a play each.

use std::time::Duration;

use ivr::script::PerformedVerb;

use crate::world::{call, perform, plan};
use crate::{Play, play};

/// A call that is answered and performs these verbs.
pub(crate) fn performs(verbs: &str, text: &str) -> Play {
    play(&format!(
        "caller: calls
         > ask POST http://app/start
         app: {verbs}
         > answer
         caller: answers
         {text}"
    ))
}

/// TwiML: a document without a last verb hangs up. The caller is answered before the first sound.
#[test]
fn say_speaks_and_the_call_ends_with_the_document() {
    performs(
        "<Say voice='woman' language='fr' loop='2'>Bonjour</Say><Say>Hi</Say>",
        r#"> play (Woman/fr "Bonjour")x2
           media: over
           > play Man/en "Hi"
           media: over
           > hang up
           > end completed"#,
    );
}

/// Voices of other services: the engines here have a man and a woman. The language is the voice's, unless the document says another.
#[test]
fn a_voice_of_another_service_is_a_man_or_a_woman_and_has_its_language() {
    performs(
        "<Say voice='Polly.Joanna'>a</Say><Say voice='Polly.Hans-Neural'>b</Say>\
         <Say voice='Google.fr-FR-Wavenet-C'>c</Say><Say voice='Polly.Matthew' language='en-GB'>d</Say>",
        r#"> play Woman/en-US "a"
           media: over
           > play Man/de-DE "b"
           media: over
           > play Woman/fr-FR "c"
           media: over
           > play Man/en-GB "d"
           media: over
           > hang up
           > end completed"#,
    );
}

/// A call that performs a document which ends by itself 0.5 s after its last sound.
fn pauses(document: &str, text: &str) {
    let mut stage = Play::new(call(), plan());
    stage.script.set_end_pause(Duration::from_millis(500));
    let text = format!(
        "caller: calls
         > ask POST http://app/start
         app: {document}
         > answer
         caller: answers
         {text}"
    );
    perform(&mut stage, &text);
}

/// The end pause of the configuration: the phone's jitter buffer still has the last packets when the document ends.
#[test]
fn a_pause_follows_the_last_sound_of_a_document() {
    for document in ["<Say>a</Say>", "<Say>a</Say><Hangup/><Say>b</Say>", "<Say>a</Say><Reject/>"] {
        pauses(
            document,
            r#"> play Man/en "a"
               media: over
               wait: 499
               wait: 1
               > hang up
               > end completed"#,
        );
    }
    pauses(
        "<Play>b.wav</Play>",
        "> play http://app/b.wav
         media: over
         wait: 400
         caller: hangs up
         > end completed",
    );
}

/// The end pause counts from the sound, so that a `<Pause>` before `<Hangup>` is not longer than written.
#[test]
fn a_pause_of_the_document_is_part_of_the_last_one() {
    pauses(
        "<Say>a</Say><Pause length='1'/>",
        r#"> play Man/en "a"
           media: over
           wait: 1000
           > hang up
           > end completed"#,
    );
    pauses(
        "<Gather timeout='3'><Say>a</Say></Gather>",
        r#"> listen digits
           > play Man/en "a"
           media: over
           wait: 3000
           > stop listening
           > hang up
           > end completed"#,
    );
}

/// Without sound, or after one that failed, the call ends at once.
#[test]
fn no_pause_follows_where_no_sound_came_to_its_end() {
    pauses(
        "<Hangup/>",
        "> hang up
         > end completed",
    );
    pauses(
        "<Play>gone.wav</Play>",
        "> play http://app/gone.wav
         media: broken
         > note 13420: no such file
         > hang up
         > end completed",
    );
    pauses(
        "<Gather numDigits='1' action='/next'><Say>a</Say></Gather>",
        r#"> listen digits
           > play Man/en "a"
           caller: presses 5
           > stop playing
           > stop listening
           > ask POST http://app/next Digits=5
           app: <Hangup/>
           > hang up
           > end completed"#,
    );
}

/// REST requests and hang-ups end the call at once, whatever the document has played.
#[test]
fn commands_do_not_wait_for_the_end_pause() {
    pauses(
        "<Say>a</Say>",
        r#"> play Man/en "a"
           media: over
           wait: 100
           rest: completes
           > hang up
           > end completed"#,
    );
    pauses(
        "<Say>a</Say>",
        r#"> play Man/en "a"
           media: over
           wait: 100
           rest: redirects http://app/b
           > ask POST http://app/b
           app: <Pause/>
           wait: 1000
           > hang up
           > end completed"#,
    );
}

/// SSML inside `<Say>`: `<break>` and sentences become silence, `<say-as>` spells, other elements are their text.
#[test]
fn speech_markup_is_text_and_pauses() {
    performs(
        "<Say>One<break time='2s'/>two <emphasis>three</emphasis> <say-as interpret-as='digits'>45</say-as>\
         <p>six</p><sub alias='seven'>7</sub> <lang xml:lang='de'>acht</lang><break strength='none'/></Say>",
        r#"> play Man/en "One" (2s) Man/en "two three 4 5six" (0.7s) Man/en "seven" Man/de "acht"
           caller: hangs up
           > stop playing
           > end completed"#,
    );
}

/// `<Play>`: a URL relative to the document (RFC 3986 §5), `digits` with `w` and `W`, `loop="0"` until stopped.
#[test]
fn play_takes_relative_urls_digits_and_loops() {
    performs(
        "<Play loop='0'>a/b.wav?c</Play><Play digits='1w2W#'/><Play>ftp://a/b.wav</Play><Play>file:hello.wav</Play><Play>/gone.wav</Play>",
        "> play (http://app/a/b.wav?c) for ever
         media: over
         > play keys 1 (0.5s) keys 2 (1s) keys #
         media: over
         > note 11100: ftp://a/b.wav is no URL of HTTP
         > play file:///hello.wav
         media: over
         > play http://app/gone.wav
         media: broken
         > note 13420: no such file
         > hang up
         > end completed",
    );
}

/// Twilio: a `<Pause>` before any other verb does not answer; the caller hears ringing (180).
#[test]
fn pause_waits_and_lets_the_caller_hear_ringing_first() {
    play(
        r#"caller: calls
           > ask POST http://app/start
           app: <Pause length="3"/><Say>a</Say><Pause/>
           > ring
           wait: 2999
           wait: 1
           > answer
           caller: answers
           > play Man/en "a"
           media: over
           wait: 999
           wait: 1
           > hang up
           > end completed"#,
    );
}

/// Twilio: `<Redirect>` needs no answered call, and verbs behind it are unreachable.
#[test]
fn redirect_goes_on_with_another_document_before_it_answers() {
    play(
        r#"caller: calls
           > ask POST http://app/start
           app: <Redirect method="GET">../b/?x=1</Redirect><Say>never</Say>
           > ask GET http://app/b/?x=1
           app: <Redirect/>
           > ask POST http://app/b/?x=1
           app: moved http://other/c/d <Redirect>e</Redirect>
           > ask POST http://other/c/e
           app: <Hangup/>
           > answer
           caller: answers
           > hang up
           > end completed"#,
    );
}

/// Twilio: `<Reject>` refuses only as the first verb; after an answer it can only hang up.
#[test]
fn reject_refuses_without_an_answer_and_hangs_up_after_one() {
    play(
        "caller: calls
         > ask POST http://app/start
         app: <Reject reason='busy'/>
         > refuse Busy
         > end busy",
    );
    play(
        "caller: calls
         > ask POST http://app/start
         app: <Reject/>
         > refuse Rejected
         > end no-answer",
    );
    performs(
        "<Say>a</Say><Reject/>",
        r#"> play Man/en "a"
           media: over
           > hang up
           > end completed"#,
    );
}

/// Twilio: an empty `<Response>` is answered, so that the caller is not refused by accident.
#[test]
fn an_empty_document_answers_and_hangs_up() {
    play(
        "caller: calls
         > ask POST http://app/start
         app: <!-- nothing -->
         > answer
         caller: answers
         > hang up
         > end completed",
    );
}

/// `<Sms>`: without `action` the next verb follows at once; with it the result is a document's request.
#[test]
fn sms_is_sent_and_awaited_only_for_its_action() {
    performs(
        "<Sms>a</Sms><Message to='+1' from='+2' statusCallback='/s'><Body>b</Body></Message>\
         <Sms action='/sent' method='GET'>c</Sms>",
        "> message +1234 to +1555: a (-)
         > message +2 to +1: b (http://app/s)
         > message +1234 to +1555: c (-)
         rest: sent
         > ask GET http://app/sent MessageSid=SM1 MessageStatus=sent SmsSid=SM1 SmsStatus=sent
         caller: hangs up
         > end completed",
    );
    performs(
        "<Sms action='/sent'>c</Sms>",
        "> message +1234 to +1555: c (-)
         rest: unsent
         > note 14100: nobody there
         > ask POST http://app/sent MessageStatus=failed SmsStatus=failed
         caller: hangs up
         > end completed",
    );
    performs(
        "<Sms action='/sent'>c</Sms>",
        "> message +1234 to +1555: c (-)
         deadline: passes
         > note 14100: the message was not taken in time
         > ask POST http://app/sent MessageStatus=failed SmsStatus=failed
         rest: sent
         caller: hangs up
         > end completed",
    );
}

/// RestComm's `<Email>`: several recipients, and no wait for the mail server.
#[test]
fn email_is_handed_over() {
    performs(
        "<Email to='a@b, c@d' from='e@f' cc='g@h' bcc='i@j' subject='k'>l</Email><Pause/>",
        r#"> mail e@f to ["a@b", "c@d"] cc ["g@h"] bcc ["i@j"] k: l
           rest: unsent
           > note 14100: nobody there
           deadline: passes
           > hang up
           > end completed"#,
    );
}

/// `<Refer>` (RFC 3515): a REFER without a final answer counts as 408.
#[test]
fn refer_transfers_the_call_and_tells_the_action() {
    performs(
        "<Refer action='/r'><Sip>sip:a@b</Sip></Refer>",
        "> refer sip:a@b
         caller: referred 202
         > ask POST http://app/r ReferCallStatus=in-progress ReferSipResponseCode=202
         caller: hangs up
         > end completed",
    );
    performs(
        "<Refer><Sip>sip:a@b</Sip></Refer><Say>b</Say>",
        r#"> refer sip:a@b
           caller: referred 603
           > note 13200: the transfer was answered 603
           > play Man/en "b"
           caller: referred 603
           caller: hangs up
           > stop playing
           > end completed"#,
    );
    performs(
        "<Refer action='r'><Sip>sip:a@b</Sip></Refer>",
        "> refer sip:a@b
         deadline: passes
         > note 13200: the transfer was answered 408
         > ask POST http://app/r ReferCallStatus=failed ReferSipResponseCode=408
         caller: hangs up
         > end completed",
    );
}

/// `<Echo>` has no end of its own, so verbs behind it are never performed.
#[test]
fn echo_lasts_until_the_call_ends() {
    performs(
        "<Echo/>",
        "> echo true
         caller: presses 1
         caller: hangs up
         > echo false
         > end completed",
    );
    performs(
        "<Echo/>",
        "> echo true
         deadline: passes
         > echo false
         > hang up
         > end completed",
    );
}

/// `<Start><Stream>` runs beside the verbs, `<Connect><Stream>` is a verb that waits for its end.
#[test]
fn streams_start_stop_and_connect() {
    performs(
        "<Start><Stream name='n' url='wss://s/a' track='both_tracks' statusCallback='/st' statusCallbackMethod='GET'>\
         <Parameter name='p' value='v'/></Stream></Start><Pause/><Stop><Stream name='x'/></Stop>\
         <Stop><Stream name='n'/></Stop><Connect action='/c' method='GET'><Stream url='ws://s/b' track='outbound_track'/></Connect>",
        r#"> stream "n" to wss://s/a Both [("p", "v")] two way false
           stream: starts
           > tell GET http://app/st StreamEvent=stream-started StreamSid=MZ1 StreamName=n Timestamp=Sat, 21 Nov 2026 12:22:33 +0000
           deadline: passes
           > stop stream
           > tell GET http://app/st StreamEvent=stream-stopped StreamSid=MZ1 StreamName=n Timestamp=Sat, 21 Nov 2026 12:22:34 +0000
           > stream "" to ws://s/b Outbound [] two way true
           stream: starts
           stream: ends
           > ask GET http://app/c StreamSid=MZ1
           caller: hangs up
           > end completed"#,
    );
}

/// A WebSocket that fails is no reason to end the call: it is noted, and told as `stream-error`.
#[test]
fn a_stream_that_breaks_is_reported_and_the_call_goes_on() {
    performs(
        "<Connect><Stream url='ws://s/b' statusCallback='/st'/></Connect><Say>sorry</Say>",
        r#"> stream "" to ws://s/b Inbound [] two way true
           stream: breaks
           > tell POST http://app/st StreamEvent=stream-error StreamError=refused Timestamp=Sat, 21 Nov 2026 12:22:33 +0000
           > note 31900: refused
           > play Man/en "sorry"
           caller: hangs up
           > stop playing
           > end completed"#,
    );
}

/// For traces: each verb with its time, also one that takes none and one that the caller's hangup cuts off.
#[test]
fn the_log_of_verbs_has_each_with_its_time() {
    let mut stage = Play::new(call(), plan());
    stage.script.verb_log().turn_on();
    let text = r#"caller: calls
         > ask POST http://app/start
         app: <Say>a</Say><Stop><Stream name="x"/></Stop><Pause length="2"/><Redirect>/next</Redirect>
         > answer
         caller: answers
         > play Man/en "a"
         media: over
         wait: 2000
         > ask POST http://app/next
         app: <Echo/>
         > echo true
         wait: 500
         caller: hangs up
         > echo false
         > end completed"#;
    perform(&mut stage, text);
    let (performed, missed) = stage.script.verb_log().take();
    let of = |performed: &PerformedVerb| (performed.name, performed.end.since(performed.begin).as_millis());
    let performed: Vec<_> = performed.iter().map(of).collect();
    let expected = [("Say", 0), ("Stop", 0), ("Pause", 2_000), ("Redirect", 0), ("Echo", 500)];
    assert_eq!((&performed[..], missed), (&expected[..], 0));
}
