//! Record and speech input: what a caller says becomes a file, or words.

use std::collections::HashMap;
use std::f64::consts::TAU;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use media::codec::alaw_encode;
use media::rtp::Header as RtpHeader;
use media::tone::tone;
use media::wav::Wav;
use net::clock::Clock;
use server::node::Node;
use store::rest::Resource;
use store::rest::types::{Notification, RestCall};

use super::app::App;
use super::caller::Caller;
use super::{nothing_left, sum};
use crate::place::Place;
use crate::until;

/// Sound of a caller, on its way in real time.
pub(super) struct Voice<'a> {
    caller: &'a Caller,
    to: SocketAddr,
    sequence: u16,
    timestamp: u32,
    clock: Clock,
    next: stdx::Instant,
}

impl<'a> Voice<'a> {
    pub(super) fn new(caller: &'a Caller, to: SocketAddr) -> Voice<'a> {
        let clock = Clock::new();
        Voice { caller, to, sequence: 1, timestamp: 160, clock, next: clock.now() }
    }

    fn say(&mut self, samples: &[i16]) {
        for frame in samples.chunks(160) {
            let payload: Vec<u8> = frame.iter().map(|sample| alaw_encode(*sample)).collect();
            let header = RtpHeader {
                marker: self.sequence == 1,
                payload_type: 8,
                sequence: self.sequence,
                timestamp: self.timestamp,
                ssrc: 0x0e05_384e,
            };
            let mut packet = Vec::new();
            header.write(&payload, &mut packet);
            self.caller.rtp.send_to(&packet, self.to).unwrap();
            self.sequence = self.sequence.wrapping_add(1);
            self.timestamp = self.timestamp.wrapping_add(160);
            self.next = self.next + Duration::from_millis(20);
            until("the next packet is due", || (self.clock.now() >= self.next).then_some(()));
        }
    }

    pub(super) fn tone(&mut self, frequency: f64, ms: u32) {
        self.say(&tone(frequency, 8_000, 8_000, ms));
    }

    pub(super) fn silence(&mut self, ms: u32) {
        self.say(&vec![0; 8 * ms as usize]);
    }
}

/// The share of this frequency in a piece, from 0 to 1 (Goertzel).
fn share(samples: &[i16], frequency: f64) -> f64 {
    let (mut one, mut two, mut energy) = (0.0, 0.0, 1.0);
    let turn = 2.0 * (TAU * frequency / 8_000.0).cos();
    for sample in samples {
        let sample = f64::from(*sample);
        energy += sample * sample;
        (one, two) = (sample + turn * one - two, one);
    }
    2.0 * (one * one + two * two - turn * one * two) / (energy * samples.len() as f64)
}

fn wav(place: &Place, form: &HashMap<String, String>) -> Wav {
    let path = place.path("data/recordings").join(format!("{}.wav", form["RecordingSid"]));
    Wav::parse(&std::fs::read(path).unwrap()).unwrap()
}

/// Names of files that are there.
fn recordings(place: &Place) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(place.path("data/recordings")) else { return Vec::new() };
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// All rows of a kind.
pub(super) fn rows<R: Resource>(place: &Place) -> Vec<R> {
    let record = rusqlite::Connection::open(place.database()).unwrap();
    let mut bodies = record.prepare("SELECT body FROM rest WHERE kind = ?1 ORDER BY id").unwrap();
    let bodies = bodies.query_map([R::KIND as u8], |row| row.get::<_, String>(0)).unwrap();
    bodies.map(|body| serde_json::from_str(&body.unwrap()).unwrap()).collect()
}

/// It is recorded, or heard.
pub(super) fn is_recording(node: &Node) -> Option<()> {
    (sum(node, |shard| shard.voice.recordings) > 0).then_some(())
}

#[test]
fn a_recording_has_the_audio_after_the_beep_at_its_time() {
    let app = App::new(&[
        (
            "/",
            "<Response><Record action='/recorded' finishOnKey='#' trim='trim-silence' timeout='9'/></Response>",
        ),
        ("/recorded", "<Response><Pause length='60'/></Response>"),
    ]);
    let place = Place::new(&app.voice("/", "public_url = \"http://pbx.example\"\n"));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (mut dialog, remote) = caller.call();
    caller.hear(5);
    until("the beep is over", || is_recording(&node));
    let mut voice = Voice::new(&caller, remote);
    voice.silence(700);
    voice.tone(400.0, 1_000);
    voice.silence(600);
    voice.tone(1_000.0, 1_000);
    voice.silence(500);
    caller.press('#', remote);
    let form = until("the recording is told of", || app.asked_for("/recorded"));
    assert_eq!(form["Digits"], "#");
    let (account, sid) = (&form["AccountSid"], &form["RecordingSid"]);
    let url = format!("http://pbx.example/restcomm/2012-04-24/Accounts/{account}/Recordings/{sid}.wav");
    assert_eq!(form["RecordingUrl"], url);
    assert_eq!(form["RecordingDuration"], "2");
    let wav = wav(&place, &form);
    assert_eq!((wav.rate, wav.channels), (8_000, 1));
    // 100 ms are kept before and behind.
    let start = wav.samples.iter().position(|sample| sample.unsigned_abs() > 2_000).unwrap();
    assert!(start <= 8 * 120, "{start}");
    let at = |ms: usize| &wav.samples[start + 8 * ms..start + 8 * (ms + 200)];
    assert!(share(at(100), 400.0) > 0.9, "{}", share(at(100), 400.0));
    assert!(share(at(700), 400.0) > 0.9 && share(at(700), 1_000.0) < 0.1);
    assert!(at(1_200).iter().all(|sample| sample.unsigned_abs() < 200), "silence in between is kept");
    assert!(share(at(1_700), 1_000.0) > 0.9 && share(at(2_200), 1_000.0) > 0.9);
    let ms = wav.samples.len() / 8;
    assert!((2_780..=2_860).contains(&ms), "{ms}");
    assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    nothing_left(&node, 1);
    assert_eq!(recordings(&place), [format!("{sid}.wav")]);
    node.stop();
}

#[test]
fn silence_ends_a_recording_and_so_does_its_length() {
    let app = App::new(&[
        (
            "/",
            "<Response><Record action='/silent' timeout='1' playBeep='false' trim='do-not-trim'/></Response>",
        ),
        (
            "/silent",
            "<Response><Record action='/long' maxLength='1' playBeep='false' timeout='5'/></Response>",
        ),
        ("/long", "<Response><Record timeout='1' action='/never'/><Redirect>/after</Redirect></Response>"),
        ("/after", "<Response><Hangup/></Response>"),
    ]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (_, remote) = caller.call();
    until("it is recorded", || is_recording(&node));
    let mut voice = Voice::new(&caller, remote);
    voice.tone(400.0, 600);
    let form = until("silence ends it", || app.asked_for("/silent"));
    assert_eq!(form["Digits"], "");
    let samples = wav(&place, &form).samples;
    assert!((8 * 1_500..8 * 2_400).contains(&samples.len()), "{}", samples.len());
    assert_eq!(form["RecordingDuration"], (samples.len() / 8_000).to_string());
    until("it is recorded", || is_recording(&node));
    let mut voice = Voice::new(&caller, remote);
    (voice.sequence, voice.timestamp) = (500, 500 * 160);
    voice.tone(400.0, 1_100);
    let form = until("its length ends it", || app.asked_for("/long"));
    assert_eq!(form["RecordingDuration"], "1");
    assert_eq!(wav(&place, &form).samples.len(), 8_000);
    // Nothing was said: the document goes on.
    until("the third is over", || app.asked_for("/after"));
    assert!(app.asked_for("/never").is_none());
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    nothing_left(&node, 1);
    assert_eq!(recordings(&place).len(), 2);
    node.stop();
}

#[test]
fn a_caller_that_hangs_up_leaves_a_complete_recording() {
    let app = App::new(&[
        ("/", "<Response><Record action='/recorded' recordingStatusCallback='/status'/></Response>"),
        ("/recorded", "<Response/>"),
        ("/status", ""),
    ]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut callers = [Caller::new(&place), Caller::new(&place)];
    let calls: Vec<_> = callers.iter_mut().map(Caller::call).collect();
    until("both are recorded", || (sum(&node, |shard| shard.voice.recordings) == 2).then_some(()));
    // The voice of one call, then of the other: each ends with its own words.
    for (index, (mut dialog, remote)) in calls.into_iter().enumerate() {
        let caller = &mut callers[index];
        Voice::new(caller, remote).tone([400.0, 1_000.0][index], 1_300);
        assert_eq!(caller.phone.within(&mut dialog, "BYE").status(), 200);
    }
    let forms = until("both recordings are told of", || {
        let asked = app.asked.lock().unwrap();
        let forms: Vec<_> = asked.iter().filter(|(path, _)| path == "/recorded").cloned().collect();
        (forms.len() == 2).then_some(forms)
    });
    for (index, (_, form)) in forms.iter().enumerate() {
        assert_eq!((&*form["Digits"], &*form["CallStatus"]), ("hangup", "completed"));
        let samples = wav(&place, form).samples;
        let start = samples.iter().position(|sample| sample.unsigned_abs() > 2_000).unwrap();
        let sound = &samples[start..];
        // Packets in the jitter buffer when the BYE came are lost.
        assert!(sound.len() > 8 * 1_000, "{}", sound.len());
        assert!(share(&sound[400..8_000], [400.0, 1_000.0][index]) > 0.9, "{index}");
    }
    assert_eq!(until("the callback", || app.asked_for("/status"))["RecordingStatus"], "completed");
    nothing_left(&node, 2);
    assert_eq!(recordings(&place).len(), 2);
    node.stop();
}

#[test]
fn the_callbacks_of_a_record_name_one_recording_from_its_first_sample() {
    let app = App::new(&[
        (
            "/",
            "<Response><Record action='/never' recordingStatusCallback='/none' recordingStatusCallbackEvent='absent'/>\
             <Record action='/recorded' timeout='1' recordingStatusCallback='/status' recordingStatusCallbackEvent='in-progress completed absent'/></Response>",
        ),
        ("/recorded", "<Response><Hangup/></Response>"),
        ("/none", ""),
        ("/status", ""),
    ]);
    let place = Place::new(&app.voice("/", ""));
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    let (_, remote) = caller.call();
    caller.hear(5);
    // During the beep: nothing is recorded.
    caller.press('#', remote);
    let none = until("no recording is told of", || app.asked_for("/none"));
    assert_eq!((&*none["RecordingStatus"], &*none["RecordingSource"]), ("absent", "RecordVerb"));
    let told = |status: &'static str| {
        until(status, || {
            let asked = app.asked.lock().unwrap();
            let is_it = |(path, form): &&(String, HashMap<String, String>)| {
                path == "/status" && form["RecordingStatus"] == status
            };
            asked.iter().find(is_it).map(|(_, form)| form.clone())
        })
    };
    let begun = told("in-progress");
    assert_eq!(begun["RecordingDuration"], "0");
    until("it is recorded", || is_recording(&node));
    let mut voice = Voice::new(&caller, remote);
    // Behind the packets of the key.
    (voice.sequence, voice.timestamp) = (8_400, 8_400 * 160);
    voice.tone(400.0, 1_300);
    let ended = told("completed");
    for name in
        ["AccountSid", "CallSid", "RecordingSid", "RecordingUrl", "RecordingStartTime", "RecordingSource"]
    {
        assert_eq!((name, &begun[name]), (name, &ended[name]));
    }
    assert_eq!((&*ended["RecordingSource"], &*ended["RecordingChannels"]), ("RecordVerb", "1"));
    assert!(ended["RecordingStartTime"].ends_with(" +0000"), "{ended:?}");
    assert_ne!(none["RecordingSid"], ended["RecordingSid"]);
    let action = until("the action", || app.asked_for("/recorded"));
    assert_eq!(action["RecordingSid"], ended["RecordingSid"]);
    assert!(app.asked_for("/never").is_none());
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    nothing_left(&node, 1);
    assert_eq!(recordings(&place).len(), 1);
    node.stop();
}

#[test]
fn a_disk_that_is_full_ends_the_recording_and_not_the_call() {
    let app = App::new(&[
        (
            "/",
            "<Response><Record action='/recorded' timeout='60' playBeep='false'/><Redirect>/after</Redirect></Response>",
        ),
        ("/after", "<Response><Say>that is a pity</Say></Response>"),
    ]);
    let place = Place::new(&app.voice("/", ""));
    // The kernel lets no file grow beyond so much: like a full disk, but without root. The database's own
    // files are smaller than six seconds of sound.
    let mut shell = Command::new("sh");
    shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_belfry")]);
    let process = place.spawn_as(shell);
    let pid = process.id().to_string();
    let limited = Command::new("prlimit").args(["--pid", &pid, "--fsize=98304:"]).status().unwrap();
    assert!(limited.success(), "prlimit (util-linux) is needed");
    let mut caller = Caller::new(&place);
    let (_, remote) = caller.call();
    until("it is recorded", || (!recordings(&place).is_empty()).then_some(()));
    Voice::new(&caller, remote).tone(400.0, 6_500);
    until("the recording is given up", || recordings(&place).is_empty().then_some(()));
    until("the document goes on", || app.asked_for("/after"));
    assert!(app.asked_for("/recorded").is_none());
    caller.hear(10);
    caller.hung_up();
    let notes =
        until("the record says so", || Some(rows::<Notification>(&place)).filter(|all| !all.is_empty()));
    assert_eq!((notes.len(), notes[0].error_code), (1, 13600));
    assert!(notes[0].message_text.contains("File too large"), "{}", notes[0].message_text);
    until("the call is over", || {
        rows::<RestCall>(&place).iter().any(|call| call.status == "completed").then_some(())
    });
    process.kill();
}

#[test]
fn a_recording_that_cannot_be_written_is_passed_over_and_the_call_goes_on() {
    let app = App::new(&[
        ("/", "<Response><Record action='/recorded' timeout='60'/><Redirect>/after</Redirect></Response>"),
        ("/after", "<Response><Say>that is a pity</Say></Response>"),
    ]);
    let place = Place::new(&app.voice("/", "recordings = \"file\"\n"));
    std::fs::write(place.path("file"), "").unwrap();
    let mut node = place.start();
    let mut caller = Caller::new(&place);
    caller.call();
    until("the document goes on", || app.asked_for("/after"));
    assert!(app.asked_for("/recorded").is_none());
    caller.hear(10);
    let bye = caller.phone.expect_request("BYE");
    caller.phone.reply(&bye, "200 OK", "", "");
    nothing_left(&node, 1);
    node.stop();
}
