//! Domains and routes of the node (`docs/decisions/0072-plan-of-edges-without-a-database.md`). Most nodes read them in the database. An edge
//! without one asks a node that shares it: at its start, when such a node tells of a change, and from time to time, as the news may be lost
//! with a link. While no such node answers, it goes on with what it has; before it has anything, its requests get 503.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use cluster::Life;
use control::{Failure, FailureKind, Listing, PlanQuery, Request, Response};
use store::{Domain, Loaded, Notice, Read, StoreError, Write};
use tokio::time::{sleep, timeout};

use super::Node;
use super::due_reads::{self, READ_AGAIN};
use super::operator::Operator;
use crate::farm::plan::{CopyStep, PlanCopy, StoredPlan};
use crate::farm::{FarmBoard, FarmMembership};
use crate::limits;
use crate::message::{Command, LocalMessage};
use shard_message::wire::REQUESTS_SINCE;

impl Node {
    /// Makes the plan anew, of the domains and routes that the database has now, or that an edge has of the farm.
    ///
    /// # Errors
    /// An error if the database cannot be read; the old plan stays then.
    pub fn replan(&mut self) -> Result<()> {
        let stored = match &self.shared.stored {
            stored if self.follows_plan() => stored.clone(),
            _ => Some(Arc::new(StoredPlan::read(&self.database)?)),
        };
        self.set_plan(stored)
    }

    /// Gives the shards the plan that is made of these domains and routes, and the edges that follow this node.
    ///
    /// # Errors
    /// No plan can be made of them; the old one stays then.
    fn set_plan(&mut self, stored: Option<Arc<StoredPlan>>) -> Result<()> {
        // First, and only this may fail: the shards never get a plan that the node does not have.
        self.shared.set_plan(stored)?;
        for outlet in &self.outlets {
            outlet.answer_all(&mut vec![LocalMessage::Plan(Arc::clone(&self.shared.plan)).into()]);
        }
        self.give_settings();
        self.tell(|| Command::ForgetAccount(None));
        self.give_plan();
        Ok(())
    }

    /// Gives the shards the settings that change while the node runs.
    pub(super) fn give_settings(&self) {
        for (number, outlet) in self.outlets.iter().enumerate() {
            let reload = super::build::reload_of(&self.shared, number);
            outlet.answer_all(&mut vec![LocalMessage::Command(Command::Settings(Box::new(reload))).into()]);
        }
    }

    /// Gives edges the plan, if the node shares its database with others.
    pub(super) fn give_plan(&self) {
        let farm = self.shared.farm.as_ref().filter(|farm| farm.shares_database);
        if let (Some(farm), Some(stored)) = (farm, &self.shared.stored) {
            farm.board().give_plan(stored);
        }
    }

    fn follows_plan(&self) -> bool {
        self.shared.farm.as_ref().is_some_and(|farm| farm.follows_plan)
    }
}

impl Operator {
    /// Reads domains and routes beside this thread, again until it succeeds: the database may be away again.
    pub(super) async fn read_plan(&self) {
        // Only the first failure is logged: the database may be away for long.
        let mut has_failed = false;
        loop {
            let database = self.node.borrow().database.clone();
            let read = tokio::task::spawn_blocking(move || StoredPlan::read(&database)).await;
            let set = match read {
                Ok(Ok(stored)) => self.node.borrow_mut().set_plan(Some(Arc::new(stored))),
                Ok(Err(error)) => Err(error.into()),
                Err(_) => return,
            };
            match set {
                Ok(()) => return,
                Err(error) if !has_failed => {
                    tracing::error!("routes and domains could not be read: {error:#}");
                }
                Err(_) => {}
            }
            has_failed = true;
            sleep(READ_AGAIN).await;
        }
    }

    /// True if the domains and routes are those of nodes that share a database.
    pub(super) fn follows_plan(&self) -> bool {
        self.node.borrow().follows_plan()
    }

    /// Reads domains and routes of the farm for an operator.
    ///
    /// # Errors
    /// No node that shares the database answers.
    pub(super) async fn read_of_farm(&self, read: &Read) -> Option<Result<Loaded, StoreError>> {
        if !self.follows_plan() {
            return None;
        }
        match read {
            Read::Routes => {
                let stored = self.node.borrow().shared.stored.clone();
                Some(stored.map(|stored| Loaded::Routes(stored.routes.clone())).ok_or_else(no_router))
            }
            Read::Domains => Some(self.ask_domains().await.map(Loaded::Domains).ok_or_else(no_router)),
            _ => None,
        }
    }

    async fn ask_domains(&self) -> Option<Vec<Domain>> {
        let (requester, node) = {
            let node = self.node.borrow();
            let farm = node.shared.farm.as_ref()?;
            (farm.requester(), routers(farm.board()).first().copied()?)
        };
        match requester.ask_node(node, &Request::Ask(control::Ask::Domains)).await {
            Ok(Response::Listing(Listing::Domains(domains))) => Some(domains),
            _ => None,
        }
    }

    /// Refuses changes of data that an edge without a database does not use.
    ///
    /// # Errors
    /// Says where the change is to be made.
    pub(super) fn check_write(&self, write: &Write) -> Result<(), StoreError> {
        let node = self.node.borrow();
        let Some(farm) = node.shared.farm.as_ref().filter(|farm| farm.asks_owners) else { return Ok(()) };
        let what = match Notice::of(write) {
            Some(Notice::Plan) if farm.follows_plan => "routes and domains",
            Some(Notice::Account { .. }) => "accounts",
            _ => return Ok(()),
        };
        Err(StoreError::Invalid {
            what: format!("this node is an edge without a database, and {what} are the farm's"),
            expected: "the command at a node that has the database (role router or both)".to_owned(),
        })
    }

    /// Begins to read what is due, and follows the plan of the farm if this node is an edge without a database.
    pub(super) fn begin_to_follow_plan(self: &Rc<Self>) {
        due_reads::begin(self);
        if let Some(farm) = self.node.borrow().shared.farm.as_ref().filter(|farm| farm.follows_plan) {
            let follower = PlanFollower::new(Rc::clone(self), farm);
            tokio::task::spawn_local(follower.follow());
        }
    }
}

fn no_router() -> StoreError {
    StoreError::Invalid {
        what: "this edge has no database, and no node with the farm's routes and domains answers".to_owned(),
        expected: "one with the role router or both; see belfry farm status".to_owned(),
    }
}

/// The live nodes that own buckets, which share the database.
fn routers(board: &FarmBoard) -> Vec<Life> {
    let view = board.view();
    let peers = view.iter().flat_map(|view| &view.peers);
    peers.filter(|(_, peer)| peer.roles.is_router).map(|(life, _)| *life).collect()
}

/// An edge's questions for the plan: a task of the main thread, until the node ends.
struct PlanFollower {
    operator: Rc<Operator>,
    board: Arc<FarmBoard>,
    requester: crate::farm::requests::FarmRequester,
    /// The node that has answered last. It is preferred: another one may hear of a change later, and would give the plan from before.
    source: Option<Life>,
    /// Counts failures, so that nodes are asked in turn.
    failures: usize,
}

impl PlanFollower {
    fn new(operator: Rc<Operator>, farm: &FarmMembership) -> PlanFollower {
        let (board, requester) = (farm.board_of_shards(), farm.requester());
        PlanFollower { operator, board, requester, source: None, failures: 0 }
    }

    async fn follow(mut self) {
        loop {
            let told = self.board.plan.take_told(self.known());
            let asked = self.ask(told).await;
            let pause = asked.as_ref().map_or(limits::FARM_PLAN_AGAIN, |pause| *pause);
            self.log(asked.err());
            // Late or not: it asks then.
            let _ = timeout(pause, self.board.plan.changed()).await;
        }
    }

    /// The version that the edge has; 0: none.
    fn known(&self) -> u64 {
        self.operator.node.borrow().shared.stored.as_ref().map_or(0, |stored| stored.version())
    }

    /// Asks this node, or the one that has answered last, or another. Returns the time until the next question.
    async fn ask(&mut self, told: Option<Life>) -> Result<Duration, Failure> {
        if self.board.view().is_some_and(|view| view.map.is_before(REQUESTS_SINCE)) {
            // A node of the version before cannot be asked, and edges have their own domains there.
            if self.known() == 0 {
                self.operator.read_plan().await;
            }
            return Ok(limits::FARM_PLAN_AGAIN);
        }
        let routers = routers(&self.board);
        // A node that has told of a change has it; any other might still answer with the version before.
        let preferred = told.or(self.source).filter(|life| routers.contains(life));
        let node = preferred.or_else(|| routers.get(self.failures % routers.len().max(1)).copied());
        let Some(node) = node else {
            return Err(Failure::new(FailureKind::Busy, "there is no node with the database"));
        };
        // The next question then goes to another node.
        let plan = self.copy_from(node).await.inspect_err(|_| self.source = None)?;
        self.source = Some(node);
        if let Some(plan) = plan {
            let (routes, domains) = (plan.routes.len(), plan.domains.len());
            tracing::info!(%node, routes, domains, "the node has the farm's routes and domains");
            let set = self.operator.node.borrow_mut().set_plan(Some(Arc::new(plan)));
            set.map_err(|error| Failure::new(FailureKind::Invalid, format!("{error:#}")))?;
        }
        Ok(limits::FARM_PLAN_RENEWAL)
    }

    /// The plan of this node; none: it is the known one.
    async fn copy_from(&self, node: Life) -> Result<Option<StoredPlan>, Failure> {
        let known = self.known();
        let (mut copy, mut query) = (PlanCopy::default(), PlanQuery { version: known, first: 0 });
        loop {
            let Response::Plan(page) = self.requester.ask_node(node, &Request::Plan(query)).await? else {
                return Err(Failure::new(FailureKind::Protocol, "it answered another request"));
            };
            match copy.handle_page(known, page) {
                CopyStep::Ask(next) => query = next,
                CopyStep::Unchanged => return Ok(None),
                CopyStep::Whole(plan) => return Ok(Some(plan)),
                CopyStep::Fault(fault) => return Err(Failure::new(FailureKind::Protocol, fault)),
            }
        }
    }

    /// Says once that no node answers, and that one does again.
    fn log(&mut self, failure: Option<Failure>) {
        let Some(reason) = failure else {
            if std::mem::take(&mut self.failures) > limits::FARM_PLAN_FAILURES {
                tracing::info!("a node with the farm's database answers for routes again");
            }
            return;
        };
        self.failures += 1;
        if self.failures != limits::FARM_PLAN_FAILURES + 1 {
            return;
        }
        if self.known() == 0 {
            tracing::error!(
                %reason,
                "no node with the farm's database has told its routes and domains: requests get 503 until one does"
            );
        } else {
            tracing::warn!(
                %reason,
                "no node with the farm's database answers for routes and domains: the node goes on with those that it has"
            );
        }
    }
}
