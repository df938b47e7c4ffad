//! The farm as a node knows it now, on one board for all its threads.
//!
//! Written by the thread of the farm's agent, read by shards, operators and REST. Every lock is held for a copy
//! or a pointer only. Messages to other nodes go by the first shard, which has the links.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cluster::link::Message;
use cluster::{Bucket, Life, Outlet};
use farm::order::BucketOrder;
use farm::view::FarmView;
use shard_message::wire;
use stdx::Instant;

use super::traffic::{LinkTraffic, Renewal};
use super::{files, plan, requests, traces};
use crate::message::{InboxMessage, LocalMessage};
use crate::shard::StatusBoard;

/// The farm as the node knows it now, for shards and operators.
#[derive(Default)]
pub(crate) struct FarmBoard {
    state: Mutex<BoardState>,
    /// Messages of other nodes about traces, for the operator's thread.
    pub(crate) traces: traces::TraceInbox,
    /// Requests of operators to all nodes of the farm.
    pub(crate) requests: requests::FarmRequests,
    /// Domains and routes, between this node and others.
    pub(crate) plan: plan::PlanExchange,
    /// Files that this node reads of others, and they of it.
    pub(crate) files: files::FileRequests,
}

impl std::fmt::Debug for FarmBoard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FarmBoard").finish_non_exhaustive()
    }
}

/// Written by the listener of the agent, but for `traffic` (the shard with the links) and `outlets` and `shards` (the start of the node).
#[derive(Default)]
pub(super) struct BoardState {
    /// None before the node has joined.
    pub(super) view: Option<Arc<FarmView>>,
    /// The reason that the council is away.
    pub(super) away: Option<Box<str>>,
    /// The shards' inboxes; none before the shards start.
    pub(super) outlets: Vec<Outlet<InboxMessage>>,
    /// Orders for shards that have not started.
    pub(super) orders: Vec<(u16, Vec<BucketOrder>)>,
    /// The node gives everything away, and has nothing any more.
    pub(super) has_given_all: bool,
    /// Another node has asked this one to drain.
    pub(super) is_asked_to_drain: bool,
    /// The last renewal of each live node.
    pub(super) renewals: BTreeMap<Life, Renewal>,
    /// The time at which the council has last answered a renewal of this node.
    pub(super) renewed_at: Option<Instant>,
    /// As of the last half second.
    pub(super) traffic: LinkTraffic,
    /// The figures of the node's shards; none before they start.
    pub(super) shards: Option<Arc<StatusBoard>>,
}

impl BoardState {
    pub(super) fn order(&self, shard: u16, orders: Vec<BucketOrder>) {
        if let Some(outlet) = self.outlets.get(usize::from(shard)) {
            outlet.answer_all(&mut vec![LocalMessage::Buckets(orders).into()]);
        }
    }
}

impl FarmBoard {
    /// Takes a message of another node that is for operators; false: it is for a shard.
    pub(crate) fn take(&self, from: Life, message: &Message) -> bool {
        let trace =
            wire::TraceMessage::read(message).map(|trace| trace.map(|trace| self.traces.push(from, trace)));
        let request = || {
            let request = wire::RequestMessage::read(message);
            request.map(|request| request.map(|request| self.requests.handle(from, request)))
        };
        let file = || {
            let file = wire::FileMessage::read(message);
            file.map(|file| file.map(|file| self.files.handle(from, file)))
        };
        // One kind after the other: each reader gives nothing for a message of another kind, and an error for a
        // broken one of its own.
        let taken = trace.and_then(|taken| Ok(taken.or(request()?)));
        match taken.and_then(|taken| Ok(taken.or(file()?))) {
            Ok(taken) => taken.is_some(),
            Err(error) => {
                tracing::warn!(%error, "a message of another node for operators is passed over");
                true
            }
        }
    }

    /// Gives the shard with the links a message for another node. Dropped before the shards start.
    pub(crate) fn send(&self, message: LocalMessage) {
        // The lock is not held while the inbox is locked.
        let outlet = self.lock().outlets.first().cloned();
        if let Some(outlet) = outlet {
            outlet.answer_all(&mut vec![message.into()]);
        }
    }

    /// The newest view.
    pub(crate) fn view(&self) -> Option<Arc<FarmView>> {
        self.lock().view.clone()
    }

    /// True for one node of those that share a database, the owner of the first bucket; and for a node with a database of its own.
    pub(crate) fn keeps_house(&self, shares_database: bool) -> bool {
        let owns_first = |view: Arc<FarmView>| {
            let owner = Bucket::with_number(0).and_then(|first| view.owner(first));
            owner.is_some_and(|owner| owner.life == view.own)
        };
        // The first bucket has exactly one owner that all nodes agree on, so no election is needed.
        !shares_database || self.view().is_some_and(owns_first)
    }

    /// The reason that the council is away.
    pub(crate) fn away(&self) -> Option<Box<str>> {
        self.lock().away.clone()
    }

    /// The figures of the links.
    pub(crate) fn traffic(&self) -> LinkTraffic {
        self.lock().traffic.clone()
    }

    /// Puts up the figures of the links.
    pub(crate) fn set_traffic(&self, traffic: LinkTraffic) {
        self.lock().traffic = traffic;
    }

    /// The last renewal of each live node.
    pub(crate) fn renewals(&self) -> BTreeMap<Life, Renewal> {
        self.lock().renewals.clone()
    }

    /// The time at which the council has last answered a renewal of this node.
    pub(crate) fn renewed_at(&self) -> Option<Instant> {
        self.lock().renewed_at
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, BoardState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
