//! Speech input: what a caller says becomes words, by a program or a web service; and recordings become text.

use std::path::Path;
use std::time::Duration;

use net::clock::Clock;
use store::rest::types::{Recording, Transcription};

use super::app::App;
use super::caller::Caller;
use super::nothing_left;
use super::record::{Voice, rows};
use crate::place::Place;
use crate::until;

const ENGINE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/live/voice/engine.sh");

pub(super) fn by_command() -> String {
    format!("recogniser = [\"/bin/sh\", \"{ENGINE}\", \"{{language}}\", \"{{hints}}\"]\n")
}

const WORDS: &str = "<Response><Gather input='speech' action='/heard' partialResultCallback='/partial' \
    language='en-GB' hints='yes,no' speechTimeout='1' timeout='2'/><Redirect>/silence</Redirect></Response>";
const PAUSE: &str = "<Response><Pause length='60'/></Response>";

#[test]
fn speech_is_recognised_while_it_is_received() {
    let app = App::new(&[("/", WORDS), ("/heard", PAUSE), ("/partial", "")]);
    let place = Place::new(&app.voice("/", &by_command()));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    until("the words are awaited", || super::record::is_recording(&node));
    let mut voice = Voice::new(&caller, remote);
    voice.silence(300);
    // Longer than the time-out for silence.
    voice.tone(400.0, 2_500);
    let partial = until("a word is told of", || app.asked_for("/partial"));
    assert_eq!((&*partial["UnstableSpeechResult"], &*partial["SequenceNumber"]), ("one", "0"));
    assert!(app.asked_for("/heard").is_none());
    voice.silence(1_300);
    let results = until("all words are told of", || app.asked_for("/heard"));
    assert_eq!((&*results["SpeechResult"], &*results["Confidence"]), ("one two en-GB yes,no", "0.900"));
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_web_service_gets_the_utterance_as_a_file() {
    const SERVICE: &str = "/understand";
    let app = App::new(&[
        ("/", WORDS),
        ("/heard", PAUSE),
        ("/partial", ""),
        (SERVICE, "{\"text\": \"seven\", \"confidence\": 0.5}"),
    ]);
    let service = format!("recogniser = [\"http://{}/understand\"]\n", app.address);
    let place = Place::new(&app.voice("/", &service));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    until("the words are awaited", || super::record::is_recording(&node));
    let mut voice = Voice::new(&caller, remote);
    voice.tone(400.0, 600);
    voice.silence(1_300);
    let results = until("the word is told of", || app.asked_for("/heard"));
    assert_eq!((&*results["SpeechResult"], &*results["Confidence"]), ("seven", "0.500"));
    let sent = app.asked_for(SERVICE).unwrap();
    assert!(sent.keys().any(|key| key.starts_with("RIFF")), "a WAV file is sent");
    assert_eq!((&*sent["language"], &*sent["hints"]), ("en-GB", "yes,no"));
    assert!(app.asked_for("/partial").is_none());
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    node.stop();
}

/// Neither without a configured recogniser, nor with one whose program does not exist.
#[test]
fn gather_without_a_recogniser_has_no_speech_result() {
    for recogniser in ["", "recogniser = [\"/nothing/there\"]\n"] {
        let app = App::new(&[("/", WORDS), ("/silence", PAUSE)]);
        let place = Place::new(&app.voice("/", recogniser));
        let mut node = place.start();
        let mut caller = Caller::new(&place);
        let (mut dialog, remote) = caller.call();
        until("the words are awaited", || super::record::is_recording(&node));
        Voice::new(&caller, remote).tone(400.0, 600);
        until("the document goes on", || app.asked_for("/silence"));
        assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
        nothing_left(&node, 1);
        node.stop();
    }
}

#[test]
fn a_recogniser_ends_with_the_call() {
    let app = App::new(&[("/", WORDS)]);
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let engine = folder.path().join("engine");
    std::fs::write(&engine, format!("echo $$ > {}\nexec sleep 600\n", pid.display())).unwrap();
    let recogniser = format!("recogniser = [\"/bin/sh\", \"{}\"]\n", engine.display());
    let place = Place::new(&app.voice("/", &recogniser));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    until("the words are awaited", || super::record::is_recording(&node));
    Voice::new(&caller, remote).tone(400.0, 600);
    let pid = until("the program runs", || {
        std::fs::read_to_string(&pid).ok().and_then(|pid| pid.trim().parse::<u32>().ok())
    });
    let process = format!("/proc/{pid}");
    assert!(Path::new(&process).exists());
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    let clock = Clock::new();
    let hung_up = clock.now();
    until("the process is gone", || (!Path::new(&process).exists()).then_some(()));
    // Before the ten seconds of one whose last word is awaited.
    assert!(clock.now().since(hung_up) < Duration::from_secs(8));
    nothing_left(&node, 1);
    node.stop();
}

#[test]
fn a_recording_becomes_text() {
    let app = App::new(&[
        (
            "/",
            "<Response><Record action='/recorded' timeout='1' transcribe='true' transcribeCallback='/text'/></Response>",
        ),
        ("/recorded", PAUSE),
        ("/text", ""),
    ]);
    let place = Place::new(&app.voice("/", &by_command()));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    until("it is recorded", || super::record::is_recording(&node));
    Voice::new(&caller, remote).tone(400.0, 1_500);
    let recorded = until("the recording is told of", || app.asked_for("/recorded"));
    let text = until("the text is told of", || app.asked_for("/text"));
    assert_eq!((&*text["TranscriptionText"], &*text["TranscriptionStatus"]), ("one two", "completed"));
    for name in ["RecordingSid", "RecordingUrl", "CallSid", "AccountSid"] {
        assert_eq!(text[name], recorded[name], "{name}");
    }
    assert!(text["TranscriptionUrl"].ends_with(&text["TranscriptionSid"]));
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    let recording = until("the recording is in the record", || rows::<Recording>(&place).pop());
    assert_eq!(recording.common.sid, recorded["RecordingSid"]);
    assert_eq!((&*recording.call_sid, &*recording.status), (&*recorded["CallSid"], "completed"));
    assert_eq!((&*recording.source, recording.channels), ("RecordVerb", 1));
    let seconds = recording.duration.map(|seconds| seconds.to_string());
    assert_eq!(seconds, Some(recorded["RecordingDuration"].clone()));
    let transcription = until("the text is in the record", || {
        rows::<Transcription>(&place).pop().filter(|row| row.status == "completed")
    });
    assert_eq!(transcription.common.sid, text["TranscriptionSid"]);
    assert_eq!(transcription.text, "one two");
    assert_eq!(transcription.recording_sid, recorded["RecordingSid"]);
    node.stop();
}
