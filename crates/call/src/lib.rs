//! Call control: the routing plan, the health of its targets, and the ledger of calls.

mod dice;
pub mod health;
pub mod ledger;
pub mod limits;
mod pattern;
pub mod plan;
pub mod target;

pub use health::{Health, HealthEffect, HealthSettings};
pub use ledger::{CallEvent, CallEventKind, CallRecord, EndedBy, Ledger, LedgerCounts, LedgerSettings};
pub use plan::{Caller, Decision, Plan, PlanError, PlanRequest, PlanSettings, Route, TargetGroup};
pub use target::{DownTargets, Member, RouteTarget, Target, TargetTransport};
