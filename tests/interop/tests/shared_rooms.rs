//! Conferences and queues of a farm of real nodes with one database: members at several nodes hear each other, any node lists and changes
//! them, and they outlive the node that has the room.

use std::collections::VecDeque;
use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use interop::{Farm, Nats, NatsRelease, Node, application, new_postgres_database, wait_until};
use serde_json::Value;

const SID: &str = "ACae6e420f425248d6a26948c17a9e2acf";
const TOKEN: &str = "a token of the test";
const LIMIT: Duration = Duration::from_secs(60);

/// Samples of 20 ms of G.711, and of the sound that a phone remembers.
const FRAME: usize = 160;
const HEARD: usize = 10 * FRAME;

/// The tones of the phones, in Hz: whole periods in a frame, and no odd multiple of each other.
const TONES: [usize; 2] = [400, 500];

/// Its own farm at a time, as in `farm.rs`.
fn alone() -> MutexGuard<'static, ()> {
    static FARM: Mutex<()> = Mutex::new(());
    // A test that failed leaves nothing behind.
    FARM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Three nodes, with an application for each number.
fn start(nats: &Nats, numbers: &[(&str, String)]) -> Farm {
    let number = |(number, url): &(&str, String)| format!("{{ number = \"{number}\", url = \"{url}\" }}");
    let numbers: Vec<String> = numbers.iter().map(number).collect();
    let voice = format!("auth_token = \"{TOKEN}\"\nnumbers = [{}]\n", numbers.join(", "));
    Farm::with_applications(nats, 3, &new_postgres_database(), &voice)
}

/// A request to the REST interface of a node; the status and the body. `form`: of a POST, each with name and value; empty: GET.
fn rest(node: &Node, path: &str, form: &[(&str, &str)]) -> (String, Value) {
    let url = format!("http://127.0.0.1:{}/2010-04-01/Accounts/{SID}/{path}", node.http);
    let user = format!("{SID}:{TOKEN}");
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--max-time", "20", "--user", &user, "--write-out", "\n%{http_code}"]);
    for (name, value) in form {
        curl.args(["--data-urlencode", &format!("{name}={value}")]);
    }
    let output = curl.arg(&url).output().expect("curl");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (body, status) = text.rsplit_once('\n').unwrap_or_default();
    (status.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

/// The texts of that name in a list of a node's REST interface.
fn listed(node: &Node, path: &str, (list, name): (&str, &str)) -> Vec<String> {
    let (_, page) = rest(node, path, &[]);
    let all = page[list].as_array().cloned().unwrap_or_default();
    all.iter().filter_map(|one| Some(one[name].as_str()?.to_owned())).collect()
}

/// A phone with sound: it says a tone, or silence, and remembers what it hears.
struct Phone {
    number: u16,
    /// In Hz; 0: silence.
    tone: Arc<AtomicUsize>,
    heard: Arc<Mutex<VecDeque<i16>>>,
    is_over: Arc<AtomicBool>,
    media: Option<JoinHandle<()>>,
}

impl Phone {
    /// A call to a number through a node, answered. It is silent.
    fn call(node: &Node, to: &str) -> Phone {
        let signalling = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        signalling.set_read_timeout(Some(Duration::from_secs(2))).expect("a time that is not zero");
        let media = UdpSocket::bind("127.0.0.1:0").expect("a free port");
        media.set_read_timeout(Some(Duration::from_millis(20))).expect("a time that is not zero");
        let port_of = |socket: &UdpSocket| socket.local_addr().expect("it is bound").port();
        let number = port_of(&signalling);
        let sdp = format!(
            "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nc=IN IP4 127.0.0.1\r\nt=0 0\r\nm=audio {} RTP/AVP 0\r\n",
            port_of(&media)
        );
        let request = |method: &str, uri: &str, to: &str, body: &str| {
            format!(
                "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:{number};rport;branch=z9hG4bK{number}{method}\r\n\
                 From: <sip:alice@127.0.0.1:{number}>;tag=a\r\nTo: {to}\r\nCall-ID: {number}@shared-rooms\r\n\
                 CSeq: 1 {method}\r\nContact: <sip:alice@127.0.0.1:{number}>\r\nMax-Forwards: 70\r\n\
                 Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        let send = |text: &str| {
            signalling.send_to(text.as_bytes(), ("127.0.0.1", node.port)).expect("loopback has room");
        };
        let uri = format!("sip:{to}@example.test");
        let invite = request("INVITE", &uri, &format!("<{uri}>"), &sdp);
        let answer = answer(&signalling, || send(&invite));
        let line = |name: &str| {
            let value = answer.lines().find_map(|line| line.strip_prefix(name));
            value.expect("a 200 has it").trim().to_owned()
        };
        let contact = line("Contact:");
        let contact = contact.trim_start_matches('<').split('>').next().unwrap_or_default();
        send(&request("ACK", contact, &line("To:"), ""));
        let peer = line("m=audio ").split(' ').next().and_then(|port| port.parse().ok()).expect("a port");
        let (tone, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(VecDeque::new())));
        let is_over = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("phone".into()).spawn({
            let (tone, heard, is_over) = (Arc::clone(&tone), Arc::clone(&heard), Arc::clone(&is_over));
            move || speak(&media, peer, &tone, &heard, &is_over)
        });
        Phone { number, tone, heard, is_over, media: Some(thread.expect("a thread")) }
    }

    fn say(&self, tone: usize) {
        self.tone.store(tone, Ordering::Relaxed);
    }

    fn call_id(&self) -> String {
        format!("{}@shared-rooms", self.number)
    }

    /// True if the last 200 ms have this tone.
    fn hears(&self, tone: usize) -> bool {
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut re, mut im) = (0.0, 0.0);
        for (at, sample) in (0_u32..).zip(heard.iter()) {
            let turn = std::f64::consts::TAU * f64::from(at) * tone as f64 / 8_000.0;
            re += f64::from(*sample) * turn.cos();
            im += f64::from(*sample) * turn.sin();
        }
        f64::hypot(re, im) * 2.0 / HEARD as f64 > 1_000.0
    }
}

impl Drop for Phone {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(media) = self.media.take() {
            let is_over = media.join();
            // A second panic would end the process.
            assert!(is_over.is_ok() || std::thread::panicking(), "a phone does not panic");
        }
    }
}

/// The 200 to an INVITE, which is repeated until it comes.
fn answer(socket: &UdpSocket, send: impl Fn()) -> String {
    let deadline = wait::Deadline::after(LIMIT);
    send();
    let mut bytes = [0; 4_096];
    while deadline.left().is_some() {
        let Ok(count) = socket.recv(&mut bytes) else {
            send();
            continue;
        };
        let message = String::from_utf8_lossy(&bytes[..count]).into_owned();
        if !message.starts_with("SIP/2.0 1") {
            assert!(message.starts_with("SIP/2.0 200"), "{message}");
            return message;
        }
    }
    panic!("an INVITE has no answer");
}

/// A phone's media until its call is over: a packet for each that comes, or every 20 ms.
fn speak(
    socket: &UdpSocket,
    peer: u16,
    tone: &AtomicUsize,
    heard: &Mutex<VecDeque<i16>>,
    is_over: &AtomicBool,
) {
    let loud = (0..=255_u8).min_by_key(|byte| (i32::from(ulaw(*byte)) - 6_000).abs()).expect("256 of them");
    // The sign is the highest bit; 0xff is silence.
    let sample = |tone: usize, at: usize| match tone {
        0 => 0xff,
        _ if (at * 2 * tone / 8_000).is_multiple_of(2) => loud,
        _ => loud ^ 0x80,
    };
    let (mut number, mut time, mut bytes) = (0_u16, 0_u32, [0; 1_500]);
    while !is_over.load(Ordering::Relaxed) {
        if let Ok(count @ 12..) = socket.recv(&mut bytes) {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.extend(bytes[12..count].iter().map(|byte| ulaw(*byte)));
            let excess = heard.len().saturating_sub(HEARD);
            heard.drain(..excess);
        }
        let mut packet = vec![0x80, 0];
        packet.extend(number.to_be_bytes());
        packet.extend(time.to_be_bytes());
        packet.extend(u32::from(peer).to_be_bytes());
        let tone = tone.load(Ordering::Relaxed);
        packet.extend((0..FRAME).map(|at| sample(tone, at)));
        // The node may be dead.
        let _ = socket.send_to(&packet, ("127.0.0.1", peer));
        (number, time) = (number.wrapping_add(1), time.wrapping_add(160));
    }
}

/// A sample of G.711 µ-law.
fn ulaw(byte: u8) -> i16 {
    let inverted = !byte;
    let (exponent, mantissa) = ((inverted >> 4) & 7, i16::from(inverted & 0xf));
    let level = (((mantissa << 3) + 0x84) << exponent) - 0x84;
    if inverted & 0x80 == 0 { level } else { -level }
}

/// The node of the phone's call.
fn node_of(farm: &Farm, phone: &Phone) -> Option<usize> {
    let open = farm.nodes.iter().find(|node| node.id() != 0)?.run(&["calls", "open", "--json"]);
    let calls = open.lines().map(|line| serde_json::from_str::<Value>(line).expect("a line is a call"));
    let call = calls.into_iter().find(|call| call["call_id"] == phone.call_id())?;
    call["node"].as_str()?.strip_prefix('n')?.parse().ok()
}

/// Calls a number through a node. Returns the phone, which is silent, and the node of its call.
fn call(farm: &Farm, through: usize, to: &str) -> (Phone, usize) {
    let phone = Phone::call(&farm.nodes[through], to);
    let mut found = None;
    let is_listed = || {
        found = node_of(farm, &phone);
        found.is_some()
    };
    wait_until("the node of a call", LIMIT, is_listed, || farm.nodes[0].tail());
    (phone, found.expect("it was waited for"))
}

/// Calls a number, each time through another node, until each of the three has such a call.
fn call_all_nodes(farm: &Farm, to: &str) -> Vec<(Phone, usize)> {
    let mut phones: Vec<(Phone, usize)> = Vec::new();
    while (0..3).any(|node| phones.iter().all(|(_, at)| *at != node)) {
        assert!(phones.len() < 40, "all went to {:?}", phones.iter().map(|(_, at)| at).collect::<Vec<_>>());
        phones.push(call(farm, phones.len() % 3, to));
        // The next one comes after it.
        let members = || farm.nodes.iter().map(|node| node.metric("belfry_voice_members")).sum::<u64>();
        wait_until("a member", LIMIT, || members() == phones.len() as u64, || farm.nodes[0].tail());
    }
    phones
}

/// The phone of some call at that node.
fn at(phones: &[(Phone, usize)], node: usize) -> &Phone {
    &phones.iter().find(|(_, at)| *at == node).expect("each node has a call").0
}

/// The running node with the most members of conferences and queues.
fn home(farm: &Farm) -> usize {
    let members = |node: &Node| node.metric("belfry_voice_members");
    let live = farm.nodes.iter().enumerate().filter(|(_, node)| node.id() != 0);
    live.max_by_key(|(_, node)| members(node)).expect("a node lives").0
}

/// Requests to the application with this text.
fn requests_with(requests: &Mutex<Vec<String>>, text: &str) -> usize {
    let requests = requests.lock().unwrap_or_else(PoisonError::into_inner);
    requests.iter().filter(|request| request.contains(text)).count()
}

/// Waits until the two hear each other, and neither hears itself.
#[track_caller]
fn wait_for_talk(farm: &Farm, [one, other]: [&Phone; 2]) {
    one.say(TONES[0]);
    other.say(TONES[1]);
    let hears = |phone: &Phone| TONES.map(|tone| phone.hears(tone));
    let is_so = || (hears(one), hears(other)) == ([false, true], [true, false]);
    wait_until("two that hear each other", LIMIT, is_so, || {
        let live = farm.nodes.iter().filter(|node| node.id() != 0);
        let figures = |node: &Node| {
            let metrics = node.metrics();
            let rooms = metrics.lines().filter(|line| line.starts_with("belfry_voice_"));
            rooms.filter(|line| !line.ends_with(" 0")).collect::<Vec<_>>().join("\n")
        };
        let nodes = [one, other].map(|phone| node_of(farm, phone));
        let live: Vec<String> = live.map(|node| format!("{}\n{}", figures(node), node.tail())).collect();
        format!("{:?} {:?} at {nodes:?}\n{}", hears(one), hears(other), live.join("\n\n"))
    });
}

#[test]
fn a_conference_has_callers_at_all_nodes_and_outlives_the_node_that_mixes_it() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Debian);
    let (address, requests) = application(
        "<Response><Dial><Conference waitUrl='' statusCallback='/told' \
         statusCallbackEvent='start end join leave mute'>tea</Conference></Dial><Pause length='300'/></Response>",
    );
    let mut farm = start(&nats, &[("1234", format!("http://{address}/"))]);
    let phones = call_all_nodes(&farm, "1234");
    // One conference has all of them.
    let path = ("conferences", "sid");
    let is_one = || listed(&farm.nodes[0], "Conferences.json", path).len() == 1;
    wait_until("the conference", LIMIT, is_one, || farm.nodes[0].tail());
    let conference = listed(&farm.nodes[0], "Conferences.json", path).remove(0);
    let list = format!("Conferences/{conference}/Participants.json");
    let participants = |node: &Node| listed(node, &list, ("participants", "call_sid"));
    for node in &farm.nodes {
        assert_eq!(participants(node).len(), phones.len(), "{}", node.tail());
    }
    let home = home(&farm);
    let others: Vec<usize> = (0..3).filter(|node| *node != home).collect();
    let (one, other) = (at(&phones, others[0]), at(&phones, others[1]));
    wait_for_talk(&farm, [at(&phones, home), other]);
    at(&phones, home).say(0);
    wait_for_talk(&farm, [one, other]);
    // The application mutes one at a node that has neither the conference nor the call.
    let calls = participants(&farm.nodes[home]);
    let place = phones.iter().position(|(phone, _)| phone.number == one.number).expect("it is one of them");
    let participant = format!("Conferences/{conference}/Participants/{}.json", calls[place]);
    for (muted, node) in [("true", others[1]), ("false", home)] {
        let (status, body) = rest(&farm.nodes[node], &participant, &[("Muted", muted)]);
        assert_eq!(status, "200", "{body}");
        let is_muted = || other.hears(TONES[0]) == (muted == "false");
        wait_until(&format!("muted is {muted}"), LIMIT, is_muted, || farm.nodes[home].tail());
    }
    assert_eq!(requests_with(&requests, "StatusCallbackEvent=participant-mute"), 1);
    farm.nodes[home].kill();
    let left = phones.iter().filter(|(_, node)| *node != home).count();
    goes_on_without_its_home(&farm, (&others, [one, other]), &conference, (&requests, [phones.len(), left]));
}

/// Two callers of a conference hear each other again, and end it; of those that joined so many are `left`.
fn goes_on_without_its_home(
    farm: &Farm,
    (others, [one, other]): (&[usize], [&Phone; 2]),
    conference: &str,
    (requests, [joined, left]): (&Mutex<Vec<String>>, [usize; 2]),
) {
    // The sound of before is forgotten; then that of the next home is heard.
    let is_silent = || !one.hears(TONES[1]) && !other.hears(TONES[0]);
    [one, other].iter().for_each(|phone| phone.say(0));
    wait_until("silence", LIMIT, is_silent, || farm.nodes[others[0]].tail());
    wait_for_talk(farm, [one, other]);
    // The conference is the same, without the callers of the dead node, and the application was told of no arrival or departure.
    let list = format!("Conferences/{conference}/Participants.json");
    for node in others {
        let participants = listed(&farm.nodes[*node], &list, ("participants", "call_sid"));
        assert_eq!(participants.len(), left, "{}", farm.nodes[*node].tail());
    }
    let told = |event: &str| requests_with(requests, &format!("StatusCallbackEvent={event}"));
    let events = ["conference-start", "participant-join", "participant-leave", "conference-end"];
    assert_eq!(events.map(told), [1, joined, 0, 0]);
    let conference = format!("Conferences/{conference}.json");
    let (status, body) = rest(&farm.nodes[others[1]], &conference, &[("Status", "completed")]);
    assert_eq!(status, "200", "{body}");
    let is_over = || events.map(told) == [1, joined, left, 1];
    wait_until("the end of the conference", LIMIT, is_over, || format!("{:?}", events.map(told)));
    // The calls go on with the document.
    let seats = |node: &usize| farm.nodes[*node].metric("belfry_voice_seats");
    wait_until(
        "no member",
        LIMIT,
        || others.iter().all(|node| seats(node) == 0),
        || farm.nodes[others[0]].tail(),
    );
    let calls = |node: &usize| farm.nodes[*node].metric("belfry_voice_calls");
    let go_on = || others.iter().map(calls).sum::<u64>() == left as u64;
    wait_until("the calls", LIMIT, go_on, || farm.nodes[others[0]].tail());
}

#[test]
fn an_agent_takes_the_first_of_a_queue_across_nodes() {
    let _alone = alone();
    let nats = Nats::start(NatsRelease::Current);
    let (callers, _) = application("<Response><Enqueue waitUrl=''>help</Enqueue></Response>");
    let (agents, _) = application("<Response><Dial timeout='300'><Queue>help</Queue></Dial></Response>");
    let mut farm =
        start(&nats, &[("1234", format!("http://{callers}/")), ("1235", format!("http://{agents}/"))]);
    let mut waiting = call_all_nodes(&farm, "1234");
    let list = listed(&farm.nodes[0], "Queues.json", ("queues", "sid"));
    assert_eq!(list.len(), 1, "{list:?}");
    let path = format!("Queues/{}/Members.json", list[0]);
    let members = |node: &Node| listed(node, &path, ("queue_members", "call_sid"));
    let all = members(&farm.nodes[0]);
    assert_eq!(all.len(), waiting.len());
    for node in &farm.nodes {
        assert_eq!(members(node), all, "in the order in which they came");
    }
    // Agents until one at another node than its caller has taken the next in line.
    let mut agents: Vec<(Phone, usize)> = Vec::new();
    let (caller, agent) = loop {
        let taken = agents.len() + 1;
        if taken > waiting.len() {
            waiting.push(call(&farm, taken % 3, "1234"));
        }
        agents.push(call(&farm, taken % 3, "1235"));
        let is_taken = || members(&farm.nodes[0]).len() == waiting.len() - taken;
        wait_until("the next in line", LIMIT, is_taken, || farm.nodes[0].tail());
        if agents[taken - 1].1 != waiting[taken - 1].1 {
            break (&waiting[taken - 1], &agents[taken - 1]);
        }
    };
    wait_for_talk(&farm, [&caller.0, &agent.0]);
    let home = home(&farm);
    if home == caller.1 || home == agent.1 {
        return;
    }
    // Neither of them is at the node that connects them.
    farm.nodes[home].kill();
    [&caller.0, &agent.0].iter().for_each(|phone| phone.say(0));
    let is_silent = || !caller.0.hears(TONES[1]) && !agent.0.hears(TONES[0]);
    wait_until("silence", LIMIT, is_silent, || farm.nodes[caller.1].tail());
    wait_for_talk(&farm, [&caller.0, &agent.0]);
}
