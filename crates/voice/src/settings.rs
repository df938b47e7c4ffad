//! The settings of calls, and the state that the calls of all shards share.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use ivr::request::Method;
use stdx::network::Network;

use super::call_trace::CallTrace;
use super::helper_service::HelperService;
use super::numbers::Numbers;
use super::recording_files::RecordingFiles;
use super::rooms::LinkMembers;

/// The part of `[voice]` that calls read.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address that peers are told to send media to.
    pub ip: IpAddr,
    /// Addresses that documents name may be in private networks.
    pub allow_private: bool,
    /// Between the last sound of a document and the hang-up.
    pub end_pause: Duration,
    /// Calls are resources of the REST interface.
    pub records: bool,
    /// Media gateways: sent to before they have sent.
    pub media_networks: Box<[Network]>,
    /// Without a packet of the peer's; zero: never.
    pub media_timeout: Duration,
    /// A call ends then; otherwise it is only reported.
    pub media_timeout_ends: bool,
    /// The calls that another node of a farm makes again when their node dies.
    pub redial: RedialPolicy,
}

/// `[voice] redial_on_failure`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedialPolicy {
    /// No call.
    #[default]
    Never,
    /// Calls that an application has placed, and callers that have proved to be an account.
    Accounts,
    /// Also callers that a trunk has named.
    All,
}

/// The part of `[voice]` that says which application answers which number.
#[derive(Clone, Debug, Default)]
pub struct NumberSettings {
    /// The account on whose behalf the applications of `numbers` are requested.
    pub account: Box<str>,
    /// The secret that signs requests to applications; `None`: the account's of the REST interface.
    pub auth_token: Option<Box<str>>,
    /// The numbers of the configuration.
    pub numbers: Vec<ConfiguredNumber>,
    /// Strangers reach the numbers, as accounts and trunks do.
    pub open: bool,
}

/// A number of the configuration, and the application that answers it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredNumber {
    /// The user part of its address, without a leading `+`.
    pub number: Box<str>,
    /// The URL of the application.
    pub url: Box<str>,
    /// The method of its request.
    pub method: Method,
    /// Requested when `url` gives no document.
    pub fallback: Option<Box<str>>,
}

/// The state that the calls of all shards share.
pub struct Common {
    pub(crate) settings: Settings,
    /// The default domain.
    pub(crate) domain: Box<str>,
    pub(crate) numbers: Arc<Numbers>,
    pub(crate) helpers: Arc<dyn HelperService>,
    pub(crate) files: Arc<dyn RecordingFiles>,
    /// The URL under which applications find this node's HTTP.
    pub(crate) public_url: Box<str>,
    /// The life of this node in its farm; 0 outside of one.
    pub(crate) life: u32,
    /// Takes the parts of traced calls.
    pub(crate) trace: Option<Arc<dyn CallTrace>>,
    /// The members of other nodes in conferences and queues of this one.
    pub(crate) remote_members: Arc<LinkMembers>,
}

impl Common {
    /// `domain`: the default domain; `public_url`: the URL under which applications find this node's HTTP.
    pub fn new(
        settings: Settings,
        numbers: Numbers,
        domain: &str,
        helpers: Arc<dyn HelperService>,
        files: Arc<dyn RecordingFiles>,
        public_url: &str,
    ) -> Common {
        Common {
            settings,
            domain: domain.into(),
            numbers: Arc::new(numbers),
            helpers,
            files,
            public_url: public_url.into(),
            life: 0,
            trace: None,
            remote_members: Arc::default(),
        }
    }

    /// The rows of calls name this life of a node of a farm.
    #[must_use]
    pub fn with_life(self, life: u32) -> Common {
        Common { life, ..self }
    }

    /// Parts of calls are noted for traces.
    #[must_use]
    pub fn with_trace(self, trace: Option<Arc<dyn CallTrace>>) -> Common {
        Common { trace, ..self }
    }
}

/// One shard of several, from which the calls of the shard draw their identifiers.
pub struct ShardPlace {
    /// The number of this shard.
    pub shard: u16,
    /// The number of shards of the node.
    pub shards: u16,
    /// Random bytes, from which Call-IDs, sids and SRTP keys are drawn.
    pub seed: [u8; 32],
    /// True for the Call-IDs whose messages come to this shard.
    pub owns_call_id: OwnsCallId,
}

/// A predicate of Call-IDs: true where messages of that call come to this shard.
pub type OwnsCallId = Box<dyn Fn(&[u8]) -> bool + Send>;
