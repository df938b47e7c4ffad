//! A script at work: on whose leg, and what its end means there.

use ivr::script::{Id, Script};
use stdx::slab::Key;

/// A leg has at most one of its own and one beside it, which performs while the first waits.
pub(super) struct Actor {
    pub(super) script: Script,
    pub(super) leg: Key,
    pub(super) part: Part,
}

impl Actor {
    /// A screening or waiting script is over and its leg is not.
    pub(super) fn complete(&mut self) {
        if let Part::Screening { accepted, .. } = &mut self.part {
            *accepted = true;
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The leg's own: with it ends the call.
    Main,
    /// Plays the callee a document before the connection. `caller` is the actor whose Dial made the leg `id`;
    /// `accepted` once the document came to its end.
    Screening { caller: Key, id: Id, accepted: bool },
    /// Music and words for a waiting caller. `main` is the actor that waits, for its conference or queue `id`.
    Waiting { main: Key, id: Id },
}
