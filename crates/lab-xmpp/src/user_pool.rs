//! The inputs of one shard's users: connections, received bytes, timers, the stages of the load. The users themselves are in
//! [`UserSessions`].
//!
//! The driver (`lab::engine::xmpp_load`) calls `handle_*` with what a connection brought and `expire` when something is due, and performs the commands in the
//! [`Outbox`]. No call blocks.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use lab_sip::stats::{Count, Stats};
use stdx::rng::Rng;
use stdx::time::Instant;
use xmpp::limits::STANZA;
use xmpp::ns;
use xmpp::xml::{Frame, Framer, Prefixes, parse, parse_header};

use super::failure::FailureCause;
use super::friend_requests::FriendRequestQueue;
use super::load_state::{LoadStage, LoadState};
use super::login::{Login, LoginPurpose};
use super::message_ledger::MessageLedger;
use super::model::{TimerName, XmppLoad};
use super::monitor::MonitorPair;
use super::redirect::RedirectTarget;
use super::stage_changes::{LOOK, StageLeader};
use super::user::{User, UserState};
use super::user_sessions::UserSessions;
use super::user_timers::{UserTimer, UserTimers};

/// A command to the driver for a user's connection; commands are performed in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionCommand {
    /// Answered by `handle_connected` or `handle_closed`.
    Connect,
    /// The same, to where the server sent the user.
    ConnectElsewhere(RedirectTarget),
    /// Bytes of `Outbox::bytes`.
    Write(Range<usize>),
    /// Answered by `handle_secured` or `handle_closed`.
    StartTls,
    /// The connection closes after the bytes written so far, and reports nothing more.
    Close,
}

/// Outputs of the pool, in the order in which they are performed.
#[derive(Debug, Default)]
pub struct Outbox {
    /// The bytes of all writes, one after the other; each [`ConnectionCommand::Write`] names its range.
    pub bytes: Vec<u8>,
    /// By the user's place in the pool.
    pub wants: Vec<(u32, ConnectionCommand)>,
    /// Texts of servers' refusals, for the operator.
    pub errors: Vec<String>,
    /// Each write is one document, and says its namespace itself (RFC 7395 §3.3.3).
    pub is_documents: bool,
}

impl Outbox {
    /// Stanzas lean on the stream around them; here there is none.
    fn qualify(&mut self, start: usize) {
        let written = &self.bytes[start..];
        let is_stanza = [&b"<iq"[..], b"<message", b"<presence"].iter().any(|name| written.starts_with(name));
        let end = written.iter().position(|byte| matches!(byte, b' ' | b'/' | b'>'));
        if let Some(end) = end.filter(|_| is_stanza) {
            let at = start + end;
            self.bytes.splice(at..at, format!(" xmlns='{}'", ns::CLIENT).into_bytes());
        }
    }
}

/// Time, counters and outputs of one input.
pub struct PoolContext<'a> {
    /// The time of the input.
    pub now: Instant,
    /// The shard's counters and timers.
    pub stats: &'a mut Stats,
    /// Takes the commands and bytes that the input causes.
    pub out: &'a mut Outbox,
}

impl PoolContext<'_> {
    /// Adds a command.
    pub(super) fn want(&mut self, slot: u32, wanted: ConnectionCommand) {
        self.out.wants.push((slot, wanted));
    }

    /// Writes bytes for a user and the command that sends them; nothing written is no command.
    pub(super) fn write(&mut self, slot: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.out.bytes.len();
        write(&mut self.out.bytes);
        if self.out.is_documents {
            self.out.qualify(start);
        }
        let end = self.out.bytes.len();
        if end > start {
            self.want(slot, ConnectionCommand::Write(start..end));
        }
    }

    /// From the due time and from the sending, as for calls.
    pub(super) fn time(&mut self, timed: TimerName, due: Instant, sent: Instant) {
        if let Some(timer) = self.stats.rtds.get_mut(timed as usize) {
            timer.service.record(self.now.since(sent));
            timer.response.record(self.now.since(due));
        }
    }
}

/// The users of one shard as the driver sees them: connections, received bytes and stanzas, the stages of the load.
pub struct UserPool {
    /// The users and what they do of their own accord.
    pub(super) sessions: UserSessions,
    /// Messages that were skipped or refused.
    pub(super) ledger: MessageLedger,
    /// Stanzas sent before this time belong to another run.
    pub(super) began: Instant,
    /// The decision about the next stage, at the first shard only.
    leader: Option<StageLeader>,
    /// The time of the next look at the stage of the load.
    look_at: Instant,
    /// Those of the last stream header: a server's are the same in every stream.
    prefixes: Option<Arc<Prefixes>>,
}

impl UserPool {
    /// The users of shard `index` of `shards`. They sign in at the load's rate from `start` on.
    pub fn new(
        chat: Arc<XmppLoad>,
        shared: Arc<LoadState>,
        (index, shards): (u32, u32),
        start: Instant,
        rng: Rng,
    ) -> UserPool {
        // First accounts are made, if they are; monitors sign in after the others.
        let rate = if chat.register { chat.registrations } else { chat.logins };
        let gap = Duration::from_secs(1).div_f64(rate.max(1e-6));
        let people = &chat.people;
        let made = |number: u32| {
            let is_first = chat.register || !people.is_monitor(number);
            let due = if is_first { start + gap.mul_f64(f64::from(number)) } else { Instant::FAR_FUTURE };
            User::new(number, people, due)
        };
        let mut users: Vec<User> =
            (0..people.count()).filter(|number| number % shards == index).map(made).collect();
        let mut pairs = Vec::new();
        for pair in (0..chat.monitors.pairs).filter(|pair| pair % shards == index) {
            pairs.push(MonitorPair::new(u32::try_from(users.len()).unwrap_or(u32::MAX)));
            let first = people.count() + 2 * pair;
            users.extend([made(first), made(first + 1)]);
        }
        let mut timers = UserTimers::new(start);
        for (slot, user) in (0_u32..).zip(&users).filter(|(_, user)| user.due < Instant::FAR_FUTURE) {
            timers.insert(user.due, UserTimer::Due(slot));
        }
        if !chat.register {
            shared.advance(start, LoadStage::SigningIn);
        }
        let sessions = UserSessions {
            users,
            pairs,
            timers,
            rng,
            stage: if chat.register { LoadStage::Registering } else { LoadStage::SigningIn },
            asking: FriendRequestQueue::default(),
            chat,
            shared,
        };
        UserPool {
            sessions,
            ledger: MessageLedger::default(),
            began: start,
            leader: (index == 0).then(|| StageLeader::new(start)),
            look_at: start,
            prefixes: None,
        }
    }

    /// The number of users of this shard.
    pub fn users(&self) -> usize {
        self.sessions.users.len()
    }

    /// The time at which [`UserPool::expire`] is to be called.
    pub fn deadline(&self) -> Instant {
        let timers = self.sessions.timers.deadline().unwrap_or(Instant::FAR_FUTURE);
        // All shards look at the stage at this pace.
        timers.min(self.look_at)
    }

    /// All users have left.
    pub fn is_over(&self) -> bool {
        self.sessions.stage == LoadStage::Leaving
            && self.sessions.users.iter().all(|user| matches!(user.phase, UserState::Gone))
    }

    /// Runs the timers that are due.
    pub fn expire(&mut self, ctx: &mut PoolContext<'_>) {
        if self.look_at <= ctx.now {
            self.look_at = ctx.now + LOOK;
            self.sessions.shared.note_delay(slowest(ctx.stats));
            let next = self
                .leader
                .as_mut()
                .and_then(|it| it.next_stage(ctx.now, &self.sessions.chat, &self.sessions.shared));
            if let Some(next) = next {
                self.sessions.shared.advance(ctx.now, next);
            }
            let stage = self.sessions.shared.stage();
            if stage > self.sessions.stage {
                self.sessions.stage = stage;
                self.enter_stage(stage, ctx);
            }
        }
        self.sessions.timers.expire(ctx.now);
        while let Some(timer) = self.sessions.timers.next_fired() {
            match timer {
                UserTimer::Pair(pair) => self.sessions.expire_pair(pair as usize, ctx),
                UserTimer::Due(slot) if self.sessions.users[slot as usize].due <= ctx.now => {
                    self.sessions.handle_due(slot, ctx);
                }
                UserTimer::Response(slot) if self.sessions.users[slot as usize].patience <= ctx.now => {
                    self.handle_response_timeout(slot, ctx);
                }
                // The time was put off, and has another timer.
                UserTimer::Due(_) | UserTimer::Response(_) => {}
            }
        }
    }

    /// Everything that a shard does when it sees a new stage.
    fn enter_stage(&mut self, stage: LoadStage, ctx: &mut PoolContext<'_>) {
        match stage {
            LoadStage::SigningIn => self.sessions.begin_signing_in(),
            LoadStage::Befriending => self.sessions.begin_friend_requests(ctx),
            LoadStage::Load => self.sessions.begin_monitoring(ctx.now),
            LoadStage::Settling => self.mark_missed_users(),
            LoadStage::Unregistering => self.sessions.begin_unregistering(),
            LoadStage::Leaving => self.count_waiting_messages(ctx),
            _ => {}
        }
        for slot in self.sessions.slots() {
            let user = &self.sessions.users[slot as usize];
            match (stage, &user.phase) {
                (LoadStage::Load, UserState::In) => {
                    let due =
                        self.sessions.shared.began() + self.sessions.chat.think.draw(&mut self.sessions.rng);
                    self.sessions.schedule_user(slot, due);
                }
                // No faster than they came.
                (LoadStage::RollCall, UserState::Away) => {
                    let within =
                        u64::try_from(self.sessions.chat.return_span().as_micros()).unwrap_or_default();
                    let due = ctx.now + Duration::from_micros(self.sessions.rng.below(within));
                    if user.due > due {
                        self.sessions.schedule_user(slot, due);
                    }
                }
                (LoadStage::Leaving, _) => self.leave_for_good(slot, ctx),
                _ => {}
            }
        }
    }

    /// Signs out without waiting for the server.
    fn leave_for_good(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let user = &self.sessions.users[slot as usize];
        if user.is_in() {
            self.sessions.shared.mark_absent(user.number);
            self.sessions.write_sign_out(slot, ctx);
        }
        let user = &self.sessions.users[slot as usize];
        if user.has_connection() {
            ctx.want(slot, ConnectionCommand::Close);
        }
        let user = &mut self.sessions.users[slot as usize];
        user.phase = UserState::Gone;
        user.framer = Framer::new();
    }

    /// An answer did not come in time: the meaning depends on what the user waits for.
    fn handle_response_timeout(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let is_monitoring = self.sessions.is_monitor(slot) && self.sessions.stage == LoadStage::Load;
        let user = &mut self.sessions.users[slot as usize];
        user.patience = Instant::FAR_FUTURE;
        match user.phase {
            UserState::Connecting | UserState::SigningIn(_) => {
                self.sessions.fail(slot, FailureCause::Timeout, ctx);
            }
            UserState::Parting => self.sessions.finish_sign_out(slot, ctx),
            UserState::In if is_monitoring => self.sessions.handle_partner_timeout(slot, ctx),
            UserState::In if user.is_asking => self.sessions.stop_friend_requests(slot, ctx),
            UserState::In | UserState::Leaving if user.asked.take().is_some() => {
                ctx.fail(FailureCause::Timeout);
            }
            _ => {}
        }
    }

    /// The connection is made.
    pub fn handle_connected(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let user = &mut self.sessions.users[slot as usize];
        if matches!(user.phase, UserState::Connecting) {
            let purpose = if self.sessions.stage == LoadStage::Registering {
                LoginPurpose::Register
            } else {
                LoginPurpose::SignIn
            };
            user.phase = UserState::SigningIn(Box::new(Login::new(&self.sessions.chat, purpose)));
            self.sessions.open_stream(slot, ctx);
        }
    }

    /// TLS is established.
    pub fn handle_secured(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        if let UserState::SigningIn(login) = &mut self.sessions.users[slot as usize].phase {
            login.secured();
            self.sessions.open_stream(slot, ctx);
        }
    }

    /// One message of a WebSocket: an element that stands for itself (RFC 7395 §3.3).
    pub fn handle_message(&mut self, slot: u32, message: &[u8], ctx: &mut PoolContext<'_>) {
        if !self.sessions.users[slot as usize].has_connection() {
            return;
        }
        match parse(message.trim_ascii(), &Prefixes::default()) {
            Ok(element) if element.is("open", ns::FRAMING) => {}
            Ok(element) if element.is("close", ns::FRAMING) => self.handle_close(slot, &element, ctx),
            Ok(element) => self.handle_element(slot, &element, ctx),
            Err(_) => {
                ctx.stats.count(Count::Malformed);
                self.sessions.fail(slot, FailureCause::Nonsense, ctx);
            }
        }
    }

    /// The connection could not be made, or is gone.
    pub fn handle_closed(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let cause = match self.sessions.users[slot as usize].phase {
            UserState::Connecting => FailureCause::Connect,
            _ => FailureCause::Closed,
        };
        // There is nothing to close any more, which the driver knows.
        self.sessions.fail(slot, cause, ctx);
    }

    /// TLS failed: with the server's certificate, most often.
    pub fn handle_untrusted(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        self.sessions.fail(slot, FailureCause::Tls, ctx);
    }

    /// Bytes of a TCP or TLS connection.
    pub fn handle_bytes(&mut self, slot: u32, bytes: &[u8], ctx: &mut PoolContext<'_>) {
        let user = &mut self.sessions.users[slot as usize];
        // Bytes of a session that is over belong neither to that session nor to the connection that follows it.
        if user.has_connection() && !matches!(user.phase, UserState::Connecting) {
            user.framer.put(bytes);
        }
        loop {
            let user = &mut self.sessions.users[slot as usize];
            if !user.has_connection() {
                return;
            }
            let step = match user.framer.next(STANZA) {
                Ok(None) => return,
                Ok(Some(Frame::Whitespace)) => continue,
                Ok(Some(Frame::Close)) => Err(FailureCause::Closed),
                Ok(Some(Frame::Header(range))) => match parse_header(user.framer.bytes(range)) {
                    Ok((header, prefixes)) if header.is("stream", ns::STREAM) => {
                        self.keep_prefixes(slot, prefixes);
                        Ok(None)
                    }
                    _ => Err(FailureCause::Nonsense),
                },
                Ok(Some(Frame::Stanza(range))) => match &user.prefixes {
                    Some(prefixes) => parse(user.framer.bytes(range), prefixes)
                        .map(Some)
                        .map_err(|_| FailureCause::Nonsense),
                    None => Err(FailureCause::Nonsense),
                },
                Err(_) => Err(FailureCause::Nonsense),
            };
            match step {
                Ok(Some(element)) => self.handle_element(slot, &element, ctx),
                Ok(None) => {}
                Err(cause) => {
                    if cause == FailureCause::Nonsense {
                        ctx.stats.count(Count::Malformed);
                    }
                    return self.sessions.fail(slot, cause, ctx);
                }
            }
        }
    }

    /// Shares equal prefixes between users.
    fn keep_prefixes(&mut self, slot: u32, prefixes: Prefixes) {
        let shared = match &self.prefixes {
            Some(known) if **known == prefixes => Arc::clone(known),
            _ => Arc::clone(self.prefixes.insert(Arc::new(prefixes))),
        };
        self.sessions.users[slot as usize].prefixes = Some(shared);
    }
}

/// The longest delay of the kinds by which users see each other.
fn slowest(stats: &Stats) -> Duration {
    let kinds = [TimerName::Message, TimerName::Presence, TimerName::Authentication, TimerName::SignIn];
    let longest =
        kinds.iter().filter_map(|kind| stats.rtds.get(*kind as usize)?.service.histogram.max()).max();
    Duration::from_micros(longest.unwrap_or(0))
}
