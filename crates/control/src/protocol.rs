//! JSON lines. Both sides say hello first; then each request has one answer, except a trace, whose lines
//! follow until the command hangs up.

use admin::live::{LiveAnswer, LiveRequest};
use serde::{Deserialize, Serialize};
use store::{Address, StoreError};

use super::call_messages::CallMessages;
use super::farm_response::{FarmResponse, NodeStatus};
use super::groups::{RosterGroupPage, RosterGroupQuery};
use super::lists::{OpenCallList, RegistrationPage, RegistrationQuery};
use super::plan::{PlanPage, PlanQuery};
use super::records::{Ask, Change, Listing};
use super::status::Status;
use super::trace::TraceLine;
use super::{BindingRow, BlockList, ConfigReport, FarmMapStatus, FarmStatus, Reloaded};

/// Grows with every change that an older side would not understand.
pub const PROTOCOL: u32 = 1;

/// The first line of either side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`PROTOCOL`] of the program that greets.
    pub protocol: u32,
    /// The program's version.
    pub version: Box<str>,
    /// The process id of the program that greets.
    pub pid: u32,
}

impl Hello {
    /// The greeting of this program.
    pub fn ours() -> Self {
        Hello { protocol: PROTOCOL, version: env!("CARGO_PKG_VERSION").into(), pid: std::process::id() }
    }
}

/// A request of a command.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    /// The greeting, once and first; answered by [`Response::Hello`].
    Hello(Hello),
    /// The node's state; answered by [`Response::Status`].
    Status,
    /// Read the configuration again; answered by [`Response::Reloaded`].
    Reload,
    /// Read the configuration and take nothing over; answered by [`Response::ConfigReport`].
    ConfigReport,
    /// Take nothing new and end when all calls are over; answered by [`Response::Draining`].
    Drain,
    /// From now on until the connection ends; `full` with whole messages.
    Trace {
        /// The account whose SIP messages and stanzas are traced.
        account: Address,
        /// `true`: whole messages; `false`: a summary of each.
        full: bool,
        /// `true`: at all nodes of the farm, if the node is in one; `false`: at the node alone.
        #[serde(default)]
        farm: bool,
    },
    /// The registered contacts of an account (RFC 3261 §10); answered by [`Response::Bindings`].
    Bindings {
        /// The address of the account.
        account: Address,
    },
    /// The calls that have not ended; answered by [`Response::OpenCalls`].
    OpenCalls {
        /// The calls that this account places or is called by; none: all.
        account: Option<Box<str>>,
    },
    /// The messages of a call that are remembered; answered by [`Response::CallMessages`].
    CallMessages {
        /// The Call-ID, as the record of the call has it.
        call_id: Box<str>,
    },
    /// A page of registered addresses; answered by [`Response::Registrations`].
    Registrations(RegistrationQuery),
    /// A page of shared roster groups, or one with its members; answered by [`Response::RosterGroups`].
    RosterGroups(RosterGroupQuery),
    /// Removes a registration, as if it had expired. Answered by `Done` once that is in the database.
    EndRegistration {
        /// The address of the account.
        account: Address,
        /// The URI of the contact, as the lists have it.
        contact: Box<str>,
    },
    /// Addresses and accounts whose sign-ins are paced.
    Blocks,
    /// The farm as the node sees it.
    Farm,
    /// The holders of all call slots and buckets.
    FarmMap,
    /// Ask another node of the farm to drain. Answered by `Draining` once the council has been told to.
    DrainFarmNode {
        /// The other node's name.
        name: Box<str>,
    },
    /// Forget the failures of an address or for an account. Answered by `Done`.
    LiftBlock {
        /// The address or account, as [`Response::Blocks`] lists it.
        subject: Box<str>,
    },
    /// A read of the database; answered by [`Response::Listing`].
    Ask(Ask),
    /// A write to the database; answered by [`Response::Done`].
    Change(Change),
    /// Sessions, rooms and accounts of chat.
    Chat(admin::chat::Ask),
    /// Ends a call of an application at this node. Answered by `Done`.
    EndCall {
        /// The call's SID, as the REST interface has it.
        call: Box<str>,
    },
    /// A request to the node that has a call, conference, queue or recording. Answered by [`Response::Live`]; a node that does not have
    /// it fails with [`FailureKind::NotFound`].
    Live(Box<LiveRequest>),
    /// The request at all nodes of the farm; answered by [`Response::OfNodes`], or as the request itself if the node is alone or
    /// answers for all.
    AllNodes(Box<Request>),
    /// A page of the farm's domains and routes; only nodes ask for it. Answered by [`Response::Plan`].
    Plan(PlanQuery),
    /// The node that asks has another plan now; only nodes say so. Answered by `Done`.
    PlanChanged {
        /// The version of the new plan.
        version: u64,
    },
    /// Accounts were written to the record past the node.
    AccountsChanged,
    /// And of these, the passwords; after `AccountsChanged`.
    PasswordsChanged(Vec<Address>),
}

/// The node's answer to a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Response {
    /// The node's greeting.
    Hello(Hello),
    /// The answer to [`Request::Status`].
    Status(Box<Status>),
    /// The answer to [`Request::Reload`].
    Reloaded(Reloaded),
    /// The answer to [`Request::ConfigReport`].
    ConfigReport(Box<ConfigReport>),
    /// The answer to [`Request::Drain`]: the node drains from now on.
    Draining,
    /// The trace is on; `Line`s follow.
    Tracing,
    /// One line of the trace.
    Line(TraceLine),
    /// Another node of the farm has ceased to take part in the trace, or takes part again; only in a trace of all nodes.
    TraceNode {
        /// The node's name.
        name: Box<str>,
        /// False: it does not answer, and its messages are not shown.
        takes_part: bool,
    },
    /// So many lines were left out because they were not read in time.
    Missed(u64),
    /// The answer to [`Request::Bindings`].
    Bindings(Vec<BindingRow>),
    /// The answer to [`Request::OpenCalls`].
    OpenCalls(OpenCallList),
    /// The answer to [`Request::CallMessages`].
    CallMessages(CallMessages),
    /// The answer to [`Request::Registrations`].
    Registrations(RegistrationPage),
    /// The answer to [`Request::RosterGroups`].
    RosterGroups(RosterGroupPage),
    /// The answer to [`Request::Blocks`].
    Blocks(BlockList),
    /// None: the node is alone.
    Farm(Option<FarmStatus>),
    /// None: the node is alone.
    FarmMap(Option<FarmMapStatus>),
    /// The answer to [`Request::Ask`].
    Listing(Listing),
    /// The answer to [`Request::Chat`].
    Chat(admin::chat::Answer),
    /// The answer to [`Request::Plan`].
    Plan(PlanPage),
    /// The answer to [`Request::Live`].
    Live(Box<LiveAnswer>),
    /// The answers of the nodes of a farm to [`Request::AllNodes`] in one.
    OfNodes(Box<FarmResponse>),
    /// The state of each node: the part of [`Response::OfNodes`] that answers [`Request::Status`].
    Statuses(Vec<NodeStatus>),
    /// Written. Rows that were added or changed.
    Done {
        /// The number of rows.
        rows: u64,
    },
    /// The request failed.
    Failed(Failure),
}

/// The reason why a request failed, in words for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// One sentence for the operator.
    pub message: String,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// The request names an account, session, room or row that does not exist.
    NotFound,
    /// The row that the request adds exists already.
    Exists,
    /// The request breaks a rule.
    Invalid,
    /// The node did not answer in time, or has too much to do.
    Busy,
    /// The record could not be read or written.
    Store,
    /// The other side speaks another version, or nonsense.
    Protocol,
}

impl Failure {
    /// Builds a failure.
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Failure { kind, message: message.into() }
    }

    /// The failure of a request about chat; `missing`: the words for what the request names and is not there.
    pub(crate) fn of_chat(error: admin::ControlError, missing: String) -> Self {
        match error {
            admin::ControlError::NotFound | admin::ControlError::NotLive => {
                Failure::new(FailureKind::NotFound, missing)
            }
            error => error.into(),
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<admin::ControlError> for Failure {
    fn from(error: admin::ControlError) -> Self {
        use admin::ControlError::{Busy, Caller, Invalid, NotFound, NotLive, Unsupported};
        match error {
            NotFound | NotLive => {
                Failure::new(FailureKind::NotFound, "there is no such account, session or room")
            }
            Busy => Failure::new(FailureKind::Busy, "the node has too much to do; try again"),
            Invalid(what) | Caller(what) => Failure::new(FailureKind::Invalid, what),
            Unsupported(what) => Failure::new(FailureKind::Invalid, format!("{what} is not possible")),
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let kind = match &error {
            StoreError::NotFound { .. } => FailureKind::NotFound,
            StoreError::Exists { .. } => FailureKind::Exists,
            StoreError::Invalid { .. } | StoreError::Line { .. } => FailureKind::Invalid,
            StoreError::Locked { .. } | StoreError::Closed => FailureKind::Busy,
            StoreError::Full { .. }
            | StoreError::Io { .. }
            | StoreError::Unreachable { .. }
            | StoreError::Fenced { .. }
            | StoreError::Corrupt { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::Internal { .. } => FailureKind::Store,
        };
        Failure::new(kind, error.to_string())
    }
}
