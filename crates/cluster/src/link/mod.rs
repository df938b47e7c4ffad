//! The link to another life: one of the two connections of the pair (a [`Lane`]), and what outlives the connection.
//!
//! The server owns the socket. It runs a [`Handshake`], gives its result to the link of the peer's life, and then: bytes that come to
//! [`Link::handle_bytes`], [`Link::poll_message`] while there is room in the shards' inboxes, [`Link::poll_output`] while the
//! socket takes more, [`Link::expire`] at [`Link::deadline`]. A fault closes the connection and not the link.
//!
//! | class | promise |
//! |---|---|
//! | call, ask | once, in order, over as many connections as it takes, until the peer is dead or they are too old; not taken without a connection, and given back if it ends before they are written |
//! | sound | at most once, in order; given back if the connection ends before it is written |
//! | chat, bulk | once, in order, over as many connections as it takes, until the peer is dead; then all that it did not acknowledge is given back |
//!
//! A message of chat and bulk is acknowledged when the peer has taken it with `poll_message`, so that a peer which is dead then leaves only
//! messages that it has handled. One of call and ask is confirmed when it came: only the peer's death loses it then, and a death
//! is the business of the layers above (`docs/decisions/0060-links-that-break.md`). Peers of wire version 1 do not confirm: to them,
//! call and ask are as sound. Per peer and class at most [`Class::window`] bytes wait at the
//! receiver and [`Class::queue_bytes`] at the sender. Two lives have one link a lane; a new life has a new link.

pub mod class;
pub mod fault;
pub mod frame;
pub mod handshake;
mod queue;
mod resumption;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use stdx::Instant;

use crate::fields::{Fields, put_number};
use crate::limits::{
    CONFIRMATION, CONFIRMATION_STEP, HELLO_BYTES, KEEPALIVE, KEEPALIVE_STEP, MESSAGE_BYTES, SILENCE,
};

pub use class::{Class, Lane};
pub use fault::LinkFault;
pub use frame::Message;
pub use handshake::{Established, FarmSecret, Handshake, Hello, Role};

/// The least and the greatest wire version that this program speaks: its own and the one before it, so that nodes of neighbouring
/// versions make a farm while it is upgraded. The number is one for frames of links, the messages in them and the values in the council.
/// It grows with any change of these; `golden` in the tests of `cluster` and `server` has the forms of each version
/// (`docs/decisions/0062-what-crosses-versions.md`).
pub const WIRE: (u16, u16) = (1, 2);

/// The wire version from which on messages of the classes call and ask are confirmed.
pub const CONFIRMED_SINCE: u16 = 2;

use frame::{
    CONFIRM, CREDIT, DataFrame, Frame, KEEPALIVE as KEEPALIVE_FRAME, RESUME, take_frame, write_control,
};
use queue::{ReceiveQueue, SendQueue};
use resumption::{ClassNumbers, LinkNumbers, Resumption};

/// A message that the link did not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendError {
    /// The reason.
    pub reason: SendFailure,
    /// The message, unchanged.
    pub message: Message,
}

/// The reason why a link does not take a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendFailure {
    /// The class has no more room: the peer is slow, or away for an acknowledged class.
    Full,
    /// There is no connection, and the class does not wait for one.
    NotConnected,
    /// The body is longer than [`MESSAGE_BYTES`].
    TooLong,
    /// The peer is dead.
    Dead,
    /// The class belongs to the other lane.
    OtherLane,
}

/// One class of the link.
#[derive(Debug)]
struct Channel {
    class: Class,
    send: SendQueue,
    receive: ReceiveQueue,
}

/// The connection that the link has now.
#[derive(Debug)]
struct Connection {
    /// The wire version that both sides speak.
    version: u16,
    /// The peer has said where messages go on.
    is_resumed: bool,
    /// Control frames that wait.
    output: Vec<u8>,
    input: BytesMut,
    written_at: Instant,
    heard_at: Instant,
    /// The time of the next confirmation, if messages came that are not confirmed; and whether it is over.
    confirm_at: Option<Instant>,
    is_confirmation_due: bool,
}

/// One lane between this node's life and another's.
#[derive(Debug)]
pub struct Link {
    channels: Vec<Channel>,
    connection: Option<Connection>,
    /// This link's number, unlike that of any link of this lane that this life had with the peer before, and the peer's link.
    numbers: LinkNumbers,
    is_dead: bool,
}

impl Link {
    /// A link without a connection. Messages of acknowledged classes may wait in it.
    pub fn new(lane: Lane) -> Link {
        let channel = |class: &Class| Channel {
            class: *class,
            send: SendQueue::new(*class),
            receive: ReceiveQueue::new(*class),
        };
        let channels = lane.classes().iter().map(channel).collect();
        Link { channels, connection: None, numbers: LinkNumbers::default(), is_dead: false }
    }

    /// A handshake has succeeded, and both sides speak this wire version; its [`Established::rest`] goes to [`Link::handle_bytes`] next. A connection that the link still
    /// has must be ended before with [`Link::handle_disconnected`].
    pub fn handle_connected(&mut self, now: Instant, version: u16) {
        // The time of its first connection tells a link from those before it.
        if self.numbers.own == 0 {
            self.numbers.own = now.as_micros().max(1);
        }
        let classes = self.channels.iter_mut().map(|channel| channel.begin(now, version)).collect();
        let needs_numbers = self.channels.iter().any(|channel| channel.is_confirmed_only(version));
        let links = if needs_numbers { self.numbers } else { LinkNumbers::default() };
        let mut output = Vec::new();
        write_control(&mut output, RESUME, &Resumption { links, classes }.encode());
        self.connection = Some(Connection {
            version,
            is_resumed: false,
            output,
            input: BytesMut::new(),
            written_at: now,
            heard_at: now,
            confirm_at: None,
            is_confirmation_due: false,
        });
    }

    /// Bytes came from the peer.
    ///
    /// # Errors
    /// The [`LinkFault`] for which the connection is to be closed; then [`Link::handle_disconnected`].
    pub fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> Result<(), LinkFault> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        connection.heard_at = now;
        connection.input.extend_from_slice(bytes);
        loop {
            let Some(connection) = &mut self.connection else { return Ok(()) };
            let Some(frame) = take_frame(&mut connection.input)? else { return Ok(()) };
            match frame {
                Frame::Data(data) if connection.is_resumed => self.handle_data(now, data)?,
                Frame::Data(data) => return Err(LinkFault::Order { number: data.class }),
                Frame::Control { class, body } => self.handle_control(now, class, &body)?,
            }
        }
    }

    /// The connection has ended. Messages of classes that do not wait for another are given back, except those that were sent and not
    /// confirmed.
    pub fn handle_disconnected(&mut self, returned: &mut Vec<(Class, Message)>) {
        self.connection = None;
        for channel in &mut self.channels {
            channel.send.suspend(returned);
            channel.receive.suspend();
        }
    }

    /// The peer is dead. All that it did not acknowledge is given back, and nothing is taken any more. What it was sent and did not confirm
    /// is dropped. Messages that it had sent can still be polled.
    pub fn handle_dead(&mut self, returned: &mut Vec<(Class, Message)>) {
        self.handle_disconnected(returned);
        self.is_dead = true;
        self.channels.iter_mut().for_each(|channel| channel.send.give_up(returned));
    }

    /// Queues a message.
    ///
    /// # Errors
    /// [`SendError`] with the message and the reason.
    pub fn send(&mut self, now: Instant, class: Class, message: Message) -> Result<(), SendError> {
        match self.refusal(class, &message) {
            Some(reason) => Err(SendError { reason, message }),
            None => {
                if let Some(channel) = self.channel_mut(class) {
                    channel.send.push(now, message);
                }
                Ok(())
            }
        }
    }

    /// The next message of a class that the peer has sent. Taking it acknowledges it and gives its credit back.
    pub fn poll_message(&mut self, class: Class) -> Option<Message> {
        self.channel_mut(class)?.receive.pop()
    }

    /// Appends frames to `out` until it has `room` bytes or a frame more. The classes take turns, the most urgent first.
    pub fn poll_output(&mut self, now: Instant, room: usize, out: &mut Vec<u8>) {
        let Some(connection) = &mut self.connection else { return };
        let before = out.len();
        out.append(&mut connection.output);
        if connection.is_resumed {
            for channel in &mut self.channels {
                channel.write_credit(out);
            }
            while out.len() < room && self.write_round(now, out) {}
            self.write_confirmation(out);
        }
        if let Some(connection) = &mut self.connection
            && out.len() > before
        {
            connection.written_at = now;
        }
    }

    /// Sends a keep-alive or a confirmation if one is due.
    ///
    /// # Errors
    /// [`LinkFault::Silent`] if nothing has come for [`SILENCE`], [`LinkFault::Unconfirmed`] if the peer has confirmed nothing for
    /// [`UNCONFIRMED`](crate::limits::UNCONFIRMED) although it had to.
    pub fn expire(&mut self, now: Instant) -> Result<(), LinkFault> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if now.since(connection.heard_at) >= SILENCE {
            return Err(LinkFault::Silent);
        }
        if self.channels.iter().filter_map(|channel| channel.send.unconfirmed_at()).any(|at| at <= now) {
            return Err(LinkFault::Unconfirmed);
        }
        connection.is_confirmation_due |= connection.confirm_at.is_some_and(|at| at <= now);
        if now >= keepalive_at(connection.written_at) {
            write_control(&mut connection.output, KEEPALIVE_FRAME, &[]);
            connection.written_at = now;
        }
        Ok(())
    }

    /// The time at which [`Link::expire`] is due; none without a connection.
    pub fn deadline(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let of_peer = self.channels.iter().filter_map(|channel| channel.send.unconfirmed_at());
        let first = keepalive_at(connection.written_at).min(connection.heard_at + SILENCE);
        Some(of_peer.chain(connection.confirm_at).fold(first, Instant::min))
    }

    /// True while messages of all classes are taken and go out.
    pub fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_resumed)
    }

    /// True if [`Link::poll_output`] has something to write.
    pub fn has_output(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| {
            let of = |channel: &Channel| channel.has_output();
            let has_frames = self.channels.iter().any(of) || connection.is_confirmation_due;
            !connection.output.is_empty() || (connection.is_resumed && has_frames)
        })
    }

    /// True if a message with a body of so many bytes would be taken.
    pub fn has_room(&self, class: Class, body: usize) -> bool {
        let bytes = body + frame::MESSAGE_HEAD;
        !self.is_dead && self.channel(class).is_some_and(|channel| channel.send.has_room(bytes))
    }

    /// True if nothing waits, in either direction.
    pub fn is_empty(&self) -> bool {
        self.channels.iter().all(|channel| channel.send.is_empty() && channel.receive.is_empty())
    }

    /// Bytes of messages that wait, are not confirmed, or came and are not handled.
    pub fn bytes(&self) -> usize {
        self.channels.iter().map(|channel| channel.send.bytes() + channel.receive.bytes()).sum()
    }

    /// Messages of a class that were dropped: they had waited too long, or the peer to which they were sent is gone.
    pub fn dropped(&self, class: Class) -> u64 {
        self.channel(class).map_or(0, |channel| channel.send.dropped())
    }

    fn refusal(&self, class: Class, message: &Message) -> Option<SendFailure> {
        let Some(channel) = self.channel(class) else { return Some(SendFailure::OtherLane) };
        if self.is_dead {
            Some(SendFailure::Dead)
        } else if message.body.len() > MESSAGE_BYTES {
            Some(SendFailure::TooLong)
        } else if !class.is_acknowledged() && !self.is_connected() {
            Some(SendFailure::NotConnected)
        } else {
            (!channel.send.has_room(message.wire_bytes())).then_some(SendFailure::Full)
        }
    }

    fn channel(&self, class: Class) -> Option<&Channel> {
        self.channels.iter().find(|channel| channel.class == class)
    }

    fn channel_mut(&mut self, class: Class) -> Option<&mut Channel> {
        self.channels.iter_mut().find(|channel| channel.class == class)
    }

    fn channel_numbered(&mut self, number: u8) -> Result<&mut Channel, LinkFault> {
        Class::with_number(number)
            .and_then(|class| self.channel_mut(class))
            .ok_or(LinkFault::Class { number })
    }

    /// Each class writes at most one frame; true if any did.
    fn write_round(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let mut has_written = false;
        for channel in &mut self.channels {
            has_written |= channel.write_frame(now, out);
        }
        has_written
    }

    /// Confirms all classes at once that no data frame has confirmed, if one of them is due.
    fn write_confirmation(&mut self, out: &mut Vec<u8>) {
        let Some(connection) = &mut self.connection else { return };
        let is_unconfirmed = |channel: &Channel| channel.receive.is_unconfirmed();
        let is_due = |channel: &Channel| channel.receive.confirmation_is_due();
        let (mut body, classes) = (Vec::new(), &mut self.channels);
        if connection.is_confirmation_due || classes.iter().any(is_due) {
            for channel in classes.iter_mut().filter(|channel| is_unconfirmed(channel)) {
                put_number(&mut body, u64::from(channel.class.number()), channel.receive.take_ack());
            }
        }
        if !body.is_empty() {
            write_control(out, CONFIRM, &body);
        }
        if !classes.iter().any(is_unconfirmed) {
            connection.confirm_at = None;
        }
        connection.is_confirmation_due = false;
    }

    fn handle_data(&mut self, now: Instant, mut frame: DataFrame) -> Result<(), LinkFault> {
        let channel = self.channel_numbered(frame.class)?;
        channel.receive.check_sequence(frame.seq)?;
        channel.send.handle_ack(now, frame.ack)?;
        while let Some(message) = frame.next_message()? {
            channel.receive.push(message)?;
        }
        let is_unconfirmed = channel.receive.is_unconfirmed();
        if let Some(connection) = self.connection.as_mut().filter(|_| is_unconfirmed) {
            connection.confirm_at.get_or_insert(step_before(now + CONFIRMATION, CONFIRMATION_STEP));
        }
        Ok(())
    }

    fn handle_control(&mut self, now: Instant, class: u8, body: &Bytes) -> Result<(), LinkFault> {
        let is_resumed = self.is_connected();
        let confirms = self.connection.as_ref().is_some_and(|one| one.version >= CONFIRMED_SINCE);
        match class {
            RESUME if !is_resumed => self.handle_resume(now, body),
            CREDIT if is_resumed => self.handle_credit(body),
            CONFIRM if is_resumed && confirms => self.handle_confirmation(now, body),
            KEEPALIVE_FRAME => Ok(()),
            number => Err(LinkFault::Order { number }),
        }
    }

    fn handle_resume(&mut self, now: Instant, body: &[u8]) -> Result<(), LinkFault> {
        let Resumption { links, classes } = Resumption::decode(body)?;
        if links.own != self.numbers.known {
            if self.numbers.known != 0 {
                self.channels.iter_mut().for_each(Channel::restart);
            }
            self.numbers.known = links.own;
        }
        let knows_this = links.known == self.numbers.own;
        for (number, numbers) in classes {
            if let Ok(channel) = self.channel_numbered(number) {
                channel.resume(now, numbers, knows_this)?;
            }
        }
        if let Some(connection) = &mut self.connection {
            connection.is_resumed = true;
        }
        Ok(())
    }

    fn handle_confirmation(&mut self, now: Instant, body: &[u8]) -> Result<(), LinkFault> {
        let mut fields = Fields::new("confirmation", body, HELLO_BYTES)?;
        while let Some(field) = fields.next()? {
            let Ok(number) = u8::try_from(field.number) else { continue };
            let received = field.value()?;
            self.channel_numbered(number)?.send.handle_ack(now, received)?;
        }
        Ok(())
    }

    fn handle_credit(&mut self, body: &[u8]) -> Result<(), LinkFault> {
        let mut fields = Fields::new("credit", body, HELLO_BYTES)?;
        while let Some(field) = fields.next()? {
            let Ok(number) = u8::try_from(field.number) else { continue };
            let limit = field.value()?;
            self.channel_numbered(number)?.send.handle_credit(limit);
        }
        Ok(())
    }
}

/// The last multiple of `step` that is not after this time.
fn step_before(at: Instant, step: Duration) -> Instant {
    let at = at.as_micros();
    Instant::from_micros(at - at % step.as_micros() as u64)
}

/// The time of the keep-alive of a connection that was last written to at this time. Connections that were written to at about the same
/// time have the same one, also those of other nodes: their clocks agree well enough.
fn keepalive_at(written_at: Instant) -> Instant {
    step_before(written_at + KEEPALIVE, KEEPALIVE_STEP)
}

impl Channel {
    /// A new connection begins. Returns where this class goes on.
    fn begin(&mut self, now: Instant, version: u16) -> (u8, ClassNumbers) {
        let (limit, first) = (self.receive.begin(version), self.send.begin(now, version));
        let numbers = ClassNumbers {
            received: self.receive.received(),
            handled: self.receive.ack(),
            limit,
            first: self.is_confirmed_only(version).then_some(first),
        };
        (self.class.number(), numbers)
    }

    /// True if messages are confirmed when they came, and not when they are handled.
    fn is_confirmed_only(&self, version: u16) -> bool {
        self.class.is_confirmed(version) && !self.class.is_acknowledged()
    }

    /// The peer's link is a new one. Acknowledged classes do not forgive that: `LinkFault::Acknowledgement` says it.
    fn restart(&mut self) {
        if !self.class.is_acknowledged() {
            self.send.restart();
            self.receive.restart();
        }
    }

    /// Messages go on. `knows_this`: the numbers of the peer are those of this link, and not of one before it.
    fn resume(&mut self, now: Instant, numbers: ClassNumbers, knows_this: bool) -> Result<(), LinkFault> {
        let ClassNumbers { received, handled, limit, first } = numbers;
        if !self.class.is_acknowledged() && !knows_this {
            return self.send.resume(now, 0, 0, limit);
        }
        if let Some(first) = first {
            self.receive.skip_to(first)?;
        }
        self.send.resume(now, received, handled, limit)
    }

    fn write_credit(&mut self, out: &mut Vec<u8>) {
        if let Some(limit) = self.receive.take_credit() {
            let mut body = Vec::new();
            put_number(&mut body, u64::from(self.class.number()), limit);
            write_control(out, CREDIT, &body);
        }
    }

    fn write_frame(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let ack_is_due = self.receive.ack_is_due();
        let has_written = self.send.write_frame(now, self.receive.ack(), ack_is_due, out);
        if has_written {
            self.receive.take_ack();
        }
        has_written
    }

    fn has_output(&self) -> bool {
        let has_answer = self.receive.ack_is_due() || self.receive.confirmation_is_due();
        self.send.has_output() || has_answer || self.receive.credit_is_due()
    }
}
