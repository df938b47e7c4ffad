//! The requests to the store that are not answered: each has a ticket, and a continuation that gets its answer.
//!
//! Reads keep the bounds of [`read_queues`](super::read_queues) and
//! the order of [`write_order`](super::write_order). An account stays in memory while an answer that concerns it is awaited.
//!
//! A feature calls `load`, `change` or `access` with the continuation; the host gives it the answer
//! (`Host::handle_store_reply`): `take`, the continuation, then `end`, which begins reads that waited for this request.

use std::collections::HashMap;

use stdx::Instant;
use xmpp::Bare;

use super::effect::{Access, Change, Effect, Load, StoreFailure, StoreReply, Ticket};
use super::message_writes::MessageWrites;
use super::read_queues::{ReadQueues, Requester};
use super::write_order::{WriteOrder, WriteTarget};
use super::{Host, Outbox};

/// The continuation that gets a reply of the store.
pub(super) type Continuation =
    Box<dyn FnOnce(&mut Host, Instant, Result<StoreReply, StoreFailure>, &mut Outbox)>;

/// An answer of the store that is awaited.
pub(super) struct PendingReply {
    /// The account whose data it keeps in memory.
    about: Option<Bare>,
    /// The address that its read is of.
    requester: Option<Requester>,
    /// It counts as one of the reads of that address.
    is_large: bool,
    /// The place that it writes; reads of the same place wait for it (`write_order`).
    writes: Option<WriteTarget>,
    then: Continuation,
}

/// The part of a [`PendingReply`] that ends once its continuation has run.
pub(super) struct EndingRequest {
    ticket: Ticket,
    large_read_of: Option<Requester>,
    writes: Option<WriteTarget>,
}

/// The requests of a host to its store.
#[derive(Default)]
pub(super) struct StoreRequests {
    pub(super) pending: HashMap<Ticket, PendingReply>,
    /// The limit on the reads of one address.
    pub(super) reads: ReadQueues,
    /// The order of reads behind writes.
    pub(super) writes: WriteOrder,
    /// The limit on writes of messages.
    pub(super) message_writes: MessageWrites,
    /// The number of awaited answers by the account that they concern.
    awaited: HashMap<Bare, u32>,
    last_ticket: u64,
}

impl StoreRequests {
    /// Reads from the store; `then` goes on with the answer.
    pub(super) fn load(
        &mut self,
        load: Load,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<StoreReply, StoreFailure>, &mut Outbox) + 'static,
    ) {
        let is_large = load.is_large();
        let ticket = self.expect(load.account(), is_large, None, Box::new(then));
        if let Some(read) = self.reads.begin(ticket, load) {
            self.writes.begin_read(read, out);
        }
    }

    /// Changes the store; `then` goes on once it is on disk.
    pub(super) fn change(
        &mut self,
        change: Change,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<(), StoreFailure>, &mut Outbox) + 'static,
    ) {
        let then = move |host: &mut Host, now, result: Result<StoreReply, _>, out: &mut Outbox| {
            then(host, now, result.map(drop), out);
        };
        let place = WriteTarget::of_change(&change);
        let ticket = self.expect(change.account(), false, place.clone(), Box::new(then));
        if let Some(place) = place {
            self.writes.begin_write(ticket, place);
        }
        self.message_writes.begin(ticket, &change);
        out.push(Effect::Change { ticket, change });
    }

    /// Changes credentials, accounts or invitations; `then` goes on with the answer.
    pub(super) fn access(
        &mut self,
        access: Access,
        out: &mut Outbox,
        then: impl FnOnce(&mut Host, Instant, Result<StoreReply, StoreFailure>, &mut Outbox) + 'static,
    ) {
        let ticket = self.expect(access.account(), false, None, Box::new(then));
        out.push(Effect::Access { ticket, access });
    }

    /// The ticket of a request whose answer `then` gets.
    pub(super) fn expect(
        &mut self,
        about: Option<&Bare>,
        is_large: bool,
        writes: Option<WriteTarget>,
        then: Continuation,
    ) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        if let Some(user) = about {
            *self.awaited.entry(user.clone()).or_default() += 1;
        }
        let requester = self.reads.requester();
        self.pending
            .insert(ticket, PendingReply { about: about.cloned(), requester, is_large, writes, then });
        ticket
    }

    /// An answer came: its requester and continuation, and the request, which [`Self::end`] ends after the continuation.
    pub(super) fn take(
        &mut self,
        ticket: Ticket,
    ) -> Option<(Option<Requester>, Continuation, EndingRequest)> {
        let PendingReply { about, requester, is_large, writes, then } = self.pending.remove(&ticket)?;
        if let Some(user) = about
            && let Some(count) = self.awaited.get_mut(&user)
        {
            *count -= 1;
            if *count == 0 {
                self.awaited.remove(&user);
            }
        }
        let ending = EndingRequest { ticket, large_read_of: requester.filter(|_| is_large), writes };
        Some((requester, then, ending))
    }

    /// The continuation of an answer has run: reads that waited for the request begin.
    pub(super) fn end(&mut self, ending: EndingRequest, out: &mut Outbox) {
        let EndingRequest { ticket, large_read_of, writes } = ending;
        self.message_writes.end(ticket);
        if let Some(place) = writes {
            self.writes.end_write(ticket, &place, out);
        }
        if let Some(read) = large_read_of.and_then(|requester| self.reads.end(requester)) {
            self.writes.begin_read(read, out);
        }
    }

    /// True while an answer about this account is awaited: its data stay in memory.
    pub(super) fn awaits(&self, user: &Bare) -> bool {
        self.awaited.contains_key(user)
    }
}
