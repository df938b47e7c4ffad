//! The state that all requests share, and the handle that the node has of the console.

use std::hash::{BuildHasher as _, RandomState};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::Duration;

use admin::{ManagedResources, Source};
use axum::Router;
use ivr::request::Wire;
use ivr::script::{EffectFailure, FetchResponse};
use stdx::Instant;
use stdx::attempts::{Attempts, Block, Cause, Subject};
use stdx::cache::Cache;
use stdx::hash::Keyed;
use store::{Address, StoreError};
use tokio::sync::Semaphore;
use voice::Numbers;

use crate::directory::{Directory, KnownRoles};
use crate::guard::Hosts;
use crate::history::History;
use crate::http;
use crate::limits;
use crate::node::{NodeHandle, NodeQueries, queue};
use crate::role::{Role, Roles};
use crate::sessions::{Lifetimes, Sessions, Token};
use crate::traces::Traces;

/// The settings of the console.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address that it listens at.
    pub listen: SocketAddr,
    /// Its address in browsers, where a proxy stands before it.
    pub origin: Option<Box<str>>,
    /// The folder of the documentation, served at `/docs/`.
    pub docs: Option<PathBuf>,
    /// The accounts that may use it.
    pub roles: Roles,
    /// The administrators of chat (XEP-0133): with the password of one, the password of every account can be set.
    pub chat_admins: Vec<Address>,
    /// Invitations to make an account; none: they are off.
    pub invitations: Option<Invitations>,
    /// The domain of accounts that are named without one.
    pub default_domain: Box<str>,
    /// The time without an action of the user after which a session ends.
    pub idle: Duration,
    /// The longest time of a session.
    pub lifetime: Duration,
}

/// The form of invitations to make an account.
#[derive(Clone, Debug)]
pub struct Invitations {
    /// The time for which one is good.
    pub good_for: Duration,
    /// The public address under which each has a page for browsers; none: there is no page, or its address is not known.
    pub page: Option<Box<str>>,
}

/// A sign-in that failed.
#[derive(Clone, Copy, Debug)]
pub struct FailedSignIn<'a> {
    /// The client's address.
    pub from: IpAddr,
    /// The name as it was given.
    pub account: &'a str,
    /// The reason.
    pub cause: Cause,
}

/// A sign-in or a change, for the log.
#[derive(Clone, Copy, Debug)]
pub struct AuditLine<'a> {
    /// The account that has signed in.
    pub account: &'a str,
    /// Its role; none: it has no role, and was sent away.
    pub role: Option<Role>,
    /// The client's address.
    pub from: IpAddr,
    /// The name of the request, as the OpenAPI document has it.
    pub action: &'a str,
    /// The account, address, domain or route that was changed; for a sign-in `token`, or empty for one by a password.
    pub subject: &'a str,
    /// The status of the answer if the change was refused.
    pub refused: Option<u16>,
}

/// A role that a directory gives has changed.
#[derive(Clone, Copy, Debug)]
pub struct RoleChange<'a> {
    /// The account.
    pub account: &'a str,
    /// The role before.
    pub before: Option<Role>,
    /// The role from now on.
    pub after: Option<Role>,
    /// False: the directory has given no answer for so long that its last one does not count any more.
    pub is_known: bool,
}

/// The log of the node.
pub trait ConsoleLog: Send + Sync {
    /// A directory has given a role, or taken it away.
    fn role_changed(&self, change: &RoleChange<'_>);
    /// A sign-in failed.
    fn sign_in_failed(&self, failed: &FailedSignIn<'_>);
    /// An account has signed in, or changed something.
    fn audit(&self, line: &AuditLine<'_>);
}

/// Settings as requests use them.
pub(crate) struct ActiveSettings {
    pub(crate) settings: Settings,
    pub(crate) hosts: Hosts,
}

impl ActiveSettings {
    fn new(settings: &Settings) -> Arc<ActiveSettings> {
        let hosts = Hosts::new(settings.listen, settings.origin.as_deref());
        Arc::new(ActiveSettings { settings: settings.clone(), hosts })
    }

    /// The address in browsers, without a slash at its end: that of the proxy, or the one that the console listens at.
    pub(crate) fn public_url(&self) -> String {
        let listens = || format!("http://{}", self.settings.listen);
        self.settings.origin.as_deref().map_or_else(listens, str::to_owned)
    }

    pub(crate) fn lifetimes(&self) -> Lifetimes {
        Lifetimes { idle: self.settings.idle, absolute: self.settings.lifetime }
    }
}

/// The answer to a request for a document.
pub type Fetched = Pin<Box<dyn Future<Output = Result<FetchResponse, EffectFailure>> + Send>>;

/// The way to documents of applications.
pub trait DocumentSource: Send + Sync {
    /// Asks for a document as a call does: by the same client, which reaches what calls may reach.
    fn fetch(&self, request: Wire) -> Fetched;
}

/// The numbers that applications answer, as calls find them.
pub trait NumberSource: Send + Sync {
    /// The numbers as they are now. May wait for the database.
    ///
    /// # Errors
    /// The failure when they cannot be read.
    fn numbers(&self) -> Result<Arc<Numbers>, StoreError>;
}

/// The parts of the node that calls of applications need; without them the console shows no numbers and tests no documents.
#[derive(Clone, Default)]
pub struct Applications {
    /// The resources of the REST interface.
    pub resources: Option<ManagedResources>,
    /// Bound and configured numbers; none: no application answers a call.
    pub numbers: Option<Arc<dyn NumberSource>>,
    /// Fetches documents; none: only documents of the request are tested.
    pub documents: Option<Arc<dyn DocumentSource>>,
}

pub(crate) struct State {
    settings: RwLock<Arc<ActiveSettings>>,
    pub(crate) node: NodeHandle,
    source: Arc<dyn Source>,
    pub(crate) log: Box<dyn ConsoleLog>,
    attempts: Mutex<Attempts>,
    sessions: Mutex<Sessions>,
    /// Accounts without a role whose sign-ins are in the audit log.
    refused: Mutex<Cache<Address, ()>>,
    history: Mutex<History>,
    pub(crate) traces: Traces,
    /// None: no directory and no token gives roles.
    pub(crate) directory: Option<Arc<dyn Directory>>,
    /// Makes the keys of sessions of tokens that stand in requests: what a token hashes to is worth nothing without it.
    pub(crate) bearer_key: Token,
    /// Makes state, nonce and verifier of sign-ins at providers: of the farm, or of this process.
    sign_in_key: OnceLock<Token>,
    known_roles: Mutex<KnownRoles>,
    pub(crate) applications: Applications,
    /// Requests about resources that are at work.
    pub(crate) resource_requests: Arc<Semaphore>,
    /// Documents being tested.
    pub(crate) document_tests: Arc<Semaphore>,
    /// Files of call records being sent.
    pub(crate) call_files: Arc<Semaphore>,
    /// Passwords being checked.
    pub(crate) checks: Arc<Semaphore>,
    /// Files of the documentation being read.
    pub(crate) reads: Arc<Semaphore>,
}

impl State {
    pub(crate) fn now(&self) -> Instant {
        self.source.now()
    }

    pub(crate) fn random(&self) -> Token {
        let mut token = [0; limits::TOKEN];
        self.source.fill_random(&mut token);
        token
    }

    /// The key of sign-ins at providers. A node that is alone makes one, so that its restart ends those that are under way.
    pub(crate) fn sign_in_key(&self) -> &Token {
        self.sign_in_key.get_or_init(|| self.random())
    }

    pub(crate) fn settings(&self) -> Arc<ActiveSettings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.attempts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if the audit log has a line for a sign-in of this account, which has no role: one in a while.
    pub(crate) fn is_refusal_noted(&self, account: &Address) -> bool {
        let (now, mut refused) = (self.now(), self.refused.lock().unwrap_or_else(PoisonError::into_inner));
        let is_noted = refused.get_at(now, account).is_none();
        if is_noted {
            refused.insert_until(now + limits::REFUSED_PAUSE, account.clone(), ());
        }
        is_noted
    }

    pub(crate) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn known_roles(&self) -> MutexGuard<'_, KnownRoles> {
        self.known_roles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The console of a node. Cheap to clone.
#[derive(Clone)]
pub struct Console(Arc<State>);

impl Console {
    /// Makes the console and the node's end of its queue.
    pub fn new(
        settings: &Settings,
        source: Arc<dyn Source>,
        log: impl ConsoleLog + 'static,
        applications: Applications,
        directory: Option<Arc<dyn Directory>>,
    ) -> (Console, NodeQueries) {
        let (node, queries) = queue();
        let mut bearer_key = [0; limits::TOKEN];
        source.fill_random(&mut bearer_key);
        let state = Arc::new(State {
            settings: RwLock::new(ActiveSettings::new(settings)),
            node,
            source,
            log: Box::new(log),
            attempts: Mutex::new(Attempts::new(Keyed::new(table_key()), &admin::limits::SIGN_IN)),
            sessions: Mutex::default(),
            refused: Mutex::new(Cache::new(limits::REFUSED)),
            history: Mutex::default(),
            traces: Traces::default(),
            directory,
            bearer_key,
            sign_in_key: OnceLock::new(),
            known_roles: Mutex::default(),
            applications,
            resource_requests: Arc::new(Semaphore::new(limits::RESOURCE_REQUESTS)),
            document_tests: Arc::new(Semaphore::new(limits::DOCUMENT_TESTS)),
            call_files: Arc::new(Semaphore::new(limits::CSV_FILES)),
            checks: Arc::new(Semaphore::new(limits::CHECKS_AT_WORK)),
            reads: Arc::new(Semaphore::new(limits::DOCS_READS)),
        });
        (Console(Arc::clone(&state)), NodeQueries::new(queries, state))
    }

    /// Gives the key of sign-ins at providers, which the nodes of a farm share: a provider may send a browser back to another one of them. Before the
    /// first request.
    pub fn share_sign_ins(&self, key: [u8; 32]) {
        // A second key would end the sign-ins that are under way.
        let _ = self.0.sign_in_key.set(key);
    }

    /// The routes of HTTP. Requests have the client's address in `ConnectInfo<SocketAddr>`.
    pub fn router(&self) -> Router {
        http::router(Arc::clone(&self.0))
    }

    /// Takes other settings over, for sessions that are there as well: an account that has no role any more may do nothing.
    pub fn set_settings(&self, settings: &Settings) {
        *self.0.settings.write().unwrap_or_else(PoisonError::into_inner) = ActiveSettings::new(settings);
    }

    #[cfg(test)]
    pub(crate) fn state(&self) -> &State {
        &self.0
    }

    /// Addresses and accounts whose sign-ins are paced.
    pub fn blocks(&self) -> Vec<Block> {
        self.0.attempts().blocks(self.0.now())
    }

    /// Forgets the failures of an address or for an account. The blocks that were in force.
    pub fn lift_block(&self, subject: &Subject) -> usize {
        self.0.attempts().lift(self.0.now(), subject)
    }
}

/// The key of the hashes in the table of attempts.
fn table_key() -> [u8; 16] {
    let random = RandomState::new();
    let mut key = [0; 16];
    key[..8].copy_from_slice(&random.hash_one(1_u8).to_be_bytes());
    key[8..].copy_from_slice(&random.hash_one(2_u8).to_be_bytes());
    key
}
