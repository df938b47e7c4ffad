//! The control socket: the protocol in which commands speak to the running node, both ends of it, and the state of the node that it
//! shows. The node implements [`Control`] and converts what its parts counted into the types here; a command is a [`Client`].

#![warn(missing_docs)]

mod audit;
mod blocks;
mod call_messages;
mod chat;
mod client;
mod farm;
mod farm_figures;
mod farm_response;
mod groups;
mod latency;
pub mod limits;
mod lists;
mod plan;
mod protocol;
mod rates;
mod records;
pub mod routes;
mod server;
mod status;
mod trace;

pub use admin::{MissingNode, NodesAnswered};
pub use audit::CommandAudit;
pub use blocks::{BlockList, BlockRow, subjects};
pub use call_messages::CallMessages;
pub use chat::{ChatTrace, Family, KindCount};
pub use client::{Client, ClientError};
pub use farm::{FarmMapStatus, FarmNodeRow, FarmStatus, HolderRange};
pub use farm_figures::{FarmLinkClass, FarmLinkFigures, FarmNodeFigures};
pub use farm_response::{FarmResponse, NodeResponse, NodeStatus, OtherNodes, merge};
pub use groups::{DirectoryGroupRow, RosterGroupPage, RosterGroupQuery, RosterGroupRow};
pub use latency::{Latency, LatencyCounts, LatencySummary};
pub use lists::{OpenCall, OpenCallList, RegisteredAddress, RegistrationPage, RegistrationQuery};
pub use plan::{PlanPage, PlanQuery};
pub use protocol::{Failure, FailureKind, Hello, PROTOCOL, Request, Response};
pub use rates::{Rate, Rates, Totals};
pub use records::{AccountRow, Ask, Change, Listing, Secret};
pub use server::{ControlSocket, answer, respond, serve, serve_failure};
pub use status::{
    AdmissionStatus, CallExportStatus, CertificateSource, CertificateStatus, Listening, NodeState,
    ObjectStorageStatus, Observed, ShardCounters, SignInFailureCount, Status, StatusSource, StoreStatus,
    TargetStatus, TelemetryStatus, watch,
};
pub use trace::{TraceLine, TraceLines, TraceNews, TraceSink, mask_credentials};

use std::rc::Rc;

use admin::live::{LiveAnswer, LiveRequest};
use serde::{Deserialize, Serialize};
use stdx::Instant;
use store::{Address, Loaded, Read, StoreError, Write, WriteDone};

/// The requests that an operator makes of the node. Called on the thread that runs [`serve`]; nothing may
/// block it.
#[expect(async_fn_in_trait, reason = "all of it runs on one thread")]
pub trait Control {
    /// The current time.
    fn now(&self) -> Instant;

    /// The node's own state now.
    async fn status(&self) -> Observed;

    /// Reads the configuration file again, and routes and certificates with it. The error is for people, and
    /// nothing was changed then.
    async fn reload(&self) -> Result<Reloaded, String>;

    /// Reads the configuration file and takes nothing over.
    fn config_report(&self) -> ConfigReport;

    /// No new calls and registrations from now on; the process ends when the last transaction has. Returns
    /// at once.
    fn drain(&self);

    /// End now.
    fn stop(&self);

    /// Puts every message of this account's into the sink from now on, until it is closed; with `farm` also those that other
    /// nodes of the farm handle. The account may be an alias, or not be there. False: too many traces.
    fn trace(self: Rc<Self>, account: &Address, sink: TraceSink, farm: bool) -> bool;

    /// The registrations of the account.
    async fn bindings(&self, account: &Address) -> Vec<BindingRow>;

    /// The open calls of this node: the newest ones, of an account or of all.
    async fn open_calls(&self, account: Option<&str>) -> OpenCallList;

    /// The messages of a call that this node remembers.
    async fn call_messages(&self, call_id: &str) -> CallMessages;

    /// A page of the registered addresses that this node owns.
    async fn registrations(&self, query: &RegistrationQuery) -> RegistrationPage;

    /// Shared roster groups as this node has them: a page of all, or one with a page of its members.
    fn roster_groups(&self, query: &RosterGroupQuery) -> RosterGroupPage;

    /// Removes a registration, as if it had expired. Returns once that is in the database.
    ///
    /// # Errors
    /// There is no such registration, or it could not be written.
    async fn end_registration(&self, account: &Address, contact: &str) -> Result<(), Failure>;

    /// Addresses and accounts whose sign-ins are paced, the last failure first.
    async fn blocks(&self) -> BlockList;

    /// The farm as this node sees it; none if it is alone.
    fn farm(&self) -> Option<FarmStatus>;

    /// The holders of all call slots and buckets; none if the node is alone.
    fn farm_map(&self) -> Option<FarmMapStatus>;

    /// Asks a node of the farm to drain, through the council.
    ///
    /// # Errors
    /// There is no such node, it drains already, or the council is away.
    fn drain_farm_node(&self, name: &str) -> Result<(), Failure>;

    /// Forgets the failures of an address or for an account. The blocks that were in force.
    async fn lift_block(&self, subject: &str) -> u64;

    /// Ends a call of an application at this node.
    ///
    /// # Errors
    /// There is no such call here, or the node has too much to do.
    async fn end_call(&self, call: &str) -> Result<(), Failure>;

    /// Performs a request to a call, conference, queue or recording of this node.
    ///
    /// # Errors
    /// `NotFound`: the node does not have it.
    async fn live(&self, request: LiveRequest) -> Result<LiveAnswer, admin::ControlError>;

    /// Asks the other nodes of the farm; none if the node is alone, or answers for all. Waits for the last of them, but not longer than
    /// an operator wants to.
    async fn ask_nodes(&self, request: &Request) -> Option<OtherNodes>;

    /// Reads from the database.
    async fn read(&self, read: Read) -> Result<Loaded, StoreError>;

    /// The node forgets what it had cached of the record that changed.
    async fn write(&self, write: Write) -> Result<WriteDone, StoreError>;

    /// Sessions, rooms and accounts of chat.
    async fn chat(&self, ask: admin::chat::Ask) -> Result<admin::chat::Answer, admin::ControlError>;

    /// A command wrote accounts past the node, and with them domains: forget all that are cached.
    fn accounts_changed(&self);

    /// These accounts got another password, not through the node: sessions by the old one end.
    fn passwords_changed(&self, accounts: Vec<Address>);

    /// A command has changed something, or was refused: for the audit log.
    fn audit(&self, change: CommandAudit<'_>);
}

/// The outcome of a reload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// Keys that changed and count only after a restart.
    pub needs_restart: Vec<Box<str>>,
}

/// The configuration file as it is now, of which nothing was taken over.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigReport {
    /// The file; none: there is none, and the defaults count.
    pub file: Option<Box<str>>,
    /// Each with its place; a reload refuses them. Empty: the file is good.
    pub mistakes: Vec<Box<str>>,
    /// Consequences that may surprise.
    pub warnings: Vec<Box<str>>,
    /// Keys that differ from those in use and count only after a restart.
    pub needs_restart: Vec<Box<str>>,
    /// All keys, with secrets masked.
    pub keys: Vec<ConfigKey>,
}

/// A key of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfigKey {
    /// The section, without brackets.
    pub section: Box<str>,
    /// The name in its section.
    pub name: Box<str>,
    /// The value in the file; none: the default counts.
    pub value: Option<Box<str>>,
    /// The default; none: there is none.
    pub default: Option<Box<str>>,
}

/// One binding, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BindingRow {
    /// The URI of the contact.
    pub contact: Box<str>,
    /// Thousandths.
    pub q: u16,
    /// Seconds until the binding expires.
    pub expires_in_seconds: u64,
    /// The phone, as its User-Agent names it.
    pub user_agent: Box<str>,
    /// The address that it registered from, when requests go back there.
    pub received: Option<Box<str>>,
}
