//! Some hundred calls of all kinds at once, hung up at any time from either side: afterwards nothing of them is there, in
//! the process, on its disk or in its ports; and no call is hung up twice.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use sip::wire::{Header, Message};
use stdx::Instant;
use stdx::rng::Rng;
use store::rest::types::RestCall;

use super::app::section;
use super::callee::Callee;
use super::caller::Caller;
use super::record::rows;
use super::stream::Site;
use super::tones::tones;
use crate::call::{Dialog, Invite};
use crate::phone::text;
use crate::place::{Place, Process};
use crate::{Deadline, PATIENCE, until};

/// A number each, from 1.
const DOCUMENTS: [(&str, &str); 13] = [
    ("/gather", "<Gather numDigits='1' timeout='1' action='/end'><Say>press a key</Say></Gather>"),
    ("/play", "<Play loop='0'>file:tone.wav</Play>"),
    (
        "/record",
        "<Record timeout='1' maxLength='1' playBeep='false' action='/end' recordingStatusCallback='/status'/>",
    ),
    ("/dial", "<Dial timeout='1' action='/end' record='true'><Client>bob</Client></Dial>"),
    (
        "/forks",
        "<Dial timeout='1' answerOnBridge='true' action='/end'><Client>bob</Client><Client>carol</Client></Dial>",
    ),
    ("/screened", "<Dial timeout='1'><Client url='/screen'>bob</Client></Dial>"),
    ("/room", "<Dial action='/end'><Conference record='true'>a</Conference></Dial>"),
    ("/leads", "<Dial><Conference endConferenceOnExit='true'>a</Conference></Dial>"),
    ("/waits", "<Enqueue waitUrl='/wait' action='/end'>b</Enqueue>"),
    ("/agent", "<Dial timeout='1' action='/end'><Queue>b</Queue></Dial>"),
    (
        "/streams",
        "<Start><Stream url='ws://SITE/s'/></Start><Play>file:tone.wav</Play><Connect><Stream url='ws://SITE/t'/></Connect>",
    ),
    ("/rejects", "<Pause/><Say>hello</Say><Sms to='carol'>text</Sms><Redirect>/echo</Redirect>"),
    ("/reject", "<Reject reason='busy'/>"),
];
const MORE: [(&str, &str); 6] = [
    ("/end", "<Hangup/>"),
    ("/status", ""),
    ("/screen", "<Play>file:tone.wav</Play>"),
    ("/wait", "<Play>file:tone.wav</Play>"),
    ("/echo", "<Echo/>"),
    ("/nothing", ""),
];

const LINES: u64 = 12;
const CALLS_PER_LINE: u64 = 20;

/// State that all threads share.
#[derive(Clone, Default)]
struct Show {
    is_over: Arc<AtomicBool>,
    twice: Arc<AtomicU64>,
}

/// A phone with more than one call, each of which is hung up once.
struct Seen {
    show: Show,
    /// Numbers of the BYEs by their Call-ID.
    byes: HashMap<Vec<u8>, HashSet<u32>>,
}

impl Seen {
    fn new(show: &Show) -> Seen {
        Seen { show: show.clone(), byes: HashMap::new() }
    }

    fn bye(&mut self, message: &Message) {
        let all = self.byes.entry(message.call_id().unwrap().to_vec()).or_default();
        all.insert(message.cseq().unwrap().0);
        if all.len() > 1 {
            self.show.twice.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn is_bye(message: &Message) -> bool {
    message.is_request() && message.method_name() == b"BYE"
}

struct Line {
    caller: Caller,
    seen: Seen,
    rng: Rng,
}

impl Line {
    /// The first message of that call which is a response or a BYE; BYEs are answered, those of earlier calls too.
    fn next(&mut self, call_id: &str, patience: Duration) -> Option<Message> {
        let deadline = Deadline::after(patience);
        loop {
            let is_ours = |message: &Message| {
                is_bye(message) || !message.is_request() && message.call_id() == Some(call_id.as_bytes())
            };
            let message = self.caller.phone.wait(deadline, is_ours)?;
            if !is_bye(&message) {
                return Some(message);
            }
            self.seen.bye(&message);
            self.caller.phone.reply(&message, "200 OK", "", "");
            if message.call_id() == Some(call_id.as_bytes()) {
                return Some(message);
            }
        }
    }

    /// The final answer to that request.
    fn answer(&mut self, call_id: &str, cseq: u32, patience: Duration) -> Option<Message> {
        let deadline = Deadline::after(patience);
        while let Some(left) = deadline.left() {
            let message = self.next(call_id, left)?;
            let is_it = message.cseq().is_some_and(|(number, method)| number == cseq && method != b"CANCEL");
            if !message.is_request() && message.status() >= 200 && is_it {
                return Some(message);
            }
        }
        None
    }

    fn some_time(&mut self, most: u64) -> Duration {
        Duration::from_millis(self.rng.below(most))
    }

    /// One call of that number.
    fn call(&mut self, number: u64) {
        let sdp = self.caller.sdp("8", "sendrecv");
        let phone = &mut self.caller.phone;
        let uri: &'static str = format!("sip:{number}@{}", phone.server).leak();
        let mut ask = phone.ask("INVITE", uri);
        ask.more = format!("Contact: <{}>\r\nContent-Type: application/sdp\r\n", phone.contact());
        ask.body = sdp;
        let sent = phone.send_invite(&ask);
        let (id, cseq) = (ask.call_id.clone(), ask.cseq);
        let invite = Invite { ask, sent };
        let mut patience = PATIENCE;
        if self.rng.chance(300) {
            self.next(&id, PATIENCE).expect("100");
            patience = self.some_time(100);
        }
        let answer = self.answer(&id, cseq, patience).unwrap_or_else(|| {
            let to = invite.sent.header(Header::To).unwrap().to_vec();
            let cancel = sip::wire::RequestBuilder::from_invite("CANCEL", &invite.sent, &to);
            self.caller.phone.send(&cancel);
            self.answer(&id, cseq, PATIENCE).expect("an answer to the INVITE")
        });
        let is_up = answer.status() == 200;
        self.caller.phone.put_back(answer.clone());
        if is_up {
            let dialog = self.caller.phone.answered(&invite);
            self.talk(dialog, &answer);
        } else {
            self.caller.phone.outcome(&invite);
        }
    }

    /// For some time, with a key in between; then one of the two hangs up, or both do.
    fn talk(&mut self, mut dialog: Dialog, answer: &Message) {
        let described = media::sdp::Description::parse(answer.body()).unwrap();
        let to: SocketAddr = described.remote(described.audio().unwrap()).unwrap();
        let id = dialog.call_id.clone();
        for most in [300, 500] {
            let time = self.some_time(most);
            let deadline = Deadline::after(time);
            while let Some(left) = deadline.left() {
                if self.next(&id, left).is_some_and(|message| is_bye(&message)) {
                    return;
                }
            }
            self.caller.press('1', to);
        }
        let bye = self.caller.phone.hang_up(&mut dialog);
        let status = self.answer(&id, bye.cseq, PATIENCE).expect("an answer to the BYE").status();
        assert!(matches!(status, 200 | 481), "{status}");
    }
}

/// Calls until it has made all of its calls, and answers until all is over.
fn line(place: &Place, show: &Show, seed: u64) -> JoinHandle<()> {
    let caller = Caller::named(place, &format!("line{seed}"));
    let mut line = Line { caller, seen: Seen::new(show), rng: Rng::seeded(seed) };
    let is_over = Arc::clone(&show.is_over);
    let run = move || {
        for call in 0..CALLS_PER_LINE {
            // Each number as often as any other, in an order of its own.
            let number = (call * 5 + seed) % DOCUMENTS.len() as u64 + 1;
            line.call(number);
        }
        while !is_over.load(Ordering::Relaxed) {
            line.next("", Duration::from_millis(20));
        }
    };
    std::thread::Builder::new().spawn(run).unwrap()
}

/// An agent's phone: it answers, is busy, lets it ring, and hangs up, by chance.
struct Agent {
    callee: Callee,
    seen: Seen,
    rng: Rng,
    ringing: HashMap<Vec<u8>, Message>,
    up: Vec<(Instant, Dialog)>,
}

impl Agent {
    fn hears(&mut self, message: &Message, now: Instant) {
        let id = message.call_id().unwrap().to_vec();
        match message.method_name() {
            b"INVITE" => match self.rng.below(6) {
                0 => self.callee.say(message, "486 Busy Here"),
                1 => {
                    self.callee.say(message, "180 Ringing");
                    self.ringing.insert(id, message.clone());
                }
                _ => {
                    self.callee.say(message, "180 Ringing");
                    self.callee.say_with_sound(message, "200 OK");
                    let end = now + Duration::from_millis(self.rng.below(600));
                    self.up.push((end, self.callee.dialog(message)));
                }
            },
            b"CANCEL" => {
                self.callee.line.phone.reply(message, "200 OK", "", "");
                if let Some(invite) = self.ringing.remove(&id) {
                    self.callee.say(&invite, "487 Request Terminated");
                }
            }
            b"BYE" => {
                self.seen.bye(message);
                self.callee.line.phone.reply(message, "200 OK", "", "");
                self.up.retain(|(_, dialog)| dialog.call_id.as_bytes() != id);
            }
            b"MESSAGE" => self.callee.line.phone.reply(message, "200 OK", "a", ""),
            _ => {}
        }
    }
}

fn agent(place: &Place, show: &Show, user: &str, seed: u64) -> JoinHandle<()> {
    let callee = Callee::registered(place, user);
    let (seen, rng) = (Seen::new(show), Rng::seeded(seed));
    let mut agent = Agent { callee, seen, rng, ringing: HashMap::new(), up: Vec::new() };
    let is_over = Arc::clone(&show.is_over);
    let run = move || {
        let clock = net::clock::Clock::new();
        while !is_over.load(Ordering::Relaxed) {
            let soon = Deadline::after(Duration::from_millis(10));
            if let Some(message) = agent.callee.line.phone.wait(soon, |_| true)
                && message.is_request()
            {
                agent.hears(&message, clock.now());
            }
            let now = clock.now();
            let is_due = |(end, _): &mut (Instant, Dialog)| *end <= now;
            for (_, mut dialog) in agent.up.extract_if(.., is_due) {
                agent.callee.line.phone.hang_up(&mut dialog);
            }
        }
    };
    std::thread::Builder::new().spawn(run).unwrap()
}

/// The sum of what the metrics say is there now of applications' calls, and what of it is not zero.
fn gauges(place: &Place) -> (u64, String) {
    let mut stream = TcpStream::connect(place.http()).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: belfry\r\nConnection: close\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    let is_gauge = |line: &&str| line.starts_with("belfry_voice_") && !line.contains("_total");
    let lines: Vec<&str> = page.lines().filter(is_gauge).collect();
    assert!(lines.len() > 8, "{page}");
    let value = |line: &&str| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64;
    let open: Vec<&str> = lines.iter().copied().filter(|line| value(line) > 0).collect();
    (lines.iter().map(value).sum(), open.join("\n"))
}

#[track_caller]
fn nothing_left(place: &Place) {
    let is_empty = || (gauges(place).0 == 0).then_some(());
    wait::until("nothing is left behind", PATIENCE, is_empty, || gauges(place).1);
}

/// Files, sockets and the like that the process has open.
fn open_files(process: &Process) -> Vec<String> {
    let all = std::fs::read_dir(format!("/proc/{}/fd", process.id())).unwrap();
    all.flatten()
        .map(|fd| std::fs::read_link(fd.path()).map_or_else(|_| String::new(), |to| to.display().to_string()))
        .collect()
}

/// Everything that the run needs.
fn stand() -> (Place, Site) {
    let site = Site::new();
    let documents: Vec<(&str, String)> = DOCUMENTS
        .iter()
        .chain(&MORE)
        .map(|(path, verbs)| (*path, format!("<Response>{verbs}</Response>")))
        .collect();
    let documents: Vec<(&'static str, &str)> =
        documents.iter().map(|(path, document)| (*path, document.as_str())).collect();
    let app = site.app(&documents);
    let bound: Vec<String> = (1..)
        .zip(DOCUMENTS)
        .map(|(number, (path, _))| {
            format!("{{ number = \"{number}\", url = \"http://{}{path}\" }}", app.address)
        })
        .collect();
    let place = Place::new(&format!(
        "{}open = true\nprompts = \"prompts\"\nnumbers = [{}]\n",
        section(),
        bound.join(", ")
    ));
    std::fs::create_dir(place.path("prompts")).unwrap();
    std::fs::write(place.path("prompts/tone.wav"), tones(8_000, 1, &[(440, 300)]).to_bytes()).unwrap();
    (place.with_accounts(&["bob", "carol"]), site)
}

/// Streams are heard until they end; some are ended by the application.
fn hears_streams(site: Site) {
    let run = move || {
        for (number, mut far) in site.came.iter().enumerate() {
            let hear = move || {
                let most = if number % 3 == 0 { 20 } else { usize::MAX };
                (0..most).take_while(|_| far.message().is_some()).count()
            };
            // Ends with the stream.
            std::thread::Builder::new().spawn(hear).unwrap();
        }
    };
    std::thread::Builder::new().spawn(run).unwrap();
}

#[test]
fn hundreds_of_calls_of_all_kinds_leave_nothing_behind() {
    let (place, site) = stand();
    hears_streams(site);
    let process = place.spawn();
    let show = Show::default();
    let agents = [agent(&place, &show, "bob", 101), agent(&place, &show, "carol", 102)];
    // Resources that are opened once and kept: the database's readers, cached speech.
    let warm = Show::default();
    let mut first =
        Line { caller: Caller::named(&place, "first"), seen: Seen::new(&warm), rng: Rng::seeded(100) };
    (1..=DOCUMENTS.len() as u64).for_each(|number| first.call(number));
    nothing_left(&place);
    let before = open_files(&process);

    let lines: Vec<_> = (0..LINES).map(|seed| line(&place, &show, seed)).collect();
    let calls = (LINES * CALLS_PER_LINE) as usize + DOCUMENTS.len();
    let rows = until_all_are_over(&place, &lines, calls);
    nothing_left(&place);
    show.is_over.store(true, Ordering::Relaxed);
    lines.into_iter().chain(agents).for_each(|thread| thread.join().unwrap());

    assert_eq!(show.twice.load(Ordering::Relaxed), 0, "calls were hung up twice");
    until("files and sockets are closed", || (open_files(&process).len() <= before.len()).then_some(()));
    let kept = std::fs::read_dir(place.path("data/recordings")).unwrap();
    let parts: Vec<_> = kept
        .flatten()
        .filter(|entry| text(Some(entry.file_name().as_encoded_bytes())).ends_with(".part"))
        .collect();
    assert!(parts.is_empty(), "{parts:?}");
    let sids: HashSet<&str> = rows.iter().map(|row| row.common.sid.as_str()).collect();
    assert_eq!(sids.len(), rows.len());
    let of =
        |status: &str| rows.iter().filter(|row| row.direction == "inbound" && row.status == status).count();
    let all = [of("completed"), of("busy"), of("canceled")];
    assert!(all.iter().all(|count| *count > 0) && all.iter().sum::<usize>() == calls, "{all:?} of {calls}");
    let log = process.log();
    assert!(!log.contains("ERROR") && !log.contains("panicked"), "{log}");
    process.kill();
}

/// All threads' calls are made, and the record has a row of each.
#[track_caller]
fn until_all_are_over(place: &Place, lines: &[JoinHandle<()>], calls: usize) -> Vec<RestCall> {
    // Half a second each, one after another.
    let limit = PATIENCE * 4;
    let count = Cell::new(0);
    let are_over = || {
        assert!(lines.iter().all(|line| !line.is_finished()), "a line has failed");
        let all = rows::<RestCall>(place);
        count.set(all.iter().filter(|row| row.direction == "inbound").count());
        (count.get() == calls && !all.iter().any(RestCall::is_live)).then_some(all)
    };
    wait::until("the end of all calls", limit, are_over, || {
        format!("the database has {} calls of {calls}, and some may be live", count.get())
    })
}
