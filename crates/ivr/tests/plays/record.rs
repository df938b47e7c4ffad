//! Record: every attribute, every way it ends.

use crate::verbs::performs;

const RECORDED: &str = "RecordingUrl=http://belfry/RE1 RecordingSid=RE1 RecordingDuration=7 \
                        PublicRecordingUrl=http://belfry/RE1.wav";

#[test]
fn a_finish_key_ends_the_recording_and_is_sent_to_the_action() {
    performs(
        "<Record action='/r' method='GET' timeout='4' maxLength='20' finishOnKey='12' playBeep='false' trim='trim-silence'/>",
        &format!(
            "> listen digits
             > record silence 4s at most 20s trim
             caller: presses 3
             caller: presses 1
             > stop recording
             caller: presses 2
             media: recorded 7
             > stop listening
             > ask GET http://app/r {RECORDED} Digits=1
             caller: hangs up
             > end completed"
        ),
    );
}

#[test]
fn a_recording_for_a_mailbox_names_it() {
    performs(
        "<Record mailbox=' alice@example.org ' finishOnKey=''/>",
        &format!(
            "> record beep silence 5s at most 3600s for alice@example.org
             media: recorded 7
             > ask POST http://app/start {RECORDED} Digits=
             caller: hangs up
             > end completed"
        ),
    );
}

/// Twilio's and RestComm's default is `1234567890*#`.
#[test]
fn any_key_ends_a_recording_that_names_none() {
    for key in ['7', '*', '#'] {
        performs(
            "<Record action='/r'/>",
            &format!(
                "> listen digits
                 > record beep silence 5s at most 3600s
                 caller: presses {key}
                 > stop recording
                 media: recorded 7
                 > stop listening
                 > ask POST http://app/r {RECORDED} Digits={key}
                 caller: hangs up
                 > end completed"
            ),
        );
    }
}

#[test]
fn silence_ends_the_recording_and_the_current_document_is_requested() {
    performs(
        "<Record finishOnKey='-1' transcribeCallback='/t'/>",
        &format!(
            "> record beep silence 5s at most 3600s
             media: recorded 7
             > transcribe RE1 for http://app/t
             > ask POST http://app/start {RECORDED} Digits=
             caller: hangs up
             > end completed"
        ),
    );
}

#[test]
fn a_silent_recording_goes_on_with_the_next_verb() {
    performs(
        "<Record transcribe='true' recordingStatusCallback='/s' recordingStatusCallbackMethod='GET' \
         recordingStatusCallbackEvent='in-progress completed absent'/><Hangup/>",
        "> listen digits
         > record beep silence 5s at most 3600s told GET http://app/s in-progress+completed+absent
         media: recorded 0
         > stop listening
         > hang up
         > end completed",
    );
}

#[test]
fn a_full_disk_is_noted_and_the_call_goes_on() {
    performs(
        "<Record finishOnKey=''/><Say>sorry</Say>",
        r#"> record beep silence 5s at most 3600s
           media: full
           > note 13600: no space left
           > play Man/en "sorry"
           caller: hangs up
           > stop playing
           > end completed"#,
    );
}

#[test]
fn a_recording_that_never_ends_is_stopped() {
    performs(
        "<Record maxLength='10' finishOnKey=''/><Hangup/>",
        "> record beep silence 5s at most 10s
         deadline: passes
         > stop recording
         > note 13600: the recording did not end
         > hang up
         > end completed",
    );
}

/// The voice mail's usual end.
#[test]
fn a_hang_up_ends_the_recording_and_the_action_is_told() {
    performs(
        "<Record action='/mail' recordingStatusCallback='/s'/>",
        &format!(
            "> listen digits
             > record beep silence 5s at most 3600s told POST http://app/s completed
             caller: hangs up
             > stop recording
             > stop listening
             caller: hangs up
             media: recorded 7
             > tell POST http://app/mail {RECORDED} Digits=hangup
             > end completed"
        ),
    );
}

#[test]
fn a_hang_up_does_not_wait_for_a_file_that_never_comes() {
    performs(
        "<Record finishOnKey=''/>",
        "> record beep silence 5s at most 3600s
         caller: hangs up
         > stop recording
         wait: 5000
         > note 13600: the recording did not end
         > end completed
         media: recorded 7",
    );
}
