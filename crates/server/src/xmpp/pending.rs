//! Requests to the store and to the account cache that wait for an answer. Each part of a shard's XMPP that asks has a
//! table of its own; the number of a request tells whose it is.

use std::collections::HashMap;

/// A part of a shard's XMPP that asks the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asker {
    /// The host of the accounts and rooms.
    Host,
    /// The streams of clients that sign in or change their accounts.
    Clients,
}

impl Asker {
    /// The part that has made the request of this number.
    pub(super) fn of(id: u64) -> Asker {
        // Numbers grow by two from 0 or 1 (`PendingRequests::new`).
        if id & 1 == 0 { Asker::Host } else { Asker::Clients }
    }
}

/// The requests of one part, by number.
#[derive(Debug)]
pub(super) struct PendingRequests<T> {
    last: u64,
    requests: HashMap<u64, T>,
}

impl<T> PendingRequests<T> {
    pub(super) fn new(asker: Asker) -> PendingRequests<T> {
        PendingRequests { last: u64::from(asker == Asker::Clients), requests: HashMap::new() }
    }

    /// Returns the number under which the answer comes.
    pub(super) fn insert(&mut self, request: T) -> u64 {
        // Even numbers are the host's, odd ones the clients': an answer finds its table without a look at both.
        self.last += 2;
        self.requests.insert(self.last, request);
        self.last
    }

    /// The number of the last request.
    pub(super) fn last(&self) -> u64 {
        self.last
    }

    /// The number of the earliest request without an answer.
    pub(super) fn earliest(&self) -> Option<u64> {
        self.requests.keys().copied().min()
    }

    pub(super) fn remove(&mut self, id: u64) -> Option<T> {
        self.requests.remove(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_identifies_the_request_and_its_asker() {
        for asker in [Asker::Host, Asker::Clients] {
            let mut requests = PendingRequests::new(asker);
            let ids = ["a", "b", "c"].map(|request| requests.insert(request));
            assert!(ids.iter().all(|id| *id > 0 && Asker::of(*id) == asker), "{ids:?}");
            assert_eq!(requests.remove(ids[1]), Some("b"));
            assert_eq!(requests.remove(ids[1]), None, "one answer to a request");
        }
    }
}
