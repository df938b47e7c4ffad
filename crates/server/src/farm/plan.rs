//! Domains and routes of a farm (`docs/decisions/0072-plan-of-edges-without-a-database.md`): a node that shares the database gives them to
//! edges without one, in pages, and tells these edges of each new version. An edge puts the pages together here; the operator's
//! thread asks for them (`node::edge_plan`).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cluster::Life;
use control::{Failure, FailureKind, PlanPage, PlanQuery, Request, Response};
use store::{Database, Loaded, Read, Route, Store, StoreError};
use tokio::sync::Notify;

use super::FarmBoard;
use crate::limits;
use crate::message::LocalMessage;
use shard_message::wire::{REQUESTS_SINCE, RequestBody, RequestMessage};

/// The number of a request that wants no answer. Requests with answers count from 1.
const UNANSWERED: u64 = 0;

/// Domains and routes as a database has them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StoredPlan {
    pub(crate) domains: Vec<Box<str>>,
    pub(crate) routes: Vec<Route>,
    /// A hash of the rows.
    version: u64,
}

impl StoredPlan {
    fn new(domains: Vec<Box<str>>, routes: Vec<Route>) -> StoredPlan {
        // Nodes that read the same rows give them the same version. They are never 0, which is none.
        let rows = serde_json::to_vec(&(&domains, &routes)).unwrap_or_default();
        let version = stdx::hash::Keyed::new(*b"versions of plan").hash(&rows).max(1);
        StoredPlan { domains, routes, version }
    }

    /// Reads them on the calling thread.
    pub(crate) fn read(database: &Database) -> Result<StoredPlan, StoreError> {
        let mut reader = database.reader()?;
        let domains = match reader.load(&Read::Domains)? {
            Loaded::Domains(stored) => stored.into_iter().map(|domain| domain.name).collect(),
            _ => Vec::new(),
        };
        let routes = match reader.load(&Read::Routes)? {
            Loaded::Routes(routes) => routes,
            _ => Vec::new(),
        };
        Ok(StoredPlan::new(domains, routes))
    }

    /// The version: equal for equal rows.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The page that a question asks for, or the first one if the plan has changed since the page before. It has as many rows as fit
    /// into [`limits::FARM_PLAN_PAGE`] bytes, and one at least.
    fn page(&self, query: PlanQuery) -> PlanPage {
        let version = self.version;
        // The edge has this version already: an empty page says so.
        if query == (PlanQuery { version, first: 0 }) {
            return PlanPage { version, ..PlanPage::default() };
        }
        // Pages of two versions must not be mixed: after a change the copy begins anew.
        let first = if query.version == version { query.first } else { 0 };
        let mut page = PlanPage { version, first, ..PlanPage::default() };
        let (mut bytes, mut at) = (0, usize::try_from(first).unwrap_or(usize::MAX));
        while let Some(row) = self.row(at) {
            bytes += row.bytes();
            // At least one row a page, else a long one would never be sent.
            if bytes > limits::FARM_PLAN_PAGE && at as u64 > first {
                page.next = Some(at as u64);
                break;
            }
            match row {
                PlanRow::Domain(domain) => page.domains.push(domain.into()),
                PlanRow::Route(route) => page.routes.push(route.clone()),
            }
            at += 1;
        }
        page
    }

    fn row(&self, at: usize) -> Option<PlanRow<'_>> {
        let route = || Some(PlanRow::Route(self.routes.get(at.checked_sub(self.domains.len())?)?));
        self.domains.get(at).map(|domain| PlanRow::Domain(domain)).or_else(route)
    }
}

/// A row of a plan: domains are numbered first, then routes, from 0.
enum PlanRow<'a> {
    Domain(&'a str),
    Route(&'a Route),
}

impl PlanRow<'_> {
    /// Bytes of the row as JSON, with a comma.
    fn bytes(&self) -> usize {
        let json = match self {
            PlanRow::Domain(domain) => serde_json::to_vec(domain),
            PlanRow::Route(route) => serde_json::to_vec(route),
        };
        json.map_or(0, |json| json.len() + 1)
    }
}

/// The pages of a plan, as far as they have come.
#[derive(Debug, Default)]
pub(crate) struct PlanCopy {
    version: u64,
    domains: Vec<Box<str>>,
    routes: Vec<Route>,
    /// Pages that have come, also those before the plan changed and was begun anew.
    pages: usize,
}

/// The state of a copy after a page.
#[derive(Debug, PartialEq)]
pub(crate) enum CopyStep {
    /// The next page is to be asked for.
    Ask(PlanQuery),
    /// The copy is the plan that the edge has.
    Unchanged,
    /// The copy is whole.
    Whole(StoredPlan),
    /// The page does not follow the one before, or there are too many.
    Fault(&'static str),
}

impl PlanCopy {
    /// Handles the next page. `known` is the version that the edge has.
    pub(crate) fn handle_page(&mut self, known: u64, page: PlanPage) -> CopyStep {
        let PlanPage { version, first, domains, routes, next } = page;
        if first == 0 && version == known && domains.is_empty() && routes.is_empty() {
            return CopyStep::Unchanged;
        }
        self.pages += 1;
        if self.pages > limits::FARM_PLAN_PAGES {
            return CopyStep::Fault("it has too many pages");
        }
        // Also in the middle of a copy, when the plan has changed; `pages` goes on, so that endless changes
        // come to an end.
        if first == 0 {
            *self = PlanCopy { version, pages: self.pages, ..PlanCopy::default() };
        }
        let rows = self.domains.len() + self.routes.len();
        if version != self.version || first != rows as u64 {
            return CopyStep::Fault("its pages do not follow each other");
        }
        self.domains.extend(domains);
        self.routes.extend(routes);
        match next {
            Some(first) => CopyStep::Ask(PlanQuery { version, first }),
            None => {
                let (domains, routes) = (std::mem::take(&mut self.domains), std::mem::take(&mut self.routes));
                CopyStep::Whole(StoredPlan { domains, routes, version })
            }
        }
    }
}

/// The plan between this node and others.
#[derive(Debug, Default)]
pub(crate) struct PlanExchange {
    state: Mutex<ExchangeState>,
    /// At an edge: another node has told of a change.
    changed: Notify,
}

#[derive(Debug, Default)]
struct ExchangeState {
    /// The plan that this node gives to edges; none: it does not know whether it has the newest.
    given: Option<Arc<StoredPlan>>,
    /// The changes of other programs are not heard at present.
    is_missing_changes: bool,
    /// The last node that has told of a version, and the version.
    told: Option<(Life, u64)>,
}

impl PlanExchange {
    /// Answers the question of an edge.
    pub(crate) fn answer(&self, query: PlanQuery) -> Response {
        match &self.lock().given {
            Some(plan) => Response::Plan(plan.page(query)),
            None => {
                let reason = "it does not know the newest routes of the database";
                Response::Failed(Failure::new(FailureKind::Store, reason))
            }
        }
    }

    /// Gives this plan to edges from now on. True: it is another one than before, and they are to be told.
    pub(crate) fn give(&self, plan: &Arc<StoredPlan>) -> bool {
        let mut state = self.lock();
        // The rows that this node has read may be old by now; edges ask a node that hears of changes.
        if state.is_missing_changes {
            return false;
        }
        let before = state.given.replace(Arc::clone(plan));
        before.is_none_or(|before| before.version != plan.version)
    }

    /// Changes of the database by other programs are heard again, or not any more: then edges ask other nodes. The plan is
    /// read anew before it is given again.
    pub(crate) fn set_missing_changes(&self, is_missing_changes: bool) {
        let mut state = self.lock();
        (state.is_missing_changes, state.given) = (is_missing_changes, None);
    }

    /// Handles the news of another node that it has this version.
    pub(crate) fn handle_changed(&self, from: Life, version: u64) {
        self.lock().told = Some((from, version));
        self.changed.notify_one();
    }

    /// The node that has told of another version than this one since the last time.
    pub(crate) fn take_told(&self, known: u64) -> Option<Life> {
        self.lock().told.take().filter(|(_, version)| *version != known).map(|(life, _)| life)
    }

    /// Waits until another node tells of a change.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, ExchangeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FarmBoard {
    /// Gives edges this plan of the database that the nodes share, and tells them if it is another one than before. An edge
    /// that has a database, too, passes the news over; one that misses it asks within [`limits::FARM_PLAN_RENEWAL`].
    pub(crate) fn give_plan(&self, plan: &Arc<StoredPlan>) {
        if !self.plan.give(plan) {
            return;
        }
        let Some(view) = self.view().filter(|view| view.map.level() >= REQUESTS_SINCE) else { return };
        let request = Request::PlanChanged { version: plan.version };
        let Ok(request) = serde_json::to_vec(&request) else { return };
        let body = RequestBody::Request(request.into());
        let message = RequestMessage { number: UNANSWERED, body }.message();
        for (life, peer) in &view.peers {
            if peer.roles.is_edge && !peer.roles.is_router {
                self.send(LocalMessage::ToNode { life: *life, message: message.clone() });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(number: usize, deny: usize) -> Route {
        Route {
            id: 0,
            name: format!("r{number}").into(),
            pattern: store::Pattern::Number("1234".into()),
            targets: Vec::new(),
            open: false,
            probe: false,
            strip: 0,
            prefix: "".into(),
            policy: store::RoutePolicy { deny: vec!["0".repeat(deny).into()], ..Default::default() },
            created_at: stdx::Instant::default(),
        }
    }

    /// Routes of 50 KiB: five fit into a page.
    fn plan(routes: usize) -> StoredPlan {
        let routes = (0..routes).map(|number| route(number, 50 * 1_024)).collect();
        StoredPlan::new(vec!["a.test".into(), "b.test".into()], routes)
    }

    fn page(exchange: &PlanExchange, version: u64, first: u64) -> Option<PlanPage> {
        match exchange.answer(PlanQuery { version, first }) {
            Response::Plan(page) => Some(page),
            _ => None,
        }
    }

    /// The outcome of all pages from the first.
    fn copy(known: u64, plan: &StoredPlan) -> (usize, CopyStep) {
        let (mut copy, mut query) = (PlanCopy::default(), PlanQuery { version: known, first: 0 });
        for pages in 1.. {
            match copy.handle_page(known, plan.page(query)) {
                CopyStep::Ask(next) => query = next,
                step => return (pages, step),
            }
        }
        unreachable!("a plan has an end");
    }

    #[test]
    fn a_plan_comes_whole_in_pages_of_bounded_size() {
        let plan = plan(23);
        assert_eq!(copy(0, &plan), (5, CopyStep::Whole(plan.clone())));
        let first = plan.page(PlanQuery { version: 0, first: 0 });
        let json = serde_json::to_vec(&Response::Plan(first)).unwrap();
        assert!(json.len() < limits::FARM_PLAN_PAGE + 1_024, "{}", json.len());
        assert_eq!(copy(plan.version(), &plan), (1, CopyStep::Unchanged));
        // A route that is longer than a page is a page.
        let long = StoredPlan::new(Vec::new(), vec![route(0, limits::FARM_PLAN_PAGE), route(1, 1)]);
        assert_eq!(copy(0, &long), (2, CopyStep::Whole(long.clone())));
    }

    #[test]
    fn a_plan_without_rows_is_a_plan_too() {
        let (empty, full) = (plan(0), plan(1));
        assert_eq!(copy(full.version(), &empty), (1, CopyStep::Whole(empty.clone())));
        assert_eq!(copy(empty.version(), &empty), (1, CopyStep::Unchanged));
        let nothing = StoredPlan::new(Vec::new(), Vec::new());
        assert_eq!(copy(full.version(), &nothing), (1, CopyStep::Whole(nothing.clone())));
    }

    #[test]
    fn a_plan_that_changes_between_two_pages_is_read_from_its_beginning() {
        let (old, new) = (plan(7), plan(8));
        assert_ne!(old.version(), new.version());
        let mut copy = PlanCopy::default();
        let CopyStep::Ask(next) = copy.handle_page(0, old.page(PlanQuery { version: 0, first: 0 })) else {
            panic!("seven routes are two pages");
        };
        let again = new.page(next);
        assert_eq!((again.first, again.version), (0, new.version()));
        let CopyStep::Ask(next) = copy.handle_page(0, again) else { panic!("it begins anew") };
        assert_eq!(copy.handle_page(0, new.page(next)), CopyStep::Whole(new));
    }

    #[test]
    fn pages_that_do_not_follow_each_other_and_too_many_are_faults() {
        let plan = plan(23);
        let at = |first| plan.page(PlanQuery { version: plan.version(), first });
        let mut copy = PlanCopy::default();
        assert!(matches!(copy.handle_page(0, at(7)), CopyStep::Fault(_)), "the first is missing");
        let mut copy = PlanCopy::default();
        let begin = plan.page(PlanQuery { version: 0, first: 0 });
        for _ in 0..limits::FARM_PLAN_PAGES {
            assert!(matches!(copy.handle_page(0, begin.clone()), CopyStep::Ask(_)));
        }
        assert!(matches!(copy.handle_page(0, begin), CopyStep::Fault(_)), "it changes forever");
        assert_eq!(at(u64::MAX).routes.len(), 0, "a number that no row has");
    }

    #[test]
    fn a_node_that_does_not_hear_changes_gives_nothing_until_it_has_read_again() {
        let exchange = PlanExchange::default();
        assert!(page(&exchange, 0, 0).is_none(), "it has not read anything");
        let plan = Arc::new(plan(1));
        assert!(exchange.give(&plan));
        assert!(!exchange.give(&plan), "edges are told of changes only");
        assert!(page(&exchange, 0, 0).is_some());
        exchange.set_missing_changes(true);
        assert!(!exchange.give(&plan) && page(&exchange, 0, 0).is_none());
        exchange.set_missing_changes(false);
        assert!(page(&exchange, 0, 0).is_none(), "rows may have changed meanwhile");
        assert!(exchange.give(&plan) && page(&exchange, 0, 0).is_some());
    }

    #[tokio::test]
    async fn the_news_of_a_version_is_for_an_edge_with_another() {
        let exchange = PlanExchange::default();
        exchange.handle_changed(Life(7), 1);
        exchange.changed().await;
        assert_eq!(exchange.take_told(1), None);
        exchange.handle_changed(Life(7), 2);
        assert_eq!((exchange.take_told(1), exchange.take_told(1)), (Some(Life(7)), None));
    }
}
