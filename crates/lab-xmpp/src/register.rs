//! Accounts that the load makes before it begins, and removes when it is over (XEP-0077).
//!
//! Each registration has a connection of its own, at the rate of `--registrations`, and ends with it. Removals take place in the sessions of the users.

use std::time::Duration;

use lab_sip::stats::Count;
use stdx::time::Instant;
use xmpp::{Element, ns};

use super::failure::FailureCause;
use super::load_state::LoadStage;
use super::model::TimerName;
use super::stanzas;
use super::user::{PendingRequest, UserState};
use super::user_pool::{PoolContext, UserPool};
use super::user_sessions::UserSessions;

/// The outcome of a registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RegistrationResult {
    /// The account was made.
    New,
    /// The account exists, most likely from an earlier run.
    Existed,
    /// Asking again changes nothing.
    Refused,
}

impl RegistrationResult {
    /// XEP-0077 §3.1.1. `Err`: it may be asked again later.
    pub(super) fn of(answer: &Element) -> Result<RegistrationResult, FailureCause> {
        if answer.attr("type") == Some("result") {
            return Ok(RegistrationResult::New);
        }
        if answer.elements().any(|error| error.get("conflict", ns::STANZA_ERRORS).is_some()) {
            return Ok(RegistrationResult::Existed);
        }
        match FailureCause::of_stanza_error(answer) {
            FailureCause::Refused => Ok(RegistrationResult::Refused),
            other => Err(other),
        }
    }
}

impl UserSessions {
    /// All users register or have registered: now they sign in, at that rate.
    pub(super) fn begin_signing_in(&mut self) {
        let gap = Duration::from_secs(1).div_f64(self.chat.logins.max(1e-6));
        let began = self.shared.began();
        for slot in self.slots() {
            let user = &self.users[slot as usize];
            if matches!(user.phase, UserState::Away) && !self.chat.people.is_monitor(user.number) {
                let due = began + gap.mul_f64(f64::from(user.number));
                self.schedule_user(slot, due);
            }
        }
    }

    /// All users that are signed in remove their accounts, at the rate of registrations.
    pub(super) fn begin_unregistering(&mut self) {
        let gap = self.chat.registration_gap();
        let began = self.shared.began();
        for slot in self.slots() {
            let user = &self.users[slot as usize];
            if user.is_in() {
                let due = began + gap.mul_f64(f64::from(user.number));
                self.schedule_user(slot, due);
            }
        }
    }

    /// XEP-0077 §3.2.
    pub(super) fn unregister(&mut self, slot: u32, ctx: &mut PoolContext<'_>) {
        let user = &mut self.users[slot as usize];
        let id = user.next_id();
        user.asked = Some(PendingRequest {
            id,
            timed: TimerName::Registration,
            due: user.due,
            sent: ctx.now,
            then: None,
        });
        ctx.stats.count(Count::Due);
        ctx.stats.count(Count::OutgoingCall);
        ctx.stats.count(Count::MessagesSent);
        ctx.write(slot, |out| stanzas::unregister(out, id));
        self.set_response_deadline(slot, ctx.now + self.chat.patience);
    }
}

impl UserPool {
    /// The connection is not for signing in: that has its own rate.
    pub(super) fn handle_registered(
        &mut self,
        slot: u32,
        how: RegistrationResult,
        ctx: &mut PoolContext<'_>,
    ) {
        let (due, began) = self.sessions.users[slot as usize].sign_in;
        match how {
            RegistrationResult::New => ctx.stats.count(Count::Registered),
            RegistrationResult::Existed => ctx.stats.count(Count::AlreadyRegistered),
            RegistrationResult::Refused => ctx.fail(FailureCause::Refused),
        }
        if how != RegistrationResult::Refused {
            ctx.stats.count(Count::SuccessfulCall);
            ctx.time(TimerName::Registration, due, began);
        }
        self.sessions.users[slot as usize].failures = 0;
        ctx.write(slot, |out| stanzas::close(out, self.sessions.chat.web.is_some()));
        self.sessions.end_session(slot, ctx);
        self.sessions.shared.register();
        if self.sessions.stage == LoadStage::Registering {
            // Until the stage is over.
            self.sessions.users[slot as usize].due = Instant::FAR_FUTURE;
        } else {
            self.sessions.schedule_user(slot, ctx.now);
        }
    }

    /// `true`: the question was about the account, and the user has left.
    pub(super) fn handle_unregistered(
        &mut self,
        slot: u32,
        answer: &Element,
        ctx: &mut PoolContext<'_>,
    ) -> bool {
        let user = &mut self.sessions.users[slot as usize];
        let Some(asked) = user.asked.filter(|asked| asked.timed == TimerName::Registration) else {
            return false;
        };
        // Servers end the stream of an account that is gone (§3.2), some before they answer.
        let is_gone = answer.attr("type") == Some("result")
            || answer.get("not-authorized", ns::STREAM_ERRORS).is_some();
        user.asked = None;
        if is_gone {
            ctx.stats.count(Count::SuccessfulCall);
            ctx.stats.count(Count::Unregistered);
            ctx.time(TimerName::Registration, asked.due, asked.sent);
        } else {
            self.sessions.quote_refusal(slot, answer, ctx);
            ctx.fail(FailureCause::of_stanza_error(answer));
        }
        self.sessions.end_session(slot, ctx);
        self.sessions.users[slot as usize].phase = UserState::Gone;
        true
    }
}
