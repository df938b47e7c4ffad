//! Signing out: after its `unavailable` and `</stream>` a user still receives the stanzas that the server sent
//! before it read them, until the server closes (RFC 6120 §4.4). A message under way at that moment has arrived.

use std::time::Duration;

use lab_sip::stats::Count;
use stdx::time::Instant;
use xmpp::xml::Framer;

use super::load_state::LoadStage;
use super::user::UserState;
use super::user_pool::{ConnectionCommand, PoolContext};
use super::user_sessions::UserSessions;

/// The time that the server has to close the stream.
const PARTING: Duration = Duration::from_secs(5);

impl UserSessions {
    /// Says goodbye and waits for the server to close.
    pub(super) fn begin_sign_out(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let user = &mut self.users[slot as usize];
        self.shared.mark_absent(user.number);
        user.phase = UserState::Parting;
        user.asked = None;
        self.write_sign_out(slot, ctx);
        self.set_response_deadline(slot, ctx.now + PARTING);
    }

    /// The server has closed, or takes too long to.
    pub(super) fn finish_sign_out(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let user = &mut self.users[slot as usize];
        user.phase = UserState::Away;
        user.patience = Instant::FAR_FUTURE;
        user.framer = Framer::new();
        ctx.want(slot, ConnectionCommand::Close);
        ctx.stats.count(Count::SuccessfulCall);
        let due = if self.stage <= LoadStage::Load {
            ctx.now + self.chat.think.draw(&mut self.rng)
        } else {
            ctx.now
        };
        self.schedule_user(slot, due);
    }
}
