//! The parts that a shard is made of (`ShardDeps`, from `node::build`), and those of them that all its machines use (`ShardResources`).

use std::sync::{Arc, LazyLock};

use call::{Health, Ledger, Plan};
use cluster::{Inbox, Outlet, ShardMap};
use logging::sign_in_failures::SignInFailures;
use net::clock::Clock;
use router::{AskId, Query, Router, ShardAddress};
use sip::endpoint::{Account, CallLimits, Endpoint};
use stdx::Instant;
use store::{Service, Ticket, Write};

use super::{CallerProof, RecordSinks, StatusBoard};
use crate::message::InboxMessage;

/// The parts of a shard. They are made elsewhere and may move to the shard's thread.
pub struct ShardDeps {
    /// The shard's own address.
    pub edge: ShardAddress,
    /// The responsible shards.
    pub map: ShardMap,
    /// The node's clock.
    pub clock: Clock,
    /// The shard's SIP.
    pub endpoint: Endpoint,
    /// The state of the addresses that the shard owns.
    pub router: Router,
    /// The calls that get call records.
    pub ledger: Ledger,
    /// The ways of call records besides the database.
    pub record_sinks: RecordSinks,
    /// Only one shard of a node probes.
    pub health: Option<Health>,
    /// Domains, routes and groups.
    pub plan: Arc<Plan>,
    /// The proof required of callers that claim an account of ours.
    pub proof: CallerProof,
    /// Contacts that an account may register, unless it says otherwise.
    pub default_max_contacts: usize,
    /// Call records are stored.
    pub records: bool,
    /// The database.
    pub store: Arc<Service>,
    /// The place of the accounts that it needs.
    pub accounts: AccountSource,
    /// The messages to the shard.
    pub inbox: Inbox<InboxMessage>,
    /// To every shard of the node, this one included, by number.
    pub outlets: Vec<Outlet<InboxMessage>>,
    /// The counters of all shards, for status and metrics.
    pub board: Arc<StatusBoard>,
    /// `None`: no applications answer calls here.
    pub(crate) voice: Option<voice_io::ShardVoice>,
    /// `None`: no chat clients.
    pub(crate) xmpp: Option<crate::xmpp::XmppSettings>,
    /// Performs administrators' commands that come by chat.
    pub(crate) chat: crate::xmpp::operator::Operator,
    /// `None`: the node is alone.
    pub(crate) farm: Option<crate::farm::ShardFarm>,
    /// Receives copies of the SIP messages of traced accounts.
    pub traces: tokio::sync::broadcast::Sender<Arc<sip::endpoint::TraceEvent>>,
    /// The log of failed sign-ins, one for all shards.
    pub(crate) failures: Arc<SignInFailures>,
}

/// The place of the accounts that a shard needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccountSource {
    /// A database in a file of the node.
    File,
    /// A database in a server, which may be away.
    Server,
    /// The owners of the accounts' addresses, which may be away: this node has no accounts.
    Owners,
}

/// The settings that a reload may change in a shard.
#[derive(Debug)]
pub struct Reload {
    /// The settings of SIP.
    pub settings: sip::endpoint::EndpointSettings,
    /// The proof required of callers that claim an account of ours.
    pub proof: CallerProof,
    /// Contacts that an account may register, unless it says otherwise.
    pub default_max_contacts: usize,
    /// Call records are stored.
    pub records: bool,
    pub(crate) xmpp: Option<crate::xmpp::Reload>,
    /// `None`: SIP messages are not captured.
    pub capture: Option<net::CaptureSettings>,
}

/// The cores and handles that the parts of a shard share, each as in [`ShardDeps`].
pub(super) struct ShardResources {
    pub(super) edge: ShardAddress,
    pub(super) map: ShardMap,
    pub(super) clock: Clock,
    pub(super) endpoint: Endpoint,
    pub(super) router: Router,
    pub(super) default_max_contacts: usize,
    pub(super) store: Arc<Service>,
    pub(super) inbox: Inbox<InboxMessage>,
    pub(super) outlets: Vec<Outlet<InboxMessage>>,
    pub(super) board: Arc<StatusBoard>,
    pub(super) chat: crate::xmpp::operator::Operator,
    pub(super) traces: tokio::sync::broadcast::Sender<Arc<sip::endpoint::TraceEvent>>,
    pub(super) failures: Arc<SignInFailures>,
}

impl ShardResources {
    /// Performs a write of the router, which is told when the store refuses it.
    pub(super) fn write(
        &mut self,
        now: Instant,
        ticket: u64,
        write: Write,
        effects: &mut Vec<router::Effect>,
    ) {
        let to = Ticket { sink: self.edge.shard, id: ticket };
        if self.store.write(write, to).is_err() {
            self.router.handle_written(now, ticket, Err(router::WriteFailed), effects);
        }
    }

    /// The bindings of an address that this shard owns. A lookup is answered at once.
    pub(super) fn bindings(&mut self, aor: Box<str>) -> Vec<router::Binding> {
        let (now, mut effects) = (self.clock.now(), Vec::new());
        self.router.handle_query(now, self.edge, AskId(0), Query::Lookup { aor }, &mut effects);
        let answer = effects.into_iter().find_map(|effect| match effect {
            router::Effect::Answer { answer: router::Answer::Bindings(bindings), .. } => Some(bindings),
            _ => None,
        });
        answer.unwrap_or_default()
    }

    /// An account of the store as the endpoint has it. It counts as disabled if it needs random digests (`ha1s_of`) and the system gives no
    /// randomness.
    pub(super) fn account(&self, found: &store::Account) -> Account {
        let limit = found.limits.max_contacts.map(|count| count as usize);
        let ha1s = ha1s_of(&found.verifiers, self.clock.now());
        Account {
            aor: format!("{}@{}", found.name, found.domain).into(),
            disabled: found.disabled || ha1s.is_none(),
            ha1s: ha1s.unwrap_or(sip::digest::Ha1s { md5: [0; 16], sha256: [0; 32], sha512_256: [0; 32] }),
            max_contacts: limit.unwrap_or(self.default_max_contacts),
            limits: call_limits(&found.limits),
        }
    }
}

/// The digests that a phone's password is checked against. For an account with SCRAM keys only, and for one whose digests
/// have had their time, they are random: no password fits, not even for a reader of the database. `None`: the system gives
/// no randomness.
fn ha1s_of(verifiers: &store::Verifiers, now: Instant) -> Option<sip::digest::Ha1s> {
    static UNKNOWN: LazyLock<Option<[u8; 32]>> = LazyLock::new(|| {
        let mut unknown = [0; 32];
        getrandom::fill(&mut unknown).ok().map(|()| unknown)
    });
    if !verifiers.are_of_password() || verifiers.are_expired(now) {
        let unknown = (*UNKNOWN)?;
        let mut md5 = [0; 16];
        md5.copy_from_slice(&unknown[..16]);
        return Some(sip::digest::Ha1s { md5, sha256: unknown, sha512_256: unknown });
    }
    let (md5, sha256, sha512_256) = (verifiers.md5, verifiers.sha256, verifiers.sha512_256);
    Some(sip::digest::Ha1s { md5, sha256, sha512_256 })
}

/// `None` if the account has no limits: the check is skipped.
fn call_limits(limits: &store::AccountLimits) -> Option<Arc<CallLimits>> {
    let store::AccountLimits { max_calls, max_rate, deny, .. } = limits;
    let limits = CallLimits { max_calls: *max_calls, max_rate: *max_rate, deny: deny.clone() };
    (limits != CallLimits::default()).then(|| Arc::new(limits))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn digests_that_have_had_their_time_fit_no_password() {
        let end = Instant::from_unix_seconds(1_700_000_000);
        let verifiers = store::Verifiers::from_password("alice", "example.org", "secret").expiring_at(end);
        let before = ha1s_of(&verifiers, end - Duration::from_secs(1)).unwrap();
        assert_eq!((before.md5, before.sha256), (verifiers.md5, verifiers.sha256));
        let after = ha1s_of(&verifiers, end).unwrap();
        assert!(after.md5 != verifiers.md5 && after.sha256 != verifiers.sha256);
        assert_ne!(after.sha512_256, verifiers.sha512_256);
    }
}
