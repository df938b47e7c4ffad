//! The classes of messages between nodes: each has its own queue and credit, so that none waits for another.

use std::time::Duration;

use crate::limits::SOUND_AGE;

/// The class of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    /// SIP messages on their way through the farm. At most once: their senders repeat.
    Call,
    /// Questions to owners and their answers. At most once: the edge asks again when the owner changes.
    Ask,
    /// Stanzas and what belongs to their sessions. Acknowledged, in order, resumed after a reconnect.
    Chat,
    /// Audio of conferences, 20 ms a message. At most once, and never late.
    Sound,
    /// Handovers and files. As chat, with the lowest priority.
    Bulk,
}

/// A connection of a pair of nodes. There are two, as TCP delivers in order: a storm of rosters must not delay an INVITE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lane {
    /// For the classes that time matters to: call, ask, sound.
    Prompt,
    /// For the acknowledged classes: chat, bulk.
    Acknowledged,
}

impl Class {
    /// All classes.
    pub const ALL: [Class; 5] = [Class::Call, Class::Ask, Class::Chat, Class::Sound, Class::Bulk];

    /// The class's number in a frame.
    pub fn number(self) -> u8 {
        match self {
            Class::Call => 0,
            Class::Ask => 1,
            Class::Chat => 2,
            Class::Sound => 3,
            Class::Bulk => 4,
        }
    }

    /// The class with this number.
    pub fn with_number(number: u8) -> Option<Class> {
        Class::ALL.into_iter().find(|class| class.number() == number)
    }

    /// The connection that carries the class.
    pub fn lane(self) -> Lane {
        match self {
            Class::Call | Class::Ask | Class::Sound => Lane::Prompt,
            Class::Chat | Class::Bulk => Lane::Acknowledged,
        }
    }

    /// True if messages are kept until the peer has acknowledged them, and sent again after a reconnect.
    pub fn is_acknowledged(self) -> bool {
        self.lane() == Lane::Acknowledged
    }

    /// The bytes of messages that a receiver has room for before it has handled any: the most that a class of one peer
    /// occupies at the receiver. At 1 Gbit/s and 10 ms a link carries 1.2 MB; a quarter more, and less for sound, of which
    /// a window of 512 KiB is 500 speakers for 20 ms. None is less than the largest message.
    pub fn window(self) -> usize {
        match self {
            Class::Call | Class::Ask | Class::Bulk => 1_536 * 1_024,
            Class::Chat => 4_096 * 1_024,
            Class::Sound => 512 * 1_024,
        }
    }

    /// The bytes of messages that wait or are unacknowledged at the sender. Chat has room for a second of the published mix
    /// at one server, 10,000 messages of 600 bytes, twice. Answer: `SendError::Full`.
    pub fn queue_bytes(self) -> usize {
        match self {
            Class::Call | Class::Ask => 4_096 * 1_024,
            Class::Chat => 12_288 * 1_024,
            Class::Sound => 512 * 1_024,
            Class::Bulk => 4_096 * 1_024,
        }
    }

    /// The age at which a message that waits is dropped.
    pub fn longest_wait(self) -> Option<Duration> {
        (self == Class::Sound).then_some(SOUND_AGE)
    }
}

impl Lane {
    /// The classes of the connection, the most urgent first.
    pub fn classes(self) -> &'static [Class] {
        match self {
            Lane::Prompt => &[Class::Call, Class::Ask, Class::Sound],
            Lane::Acknowledged => &[Class::Chat, Class::Bulk],
        }
    }

    /// The lane's number in a hello.
    pub fn number(self) -> u8 {
        match self {
            Lane::Prompt => 0,
            Lane::Acknowledged => 1,
        }
    }

    /// The lane with this number.
    pub fn with_number(number: u8) -> Option<Lane> {
        [Lane::Prompt, Lane::Acknowledged].into_iter().find(|lane| lane.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::MESSAGE_BYTES;
    use crate::link::frame::MESSAGE_HEAD;

    #[test]
    fn every_window_and_queue_has_room_for_the_largest_message() {
        for class in Class::ALL {
            assert!(class.window() >= MESSAGE_BYTES + MESSAGE_HEAD && class.queue_bytes() >= MESSAGE_BYTES);
            assert_eq!(Class::with_number(class.number()), Some(class));
            assert!(class.lane().classes().contains(&class));
        }
    }
}
