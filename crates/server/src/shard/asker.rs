//! Who asked. Questions and the store's tickets are numbered by each asker for itself, and told apart by their highest bits:
//! all of them are here, so that no two take the same.

/// The parts of a shard that ask, besides the endpoint and the shard itself, whose numbers are passed on as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    Core,
    /// Calls of applications, with their own number for it.
    Voice(u64),
    Xmpp(u64),
}

/// The endpoint tells its events' questions from its own by it.
const EVENTS: u64 = sip::events::ASK_BIT;
const VOICE: u64 = EVENTS >> 1;
const XMPP: u64 = EVENTS >> 2;

impl Asker {
    pub(super) fn of(id: u64) -> Asker {
        if id & EVENTS != 0 {
            Asker::Core
        } else if id & VOICE != 0 {
            Asker::Voice(id & !VOICE)
        } else if id & XMPP != 0 {
            Asker::Xmpp(id & !XMPP)
        } else {
            Asker::Core
        }
    }
}

pub(super) fn of_voice(ticket: u64) -> u64 {
    ticket | VOICE
}

pub(super) fn of_xmpp(id: u64) -> u64 {
    id | XMPP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_gets_his_own_answers() {
        for id in [0, 1, u64::from(u32::MAX)] {
            assert_eq!(Asker::of(of_voice(id)), Asker::Voice(id));
            assert_eq!(Asker::of(of_xmpp(id)), Asker::Xmpp(id));
            assert_eq!(Asker::of(id), Asker::Core);
            assert_eq!(Asker::of(sip::events::ASK_BIT | id), Asker::Core);
        }
    }
}
