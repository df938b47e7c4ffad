//! Gather: every attribute, barge-in, and events that are not input.

use ivr::limits;

use crate::play;
use crate::verbs::performs;

/// The menu of RestComm's tutorial: `numDigits="1"` completes the input with its first key, and the prompt stops.
#[test]
fn a_single_digit_stops_the_prompt_and_requests_the_action_at_once() {
    performs(
        "<Gather action='/gather.php' numDigits='1'><Say>Press a digit</Say></Gather><Say>None</Say>",
        r#"> listen digits
           > play Man/en "Press a digit"
           wait: 2000
           caller: presses 5
           > stop playing
           > stop listening
           > ask POST http://app/gather.php Digits=5
           media: over
           app: <Say>You pressed five</Say>
           > play Man/en "You pressed five"
           media: late
           caller: hangs up
           > stop playing
           > end completed"#,
    );
}

/// `timeout` begins when the nested prompts are over.
#[test]
fn without_input_the_next_verb_follows_after_the_prompt_and_the_timeout() {
    performs(
        "<Gather timeout='3'><Play>a.wav</Play><Pause length='2'/><Say loop='2'>b</Say></Gather><Say>None</Say>",
        r#"> listen digits
           > play http://app/a.wav (2s) (Man/en "b")x2
           wait: 60000
           media: over
           wait: 2999
           wait: 1
           > stop listening
           > play Man/en "None"
           caller: presses 1
           caller: hangs up
           > stop playing
           > end completed"#,
    );
}

/// `timeout` is the wait for the next key, not for all keys.
#[test]
fn the_timeout_runs_anew_from_each_key() {
    performs(
        "<Gather method='GET'/>",
        "> listen digits
         wait: 4000
         caller: presses 1
         wait: 4000
         caller: presses 2
         wait: 4999
         wait: 1
         > stop listening
         > ask GET http://app/start Digits=12
         caller: hangs up
         > end completed",
    );
}

/// The caller has our answer, and its first key is here before its ACK.
#[test]
fn keys_that_overtake_the_ack_are_input_of_a_gather_that_begins_with_it() {
    let of = |verbs: &str, then: &str| {
        play(&format!(
            "caller: calls
             > ask POST http://app/start
             app: {verbs}
             > answer
             caller: presses 5
             caller: answers
             {then}
             > end completed"
        ));
    };
    of(
        "<Gather numDigits='1'/>",
        "> listen digits
         > stop listening
         > ask POST http://app/start Digits=5
         caller: hangs up",
    );
    // Before a Gather that begins later, they are not.
    of(
        "<Say>a</Say><Gather numDigits='1'/>",
        "> play Man/en \"a\"
         caller: hangs up
         > stop playing",
    );
}

/// `finishOnKey` is reported apart, as `FinishedOnKey`.
#[test]
fn finish_on_key_ends_and_is_not_part() {
    performs(
        "<Gather finishOnKey='#*' action='a'/>",
        "> listen digits
         caller: presses 12*3
         > stop listening
         > ask POST http://app/a Digits=12 FinishedOnKey=*
         caller: hangs up
         > end completed",
    );
    // Empty or -1: every key counts.
    for none in ["", "-1"] {
        performs(
            &format!("<Gather finishOnKey='{none}' numDigits='3'/>"),
            "> listen digits
             caller: presses 1#*
             > stop listening
             > ask POST http://app/start Digits=1#*
             caller: hangs up
             > end completed",
        );
    }
}

/// Only `finishOnKey` was pressed: without digits the next verb follows.
#[test]
fn the_finishing_key_alone_is_no_input() {
    performs(
        "<Gather/><Hangup/>",
        "> listen digits
         caller: presses #
         > stop listening
         > hang up
         > end completed",
    );
}

/// Twilio's `actionOnEmptyResult`: the application learns of the silence.
#[test]
fn action_on_empty_result_requests_the_action_without_input() {
    performs(
        "<Gather timeout='0' actionOnEmptyResult='true'/>",
        "> listen digits
         wait: 0
         > stop listening
         > ask POST http://app/start Digits=
         caller: hangs up
         > end completed",
    );
}

/// RestComm's `startInputKey`: keys before one of them are ignored.
#[test]
fn input_begins_with_a_start_key_only() {
    performs(
        "<Gather startInputKey='*' numDigits='3'/>",
        "> listen digits
         caller: presses 12*34
         > stop listening
         > ask POST http://app/start Digits=*34
         caller: hangs up
         > end completed",
    );
}

/// `bargeIn="false"`: keys count while the prompt plays, and are answered when it is over.
#[test]
fn without_barge_in_the_prompt_is_heard_to_its_end() {
    performs(
        "<Gather bargeIn='false' numDigits='2'><Say>a</Say></Gather>",
        r#"> listen digits
           > play Man/en "a"
           caller: presses 123
           media: over
           > stop listening
           > ask POST http://app/start Digits=12
           caller: hangs up
           > end completed"#,
    );
}

/// A sound that is missing is noted; the caller can still press keys.
#[test]
fn a_prompt_that_cannot_be_played_still_gathers() {
    performs(
        "<Gather><Play>a.wav</Play><Play>mailto:x</Play></Gather>",
        "> listen digits
         > note 11100: mailto:x is no URL of HTTP
         > play http://app/a.wav
         media: broken
         > note 13420: no such file
         caller: presses 1#
         > stop listening
         > ask POST http://app/start Digits=1 FinishedOnKey=#
         caller: hangs up
         > end completed",
    );
}

/// `partialResultCallback` gets `UnstableSpeechResult` with a number; `action` gets `SpeechResult` and `Confidence`.
#[test]
fn speech_results_carry_confidence_and_partial_ones_come_first() {
    performs(
        "<Gather input='dtmf speech' language='de-DE' hints='ja, nein' speechTimeout='2' maxSpeechTime='9' \
         partialResultCallback='/part' partialResultCallbackMethod='GET' action='/a'><Say>a</Say></Gather>",
        r#"> listen digits speech de-DE ["ja", "nein"] 2s 9s partial
           > play Man/en "a"
           caller: mumbles na
           > stop playing
           > tell GET http://app/part UnstableSpeechResult=na SequenceNumber=0
           caller: mumbles nein d
           > tell GET http://app/part UnstableSpeechResult=nein d SequenceNumber=1
           caller: says nein danke
           > stop listening
           > ask POST http://app/a SpeechResult=nein danke Confidence=0.875
           caller: hangs up
           > end completed"#,
    );
}

/// A recogniser that never finishes does not cost the caller the words it had found.
#[test]
fn a_partial_result_counts_when_no_final_one_comes() {
    performs(
        "<Gather input='speech'/>",
        r#"> listen speech en-US [] auto 60s
           caller: presses 1
           caller: mumbles yes
           deadline: passes
           > stop listening
           > ask POST http://app/start SpeechResult=yes Confidence=0.875
           caller: hangs up
           > end completed"#,
    );
}

/// Speech under way is recognised to its end, at most `maxSpeechTime` and the wait for its result.
#[test]
fn the_timeout_does_not_run_while_the_caller_speaks() {
    performs(
        "<Gather input='speech' timeout='3' maxSpeechTime='9'/><Pause length='5'/>",
        "> listen speech en-US [] auto 9s
         wait: 2999
         caller: starts to speak
         wait: 20000
         caller: trails off
         wait: 2999
         wait: 1
         > stop listening
         caller: hangs up
         > end completed",
    );
    // The recogniser never returns a result.
    performs(
        "<Gather input='speech' timeout='3' maxSpeechTime='9'/><Pause length='5'/>",
        "> listen speech en-US [] auto 9s
         caller: starts to speak
         wait: 23999
         wait: 1
         > stop listening
         caller: hangs up
         > end completed",
    );
}

/// Twilio has no type-ahead: keys pressed before the verb begins are dropped.
#[test]
fn keys_before_a_gather_are_not_its_input() {
    performs(
        "<Say>a</Say><Gather numDigits='1'/>",
        r#"> play Man/en "a"
           caller: presses 7
           media: over
           > listen digits
           caller: presses 8
           > stop listening
           > ask POST http://app/start Digits=8
           caller: hangs up
           > end completed"#,
    );
}

/// A caller can press keys for hours: digits beyond the limit are dropped.
#[test]
fn input_without_end_is_cut_off() {
    let keys = "7".repeat(limits::GATHERED_DIGITS);
    performs(
        "<Gather/>",
        &format!(
            "> listen digits
             caller: presses {keys}89#
             > stop listening
             > ask POST http://app/start Digits={keys} FinishedOnKey=#
             caller: hangs up
             > end completed"
        ),
    );
    let words = "é".repeat(limits::GATHERED_SPEECH);
    performs(
        "<Gather input='speech'/>",
        &format!(
            "> listen speech en-US [] auto 60s
             caller: says {words}x
             > stop listening
             > ask POST http://app/start SpeechResult={words} Confidence=0.875
             caller: hangs up
             > end completed"
        ),
    );
}
