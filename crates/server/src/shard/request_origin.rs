//! The origin of a query. Each asker numbers its queries and store tickets for itself; their highest bits
//! tell askers apart. All of these bits are here, so that no two askers take the same. An answer is routed by them: the `of_…`
//! functions mark a number when a query leaves, and `RequestOrigin::of` gives the mark and the number back.

use router::{AdmitRefused, Answer, AskId, Offered, Query, RegisterRefused};

/// The parts of a shard that ask, besides the endpoint and the shard itself, whose numbers are passed on as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestOrigin {
    /// The endpoint or the shard itself.
    Core,
    /// Calls of applications, with their own number for it.
    Voice(u64),
    /// Chat, with its own number.
    Xmpp(u64),
    /// Questions about accounts between an edge without a database and an owner (`edge_accounts`).
    Account(u64),
    /// Changes that an operator asks for (`operator_questions`).
    Operator(u64),
}

/// The endpoint tells its events' questions from its own by it.
const EVENTS: u64 = sip::events::ASK_BIT;
/// Counters begin at 1 and never reach these bits.
const VOICE: u64 = EVENTS >> 1;
const XMPP: u64 = EVENTS >> 2;
const ACCOUNT: u64 = EVENTS >> 3;
const OPERATOR: u64 = EVENTS >> 4;

impl RequestOrigin {
    pub(super) fn of(id: u64) -> RequestOrigin {
        // First: a number with this bit is passed on as it is, whatever its other bits are.
        if id & EVENTS != 0 {
            RequestOrigin::Core
        } else if id & VOICE != 0 {
            RequestOrigin::Voice(id & !VOICE)
        } else if id & XMPP != 0 {
            RequestOrigin::Xmpp(id & !XMPP)
        } else if id & ACCOUNT != 0 {
            RequestOrigin::Account(id & !ACCOUNT)
        } else if id & OPERATOR != 0 {
            RequestOrigin::Operator(id & !OPERATOR)
        } else {
            RequestOrigin::Core
        }
    }
}

pub(super) fn of_voice(ticket: u64) -> u64 {
    ticket | VOICE
}

pub(super) fn of_xmpp(id: u64) -> u64 {
    id | XMPP
}

pub(super) fn of_account(number: u64) -> u64 {
    number | ACCOUNT
}

pub(super) fn of_operator(number: u64) -> u64 {
    number | OPERATOR
}

/// The answer to a query that could not be sent. `None`: the asker has a deadline of its own for it.
pub(super) fn refusal_of(id: AskId, query: &Query) -> Option<Answer> {
    match query {
        // An endpoint's request has a deadline; a call of an application would be looked up for ever.
        Query::Admit(_) if matches!(RequestOrigin::of(id.0), RequestOrigin::Voice(_)) => {
            Some(Answer::Admitted(Err(AdmitRefused::TooManyCalls)))
        }
        Query::Lookup { .. } => Some(Answer::Bindings(Vec::new())),
        Query::Offer(_) => Some(Answer::Offered(Offered::Busy)),
        Query::Register(_) => Some(Answer::Registered(Err(RegisterRefused::StoreFailed))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_asker_gets_its_own_answers() {
        for id in [0, 1, u64::from(u32::MAX)] {
            assert_eq!(RequestOrigin::of(of_voice(id)), RequestOrigin::Voice(id));
            assert_eq!(RequestOrigin::of(of_xmpp(id)), RequestOrigin::Xmpp(id));
            assert_eq!(RequestOrigin::of(of_account(id)), RequestOrigin::Account(id));
            assert_eq!(RequestOrigin::of(of_operator(id)), RequestOrigin::Operator(id));
            assert_eq!(RequestOrigin::of(id), RequestOrigin::Core);
            assert_eq!(RequestOrigin::of(sip::events::ASK_BIT | id), RequestOrigin::Core);
        }
    }
}
