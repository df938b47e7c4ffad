//! One shard: its loop, and what it does between two naps.
//!
//! The order of a turn: wait, send media that is due, read events of sockets, take the inbox, wake calls whose timers are due, receive datagrams,
//! received media, connections, start calls that are due, then send everything that the turn produced and report once a second. A busy shard naps between turns, so that
//! the kernel collects messages and one system call fetches many. Times stay exact, as messages have the kernel's time of arrival.

use std::net::SocketAddr;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use lab_sip::call::{Call, TransportFault};
use lab_sip::stats::Count;
use mio::Events;
use mmsg::Receiver;
use stdx::slab::Key;
use stdx::time::Instant;

use super::call_dispatcher::{CallDispatcher, MessageOrigin};
use super::calls::CallLink;
use super::clock::{Clock, TurnClock};
use super::limits::{BUSY, LATE, NAP, SHORTEST_NAP, STARTS_A_TURN, UNSTAMPED_NAP, WINDOW};
use super::report::ShardReport;
use super::schedule::ShardArrivals;
use super::shard_hub::{ForwardedConnection, InboxContent, RunPhase, ShardCommand};
use super::stream::Sender;
use super::token::{self, TokenKind};

/// The loop of one shard: it waits, reads its sockets and its inbox, starts calls when they are due, and reports. Calls and
/// their messages are its dispatcher's.
pub(super) struct Shard {
    /// The calls, sockets and counters of this shard.
    pub(super) dispatcher: CallDispatcher,
    pub(super) clock: Clock,
    /// Open arrivals; `None` for a server and in users mode.
    pub(super) arrivals: Option<ShardArrivals>,
    /// `-users` with `-r`: the arrivals are of users, until all of them have a call.
    pub(super) ramps_users: bool,
    /// No arrivals from here on (`--for`, `-timeout`).
    pub(super) arrivals_end: Instant,
    /// Swapped with the content of the shared inbox, so that its memory is used again.
    pub(super) inbox: InboxContent,
    /// Messages just cut from a connection.
    pub(super) frames: InboxContent,
    /// Decides between a nap, an empty wait and a wait for the next deadline.
    pub(super) rhythm: LoopPacing,
    /// To the collector of the run.
    pub(super) reports: SyncSender<ShardReport>,
}

/// When to look again.
#[derive(Debug, Default)]
pub(super) struct LoopPacing {
    /// The start of the present window of `WINDOW`, in which messages are counted.
    window_began: Instant,
    /// Messages received in the present window.
    in_window: u64,
    /// The last whole window had at least `BUSY` messages.
    busy: bool,
    /// The turn left work behind.
    pub(super) more: bool,
    /// When the turn was to begin at the latest.
    planned: Instant,
}

/// A nap between two turns.
struct Nap {
    length: Duration,
    /// It ends early, as media is due then.
    is_for_media: bool,
}

impl LoopPacing {
    fn end_turn(&mut self, now: Instant, messages: u64) {
        self.in_window += messages;
        if now.since(self.window_began) >= WINDOW {
            self.busy = self.in_window >= BUSY;
            self.window_began = now;
            self.in_window = 0;
        }
    }

    /// A nap pays only under load: a quiet shard waits in the kernel and answers at once. `is_near`: media is due before a nap would end, for
    /// which the milliseconds of epoll are too coarse.
    fn naps(&self, messages: u64, is_near: bool) -> bool {
        self.busy && (messages > 0 || is_near) && !self.more
    }
}

impl Shard {
    /// Turns until the run is over; what is left is reported.
    pub(super) fn run(mut self) {
        // 1,024 events fit one call of epoll; sockets beyond that are reported by the next turn.
        let mut events = Events::with_capacity(1_024);
        let mut receiver = Receiver::new();
        let mut fired = Vec::new();
        loop {
            self.rest(&mut events);
            let turn = TurnClock::new(self.clock);
            let now = turn.start();
            // The machine did not let this thread run in time. By itself that says nothing of the figures: calls that start late for it do.
            if now.since(self.rhythm.planned) > LATE {
                self.dispatcher.stats.count(Count::LateTurns);
            }
            self.dispatcher.turn = turn;
            self.dispatcher.media.begin_turn(now, turn.wall());
            self.dispatcher.net.streams.now = now;
            self.dispatcher.messages = 0;
            self.rhythm.more = false;
            self.turn_media(&mut receiver, now);
            self.take_events(&events, now);
            self.take_inbox(now);
            self.wake_calls(now, &mut fired);
            self.receive(&mut receiver);
            self.receive_media(&events, &mut receiver, now);
            self.keep_connections(now);
            self.start_due(now);
            self.finish_turn(now);
            if self.is_over(now) {
                break;
            }
        }
        // The end may have come after this turn's starts.
        self.end_arrivals(self.dispatcher.hub.phase());
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
        let nap = self.nap(now);
        let timeout = if self.rhythm.naps(self.dispatcher.messages, nap.is_for_media) {
            let nap = nap.length;
            if nap >= SHORTEST_NAP {
                std::thread::sleep(nap);
            }
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
        if self.dispatcher.poll.poll(events, Some(timeout)).is_err() {
            events.clear();
        }
    }

    /// Media is paced, so it is not kept waiting as messages are. Its deadlines are ticks of half a millisecond, so packets leave in batches
    /// all the same.
    fn nap(&self, now: Instant) -> Nap {
        let usual = if self.dispatcher.net.streams.are_stamped() { NAP } else { UNSTAMPED_NAP };
        match self.dispatcher.media.deadline().map(|media| media.since(now)) {
            Some(length) if length < usual => Nap { length, is_for_media: true },
            _ => Nap { length: usual, is_for_media: false },
        }
    }

    /// The earliest of: the next report, a timer of a call, the next arrival, media, a connection. While the run ends, arrivals do not count.
    fn deadline(&self) -> Instant {
        let mut deadline = self.dispatcher.reporter.next();
        if let Some(timer) = self.dispatcher.timers.deadline() {
            deadline = deadline.min(timer);
        }
        if let Some(arrivals) =
            self.arrivals.as_ref().filter(|_| self.dispatcher.hub.phase() == RunPhase::Running)
            && arrivals.due() < self.arrivals_end
        {
            deadline = deadline.min(arrivals.due());
        }
        if let Some(media) = self.dispatcher.media.deadline() {
            deadline = deadline.min(media);
        }
        deadline = deadline.min(self.dispatcher.net.streams.deadline());
        deadline
    }

    /// Datagram sockets are only noted here and read later in the turn, as reading one may need several batches.
    fn take_events(&mut self, events: &Events, now: Instant) {
        for event in events {
            match token::read(event.token()) {
                // The inbox is taken in every turn, and media sockets are read in `receive_media`.
                (TokenKind::Waker | TokenKind::Media, _) => {}
                (TokenKind::Udp, key) => self.dispatcher.net.unread.push(key),
                (TokenKind::Listener, key) => self.accept(key, now),
                (TokenKind::Stream, key) => self.stream_event(key, event),
                (TokenKind::Twin, key) => self.dispatcher.handle_twin_event(key, event, now),
            }
        }
    }

    /// Messages of other shards, in the order commands, messages, writes, verdicts. The inbox is swapped out, so that its lock is held for moments.
    fn take_inbox(&mut self, now: Instant) {
        let mut inbox = std::mem::take(&mut self.inbox);
        self.dispatcher.hub.doors[usize::from(self.dispatcher.index)].take(&mut inbox);
        for command in inbox.commands.drain(..) {
            match command {
                ShardCommand::Schedule(schedule) => {
                    if let Some(arrivals) = &mut self.arrivals {
                        arrivals.change(now, schedule);
                    }
                }
                ShardCommand::Users(users) => self.dispatcher.users.resize(users),
            }
        }
        for parcel in &inbox.parcels {
            let bytes = &inbox.bytes[parcel.start..parcel.end];
            self.dispatcher.handle_handed_over(bytes, parcel.from, parcel.received, parcel.link);
        }
        self.take_far(&inbox);
        for (key, verdict) in inbox.verdicts.drain(..) {
            let verdict = verdict.as_ref().map_err(String::as_str).copied();
            self.dispatcher.enter(key, now, |call, ctx| call.handle_command_end(ctx, verdict));
        }
        inbox.clear();
        self.inbox = inbox;
    }

    /// Writes of other shards to our connections, and news of theirs.
    fn take_far(&mut self, inbox: &InboxContent) {
        for write in &inbox.writes {
            let bytes = &inbox.bytes[write.start..write.end];
            let connection = match write.to {
                ForwardedConnection::Connection(key) => Ok(key),
                ForwardedConnection::Target(target) => {
                    self.dispatcher.net.shared_stream(target, &self.dispatcher.poll)
                }
            };
            let written = connection
                .and_then(|key| self.dispatcher.net.streams.write_from_afar(key, bytes, write.sender));
            if let Err(fault) = written {
                let Sender { shard, call, .. } = write.sender;
                self.dispatcher.outgoing[usize::from(shard)].faults.push((call, fault));
            }
        }
        self.dispatcher.faults.extend_from_slice(&inbox.faults);
        for (link, fault) in &inbox.gone {
            self.dispatcher.tell_calls_of(*link, *fault);
        }
    }

    /// Forgets dead calls whose time is over, then wakes the calls whose timers fired. A timer that fired early is armed again: a call moves its
    /// deadline freely, and the wheel keeps the old entry.
    fn wake_calls(&mut self, now: Instant, fired: &mut Vec<Key>) {
        while let Some(hash) = self.dispatcher.calls.forget(now) {
            if let Some(directory) = &self.dispatcher.hub.directory {
                directory.remove(hash);
            }
        }
        self.dispatcher.timers.expire(now, fired);
        for key in fired.drain(..) {
            let Some(entry) = self.dispatcher.calls.get_mut(key) else { continue };
            entry.armed = Instant::FAR_FUTURE;
            if entry.call.deadline <= now {
                self.dispatcher.enter(key, now, Call::handle_wake);
            } else {
                self.dispatcher.arm(key);
            }
        }
    }

    /// A socket that has more than a turn's share stays in the list, and the next turn begins without a wait.
    fn receive(&mut self, receiver: &mut Receiver) {
        let mut unread = std::mem::take(&mut self.dispatcher.net.unread);
        unread.retain(|key| self.dispatcher.receive_from(*key, receiver));
        self.rhythm.more |= !unread.is_empty();
        // Sockets that were opened meanwhile have told nothing yet.
        self.dispatcher.net.unread = unread;
    }

    /// Packets that are due leave before anything else is done.
    fn turn_media(&mut self, receiver: &mut Receiver, now: Instant) {
        if self.dispatcher.media.deadline().is_some_and(|deadline| deadline <= now) {
            self.dispatcher.messages += self.dispatcher.media.turn(receiver, now, &mut self.dispatcher.stats);
        }
    }

    fn receive_media(&mut self, events: &Events, receiver: &mut Receiver, now: Instant) {
        for event in events.iter().filter(|event| token::is_media(event.token())) {
            // The kernel stamps packets as it does messages: a peer that sends to a napping shard need
            // not wake it for each packet.
            self.dispatcher.messages += 1;
            self.dispatcher.media.handle_ready(event.token(), receiver, now, &mut self.dispatcher.stats);
        }
    }

    /// At most `STARTS_A_TURN` calls, so that answers of open calls are not delayed by a burst of new ones.
    fn start_due(&mut self, now: Instant) {
        for _ in 0..STARTS_A_TURN {
            // The last of `-m` may just have begun.
            let phase = self.dispatcher.hub.phase();
            if phase != RunPhase::Running {
                return self.end_arrivals(phase);
            }
            if self.ramps_users && self.dispatcher.hub.is_ramped() {
                self.arrivals = None;
            }
            let Some(arrivals) = &mut self.arrivals else { return self.start_users(now) };
            let due = arrivals.due();
            if due > now || due >= self.arrivals_end {
                return;
            }
            arrivals.pass();
            if self.ramps_users {
                self.start_user(now, due);
                self.dispatcher.hub.note_ramp();
            } else {
                self.dispatcher.arrive(now, due);
            }
        }
        self.rhythm.more = true;
    }

    /// The run starts no more calls. Where that is so because its time is over, those that were due before and were not tried are blocked; with
    /// `q` or after a failure nothing more was due.
    fn end_arrivals(&mut self, phase: RunPhase) {
        let Some(arrivals) = self.arrivals.take() else { return };
        // The end may have come amid this turn.
        if phase == RunPhase::Soft && self.clock.now() >= self.arrivals_end && !self.ramps_users {
            self.dispatcher.miss(arrivals.overdue(self.arrivals_end));
        }
    }

    /// `-users`: each free user starts its next call at once, unless the run is paused; the end of the pause wakes the shard.
    fn start_users(&mut self, now: Instant) {
        if self.dispatcher.hub.paused.load(std::sync::atomic::Ordering::Relaxed) {
            return;
        }
        for _ in 0..STARTS_A_TURN {
            if !self.start_user(now, now) {
                return;
            }
        }
        self.rhythm.more = true;
    }

    /// The user that waited longest starts its next call. One without a socket is put back and tried again in the next turn. `false`: none
    /// started.
    fn start_user(&mut self, now: Instant, due: Instant) -> bool {
        let Some(user) = self.dispatcher.users.take_free() else { return false };
        let started = self.dispatcher.arrive_user(now, due, user);
        if !started {
            self.dispatcher.users.free(user);
        }
        started
    }

    /// Sends what the turn produced: to the network, then to the inboxes of other shards. Calls whose message found a full inbox are told of
    /// congestion in the next turn.
    fn finish_turn(&mut self, now: Instant) {
        self.flush(now);
        for index in 0..self.dispatcher.outgoing.len() {
            if !self.dispatcher.outgoing[index].is_empty() {
                let mut calls = Vec::new();
                let refused = self.dispatcher.hub.doors[index]
                    .deliver(&mut self.dispatcher.outgoing[index], &mut calls);
                self.dispatcher.stats.add(Count::ReceiveDrops, refused);
                self.dispatcher
                    .faults
                    .extend(calls.into_iter().map(|call| (call, TransportFault::Congestion)));
            }
        }
        self.rhythm.end_turn(now, self.dispatcher.messages);
        if now >= self.dispatcher.reporter.next() {
            self.report(now, false);
        }
    }

    /// Hands rendered messages to the kernel and tells calls of those it refused. Messages that the calls send in answer
    /// leaves with the next turn.
    fn flush(&mut self, now: Instant) {
        let mut refused = Vec::new();
        if self.dispatcher.net.flush(&self.dispatcher.out.bytes, &mut refused) {
            self.dispatcher.out.bytes.clear();
        } else {
            self.rhythm.more = true;
        }
        self.dispatcher.faults.append(&mut refused);
        self.tell_ended_connections();
        for (key, fault) in std::mem::take(&mut self.dispatcher.faults) {
            self.dispatcher.enter(key, now, |call, ctx| call.handle_fault(ctx, fault));
            self.rhythm.more = true;
        }
    }

    /// A failed accept (descriptors used up) is an error of the run's log, not of a call: no call exists yet.
    fn accept(&mut self, listener: Key, now: Instant) {
        if let Err(error) = self.dispatcher.net.streams.accept(listener, self.dispatcher.poll.registry()) {
            self.dispatcher.error(now, super::bind::explain_socket(&error));
        }
    }

    /// Reads what a connection has. The messages are copied out, as their calls write to connections too.
    fn stream_event(&mut self, key: Key, event: &mio::event::Event) {
        let mut read = std::mem::take(&mut self.frames);
        let from = self.dispatcher.net.streams.remote(key);
        // A connection that is gone already has no address; its messages are still delivered to their calls.
        let address = from.unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)));
        let turn = self.dispatcher.turn;
        self.dispatcher.net.streams.event(key, event, |message, stamp| {
            read.put(message, address, turn.received(stamp), None);
        });
        for frame in &read.parcels {
            let bytes = &read.bytes[frame.start..frame.end];
            self.dispatcher.handle(
                bytes,
                address,
                frame.received,
                MessageOrigin::Link(CallLink::Stream(key)),
            );
        }
        read.clear();
        self.frames = read;
    }

    /// Calls of a connection that is gone fail with it, or (`-reconnect_close false`) make a new one when they
    /// next send.
    fn tell_ended_connections(&mut self) {
        for ended in std::mem::take(&mut self.dispatcher.net.streams.ended) {
            if ended.calls > 0 {
                self.dispatcher.tell_calls_of(CallLink::Stream(ended.key), ended.fault);
            }
            if !ended.far {
                continue;
            }
            // Calls of other shards know the connection by its owner and key, or as the one shared connection.
            let link =
                if ended.shared { CallLink::Shared } else { CallLink::Far(self.dispatcher.index, ended.key) };
            for (index, out) in self.dispatcher.outgoing.iter_mut().enumerate() {
                if index != usize::from(self.dispatcher.index) {
                    out.gone.push((link, ended.fault));
                }
            }
        }
    }

    /// Wakes connections that are due, reports messages that waited too long, and ends the run when a
    /// connection was lost too often.
    fn keep_connections(&mut self, now: Instant) {
        self.dispatcher.net.streams.wake(now, self.dispatcher.poll.registry());
        for late in std::mem::take(&mut self.dispatcher.net.streams.late) {
            let fault = (late.call, TransportFault::SendTimeout);
            if late.shard == self.dispatcher.index {
                self.dispatcher.faults.push(fault);
            } else {
                self.dispatcher.outgoing[usize::from(late.shard)].faults.push(fault);
            }
        }
        if self.dispatcher.net.streams.exhausted
            && !self.dispatcher.hub.fatal.swap(true, std::sync::atomic::Ordering::AcqRel)
        {
            let most = self.dispatcher.envs.main.options.network.max_reconnect;
            self.dispatcher.error(
                now,
                format!(
                    "the connection was lost more often than -max_reconnect allows ({most}): the run ends"
                ),
            );
            self.dispatcher.hub.advance(RunPhase::Hard);
        }
    }

    /// Soft end: when no call is open anywhere. Hard end: own calls are ended first.
    fn is_over(&mut self, now: Instant) -> bool {
        match self.dispatcher.hub.phase() {
            RunPhase::Running => false,
            RunPhase::Soft => self.nothing_open(),
            RunPhase::Hard => {
                // A scenario's own `stop_now` ends the run at once and without a message, as in SIPp.
                let silent =
                    self.dispatcher.hub.stopped_by_scenario.load(std::sync::atomic::Ordering::Acquire);
                let terminated = self.dispatcher.hub.is_terminated();
                for key in self.dispatcher.calls.keys() {
                    if self.dispatcher.calls.get(key).is_some_and(|entry| entry.open) {
                        if terminated {
                            self.dispatcher.enter(key, now, Call::abandon);
                        } else if !silent {
                            self.dispatcher
                                .enter(key, now, |call, ctx| call.abort(ctx, Count::FailedStopped));
                        }
                        self.dispatcher.close_call(key);
                    }
                }
                self.flush(now);
                true
            }
            RunPhase::Gone => true,
        }
    }

    /// No call is open at any shard, and nothing is left to send at this one.
    fn nothing_open(&self) -> bool {
        self.dispatcher.hub.open.load(std::sync::atomic::Ordering::Acquire) == 0
            && self.dispatcher.out.bytes.is_empty()
    }
}
