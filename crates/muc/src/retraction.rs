//! The retraction of a message that a room's archive may have (XEP-0424, XEP-0425). The room decides who may retract it; the
//! archive has the message, so the room says what replaces it and what follows once it is replaced.

use xmpp::{Element, ns, retraction};

use crate::RoomEffect;

/// The retraction of one message in the archive.
#[derive(Debug)]
pub struct Retraction {
    /// The id that the archive gave the message (XEP-0359), which is unique in the room.
    pub id: Box<str>,
    /// The replacement.
    pub tombstone: Tombstone,
    /// The history in memory had the message, so it exists even if it is still on its way to the archive.
    pub is_known: bool,
    /// The effects that follow once the archive has the tombstone. They are dropped if neither the archive nor the history knows
    /// the message, or the store is away: then the request is refused.
    pub then: Vec<RoomEffect>,
}

/// The tombstone that replaces a message, until the message is read from the archive.
#[derive(Debug)]
pub struct Tombstone {
    /// The sender that the message must have (XEP-0421); `None`: any sender, as for a moderator.
    pub(crate) occupant_id: Option<Box<str>>,
    /// `<retracted/>`.
    pub(crate) retracted: Element,
}

impl Tombstone {
    /// The stanza that stands for the message from now on. `None`: the message is another occupant's, and stays.
    pub fn of(self, message: &Element) -> Option<Element> {
        let sender = message.get("occupant-id", ns::OCCUPANT_ID).and_then(|id| id.attr("id"));
        let may = self.occupant_id.is_none() || sender == self.occupant_id.as_deref();
        may.then(|| retraction::tombstone(message, self.retracted))
    }
}
