//! Call control: the routing plan, the health of its targets, and the ledger of calls.

#![warn(missing_docs)]

mod allowance;
pub mod health;
pub mod ledger;
pub mod limits;
mod pattern;
pub mod plan;
pub mod target;

pub use allowance::Denied;
pub use health::{Health, HealthEffect, HealthSettings};
pub use ledger::{
    CallEvent, CallEventKind, CallRecord, EndedBy, Ledger, LedgerCounts, LedgerSettings, OpenCall,
};
pub use plan::{
    Caller, DENIED, Decision, Plan, PlanError, PlanRequest, PlanSettings, Route, SourceProof, TargetGroup,
};
pub use target::{DownTargets, Member, RouteTarget, Target, TargetTransport};
