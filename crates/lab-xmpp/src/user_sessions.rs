//! The users of one shard and all that they do of their own accord: they sign in and out, act, ask for friends and follow the
//! steps of monitors; a session that failed is tried again. Input from the network is [`UserPool`](super::UserPool)'s.

use std::ops::Range;
use std::sync::Arc;

use lab_sip::stats::Count;
use stdx::rng::Rng;
use stdx::time::Instant;

use super::friend_requests::FriendRequestQueue;
use super::load_state::{LoadStage, LoadState};
use super::model::XmppLoad;
use super::monitor::MonitorPair;
use super::stanzas;
use super::user::{User, UserState};
use super::user_pool::{ConnectionCommand, PoolContext};
use super::user_timers::{UserTimer, UserTimers};

/// The users of one shard: those whose number, modulo the number of shards, is the shard's.
pub(super) struct UserSessions {
    /// The options of the load.
    pub(super) chat: Arc<XmppLoad>,
    /// The state of all shards.
    pub(super) shared: Arc<LoadState>,
    /// By slot.
    pub(super) users: Vec<User>,
    /// Pairs of monitors, whose users follow the others.
    pub(super) pairs: Vec<MonitorPair>,
    pub(super) timers: UserTimers,
    pub(super) rng: Rng,
    /// The stage that this shard has entered.
    pub(super) stage: LoadStage,
    /// Users that send subscription requests.
    pub(super) asking: FriendRequestQueue,
}

impl UserSessions {
    /// Sets a user's due time. An earlier timer fires and is ignored.
    pub(super) fn schedule_user(&mut self, slot: u32, due: Instant) {
        self.users[slot as usize].due = due;
        self.timers.insert(due, UserTimer::Due(slot));
    }

    /// Sets the time until which an answer must be here.
    pub(super) fn set_response_deadline(&mut self, slot: u32, patience: Instant) {
        self.users[slot as usize].patience = patience;
        self.timers.insert(patience, UserTimer::Response(slot));
    }

    pub(super) fn schedule_pair(&mut self, pair: usize, due: Instant) {
        self.timers.insert(due, UserTimer::Pair(u32::try_from(pair).unwrap_or(u32::MAX)));
    }

    /// All slots of the shard.
    pub(super) fn slots(&self) -> Range<u32> {
        0..u32::try_from(self.users.len()).unwrap_or_default()
    }

    /// The due time of the user came.
    pub(super) fn handle_due(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let is_monitor = self.is_monitor(slot);
        let user = &mut self.users[slot as usize];
        match user.phase {
            UserState::Away => {
                user.sign_in = (user.due, ctx.now);
                user.phase = UserState::Connecting;
                ctx.stats.count(Count::Due);
                ctx.stats.count(Count::OutgoingCall);
                ctx.stats.start_delay.record(ctx.now.since(user.due));
                let wanted = match user.elsewhere.take() {
                    Some(named) => ConnectionCommand::ConnectElsewhere(*named),
                    None => {
                        user.hops = 0;
                        ConnectionCommand::Connect
                    }
                };
                ctx.want(slot, wanted);
                self.set_response_deadline(slot, ctx.now + self.chat.patience);
            }
            UserState::Leaving => self.begin_sign_out(slot, ctx),
            UserState::In if self.stage == LoadStage::Load && !is_monitor => {
                self.actions(slot).start_action(ctx);
            }
            UserState::In if self.stage == LoadStage::Unregistering => self.unregister(slot, ctx),
            UserState::In
            | UserState::Connecting
            | UserState::SigningIn(_)
            | UserState::Parting
            | UserState::Gone => {}
        }
    }

    /// The stream begins, anew perhaps.
    pub(super) fn open_stream(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        self.users[slot as usize].framer.restart();
        let domain = self.chat.people.domain();
        ctx.write(slot, |out| match self.chat.web {
            Some(_) => stanzas::open(out, domain),
            None => stanzas::header(out, domain),
        });
    }

    /// Unavailable presence and the end of the stream.
    pub(super) fn write_sign_out(&self, slot: u32, ctx: &mut PoolContext<'_>) {
        ctx.write(slot, stanzas::unavailable);
        ctx.write(slot, |out| stanzas::close(out, self.chat.web.is_some()));
    }
}
