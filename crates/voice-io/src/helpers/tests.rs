//! Plays with a real HTTP server on loopback, real flite and espeak-ng.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use media::prompt::Prompt;
use media::wav::Wav;

use super::*;

/// The results that tests wait for.
struct Inbox(SyncSender<(Ticket, Done)>);

impl Deliver for Inbox {
    fn deliver(&self, ticket: Ticket, done: Done) {
        self.0.try_send((ticket, done)).expect("room for what the test asked");
    }
}

struct World {
    helpers: Helpers,
    answers: Receiver<(Ticket, Done)>,
    site: SocketAddr,
    /// Requests as the site saw them, headers in lower case.
    seen: Arc<Mutex<Vec<String>>>,
}

const ME: Ticket = Ticket { shard: 3, id: 7 };

/// A site in our own network may be asked here.
fn open() -> Settings {
    Settings { allow_private: true, fetch_timeout: Duration::from_secs(5), ..Settings::default() }
}

/// Answers by path; `{site}` in them is the site itself.
fn world(settings: &Settings, pages: &[(&'static str, Vec<u8>)]) -> World {
    let (sender, answers) = sync_channel(64);
    let helpers = Helpers::start(settings, Arc::new(Inbox(sender))).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let site = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let pages: HashMap<_, _> = pages.iter().cloned().collect();
    let log = Arc::clone(&seen);
    let serve = move || {
        let mut held = Vec::new();
        for stream in listener.incoming().map_while(Result::ok) {
            held.extend(answer(stream, &pages, &log));
        }
    };
    std::thread::Builder::new().spawn(serve).unwrap();
    World { helpers, answers, site, seen }
}

/// One request a connection. A path of no page is never answered: its stream is given back, and held.
fn answer(
    mut stream: TcpStream,
    pages: &HashMap<&str, Vec<u8>>,
    log: &Mutex<Vec<String>>,
) -> Option<TcpStream> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let (mut request, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        if line.trim().is_empty() {
            break;
        }
        let lower = line.to_ascii_lowercase();
        length = lower.strip_prefix("content-length:").map_or(length, |text| text.trim().parse().unwrap());
        request.push_str(if request.is_empty() { &line } else { &lower });
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let path = request.split(' ').nth(1)?.to_owned();
    let known = request.contains("if-none-match: \"one\"");
    log.lock().unwrap().push(request + &String::from_utf8_lossy(&body));
    let page = pages.get(path.as_str());
    let Some(page) = page else { return Some(stream) };
    let same = b"HTTP/1.1 304 Not Modified\r\ncache-control: max-age=60\r\nconnection: close\r\n\r\n";
    stream.write_all(if known { same } else { page }).ok()?;
    None
}

fn page(head: &str, body: &[u8]) -> Vec<u8> {
    let mut page = format!("HTTP/1.1 {head}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len())
        .into_bytes();
    page.extend_from_slice(body);
    page
}

fn redirect(status: u16, to: &str) -> Vec<u8> {
    page(&format!("{status} Elsewhere\r\nlocation: {to}"), b"")
}

fn tone() -> Wav {
    let samples = (0..8_000).map(|at| ((f64::from(at) * 0.5).sin() * 9_000.0) as i16).collect();
    Wav { rate: 16_000, channels: 1, samples }
}

impl World {
    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.site)
    }

    fn next(&self) -> Done {
        let (ticket, done) = self.answers.recv_timeout(Duration::from_secs(30)).expect("an answer");
        assert_eq!(ticket, ME);
        done
    }

    fn fetch(&self, url: &str, body: Option<&str>) -> Result<FetchResponse, EffectFailure> {
        let wire = Wire {
            url: url.to_owned(),
            body: body.map(str::to_owned),
            signature: "c2lnbg==".to_owned(),
            call_id: None,
        };
        self.helpers.fetch(ME, wire);
        match self.next() {
            Done::Fetched(result) => result,
            other => panic!("{other:?} for a document"),
        }
    }

    fn failure(&self, path: &str) -> (u32, String) {
        let failure = self.fetch(&self.url(path), None).unwrap_err();
        (failure.code, failure.text.replace(&self.site.to_string(), "site"))
    }

    fn samples(&self) -> Result<Arc<[i16]>, String> {
        match self.next() {
            Done::Samples(result) => result,
            other => panic!("{other:?} for samples"),
        }
    }

    fn say(&self, text: &str, voice: Voice, language: &str) -> Result<Arc<[i16]>, String> {
        self.helpers.speech(ME, text, voice, language);
        self.samples()
    }

    fn play(&self, url: &str) -> Result<Arc<[i16]>, String> {
        self.helpers.audio(ME, url);
        self.samples()
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// The work of a shard is not held up by it.
#[test]
fn samples_are_encoded_for_a_codec() {
    let world = world(&open(), &[]);
    let samples: Arc<[i16]> = vec![1_000; 8_000].into();
    for (codec, frames) in [(Codec::Opus, 50), (Codec::G722, 50)] {
        world.helpers.encode(ME, codec, Arc::clone(&samples));
        let Done::Encoded(result) = world.next() else { panic!("something else than frames") };
        let expected = Prompt::encode(codec, &samples, Prompt::SAMPLE_RATE).unwrap();
        assert_eq!((result.as_ref().map(Prompt::len), &result), (Ok(frames), &Ok(expected)), "{codec:?}");
    }
    world.helpers.encode(ME, Codec::G729, samples);
    assert!(matches!(world.next(), Done::Encoded(Err(text)) if text.contains("G729")));
}

#[test]
fn a_document_is_asked_for_with_form_and_signature() {
    let world = world(&open(), &[("/a", page("200 OK\r\ncontent-type: text/xml", b"<Response/>"))]);
    let answer = world.fetch(&world.url("/a"), Some("From=%2B1")).unwrap();
    let expected = FetchResponse {
        status: 200,
        content_type: Some("text/xml".into()),
        body: b"<Response/>".to_vec(),
        url: None,
    };
    assert_eq!(answer, expected);
    let request = &world.seen()[0];
    assert!(request.starts_with("POST /a HTTP/1.1") && request.ends_with("From=%2B1"), "{request}");
    for header in [
        "x-twilio-signature: c2lnbg==",
        "user-agent: belfry/",
        "content-type: application/x-www-form-urlencoded",
    ] {
        assert!(request.contains(header), "{header} in {request}");
    }
}

/// The test of a document without a call: the same client with the same bounds, and no shard gets the answer.
#[test]
fn a_document_is_fetched_for_a_test_as_for_a_call() {
    let world = world(&open(), &[("/a", page("200 OK", b"<Response/>"))]);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let fetch = |helpers: &Helpers, url: String| {
        let wire = Wire { url, body: None, signature: "c2lnbg==".to_owned(), call_id: None };
        runtime.block_on(helpers.fetch_document(wire))
    };
    assert_eq!(fetch(&world.helpers, world.url("/a")).unwrap().body, b"<Response/>");
    assert!(world.seen()[0].contains("x-twilio-signature: c2lnbg=="), "{}", world.seen()[0]);
    assert!(world.answers.try_recv().is_err(), "no shard is told");
    let closed = Helpers::start(&Settings::default(), Arc::new(Inbox(sync_channel(1).0))).unwrap();
    let refused = fetch(&closed, world.url("/a")).unwrap_err();
    assert!(refused.text.contains("`voice.allow_private` is false"), "{}", refused.text);
    assert_eq!(world.seen().len(), 1);
}

/// Traces requests of the call `1@a`, and notes what it is told.
#[derive(Debug)]
struct Noted(Arc<Mutex<Vec<String>>>);

impl RequestTrace for Noted {
    fn begin(&self, call_id: &str, method: &'static str, url: &str) -> Option<Box<dyn TracedRequest>> {
        let path = url.rsplit('/').next().unwrap_or_default();
        self.0.lock().unwrap().push(format!("{call_id} {method} {path}"));
        (call_id == "1@a").then(|| Box::new(Noted(Arc::clone(&self.0))) as Box<dyn TracedRequest>)
    }
}

impl TracedRequest for Noted {
    fn parent(&self) -> &'static str {
        "00-1-2-01"
    }

    fn end(self: Box<Self>, status: Option<u16>) {
        self.0.lock().unwrap().push(format!("{status:?}"));
    }
}

#[test]
fn a_request_of_a_traced_call_names_its_trace() {
    let pages = [("/a", page("500 Oops", b"")), ("/b", page("200 OK", b""))];
    let notes = Arc::new(Mutex::new(Vec::new()));
    let mut world = world(&open(), &pages);
    let (sender, answers) = sync_channel(64);
    let trace: Arc<dyn RequestTrace> = Arc::new(Noted(Arc::clone(&notes)));
    world.helpers = Helpers::traced(&open(), Arc::new(Inbox(sender)), Some(trace)).unwrap();
    world.answers = answers;
    for (path, body, call_id) in
        [("/a", Some("x=y"), Some("1@a")), ("/b", None, Some("2@a")), ("/b", None, None)]
    {
        let (url, signature) = (world.url(path), String::new());
        let wire = Wire { url, body: body.map(Into::into), signature, call_id: call_id.map(Into::into) };
        world.helpers.fetch(ME, wire);
        world.next();
    }
    let with_parent = |request: &String| request.contains("traceparent: 00-1-2-01\r\n");
    assert_eq!(world.seen().iter().map(with_parent).collect::<Vec<_>>(), [true, false, false]);
    assert_eq!(*notes.lock().unwrap(), ["1@a POST a", "Some(500)", "2@a GET b"]);
}

/// Callbacks to a server that does not answer take the places of that server only, and none of documents.
#[test]
fn a_server_that_does_not_answer_keeps_no_document_of_another_from_being_fetched() {
    let world = world(&open(), &[("/a", page("200 OK", b"<Response/>"))]);
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let wire = || Wire {
        url: format!("http://{}/told", silent.local_addr().unwrap()),
        body: Some("a=b".to_owned()),
        signature: String::new(),
        call_id: None,
    };
    let sent = (0..10_000).filter(|_| world.helpers.tell(wire())).count();
    assert_eq!(sent, limits::FETCHES_OF_SERVER);
    assert_eq!(world.fetch(&world.url("/a"), None).unwrap().status, 200);
    let other = Wire { url: world.url("/a"), ..wire() };
    assert!(world.helpers.tell(other), "callbacks to other servers have their places");
    // Callbacks are answered to no shard.
    assert!(world.answers.try_recv().is_err());
}

/// Recordings of `AC1` are played to `AC1`.
#[derive(Debug)]
struct OneAccount;

impl RecordingAccess for OneAccount {
    fn may_play<'a>(&'a self, recording: &'a PlayedRecording) -> AccessAnswer<'a> {
        Box::pin(async move {
            match &*recording.account {
                "AC3" => Err("the database does not answer".to_owned()),
                account => Ok(account == "AC1" && *recording.reader == *account),
            }
        })
    }
}

#[test]
fn a_recording_is_read_only_for_those_who_may_hear_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("RE1.wav");
    std::fs::write(&file, tone().to_bytes()).unwrap();
    let play = |access: Option<Arc<dyn RecordingAccess>>, account: &str, reader: &str| {
        let world = world(&Settings { access, ..open() }, &[]);
        let (sid, account, reader) = ("RE1".into(), account.into(), reader.into());
        world.helpers.recording(ME, PlayedRecording { sid, account, reader, file: file.clone() });
        world.samples().map(|samples| samples.len())
    };
    let access = || Some(Arc::new(OneAccount) as Arc<dyn RecordingAccess>);
    assert_eq!(play(access(), "AC1", "AC1"), Ok(4_000));
    let refused = Err("the recording: no such recording".to_owned());
    assert_eq!(play(access(), "AC1", "AC2"), refused);
    assert_eq!(play(access(), "AC2", "AC2"), refused);
    assert_eq!(play(None, "AC1", "AC1"), refused);
    let away = Err("the recording: the database does not answer".to_owned());
    assert_eq!(play(access(), "AC3", "AC1"), away);
}

#[test]
fn redirects_are_followed_and_the_last_url_told() {
    let pages = [("/a", redirect(302, "/b")), ("/b", page("200 OK", b"x")), ("/c", redirect(307, "/b"))];
    let world = world(&open(), &pages);
    assert_eq!(world.fetch(&world.url("/a"), Some("a=b")).unwrap().url, Some(world.url("/b")));
    world.fetch(&world.url("/c"), Some("a=b")).unwrap();
    let seen = world.seen();
    assert!(seen[1].starts_with("GET /b ") && !seen[1].contains("signature"), "{}", seen[1]);
    assert!(seen[3].starts_with("POST /b ") && seen[3].ends_with("a=b"), "{}", seen[3]);
}

#[test]
fn every_fault_of_an_application_has_its_words() {
    let large = page("200 OK", &vec![b' '; ivr::limits::DOCUMENT_BYTES + 1]);
    // Without a length, so that it is counted as it comes.
    let endless = [b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec(), vec![b' '; 300_000]].concat();
    let pages = [
        ("/circle", redirect(302, "/circle")),
        ("/file", redirect(302, "file:///etc/passwd")),
        ("/large", large),
        ("/endless", endless),
        ("/short", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx".to_vec()),
        ("/nonsense", b"hello\r\n\r\n".to_vec()),
    ];
    let settings = Settings { fetch_timeout: Duration::from_millis(1_500), ..open() };
    let world = world(&settings, &pages);
    let circle = "http://site/circle redirects more than 5 times, at last to http://site/circle";
    assert_eq!(world.failure("/circle"), (code::CIRCLE, circle.to_owned()));
    let file = "http://site/file redirects to file:///etc/passwd, which is no URL of HTTP";
    assert_eq!(world.failure("/file"), (code::URL, file.to_owned()));
    for path in ["/large", "/endless"] {
        assert_eq!(
            world.failure(path),
            (code::TOO_LARGE, format!("http://site{path} has more than 262144 bytes"))
        );
    }
    for path in ["/short", "/nonsense"] {
        assert_eq!(world.failure(path).0, code::UNREACHABLE);
    }
    let slow = "no whole answer from http://site/never in 1.5 s";
    assert_eq!(world.failure("/never"), (code::UNREACHABLE, slow.to_owned()));
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = world.fetch(&format!("http://{closed}/"), None).unwrap_err();
    assert!(refused.code == code::UNREACHABLE && refused.text.contains("refused"), "{refused:?}");
    assert_eq!(world.fetch("file:///etc/passwd", None).unwrap_err().code, code::URL);
    assert_eq!(world.fetch("nonsense", None).unwrap_err().code, code::URL);
}

#[test]
fn our_own_network_is_not_asked() {
    let world = world(&Settings::default(), &[("/a", page("200 OK", b"x"))]);
    let port = world.site.port();
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "2130706433",
        "0x7f.1",
        "[::ffff:127.0.0.1]",
        "10.0.0.1",
        "169.254.169.254",
    ] {
        let url = format!("http://{host}:{port}/a");
        let failure = world.fetch(&url, None).unwrap_err();
        assert!(
            failure.code == code::UNREACHABLE && failure.text.contains("our own network"),
            "{url}: {failure:?}"
        );
        assert!(world.play(&url).unwrap_err().contains("our own network"), "{url}");
    }
    assert_eq!(world.seen(), Vec::<String>::new());
}

#[test]
fn english_and_other_languages_are_spoken() {
    let world = world(&open(), &[]);
    let mut spoken = Vec::new();
    for (voice, language) in
        [(Voice::Man, "en"), (Voice::Woman, "en-GB"), (Voice::Man, "fr"), (Voice::Woman, "de-DE")]
    {
        let samples = world.say("Please press one; $(reboot) `ls`", voice, language).unwrap();
        let loudest = samples.iter().map(|sample| sample.unsigned_abs()).max().unwrap();
        assert!(
            samples.len() > 8_000 && samples.len() < 80_000 && loudest > 3_000,
            "{language}: {}",
            samples.len()
        );
        assert!(!spoken.contains(&samples), "{language}");
        spoken.push(samples);
    }
    // The very samples that were made before.
    assert!(Arc::ptr_eq(
        &spoken[0],
        &world.say("Please press one; $(reboot) `ls`", Voice::Man, "en").unwrap()
    ));
    assert!(world.say(" \n ", Voice::Man, "en").unwrap().is_empty());
    assert_eq!(world.say("x", Voice::Man, "xx").unwrap_err(), "no voice speaks `xx`");
    assert!(world.say(&"x".repeat(limits::SPEECH_TEXT + 1), Voice::Man, "en").is_err());
}

#[test]
fn one_process_speaks_for_all_waiting_requests() {
    let folder = tempfile::tempdir().unwrap();
    let (sound, count) = (folder.path().join("sound.wav"), folder.path().join("count"));
    std::fs::write(&sound, tone().to_bytes()).unwrap();
    let script = format!("echo \"$1 $2 $(cat)\" >> {}; cat {}", count.display(), sound.display());
    let command = ["sh", "-c", &script, "x", "{voice}", "{language}"].map(str::to_owned).to_vec();
    let world = world(&Settings { command: Some(command), ..open() }, &[]);
    for _ in 0..20 {
        world.helpers.speech(ME, "hello", Voice::Woman, "en");
    }
    for _ in 0..20 {
        assert_eq!(world.samples().unwrap().len(), 4_000);
    }
    assert_eq!(std::fs::read_to_string(count).unwrap(), "woman en hello\n");
}

#[test]
fn every_fault_of_an_engine_has_its_words() {
    let missing = Settings { flite: "/nowhere/flite".into(), espeak: "/nowhere/espeak".into(), ..open() };
    let world = super::tests::world(&missing, &[]);
    let told = world.say("x", Voice::Man, "en").unwrap_err();
    assert!(told.contains("install Debian's package flite"), "{told}");
    assert!(world.say("x", Voice::Man, "fr").unwrap_err().contains("package espeak-ng"));
    let with = |program: &str, argument: &str| {
        let command = Some(vec![program.to_owned(), argument.to_owned()]);
        let settings = Settings { command, speech_timeout: Duration::from_millis(300), ..open() };
        super::tests::world(&settings, &[]).say("x", Voice::Man, "en").unwrap_err()
    };
    assert_eq!(with("/nowhere/speak", ""), "the speech command /nowhere/speak is not there");
    assert_eq!(with("sleep", "60"), "sleep spoke longer than 0.3 s and was killed");
    assert!(with("ls", "/nowhere").contains("ended with exit status: 2: ls: cannot access"));
    assert_eq!(with("echo", "hello"), "echo wrote no WAV: at byte 0: expected RIFF, found hell");
}

#[test]
fn a_file_is_fetched_once_and_then_asked_whether_it_changed() {
    let wav = tone().to_bytes();
    let pages = [
        ("/kept", page("200 OK\r\ncache-control: max-age=60", &wav)),
        ("/asked", page("200 OK\r\netag: \"one\"\r\ncache-control: no-cache", &wav)),
        ("/never", page("200 OK\r\ncache-control: no-store", &wav)),
    ];
    let world = world(&open(), &pages);
    for path in ["/kept", "/asked", "/never"] {
        let first = world.play(&world.url(path)).unwrap();
        assert_eq!(first.len(), 4_000);
        for _ in 0..2 {
            assert_eq!(world.play(&world.url(path)).unwrap(), first);
        }
    }
    let count = |path: &str| world.seen().iter().filter(|request| request.contains(path)).count();
    // The answer that nothing changed says for how long that holds.
    assert_eq!((count("GET /kept"), count("GET /asked"), count("GET /never")), (1, 2, 3));
    assert!(world.seen()[2].contains("if-none-match: \"one\""));
}

#[test]
fn every_fault_of_a_file_has_its_words() {
    let pages = [
        ("/text", page("200 OK\r\ncontent-type: audio/wav", b"<html>no sound</html>")),
        ("/gone", page("404 Not Found", b"")),
        ("/large", page("200 OK", &vec![0; limits::AUDIO_FILE + 1])),
        ("/empty", page("200 OK", b"")),
        ("/bad", page("200 OK", b"RIFF\0\0\0\0AVI ")),
    ];
    let world = world(&open(), &pages);
    let told =
        |path: &str| world.play(&world.url(path)).unwrap_err().replace(&world.site.to_string(), "site");
    for path in ["/text", "/empty"] {
        assert!(
            told(path).starts_with(&format!("http://site{path}: neither WAV, MP3, FLAC nor OGG Vorbis")),
            "{}",
            told(path)
        );
    }
    assert_eq!(told("/gone"), "http://site/gone: status 404");
    assert_eq!(told("/large"), "http://site/large has more than 33554432 bytes");
    assert_eq!(told("/bad"), "http://site/bad: at byte 8: expected WAVE, found AVI ");
}

#[test]
fn files_of_the_folder_are_played_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let prompts: PathBuf = folder.path().join("prompts");
    std::fs::create_dir(&prompts).unwrap();
    std::fs::write(prompts.join("hello.wav"), tone().to_bytes()).unwrap();
    std::fs::write(folder.path().join("secret.wav"), tone().to_bytes()).unwrap();
    std::os::unix::fs::symlink(folder.path().join("secret.wav"), prompts.join("link.wav")).unwrap();
    let inside = world(&Settings { prompts: Some(prompts), ..open() }, &[]);
    assert_eq!(inside.play("file:hello.wav").unwrap().len(), 4_000);
    for url in [
        "file:../secret.wav",
        "file:..%2fsecret.wav",
        "file:link.wav",
        "file:",
        "file://host/hello.wav",
        "file:none.wav",
    ] {
        assert!(inside.play(url).is_err(), "{url}");
    }
    let told = world(&open(), &[]).play("file:hello.wav").unwrap_err();
    assert!(told.ends_with("no folder of prompts is set"), "{told}");
}

/// 2,048 samples of silence at 8 kHz: a FLAC file small enough to write down (RFC 9639).
#[test]
fn flac_is_decoded() {
    let mut bits = b"fLaC\x80\0\0\x22".to_vec();
    bits.extend([0x08, 0, 0x08, 0, 0, 0, 0, 0, 0, 0]);
    // 8,000 Hz, one channel, 16 bits, 2,048 samples.
    bits.extend([0x01, 0xf4, 0x00, 0xf0, 0, 0, 0x08, 0]);
    bits.extend([0; 16]);
    // One frame: 2,048 samples, 8 kHz, mono, 16 bits, number 0; then a constant of 1,000.
    let header = [0xff, 0xf8, 0xb4, 0x08, 0];
    let mut frame = header.to_vec();
    frame.push(crc8(&header));
    frame.extend([0, 0x03, 0xe8]);
    let crc = crc16(&frame);
    frame.extend(crc.to_be_bytes());
    bits.extend(frame);
    let samples = audio::decode(bits).unwrap();
    assert_eq!((samples.len(), samples[1_000]), (2_048, 1_000));
}

fn crc8(bytes: &[u8]) -> u8 {
    let shift = |crc: u8| if crc & 0x80 == 0 { crc << 1 } else { crc << 1 ^ 0x07 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ byte, |crc, _| shift(crc)))
}

fn crc16(bytes: &[u8]) -> u16 {
    let shift = |crc: u16| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x8005 };
    bytes.iter().fold(0, |crc, byte| (0..8).fold(crc ^ u16::from(*byte) << 8, |crc, _| shift(crc)))
}
