//! The reasons why a connection between nodes ends.

use std::fmt;

use crate::address::Life;
use crate::fields::Corrupt;
use crate::link::class::{Class, Lane};

/// A fault of the peer or of the network. The connection ends; the link stays for the next one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkFault {
    /// A frame is longer than any that a node sends.
    FrameTooLong {
        /// The length that the head of the frame announces.
        bytes: usize,
    },
    /// A frame ends before what its head announces, or goes on after it.
    FrameLength,
    /// The class is not one of this connection.
    Class {
        /// The number of the class as it came.
        number: u8,
    },
    /// Messages are missing or come twice.
    Sequence {
        /// The class of the messages; each class has its own numbers.
        class: Class,
        /// The number that the next message had to have.
        expected: u64,
        /// The number that it had.
        found: u64,
    },
    /// An acknowledgement of messages that were not sent.
    Acknowledgement {
        /// The class of the messages.
        class: Class,
        /// The number of the last message that was sent.
        sent: u64,
        /// The greater number that was acknowledged.
        found: u64,
    },
    /// More bytes than this node has room for.
    Credit {
        /// The class whose credit is exceeded.
        class: Class,
    },
    /// A frame of data before both sides know where to go on, or a second hello.
    Order {
        /// The number of the class of the frame.
        number: u8,
    },
    /// The hello, or where to go on, cannot be read.
    Corrupt(Corrupt),
    /// The hello is longer than any that a node sends.
    HelloTooLong {
        /// The length that the hello announces.
        bytes: usize,
    },
    /// The peer belongs to another farm.
    OtherFarm(Box<str>),
    /// The peer is another start than expected, or it expected another one here.
    OtherLife {
        /// The life that the connection has to be for: the one that the dialer wants, or the acceptor's own.
        expected: Option<Life>,
        /// The life that the peer named: its own, or the one that it wants here.
        found: Option<Life>,
    },
    /// The peer answers for another connection of the pair.
    OtherLane {
        /// The lane that the peer answered for.
        found: Lane,
    },
    /// The wire versions have none in common.
    WireRange {
        /// The least wire version that the peer speaks.
        least: u16,
        /// The greatest wire version that the peer speaks.
        most: u16,
    },
    /// The peer does not know the farm's secret.
    Proof,
    /// The peer sends plain bytes on a connection that has to be encrypted.
    Unencrypted,
    /// The peer did not prove itself in time.
    HandshakeTimeout,
    /// Nothing has come from the peer, not even a keep-alive.
    Silent,
}

impl fmt::Display for LinkFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LinkFault::FrameTooLong { bytes } => write!(f, "a frame of {bytes} bytes is too long"),
            LinkFault::FrameLength => write!(f, "a frame's length and its messages do not agree"),
            LinkFault::Class { number } => write!(f, "class {number} is not one of this connection"),
            LinkFault::Sequence { class, expected, found } => {
                write!(f, "{class:?} message {found} came instead of {expected}")
            }
            LinkFault::Acknowledgement { class, sent, found } => {
                write!(f, "{class:?} message {found} is acknowledged, {sent} were sent")
            }
            LinkFault::Credit { class } => write!(f, "the peer sent more {class:?} bytes than it may"),
            LinkFault::Order { number } => write!(f, "a frame {number} came out of order"),
            LinkFault::Corrupt(corrupt) => corrupt.fmt(f),
            LinkFault::HelloTooLong { bytes } => write!(f, "a hello of {bytes} bytes is too long"),
            LinkFault::OtherFarm(farm) => write!(f, "the peer belongs to the farm {farm}"),
            LinkFault::OtherLife { expected, found } => {
                write!(f, "the peer is life {}, expected was {}", Shown(*found), Shown(*expected))
            }
            LinkFault::OtherLane { found } => write!(f, "the peer took the connection for {found:?}"),
            LinkFault::WireRange { least, most } => {
                write!(f, "the peer speaks wire versions {least} to {most}: upgrade one version at a time")
            }
            LinkFault::Proof => {
                write!(f, "the peer does not know the farm's secret: give all nodes the same")
            }
            LinkFault::Unencrypted => {
                write!(f, "the peer does not encrypt its connection: check [farm] encrypt of both nodes")
            }
            LinkFault::HandshakeTimeout => write!(f, "the peer did not prove itself in time"),
            LinkFault::Silent => write!(f, "nothing came from the peer for too long"),
        }
    }
}

impl std::error::Error for LinkFault {}

impl From<Corrupt> for LinkFault {
    fn from(corrupt: Corrupt) -> LinkFault {
        LinkFault::Corrupt(corrupt)
    }
}

/// A life, or the word for none.
struct Shown(Option<Life>);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(life) => life.fmt(f),
            None => f.write_str("unknown"),
        }
    }
}
