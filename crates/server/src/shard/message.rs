//! The messages between shards, and between a shard and the rest of the process.

use std::sync::Arc;

use ::chat::SessionEndReason;
use call::{DownTargets, Plan};
use router::{Answer, AskId, Push, Query, ShardAddress};
use sip::transport::{Packet, Transmit, TransmitId};
use store::xmpp::RosterRow;
use store::{Loaded, StoreError, WriteDone};

use crate::net::Certified;
use crate::voice::VoiceShardMessage;
use crate::xmpp::XmppShardMessage;

/// One message in a shard's inbox.
#[derive(Debug)]
pub enum ShardMessage {
    /// Messages that another shard received, and this one works on.
    Packets(Vec<Packet>),
    /// Verified certificates of peers, told before the messages of these peers.
    Certified(Vec<Certified>),
    /// A message for a connection that this shard holds; `from` is told when it could not be sent.
    Transmit {
        transmit: Transmit,
        from: ShardAddress,
    },
    SendFailed(TransmitId),
    /// A question about an address whose bucket this shard owns.
    Ask {
        from: ShardAddress,
        id: AskId,
        query: Query,
    },
    Answer {
        id: AskId,
        answer: Answer,
    },
    Push(Push),
    /// From the store's threads.
    Written(Vec<(u64, Result<WriteDone, StoreError>)>),
    Loaded(Vec<(u64, Result<Loaded, StoreError>)>),
    /// The routing plan changed.
    Plan(Arc<Plan>),
    /// These targets do not answer their probes.
    Down(Arc<DownTargets>),
    /// For the calls of applications.
    Voice(VoiceShardMessage),
    /// For chat clients and their hosts; all of a turn.
    Xmpp(Vec<XmppShardMessage>),
    Command(Command),
}

/// Accounts whose chat sessions end, and why.
#[derive(Debug)]
pub struct Ended {
    pub accounts: Vec<Box<str>>,
    pub ending: SessionEndReason,
    /// The contacts of a removed account, to be told of it.
    pub roster: Vec<(Box<str>, RosterRow)>,
}

/// From the control socket and the signals.
#[derive(Debug)]
pub enum Command {
    /// An account changed: its cached entries are void. `None`: those of all accounts.
    ForgetAccount(Option<Box<str>>),
    EndSessions(Arc<Ended>),
    /// No new calls; when the last transaction is over, `Leave` may come.
    Drain,
    /// End now: what is open is written down.
    Leave,
    Settings(Box<super::Reload>),
    /// Asks for the registrations of this address, whose bucket the shard owns.
    Bindings {
        aor: Box<str>,
        answer: tokio::sync::oneshot::Sender<Vec<router::Binding>>,
    },
    /// The sources and accounts whose sign-ins by SIP are paced at this shard.
    Blocks {
        answer: tokio::sync::oneshot::Sender<Vec<stdx::attempts::Block>>,
    },
    /// Forget the failures of a source or for an account; the answer is the blocks that were in force.
    LiftBlock {
        subject: stdx::attempts::Subject,
        answer: tokio::sync::oneshot::Sender<usize>,
    },
    /// Copy out the messages of these accounts, and of no others.
    Trace(Vec<Box<str>>),
}
