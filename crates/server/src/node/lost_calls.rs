//! Calls of applications whose node has died end in the database with their recordings, and their applications are told: by one living node, the
//! owner of the first bucket of the database that the nodes share. A node with a database of its own does so for its own earlier lives
//! (`docs/decisions/0075-calls-of-applications-on-a-farm.md`).
//!
//! In: the map's dead lives (`FarmBoard::view`), rows of calls that name a life. Out: writes that end them, and
//! callbacks by the shards. Invariant: a row names its life until the request to its application has been given
//! to a shard, so a node that dies before that loses no callback. An application may be told twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ::voice::lost_calls::{self, LostSound};
use ::voice::redial::{self, Redials};
use ::voice::{Owner, RedialPolicy};
use cluster::{Life, Outlet};
use net::clock::Clock;
use stdx::Instant;
use store::rest::types::{RestAccount, RestCall};
use store::rest::{Kind, Resource, RestFilter, RestWrite, Row};
use store::{StoreError, WriteDone};
use tokio::task::spawn_local;
use tokio::time::sleep;
use voice_io::VoiceShardMessage;

use super::Node;
use super::rest_rows::{RestRows, written};
use crate::farm::FarmBoard;
use crate::limits;
use crate::message::{InboxMessage, LocalMessage};

/// The interval at which the map is looked at for dead lives.
const LOOK: Duration = Duration::from_secs(1);
/// The passes over the calls of a dead life, after its death was seen. More than one: writes of the dead node are refused only when its
/// life is fenced in the database, which may be after its death in the map.
const PASSES: [Duration; 3] = [Duration::ZERO, Duration::from_secs(5), Duration::from_secs(30)];

/// A dead life whose calls are being ended.
struct DeadLife {
    /// The first look at a map that has the life as dead.
    seen_at: Instant,
    /// Passes that have succeeded.
    passes: usize,
}

/// The task of one node. Each node has it, and acts while it keeps house.
struct LostCalls {
    rows: RestRows,
    outlets: Vec<Outlet<InboxMessage>>,
    board: Arc<FarmBoard>,
    shares_database: bool,
    clock: Clock,
    config: config::Voice,
    dead: BTreeMap<Life, DeadLife>,
    /// Calls in place of lost ones.
    redials: Redials,
    /// Counts them, so that all shards work.
    turn: usize,
}

/// Begins to end the calls of dead nodes, if the node is in a farm and has calls of applications, and what an earlier start has left.
pub(super) fn begin(node: &Node) {
    super::earlier_start::begin(node);
    let Some(farm) = &node.shared.farm else { return };
    if !node.shared.config.voice.is_on() {
        return;
    }
    let lost = LostCalls {
        rows: RestRows::new(node),
        outlets: node.outlets.clone(),
        board: farm.board_of_shards(),
        shares_database: farm.shares_database,
        clock: node.clock,
        config: node.shared.config.voice.clone(),
        dead: BTreeMap::new(),
        redials: Redials::default(),
        turn: 0,
    };
    spawn_local(lost.run());
}

impl LostCalls {
    async fn run(mut self) {
        loop {
            sleep(LOOK).await;
            let Some(view) = self.board.view() else { continue };
            self.redials.handle_alive(self.clock.now(), view.peers.keys().copied());
            self.place_redials();
            // Another node does it now. If this one is chosen again, it begins anew with every dead life of the
            // map.
            if !self.board.keeps_house(self.shares_database) {
                self.dead.clear();
                continue;
            }
            let now = self.clock.now();
            // A life that the map no longer lists as dead is not looked for again.
            self.dead.retain(|life, _| view.is_dead(*life));
            for life in view.map.dead() {
                self.dead.entry(*life).or_insert(DeadLife { seen_at: now, passes: 0 });
            }
            self.expire(now, view.own).await;
        }
    }

    /// Makes the passes that are due.
    async fn expire(&mut self, now: Instant, own: Life) {
        let is_due =
            |dead: &DeadLife| PASSES.get(dead.passes).is_some_and(|after| now.since(dead.seen_at) >= *after);
        let due: Vec<Life> =
            self.dead.iter().filter(|(_, dead)| is_due(dead)).map(|(life, _)| *life).collect();
        for life in due {
            match self.end_calls(own, life).await {
                Ok(()) => {
                    if let Some(dead) = self.dead.get_mut(&life) {
                        dead.passes += 1;
                    }
                }
                // The next look tries again.
                Err(error) => {
                    tracing::warn!(%error, dead = %life, "calls of a dead node could not be ended in the database");
                    return;
                }
            }
        }
    }

    /// Ends all calls of a dead life. Each ended row is no longer found by that life.
    async fn end_calls(&mut self, own: Life, life: Life) -> Result<(), StoreError> {
        loop {
            let name = Some(life.0.to_string().into());
            let filter = RestFilter { name, limit: limits::LOST_CALLS, ..RestFilter::all(Kind::Call) };
            let rows = self.rows.list(filter).await?;
            if rows.is_empty() {
                return Ok(());
            }
            let ended = rows.len();
            self.end_page(own, life, rows).await?;
            tracing::info!(dead = %life, ended, "calls of applications have ended with their node");
        }
    }

    /// First all are over in the database, each behind its recordings, then their applications are told and calls in their place are written,
    /// then the rows forget the life: if this node dies meanwhile, the next one does what is left.
    async fn end_page(&mut self, own: Life, life: Life, rows: Vec<Row>) -> Result<(), StoreError> {
        let now = self.clock.now();
        let mut calls = Vec::new();
        let mut writes = Vec::new();
        for row in rows {
            let Ok(mut call) = RestCall::from_row(&row) else {
                // It cannot be read: it is not found again.
                writes.push(self.rows.write(RestWrite::Replace(Box::new(Row { name: None, ..row })))?);
                continue;
            };
            for mut recording in self.rows.recordings(&call.common.sid).await? {
                // The node has the file, and adds the duration when it starts again.
                if lost_calls::end_recording(now, &mut recording, LostSound::Unknown) {
                    writes.push(self.rows.replace(&recording)?);
                }
            }
            if call.is_live() {
                lost_calls::end(now, &mut call);
                writes.push(self.rows.replace(&call)?);
            }
            calls.push(call);
        }
        written(writes).await?;
        let mut writes = Vec::new();
        for mut call in calls {
            self.tell(now, &call).await?;
            if self.redials.accepts(now, life) {
                self.redial(now, own, &call).await?;
            }
            lost_calls::forget(&mut call);
            writes.push(self.rows.replace(&call)?);
        }
        written(writes).await
    }

    /// Gives the request that tells an application of the end of its call to a shard, which sends it.
    async fn tell(&self, now: Instant, call: &RestCall) -> Result<(), StoreError> {
        if call.end_callback.is_none() {
            return Ok(());
        }
        let owner = self.owner(&call.common.account).await?;
        let request = owner.and_then(|owner| lost_calls::callback(now, call, &owner));
        if let (Some(request), Some(outlet)) = (request, self.outlets.first()) {
            outlet.answer_all(&mut vec![LocalMessage::Voice(VoiceShardMessage::Tell(request)).into()]);
        }
        Ok(())
    }

    /// Writes the row of the call in place of a lost one. If another node has done so, the call is that node's.
    async fn redial(&mut self, now: Instant, own: Life, lost: &RestCall) -> Result<(), StoreError> {
        let is_asked = self.config.redial != RedialPolicy::Never;
        let Some(call) = redial::row(now, own, lost).filter(|_| is_asked) else { return Ok(()) };
        let Some(owner) = self.owner(&lost.common.account).await? else { return Ok(()) };
        let written = self.rows.write(RestWrite::Ensure(Box::new(call.row()?)))?.await;
        if let WriteDone::Changed { rows: 1 } = written.unwrap_or(Err(StoreError::Closed))? {
            self.redials.push(call, lost, Arc::new(owner));
        }
        Ok(())
    }

    /// Gives the calls that are due to the shards, one after the other.
    fn place_redials(&mut self) {
        for placing in self.redials.take_due() {
            self.turn += 1;
            let outlet = self.turn.checked_rem(self.outlets.len()).and_then(|at| self.outlets.get(at));
            if let Some(outlet) = outlet {
                outlet.answer_all(&mut vec![
                    LocalMessage::Voice(VoiceShardMessage::Redial(placing.into())).into(),
                ]);
            }
        }
    }

    /// The account whose key signs the request.
    async fn owner(&self, account: &str) -> Result<Option<Owner>, StoreError> {
        if let Some(token) = self.config.auth_token.clone().filter(|_| *self.config.account == *account) {
            return Ok(Some(Owner { account: account.into(), signing_key: token }));
        }
        let Some(row) = self.rows.get(Kind::Account, account).await? else { return Ok(None) };
        Ok(RestAccount::from_row(&row).ok().map(|account| ::voice::numbers::owner_of(&account)))
    }
}
