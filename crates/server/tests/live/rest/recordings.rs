//! Recordings that no Record verb made: of Dials, conferences and calls that the REST interface asks for, found, heard and
//! deleted there.

use interop::MemoryStore;
use media::wav::Wav;
use serde_json::Value;

use crate::until;
use crate::voice::callee::Callee;
use crate::voice::talker::{Talker, level};
use crate::voice::tones::runs;

use super::client::Rest;
use super::site::Site;

const CALLER: u32 = 440;
const CALLEE: u32 = 1_000;

/// Says a tone once it has answered.
#[track_caller]
fn answered(mut callee: Callee, frequency: u32) -> Talker {
    let (dialog, remote) = callee.pick_up();
    Talker::new(callee.line, dialog, remote, frequency)
}

/// The only recording, when it is complete.
#[track_caller]
fn complete(site: &Site, query: &str) -> Value {
    until("the recording is complete", || {
        let page = site.rest.get(&format!("/Recordings.json{query}"));
        let all = page["recordings"].as_array().unwrap().clone();
        assert!(all.len() < 2, "{all:?}");
        all.into_iter().find(|one| one["status"] == "completed")
    })
}

#[track_caller]
fn sound(site: &Site, recording: &Value) -> Wav {
    let path = format!("/Recordings/{}.wav", recording["sid"].as_str().unwrap());
    let (status, bytes) = site.rest.fetch(&path);
    assert_eq!(status, 200, "{path}");
    Wav::parse(&bytes).unwrap()
}

fn channel(wav: &Wav, index: usize) -> Wav {
    let channels = usize::from(wav.channels);
    let samples = wav.samples.iter().skip(index).step_by(channels).copied().collect();
    Wav { rate: wav.rate, channels: 1, samples }
}

/// True, for caller and callee, if its tone sounds for a fifth of a second.
fn heard(wav: &Wav) -> [bool; 2] {
    assert_eq!(wav.rate, 8_000);
    [CALLER, CALLEE].map(|hertz| wav.samples.chunks_exact(1_600).any(|window| level(window, hertz) > 3_000.0))
}

#[test]
fn a_call_is_recorded_from_its_answer_with_each_side_in_its_channel() {
    let site = Site::new(&[("/echo", "<Response><Pause length='600'/></Response>"), ("/told", "")]);
    let bob = Callee::registered(&site.place, "bob");
    let call = site.call(
        "client:bob",
        &[
            ("Url", "{app}/echo"),
            ("Record", "true"),
            ("RecordingChannels", "dual"),
            ("RecordingStatusCallback", "{app}/told"),
            ("RecordingStatusCallbackEvent", "in-progress completed"),
        ],
    );
    let mut bob = answered(bob, CALLEE);
    let begun = site.callbacks("/told", 1).remove(0);
    assert_eq!((&*begun["RecordingStatus"], &begun["CallSid"]), ("in-progress", &call));
    let under_way = site.until_listed(&format!("/Recordings.json?CallSid={call}"), "recordings", 1).remove(0);
    assert_eq!(
        (under_way["sid"].as_str(), under_way["source"].as_str()),
        (Some(&*begun["RecordingSid"]), Some("OutboundAPI"))
    );
    let path = format!("/Recordings/{}.json", begun["RecordingSid"]);
    assert_eq!(site.rest.ask("DELETE", &path, "").status, 409);
    until("some is said", || (site.rest.metric("belfry_media_packets_received_total") > 40.0).then_some(()));
    bob.hang_up();
    let recording = complete(&site, "");
    let callbacks = site.callbacks("/told", 2);
    let end = callbacks.iter().find(|form| form["RecordingStatus"] == "completed").unwrap();
    assert_eq!((&*end["RecordingChannels"], &*end["RecordingSource"]), ("2", "OutboundAPI"));
    let wav = sound(&site, &recording);
    assert_eq!(wav.channels, 2);
    assert_eq!((heard(&channel(&wav, 0)), heard(&channel(&wav, 1))), ([false, true], [false, false]));
    site.nothing_left();
    let file = site.place.path("data/recordings").join(format!("{}.wav", begun["RecordingSid"]));
    assert!(file.is_file());
    assert_eq!(site.rest.ask("DELETE", &path, "").status, 204);
    assert!(!file.exists());
    assert_eq!(site.rest.fetch(&path.replace(".json", ".wav")).0, 404);
    assert_eq!(site.rest.with_credentials(&site.rest.sid, "wrong").fetch(&path).0, 401);
}

#[test]
fn a_recording_in_a_store_of_objects_is_heard_and_deleted_there() {
    let store = MemoryStore::start();
    let s3 = format!(
        "[s3]\nendpoint = \"{}\"\nbucket = \"files\"\naccess_key = \"AKEXAMPLE\"\nsecret_key = \"hush\"\n",
        store.url()
    );
    let site = Site::with_voice(&[("/echo", "<Response><Pause length='600'/></Response>")], &s3);
    let bob = Callee::registered(&site.place, "bob");
    site.call("client:bob", &[("Url", "{app}/echo"), ("Record", "true")]);
    let mut bob = answered(bob, CALLEE);
    until("some is said", || (site.rest.metric("belfry_media_packets_received_total") > 40.0).then_some(()));
    bob.hang_up();
    let recording = complete(&site, "");
    let sid = recording["sid"].as_str().unwrap();
    let object = format!("files/recordings/{sid}.wav");
    let stored = until("the recording is put", || store.object(&object));
    let file = site.place.path("data/recordings").join(format!("{sid}.wav"));
    until("the file is removed", || (!file.exists()).then_some(()));
    assert_eq!(heard(&sound(&site, &recording)), [false, true]);
    let path = format!("/Recordings/{sid}.wav");
    assert_eq!(site.rest.fetch(&path), (200, stored));
    assert_eq!(site.rest.metric("belfry_object_storage_put_total") as u64, 1);

    store.set_away(true);
    assert_eq!(site.rest.fetch(&path).0, 503);
    let row = path.replace(".wav", ".json");
    assert_eq!(site.rest.ask("DELETE", &row, "").status, 503);
    store.set_away(false);
    assert_eq!(site.rest.ask("DELETE", &row, "").status, 204);
    assert_eq!(store.paths(), [] as [String; 0]);
    assert_eq!(site.rest.fetch(&path).0, 404);
}

#[test]
fn a_dial_is_recorded_with_both_sides() {
    let site = Site::new(&[
        (
            "/1",
            "<Response><Dial action='/dialed' record='record-from-answer' recordingStatusCallback='/told'>\
             <Client>bob</Client></Dial></Response>",
        ),
        ("/dialed", "<Response><Hangup/></Response>"),
        ("/told", ""),
    ]);
    let bob = Callee::registered(&site.place, "bob");
    let mut caller = Talker::call(&site.place, "1", 0, CALLER);
    let mut bob = answered(bob, CALLEE);
    caller.hears([CALLEE], []);
    bob.hears([CALLER], []);
    let under_way = site.until_listed("/Recordings.json", "recordings", 1).remove(0);
    assert_eq!(under_way["status"], "in-progress");
    caller.listens();
    bob.hang_up();
    caller.is_hung_up();
    let dialed = site.asked("/dialed");
    let recording = complete(&site, "");
    assert!(dialed["RecordingUrl"].contains(recording["sid"].as_str().unwrap()), "{dialed:?}");
    assert_eq!(recording["call_sid"], *dialed["CallSid"]);
    assert_eq!(heard(&sound(&site, &recording)), [true, true]);
    assert_eq!(site.callbacks("/told", 1)[0]["RecordingSource"], "DialVerb");
    site.nothing_left();
}

#[test]
fn a_conference_is_recorded_once_with_the_audio_of_all_participants() {
    const ROOM: &str = "<Response><Dial><Conference beep='false' record='record-from-start' \
        recordingStatusCallback='/told'>room</Conference></Dial></Response>";
    let site = Site::new(&[("/1", ROOM), ("/told", "")]);
    let mut first = Talker::call(&site.place, "1", 0, CALLER);
    // The first member records. Its document may come later than the other's.
    site.until_listed("/Conferences.json", "conferences", 1);
    let mut second = Talker::call(&site.place, "1", 1, CALLEE);
    first.hears([CALLEE], []);
    second.hears([CALLER], []);
    let conference = site.until_listed("/Conferences.json?Status=in-progress", "conferences", 1).remove(0);
    let conference = conference["sid"].as_str().unwrap();
    let of_room = format!("/Conferences/{conference}/Recordings.json");
    let under_way = site.until_listed(&of_room, "recordings", 1).remove(0);
    assert_eq!(
        (&under_way["conference_sid"], under_way["source"].as_str()),
        (&conference.into(), Some("Conference"))
    );
    first.listens();
    second.hang_up();
    first.hang_up();
    let recording = complete(&site, &format!("?ConferenceSid={conference}"));
    assert_eq!(heard(&sound(&site, &recording)), [true, true]);
    let callback = site.callbacks("/told", 1).remove(0);
    assert_eq!((&*callback["ConferenceSid"], &*callback["RecordingStatus"]), (conference, "completed"));
    assert!(site.rest.get("/Recordings.json?ConferenceSid=CF1")["recordings"].as_array().unwrap().is_empty());
    site.nothing_left();
}

#[test]
fn the_connection_of_a_queue_is_recorded_where_its_dial_says_so() {
    let site = Site::new(&[
        ("/1", "<Response><Enqueue>support</Enqueue></Response>"),
        (
            "/2",
            "<Response><Dial action='/dialed' record='record-from-answer'><Queue>support</Queue></Dial></Response>",
        ),
        ("/dialed", "<Response><Hangup/></Response>"),
    ]);
    let mut caller = Talker::call(&site.place, "1", 0, CALLER);
    let mut agent = Talker::call(&site.place, "2", 1, CALLEE);
    agent.hears([CALLER], []);
    caller.hears([CALLEE], []);
    site.until_listed("/Recordings.json", "recordings", 1);
    agent.listens();
    caller.hang_up();
    agent.is_hung_up();
    let dialed = site.asked("/dialed");
    let recording = complete(&site, "");
    assert!(dialed["RecordingUrl"].contains(recording["sid"].as_str().unwrap()), "{dialed:?}");
    assert_eq!(heard(&sound(&site, &recording)), [true, true]);
    site.nothing_left();
}

const LONG: &str = "<Response><Say>hello</Say><Pause length='600'/></Response>";

/// The sid of a recording of half a second.
fn short_recording(site: &Site) -> String {
    let mut caller = Talker::call(&site.place, "1", 0, CALLER);
    let call = site.until_listed("/Calls.json?Status=in-progress", "calls", 1).remove(0);
    let of_call = format!("/Calls/{}/Recordings", call["sid"].as_str().unwrap());
    let sid = site.post(&format!("{of_call}.json"), &[])["sid"].as_str().unwrap().to_owned();
    let packets = || site.rest.metric("belfry_media_packets_received_total");
    let before = packets();
    until("some is said", || (packets() >= before + 25.0).then_some(()));
    caller.hang_up();
    complete(site, "");
    sid
}

#[test]
fn a_recording_is_fetched_as_mp3_from_the_configured_encoder_and_deleted_with_it() {
    let encoder = "mp3 = [\"sh\", \"-c\", \"printf ID3; cat\"]\n";
    let site = Site::with_voice(&[("/1", LONG)], encoder);
    let sid = short_recording(&site);
    let (status, wav) = site.rest.fetch(&format!("/Recordings/{sid}.wav"));
    assert_eq!(status, 200);
    for _ in 0..2 {
        let (status, mp3) = site.rest.fetch(&format!("/Recordings/{sid}.mp3"));
        assert_eq!((status, &mp3[..3], &mp3[3..]), (200, &b"ID3"[..], &*wav));
    }
    let file = site.place.path("data/recordings").join(format!("{sid}.mp3"));
    assert!(file.is_file());
    assert_eq!(site.rest.ask("DELETE", &format!("/Recordings/{sid}.json"), "").status, 204);
    assert!(!file.exists());
    assert_eq!(site.rest.fetch(&format!("/Recordings/{sid}.mp3")).0, 404);
    site.nothing_left();
}

#[test]
fn an_encoder_is_killed_when_the_client_that_asked_for_mp3_is_gone() {
    let place = tempfile::tempdir().unwrap();
    let number = place.path().join("number");
    let script = format!("echo $$ > {}; exec sleep 600", number.display());
    let site = Site::with_voice(&[("/1", LONG)], &format!("mp3 = [\"sh\", \"-c\", \"{script}\"]\n"));
    let sid = short_recording(&site);
    let client = site.rest.begin(&format!("/Recordings/{sid}.mp3"));
    let process = until("the encoder runs", || {
        let text = std::fs::read_to_string(&number).ok()?;
        Some(text.strip_suffix('\n')?.to_owned())
    });
    drop(client);
    let status = format!("/proc/{process}/status");
    until("the encoder is gone", || {
        let is_there = std::fs::read_to_string(&status).is_ok_and(|text| !text.contains("State:\tZ"));
        (!is_there).then_some(())
    });
    site.nothing_left();
}

#[test]
fn a_live_call_is_recorded_paused_and_stopped() {
    let site =
        Site::new(&[("/1", "<Response><Say>hello</Say><Pause length='600'/></Response>"), ("/told", "")]);
    let mut caller = Talker::call(&site.place, "1", 0, CALLER);
    let call = site.until_listed("/Calls.json?Status=in-progress", "calls", 1).remove(0);
    let of_call = format!("/Calls/{}/Recordings", call["sid"].as_str().unwrap());
    let fields = [
        ("RecordingStatusCallback", "{app}/told"),
        ("RecordingStatusCallbackEvent", "in-progress completed"),
    ];
    let recording = site.post(&format!("{of_call}.json"), &fields);
    assert_eq!(
        (&recording["status"], &recording["source"]),
        (&"in-progress".into(), &"StartCallRecordingAPI".into())
    );
    let path = format!("{of_call}/{}.json", recording["sid"].as_str().unwrap());
    let now = |status: &str| until(status, || (site.rest.get(&path)["status"] == status).then_some(()));
    let packets = || site.rest.metric("belfry_media_packets_received_total");
    // The metric is half a second old at most, 25 packets.
    let say = |count: f64| {
        let before = packets();
        until("so much is said", || (packets() >= before + count).then_some(()));
    };
    say(50.0);
    let current = format!("{of_call}/Twilio.CURRENT.json");
    let paused = site.post(&current, &[("Status", "paused"), ("PauseBehavior", "skip")]);
    assert_eq!((&paused["status"], &paused["sid"]), (&"paused".into(), &recording["sid"]));
    now("paused");
    say(50.0);
    site.post(&path, &[("Status", "in-progress")]);
    now("in-progress");
    say(50.0);
    site.post(&path, &[("Status", "stopped")]);
    let whole = complete(&site, "");
    let callbacks = site.callbacks("/told", 2);
    let mut statuses: Vec<&str> = callbacks.iter().map(|form| &*form["RecordingStatus"]).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["completed", "in-progress"]);
    assert!(callbacks.iter().all(|form| recording["sid"] == *form["RecordingSid"]), "{callbacks:?}");
    assert_eq!(site.rest.ask("POST", &current, "Status=paused").status, 404, "none is under way");
    let mp3 = format!("/Recordings/{}.mp3", recording["sid"].as_str().unwrap());
    assert_eq!(site.rest.fetch(&mp3).0, 406);
    let wav = sound(&site, &whole);
    let seconds = wav.samples.len() as f64 / f64::from(wav.rate);
    assert!(seconds > 0.6, "{seconds}");
    assert!(runs(&wav, &[CALLER]).iter().any(|(_, ms)| *ms > 300));
    assert_eq!(site.rest.ask("POST", &path, "Status=paused").status, 404);
    caller.hang_up();
    site.nothing_left();
}

/// The path of the call that is up and is not the one before.
#[track_caller]
fn call_of(rest: &Rest, before: &str) -> String {
    until("the call is up", || {
        let page = rest.get("/Calls.json?Status=in-progress");
        let calls = page["calls"].as_array().unwrap().iter();
        let mut paths = calls.map(|call| format!("/Calls/{}", call["sid"].as_str().unwrap()));
        paths.find(|path| path != before)
    })
}

fn play(url: &str) -> String {
    format!("<Response><Play loop='0'>{url}</Play><Pause length='600'/></Response>")
}

/// As REST gives them to the account's token: a document plays recordings of its account and of those below it, whatever their sids are.
#[test]
fn a_document_plays_no_recording_of_another_account() {
    let site = Site::new(&[("/1", LONG), ("/below", LONG)]);
    let created = site.rest.ask_path("POST", "/Accounts.json", "FriendlyName=Below").json();
    let text = |value: &Value, name: &str| value[name].as_str().unwrap().to_owned();
    let (sub, token) = (text(&created, "sid"), text(&created, "auth_token"));
    let below = site.rest.with_credentials(&sub, &token);
    let bound = site.post("/IncomingPhoneNumbers.json", &[("PhoneNumber", "5"), ("VoiceUrl", "{app}/below")]);
    site.post(&format!("/IncomingPhoneNumbers/{}.json", text(&bound, "sid")), &[("AccountSid", &sub)]);
    let owner = site.rest.sid.clone();
    let secret = short_recording(&site);
    let base = format!("http://{}/restcomm/2012-04-24/Accounts", site.place.http());
    let secret_url = |account: &str| format!("{base}/{account}/Recordings/{secret}.wav");

    let mut thief = Talker::call(&site.place, "5", 0, CALLEE);
    let theft = call_of(&below, "");
    for (number, account) in [&sub, &owner].into_iter().enumerate() {
        let twiml = play(&secret_url(account));
        below.post(&format!("{theft}.json"), &site.form(&[("Twiml", &twiml)]));
        let notes = until("the failure is noted", || {
            let notes = below.get(&format!("{theft}/Notifications.json"))["notifications"].clone();
            notes.as_array().filter(|all| all.len() > number).cloned()
        });
        for note in notes {
            let path = format!("/Notifications/{}.json", note["sid"].as_str().unwrap());
            assert_eq!(note["error_code"], "13420", "{note}");
            let words = text(&below.get(&path), "message_text");
            assert!(words.contains("no such recording"), "{words}");
        }
    }
    assert!(!thief.has_heard(CALLER));
    let own = text(&below.post(&format!("{theft}/Recordings.json"), ""), "sid");
    let packets = || site.rest.metric("belfry_media_packets_received_total");
    let before = packets();
    until("some is said", || (packets() >= before + 25.0).then_some(()));
    thief.hang_up();
    until("the recording is complete", || {
        (below.get(&format!("/Recordings/{own}.json"))["status"] == "completed").then_some(())
    });
    let own_url = format!("{base}/{sub}/Recordings/{own}.wav");
    let mut listener = Talker::call(&site.place, "5", 1, 0);
    let call = call_of(&below, &theft);
    below.post(&format!("{call}.json"), &site.form(&[("Twiml", &play(&own_url))]));
    listener.hears([CALLEE], [CALLER]);
    listener.hang_up();

    let mut listener = Talker::call(&site.place, "1", 0, 0);
    let call = call_of(&site.rest, "");
    for (url, heard) in [(secret_url(&owner), CALLER), (own_url, CALLEE)] {
        site.post(&format!("{call}.json"), &[("Twiml", &play(&url))]);
        listener.hears([heard], []);
    }
    listener.hang_up();
    site.nothing_left();
}

#[test]
fn a_recording_of_a_node_that_was_killed_is_complete_and_can_be_deleted() {
    let mut site = Site::new(&[("/1", "<Response><Dial><Conference>room</Conference></Dial></Response>")]);
    let _caller = Talker::call(&site.place, "1", 0, CALLER);
    let conference = site.until_listed("/Conferences.json", "conferences", 1).remove(0);
    assert_eq!(conference["status"], "init");
    let call = site.until_listed("/Calls.json?Status=in-progress", "calls", 1).remove(0);
    let call = call["sid"].as_str().unwrap();
    let recording = site.post(&format!("/Calls/{call}/Recordings.json"), &[]);
    let sid = recording["sid"].as_str().unwrap();
    let part = site.place.path("data/recordings").join(format!("{sid}.wav.part"));
    until("more than a second is on the disk", || {
        (std::fs::metadata(&part).ok()?.len() > 20_000).then_some(())
    });
    site.kill_and_start();
    let ended = complete(&site, "");
    assert!(
        ended["duration"].as_str().is_some_and(|seconds| seconds.parse::<u32>().unwrap() >= 1),
        "{ended}"
    );
    assert!(!sound(&site, &ended).samples.is_empty());
    let row = site.until_status(call, "completed");
    assert_eq!(
        (&row["sip_reason_phrase"], &row["duration"]),
        (&"The node of the call has ended".into(), &Value::Null)
    );
    site.until_listed("/Conferences.json?Status=completed", "conferences", 1);
    let path = format!("/Recordings/{sid}.json");
    assert_eq!(site.rest.ask("DELETE", &path, "").status, 204);
    assert_eq!(site.rest.fetch(&path.replace(".json", ".wav")).0, 404);
}
