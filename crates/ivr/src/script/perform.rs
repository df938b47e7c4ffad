//! From verb to verb.

use std::time::Duration;

use stdx::Instant;

use super::{Effect, Flow, Outbox, Refusal, Role, Script, State};
use crate::document::{Dial, Item, Piece, Severity, Verb, code};
use crate::limits;

/// SIP's own patience for an ACK (64 × T1, RFC 3261 §13.3.1.4), and a little for the way.
const ACK_WAIT: Duration = Duration::from_secs(40);

impl Script {
    /// The next verbs, until one takes time.
    pub(super) fn advance(&mut self, now: Instant, out: &mut Outbox) {
        self.state = State::Between;
        while let Some(verb) = self.verbs.pop_front() {
            if !self.may(&verb) {
                let text = format!("{} is not performed here: passed over", name(&verb));
                self.notify(Severity::Warning, code::INVALID, text, out);
                continue;
            }
            if self.answered_at.is_none() && self.answers(&verb) {
                self.verbs.push_front(verb);
                self.answer(now, out);
                return;
            }
            if self.perform_verb(now, verb, out) == Flow::Wait {
                return;
            }
        }
        self.document_over(now, out);
    }

    fn answer(&mut self, now: Instant, out: &mut Outbox) {
        self.state = State::Answering { until: now + ACK_WAIT };
        self.ask_answer(out);
    }

    /// Once: a redirected call may come here again before its ACK.
    pub(super) fn ask_answer(&mut self, out: &mut Outbox) {
        if !std::mem::replace(&mut self.answering, true) {
            out.push(Effect::Answer);
        }
    }

    /// True if the verb needs a call that is answered.
    fn answers(&self, verb: &Verb) -> bool {
        match verb {
            Verb::Reject { .. } | Verb::Redirect(_) | Verb::Pause(_) => false,
            Verb::Dial(dial) => !self.waits_for_callee(dial),
            _ => true,
        }
    }

    fn waits_for_callee(&self, dial: &Dial) -> bool {
        let parties = matches!(dial.to, crate::document::Dialed::Parties(_));
        parties && dial.answer_on_bridge.unwrap_or(self.plan.answer_on_bridge)
    }

    fn may(&self, verb: &Verb) -> bool {
        match self.plan.role {
            // Only a waiting call can leave a queue.
            Role::Call => !matches!(verb, Verb::Leave),
            Role::Screening | Role::Waiting => match verb {
                Verb::Say(_) | Verb::Play(_) | Verb::Pause(_) | Verb::Gather(_) | Verb::Redirect(_) => true,
                Verb::Hangup | Verb::Sms(_) | Verb::Email(_) => true,
                Verb::Leave => self.plan.role == Role::Waiting,
                _ => false,
            },
        }
    }

    fn perform_verb(&mut self, now: Instant, verb: Verb, out: &mut Outbox) -> Flow {
        match verb {
            Verb::Say(piece) | Verb::Play(piece) => self.speak(piece, out),
            Verb::Pause(length) => {
                if self.answered_at.is_none() && !self.answering {
                    out.push(Effect::Ring);
                }
                self.state = State::Pausing { until: now + length };
                Flow::Wait
            }
            Verb::Gather(gather) => self.gather(now, gather, out),
            Verb::Record(record) => self.record(now, record, out),
            Verb::Dial(dial) => self.dial(now, dial, out),
            Verb::Enqueue(enqueue) => self.enqueue(now, enqueue, out),
            Verb::Leave => {
                out.push(Effect::LeaveQueue { id: None });
                self.done(out);
                Flow::Wait
            }
            Verb::Redirect(target) => {
                self.go_to(now, &target, Vec::new(), out);
                Flow::Wait
            }
            Verb::Reject { busy } => {
                match busy {
                    // As Twilio: too late to refuse.
                    _ if self.answering || self.answered_at.is_some() => self.hang_up_after_sound(now, out),
                    true => self.refuse(now, Refusal::Busy, out),
                    false => self.refuse(now, Refusal::Rejected, out),
                }
                Flow::Wait
            }
            Verb::Hangup => {
                self.hang_up_after_sound(now, out);
                Flow::Wait
            }
            Verb::Sms(sms) => self.send_message(now, sms, out),
            Verb::Email(mail) => self.send_mail(mail, out),
            Verb::Refer(refer) => self.refer(now, refer, out),
            Verb::Echo => {
                self.state = State::Echoing;
                out.push(Effect::Echo { on: true });
                Flow::Wait
            }
            Verb::StartStream(stream) => {
                self.start_stream(stream, false, out);
                Flow::Next
            }
            Verb::StopStream { name } => {
                self.stop_streams(now, name.as_deref(), out);
                Flow::Next
            }
            Verb::ConnectStream { stream, action } => self.connect_stream(stream, action, out),
        }
    }

    fn speak(&mut self, piece: Piece, out: &mut Outbox) -> Flow {
        let Some(piece) = self.playable(piece, out) else { return Flow::Next };
        let prompt = self.id();
        self.state = State::Speaking { prompt };
        out.push(Effect::Prompt { id: prompt, pieces: vec![piece] });
        Flow::Wait
    }

    /// With absolute URLs. Items without one are noted and dropped; `None` if no item is left.
    pub(super) fn playable(&self, mut piece: Piece, out: &mut Outbox) -> Option<Piece> {
        piece.items.retain_mut(|item| {
            let Item::Audio { url } = item else { return true };
            match self.absolute_sound(url) {
                Some(absolute) => *url = absolute,
                None => {
                    self.notify(Severity::Error, code::URL, format!("{url} is no URL of HTTP"), out);
                    return false;
                }
            }
            true
        });
        (!piece.items.is_empty()).then_some(piece)
    }

    /// The document ends the call. A phone still has the last packets of sound in its jitter buffer, and its user
    /// expects a moment of silence after the last word, so a BYE follows the sound after `end_pause`. Time that has
    /// passed since the sound, in a `<Pause>` or a `<Gather>`, counts.
    fn hang_up_after_sound(&mut self, now: Instant, out: &mut Outbox) {
        match self.sound_ended_at.map(|ended| ended + self.end_pause) {
            Some(until) if now < until => {
                // The verb comes here again when the pause is over.
                self.verbs = [Verb::Hangup].into();
                self.state = State::Pausing { until };
            }
            _ => self.hang_up(now, out),
        }
    }

    fn document_over(&mut self, now: Instant, out: &mut Outbox) {
        match self.plan.role {
            // An empty document answers, as it does with Twilio, so that the caller is not refused by accident.
            Role::Call if self.answered_at.is_none() => {
                self.verbs.push_back(Verb::Hangup);
                self.answer(now, out);
            }
            Role::Call => self.hang_up_after_sound(now, out),
            Role::Screening => self.done(out),
            Role::Waiting => {
                if now.since(self.since) < limits::WAIT_REST {
                    self.state = State::Resting { until: self.since + limits::WAIT_REST };
                } else {
                    self.begin(now, out);
                }
            }
        }
    }
}

fn name(verb: &Verb) -> &'static str {
    match verb {
        Verb::Say(_) => "<Say>",
        Verb::Play(_) => "<Play>",
        Verb::Pause(_) => "<Pause>",
        Verb::Gather(_) => "<Gather>",
        Verb::Record(_) => "<Record>",
        Verb::Dial(_) => "<Dial>",
        Verb::Enqueue(_) => "<Enqueue>",
        Verb::Leave => "<Leave>",
        Verb::Redirect(_) => "<Redirect>",
        Verb::Reject { .. } => "<Reject>",
        Verb::Hangup => "<Hangup>",
        Verb::Sms(_) => "<Sms>",
        Verb::Email(_) => "<Email>",
        Verb::Refer(_) => "<Refer>",
        Verb::Echo => "<Echo>",
        Verb::StartStream(_) => "<Start>",
        Verb::StopStream { .. } => "<Stop>",
        Verb::ConnectStream { .. } => "<Connect>",
    }
}
