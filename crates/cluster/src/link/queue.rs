//! One class of a link in both directions: the messages that wait or are not acknowledged, and those that came and are not
//! handled.

use std::collections::VecDeque;

use stdx::Instant;

use crate::limits::{ACK_DELAY, ACK_PARTS, ACK_STEP, FRAME_FILL, FRAME_MESSAGES, QUEUE_MESSAGES};
use crate::link::class::Class;
use crate::link::fault::LinkFault;
use crate::link::frame::{FRAME_HEAD, FrameWriter, Message};

use super::at_step;

/// The messages of a class to the peer.
#[derive(Debug)]
pub(crate) struct SendQueue {
    class: Class,
    /// In the order of their numbers. Acknowledged classes keep what was sent until it is acknowledged.
    messages: VecDeque<(Instant, Message)>,
    /// Bytes of `messages` on the wire.
    bytes: usize,
    /// The number of the first of `messages`.
    first: u64,
    /// The number of `messages` that were sent over this connection.
    sent: usize,
    /// Bytes that were sent over this connection, and how many may be.
    sent_bytes: u64,
    limit: u64,
    /// Messages that were dropped because they were too old.
    dropped: u64,
}

impl SendQueue {
    pub(crate) fn new(class: Class) -> SendQueue {
        let messages = VecDeque::new();
        SendQueue { class, messages, bytes: 0, first: 1, sent: 0, sent_bytes: 0, limit: 0, dropped: 0 }
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
            if frame.len() >= FRAME_HEAD + FRAME_FILL || !self.write_message(&mut frame) {
                break;
            }
        }
        frame.end();
        true
    }

    fn write_message(&mut self, frame: &mut FrameWriter<'_>) -> bool {
        let Some((_, message)) = self.messages.get(self.sent) else { return false };
        if !self.has_credit(message) {
            return false;
        }
        frame.push(message);
        self.sent_bytes += message.wire_bytes() as u64;
        self.sent += 1;
        if !self.class.is_acknowledged() {
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
        Some(message)
    }

    fn drop_old(&mut self, now: Instant) {
        let Some(wait) = self.class.longest_wait() else { return };
        while self.messages.front().is_some_and(|(queued_at, _)| now.since(*queued_at) > wait) {
            if let Some((_, message)) = self.messages.pop_front() {
                self.bytes -= message.wire_bytes();
                self.dropped += 1;
            }
        }
    }

    /// The peer has handled all messages up to `ack`.
    pub(crate) fn handle_ack(&mut self, ack: u64) -> Result<(), LinkFault> {
        let sent = self.first + self.sent as u64 - 1;
        if !self.class.is_acknowledged() || ack < self.first {
            return Ok(());
        }
        if ack > sent {
            return Err(LinkFault::Acknowledgement { class: self.class, sent, found: ack });
        }
        while self.first <= ack {
            self.remove_first();
        }
        Ok(())
    }

    /// The peer's credit over this connection. It never shrinks.
    pub(crate) fn handle_credit(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// A new connection begins: the peer has received all up to `received` and handled those up to `handled`.
    pub(crate) fn resume(&mut self, received: u64, handled: u64, limit: u64) -> Result<(), LinkFault> {
        (self.sent_bytes, self.limit) = (0, limit);
        let last = self.first + self.messages.len() as u64 - 1;
        if !self.class.is_acknowledged() {
            return Ok(());
        }
        // `received + 1 < first` is a peer that has lost what it acknowledged.
        if received > last || received + 1 < self.first || handled > received {
            return Err(LinkFault::Acknowledgement { class: self.class, sent: last, found: received });
        }
        self.sent = (received + 1 - self.first) as usize;
        self.handle_ack(handled)
    }

    /// The connection has ended. Messages of classes without acknowledgement go back: later they would be too late.
    pub(crate) fn suspend(&mut self, returned: &mut Vec<(Class, Message)>) {
        (self.sent, self.sent_bytes, self.limit) = (0, 0, 0);
        if !self.class.is_acknowledged() {
            self.give_back(returned);
            self.first = 1;
        }
    }

    /// All messages go back to the sender, in their order.
    pub(crate) fn give_back(&mut self, returned: &mut Vec<(Class, Message)>) {
        self.first += self.messages.len() as u64;
        (self.sent, self.bytes) = (0, 0);
        returned.extend(self.messages.drain(..).map(|(_, message)| (self.class, message)));
    }

    /// The peer's link is a new one, which expects the first message. Those that wait go back to the sender: the earlier link may have had them.
    pub(crate) fn begin_anew(&mut self, returned: &mut Vec<(Class, Message)>) {
        self.give_back(returned);
        self.first = 1;
    }

    pub(crate) fn has_output(&self) -> bool {
        self.messages.get(self.sent).is_some_and(|(_, message)| self.has_credit(message))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes that wait or are unacknowledged.
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
    messages: VecDeque<Message>,
    /// Bytes of `messages` on the wire.
    bytes: usize,
    /// The number of the last message that came.
    received: u64,
    /// So many of the first of `messages` came from an earlier link of the peer's, and have no number here.
    earlier: usize,
    /// The last acknowledgement that was sent.
    acknowledged: u64,
    /// Bytes of messages that were handled since then.
    unacknowledged_bytes: usize,
    /// The time at which an acknowledgement goes out that no message of the other direction has taken along; `None`: nothing came
    /// since the last one, or the time has come.
    ack_at: Option<Instant>,
    /// An acknowledgement waits no longer for a message of the other direction.
    is_ack_late: bool,
    /// No acknowledgement waits.
    is_leaving: bool,
    /// Bytes that came over this connection, and how many may come.
    received_bytes: u64,
    granted: u64,
}

impl ReceiveQueue {
    pub(crate) fn new(class: Class) -> ReceiveQueue {
        let messages = VecDeque::new();
        ReceiveQueue {
            class,
            messages,
            bytes: 0,
            received: 0,
            earlier: 0,
            acknowledged: 0,
            unacknowledged_bytes: 0,
            ack_at: None,
            is_ack_late: false,
            is_leaving: false,
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

    pub(crate) fn push(&mut self, now: Instant, message: Message) -> Result<(), LinkFault> {
        if self.class.is_acknowledged() && !self.is_ack_late {
            self.ack_at.get_or_insert_with(|| at_step(now + ACK_DELAY, ACK_STEP));
        }
        self.received_bytes += message.wire_bytes() as u64;
        if self.received_bytes > self.granted {
            return Err(LinkFault::Credit { class: self.class });
        }
        self.bytes += message.wire_bytes();
        self.received += 1;
        self.messages.push_back(message);
        Ok(())
    }

    pub(crate) fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.wire_bytes();
        self.unacknowledged_bytes += message.wire_bytes();
        self.earlier = self.earlier.saturating_sub(1);
        Some(message)
    }

    /// The last message that was handled: all before the first that waits.
    pub(crate) fn handled(&self) -> u64 {
        let numbered = self.messages.len() - self.earlier;
        if self.class.is_acknowledged() { self.received - numbered as u64 } else { 0 }
    }

    pub(crate) fn received(&self) -> u64 {
        self.received
    }

    /// True if an acknowledgement is worth a frame of its own. Before that it goes with the next message of the other direction.
    pub(crate) fn ack_is_due(&self) -> bool {
        let is_large = self.unacknowledged_bytes >= self.class.window() / ACK_PARTS;
        self.handled() > self.acknowledged && (self.is_ack_late || self.is_leaving || is_large)
    }

    /// The time at which [`ReceiveQueue::expire`] is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ack_at
    }

    /// An acknowledgement that has waited long enough is due from now on.
    pub(crate) fn expire(&mut self, now: Instant) {
        if self.ack_at.is_some_and(|at| at <= now) {
            self.ack_at = None;
            self.is_ack_late = true;
        }
    }

    /// Lets no acknowledgement wait from now on.
    pub(crate) fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// An acknowledgement is sent.
    pub(crate) fn take_ack(&mut self) -> u64 {
        self.acknowledged = self.handled();
        self.unacknowledged_bytes = 0;
        // Messages that the owner has not taken yet have waited as long.
        if self.messages.is_empty() {
            self.ack_at = None;
            self.is_ack_late = false;
        }
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

    /// A new connection begins. Returns its first credit.
    pub(crate) fn resume(&mut self) -> u64 {
        self.received_bytes = 0;
        self.granted = self.possible();
        self.take_ack();
        self.granted
    }

    /// The connection has ended. Numbers of classes without acknowledgement begin again.
    pub(crate) fn suspend(&mut self) {
        (self.received_bytes, self.granted) = (0, 0);
        if !self.class.is_acknowledged() {
            self.received = 0;
        }
    }

    /// The peer's link is a new one, whose first message is the next. Those that the earlier one has sent can still be taken.
    pub(crate) fn begin_anew(&mut self) {
        (self.received, self.acknowledged, self.earlier) = (0, 0, self.messages.len());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// Bytes that wait to be handled.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}
