//! The requests of a phone within its dialog, one after the other, and its order for those of its peer (RFC 3261 §12.2, §14.2).

use std::collections::VecDeque;
use std::time::Duration;

use sim::Datagram;
use sip::wire::{Message, Method};
use stdx::Instant;

use super::Phone;

/// The part of a phone in its dialog after the first INVITE.
#[derive(Default)]
pub struct DialogPlan {
    /// Requests of its own, each so long after the final response to the one before; a callee's first so long after the first ACK.
    pub sends: VecDeque<(Duration, &'static str)>,
    send_at: Option<Instant>,
    /// CSeq number, method and status of each final response to a request of its own, in their order. 408 where none came.
    pub answers: Vec<(u32, Method, u16)>,
    /// It answers INVITEs within the dialog so long after them, and refuses requests that come out of order.
    pub is_orderly: bool,
    pub answers_after: Duration,
    /// It refuses an INVITE as long as its 2xx to the one before has no ACK, as many user agents do.
    pub needs_ack: bool,
    /// The highest CSeq number of the peer's requests.
    heard: u32,
}

impl DialogPlan {
    /// The next request is due so long from now.
    fn arm(&mut self, now: Instant) {
        self.send_at = self.sends.front().map(|(after, _)| now + *after);
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.send_at
    }
}

impl Phone {
    /// The place of the dialog's first INVITE, from either side.
    fn dialog_of(&self, message: &Message) -> Option<usize> {
        self.calls
            .iter()
            .rposition(|call| call.invite.call_id() == message.call_id() && call.invite.to_tag().is_none())
    }

    /// A final response to a request of this phone, or the end of waiting for it.
    pub(super) fn note_answer(&mut self, now: Instant, number: u32, method: Method, status: u16) {
        if self.dialog.answers.iter().all(|(known, of, _)| (*known, *of) != (number, method)) {
            self.dialog.answers.push((number, method, status));
            self.dialog.arm(now);
        }
    }

    /// The peer has acknowledged an answer.
    pub(super) fn note_ack(&mut self, now: Instant) {
        if self.dialog.answers.is_empty() && self.dialog.send_at.is_none() {
            self.dialog.arm(now);
        }
    }

    pub(super) fn send_in_dialog(&mut self, now: Instant, out: &mut Vec<Datagram>) {
        if self.dialog.send_at.is_some_and(|at| at <= now) {
            self.dialog.send_at = None;
            if let Some((_, method)) = self.dialog.sends.pop_front() {
                self.in_dialog(now, 0, method, out);
            }
        }
    }

    /// A response to an INVITE within the dialog. False: it is to the INVITE that began it.
    pub(super) fn hear_of_reinvite(
        &mut self,
        now: Instant,
        response: &Message,
        out: &mut Vec<Datagram>,
    ) -> bool {
        let number = response.cseq().unwrap().0;
        let Some(index) = self.dialog_of(response) else { return false };
        let call = &self.calls[index];
        if call.is_caller && call.invite.cseq().unwrap().0 == number {
            return false;
        }
        match response.status() {
            ..200 => {}
            200..300 => self.acknowledge(now, index, number, out),
            status => self.finals.push((status, String::from_utf8_lossy(response.bytes()).into_owned())),
        }
        true
    }

    /// §13.2.2.4: the ACK has the CSeq number of its INVITE.
    pub(super) fn acknowledge(&mut self, now: Instant, index: usize, number: u32, out: &mut Vec<Datagram>) {
        let last = std::mem::replace(&mut self.calls[index].cseq, number);
        self.in_dialog(now, index, "ACK", out);
        self.calls[index].cseq = last;
    }

    /// False: the request is out of order (§12.2.2).
    pub(super) fn is_in_order(&mut self, request: &Message) -> bool {
        let number = request.cseq().unwrap().0;
        if !self.dialog.is_orderly || matches!(request.method(), Method::Ack | Method::Cancel) {
            return true;
        }
        let is_pending = self.dialog.needs_ack
            && request.method() == Method::Invite
            && self.calls.iter().any(|call| call.unacknowledged.is_some());
        let is_in_order = number > self.dialog.heard && !is_pending;
        self.dialog.heard = self.dialog.heard.max(number);
        is_in_order
    }
}
