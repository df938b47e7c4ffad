//! One shard: its loop, and what it does between two naps.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use lab_sip::call::{Call, CallContext, CallEnv, Outbox, ScenarioRole, TransportFault};
use lab_sip::rtp::MediaStreams;
use lab_sip::stats::{Count, Stats};
use mio::{Events, Poll};
use mmsg::Receiver;
use stdx::rng::Rng;
use stdx::slab::Key;
use stdx::time::Instant;
use stdx::wheel::Wheel;

use super::calls::{CallLink, Calls};
use super::clock::Clock;
use super::dispatch::MessageOrigin;
use super::limits::{BUSY, LATE, MEDIA_NAP, NAP, STARTS_A_TURN, TICK_MICROS, UNSTAMPED_NAP, WINDOW};
use super::report::{Reporter, ShardReport};
use super::schedule::ShardArrivals;
use super::shard_hub::{ForwardedConnection, InboxContent, RunPhase, ShardCommand, ShardHub};
use super::shard_sockets::ShardSockets;
use super::stream::Sender;
use super::token::{self, TokenKind};
use super::twin::Twins;
use super::user_variables::UserVariables;

/// Scenarios of a run.
pub(super) struct CallEnvs {
    pub(super) main: CallEnv,
    pub(super) receive: Option<CallEnv>,
    pub(super) out_of_call: Option<CallEnv>,
}

impl CallEnvs {
    pub(super) fn get(&self, which: ScenarioRole) -> &CallEnv {
        let wanted = match which {
            ScenarioRole::Main => None,
            ScenarioRole::Receive => self.receive.as_ref(),
            ScenarioRole::OutOfCall => self.out_of_call.as_ref(),
        };
        wanted.unwrap_or(&self.main)
    }
}

pub(super) struct Shard {
    pub(super) index: u16,
    pub(super) hub: Arc<ShardHub>,
    pub(super) clock: Clock,
    pub(super) poll: Poll,
    pub(super) envs: CallEnvs,
    pub(super) calls: Calls,
    pub(super) timers: Wheel<Key, TICK_MICROS>,
    pub(super) out: Outbox,
    pub(super) rng: Rng,
    pub(super) stats: Stats,
    pub(super) media: MediaStreams,
    pub(super) net: ShardSockets,
    pub(super) twins: Twins,
    /// Open arrivals; `None` for a server and in users mode.
    pub(super) arrivals: Option<ShardArrivals>,
    /// No arrivals from here on (`--for`).
    pub(super) arrivals_end: Instant,
    pub(super) users: UserVariables,
    /// When the turn in hand began.
    pub(super) turn: Instant,
    /// The out-of-call scenario was asked for (`-oocsf`): it takes every request, not only what `-aa` answers.
    pub(super) answers_all: bool,
    /// Messages for other shards, by shard.
    pub(super) outgoing: Vec<InboxContent>,
    pub(super) inbox: InboxContent,
    /// Messages just cut from a connection.
    pub(super) frames: InboxContent,
    pub(super) faults: Vec<(Key, TransportFault)>,
    pub(super) reporter: Reporter,
    pub(super) rhythm: LoopPacing,
    pub(super) reports: SyncSender<ShardReport>,
}

/// When to look again.
#[derive(Debug, Default)]
pub(super) struct LoopPacing {
    window_began: Instant,
    in_window: u64,
    busy: bool,
    /// Messages of this turn.
    pub(super) messages: u64,
    /// The turn left work behind.
    pub(super) more: bool,
    /// When the turn was to begin at the latest.
    planned: Instant,
}

impl LoopPacing {
    fn end_turn(&mut self, now: Instant) {
        self.in_window += self.messages;
        if now.since(self.window_began) >= WINDOW {
            self.busy = self.in_window >= BUSY;
            self.window_began = now;
            self.in_window = 0;
        }
    }

    fn naps(&self) -> bool {
        self.busy && self.messages > 0 && !self.more
    }
}

impl Shard {
    /// Turns until the run is over; what is left is reported.
    pub(super) fn run(mut self) {
        let mut events = Events::with_capacity(1_024);
        let mut receiver = Receiver::new();
        let mut fired = Vec::new();
        loop {
            self.rest(&mut events);
            let now = self.clock.now();
            if now.since(self.rhythm.planned) > LATE {
                self.stats.count(Count::LateTurns);
            }
            self.turn = now;
            self.net.streams.now = now;
            self.rhythm.messages = 0;
            self.rhythm.more = false;
            self.take_events(&events, now);
            self.take_inbox(now);
            self.wake_calls(now, &mut fired);
            self.receive(&mut receiver, now);
            self.turn_media(&events, &mut receiver, now);
            self.keep_connections(now);
            self.start_due(now);
            self.finish_turn(now);
            if self.is_over(now) {
                break;
            }
        }
        let now = self.clock.now();
        self.report(now, true);
    }

    /// Waits for something to do: a nap while messages keep coming, else until the next deadline.
    #[expect(
        clippy::disallowed_methods,
        reason = "the one sleep of a shard: everything it could miss waits in the kernel, stamped"
    )]
    fn rest(&mut self, events: &mut Events) {
        let now = self.clock.now();
        let timeout = if self.rhythm.naps() {
            let nap = self.nap(now);
            std::thread::sleep(nap);
            self.rhythm.planned = now + nap;
            Duration::ZERO
        } else if self.rhythm.more {
            self.rhythm.planned = now;
            Duration::ZERO
        } else {
            let deadline = self.deadline();
            self.rhythm.planned = deadline.max(now);
            deadline.since(now)
        };
        // Interrupted by a signal: an empty turn.
        if self.poll.poll(events, Some(timeout)).is_err() {
            events.clear();
        }
    }

    /// Media is paced, so it is not kept waiting as messages are.
    fn nap(&self, now: Instant) -> Duration {
        let nap = if self.net.streams.are_stamped() { NAP } else { UNSTAMPED_NAP };
        match self.media.deadline() {
            Some(media) => nap.min(media.since(now).max(MEDIA_NAP)),
            None => nap,
        }
    }

    fn deadline(&self) -> Instant {
        let mut deadline = self.reporter.next();
        if let Some(timer) = self.timers.deadline() {
            deadline = deadline.min(timer);
        }
        if let Some(arrivals) = self.arrivals.as_ref().filter(|_| self.hub.phase() == RunPhase::Running) {
            deadline = deadline.min(arrivals.due());
        }
        if let Some(media) = self.media.deadline() {
            deadline = deadline.min(media);
        }
        deadline = deadline.min(self.net.streams.deadline());
        deadline
    }

    fn take_events(&mut self, events: &Events, now: Instant) {
        for event in events {
            match token::read(event.token()) {
                (TokenKind::Waker | TokenKind::Media, _) => {}
                (TokenKind::Udp, key) => self.net.unread.push(key),
                (TokenKind::Listener, key) => self.accept(key, now),
                (TokenKind::Stream, key) => self.stream_event(key, event, now),
                (TokenKind::Twin, key) => self.twin_event(key, event, now),
            }
        }
    }

    fn take_inbox(&mut self, now: Instant) {
        let mut inbox = std::mem::take(&mut self.inbox);
        self.hub.doors[usize::from(self.index)].take(&mut inbox);
        for command in inbox.commands.drain(..) {
            match command {
                ShardCommand::Schedule(schedule) => {
                    if let Some(arrivals) = &mut self.arrivals {
                        arrivals.change(now, schedule);
                    }
                }
                ShardCommand::Users(users) => self.users.resize(users),
            }
        }
        for parcel in &inbox.parcels {
            let bytes = &inbox.bytes[parcel.start..parcel.end];
            self.handle_handed_over(bytes, parcel.from, parcel.received, parcel.link);
        }
        self.take_far(&inbox);
        inbox.clear();
        self.inbox = inbox;
    }

    /// Writes of other shards to our connections, and news of theirs.
    fn take_far(&mut self, inbox: &InboxContent) {
        for write in &inbox.writes {
            let bytes = &inbox.bytes[write.start..write.end];
            let connection = match write.to {
                ForwardedConnection::Connection(key) => Ok(key),
                ForwardedConnection::Target(target) => self.net.shared_stream(target, &self.poll),
            };
            let written =
                connection.and_then(|key| self.net.streams.write_from_afar(key, bytes, write.sender));
            if let Err(fault) = written {
                let Sender { shard, call, .. } = write.sender;
                self.outgoing[usize::from(shard)].faults.push((call, fault));
            }
        }
        self.faults.extend_from_slice(&inbox.faults);
        for (link, fault) in &inbox.gone {
            self.tell_calls_of(*link, *fault);
        }
    }

    fn wake_calls(&mut self, now: Instant, fired: &mut Vec<Key>) {
        while let Some(hash) = self.calls.forget(now) {
            if let Some(directory) = &self.hub.directory {
                directory.remove(hash);
            }
        }
        self.timers.expire(now, fired);
        for key in fired.drain(..) {
            let Some(entry) = self.calls.get_mut(key) else { continue };
            entry.armed = Instant::FAR_FUTURE;
            if entry.call.deadline <= now {
                self.enter(key, now, Call::handle_wake);
            } else {
                self.arm(key);
            }
        }
    }

    fn receive(&mut self, receiver: &mut Receiver, now: Instant) {
        let wall = Clock::wall();
        let mut unread = std::mem::take(&mut self.net.unread);
        unread.retain(|key| self.receive_from(*key, receiver, now, wall));
        self.rhythm.more |= !unread.is_empty();
        // Sockets that were opened meanwhile have told nothing yet.
        self.net.unread = unread;
    }

    fn turn_media(&mut self, events: &Events, receiver: &mut Receiver, now: Instant) {
        for event in events.iter().filter(|event| token::is_media(event.token())) {
            // The kernel stamps packets as it does messages: a peer that sends to a napping shard need
            // not wake it for each packet.
            self.rhythm.messages += 1;
            self.media.handle_ready(event.token(), receiver, now, &mut self.stats);
        }
        if self.media.deadline().is_some_and(|deadline| deadline <= now) {
            self.media.turn(receiver, now, &mut self.stats);
        }
    }

    fn start_due(&mut self, now: Instant) {
        for _ in 0..STARTS_A_TURN {
            // The last of `-m` may just have begun.
            if self.hub.phase() != RunPhase::Running {
                return;
            }
            let Some(arrivals) = &mut self.arrivals else { return self.start_users(now) };
            let due = arrivals.due();
            if due > now || due >= self.arrivals_end {
                return;
            }
            arrivals.pass();
            self.arrive(now, due);
        }
        self.rhythm.more = true;
    }

    fn start_users(&mut self, now: Instant) {
        for _ in 0..STARTS_A_TURN {
            let Some(user) = self.users.take_free() else { return };
            if !self.arrive_user(now, user) {
                return self.users.free(user);
            }
        }
        self.rhythm.more = true;
    }

    fn finish_turn(&mut self, now: Instant) {
        self.flush(now);
        for index in 0..self.outgoing.len() {
            if !self.outgoing[index].is_empty() {
                let mut calls = Vec::new();
                let refused = self.hub.doors[index].deliver(&mut self.outgoing[index], &mut calls);
                self.stats.add(Count::ReceiveDrops, refused);
                self.faults.extend(calls.into_iter().map(|call| (call, TransportFault::Congestion)));
            }
        }
        self.rhythm.end_turn(now);
        if now >= self.reporter.next() {
            self.report(now, false);
        }
    }

    /// Hands rendered messages to the kernel and tells calls of those it refused. What the calls send in answer
    /// leaves with the next turn.
    fn flush(&mut self, now: Instant) {
        let mut refused = Vec::new();
        if self.net.flush(&self.out.bytes, &mut refused) {
            self.out.bytes.clear();
        } else {
            self.rhythm.more = true;
        }
        self.faults.append(&mut refused);
        self.tell_ended_connections();
        for (key, fault) in std::mem::take(&mut self.faults) {
            self.enter(key, now, |call, ctx| call.handle_fault(ctx, fault));
            self.rhythm.more = true;
        }
    }

    fn accept(&mut self, listener: Key, now: Instant) {
        if let Err(error) = self.net.streams.accept(listener, self.poll.registry()) {
            self.error(now, super::bind::explain_socket(&error));
        }
    }

    /// Reads what a connection has. The messages are copied out, as their calls write to connections too.
    fn stream_event(&mut self, key: Key, event: &mio::event::Event, now: Instant) {
        let mut read = std::mem::take(&mut self.frames);
        let from = self.net.streams.remote(key);
        let address = from.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let wall = Clock::wall();
        self.net.streams.event(key, event, |message, stamp| {
            let received = stamp.map_or(now, |stamp| now - wall.saturating_sub(stamp));
            read.put(message, address, received, None);
        });
        for frame in &read.parcels {
            let bytes = &read.bytes[frame.start..frame.end];
            self.handle(bytes, address, frame.received, MessageOrigin::Link(CallLink::Stream(key)));
        }
        read.clear();
        self.frames = read;
    }

    /// Calls of a connection that is gone fail with it, or (`-reconnect_close false`) make a new one when they
    /// next send.
    fn tell_ended_connections(&mut self) {
        for ended in std::mem::take(&mut self.net.streams.ended) {
            if ended.calls > 0 {
                self.tell_calls_of(CallLink::Stream(ended.key), ended.fault);
            }
            if !ended.far {
                continue;
            }
            let link = if ended.shared { CallLink::Shared } else { CallLink::Far(self.index, ended.key) };
            for (index, out) in self.outgoing.iter_mut().enumerate() {
                if index != usize::from(self.index) {
                    out.gone.push((link, ended.fault));
                }
            }
        }
    }

    fn tell_calls_of(&mut self, link: CallLink, fault: TransportFault) {
        let tell = fault != TransportFault::Closed || self.envs.main.options.network.reconnect_close;
        for key in self.calls.with_link(link) {
            if let Some(entry) = self.calls.get_mut(key) {
                entry.link = CallLink::None;
            }
            if tell {
                self.faults.push((key, fault));
            }
        }
    }

    /// Wakes connections that are due, reports messages that waited too long, and ends the run when a
    /// connection was lost too often.
    fn keep_connections(&mut self, now: Instant) {
        self.net.streams.wake(now, self.poll.registry());
        for late in std::mem::take(&mut self.net.streams.late) {
            let fault = (late.call, TransportFault::SendTimeout);
            if late.shard == self.index {
                self.faults.push(fault);
            } else {
                self.outgoing[usize::from(late.shard)].faults.push(fault);
            }
        }
        if self.net.streams.exhausted && !self.hub.fatal.swap(true, std::sync::atomic::Ordering::AcqRel) {
            let most = self.envs.main.options.network.max_reconnect;
            self.error(
                now,
                format!(
                    "the connection was lost more often than -max_reconnect allows ({most}): the run ends"
                ),
            );
            self.hub.advance(RunPhase::Hard);
        }
    }

    /// Soft end: when no call is open anywhere. Hard end: own calls are ended first.
    fn is_over(&mut self, now: Instant) -> bool {
        match self.hub.phase() {
            RunPhase::Running => false,
            RunPhase::Soft => self.nothing_open(),
            RunPhase::Hard => {
                // A scenario's own `stop_now` ends the run at once and without a message, as in SIPp.
                let silent = self.hub.stopped_by_scenario.load(std::sync::atomic::Ordering::Acquire);
                let terminated = self.hub.is_terminated();
                for key in self.calls.keys() {
                    if self.calls.get(key).is_some_and(|entry| entry.open) {
                        if terminated {
                            self.enter(key, now, Call::abandon);
                        } else if !silent {
                            self.enter(key, now, |call, ctx| call.abort(ctx, Count::FailedStopped));
                        }
                        self.close_call(key);
                    }
                }
                self.flush(now);
                true
            }
            RunPhase::Gone => true,
        }
    }

    fn nothing_open(&self) -> bool {
        self.hub.open.load(std::sync::atomic::Ordering::Acquire) == 0 && self.out.bytes.is_empty()
    }

    /// Runs one entry point of a call and does what comes of it. `received` is when its cause came; what the call
    /// does happens in this turn.
    pub(super) fn enter(
        &mut self,
        key: Key,
        received: Instant,
        step: impl FnOnce(&mut Call, &mut CallContext<'_>),
    ) {
        let Some(entry) = self.calls.get_mut(key) else { return };
        let user = entry.call.identity.user;
        let users = self.users.asked();
        let now = received.max(self.turn);
        let mut ctx = CallContext {
            now,
            received,
            env: self.envs.get(entry.which),
            stats: &mut self.stats,
            out: &mut self.out,
            media: &mut self.media,
            rng: &mut self.rng,
            user: self.users.variables(user),
            users,
        };
        step(&mut entry.call, &mut ctx);
        self.settle(key, now);
    }

    /// `<init>`, before any shard runs.
    pub(super) fn initialise(&mut self) -> Result<(), String> {
        let now = self.clock.now();
        let mut ctx = CallContext {
            now,
            received: now,
            env: &self.envs.main,
            stats: &mut self.stats,
            out: &mut self.out,
            media: &mut self.media,
            rng: &mut self.rng,
            user: None,
            users: self.users.asked(),
        };
        lab_sip::call::run_init(&mut ctx)
    }

    /// Makes sure that some wheel entry is early enough.
    pub(super) fn arm(&mut self, key: Key) {
        let Some(entry) = self.calls.get_mut(key) else { return };
        if entry.call.deadline < entry.armed {
            entry.armed = entry.call.deadline;
            self.timers.insert(entry.armed, key);
        }
    }

    pub(super) fn error(&mut self, now: Instant, text: String) {
        self.envs.main.tracer.error(now, &text);
        self.reporter.keep_error(text);
    }
}
