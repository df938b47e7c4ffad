//! From the first element of a stream to a signed-in user.
//!
//! While a user signs in, elements go to its `Login`; afterwards to `receive`. Here each result of the login becomes timers, counters and commands.

use std::sync::Arc;

use lab_sip::stats::Count;
use stdx::time::Instant;
use xmpp::{Element, ns};

use super::failure::FailureCause;
use super::load_state::LoadStage;
use super::login::{LoginIdentity, LoginProgress};
use super::model::TimerName;
use super::register::RegistrationResult;
use super::user::UserState;
use super::user_pool::{ConnectionCommand, PoolContext, UserPool};

impl UserPool {
    /// One element of a user's stream.
    pub(super) fn handle_element(&mut self, slot: u32, element: &Element, ctx: &mut PoolContext<'_>) {
        ctx.stats.count(Count::MessagesReceived);
        if element.is("error", ns::STREAM) {
            return self.handle_stream_error(slot, element, ctx);
        }
        let (chat, nonce) = (Arc::clone(&self.sessions.chat), self.sessions.rng.token(20));
        let user = &mut self.sessions.users[slot as usize];
        // Nothing can be answered any more.
        if matches!(user.phase, UserState::Parting) && element.name() != "message" {
            return;
        }
        let UserState::SigningIn(login) = &mut user.phase else {
            return self.handle_stanza(slot, element, ctx);
        };
        let mut kept = user.kept.take().map(|kept| *kept);
        let (name, password) = (chat.people.name(user.number), chat.people.password(user.number));
        let identity = LoginIdentity { name: &name, password: &password, nonce, kept: &mut kept };
        let mut written = Vec::new();
        let progress = login.handle(&chat, identity, element, &mut written);
        user.kept = kept.map(Box::new);
        let sign_in = user.sign_in;
        ctx.write(slot, |out| out.append(&mut written));
        match progress {
            LoginProgress::Nothing => {}
            LoginProgress::StartTls => ctx.want(slot, ConnectionCommand::StartTls),
            LoginProgress::Authenticated => {
                let timed = if self.sessions.is_monitor(slot) {
                    TimerName::MonitorAuthentication
                } else {
                    TimerName::Authentication
                };
                ctx.time(timed, sign_in.0, sign_in.1);
                self.sessions.open_stream(slot, ctx);
            }
            LoginProgress::SignedIn(roster) => self.signed_in(slot, &roster, ctx),
            LoginProgress::Registered(how) => {
                if how == RegistrationResult::Refused {
                    self.sessions.quote_refusal(slot, element, ctx);
                }
                self.handle_registered(slot, how, ctx);
            }
            LoginProgress::Failed(cause) => {
                if matches!(
                    cause,
                    FailureCause::NotAuthorized | FailureCause::Refused | FailureCause::Throttled
                ) {
                    self.sessions.quote_refusal(slot, element, ctx);
                }
                self.sessions.fail(slot, cause, ctx);
            }
        }
    }

    /// The user is in: counted, visible to others, with its contacts, its first presence and its room; the stage decides what it does next.
    fn signed_in(&mut self, slot: u32, roster: &Element, ctx: &mut PoolContext<'_>) {
        let user = &mut self.sessions.users[slot as usize];
        user.phase = UserState::In;
        user.patience = Instant::FAR_FUTURE;
        user.failures = 0;
        let (due, began) = user.sign_in;
        let number = user.number;
        ctx.stats.count(Count::SuccessfulCall);
        let is_monitor = self.sessions.is_monitor(slot);
        if !is_monitor {
            ctx.time(TimerName::SignIn, due, began);
        }
        if !std::mem::replace(&mut self.sessions.users[slot as usize].has_been_in, true) {
            self.sessions.shared.count_first_sign_in();
        }
        self.sessions.shared.mark_present(number, ctx.now);
        for item in roster.elements() {
            self.sessions.update_contact(slot, item);
        }
        self.sessions.actions(slot).send_presence("", ctx.now, ctx);
        if is_monitor {
            self.sessions.send_next_friend_request(slot, ctx);
            self.sessions.check_pair_roster(slot, ctx);
        } else {
            self.sessions.actions(slot).join_room(ctx);
        }
        match self.sessions.stage {
            LoadStage::Befriending => self.sessions.queue_friend_requests(slot, ctx),
            LoadStage::Load if !is_monitor => {
                let due = ctx.now + self.sessions.chat.think.draw(&mut self.sessions.rng);
                self.sessions.schedule_user(slot, due);
            }
            LoadStage::Unregistering => self.sessions.schedule_user(slot, ctx.now),
            _ => {}
        }
    }
}
