//! The thread that asks the sources, with a runtime of its own.

use std::cell::RefCell;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::JoinHandle;

use anyhow::{Context, Result, anyhow};
use stdx::Instant;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::{LocalSet, spawn_blocking, spawn_local};
use tokio::time;

use crate::answers::{Answer, MemberAnswer, PageAnswer, RoleAnswer, TokenAnswer};
use crate::file::{FileAccounts, FileSettings, WatchedFile};
use crate::http::HttpSource;
use crate::jwt::{TokenSource, claimed_issuer};
use crate::ldap::{DirectoryRole, LdapSource, MemberQuery};
use crate::provider::{AuthorizationQuery, CodeQuery, Provider};
use crate::remembered::RememberedPasswords;
use crate::settings::{Hidden, ProviderSettings, SourceKind, SourceSettings};
use crate::token::{TokenUse, TokenUser, TokenVerdict};
use crate::{SourceFailure, limits};

/// The name and the proof that a client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Credential {
    /// A name and a password.
    Password {
        /// The local part of the address, prepared.
        user: Box<str>,
        /// The password.
        password: Hidden,
    },
    /// A token, which names the user.
    Token(Hidden),
}

/// The question whether a client is the user that it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The time of the question.
    pub now: Instant,
    /// The domain of the user.
    pub domain: Box<str>,
    /// The credential.
    pub credential: Credential,
}

/// The answer to a [`Query`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// The client is this user of the domain. The name is not prepared if a token has named it.
    Accepted(Box<str>),
    /// It is not, or the user is unknown: the two are not told apart.
    Refused,
    /// The source gave no verdict.
    #[default]
    Unavailable,
}

/// The role that the groups of a source give to a user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RoleVerdict {
    /// The source has answered. `None`: no role, or no such user.
    Known(Option<DirectoryRole>),
    /// The source gave no answer: nothing is known.
    #[default]
    Unavailable,
}

/// Asks the sources of all domains that have one. The thread ends when this is dropped.
pub struct Authenticator {
    sources: HashMap<Box<str>, Registered>,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    files_changed: Arc<Notify>,
}

/// A source as the asking threads know it.
struct Registered {
    number: usize,
    settings: SourceSettings,
    /// The accounts, of a source that is a file.
    file: Option<Arc<WatchedFile>>,
    /// A place for each query that waits or is under way.
    places: Arc<Semaphore>,
}

struct Job {
    source: usize,
    question: Question,
    place: OwnedSemaphorePermit,
}

/// A token whose user is asked for.
struct TokenQuery {
    now: Instant,
    token: Hidden,
}

/// A question with the receiver of its answer.
enum Question {
    SignIn(Query, Answer),
    /// Asks whose token this is.
    Token(TokenQuery, TokenAnswer),
    /// Asks for the address that a browser is sent to.
    Page(AuthorizationQuery, PageAnswer),
    /// Asks for the user to whose sign-in the provider has given a code.
    Code(Box<CodeQuery>, TokenAnswer),
    /// Asks for the role of this user of the source's domain.
    Role(Box<str>, RoleAnswer),
    /// Asks which users of the source's domain are in which groups.
    Members(MemberQuery, MemberAnswer),
}

impl Authenticator {
    /// Starts the thread. `None`: there are no sources.
    ///
    /// # Errors
    /// A file that a source needs cannot be used, or there is no thread.
    pub fn start(settings: &[SourceSettings]) -> Result<Option<Authenticator>> {
        if settings.is_empty() {
            return Ok(None);
        }
        let (jobs, todo) = mpsc::channel(limits::WAITING * settings.len());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let files = settings.iter().map(open_file).collect::<Result<Vec<_>>>()?;
        let own: Vec<_> = settings.iter().cloned().zip(files.iter().cloned()).collect();
        let files_changed = Arc::new(Notify::new());
        let changed = Arc::clone(&files_changed);
        let (started, is_started) = std::sync::mpsc::sync_channel(1);
        let run = move || {
            let worker = match Worker::new(&own) {
                Ok(worker) => Rc::new(worker),
                Err(error) => {
                    let _ = started.send(Err(error));
                    return;
                }
            };
            let _ = started.send(Ok(()));
            LocalSet::new().block_on(&runtime, work(worker, todo, changed));
            // A name server that does not answer is not waited for.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("external-auth".into()).spawn(run)?;
        is_started.recv().context("the thread of sign-in sources ended")??;
        let registered = settings.iter().zip(files).enumerate().map(|(number, (settings, file))| {
            let places = Arc::new(Semaphore::new(limits::WAITING));
            (settings.domain.clone(), Registered { number, settings: settings.clone(), file, places })
        });
        let sources = registered.collect();
        Ok(Some(Authenticator { sources, jobs: Some(jobs), thread: Some(thread), files_changed }))
    }

    /// The source of a domain. `None`: its accounts sign in by the database.
    pub fn source_of(&self, domain: &str) -> Option<&SourceSettings> {
        self.sources.get(domain).map(|source| &source.settings)
    }

    /// The accounts of a domain whose source is a file, as the file had them last. `None`: it has another source, or none.
    pub fn accounts_of_file(&self, domain: &str) -> Option<Arc<FileAccounts>> {
        Some(self.sources.get(domain)?.file.as_ref()?.current())
    }

    /// Notified when the accounts of a file have changed. One task may wait for it.
    pub fn files_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.files_changed)
    }

    /// Asks the source of the query's domain. Without a place, and for a domain without a source, the answer is
    /// `Verdict::Unavailable` at once.
    pub fn ask(&self, query: Query, answer: Answer) {
        let domain = query.domain.clone();
        self.put(&domain, Question::SignIn(query, answer));
    }

    /// The domains whose tokens are for this use and have the issuer that this one claims. Nothing of the token is verified.
    pub fn domains_of_token(&self, purpose: TokenUse, token: &str) -> Vec<Box<str>> {
        let Some(issuer) = claimed_issuer(token) else { return Vec::new() };
        let is_of = |source: &&Registered| match &source.settings.kind {
            SourceKind::Jwt(jwt) => jwt.issuer == issuer && jwt.are_for(purpose),
            SourceKind::Ldap(_) | SourceKind::Http(_) | SourceKind::File(_) => false,
        };
        let mut found: Vec<&Registered> = self.sources.values().filter(is_of).collect();
        found.sort_unstable_by_key(|source| source.number);
        found.into_iter().map(|source| source.settings.domain.clone()).collect()
    }

    /// Asks whose token this is at a domain, and for the role that its claims give, as [`ask`](Authenticator::ask) does for a
    /// verdict.
    pub fn ask_token(&self, now: Instant, domain: &str, token: Hidden, answer: TokenAnswer) {
        self.put(domain, Question::Token(TokenQuery { now, token }, answer));
    }

    /// The domains with a provider to which browsers can be sent, in the order of the configuration.
    pub fn providers(&self) -> Vec<(&str, &ProviderSettings)> {
        let with_provider = |source: &&Registered| source.settings.provider().is_some();
        let mut found: Vec<&Registered> = self.sources.values().filter(with_provider).collect();
        found.sort_unstable_by_key(|source| source.number);
        let named = found.into_iter().map(|source| &source.settings);
        named.filter_map(|source| Some((&*source.domain, source.provider()?))).collect()
    }

    /// True if the tokens of a domain give roles.
    pub fn takes_tokens(&self) -> bool {
        self.sources.values().any(|source| source.settings.token_roles().is_some())
    }

    /// Asks for the address at the provider of a domain that a browser is sent to, as [`ask`](Authenticator::ask) does for a
    /// verdict.
    pub fn ask_page(&self, domain: &str, query: AuthorizationQuery, answer: PageAnswer) {
        self.put(domain, Question::Page(query, answer));
    }

    /// Asks the provider of a domain for the user of a code, and for the role that the claims give. The answer's `ends_at` is the end of the
    /// session that the configuration allows.
    pub fn ask_code(&self, domain: &str, query: CodeQuery, answer: TokenAnswer) {
        self.put(domain, Question::Code(Box::new(query), answer));
    }

    /// Asks for the role that the groups of a domain's source give to a user, as [`ask`](Authenticator::ask) does for a
    /// verdict. `user` is the local part of the address, prepared.
    pub fn ask_role(&self, domain: &str, user: &str, answer: RoleAnswer) {
        self.put(domain, Question::Role(user.into(), answer));
    }

    /// Asks which of these users (local parts, prepared) of a domain are members of which of these groups of its source, named as those that give
    /// roles. One connection asks for one user after the other, so a long list takes its time and no more of the directory.
    pub fn ask_members(
        &self,
        domain: &str,
        users: Vec<Box<str>>,
        groups: Vec<Box<str>>,
        answer: MemberAnswer,
    ) {
        self.put(domain, Question::Members(MemberQuery { users, groups }, answer));
    }

    /// A question that finds no place is dropped, and with it answered.
    fn put(&self, domain: &str, question: Question) {
        let source = self.sources.get(domain);
        let place = source.and_then(|source| Arc::clone(&source.places).try_acquire_owned().ok());
        let (Some(source), Some(place), Some(jobs)) = (source, place, &self.jobs) else { return };
        // There is a place in the queue for each.
        let _ = jobs.try_send(Job { source: source.number, question, place });
    }
}

impl Drop for Authenticator {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("domains", &self.sources.keys()).finish_non_exhaustive()
    }
}

fn of(source: &SourceSettings) -> String {
    format!("[[accounts.sources]] of {}", source.domain)
}

/// The file of a source that is one, read.
fn open_file(settings: &SourceSettings) -> Result<Option<Arc<WatchedFile>>> {
    let SourceKind::File(file) = &settings.kind else { return Ok(None) };
    let file = WatchedFile::open(&settings.domain, file);
    file.map(|file| Some(Arc::new(file))).map_err(|mistake| anyhow!(mistake)).with_context(|| of(settings))
}

enum Protocol {
    Ldap(Box<LdapSource>),
    Http(HttpSource),
    Jwt(Box<TokenSource>, Option<Box<Provider>>),
    File(Arc<WatchedFile>, Box<FileSettings>),
}

impl Protocol {
    fn new(settings: &SourceSettings, file: Option<&Arc<WatchedFile>>) -> Result<Protocol> {
        Ok(match &settings.kind {
            SourceKind::Ldap(ldap) => Protocol::Ldap(Box::new(LdapSource::new(ldap, settings.timeout)?)),
            SourceKind::Http(http) => Protocol::Http(HttpSource::new(http)?),
            SourceKind::Jwt(jwt) => {
                let provider = Provider::new(jwt)?.map(Box::new);
                Protocol::Jwt(Box::new(TokenSource::new(jwt)?), provider)
            }
            SourceKind::File(settings) => {
                let file = file.context("the file of the source was not read")?;
                Protocol::File(Arc::clone(file), settings.clone())
            }
        })
    }

    fn provider(&self) -> Option<(&TokenSource, &Provider)> {
        match self {
            Protocol::Jwt(tokens, Some(provider)) => Some((tokens, provider)),
            Protocol::Jwt(_, None) | Protocol::Ldap(_) | Protocol::Http(_) | Protocol::File(..) => None,
        }
    }
}

/// The verdict on a token that was checked, or not in time.
fn verdict_of(
    source: &OpenSource,
    asked: Result<Result<Option<TokenUser>, SourceFailure>, time::error::Elapsed>,
) -> TokenVerdict {
    let domain = &*source.settings.domain;
    match asked {
        Ok(Ok(Some(user))) => TokenVerdict::Accepted(user),
        Ok(Ok(None)) => TokenVerdict::Refused,
        Ok(Err(failure)) => {
            tracing::warn!(domain, %failure, "no token can be checked");
            TokenVerdict::Unavailable
        }
        Err(_) => {
            tracing::warn!(domain, timeout = ?source.settings.timeout, "a token could not be checked in time");
            TokenVerdict::Unavailable
        }
    }
}

/// The sources, on the thread that asks them.
struct Worker {
    sources: Vec<OpenSource>,
    remembered: RefCell<RememberedPasswords>,
    /// Places for comparisons with passwords of files.
    hashing: Arc<Semaphore>,
}

struct OpenSource {
    settings: SourceSettings,
    protocol: Protocol,
    concurrent: Semaphore,
}

impl OpenSource {
    /// The domain, for passwords that are remembered; of a file with the number of its content, so that a changed file is asked again at once.
    fn remembered_as(&self) -> String {
        match &self.protocol {
            Protocol::File(file, _) => format!("{}\0{}", self.settings.domain, file.generation()),
            Protocol::Ldap(_) | Protocol::Http(_) | Protocol::Jwt(..) => self.settings.domain.to_string(),
        }
    }
}

async fn work(worker: Rc<Worker>, mut todo: mpsc::Receiver<Job>, changed: Arc<Notify>) {
    for source in &worker.sources {
        if let Protocol::File(file, _) = &source.protocol {
            spawn_local(look_at_file(Arc::clone(file), Arc::clone(&changed)));
        }
    }
    while let Some(job) = todo.recv().await {
        let worker = Rc::clone(&worker);
        spawn_local(async move { worker.perform(job).await });
    }
}

/// Reads a file of accounts again when it has changed, until the thread ends. Beside the thread of the sources: a file system of another machine may
/// not answer, and what the file had before counts until it does.
async fn look_at_file(file: Arc<WatchedFile>, changed: Arc<Notify>) {
    loop {
        time::sleep(limits::FILE_LOOK).await;
        let looked_at = Arc::clone(&file);
        if spawn_blocking(move || looked_at.look()).await.unwrap_or(false) {
            changed.notify_one();
        }
    }
}

impl Worker {
    fn new(settings: &[(SourceSettings, Option<Arc<WatchedFile>>)]) -> Result<Worker> {
        let open = |(settings, file): &(SourceSettings, Option<Arc<WatchedFile>>)| {
            let protocol = Protocol::new(settings, file.as_ref()).with_context(|| of(settings))?;
            let concurrent = Semaphore::new(limits::CONCURRENT);
            anyhow::Ok(OpenSource { settings: settings.clone(), protocol, concurrent })
        };
        let sources = settings.iter().map(open).collect::<Result<_>>()?;
        let remembered = RefCell::new(RememberedPasswords::new(limits::REMEMBERED)?);
        let processors = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
        let hashing = Arc::new(Semaphore::new((processors / limits::PROCESSORS_A_HASH).max(1)));
        Ok(Worker { sources, remembered, hashing })
    }

    async fn perform(&self, job: Job) {
        let Job { source, question, place } = job;
        let Some(source) = self.sources.get(source) else { return };
        let (query, answer) = match question {
            Question::SignIn(query, answer) => (query, answer),
            Question::Token(query, answer) => return self.find_user(source, &query, answer, place).await,
            Question::Page(query, answer) => return self.find_page(source, &query, answer, place).await,
            Question::Code(query, answer) => {
                return self.find_user_of_code(source, &query, answer, place).await;
            }
            Question::Role(user, answer) => return self.find_role(source, &user, answer, place).await,
            Question::Members(query, answer) => {
                return self.find_members(source, &query, answer, place).await;
            }
        };
        let begin = time::Instant::now();
        let asked = time::timeout(source.settings.timeout, self.ask(source, &query)).await;
        drop(place);
        let verdict = match asked {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(failure)) => {
                tracing::warn!(domain = &*query.domain, %failure, "no user can sign in by this source");
                Verdict::Unavailable
            }
            Err(_) => {
                let (domain, kind) = (&*query.domain, source.settings.kind.name());
                tracing::warn!(domain, kind, timeout = ?source.settings.timeout, "a source gave no verdict in time");
                Verdict::Unavailable
            }
        };
        if verdict == Verdict::Refused {
            // RFC 4513 §6.3.1 and the like: the time does not tell an unknown user from a wrong password.
            time::sleep_until(begin + limits::REFUSAL_AFTER).await;
        }
        answer.give(verdict);
    }

    async fn find_user(
        &self,
        source: &OpenSource,
        query: &TokenQuery,
        answer: TokenAnswer,
        place: OwnedSemaphorePermit,
    ) {
        let check = async {
            let Protocol::Jwt(jwt, _) = &source.protocol else { return Ok(None) };
            let _turn = source.concurrent.acquire().await.map_err(SourceFailure::new)?;
            jwt.check(query.now, &source.settings.domain, &query.token.0).await
        };
        let asked = time::timeout(source.settings.timeout, check).await;
        drop(place);
        answer.give(verdict_of(source, asked));
    }

    async fn find_user_of_code(
        &self,
        source: &OpenSource,
        query: &CodeQuery,
        answer: TokenAnswer,
        place: OwnedSemaphorePermit,
    ) {
        let check = async {
            let Some((tokens, provider)) = source.protocol.provider() else { return Ok(None) };
            let _turn = source.concurrent.acquire().await.map_err(SourceFailure::new)?;
            provider.exchange(tokens, &source.settings.domain, query).await
        };
        let asked = time::timeout(source.settings.timeout, check).await;
        drop(place);
        answer.give(verdict_of(source, asked));
    }

    async fn find_page(
        &self,
        source: &OpenSource,
        query: &AuthorizationQuery,
        answer: PageAnswer,
        place: OwnedSemaphorePermit,
    ) {
        let domain = &*source.settings.domain;
        let asked = time::timeout(source.settings.timeout, async {
            let Some((_, provider)) = source.protocol.provider() else { return Ok(None) };
            let _turn = source.concurrent.acquire().await.map_err(SourceFailure::new)?;
            provider.page(query).await.map(Some)
        });
        let asked = asked.await;
        drop(place);
        answer.give(match asked {
            Ok(Ok(page)) => page,
            Ok(Err(failure)) => {
                tracing::warn!(domain, %failure, "no user can be sent to the provider");
                None
            }
            Err(_) => {
                tracing::warn!(domain, timeout = ?source.settings.timeout, "a provider did not answer in time");
                None
            }
        });
    }

    async fn find_role(
        &self,
        source: &OpenSource,
        user: &str,
        answer: RoleAnswer,
        place: OwnedSemaphorePermit,
    ) {
        let domain = &*source.settings.domain;
        let asked = time::timeout(source.settings.timeout, async {
            let _turn = source.concurrent.acquire().await.map_err(SourceFailure::new)?;
            match &source.protocol {
                Protocol::Ldap(ldap) if user.len() <= limits::USER => ldap.role(user, domain).await,
                Protocol::File(file, settings) => Ok(file.current().role(user, &settings.roles)),
                Protocol::Ldap(_) | Protocol::Http(_) | Protocol::Jwt(..) => Ok(None),
            }
        });
        let asked = asked.await;
        drop(place);
        answer.give(match asked {
            Ok(Ok(role)) => RoleVerdict::Known(role),
            Ok(Err(failure)) => {
                tracing::warn!(domain, %failure, "the groups of a user are not known");
                RoleVerdict::Unavailable
            }
            Err(_) => {
                tracing::warn!(domain, timeout = ?source.settings.timeout, "a source did not name the groups of a user in time");
                RoleVerdict::Unavailable
            }
        });
    }

    async fn find_members(
        &self,
        source: &OpenSource,
        query: &MemberQuery,
        answer: MemberAnswer,
        place: OwnedSemaphorePermit,
    ) {
        let domain = &*source.settings.domain;
        let asked = async {
            let _turn = source.concurrent.acquire().await.map_err(SourceFailure::new)?;
            match &source.protocol {
                Protocol::Ldap(ldap) => ldap.members(query, domain).await,
                Protocol::File(file, _) => Ok(file.current().members(query)),
                Protocol::Http(_) | Protocol::Jwt(..) => Err(SourceFailure::new("the source has no groups")),
            }
        };
        let asked = asked.await;
        drop(place);
        answer.give(match asked {
            Ok(members) => Some(members),
            Err(failure) => {
                tracing::warn!(domain, %failure, "the members of shared groups are not known: those from before stay");
                None
            }
        });
    }

    /// Compares a password with that of a file, beside this thread: others have to go on. A comparison that is not waited for keeps its place.
    async fn compare(&self, file: &WatchedFile, user: &str, password: &str) -> Result<bool, SourceFailure> {
        let place = Arc::clone(&self.hashing).acquire_owned().await.map_err(SourceFailure::new)?;
        let (accounts, user, password) = (file.current(), user.to_owned(), Hidden(password.into()));
        let compare = move || {
            let is_right = accounts.is_password(&user, &password.0);
            drop(place);
            is_right
        };
        spawn_blocking(compare).await.map_err(SourceFailure::new)
    }

    async fn ask(&self, source: &OpenSource, query: &Query) -> Result<Verdict, SourceFailure> {
        let domain = &*query.domain;
        match &query.credential {
            Credential::Password { user, password } => {
                let password = &*password.0;
                if password.is_empty() || password.len() > limits::PASSWORD || user.len() > limits::USER {
                    return Ok(Verdict::Refused);
                }
                let remembered_as = source.remembered_as();
                if self.remembered.borrow().is_right(query.now, &remembered_as, user, password) {
                    return Ok(Verdict::Accepted(user.clone()));
                }
                let _turn = source.concurrent.acquire().await.map_err(SourceFailure::new)?;
                let is_right = match &source.protocol {
                    Protocol::Ldap(ldap) => ldap.check(user, domain, password).await?,
                    Protocol::Http(http) => http.check(user, domain, password).await?,
                    Protocol::File(file, _) => self.compare(file, user, password).await?,
                    Protocol::Jwt(..) => false,
                };
                if !is_right {
                    return Ok(Verdict::Refused);
                }
                let lifetime = source.settings.remember;
                self.remembered.borrow_mut().insert(query.now, lifetime, (&remembered_as, user), password);
                Ok(Verdict::Accepted(user.clone()))
            }
            Credential::Token(token) => {
                let Protocol::Jwt(jwt, _) = &source.protocol else { return Ok(Verdict::Refused) };
                let _turn = source.concurrent.acquire().await.map_err(SourceFailure::new)?;
                let user = jwt.check(query.now, domain, &token.0).await?;
                Ok(user.map_or(Verdict::Refused, |user| Verdict::Accepted(user.name)))
            }
        }
    }
}
