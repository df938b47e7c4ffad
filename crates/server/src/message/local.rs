//! Messages that only the shard's own process sends: they hold channels, compiled values and keys.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use ::chat::effect::HostAction;
use ::chat::{SessionEndReason, StoreFailure, StoreReply};
use ::xmpp::Element;
use call::Plan;
pub use farm::order::BucketOrder;
use sip::endpoint::TracedAccount;
use store::xmpp::RosterRow;
use store::{Loaded, StoreError, WriteDone};
use tokio::sync::oneshot;
use voice_io::VoiceShardMessage;
use xmpp_io::streams::http::bosh::Call;

use crate::shard::Reload;
use shard_message::ActAnswer;

/// A message to a shard from its own process.
#[derive(Debug)]
pub enum LocalMessage {
    /// Results of writes, by ticket, from the store's threads.
    Written(Vec<(u64, Result<WriteDone, StoreError>)>),
    /// Results of reads, by ticket, from the store's threads.
    Loaded(Vec<(u64, Result<Loaded, StoreError>)>),
    /// The routing plan changed.
    Plan(Arc<Plan>),
    /// For the calls of applications.
    Voice(VoiceShardMessage),
    /// For chat.
    Xmpp(LocalXmppMessage),
    /// From the operator.
    Command(Command),
    /// The farm is now so.
    Farm(Arc<farm::view::FarmView>),
    /// The host of this life of another node refuses connections.
    HostRefuses(cluster::Life),
    /// From the node's part in the farm: buckets that this shard loads, serves and stops serving.
    Buckets(Vec<BucketOrder>),
    /// To another node, from a shard without links.
    ToNode {
        /// The node.
        life: cluster::Life,
        /// The message.
        message: cluster::link::Message,
    },
}

/// A message to a shard's chat from its own process.
#[derive(Debug)]
pub enum LocalXmppMessage {
    /// To the connection that is a session of BOSH, from a shard that one of its requests came to.
    Bosh(Box<Call>),
    /// The operator asks all hosts.
    Operate {
        /// The question.
        act: Arc<HostAction>,
        /// Gets the sum of the answers.
        answer: oneshot::Sender<ActAnswer>,
    },
    /// The operator's question to one of our addresses.
    Question {
        /// The question, from the address that it is asked for.
        iq: Box<Element>,
        /// Gets the answer.
        answer: oneshot::Sender<Element>,
    },
    /// A message of this shard that the link to another node did not take, or that the node has not received before its death.
    Returned {
        /// The shard that it was for.
        to: cluster::ShardAddress,
        /// The node is dead. The shard that has the links knows it first: this message may overtake the farm's new state.
        is_dead: bool,
        /// The message.
        message: Box<super::XmppShardMessage>,
    },
    /// The verdict of a source of sign-ins that this shard asked.
    Authenticated {
        /// The shard's number of the question.
        id: u64,
        /// The verdict.
        verdict: external_auth::Verdict,
    },
    /// The result of the administration that this shard asked for.
    Administered {
        /// The shard's number of the question.
        id: u64,
        /// The result.
        result: Box<Result<StoreReply, StoreFailure>>,
    },
}

/// Accounts whose chat sessions end, and the reason.
#[derive(Debug)]
pub struct Ended {
    /// Addresses.
    pub accounts: Vec<Box<str>>,
    /// The reason.
    pub ending: SessionEndReason,
    /// The contacts of a removed account, to be told of it.
    pub roster: Vec<(Box<str>, RosterRow)>,
}

/// From the control socket and the signals.
#[derive(Debug)]
pub enum Command {
    /// An account changed: its cached entries are void. `None`: those of all accounts.
    ForgetAccount(Option<Box<str>>),
    /// The sessions of these accounts end.
    EndSessions(Arc<Ended>),
    /// No new calls; when the last transaction is over, `Leave` may come.
    Drain,
    /// The node ends next: hang up the calls of applications, while all shards and links are there by which their BYEs leave.
    HangUp {
        /// Told when it is done; what other shards have to send is in their inboxes at the end of the turn.
        done: SyncSender<()>,
    },
    /// Read the UDP sockets until they are empty and close them; what belongs to other nodes is still passed on.
    CloseSockets {
        /// Told when they are closed.
        closed: SyncSender<()>,
    },
    /// End now: what is open is written down.
    Leave,
    /// The configuration was read again.
    Settings(Box<Reload>),
    /// Copy out the messages of these accounts, and of no others.
    Trace(Vec<TracedAccount>),
    /// Lists or changes what the shard has now.
    Ask(OperatorQuestion),
}

/// The operator's question about calls, registrations and sign-ins.
#[derive(Debug)]
pub enum OperatorQuestion {
    /// Asks for the registrations of this address, whose bucket the shard owns.
    Bindings {
        /// The address.
        aor: Box<str>,
        /// Gets the registrations.
        answer: oneshot::Sender<Vec<router::Binding>>,
    },
    /// The sources and accounts whose sign-ins by SIP are paced at this shard.
    Blocks {
        /// Gets them.
        answer: oneshot::Sender<Vec<stdx::attempts::Block>>,
    },
    /// Forget the failures of a source or for an account.
    LiftBlock {
        /// The source or the account.
        subject: stdx::attempts::Subject,
        /// Gets the number of the blocks that were in force.
        answer: oneshot::Sender<usize>,
    },
    /// The newest open calls of this shard.
    OpenCalls {
        /// Those of this account; none: of all.
        account: Option<Box<str>>,
        /// Gets them.
        answer: oneshot::Sender<control::OpenCallList>,
    },
    /// The messages of a call that the shard remembers.
    CallMessages {
        /// The Call-ID.
        call_id: Box<str>,
        /// Gets them, and the numbers of calls that are remembered and are not.
        answer: oneshot::Sender<(Option<sip::endpoint::CallLadder>, sip::endpoint::LadderCounts)>,
    },
    /// The first registered addresses that this shard owns.
    Registrations {
        /// The page.
        query: control::RegistrationQuery,
        /// Gets them, and the number of all.
        answer: oneshot::Sender<RegisteredAddresses>,
    },
    /// Removes a binding at its owner, which any shard asks.
    EndRegistration {
        /// The address of record.
        aor: Box<str>,
        /// The contact as it is bound.
        contact: Box<router::Contact>,
        /// Gets the owner's answer.
        answer: oneshot::Sender<router::Answer>,
    },
}

/// Addresses with their bindings.
#[derive(Debug, Default)]
pub struct RegisteredAddresses {
    /// The page, in the order of the addresses.
    pub addresses: Vec<(Box<str>, Vec<router::Binding>)>,
    /// The number of all that were asked for.
    pub total: usize,
}
