//! The dialing plan of a farm on its way from a node that shares the database to an edge without one
//! (`docs/decisions/0072-plan-of-edges-without-a-database.md`). Only nodes ask for it, by requests between nodes.

use serde::{Deserialize, Serialize};
use store::Route;

/// A question for a page of the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanQuery {
    /// The version that the edge has, or of which it has the rows before `first`; 0: none.
    pub version: u64,
    /// The first row of the page: domains come before routes.
    pub first: u64,
}

/// A page of the plan. A page without rows that begins at 0 and has the version of the question: the edge has the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanPage {
    /// The version of the plan that the page is of.
    pub version: u64,
    /// The number of its first row; 0 if the plan has changed since the page before.
    pub first: u64,
    /// Names of domains that are added beside those of the configuration.
    pub domains: Vec<Box<str>>,
    /// Routes in the order of the database.
    pub routes: Vec<Route>,
    /// The first row of the next page; none: this was the last.
    pub next: Option<u64>,
}
