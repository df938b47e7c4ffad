//! One class of a link in both directions: the messages that wait or are not confirmed, and those that came and are not
//! handled.

use std::collections::VecDeque;

use stdx::Instant;

use crate::limits::{
    CONFIRMATION_BYTES, FRAME_FILL, FRAME_MESSAGES, MESSAGE_AGE, QUEUE_MESSAGES, UNCONFIRMED,
};
use crate::link::class::Class;
use crate::link::fault::LinkFault;
use crate::link::frame::{FRAME_HEAD, FrameWriter, Message};

/// No link lives for as many messages: a greater number is a fault, and additions to lesser ones do not overflow.
const LAST_NUMBER: u64 = 1 << 62;

/// The messages of a class to the peer.
#[derive(Debug)]
pub(crate) struct SendQueue {
    class: Class,
    /// The peer confirms what it has received: messages are kept until then, over this connection and the next.
    is_confirmed: bool,
    /// In the order of their numbers.
    messages: VecDeque<(Instant, Message)>,
    /// Bytes of `messages` on the wire.
    bytes: usize,
    /// The number of the first of `messages`.
    first: u64,
    /// The number of `messages` that were sent over this connection.
    sent: usize,
    /// The number of the first of `messages` that were sent over this connection or an earlier one.
    kept: usize,
    /// When the peer last confirmed a message, or the first of those was sent that it has not confirmed.
    confirmed_at: Instant,
    /// Bytes that were sent over this connection, and how many may be.
    sent_bytes: u64,
    limit: u64,
    /// Messages that were dropped: they were too old, or sent to a peer that is gone.
    dropped: u64,
}

impl SendQueue {
    pub(crate) fn new(class: Class) -> SendQueue {
        SendQueue {
            class,
            is_confirmed: class.is_acknowledged(),
            messages: VecDeque::new(),
            bytes: 0,
            first: 1,
            sent: 0,
            kept: 0,
            confirmed_at: Instant::default(),
            sent_bytes: 0,
            limit: 0,
            dropped: 0,
        }
    }

    /// True if a message of so many bytes on the wire may be queued.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.messages.len() < QUEUE_MESSAGES && self.bytes + bytes <= self.class.queue_bytes()
    }

    pub(crate) fn push(&mut self, now: Instant, message: Message) {
        self.bytes += message.wire_bytes();
        self.messages.push_back((now, message));
    }

    /// Writes at most one frame; the acknowledgement alone if it is due.
    pub(crate) fn write_frame(
        &mut self,
        now: Instant,
        ack: u64,
        ack_is_due: bool,
        out: &mut Vec<u8>,
    ) -> bool {
        self.drop_old(now);
        let can_send = self.messages.get(self.sent).is_some_and(|(_, message)| self.has_credit(message));
        if !can_send && !ack_is_due {
            return false;
        }
        let mut frame = FrameWriter::begin(out, self.class.number(), self.first + self.sent as u64, ack);
        for _ in 0..FRAME_MESSAGES {
            if frame.len() >= FRAME_HEAD + FRAME_FILL || !self.write_message(now, &mut frame) {
                break;
            }
        }
        frame.end();
        true
    }

    fn write_message(&mut self, now: Instant, frame: &mut FrameWriter<'_>) -> bool {
        let Some((_, message)) = self.messages.get(self.sent) else { return false };
        if !self.has_credit(message) {
            return false;
        }
        frame.push(message);
        self.sent_bytes += message.wire_bytes() as u64;
        if self.sent == 0 {
            self.confirmed_at = now;
        }
        self.sent += 1;
        self.kept = self.kept.max(self.sent);
        if !self.is_confirmed {
            self.remove_first();
        }
        true
    }

    fn has_credit(&self, message: &Message) -> bool {
        self.sent_bytes + message.wire_bytes() as u64 <= self.limit
    }

    /// Removes the first message, which was sent.
    fn remove_first(&mut self) -> Option<Message> {
        let (_, message) = self.messages.pop_front()?;
        self.bytes -= message.wire_bytes();
        self.first += 1;
        self.sent -= 1;
        self.kept -= 1;
        Some(message)
    }

    /// Drops messages that are too old to be sent for the first time. Their numbers are not used up.
    fn drop_old(&mut self, now: Instant) {
        let Some(wait) = self.class.longest_wait() else { return };
        while self.messages.front().is_some_and(|(queued_at, _)| now.since(*queued_at) > wait) {
            self.drop_first();
        }
    }

    fn drop_first(&mut self) {
        if let Some((_, message)) = self.messages.pop_front() {
            self.bytes -= message.wire_bytes();
            self.dropped += 1;
        }
    }

    /// Drops the messages that were sent and not confirmed: the peer that they were sent to is gone.
    fn drop_kept(&mut self) {
        (0..self.kept).for_each(|_| self.drop_first());
        (self.sent, self.kept) = (0, 0);
    }

    /// The peer has received, or handled, all messages up to `ack`.
    pub(crate) fn handle_ack(&mut self, now: Instant, ack: u64) -> Result<(), LinkFault> {
        let sent = self.first + self.sent as u64 - 1;
        if !self.is_confirmed || ack < self.first {
            return Ok(());
        }
        if ack > sent {
            return Err(LinkFault::Acknowledgement { class: self.class, sent, found: ack });
        }
        self.confirmed_at = now;
        while self.first <= ack {
            self.remove_first();
        }
        Ok(())
    }

    /// The peer's credit over this connection. It never shrinks.
    pub(crate) fn handle_credit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// A new connection begins. Returns the number of the first message that can still be sent: those before it are confirmed, or
    /// too old.
    pub(crate) fn begin(&mut self, now: Instant, version: u16) -> u64 {
        self.is_confirmed = self.class.is_confirmed(version);
        if !self.is_confirmed {
            self.restart();
        } else if !self.class.is_acknowledged() {
            let is_old = |(queued_at, _): &(Instant, Message)| now.since(*queued_at) > MESSAGE_AGE;
            let old = self.messages.iter().take(self.kept).take_while(|message| is_old(message)).count();
            (0..old).for_each(|_| self.drop_first());
            self.kept -= old;
            self.first += old as u64;
        }
        self.first
    }

    /// The peer's link is a new one, which has nothing of what was sent before.
    pub(crate) fn restart(&mut self) {
        self.drop_kept();
        self.first = 1;
    }

    /// Messages go on: the peer has received all up to `received` and handled those up to `handled`.
    pub(crate) fn resume(
        &mut self,
        now: Instant,
        received: u64,
        handled: u64,
        limit: u64,
    ) -> Result<(), LinkFault> {
        (self.sent_bytes, self.limit, self.confirmed_at) = (0, limit, now);
        let last = self.first + self.messages.len() as u64 - 1;
        if !self.is_confirmed {
            return Ok(());
        }
        // `received + 1 < first` is a peer that has lost what it acknowledged; of other classes, messages were too old.
        let is_lost = |received: u64| self.class.is_acknowledged() && received + 1 < self.first;
        if received > last || is_lost(received) || handled > received {
            return Err(LinkFault::Acknowledgement { class: self.class, sent: last, found: received });
        }
        self.sent = (received + 1).saturating_sub(self.first) as usize;
        self.kept = self.kept.max(self.sent);
        self.handle_ack(now, handled)
    }

    /// The connection has ended. Acknowledged classes wait for the next. Of the others, messages that were never sent go back: later they
    /// would be too late. Those that were sent are kept if the peer confirms them, for it may have received them.
    pub(crate) fn suspend(&mut self, returned: &mut Vec<(Class, Message)>) {
        (self.sent, self.sent_bytes, self.limit) = (0, 0, 0);
        if self.class.is_acknowledged() {
            return;
        }
        for (_, message) in self.messages.drain(self.kept..) {
            self.bytes -= message.wire_bytes();
            returned.push((self.class, message));
        }
        if !self.is_confirmed {
            self.first = 1;
        }
    }

    /// The peer is dead. Messages of acknowledged classes go back to the sender, in their order; of others, those that were sent are
    /// dropped.
    pub(crate) fn give_up(&mut self, returned: &mut Vec<(Class, Message)>) {
        if !self.class.is_acknowledged() {
            return self.drop_kept();
        }
        self.first += self.messages.len() as u64;
        (self.sent, self.kept, self.bytes) = (0, 0, 0);
        returned.extend(self.messages.drain(..).map(|(_, message)| (self.class, message)));
    }

    /// The time at which the peer has not confirmed anything for too long. Acknowledged classes have none: their messages wait for
    /// the peer's owner, and another connection would not help.
    pub(crate) fn unconfirmed_at(&self) -> Option<Instant> {
        let waits = self.is_confirmed && !self.class.is_acknowledged() && self.sent > 0;
        waits.then(|| self.confirmed_at + UNCONFIRMED)
    }

    pub(crate) fn has_output(&self) -> bool {
        self.messages.get(self.sent).is_some_and(|(_, message)| self.has_credit(message))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes that wait or are not confirmed.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}

/// The messages of a class from the peer.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    class: Class,
    /// This side confirms what it has received.
    is_confirmed: bool,
    messages: VecDeque<Message>,
    /// Bytes of `messages` on the wire.
    bytes: usize,
    /// The number of the last message that came.
    received: u64,
    /// The last acknowledgement or confirmation that was sent.
    acknowledged: u64,
    /// Bytes of messages that came since then.
    unconfirmed_bytes: usize,
    /// Bytes that came over this connection, and how many may come.
    received_bytes: u64,
    granted: u64,
}

impl ReceiveQueue {
    pub(crate) fn new(class: Class) -> ReceiveQueue {
        let messages = VecDeque::new();
        ReceiveQueue {
            class,
            is_confirmed: class.is_acknowledged(),
            messages,
            bytes: 0,
            received: 0,
            acknowledged: 0,
            unconfirmed_bytes: 0,
            received_bytes: 0,
            granted: 0,
        }
    }

    /// A frame begins with the message of this number.
    pub(crate) fn check_sequence(&self, seq: u64) -> Result<(), LinkFault> {
        let expected = self.received + 1;
        if seq == expected {
            Ok(())
        } else {
            Err(LinkFault::Sequence { class: self.class, expected, found: seq })
        }
    }

    pub(crate) fn push(&mut self, message: Message) -> Result<(), LinkFault> {
        self.received_bytes += message.wire_bytes() as u64;
        if self.received_bytes > self.granted {
            return Err(LinkFault::Credit { class: self.class });
        }
        self.bytes += message.wire_bytes();
        self.unconfirmed_bytes += message.wire_bytes();
        self.received += 1;
        self.messages.push_back(message);
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.wire_bytes();
        Some(message)
    }

    /// The last message for which the peer need not care any more: of acknowledged classes, the one before the first that waits to be
    /// handled; of others, the last one that came, as only the end of this process loses it.
    pub(crate) fn ack(&self) -> u64 {
        if self.class.is_acknowledged() {
            self.received - self.messages.len() as u64
        } else if self.is_confirmed {
            self.received
        } else {
            0
        }
    }

    pub(crate) fn received(&self) -> u64 {
        if self.is_confirmed { self.received } else { 0 }
    }

    /// An acknowledgement of what was handled is to be sent now.
    pub(crate) fn ack_is_due(&self) -> bool {
        self.class.is_acknowledged() && self.ack() > self.acknowledged
    }

    /// Messages came that are to be confirmed within [`crate::limits::CONFIRMATION`].
    pub(crate) fn is_unconfirmed(&self) -> bool {
        !self.class.is_acknowledged() && self.ack() > self.acknowledged
    }

    /// So much came that it is to be confirmed now.
    pub(crate) fn confirmation_is_due(&self) -> bool {
        self.is_unconfirmed() && self.unconfirmed_bytes >= CONFIRMATION_BYTES
    }

    /// An acknowledgement or a confirmation is sent.
    pub(crate) fn take_ack(&mut self) -> u64 {
        (self.acknowledged, self.unconfirmed_bytes) = (self.ack(), 0);
        self.acknowledged
    }

    /// More credit if it is worth a frame: a quarter of the window.
    pub(crate) fn take_credit(&mut self) -> Option<u64> {
        let next = self.possible();
        let is_worth_it = next >= self.granted + self.class.window() as u64 / 4;
        is_worth_it.then(|| {
            self.granted = next;
            next
        })
    }

    pub(crate) fn credit_is_due(&self) -> bool {
        self.possible() >= self.granted + self.class.window() as u64 / 4
    }

    /// The credit that the free room allows over this connection.
    fn possible(&self) -> u64 {
        self.received_bytes + self.class.window().saturating_sub(self.bytes) as u64
    }

    /// A new connection of this wire version begins. Returns its first credit.
    pub(crate) fn begin(&mut self, version: u16) -> u64 {
        self.is_confirmed = self.class.is_confirmed(version);
        if !self.is_confirmed {
            self.restart();
        }
        self.received_bytes = 0;
        self.granted = self.possible();
        self.take_ack();
        self.granted
    }

    /// The peer's link is a new one, whose numbers begin at 1.
    pub(crate) fn restart(&mut self) {
        (self.received, self.acknowledged) = (0, 0);
    }

    /// The peer sends no message before the one of this number.
    pub(crate) fn skip_to(&mut self, first: u64) -> Result<(), LinkFault> {
        let expected = self.received + 1;
        if first > LAST_NUMBER {
            return Err(LinkFault::Sequence { class: self.class, expected, found: first });
        }
        if first > expected {
            self.received = first - 1;
            self.take_ack();
        }
        Ok(())
    }

    /// The connection has ended.
    pub(crate) fn suspend(&mut self) {
        (self.received_bytes, self.granted) = (0, 0);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes that wait to be handled.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
