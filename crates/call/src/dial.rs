//! One Dial: a caller waits while legs ring; the first that answers, and passes its screening, is joined with it.
//!
//! It knows neither SIP nor media: legs are numbers, and what is to be done with them comes out as
//! [`DialEffect`]s. However it goes, it finishes once, and every leg has then ended or was told to.

use std::time::Duration;

use stdx::Instant;

use crate::limits;

/// A leg, by the number its owner gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LegId(pub u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialSettings {
    /// How long the legs may ring.
    pub timeout: Duration,
    /// How long caller and leg may be joined; zero for as long as they like.
    pub time_limit: Duration,
    /// Who answers hears a document first, and is joined once that lets it.
    pub screened: bool,
    /// The caller is answered only when somebody is there.
    pub answer_on_bridge: bool,
}

/// Why a leg ended before it was joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegEnd {
    /// 486 or 600.
    Busy,
    /// 408, 480, 487 or our own patience; also who did not pass its screening.
    NoAnswer,
    Failed,
}

impl LegEnd {
    /// Of the final status of the leg's INVITE.
    pub fn of_status(status: u16) -> LegEnd {
        match status {
            486 | 600 => LegEnd::Busy,
            408 | 480 | 487 | 603 => LegEnd::NoAnswer,
            _ => LegEnd::Failed,
        }
    }
}

/// `DialCallStatus` of RestComm and Twilio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialStatus {
    Completed,
    Busy,
    NoAnswer,
    Failed,
    Canceled,
}

impl DialStatus {
    /// As applications are told.
    pub fn as_str(self) -> &'static str {
        match self {
            DialStatus::Completed => "completed",
            DialStatus::Busy => "busy",
            DialStatus::NoAnswer => "no-answer",
            DialStatus::Failed => "failed",
            DialStatus::Canceled => "canceled",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DialEnd {
    pub status: DialStatus,
    /// The leg that was joined.
    pub leg: Option<LegId>,
    /// How long it was.
    pub duration: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DialEffect {
    /// Rung in vain, too late, or over: CANCEL or BYE.
    HangUp(LegId),
    /// The leg is to hear its document; `handle_screened` says how it went.
    Screen(LegId),
    /// The caller gets its 200 now.
    AnswerCaller,
    /// Each hears the other.
    Join { caller: LegId, leg: LegId },
    /// No longer.
    Part { caller: LegId, leg: LegId },
    /// Said once, and last.
    Finished(DialEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    Ringing,
    Screening,
    Ended(LegEnd),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ringing { deadline: Instant },
    Joined { leg: LegId, since: Instant, deadline: Instant },
    Over,
}

#[derive(Debug)]
pub struct Dial {
    settings: DialSettings,
    caller: LegId,
    legs: Vec<(LegId, Leg)>,
    state: State,
}

impl Dial {
    /// The legs ring already. Those beyond `limits::DIAL_LEGS` are hung up.
    pub fn new(
        now: Instant,
        settings: DialSettings,
        caller: LegId,
        legs: &[LegId],
        out: &mut Vec<DialEffect>,
    ) -> Self {
        let (rung, beyond) = legs.split_at(legs.len().min(limits::DIAL_LEGS));
        out.extend(beyond.iter().copied().map(DialEffect::HangUp));
        let legs = rung.iter().map(|&leg| (leg, Leg::Ringing)).collect();
        let state = State::Ringing { deadline: now + settings.timeout };
        let mut dial = Dial { settings, caller, legs, state };
        dial.conclude(out);
        dial
    }

    pub fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// When to call [`expire`](Self::expire).
    pub fn deadline(&self) -> Option<Instant> {
        match self.state {
            State::Ringing { deadline } => Some(deadline),
            State::Joined { deadline, .. } => (deadline != Instant::FAR_FUTURE).then_some(deadline),
            State::Over => None,
        }
    }

    /// A leg picked up. One that comes too late is hung up.
    pub fn handle_answered(&mut self, now: Instant, leg: LegId, out: &mut Vec<DialEffect>) {
        let is_ringing = matches!(self.state, State::Ringing { .. });
        let is_joined = self.is_joined(leg);
        match self.leg_mut(leg) {
            Some(known @ Leg::Ringing) if is_ringing => {
                *known = Leg::Screening;
                if self.settings.screened {
                    out.push(DialEffect::Screen(leg));
                } else {
                    self.join(now, leg, out);
                }
            }
            // Said twice, or after it was hung up: whoever has ended stays so.
            Some(_) if is_ringing => {}
            _ if is_joined => {}
            _ => out.push(DialEffect::HangUp(leg)),
        }
    }

    /// The document that a leg heard is over: it takes the call, or does not.
    pub fn handle_screened(&mut self, now: Instant, leg: LegId, takes: bool, out: &mut Vec<DialEffect>) {
        let is_ringing = matches!(self.state, State::Ringing { .. });
        let Some(known) = self.leg_mut(leg).filter(|known| is_ringing && **known == Leg::Screening) else {
            return;
        };
        if takes {
            self.join(now, leg, out);
        } else {
            *known = Leg::Ended(LegEnd::NoAnswer);
            out.push(DialEffect::HangUp(leg));
            self.conclude(out);
        }
    }

    /// A leg is gone, by itself.
    pub fn handle_leg_ended(&mut self, now: Instant, leg: LegId, end: LegEnd, out: &mut Vec<DialEffect>) {
        match self.state {
            State::Ringing { .. } => {
                if let Some(known) = self.leg_mut(leg).filter(|known| !matches!(known, Leg::Ended(_))) {
                    *known = Leg::Ended(end);
                    self.conclude(out);
                }
            }
            State::Joined { leg: joined, .. } if joined == leg => self.part(now, false, out),
            State::Joined { .. } | State::Over => {}
        }
    }

    /// The caller is gone, or its application goes on with something else.
    pub fn handle_caller_ended(&mut self, now: Instant, out: &mut Vec<DialEffect>) {
        match self.state {
            State::Ringing { .. } => self.give_up(DialStatus::Canceled, out),
            State::Joined { .. } => self.part(now, true, out),
            State::Over => {}
        }
    }

    /// The caller pressed the star, where `hangupOnStar` lets it: the leg ends, the caller goes on.
    pub fn hang_up_leg(&mut self, now: Instant, out: &mut Vec<DialEffect>) {
        if matches!(self.state, State::Joined { .. }) {
            self.part(now, true, out);
        }
    }

    pub fn expire(&mut self, now: Instant, out: &mut Vec<DialEffect>) {
        match self.state {
            State::Ringing { deadline } if deadline <= now => self.give_up(DialStatus::NoAnswer, out),
            State::Joined { deadline, .. } if deadline <= now => self.part(now, true, out),
            // Woken early, or after the end.
            _ => {}
        }
    }

    fn leg_mut(&mut self, leg: LegId) -> Option<&mut Leg> {
        self.legs.iter_mut().find(|(known, _)| *known == leg).map(|(_, state)| state)
    }

    fn is_joined(&self, leg: LegId) -> bool {
        matches!(self.state, State::Joined { leg: joined, .. } if joined == leg)
    }

    fn join(&mut self, now: Instant, leg: LegId, out: &mut Vec<DialEffect>) {
        let limit = self.settings.time_limit;
        let deadline = if limit.is_zero() { Instant::FAR_FUTURE } else { now + limit };
        self.hang_up_all_but(Some(leg), out);
        self.state = State::Joined { leg, since: now, deadline };
        if self.settings.answer_on_bridge {
            out.push(DialEffect::AnswerCaller);
        }
        out.push(DialEffect::Join { caller: self.caller, leg });
    }

    fn part(&mut self, now: Instant, hang_up: bool, out: &mut Vec<DialEffect>) {
        let State::Joined { leg, since, .. } = self.state else { return };
        self.state = State::Over;
        out.push(DialEffect::Part { caller: self.caller, leg });
        if hang_up {
            out.push(DialEffect::HangUp(leg));
        }
        let duration = now.since(since);
        out.push(DialEffect::Finished(DialEnd { status: DialStatus::Completed, leg: Some(leg), duration }));
    }

    fn give_up(&mut self, status: DialStatus, out: &mut Vec<DialEffect>) {
        self.hang_up_all_but(None, out);
        self.finish(status, out);
    }

    fn hang_up_all_but(&self, kept: Option<LegId>, out: &mut Vec<DialEffect>) {
        let open = self.legs.iter().filter(|(_, state)| !matches!(state, Leg::Ended(_)));
        out.extend(open.filter(|(leg, _)| Some(*leg) != kept).map(|&(leg, _)| DialEffect::HangUp(leg)));
    }

    /// When nobody is left to answer: the kindest of what they said.
    fn conclude(&mut self, out: &mut Vec<DialEffect>) {
        let ended = |want| self.legs.iter().any(|(_, state)| *state == Leg::Ended(want));
        if self.legs.iter().any(|(_, state)| !matches!(state, Leg::Ended(_))) {
            return;
        }
        let status = if ended(LegEnd::Busy) {
            DialStatus::Busy
        } else if ended(LegEnd::NoAnswer) {
            DialStatus::NoAnswer
        } else {
            DialStatus::Failed
        };
        self.finish(status, out);
    }

    fn finish(&mut self, status: DialStatus, out: &mut Vec<DialEffect>) {
        self.state = State::Over;
        out.push(DialEffect::Finished(DialEnd { status, leg: None, duration: Duration::ZERO }));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CALLER: LegId = LegId(0);
    const START: Instant = Instant::from_unix_seconds(1_800_000_000);
    const SETTINGS: DialSettings = DialSettings {
        timeout: Duration::from_secs(30),
        time_limit: Duration::from_secs(600),
        screened: false,
        answer_on_bridge: true,
    };

    fn dial(settings: DialSettings, legs: u64) -> (Dial, Vec<DialEffect>) {
        let legs: Vec<LegId> = (1..=legs).map(LegId).collect();
        let mut out = Vec::new();
        let dial = Dial::new(START, settings, CALLER, &legs, &mut out);
        (dial, out)
    }

    fn finished(status: DialStatus) -> DialEffect {
        DialEffect::Finished(DialEnd { status, leg: None, duration: Duration::ZERO })
    }

    #[test]
    fn the_first_to_answer_is_joined_and_the_others_are_left() {
        let (mut dial, mut out) = dial(SETTINGS, 3);
        dial.handle_leg_ended(START, LegId(1), LegEnd::Busy, &mut out);
        dial.handle_answered(START, LegId(2), &mut out);
        let joined = DialEffect::Join { caller: CALLER, leg: LegId(2) };
        assert_eq!(out, [DialEffect::HangUp(LegId(3)), DialEffect::AnswerCaller, joined]);
        out.clear();
        // Its answer crossed our CANCEL.
        dial.handle_answered(START, LegId(3), &mut out);
        assert_eq!(out, [DialEffect::HangUp(LegId(3))]);
        out.clear();
        let later = START + Duration::from_secs(12);
        dial.handle_leg_ended(later, LegId(2), LegEnd::Failed, &mut out);
        let duration = Duration::from_secs(12);
        let end = DialEnd { status: DialStatus::Completed, leg: Some(LegId(2)), duration };
        assert_eq!(out, [DialEffect::Part { caller: CALLER, leg: LegId(2) }, DialEffect::Finished(end)]);
        assert!(dial.is_over() && dial.deadline().is_none());
    }

    #[test]
    fn nobody_takes_it() {
        let cases: [(&[u16], DialStatus); 4] = [
            (&[404, 486, 480], DialStatus::Busy),
            (&[503, 480], DialStatus::NoAnswer),
            (&[404], DialStatus::Failed),
            (&[], DialStatus::Failed),
        ];
        for (said, status) in cases {
            let (mut dial, mut out) = dial(SETTINGS, said.len() as u64);
            for (leg, &code) in (1..).zip(said) {
                dial.handle_leg_ended(START, LegId(leg), LegEnd::of_status(code), &mut out);
            }
            assert_eq!(out, [finished(status)], "{said:?}");
        }
    }

    #[test]
    fn time_runs_out() {
        let (mut dial, mut out) = dial(SETTINGS, 1);
        let late = dial.deadline().unwrap();
        dial.expire(START, &mut out);
        assert!(out.is_empty(), "woken early");
        dial.expire(late, &mut out);
        assert_eq!(out, [DialEffect::HangUp(LegId(1)), finished(DialStatus::NoAnswer)]);
    }

    #[test]
    fn who_answers_is_screened() {
        let (mut dial, mut out) = dial(DialSettings { screened: true, ..SETTINGS }, 2);
        dial.handle_answered(START, LegId(1), &mut out);
        dial.handle_answered(START, LegId(2), &mut out);
        assert_eq!(out, [DialEffect::Screen(LegId(1)), DialEffect::Screen(LegId(2))]);
        out.clear();
        dial.handle_screened(START, LegId(1), false, &mut out);
        dial.handle_screened(START, LegId(2), true, &mut out);
        let joined = DialEffect::Join { caller: CALLER, leg: LegId(2) };
        assert_eq!(out, [DialEffect::HangUp(LegId(1)), DialEffect::AnswerCaller, joined]);
    }

    proptest! {
        /// Whatever comes in whatever order: one end, one joining at most, and no leg left ringing.
        #[test]
        fn it_ends_once_and_leaves_nobody(
            screened: bool,
            events in proptest::collection::vec((0..7u8, 1..5u64), 0..40),
        ) {
            let (mut dial, mut out) = dial(DialSettings { screened, ..SETTINGS }, 4);
            let mut gone = vec![];
            for (event, leg) in events {
                let leg = LegId(leg);
                match event {
                    0 | 1 => dial.handle_answered(START, leg, &mut out),
                    2 => dial.handle_screened(START, leg, true, &mut out),
                    3 => dial.handle_screened(START, leg, false, &mut out),
                    4 | 5 => {
                        gone.push(leg);
                        dial.handle_leg_ended(START, leg, LegEnd::Busy, &mut out);
                    }
                    _ => dial.hang_up_leg(START, &mut out),
                }
            }
            dial.handle_caller_ended(START, &mut out);
            let count = |is: fn(&DialEffect) -> bool| out.iter().filter(|effect| is(effect)).count();
            prop_assert_eq!(count(|effect| matches!(effect, DialEffect::Finished(_))), 1);
            let joined = count(|effect| matches!(effect, DialEffect::Join { .. }));
            prop_assert!(joined <= 1);
            prop_assert_eq!(count(|effect| matches!(effect, DialEffect::Part { .. })), joined);
            for leg in (1..5).map(LegId) {
                prop_assert!(out.contains(&DialEffect::HangUp(leg)) || gone.contains(&leg));
            }
        }
    }
}
