//! Frames, the units of a connection between nodes, in wire version 1. Numbers are big-endian.
//!
//! ```text
//! data:     len u32 · class u8 · seq u64 · ack u64 · count u16 · count messages
//! message:  kind u16 · epoch u64 · shard u8 · len u32 · body
//! control:  len u32 · class u8 · body
//! ```
//!
//! `len` counts the bytes after itself. `seq` is the number of the first message, from 1, or of the next one if `count` is 0. `ack` is the
//! last message of the class that the sender of the frame has handled. Control frames have classes from 0xf0.

use bytes::{Buf, Bytes, BytesMut};

use crate::address::Epoch;
use crate::limits::FRAME_BYTES;
use crate::link::fault::LinkFault;

/// Bytes of a message before its body.
pub const MESSAGE_HEAD: usize = 15;

/// Bytes of a data frame before its messages, its length included.
pub const FRAME_HEAD: usize = 23;

/// Bytes of a frame's length.
const LENGTH: usize = 4;

/// The first frame of each side.
pub(crate) const HELLO: u8 = 0xf0;
/// The proof that the side knows the farm's secret.
pub(crate) const PROOF: u8 = 0xf1;
/// The numbers at which messages go on after a reconnect, and the first credit.
pub(crate) const RESUME: u8 = 0xf2;
/// More credit for a class.
pub(crate) const CREDIT: u8 = 0xf3;
/// Nothing, often enough.
pub(crate) const KEEPALIVE: u8 = 0xf4;

const FIRST_CONTROL: u8 = 0xf0;

/// A message from a shard to a shard of another node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The kind of the body, for the nodes' adapters.
    pub kind: u16,
    /// The epoch of the bucket that the message is about, 0 if it is about none.
    pub epoch: Epoch,
    /// The shard of the receiving node.
    pub shard: u8,
    /// The content in the form of its kind.
    pub body: Bytes,
}

impl Message {
    /// Bytes on the wire, which count against queues and credit.
    pub fn wire_bytes(&self) -> usize {
        MESSAGE_HEAD + self.body.len()
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.kind.to_be_bytes());
        out.extend_from_slice(&self.epoch.0.to_be_bytes());
        out.push(self.shard);
        let length = u32::try_from(self.body.len()).expect("a queue takes no longer messages");
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&self.body);
    }

    fn read(frame: &mut Bytes) -> Result<Message, LinkFault> {
        if frame.len() < MESSAGE_HEAD {
            return Err(LinkFault::FrameLength);
        }
        let (kind, epoch, shard) = (frame.get_u16(), Epoch(frame.get_u64()), frame.get_u8());
        let length = usize::try_from(frame.get_u32()).unwrap_or(usize::MAX);
        if length > frame.len() {
            return Err(LinkFault::FrameLength);
        }
        Ok(Message { kind, epoch, shard, body: frame.split_to(length) })
    }
}

/// One frame as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Messages of a class.
    Data(DataFrame),
    /// A frame of the connection itself.
    Control {
        /// From 0xf0.
        class: u8,
        /// The rest.
        body: Bytes,
    },
}

/// Messages of a class, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataFrame {
    /// The class's number.
    pub class: u8,
    /// The number of the first message.
    pub seq: u64,
    /// The last message of the other direction that is handled.
    pub ack: u64,
    /// The number of messages that follow.
    pub count: u16,
    /// The bytes of the messages.
    rest: Bytes,
}

impl DataFrame {
    /// The next message; none after the last.
    ///
    /// # Errors
    /// [`LinkFault::FrameLength`] if the frame ends within a message or goes on after the last.
    pub fn next_message(&mut self) -> Result<Option<Message>, LinkFault> {
        if self.count == 0 {
            return if self.rest.is_empty() { Ok(None) } else { Err(LinkFault::FrameLength) };
        }
        self.count -= 1;
        Message::read(&mut self.rest).map(Some)
    }
}

/// Takes a frame from the front of the bytes; none if it is not complete.
///
/// # Errors
/// [`LinkFault::FrameTooLong`] as soon as the length shows it, [`LinkFault::FrameLength`] for a frame too short for its head.
pub fn take_frame(input: &mut BytesMut) -> Result<Option<Frame>, LinkFault> {
    let Some(length) = input.first_chunk::<LENGTH>() else { return Ok(None) };
    let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
    if length > FRAME_BYTES {
        return Err(LinkFault::FrameTooLong { bytes: length });
    }
    if input.len() < LENGTH + length {
        return Ok(None);
    }
    let mut frame = input.split_to(LENGTH + length).freeze();
    frame.advance(LENGTH);
    read(frame).map(Some)
}

fn read(mut frame: Bytes) -> Result<Frame, LinkFault> {
    if frame.is_empty() {
        return Err(LinkFault::FrameLength);
    }
    let class = frame.get_u8();
    if class >= FIRST_CONTROL {
        return Ok(Frame::Control { class, body: frame });
    }
    if frame.len() < FRAME_HEAD - LENGTH - 1 {
        return Err(LinkFault::FrameLength);
    }
    let (seq, ack, count) = (frame.get_u64(), frame.get_u64(), frame.get_u16());
    Ok(Frame::Data(DataFrame { class, seq, ack, count, rest: frame }))
}

/// Writes one data frame; its length and count are known at its end.
pub(crate) struct FrameWriter<'a> {
    out: &'a mut Vec<u8>,
    begin: usize,
    count: u16,
}

impl<'a> FrameWriter<'a> {
    /// Writes the head.
    pub(crate) fn begin(out: &'a mut Vec<u8>, class: u8, seq: u64, ack: u64) -> FrameWriter<'a> {
        let begin = out.len();
        out.extend_from_slice(&[0; LENGTH]);
        out.push(class);
        out.extend_from_slice(&seq.to_be_bytes());
        out.extend_from_slice(&ack.to_be_bytes());
        out.extend_from_slice(&[0; 2]);
        FrameWriter { out, begin, count: 0 }
    }

    /// Appends a message.
    pub(crate) fn push(&mut self, message: &Message) {
        message.write(self.out);
        self.count += 1;
    }

    /// Bytes of the frame so far.
    pub(crate) fn len(&self) -> usize {
        self.out.len() - self.begin
    }

    /// Writes length and count into the head.
    pub(crate) fn end(self) {
        put_length(self.out, self.begin);
        self.out[self.begin + FRAME_HEAD - 2..][..2].copy_from_slice(&self.count.to_be_bytes());
    }
}

/// Appends a control frame.
pub(crate) fn write_control(out: &mut Vec<u8>, class: u8, body: &[u8]) {
    let begin = out.len();
    out.extend_from_slice(&[0; LENGTH]);
    out.push(class);
    out.extend_from_slice(body);
    put_length(out, begin);
}

fn put_length(out: &mut [u8], begin: usize) {
    let length = u32::try_from(out.len() - begin - LENGTH).expect("frames are below FRAME_BYTES");
    out[begin..][..LENGTH].copy_from_slice(&length.to_be_bytes());
}
