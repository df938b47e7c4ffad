//! The link to another life: one of the two connections of the pair (a [`Lane`]), and what outlives the connection.
//!
//! The server owns the socket. It runs a [`Handshake`], gives its result to the link of the peer's life, and then: bytes that come to
//! [`Link::handle_bytes`], [`Link::poll_message`] while there is room in the shards' inboxes, [`Link::poll_output`] while the
//! socket takes more, [`Link::expire`] at [`Link::deadline`]. A fault closes the connection and not the link.
//!
//! | class | promise |
//! |---|---|
//! | call, ask, sound | at most once, in order; given back if the connection ends before they are written |
//! | chat, bulk | in order, over as many connections as it takes, until the peer is dead; then all that it did not acknowledge is given back |
//!
//! A message is acknowledged when the peer has taken it with `poll_message`: with the next message of its class in the other direction, or
//! alone after [`ACK_DELAY`](crate::limits::ACK_DELAY), as an acknowledgement of its own costs two wake-ups and no task waits for it. Per peer and class at most [`Class::window`] bytes wait at the
//! receiver and [`Class::queue_bytes`] at the sender. Two lives have one link a lane; a new life has a new link.

pub mod class;
pub mod fault;
pub mod frame;
pub mod handshake;
mod queue;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use stdx::Instant;

use crate::fields::{Corrupt, Fields, put_number, put_varint, take_varint};
use crate::limits::{HELLO_BYTES, KEEPALIVE, KEEPALIVE_STEP, MESSAGE_BYTES, SILENCE};

pub use class::{Class, Lane};
pub use fault::LinkFault;
pub use frame::Message;
pub use handshake::{Established, FarmSecret, Handshake, Hello, Role};

/// The least and the greatest wire version that this program speaks: its own and the one before it, so that nodes of neighbouring
/// versions make a farm while it is upgraded. The number is one for frames of links, the messages in them and the values in the council.
/// It grows with any change of these; `golden` in the tests of `cluster` and `server` has the forms of each version
/// (`docs/decisions/0062-what-crosses-versions.md`).
pub const WIRE: (u16, u16) = (1, 2);

use frame::{CREDIT, DataFrame, Frame, KEEPALIVE as KEEPALIVE_FRAME, RESUME, take_frame, write_control};
use queue::{ReceiveQueue, SendQueue};

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
    /// The peer has said where messages go on.
    is_resumed: bool,
    /// Control frames that wait.
    output: Vec<u8>,
    input: BytesMut,
    written_at: Instant,
    heard_at: Instant,
}

/// One lane between this node's life and another's.
///
/// A node that has taken the other for dead makes a new link when it finds that the other lives. Each link has an incarnation, by which the other
/// end knows that messages are numbered anew (`docs/decisions/0138-incarnations-of-links.md`).
#[derive(Debug)]
pub struct Link {
    channels: Vec<Channel>,
    connection: Option<Connection>,
    is_dead: bool,
    /// [`NO_INCARNATION`]: the peer is not told.
    incarnation: u64,
    /// The incarnation of the peer's link; [`NO_INCARNATION`] before it has said one.
    peer: u64,
    /// Messages that an earlier link of the peer's may have had.
    returned: Vec<(Class, Message)>,
}

/// The incarnation of a link that has none, and of a peer's that is not known.
const NO_INCARNATION: u64 = 0;

// Fields of a resumption besides those of the classes, whose numbers are bytes.
/// The incarnation of the link.
const INCARNATION: u64 = 256;
/// The incarnation of the peer's link whose messages the numbers are of.
const OF_PEER: u64 = 257;

impl Link {
    /// A link without a connection. Messages of acknowledged classes may wait in it.
    pub fn new(lane: Lane) -> Link {
        let channel = |class: &Class| Channel {
            class: *class,
            send: SendQueue::new(*class),
            receive: ReceiveQueue::new(*class),
        };
        Link {
            channels: lane.classes().iter().map(channel).collect(),
            connection: None,
            is_dead: false,
            incarnation: NO_INCARNATION,
            peer: NO_INCARNATION,
            returned: Vec::new(),
        }
    }

    /// The same, with a random number that tells it from other links of the same two lives.
    pub fn with_incarnation(lane: Lane, incarnation: u64) -> Link {
        Link { incarnation, ..Link::new(lane) }
    }

    /// A handshake has succeeded; its [`Established::rest`] goes to [`Link::handle_bytes`] next. A connection that the link still
    /// has must be ended before with [`Link::handle_disconnected`].
    pub fn handle_connected(&mut self, now: Instant) {
        let mut body = Vec::new();
        for channel in &mut self.channels {
            channel.resume(&mut body);
        }
        if self.incarnation != NO_INCARNATION {
            put_number(&mut body, INCARNATION, self.incarnation);
            put_number(&mut body, OF_PEER, self.peer);
        }
        let mut output = Vec::new();
        write_control(&mut output, RESUME, &body);
        let input = BytesMut::new();
        self.connection =
            Some(Connection { is_resumed: false, output, input, written_at: now, heard_at: now });
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
                Frame::Control { class, body } => self.handle_control(class, &body)?,
            }
        }
    }

    /// The connection has ended. Messages of classes that do not wait for another are given back.
    pub fn handle_disconnected(&mut self, returned: &mut Vec<(Class, Message)>) {
        self.connection = None;
        for channel in &mut self.channels {
            channel.send.suspend(returned);
            channel.receive.suspend();
        }
    }

    /// The peer is dead. All that it did not acknowledge is given back, and nothing is taken any more. Messages that it had sent
    /// can still be polled.
    pub fn handle_dead(&mut self, returned: &mut Vec<(Class, Message)>) {
        self.take_returned(returned);
        self.handle_disconnected(returned);
        self.is_dead = true;
        self.channels.iter_mut().for_each(|channel| channel.send.give_back(returned));
    }

    /// Moves out messages that a link of the peer's had not acknowledged which has ended: they come back as after a death. Due after
    /// [`Link::handle_bytes`].
    pub fn take_returned(&mut self, returned: &mut Vec<(Class, Message)>) {
        returned.append(&mut self.returned);
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
        }
        if let Some(connection) = &mut self.connection
            && out.len() > before
        {
            connection.written_at = now;
        }
    }

    /// Sends a keep-alive if one is due, and acknowledgements that have waited long enough for a message to go with.
    ///
    /// # Errors
    /// [`LinkFault::Silent`] if nothing has come for [`SILENCE`].
    pub fn expire(&mut self, now: Instant) -> Result<(), LinkFault> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if now.since(connection.heard_at) >= SILENCE {
            return Err(LinkFault::Silent);
        }
        if now >= keepalive_at(connection.written_at) {
            write_control(&mut connection.output, KEEPALIVE_FRAME, &[]);
            connection.written_at = now;
        }
        self.channels.iter_mut().for_each(|channel| channel.receive.expire(now));
        Ok(())
    }

    /// This node leaves: what it has taken is acknowledged at once from now on, as all that is not when it has left comes back to the peer and takes
    /// effect twice.
    pub fn leave(&mut self) {
        self.channels.iter_mut().for_each(|channel| channel.receive.leave());
    }

    /// The time at which [`Link::expire`] is due; none without a connection.
    pub fn deadline(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        let deadline = keepalive_at(connection.written_at).min(connection.heard_at + SILENCE);
        let acks = self.channels.iter().filter_map(|channel| channel.receive.deadline());
        Some(acks.fold(deadline, Instant::min))
    }

    /// True while messages of all classes are taken and go out.
    pub fn is_connected(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| connection.is_resumed)
    }

    /// True if [`Link::poll_output`] has something to write.
    pub fn has_output(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| {
            let of = |channel: &Channel| channel.has_output();
            !connection.output.is_empty() || (connection.is_resumed && self.channels.iter().any(of))
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

    /// Bytes of messages that wait, are unacknowledged, or came and are not handled.
    pub fn bytes(&self) -> usize {
        self.channels.iter().map(|channel| channel.send.bytes() + channel.receive.bytes()).sum()
    }

    /// Messages of a class that were dropped because they had waited too long.
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

    fn handle_data(&mut self, now: Instant, mut frame: DataFrame) -> Result<(), LinkFault> {
        let channel = self.channel_numbered(frame.class)?;
        channel.receive.check_sequence(frame.seq)?;
        channel.send.handle_ack(frame.ack)?;
        while let Some(message) = frame.next_message()? {
            channel.receive.push(now, message)?;
        }
        Ok(())
    }

    fn handle_control(&mut self, class: u8, body: &Bytes) -> Result<(), LinkFault> {
        let is_resumed = self.is_connected();
        match class {
            RESUME if !is_resumed => self.handle_resume(body),
            CREDIT if is_resumed => self.handle_credit(body),
            KEEPALIVE_FRAME => Ok(()),
            number => Err(LinkFault::Order { number }),
        }
    }

    fn handle_resume(&mut self, body: &[u8]) -> Result<(), LinkFault> {
        let (mut peer, mut of_own) = (NO_INCARNATION, self.incarnation);
        let mut fields = Fields::new("resumption", body, HELLO_BYTES)?;
        while let Some(field) = fields.next()? {
            match field.number {
                INCARNATION => peer = field.value()?,
                OF_PEER => of_own = field.value()?,
                _ => {}
            }
        }
        if peer != NO_INCARNATION {
            if self.peer != NO_INCARNATION && self.peer != peer {
                self.begin_anew();
            }
            self.peer = peer;
        }
        // Numbers of an earlier link of this node's say nothing about this one.
        let are_own = of_own == self.incarnation || self.incarnation == NO_INCARNATION;
        let mut fields = Fields::new("resumption", body, HELLO_BYTES)?;
        while let Some(field) = fields.next()? {
            // A class of a later version is not known here, and nothing will be sent in it.
            let Ok(number) = u8::try_from(field.number) else { continue };
            if let Ok(channel) = self.channel_numbered(number) {
                channel.handle_resume(field.bytes, are_own)?;
            }
        }
        if let Some(connection) = &mut self.connection {
            connection.is_resumed = true;
        }
        Ok(())
    }

    /// The peer's link is a new one: what the earlier one has not acknowledged comes back, and both directions are numbered from the beginning.
    fn begin_anew(&mut self) {
        for channel in &mut self.channels {
            channel.send.begin_anew(&mut self.returned);
            channel.receive.begin_anew();
        }
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

/// The time of the keep-alive of a connection that was last written to at this time. Connections that were written to at about the same
/// time have the same one, also those of other nodes: their clocks agree well enough.
fn keepalive_at(written_at: Instant) -> Instant {
    at_step(written_at + KEEPALIVE, KEEPALIVE_STEP)
}

/// The last multiple of this step until then.
fn at_step(at: Instant, step: Duration) -> Instant {
    let (at, step) = (at.as_micros(), step.as_micros() as u64);
    Instant::from_micros(at - at % step)
}

impl Channel {
    /// Writes where this class goes on: a field with the number of the class, of the last message received, of the last handled, and
    /// the first credit.
    fn resume(&mut self, out: &mut Vec<u8>) {
        let limit = self.receive.resume();
        let mut bytes = Vec::new();
        let is_acknowledged = self.class.is_acknowledged();
        put_varint(&mut bytes, if is_acknowledged { self.receive.received() } else { 0 });
        put_varint(&mut bytes, self.receive.handled());
        put_varint(&mut bytes, limit);
        crate::fields::put_bytes(out, u64::from(self.class.number()), &bytes);
    }

    /// `are_own`: the numbers are of messages of this link.
    fn handle_resume(&mut self, mut bytes: &[u8], are_own: bool) -> Result<(), LinkFault> {
        let mut take = || {
            take_varint(&mut bytes).ok_or(Corrupt { thing: "resumption", fault: "a class has no numbers" })
        };
        let (received, handled, limit) = (take()?, take()?, take()?);
        let (received, handled) = if are_own { (received, handled) } else { (0, 0) };
        self.send.resume(received, handled, limit)
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
        let has_written = self.send.write_frame(now, self.receive.handled(), ack_is_due, out);
        if has_written {
            self.receive.take_ack();
        }
        has_written
    }

    fn has_output(&self) -> bool {
        self.send.has_output() || self.receive.ack_is_due() || self.receive.credit_is_due()
    }
}
