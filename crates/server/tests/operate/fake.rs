//! A node without shards: the doors an operator uses, over a store of its own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use config::Config;
use control::{
    BindingRow, BlockList, BlockRow, Control, Listening, NodeState, Observed, Reloaded, ShardCounters,
    TargetStatus, TraceSink,
};
use net::clock::Clock;
use server::http::Web;
use server::operate::AdminListeners;
use stdx::Instant;
use store::{Address, Admin, Loaded, Read, Sqlite, StoreError, Write, WriteDone};
use tokio::sync::oneshot;

/// A request that the fake node received.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Reload,
    Drain,
    Trace(String),
    Chat(String),
    AccountsChanged,
    Wrote,
    LiftBlock(String),
    EndCall(String),
}

struct Fake {
    admin: RefCell<Admin>,
    events: SyncSender<Event>,
    draining: Cell<bool>,
    traces: RefCell<Vec<TraceSink>>,
}

impl Control for Fake {
    fn now(&self) -> Instant {
        Clock::new().now()
    }

    async fn status(&self) -> Observed {
        let counted = ShardCounters { calls_up: 3, calls: 4, kernel_drops: 1_234, ..ShardCounters::new(1) };
        Observed {
            state: if self.draining.get() { NodeState::Draining } else { NodeState::Running },
            listeners: vec!["udp:127.0.0.1:5060".into()],
            services: vec![
                listening("SIP", &["udp:127.0.0.1:5060"]),
                listening("chat", &["tcp:127.0.0.1:5222", "ws:127.0.0.1:5280"]),
                listening("REST", &["http://127.0.0.1:8080/restcomm/"]),
            ],
            domains: vec!["example.test".into()],
            shards: vec![ShardCounters::new(0), counted],
            targets: vec![TargetStatus { target: "192.0.2.7:5060".into(), up: false }],
            ..Observed::default()
        }
    }

    async fn reload(&self) -> Result<Reloaded, String> {
        self.events.send(Event::Reload).unwrap();
        Ok(Reloaded { needs_restart: vec!["sip.listen".into()] })
    }

    fn config_report(&self) -> control::ConfigReport {
        control::ConfigReport::default()
    }

    fn drain(&self) {
        self.draining.set(true);
        self.events.send(Event::Drain).unwrap();
    }

    fn stop(&self) {}

    fn trace(self: Rc<Self>, account: &Address, sink: TraceSink, _: bool) -> bool {
        self.events.send(Event::Trace(account.to_string())).unwrap();
        let invite = b"INVITE sip:bob@example.test SIP/2.0\r\nCall-ID: c1\r\nCSeq: 1 INVITE\r\n\
                       Proxy-Authorization: Digest username=\"alice\", response=\"5ec4e7\"\r\n\r\n";
        let ringing = b"SIP/2.0 180 Ringing\r\nCall-ID: c1\r\nCSeq: 1 INVITE\r\n\r\n";
        let at = Clock::new().now();
        sink.message(at, "udp:192.0.2.1:5060", "belfry", invite);
        sink.message(at, "belfry", "udp:192.0.2.1:5060", ringing);
        // Kept, so that the trace does not end by itself.
        self.traces.borrow_mut().push(sink);
        true
    }

    async fn bindings(&self, _: &Address) -> Vec<BindingRow> {
        vec![BindingRow {
            contact: "sip:alice@192.0.2.1".into(),
            q: 500,
            expires_in_seconds: 90,
            user_agent: "phone".into(),
            received: None,
        }]
    }

    fn farm(&self) -> Option<control::FarmStatus> {
        None
    }

    fn farm_map(&self) -> Option<control::FarmMapStatus> {
        None
    }

    fn drain_farm_node(&self, _: &str) -> Result<(), control::Failure> {
        Ok(())
    }

    async fn open_calls(&self, _: Option<&str>) -> control::OpenCallList {
        control::OpenCallList::default()
    }

    async fn call_messages(&self, call_id: &str) -> control::CallMessages {
        let line = |at_micros, from: &str, to: &str, label: &str| control::TraceLine {
            at_micros,
            from: from.into(),
            to: to.into(),
            label: label.into(),
            call_id: call_id.into(),
            ..control::TraceLine::default()
        };
        let start = 1_800_000_000_000_000;
        let lines = vec![
            line(start, "192.0.2.1:5060", "belfry", "INVITE"),
            line(start + 3_000, "belfry", "192.0.2.2:5060", "INVITE"),
            line(start + 20_000, "192.0.2.2:5060", "belfry", "486 (INVITE)"),
        ];
        control::CallMessages {
            lines: if call_id == "c1" { lines } else { Vec::new() },
            left_out: 2,
            since: start,
            most_calls: 4_000,
            most_per_second: 10,
            not_begun: 7,
            forgotten: 0,
        }
    }

    fn roster_groups(&self, _: &control::RosterGroupQuery) -> control::RosterGroupPage {
        control::RosterGroupPage::default()
    }

    /// Registrations of 1,500 addresses, user0000 and so on.
    async fn registrations(&self, query: &control::RegistrationQuery) -> control::RegistrationPage {
        let all = (0..1_500).map(|number| format!("user{number:04}@example.test"));
        let found: Vec<String> = all.filter(|address| address.starts_with(&*query.prefix)).collect();
        let total = found.len() as u64;
        let behind = found.into_iter().filter(|address| **address > *query.after);
        let contacts = self.bindings(&Address::new("alice", "example.test").unwrap()).await;
        let registered = |address: String| control::RegisteredAddress {
            address: address.into(),
            contacts: contacts.clone(),
        };
        control::RegistrationPage {
            addresses: behind
                .take(query.limit.min(control::limits::LIST_PAGE) as usize)
                .map(registered)
                .collect(),
            total,
        }
    }

    async fn end_registration(&self, _: &Address, _: &str) -> Result<(), control::Failure> {
        Err(control::Failure::new(control::FailureKind::NotFound, "there is no such registration"))
    }

    async fn blocks(&self) -> BlockList {
        let block = BlockRow {
            service: "sip".into(),
            source: Some("2001:db8::/64".into()),
            account: Some("al\u{1b}ice@example.test".into()),
            failures: 12,
            failed_at: 1_800_000_000_000_000,
            refused_until: 1_800_000_002_000_000,
            forgiven_at: 1_800_000_900_000_000,
        };
        let everywhere = BlockRow { service: "xmpp".into(), source: None, ..block.clone() };
        BlockList { blocks: vec![block, everywhere], total: 7 }
    }

    async fn lift_block(&self, subject: &str) -> u64 {
        self.events.send(Event::LiftBlock(subject.to_owned())).unwrap();
        if subject == "192.0.2.1" { 2 } else { 0 }
    }

    async fn live(
        &self,
        _: admin::live::LiveRequest,
    ) -> Result<admin::live::LiveAnswer, admin::ControlError> {
        Err(admin::ControlError::NotFound)
    }

    async fn end_call(&self, call: &str) -> Result<(), control::Failure> {
        self.events.send(Event::EndCall(call.to_owned())).unwrap();
        Ok(())
    }

    async fn ask_nodes(&self, _: &control::Request) -> Option<control::OtherNodes> {
        None
    }

    async fn read(&self, read: Read) -> Result<Loaded, StoreError> {
        self.admin.borrow_mut().read(&read)
    }

    async fn write(&self, write: Write) -> Result<WriteDone, StoreError> {
        self.events.send(Event::Wrote).unwrap();
        self.admin.borrow_mut().write(&write)
    }

    async fn chat(&self, ask: admin::chat::Ask) -> Result<admin::chat::Answer, admin::ControlError> {
        use admin::chat::{Answer, Ask, Contact, Room, RoomDetails, Session, User};
        let address = |text: &str| String::from(text);
        self.events.send(Event::Chat(format!("{ask:?}"))).unwrap();
        Ok(match ask {
            Ask::Sessions { .. } => {
                let session = Session {
                    address: address("alice@example.test/desk"),
                    priority: Some(5),
                    since: 1_800_000_000,
                    from: address("192.0.2.1"),
                    transport: address("tls"),
                    client: address("https://psi-im.org"),
                    resumable: true,
                    ..Session::default()
                };
                Answer::Sessions { sessions: vec![session], total: 1, connections: Vec::new() }
            }
            Ask::End { .. } | Ask::Announce { .. } => Answer::Count(2),
            Ask::Motd { .. } => Answer::Motd(None),
            Ask::Rooms { .. } => Answer::Rooms(vec![Room {
                address: address("tea@conference.example.test"),
                name: address("Tea"),
                occupants: 3,
                persistent: true,
                listed: true,
            }]),
            Ask::Room { room } => {
                Answer::Room(Box::new(RoomDetails { address: room, ..RoomDetails::default() }))
            }
            Ask::User { user } => Answer::User(User { address: user, contacts: 7, ..User::default() }),
            Ask::Roster { .. } => Answer::Roster(vec![Contact {
                address: address("bob@example.test"),
                subscription: address("both"),
                ..Contact::default()
            }]),
            Ask::DestroyRoom { .. } => return Err(admin::ControlError::NotFound),
            _ => Answer::Done,
        })
    }

    fn passwords_changed(&self, _accounts: Vec<store::Address>) {}

    fn accounts_changed(&self) {
        self.events.send(Event::AccountsChanged).unwrap();
    }

    fn audit(&self, _change: control::CommandAudit<'_>) {}
}

fn listening(service: &str, at: &[&str]) -> Listening {
    Listening { service: service.into(), at: at.iter().map(|at| Box::from(*at)).collect() }
}

/// Runs on a thread of its own until dropped.
pub(crate) struct FakeNode {
    pub(crate) events: Receiver<Event>,
    pub(crate) http: std::net::SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakeNode {
    pub(crate) fn start(config: Config) -> Self {
        let (events, received) = sync_channel(1_000);
        let (stop, stopped) = oneshot::channel();
        let (ready, http) = sync_channel(1);
        let run = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            tokio::task::LocalSet::new().block_on(&runtime, async {
                let doors = AdminListeners::open(&config).await.unwrap();
                ready.send(doors.http_address().unwrap()).unwrap();
                let store = Sqlite::open(config.server.database()).unwrap();
                let admin = RefCell::new(Admin::new(&store).unwrap());
                let fake = Fake { admin, events, draining: Cell::new(false), traces: RefCell::default() };
                let fake = Rc::new(fake);
                let (status, watching) = control::watch(fake.clone());
                tokio::task::spawn_local(watching);
                tokio::select! {
                    () = doors.serve(fake, status, (Web::default(), None, None)) => {}
                    _ = stopped => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name("fake-node".into()).spawn(run).unwrap();
        let http = http.recv().unwrap();
        FakeNode { events: received, http, stop: Some(stop), thread: Some(thread) }
    }
}

impl FakeNode {
    /// The next but reloads, which a signal sent to the whole process causes in every node of it.
    pub(crate) fn next_event(&self) -> Event {
        self.events.iter().find(|event| *event != Event::Reload).unwrap()
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        drop(self.stop.take());
        self.thread.take().unwrap().join().unwrap();
    }
}
