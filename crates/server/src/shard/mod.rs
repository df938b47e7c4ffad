//! One shard: the loop that reads the clock, receives, lets the cores work and performs what they ask.
//!
//! Everything a core asks that another part answers comes back as an input in a later turn (or in the same
//! one, when the answer is at hand). Nothing here waits but [`Shard::run`], and only for the next thing to do.
//!
//! A SIP message belongs to the shard that its Call-ID hashes to, by whichever socket it came; the receiving shard hands it
//! over unparsed, in batches. The state of an address belongs to the shard of its bucket.
//!
//! | effect of the endpoint | performed by |
//! |---|---|
//! | `Transmit` | `net`, or the shard that has the connection |
//! | `Ask` | the router of the address's owner, here, through its inbox, or at another node (`buckets`) |
//! | `Account` | the account cache, else a reader thread of the store (`store_reads`), or the owner (`edge_accounts`) |
//! | `Plan` | the routing plan, inline (`planning`) |
//! | `Dns` | a task of `net` |
//! | `Call` | the ledger, and at a call's end the store (`call_records`) |
//! | `Session` | the calls of applications (`voice`) |

mod accounts;
mod buckets;
mod call_records;
mod calls;
mod chat_farm;
mod deps;
mod edge_accounts;
mod farm;
mod key_writer;
mod load;
mod media_first;
mod node_links;
mod operator_questions;
mod pace;
mod perform;
mod phones;
pub(crate) mod planning;
mod probes;
mod reports;
mod request_origin;
mod selector;
mod sip_relay;
mod status;
mod store_reads;
pub(crate) mod voice;
mod xmpp;

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::task::Poll;
use std::time::Duration;

use anyhow::Context as _;
use router::Answer;
use sip::endpoint::{Endpoint, EndpointEffect, Intake, handle_shared_response};
use sip::transport::{Packet, Transmit};
use stdx::Instant;
use voice_io::ShardVoice;

pub use call_records::RecordSinks;
pub use deps::{AccountSource, Reload, ShardDeps};
pub use planning::CallerProof;
pub use status::{ShardStatus, StatusBoard};

use crate::message::{Command, InboxMessage, LocalMessage, ShardMessage};
use call_records::CallRecords;
use deps::ShardResources;
use load::Load;
use media_first::{MediaShare, ShardMedia, work_off};
use net::{Certified, Io, NetEvent};
use node_links::node_links;
use pace::{NextTurn, Pace};
use planning::RoutePlanner;
use probes::{ProbeEffect, RouteProbes};
use reports::ReportMarks;
use request_origin::refusal_of;
pub(crate) use selector::ShardSelector;
use sip_relay::sip_relay;
use store_reads::StoreReads;

/// A running shard, on its own thread.
pub struct Shard {
    parts: ShardResources,
    io: Io,
    /// `None`: no chat clients.
    xmpp: Option<xmpp::XmppAdapter>,
    /// `None`: no applications answer calls here.
    voice: Option<ShardVoice>,
    /// `None`: the node is alone.
    farm: Option<farm::FarmAdapter>,
    workers: ShardSelector,
    reports: ReportMarks,
    reads: StoreReads,
    records: CallRecords,
    operator_changes: operator_questions::OperatorChanges,
    planner: RoutePlanner,
    probes: RouteProbes,
    /// Messages for other shards at the end of the turn, by number.
    post: Vec<Vec<InboxMessage>>,
    handover: Vec<Vec<Packet>>,
    load: Load,
    pace: Pace,
    media_share: MediaShare,
    leaving: bool,
    /// Told when the UDP sockets are empty and closed.
    closing: Option<SyncSender<()>>,
    last_report: Instant,
    scratch: Scratch,
}

/// Buffers that live from turn to turn so that a turn allocates nothing.
#[derive(Default)]
struct Scratch {
    packets: Vec<Packet>,
    messages: Vec<InboxMessage>,
    events: Vec<NetEvent>,
    certified: Vec<Certified>,
    effects: Vec<EndpointEffect>,
    router_effects: Vec<router::Effect>,
    probe_effects: Vec<ProbeEffect>,
    outbox: Vec<::voice::VoiceEffect>,
    xmpp_outbox: Vec<crate::xmpp::XmppEffect>,
}

/// The interval at which the numbers for status and metrics are put on the board.
const REPORT_EVERY: Duration = Duration::from_millis(500);

impl Shard {
    /// On the shard's thread.
    ///
    /// # Errors
    /// An address for chat clients that cannot be listened at.
    pub fn new(deps: ShardDeps, io: Io) -> anyhow::Result<Self> {
        let ShardDeps { edge, map, clock, endpoint, router, default_max_contacts, store, .. } = deps;
        let (inbox, outlets, board, chat) = (deps.inbox, deps.outlets, deps.board, deps.chat);
        let shards = outlets.len();
        let xmpp = match deps.xmpp {
            Some(settings) => {
                let core = crate::xmpp::Xmpp::new(settings, edge, map)?;
                let own = outlets[usize::from(edge.shard)].clone();
                Some(xmpp::XmppAdapter::new(core, Arc::clone(&store), edge.shard, own))
            }
            None => None,
        };
        let adapter = |farm| farm::FarmAdapter::new(edge, farm, clock);
        Ok(Shard {
            io,
            xmpp,
            voice: deps.voice,
            farm: deps.farm.map(adapter).transpose().context("links to other nodes")?,
            workers: ShardSelector::new(map),
            reports: ReportMarks::default(),
            reads: StoreReads::new(Arc::clone(&store), edge.shard, deps.accounts),
            records: CallRecords::new((deps.ledger, deps.record_sinks), deps.records, &store, &board),
            planner: RoutePlanner::new(deps.plan, deps.proof),
            probes: RouteProbes::new(deps.health),
            post: (0..shards).map(|_| Vec::new()).collect(),
            handover: (0..shards).map(|_| Vec::new()).collect(),
            load: Load::default(),
            pace: Pace::default(),
            media_share: MediaShare::default(),
            operator_changes: operator_questions::OperatorChanges::default(),
            leaving: false,
            closing: None,
            last_report: Instant::default(),
            scratch: Scratch::default(),
            parts: ShardResources {
                edge,
                map,
                clock,
                endpoint,
                router,
                default_max_contacts,
                store,
                inbox,
                outlets,
                board,
                chat,
                traces: deps.traces,
                failures: deps.failures,
            },
        })
    }

    /// Until told to leave.
    pub async fn run(mut self) {
        let started = self.parts.clock.now();
        self.begin(started);
        while !self.leaving {
            match self.pace.next() {
                NextTurn::Wait => self.wait().await,
                NextTurn::Connections => pace::run_connections().await,
                NextTurn::Sockets => {}
            }
            let now = self.parts.clock.now();
            let messages = self.turn(now);
            let ended = self.parts.clock.now();
            let intake = self.load.weigh(now, ended, messages);
            self.parts.endpoint.set_intake(intake);
            xmpp::note_turn(&mut self.xmpp, now, ended);
            let tick = self.voice.as_ref().and_then(|voice| voice.calls.deadline());
            self.pace.rest(ended, messages, tick);
        }
        // Connections write what they were given last, such as BYEs, while this thread waits.
        pace::run_connections().await;
        self.farm.iter_mut().for_each(farm::FarmAdapter::close_links);
        if let Some(adapter) = &mut self.xmpp {
            // Every connected client is told that the node ends.
            adapter.xmpp.close_all().await;
        }
        self.end();
    }

    /// The first probes, and whatever else is due before anything arrives.
    fn begin(&mut self, now: Instant) {
        farm::begin(self, now);
        chat_farm::begin(self, now);
        self.with_xmpp(now, |xmpp, outbox| xmpp.begin(now, outbox));
        self.probes.set_targets(now, self.planner.plan().probed());
        self.settle(now);
    }

    async fn wait(&mut self) {
        let now = self.parts.clock.now();
        let patience = self.deadline(now).since(now);
        if patience.is_zero() {
            // Something is due; the sockets are looked at all the same.
            return tokio::task::yield_now().await;
        }
        let (inbox, xmpp, farm) = (&mut self.parts.inbox, &self.xmpp, &self.farm);
        let messages = poll_fn(|context| {
            let asks = xmpp.as_ref().is_some_and(|adapter| adapter.xmpp.poll_ready(context).is_ready());
            let hears = farm.as_ref().is_some_and(|adapter| adapter.poll_ready(context).is_ready());
            if asks || hears { Poll::Ready(()) } else { inbox.poll_ready(context) }
        });
        tokio::select! {
            biased;
            () = messages => {}
            () = self.io.ready() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }

    fn deadline(&self, now: Instant) -> Instant {
        if self.closing.is_some() {
            return now;
        }
        let parts = &self.parts;
        let (records, probes) = (self.records.deadline(), self.probes.deadline());
        let (reads, voice) =
            (self.reads.deadline(), self.voice.as_ref().and_then(|voice| voice.calls.deadline()));
        let xmpp = self.xmpp.as_ref().and_then(|adapter| adapter.xmpp.deadline());
        let farm = self.farm.as_ref().and_then(farm::FarmAdapter::deadline);
        [parts.endpoint.deadline(), parts.router.deadline(), records, probes, reads, voice, xmpp, farm]
            .into_iter()
            .flatten()
            .fold(now + REPORT_EVERY, Instant::min)
    }

    /// Does one turn. Returns how many packets and messages it handled.
    fn turn(&mut self, now: Instant) -> usize {
        let mut now = media_first::begin_turn(&mut ShardMedia(self), now);
        chat_farm::begin_turn(self, now);
        self.read_certified();
        let received = self.receive(&mut now);
        self.close_sockets(received);
        let mut messages = received + self.read_messages(&mut now) + farm::read_links(self, now);
        messages += self.with_xmpp(now, |xmpp, outbox| xmpp.turn(now, outbox)).unwrap_or(0);
        self.read_events(now);
        self.parts.endpoint.expire(now, &mut self.scratch.effects);
        self.parts.router.expire(now, &mut self.scratch.router_effects);
        buckets::drive(self, now, |driver| driver.expire(now));
        perform::expire_held(self, now);
        self.records.expire(now);
        self.probes.expire(now);
        now = self.settle(now);
        self.hand_over(now);
        // Messages that a full inbox refused count as failed; the failures may produce further effects.
        now = self.settle(now);
        self.io.flush();
        if let Some(farm) = &self.farm {
            farm.flush(now);
        }
        if now.since(self.last_report) >= REPORT_EVERY {
            self.last_report = now;
            self.parts.board.put(self.parts.edge.shard, ShardStatus::of(self, now));
            self.farm.iter_mut().for_each(|farm| farm.report(now, self.parts.edge.life));
            self.reads.accounts().sweep(now);
        }
        messages
    }

    /// Closes the sockets, if that was asked for, nothing more comes to them, and all that came is read.
    fn close_sockets(&mut self, received: usize) {
        if let Some(closed) = self.closing.take_if(|_| self.io.leave_udp_groups() && received == 0) {
            self.io.close_udp();
            self.farm.iter().for_each(farm::FarmAdapter::leave);
            // The asker waits for a limited time.
            let _ = closed.try_send(());
        }
    }

    /// Any shard may be the one that works on a message of these connections, and messages to it stay in their order.
    fn read_certified(&mut self) {
        let mut certified = std::mem::take(&mut self.scratch.certified);
        self.io.take_certified(&mut certified);
        if !certified.is_empty() {
            for (shard, post) in self.post.iter_mut().enumerate() {
                if shard != usize::from(self.parts.edge.shard) {
                    post.push(ShardMessage::Certified(certified.clone()).into());
                }
            }
            note_certified(&mut self.parts.endpoint, &mut certified);
        }
        self.scratch.certified = certified;
    }

    fn receive(&mut self, now: &mut Instant) -> usize {
        let mut packets = std::mem::take(&mut self.scratch.packets);
        let count = if self.pace.next() == NextTurn::Sockets {
            self.io.receive_anyway(&mut packets)
        } else {
            self.io.receive_batch(&mut packets)
        };
        *now = work_off(&mut ShardMedia(self), *now, packets.drain(..), |shard, now, packet| {
            shard.0.handle_received(now, packet);
        });
        self.scratch.packets = packets;
        self.pace.note_packets(count)
    }

    fn handle_received(&mut self, now: Instant, packet: Packet) {
        let view = self.farm.as_ref().and_then(farm::FarmAdapter::view);
        match self.workers.of(&packet.bytes, view) {
            Some(address) if address == self.parts.edge => sip_relay(self).work(now, packet),
            Some(_) if sip_relay(self).keeps(now, &packet) => {
                sip_relay(self).work_off_slot(now, packet);
            }
            Some(address) if self.parts.map.has(address) => {
                self.handover[usize::from(address.shard)].push(packet);
            }
            Some(address) => sip_relay(self).relay(now, address, &packet),
            None => sip_relay(self).work(now, packet),
        }
    }

    fn read_messages(&mut self, now: &mut Instant) -> usize {
        let mut messages = std::mem::take(&mut self.scratch.messages);
        self.parts.inbox.take(&mut messages);
        let count = self.pace.note_inbox(&messages);
        *now =
            work_off(&mut ShardMedia(self), *now, messages.drain(..), |shard, now, message| match message {
                InboxMessage::Shard(message) => shard.0.handle_message(now, message),
                InboxMessage::Local(message) => shard.0.handle_local_message(now, message),
            });
        self.scratch.messages = messages;
        count
    }

    fn handle_message(&mut self, now: Instant, message: ShardMessage) {
        let is_shared = buckets::is_shared(self);
        let effects = &mut self.scratch.effects;
        match message {
            ShardMessage::Packets(packets) => {
                let mut relay = sip_relay(self);
                packets.into_iter().for_each(|packet| relay.work(now, packet));
            }
            ShardMessage::Certified(mut certified) => {
                note_certified(&mut self.parts.endpoint, &mut certified);
            }
            ShardMessage::Transmit { mut transmit, from } => {
                let (map, view) = (&self.parts.map, self.farm.as_ref().and_then(farm::FarmAdapter::view));
                let is_reachable = |shard| map.has(shard) || view.is_some_and(|view| view.has(shard));
                transmit.report =
                    transmit.report.and_then(|report| self.reports.mark(report, from, is_reachable));
                self.io.send(transmit);
            }
            ShardMessage::SendFailed(report) => self.parts.endpoint.handle_send_failed(now, report, effects),
            ShardMessage::Ask { from, id, query } if is_shared => {
                buckets::drive(self, now, |driver| driver.handle_question(now, from, id, query));
            }
            ShardMessage::Ask { from, id, query } => {
                self.query(now, from, id, query);
            }
            ShardMessage::Answer { id, answer } if is_shared => {
                buckets::drive(self, now, |driver| driver.handle_answer(now, id, answer));
            }
            ShardMessage::Answer { id, answer } => self.give_answer(now, id, answer),
            ShardMessage::Push(push) => perform::handle_push(self, now, push),
            ShardMessage::SharedResponse(shared) => {
                handle_shared_response(&mut self.parts.endpoint, now, shared, effects);
            }
            ShardMessage::Down(down) => self.planner.set_down(down),
            ShardMessage::Room(message) => {
                self.with_voice(now, |voice, world| voice.handle_room_message(now, message, world));
            }
            ShardMessage::Xmpp(messages) => {
                self.with_xmpp(now, |xmpp, outbox| {
                    for message in messages {
                        crate::xmpp::farm::handle_message(xmpp, now, message, outbox);
                    }
                });
            }
        }
    }

    fn handle_local_message(&mut self, now: Instant, message: LocalMessage) {
        match message {
            LocalMessage::Written(done) => self.handle_written(now, done),
            LocalMessage::Loaded(done) => self.handle_loaded(now, done),
            LocalMessage::Plan(plan) => {
                self.probes.set_targets(now, plan.probed());
                self.planner.set_plan(plan);
            }
            LocalMessage::Voice(message) => {
                self.with_voice(now, |calls, world| voice::handle_message(calls, now, message, world));
            }
            LocalMessage::Xmpp(message) => {
                self.with_xmpp(now, |xmpp, outbox| xmpp.handle_local_message(now, message, outbox));
            }
            LocalMessage::Command(command) => self.handle_command(command),
            LocalMessage::Farm(view) => farm::set_view(self, now, &view),
            LocalMessage::HostRefuses(life) => drop(self.parts.endpoint.set_host_refuses(life)),
            LocalMessage::Buckets(orders) => buckets::handle_orders(self, now, &orders),
            LocalMessage::ToNode { life, message } => farm::pass_to_node(self, now, life, message),
        }
    }

    fn handle_command(&mut self, command: Command) {
        match command {
            Command::ForgetAccount(address) => {
                self.reads.accounts().forget(address.as_deref());
                self.scratch.router_effects.extend(edge_accounts::news(self, address.as_deref()));
                if let Some(adapter) = &mut self.xmpp {
                    adapter.xmpp.forget_account(address.as_deref());
                }
            }
            Command::EndSessions(ended) => {
                let now = self.parts.clock.now();
                self.with_xmpp(now, |xmpp, outbox| xmpp.end_sessions(now, &ended, outbox));
            }
            Command::Drain => {
                self.load.drain();
                self.io.stop_accepting();
                if let Some(adapter) = &mut self.xmpp {
                    adapter.xmpp.drain();
                }
                self.parts.endpoint.set_intake(Intake::Draining);
            }
            Command::HangUp { done } => voice::hang_up(self, &done),
            Command::CloseSockets { closed } => self.closing = Some(closed),
            Command::Leave => self.leaving = true,
            Command::Settings(reload) => {
                self.parts.endpoint.reload(reload.settings);
                self.planner.set_proof(reload.proof);
                self.parts.default_max_contacts = reload.default_max_contacts;
                self.records.set_on(reload.records);
                self.io.set_capture(reload.capture);
                if let (Some(adapter), Some(reload)) = (&mut self.xmpp, reload.xmpp) {
                    adapter.xmpp.reload(reload);
                }
            }
            Command::Ask(question) => operator_questions::handle(self, question),
            Command::Trace(accounts) => {
                if let Some(adapter) = &self.xmpp {
                    adapter.xmpp.streams.set_traced(sip::endpoint::TracedAccount::names(&accounts));
                }
                self.parts.endpoint.set_traced(accounts);
            }
        }
    }

    fn read_events(&mut self, now: Instant) {
        let mut events = std::mem::take(&mut self.scratch.events);
        self.io.take_events(&mut events);
        for event in events.drain(..) {
            let effects = &mut self.scratch.effects;
            match event {
                NetEvent::SendFailed(report, _) => match self.reports.unmark(report) {
                    (None, report) => self.parts.endpoint.handle_send_failed(now, report, effects),
                    // The shard of a life that is over needs no report.
                    (Some(from), report) if self.parts.map.has(from) => {
                        self.post[usize::from(from.shard)].push(ShardMessage::SendFailed(report).into());
                    }
                    (Some(from), report) if farm::is_at_other_node(self, from) => {
                        // A report that is lost is replaced by a timer.
                        let failed = shard_message::wire::send_failed(from, report);
                        let _ = node_links(self).send(now, from, failed);
                    }
                    (Some(_), _) => {}
                },
                NetEvent::Dns(answer) => {
                    self.parts.endpoint.handle_dns(now, answer.id, answer.result, effects);
                }
                NetEvent::StreamFault { source, head, reply } => {
                    self.parts.endpoint.handle_stream_fault(source, head, reply, effects);
                }
                NetEvent::FlowOpened(_) | NetEvent::FlowClosed(..) => {}
            }
        }
        self.scratch.events = events;
    }

    fn hand_over(&mut self, now: Instant) {
        for (shard, packets) in self.handover.iter_mut().enumerate() {
            if !packets.is_empty() {
                self.post[shard].push(ShardMessage::Packets(std::mem::take(packets)).into());
            }
        }
        chat_farm::post(self, now);
        if let Some(adapter) = &mut self.xmpp {
            adapter.post(&mut self.post);
        }
        for shard in 0..self.post.len() {
            let messages = &mut self.post[shard];
            if messages.is_empty() {
                continue;
            }
            if let Err(cluster::Full(rest)) = self.parts.outlets[shard].send_all(messages) {
                self.parts.board.count_lost_messages(rest.len());
                rest.into_iter().for_each(|message| self.take_back(now, shard, message));
            }
        }
    }

    /// A message that found the inbox full. Packets are retransmitted by their senders; a question or a
    /// message of ours would be waited for in vain, so it fails now.
    fn take_back(&mut self, now: Instant, shard: usize, message: InboxMessage) {
        let Some(message) = chat_farm::take_back(self, now, message) else { return };
        let is_shared = buckets::is_shared(self);
        let effects = &mut self.scratch.effects;
        match message {
            // Sent again before what comes next: without it a trunk would be a stranger there.
            ShardMessage::Certified(_) => self.post[shard].push(message.into()),
            ShardMessage::Xmpp(messages) => {
                let kept = self.with_xmpp(now, |xmpp, outbox| xmpp.take_back(now, messages, outbox));
                if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
                    self.parts.outlets[shard].answer_all(&mut vec![ShardMessage::Xmpp(kept).into()]);
                }
            }
            ShardMessage::Ask { id, .. } if is_shared => {
                buckets::drive(self, now, |driver| driver.handle_answer(now, id, Answer::Unavailable));
            }
            ShardMessage::Ask { id, query, .. } => {
                if let Some(answer) = refusal_of(id, &query) {
                    self.give_answer(now, id, answer);
                }
            }
            ShardMessage::Transmit { transmit: Transmit { report: Some(report), .. }, .. } => {
                self.parts.endpoint.handle_send_failed(now, report, effects);
            }
            _ => {}
        }
    }

    /// Writes down the calls that are open.
    fn end(mut self) {
        let now = self.parts.clock.now();
        // Calls that have begun since `Command::HangUp` are hung up here.
        self.with_voice(now, |voice, world| voice.hang_up_all(now, world));
        self.settle(now);
        self.records.drain(now);
        self.records.write();
        self.io.flush();
        self.parts.board.put(self.parts.edge.shard, ShardStatus::of(&self, now));
    }
}

fn note_certified(endpoint: &mut Endpoint, certified: &mut Vec<Certified>) {
    for Certified { flow, names } in certified.drain(..) {
        match names {
            Some(names) => endpoint.note_certificate(flow, names),
            None => endpoint.forget_certificate(flow),
        }
    }
}

/// The runtime of a shard: one thread, local tasks for connections.
///
/// # Errors
/// When the kernel gives no epoll, or an address cannot be bound.
pub fn run_on_this_thread<E: From<std::io::Error>>(
    build: impl FnOnce() -> Result<Shard, E>,
    ready: impl FnOnce(Result<(), E>),
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return ready(Err(error.into())),
    };
    let local = Rc::new(tokio::task::LocalSet::new());
    local.block_on(&runtime, async {
        match build() {
            Ok(shard) => {
                ready(Ok(()));
                shard.run().await;
            }
            Err(error) => ready(Err(error)),
        }
    });
}
