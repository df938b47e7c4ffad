//! A hop of messages of 700 bytes between two threads: by a link, plain and encrypted, and by NATS core, where a batch is one message
//! or each message is one. A batch goes there, a message comes back, then the next batch goes: the time of such a round, and the CPU
//! of both threads and of the NATS server for each message. `bench/farm/messages` starts the server and this.
//!
//!     cargo run --release -p farm --example messages -- --nats URL --server PID --seconds 3

#![expect(clippy::disallowed_methods, reason = "a measurement has a clock and two threads")]

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::{SocketAddr, TcpListener};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use cluster::link::{Class, FarmSecret, Message};
use cluster::map::FarmMap;
use cluster::member::{MemberState, Roles};
use cluster::{Epoch, Life};
use farm::links::{Encryption, LinkEvent, LinkSettings, Links};
use farm::view::{FarmPeer, FarmView};
use futures_util::StreamExt as _;
use stdx::Instant;

const BODY: usize = 700;
const BATCHES: [usize; 3] = [1, 16, 64];

/// Rounds before the measurement: connections, buffers and tables are made in them.
const WARM_UP: usize = 200;

/// Kinds of messages: one of a batch, its last, the end of the run.
const MORE: u16 = 1;
const LAST: u16 = 2;
const END: u16 = 3;

const THERE: &str = "bench.there";
const BACK: &str = "bench.back";

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The way of the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    LinkPlain,
    LinkEncrypted,
    NatsBatch,
    NatsSingle,
}

impl Way {
    const ALL: [Way; 4] = [Way::LinkPlain, Way::LinkEncrypted, Way::NatsBatch, Way::NatsSingle];

    fn name(self) -> &'static str {
        match self {
            Way::LinkPlain => "link, plain",
            Way::LinkEncrypted => "link, TLS",
            Way::NatsBatch => "NATS, a batch a message",
            Way::NatsSingle => "NATS, message by message",
        }
    }
}

/// The command line.
#[derive(Clone, Debug)]
struct Options {
    nats: Option<String>,
    /// The process of the NATS server.
    server: Option<u32>,
    seconds: u64,
}

/// One row of the table.
struct Row {
    way: Way,
    batch: usize,
    /// The times of the measured rounds.
    rounds: Vec<Duration>,
    /// Processor time of both threads; beside it, that of the NATS server.
    cpu: Duration,
    server_cpu: Duration,
}

fn main() -> Outcome<()> {
    let options = options()?;
    println!(
        "{:26} {:>5} {:>9} {:>12} {:>12} {:>10} {:>10}",
        "way", "batch", "messages", "CPU us/msg", "of server", "p50 us", "p99 us"
    );
    let mut rows = Vec::new();
    for way in Way::ALL {
        if matches!(way, Way::NatsBatch | Way::NatsSingle) && options.nats.is_none() {
            continue;
        }
        for batch in BATCHES {
            let row = measure(way, batch, &options)?;
            row.print();
            rows.push(row.json());
        }
    }
    println!("[{}]", rows.join(","));
    Ok(())
}

fn options() -> Outcome<Options> {
    let mut options = Options { nats: None, server: None, seconds: 3 };
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(|| format!("{name} needs a value"))?;
        match &*name {
            "--nats" => options.nats = Some(value),
            "--server" => options.server = Some(value.parse()?),
            "--seconds" => options.seconds = value.parse()?,
            _ => return Err(format!("{name} is not known: --nats URL, --server PID, --seconds N").into()),
        }
    }
    Ok(options)
}

fn measure(way: Way, batch: usize, options: &Options) -> Outcome<Row> {
    let mut row = Row { way, batch, rounds: Vec::new(), cpu: Duration::ZERO, server_cpu: Duration::ZERO };
    match way {
        Way::LinkPlain => by_link(Encryption::Never, options, &mut row)?,
        Way::LinkEncrypted => by_link(Encryption::Always, options, &mut row)?,
        Way::NatsBatch | Way::NatsSingle => by_nats(options, &mut row)?,
    }
    Ok(row)
}

impl Row {
    fn messages(&self) -> usize {
        self.rounds.len() * self.batch
    }

    fn micros(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / self.messages().max(1) as f64
    }

    /// A percentile of the rounds, in microseconds.
    fn percentile(&self, percent: usize) -> f64 {
        let mut rounds = self.rounds.clone();
        rounds.sort_unstable();
        let place = (rounds.len() * percent / 100).min(rounds.len().saturating_sub(1));
        rounds.get(place).map_or(0.0, |round| round.as_secs_f64() * 1e6)
    }

    fn print(&self) {
        println!(
            "{:26} {:>5} {:>9} {:>12.2} {:>12.2} {:>10.1} {:>10.1}",
            self.way.name(),
            self.batch,
            self.messages(),
            self.micros(self.cpu + self.server_cpu),
            self.micros(self.server_cpu),
            self.percentile(50),
            self.percentile(99),
        );
    }

    fn json(&self) -> String {
        format!(
            r#"{{"way":"{}","batch":{},"messages":{},"cpu_us":{:.3},"server_cpu_us":{:.3},"round_p50_us":{:.1},"round_p99_us":{:.1}}}"#,
            self.way.name(),
            self.batch,
            self.messages(),
            self.micros(self.cpu + self.server_cpu),
            self.micros(self.server_cpu),
            self.percentile(50),
            self.percentile(99),
        )
    }
}

/// The figures between the end of the warm-up and now.
struct Measurement {
    options: Options,
    begin: std::time::Instant,
    cpu: Duration,
    server_cpu: Duration,
}

impl Measurement {
    fn begin(options: &Options) -> Outcome<Measurement> {
        let server_cpu = options.server.map_or(Ok(Duration::ZERO), |pid| cpu_of(&pid.to_string()))?;
        let (options, cpu) = (options.clone(), cpu_of("self")?);
        Ok(Measurement { options, begin: std::time::Instant::now(), cpu, server_cpu })
    }

    fn is_over(&self) -> bool {
        self.begin.elapsed() >= Duration::from_secs(self.options.seconds)
    }

    fn end(&self, row: &mut Row) -> Outcome<()> {
        row.cpu = cpu_of("self")?.saturating_sub(self.cpu);
        if let (Some(pid), true) = (self.options.server, matches!(row.way, Way::NatsBatch | Way::NatsSingle))
        {
            row.server_cpu = cpu_of(&pid.to_string())?.saturating_sub(self.server_cpu);
        }
        Ok(())
    }
}

/// User and system time of a process, in steps of 10 ms (`proc(5)`).
fn cpu_of(pid: &str) -> Outcome<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| fields.get(place).and_then(|field| field.parse::<u64>().ok()).unwrap_or(0);
    Ok(Duration::from_millis((ticks(11) + ticks(12)) * 10))
}

/// Runs on a thread as a shard does.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

fn now() -> Instant {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Instant::from_micros(u64::try_from(since.as_micros()).expect("before the year 500,000"))
}

fn by_link(encryption: Encryption, options: &Options, row: &mut Row) -> Outcome<()> {
    let listen = || TcpListener::bind("127.0.0.1:0").and_then(|socket| Ok((socket.local_addr()?, socket)));
    let ((near, near_socket), (far, far_socket)) = (listen()?, listen()?);
    let nodes = [(Life(1), near), (Life(2), far)];
    let echo = std::thread::spawn(move || {
        run(async {
            let links = links(Life(2), encryption, far_socket, &nodes);
            let mut events = Vec::new();
            loop {
                poll_fn(|context| links.poll_ready(context)).await;
                links.take(&mut events);
                for event in events.drain(..) {
                    let LinkEvent::Received { from, message, .. } = event else { continue };
                    match message.kind {
                        LAST => drop(links.send(now(), from, Class::Call, message_of(LAST, 16))),
                        END => return,
                        _ => {}
                    }
                }
                links.flush(now());
            }
        });
    });
    run(async {
        let links = links(Life(1), encryption, near_socket, &nodes);
        while links.connected().is_empty() {
            tokio::task::yield_now().await;
        }
        for _ in 0..WARM_UP {
            link_round(&links, row.batch).await;
        }
        let measurement = Measurement::begin(options)?;
        while !measurement.is_over() {
            let begin = std::time::Instant::now();
            link_round(&links, row.batch).await;
            row.rounds.push(begin.elapsed());
        }
        measurement.end(row)?;
        links.send(now(), Life(2), Class::Call, message_of(END, 16)).map_err(|error| format!("{error:?}"))?;
        links.flush(now());
        while !echo.is_finished() {
            tokio::task::yield_now().await;
        }
        Outcome::Ok(())
    })
}

/// One batch there, one message back.
async fn link_round(links: &Links, batch: usize) {
    for place in 1..=batch {
        let message = message_of(if place == batch { LAST } else { MORE }, BODY);
        // There is room: the batch before was handled.
        let _ = links.send(now(), Life(2), Class::Call, message);
    }
    links.flush(now());
    let mut events = Vec::new();
    loop {
        poll_fn(|context| links.poll_ready(context)).await;
        links.take(&mut events);
        if events.drain(..).any(|event| matches!(event, LinkEvent::Received { .. })) {
            return;
        }
    }
}

fn message_of(kind: u16, size: usize) -> Message {
    static BYTES: [u8; BODY] = [b'x'; BODY];
    Message { kind, epoch: Epoch(0), shard: 0, body: Bytes::from_static(&BYTES[..size]) }
}

fn links(own: Life, encryption: Encryption, socket: TcpListener, nodes: &[(Life, SocketAddr)]) -> Links {
    let nonce = std::cell::Cell::new([0; 32]);
    let random = move || {
        let mut next = nonce.get();
        next[0] += 1;
        nonce.set(next);
        next
    };
    let mut links = Links::new(LinkSettings {
        farm: "bench".into(),
        life: own,
        build: "0".into(),
        wire: (1, 1),
        secret: FarmSecret::new([7; 32]),
        encryption,
        clock: Rc::new(now),
        random: Rc::new(random),
    });
    links.listen(socket).expect("a listener");
    let peer = |address| FarmPeer {
        name: "n".into(),
        address,
        shards: 1,
        build: "0".into(),
        state: MemberState::Serving,
        roles: Roles::BOTH,
        weight: 100,
        is_suspect: false,
    };
    let peers: BTreeMap<Life, FarmPeer> =
        nodes.iter().map(|(life, address)| (*life, peer(*address))).collect();
    links.set_view(&FarmView { own, map: FarmMap::default(), peers, is_council_away: false });
    links
}

fn by_nats(options: &Options, row: &mut Row) -> Outcome<()> {
    let url = options.nats.clone().ok_or("no NATS server")?;
    let (batch, is_single) = (row.batch, row.way == Way::NatsSingle);
    // The payloads that make a batch.
    let (count, size) = if is_single { (batch, BODY) } else { (1, batch * BODY) };
    let (subscribed, is_subscribed) = mpsc::channel();
    let of_echo = url.clone();
    let echo = std::thread::spawn(move || {
        run(async {
            let client = async_nats::connect(of_echo).await?;
            let mut batches = client.subscribe(THERE).await?;
            client.flush().await?;
            subscribed.send(())?;
            let mut seen = 0;
            while let Some(message) = batches.next().await {
                if message.payload.is_empty() {
                    break;
                }
                seen += 1;
                if seen == count {
                    seen = 0;
                    client.publish(BACK, Bytes::from_static(&[b'x'; 16])).await?;
                    client.flush().await?;
                }
            }
            Outcome::Ok(())
        })
    });
    is_subscribed.recv()?;
    run(async {
        let client = async_nats::connect(url).await?;
        let mut answers = client.subscribe(BACK).await?;
        client.flush().await?;
        let payload = Bytes::from(vec![b'x'; size]);
        let mut measurement = None;
        for round in 0.. {
            if round == WARM_UP {
                measurement = Some(Measurement::begin(options)?);
            }
            if measurement.as_ref().is_some_and(Measurement::is_over) {
                break;
            }
            let begin = std::time::Instant::now();
            for _ in 0..count {
                client.publish(THERE, payload.clone()).await?;
            }
            client.flush().await?;
            answers.next().await.ok_or("the NATS server closed the connection")?;
            if measurement.is_some() {
                row.rounds.push(begin.elapsed());
            }
        }
        measurement.map_or(Ok(()), |measurement| measurement.end(row))?;
        client.publish(THERE, Bytes::new()).await?;
        client.flush().await?;
        Outcome::Ok(())
    })?;
    echo.join().map_err(|_| "the thread that answers has panicked")?
}
