//! A client that is not authenticated, at each kind of HTTP listener, over a pipe in memory and in virtual time. The test
//! `http_bounds` and the fuzz target `http_bounds` drive it.

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::chat::{Answer, Ask};
use admin::control::{
    Audio, CallChange, ConferenceChange, ControlError, ControlPlane, Document, EncodeError, Encoding,
    Participant, ParticipantChange, QueueMember, RecordingChange, Source, StartCall, StartRecording,
};
use control::StatusSource;
use server::http::{self, Web};
use stdx::Instant;
use stdx::attempts::Cause;
use store::rest::types::TextMessage;
use store::{Admin, Sqlite};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};
use xmpp_io::streams::WebConnections;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// REST with metrics and health.
    Rest,
    /// Chat: BOSH, WebSocket, uploads, where to connect.
    Chat,
    /// The operators' console.
    Console,
}

pub const KINDS: [Kind; 3] = [Kind::Rest, Kind::Chat, Kind::Console];

/// Longer than any client may be silent, and a second for each timer's rounding: at most `[limits]` of the two kinds.
const GONE_WITHIN: Duration = Duration::from_secs(200);

/// The time that a write may wait for a server that waits for a client that does not read.
const BLOCKED: Duration = Duration::from_millis(10);

/// The counts of the allocator.
pub trait Meter {
    fn now(&self) -> usize;
    fn reset_peak(&self);
    fn peak(&self) -> usize;
    fn total(&self) -> usize;
}

/// The cost of a connection, in bytes but for the last two.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// That the server took off the pipe, or that wait in it.
    pub heard: usize,
    pub sent: usize,
    /// Allocated when all was heard and answered, and the connection is open yet unless the server has ended it.
    pub kept: usize,
    /// Allocated at most at any time.
    pub peak: usize,
    /// All that was ever allocated: a measure of work.
    pub work: usize,
    /// Virtual time from the last byte to the end of the connection.
    pub silence: Duration,
    /// The connection is over, and no session that it began is left.
    pub is_gone: bool,
}

/// A node's parts that a client without credentials reaches.
pub struct World {
    runtime: Runtime,
    state: Arc<admin::State>,
    console: web_console::Console,
    folder: TempDir,
    cases: Cell<u32>,
}

impl World {
    pub fn new() -> World {
        let folder = tempfile::tempdir().expect("a folder");
        let sqlite = Sqlite::open(folder.path().join("belfry.db")).expect("a record");
        let repository = Arc::new(admin::Blocking::new(Admin::new(&sqlite).expect("a record")));
        let sid = "AC00000000000000000000000000000001";
        let _ = admin::first::ensure_account(&*repository, &Nothing, sid, Some("a-token-of-the-tests"));
        let state =
            admin::State::new(repository, Arc::new(Nothing), "a.test", "http://a.test", |_| Arc::new([]));
        let settings = web_console::Settings {
            listen: SocketAddr::from(([127, 0, 0, 1], 5380)),
            origin: None,
            docs: None,
            roles: web_console::Roles::default(),
            chat_admins: Vec::new(),
            invitations: None,
            default_domain: "a.test".into(),
            idle: Duration::from_secs(60),
            lifetime: Duration::from_secs(600),
        };
        // The node's end of its queue is gone, so that what gets so far is answered 503.
        let (console, _) = web_console::Console::new(
            &settings,
            Arc::new(Nothing),
            Nothing,
            web_console::Applications::default(),
            None,
        );
        let runtime =
            Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
        World { runtime, state, console, folder, cases: Cell::new(0) }
    }

    /// One connection that sends these pieces. `reads`: the client takes what it is sent.
    pub fn run(&self, kind: Kind, pieces: &[&[u8]], reads: bool, meter: &impl Meter) -> Cost {
        let local = LocalSet::new();
        self.runtime.block_on(local.run_until(self.converse(kind, pieces, reads, meter)))
    }

    /// Each connection from an address of its own: failed sign-ins slow an address down.
    fn next_address(&self) -> IpAddr {
        let number = self.cases.get() + 1;
        self.cases.set(number);
        IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + number))
    }

    async fn converse(&self, kind: Kind, pieces: &[&[u8]], reads: bool, meter: &impl Meter) -> Cost {
        let remote = self.next_address();
        let (before, worked) = (meter.now(), meter.total());
        meter.reset_peak();
        let (near, far) = duplex(4 << 10);
        let chat = (kind == Kind::Chat)
            .then(|| Rc::new(WebConnections::new(&self.folder.path().join("files")).expect("a folder")));
        let routes = match kind {
            Kind::Console => self.console.router(),
            Kind::Rest | Kind::Chat => admin::router(Arc::clone(&self.state)),
        };
        let rest = http::connections(StatusSource::silent(), Some(routes), &Web::default());
        let of_chat = chat.clone();
        let mut serving = spawn_local(async move {
            match of_chat {
                Some(chat) => chat.serve(far, remote).await,
                None => rest.serve(far, SocketAddr::new(remote, 1)).await,
            }
        });
        let (mut input, mut output) = split(near);
        let sent = Rc::new(Cell::new(0));
        let count = Rc::clone(&sent);
        let reading = spawn_local(async move {
            if reads {
                read_all(&mut input, &count).await;
            }
            // Held: a client that does not read has not gone.
            std::future::pending::<()>().await;
            drop(input);
        });
        let heard = write(&mut output, pieces).await;
        // Virtual time passes only once every task waits.
        sleep(BLOCKED).await;
        let kept = meter.now().saturating_sub(before);
        let (peak, work) = (meter.peak().saturating_sub(before), meter.total() - worked);
        let began = tokio::time::Instant::now();
        let mut is_gone = timeout(GONE_WITHIN, &mut serving).await.is_ok();
        let silence = began.elapsed();
        if let Some(chat) = &chat {
            sleep(GONE_WITHIN).await;
            is_gone &= chat.sessions() == 0;
        }
        reading.abort();
        Cost { heard, sent: sent.get(), kept, peak, work, silence, is_gone }
    }
}

/// Counts what the server sends, until it ends.
async fn read_all(input: &mut ReadHalf<DuplexStream>, count: &Cell<usize>) {
    let mut scratch = [0; 4 << 10];
    while let Ok(length @ 1..) = input.read(&mut scratch).await {
        count.set(count.get() + length);
    }
}

/// Returns the number of bytes that the server has taken before it ended, or wanted to be read.
async fn write(output: &mut WriteHalf<DuplexStream>, pieces: &[&[u8]]) -> usize {
    let mut heard = 0;
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            match timeout(BLOCKED, output.write(rest)).await {
                Ok(Ok(length)) if length > 0 => {
                    heard += length;
                    rest = &rest[length..];
                }
                _ => return heard,
            }
        }
    }
    heard
}

/// A node that is never asked: no request of these clients gets past the sign-in.
struct Nothing;

impl Source for Nothing {
    fn now(&self) -> Instant {
        Instant::from_unix_seconds(1_800_000_000)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

impl web_console::ConsoleLog for Nothing {
    fn sign_in_failed(&self, _: &web_console::FailedSignIn<'_>) {}

    fn role_changed(&self, _: &web_console::RoleChange<'_>) {}

    fn audit(&self, _: &web_console::AuditLine<'_>) {}
}

type Refused<T = ()> = Result<T, ControlError>;

impl ControlPlane for Nothing {
    fn start_call(&self, _: StartCall) -> Refused {
        unreachable!("not signed in")
    }

    fn modify_call(&self, _: &str, _: CallChange) -> Refused {
        unreachable!("not signed in")
    }

    fn modify_conference(&self, _: &str, _: ConferenceChange) -> Refused {
        unreachable!("not signed in")
    }

    fn participants(&self, _: &str) -> Refused<Vec<Participant>> {
        unreachable!("not signed in")
    }

    fn modify_participant(&self, _: &str, _: &str, _: ParticipantChange) -> Refused {
        unreachable!("not signed in")
    }

    fn queue_members(&self, _: &str) -> Refused<Vec<QueueMember>> {
        unreachable!("not signed in")
    }

    fn all_queue_members(&self, _: &str) -> Refused<Vec<QueueMember>> {
        unreachable!("not signed in")
    }

    fn dequeue(&self, _: &str, _: Option<&str>, _: Document) -> Refused<QueueMember> {
        unreachable!("not signed in")
    }

    fn start_recording(&self, _: &str, _: &str, _: &StartRecording) -> Refused {
        unreachable!("not signed in")
    }

    fn modify_recording(&self, _: &str, _: RecordingChange) -> Refused {
        unreachable!("not signed in")
    }

    fn recording(&self, _: &str, _: &str) -> Result<Audio, EncodeError> {
        unreachable!("not signed in")
    }

    fn recording_as_mp3(&self, _: &str, _: &str) -> Encoding {
        unreachable!("not signed in")
    }

    fn remove_recording(&self, _: &str, _: &str) -> Result<(), EncodeError> {
        unreachable!("not signed in")
    }

    fn send_message(&self, _: &TextMessage, _: &str) -> Refused {
        unreachable!("not signed in")
    }

    fn chat(&self, _: Ask) -> Refused<Answer> {
        unreachable!("not signed in")
    }

    fn sign_in_failed(&self, _: IpAddr, _: &str, _: Cause) {}

    fn key_changed(&self, _: &str, _: &'static str, _: &str) {}
}
