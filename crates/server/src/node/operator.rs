//! Serves the operator's requests of the node on the main thread: commands, signals, the end.
//!
//! [`run`] is the process: it opens the listeners of operators, starts the node, begins the tasks of the main thread, serves [`Operator`] as
//! `control::Control` until a signal, a command or the end of a drain, and stops the node.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use admin::live::{LiveAnswer, LiveRequest};
use anyhow::Result;
use chat::SessionEndReason;
use cli::service_manager::ServiceManager;
use config::{Config, listener_text};
use control::{
    BindingRow, BlockList, CallMessages, ChatTrace, ConfigReport, Control, Failure, FailureKind,
    FarmMapStatus, FarmStatus, Listening, NodeState, Observed, OpenCallList, RegistrationPage,
    RegistrationQuery, Reloaded, RosterGroupPage, RosterGroupQuery, StoreStatus, TargetStatus, TraceSink,
    subjects,
};
use logging::Logging;
use logging::sign_in_failures::Service;
use sip::endpoint::TraceEvent;
use stdx::Instant;
use store::{Address, Alias, Loaded, Notice, Read, StoreError, Write, WriteDone};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast, oneshot};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::sleep;

use super::certificates::Certificates;
use super::changes::{NoticeStream, tell_shards};
use super::farm_traces::FarmTraces;
use super::registrations::Registrations;
use super::{
    DRAIN_PATIENCE, Node, call_messages, config_report, due_reads, farm_requests, farm_status, listening,
    lost_calls, object_storage, operator_status, record_sinks, roster_groups, shard_counters, trial_writes,
};
use crate::console::NodeConsole;
use crate::farm::FarmMembership;
use crate::farm::traces::TraceMessages;
use crate::http;
use crate::limits;
use crate::message::{Command, Ended, LocalMessage, OperatorQuestion};
use crate::operate::AdminListeners;
use crate::rest;

/// The interval at which the end of a drain is checked.
const LOOK: Duration = Duration::from_millis(250);
/// The interval of the other checks: a node that has nothing to do wakes seldom.
const LOOK_UNDRAINED: Duration = Duration::from_secs(1);
/// Shards put up their numbers twice a second: idle is what was idle for longer than that.
const QUIET: Duration = Duration::from_millis(1_200);
/// The interval at which certificates are checked, and old rows deleted.
pub(super) const HOUSEKEEPING: Duration = Duration::from_secs(10);
/// The interval of trial writes to the database.
const PROBE: Duration = Duration::from_secs(5);
/// The interval while they fail or are slow.
const PROBE_FAILED: Duration = Duration::from_secs(1);

/// Runs a node until it is drained or stopped.
///
/// # Errors
/// In words for the operator: what cannot be opened or bound, and what to do.
pub fn run(config: Config) -> Result<()> {
    let logging = logging::init(&config.log)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, operate(config, logging))
}

async fn operate(config: Config, logging: Logging) -> Result<()> {
    // First, so that a second node finds out before it opens the database.
    let doors = AdminListeners::open(&config).await?;
    let http_address = doors.http_address()?;
    let node = Node::start_with_listeners(config, &store::sqlite::Options::default(), doors.for_start()?)?;
    let notices = NoticeStream::open(&node)?;
    let (web, rest) = (http::web(&node.shared), node.rest.as_ref().map(|rest| rest.router()));
    let (console, queries) = NodeConsole::new(&node);
    let addresses = (rest.is_some().then(|| doors.rest_address()).transpose()?, doors.console_address()?);
    let services = listening::services(&node.shared.config, http_address, addresses);
    operator_status::announce(&node, &services);
    let certificates = Certificates::begin(&node)?;
    cli::greeting::greet(&node.shared.config, &services);
    let traces = node.shared.farm.as_ref();
    let traces = traces.and_then(|farm| FarmTraces::new(farm, node.outlets.first()?.clone(), node.clock));
    let (farm_traces, of_others) = traces.unzip();
    let operator = Rc::new(Operator {
        node: RefCell::new(node),
        farm_traces,
        logging,
        console,
        services,
        certificates,
        manager: ServiceManager::from_environment(),
        draining: Cell::new(None),
        probed: Cell::new(None),
        leave: Notify::new(),
        drain_begins: Notify::new(),
        plan_due: Notify::new(),
        traced: RefCell::default(),
    });
    serve_traces(&operator, of_others);
    let (status, watching) = control::watch(operator.clone());
    spawn_local(watching);
    if let Some(queries) = queries {
        spawn_local(queries.serve(operator.clone(), status.clone()));
    }
    let pages = operator.console.router();
    super::farm_files::begin(&operator.node.borrow());
    super::removed_voicemail::begin(&operator.node.borrow());
    farm_requests::begin(&operator, operator.node.borrow().shared.farm.as_ref(), &status);
    lost_calls::begin(&operator.node.borrow());
    follow_others(&operator);
    if let Some(notices) = notices {
        spawn_local(operator.clone().follow(notices));
    }
    operator.manager.ready();
    tokio::select! {
        () = doors.serve(operator.clone(), status, (web, rest, pages)) => {}
        () = operator.until_the_end() => {}
    }
    let chat = operator.node.borrow().chat();
    // Shards that hang do not hold up the end.
    let _ = tokio::time::timeout(xmpp_io::limits::XMPP_LINGER, chat.close_rooms()).await;
    operator.node.borrow_mut().stop();
    tracing::info!("stopped");
    Ok(())
}

/// Follows what changes beside the operator: the plan of the farm, groups and accounts of sources, and clients of REST without an account.
fn follow_others(operator: &Rc<Operator>) {
    operator.begin_to_follow_plan();
    super::roster_groups::begin(operator);
    super::file_accounts::follow(operator);
    let node = operator.node.borrow();
    if let Some(rest) = node.rest.clone() {
        spawn_local(rest.follow_clients(Arc::clone(&node.desk)));
    }
}

/// Exports this node's traces, and takes part in those of other nodes of the farm.
fn serve_traces(operator: &Rc<Operator>, messages: Option<TraceMessages>) {
    operator.node.borrow().export_traces();
    if let (Some(traces), Some(messages)) = (&operator.farm_traces, messages) {
        let of_node = Rc::clone(operator);
        let begin = move |account, sink| of_node.begin_trace(account, sink);
        spawn_local(Rc::clone(traces).serve(messages, begin));
    }
}

/// The node, as operators command it. All of its tasks are on the main thread; no borrow of `node` is held across an `await`.
pub(super) struct Operator {
    pub(super) node: RefCell<Node>,
    logging: Logging,
    console: NodeConsole,
    /// All that the node listens at.
    services: Vec<Listening>,
    certificates: Certificates,
    manager: ServiceManager,
    /// The time at which the drain began.
    draining: Cell<Option<Instant>>,
    /// The time of the last trial write to the database; in the future of the clock while one goes on.
    probed: Cell<Option<Instant>>,
    /// A command or a signal ends the node.
    leave: Notify,
    /// Wakes `until_the_end`, which then looks more often.
    drain_begins: Notify,
    /// Domains and routes are to be read again.
    pub(super) plan_due: Notify,
    /// One entry for each trace: two of one account are two.
    traced: RefCell<Vec<Box<str>>>,
    /// None: the node is alone.
    farm_traces: Option<Rc<FarmTraces>>,
}

impl Operator {
    /// Does the housekeeping, and returns when the node is to stop: at once, when it is drained, or when a drain takes too long.
    async fn until_the_end(self: &Rc<Self>) {
        let mut kept_house = self.now();
        let mut busy = self.now();
        let mut pause = Duration::ZERO;
        loop {
            tokio::select! {
                () = self.leave.notified() => return,
                () = self.drain_begins.notified() => {}
                () = sleep(pause) => {}
            }
            pause = if self.draining.get().is_some() { LOOK } else { LOOK_UNDRAINED };
            let now = self.now();
            self.manager.alive();
            self.probe_when_due(now);
            if now.since(kept_house) >= HOUSEKEEPING {
                kept_house = now;
                self.node.borrow().keep_house();
                self.certificates.warn_when_due(&self.node.borrow());
            }
            // Another node of the farm may have asked for it.
            let asked = FarmMembership::is_asked_to_drain;
            let is_asked = self.node.borrow().shared.farm.as_ref().is_some_and(asked);
            if is_asked {
                self.drain();
            }
            let Some(since) = self.draining.get() else {
                busy = now;
                continue;
            };
            if !self.node.borrow().is_idle() {
                busy = now;
            }
            if now.since(busy.max(since)) >= QUIET {
                tracing::info!("drained");
                return;
            }
            if now.since(since) >= DRAIN_PATIENCE {
                tracing::warn!("some transactions did not end; stopping all the same");
                return;
            }
        }
    }

    /// A disk that is full or read-only is told by `/health` before a phone or client has met it, and when it is over.
    fn probe_when_due(self: &Rc<Self>, now: Instant) {
        let store = self.node.borrow().desk.failures();
        let is_well = store.unwritable.is_none() && store.slow.is_none();
        let pause = if is_well { PROBE } else { PROBE_FAILED };
        if self.probed.get().is_some_and(|last| now.since(last) < pause) {
            return;
        }
        self.probed.set(Some(Instant::FAR_FUTURE));
        let operator = Rc::clone(self);
        spawn_local(async move {
            let found = trial_writes::probe(&operator.node, now).await;
            operator.node.borrow().desk.set_unwritable(found);
            operator.probed.set(Some(operator.now()));
        });
    }

    /// The aliases under which shards may have cached what a write changes.
    async fn aliases_of(&self, write: &Write) -> Vec<Address> {
        let Some(account) = Notice::account_with_aliases(write) else { return Vec::new() };
        match self.read(Read::Aliases { account: Some(account.clone()) }).await {
            Ok(Loaded::Aliases(aliases)) => aliases.into_iter().map(|Alias { alias, .. }| alias).collect(),
            _ => Vec::new(),
        }
    }

    /// Handles the changes that other programs make, until the node ends.
    async fn follow(self: Rc<Self>, mut stream: NoticeStream) {
        while let Some(notices) = stream.next().await {
            let is_any = notices.contains(&Notice::Everything);
            if is_any {
                // Before sessions end: no client may come back by a password that is cached under an alias.
                self.node.borrow().tell(|| Command::ForgetAccount(None));
            }
            for notice in &notices {
                tell_shards(&self.node.borrow().outlets, notice, &[], None);
            }
            if is_any || notices.contains(&Notice::Plan) {
                due_reads::set_plan_due(&self);
            }
            if is_any || notices.contains(&Notice::Numbers) {
                due_reads::set_numbers_due(&self);
            }
        }
    }

    /// The answers of all shards; one that ends gives none.
    pub(super) async fn ask_shards<T>(&self, command: impl Fn(oneshot::Sender<T>) -> Command) -> Vec<T> {
        let mut asked = Vec::new();
        for outlet in &self.node.borrow().outlets {
            let (answer, answered) = oneshot::channel();
            outlet.answer_all(&mut vec![LocalMessage::Command(command(answer)).into()]);
            asked.push(answered);
        }
        let mut answers = Vec::new();
        for answered in asked {
            answers.extend(answered.await.ok());
        }
        answers
    }

    /// Traces an account at this node. False: too many traces.
    fn begin_trace(self: &Rc<Self>, account: Box<str>, sink: TraceSink) -> bool {
        if self.traced.borrow().len() >= limits::TRACES {
            return false;
        }
        self.traced.borrow_mut().push(account.clone());
        set_traced(self);
        spawn_local(Rc::clone(self).feed(account, sink));
        true
    }

    /// Ends with the command that reads, or with the node.
    async fn feed(self: Rc<Self>, account: Box<str>, sink: TraceSink) {
        let (mut events, mut chat, name) = {
            let node = self.node.borrow();
            let name = call_messages::party_names(&node.shared.config);
            (node.traces.subscribe(), node.chat_traces.subscribe(), name)
        };
        while let Some(event) = next_event(&mut events, &mut chat, &sink).await {
            match event {
                Traced::Sip(event) if event.account == account => {
                    let (now, from, to) = (self.now(), name(event.from), name(event.to));
                    match event.traced {
                        sip::endpoint::Traced::Message => sink.message(now, &from, &to, &event.bytes),
                        sip::endpoint::Traced::Refused(transport) => {
                            let transport = sip::transport::via_token(transport);
                            sink.refused(now, &from, &to, transport, &event.bytes);
                        }
                    }
                }
                Traced::Chat(trace) if trace.account == account => sink.chat(self.now(), &trace),
                Traced::Sip(_) | Traced::Chat(_) => {}
            }
        }
        let mut traced = self.traced.borrow_mut();
        if let Some(place) = traced.iter().position(|other| *other == account) {
            traced.remove(place);
        }
        drop(traced);
        set_traced(&self);
    }
}

fn set_traced(operator: &Operator) {
    // Each message is told once for an account, however many traces of it there are: all of them hear it.
    let mut accounts = operator.traced.borrow().clone();
    accounts.sort_unstable();
    accounts.dedup();
    let accounts: Vec<_> = accounts.iter().map(|account| call_messages::traced_account(account)).collect();
    operator.node.borrow().tell(|| Command::Trace(accounts.clone()));
}

enum Traced {
    Sip(Arc<TraceEvent>),
    Chat(Arc<ChatTrace>),
}

/// `None`: the reader has gone.
async fn next_event(
    events: &mut broadcast::Receiver<Arc<TraceEvent>>,
    chat: &mut broadcast::Receiver<Arc<ChatTrace>>,
    sink: &TraceSink,
) -> Option<Traced> {
    loop {
        let event = tokio::select! {
            event = events.recv() => event.map(Traced::Sip),
            trace = chat.recv() => trace.map(Traced::Chat),
            () = sink.closed() => return None,
        };
        match event {
            Ok(event) => return Some(event),
            Err(RecvError::Lagged(missed)) => sink.miss(missed),
            Err(RecvError::Closed) => return None,
        }
    }
}

impl Control for Operator {
    fn now(&self) -> Instant {
        self.node.borrow().clock.now()
    }

    async fn status(&self) -> Observed {
        let node = self.node.borrow();
        let config = &node.shared.config;
        let (writes, reads) = node.store.waiting();
        let down = node.board.down();
        let (panics, lost_messages, lost_records) = node.board.faults();
        let mut shards: Vec<_> =
            (0..).zip(node.board.shards()).map(|(shard, now)| shard_counters::of(shard, &now)).collect();
        // Counted for the whole process; told with the first shard.
        if let Some(first) = shards.first_mut() {
            first.panics = panics;
            first.shard_messages_lost = lost_messages;
            first.records_lost = lost_records;
        }
        let probed = node.shared.plan.probed().into_iter().map(|peer| peer.to_string());
        Observed {
            state: if self.draining.get().is_some() { NodeState::Draining } else { NodeState::Running },
            listeners: config.sip.listen.iter().map(|listener| listener_text(listener).into()).collect(),
            services: self.services.clone(),
            domains: node.shared.domains.clone(),
            shards,
            certificate: self.certificates.status(&node),
            admissions: operator_status::admissions(&node),
            sign_in_failures: operator_status::sign_in_failures(&node),
            store: StoreStatus {
                writes_waiting: writes as u64,
                reads_waiting: reads as u64,
                ..node.desk.failures()
            },
            farm: node.farm_status(),
            call_exports: record_sinks::status(&node.record_sinks, node.clock.now()),
            telemetry: node.call_traces.status(),
            object_storage: node.shared.storage.as_deref().map(object_storage::status),
            targets: probed
                .map(|target| TargetStatus { up: !down.contains(&target), target: target.into() })
                .collect(),
            council_away: node.shared.farm.as_ref().and_then(|farm| farm.board().away()),
        }
    }

    async fn reload(&self) -> Result<Reloaded, String> {
        let mut node = self.node.borrow_mut();
        let old = node.shared.config.clone();
        let new = old.reload().map_err(|error| error.to_string())?;
        let needs_restart = old.needs_restart(&new).into_iter().map(Box::from).collect();
        // All is checked before any of it changes: a reload that fails changes nothing.
        logging::check(&new.log).map_err(|error| error.to_string())?;
        let log = new.log.clone();
        node.reconfigure(new).map_err(|error| format!("{error:#}"))?;
        self.logging.reload(&log).map_err(|error| error.to_string())?;
        self.certificates.handle_config(&node.shared.config);
        self.console.reconfigure(&node.shared.config);
        node.shared.chat.groups.handle_reload();
        Ok(Reloaded { needs_restart })
    }

    fn config_report(&self) -> ConfigReport {
        config_report::read(&self.node.borrow().shared.config)
    }

    fn drain(&self) {
        if self.draining.get().is_none() {
            self.draining.set(Some(self.now()));
            self.manager.stopping();
            self.drain_begins.notify_one();
            self.node.borrow().drain();
        }
    }

    fn stop(&self) {
        self.leave.notify_one();
    }

    fn trace(self: Rc<Self>, account: &Address, sink: TraceSink, farm: bool) -> bool {
        let account: Box<str> = account.to_string().into();
        let sink = match self.farm_traces.as_ref().filter(|_| farm) {
            Some(traces) => traces.collect(&account, sink),
            None => sink,
        };
        self.begin_trace(account, sink)
    }

    async fn bindings(&self, account: &Address) -> Vec<BindingRow> {
        let now = self.now();
        let bindings = Registrations(self).of(account).await;
        bindings.into_iter().map(|binding| operator_status::binding_row(binding, now)).collect()
    }

    fn farm(&self) -> Option<FarmStatus> {
        self.node.borrow().farm_status()
    }

    fn farm_map(&self) -> Option<FarmMapStatus> {
        let node = self.node.borrow();
        let farm = node.shared.farm.as_ref()?;
        Some(farm_status::map(&farm.name, &*farm.board().view()?))
    }

    fn drain_farm_node(&self, name: &str) -> Result<(), Failure> {
        match &self.node.borrow().shared.farm {
            Some(farm) => farm.drain_node(name),
            None => {
                Err(Failure::new(FailureKind::Invalid, "this node is in no farm: [farm] name is not set"))
            }
        }
    }

    async fn open_calls(&self, account: Option<&str>) -> OpenCallList {
        let ask =
            |answer| Command::Ask(OperatorQuestion::OpenCalls { account: account.map(Into::into), answer });
        OpenCallList::joined(self.ask_shards(ask).await)
    }

    async fn call_messages(&self, call_id: &str) -> CallMessages {
        call_messages::of(self, call_id).await
    }

    async fn registrations(&self, query: &RegistrationQuery) -> RegistrationPage {
        Registrations(self).page(query).await
    }

    fn roster_groups(&self, query: &RosterGroupQuery) -> RosterGroupPage {
        roster_groups::page(&self.node.borrow(), query)
    }

    async fn end_registration(&self, account: &Address, contact: &str) -> Result<(), Failure> {
        Registrations(self).end(account, contact).await
    }

    async fn blocks(&self) -> BlockList {
        let shards = self.ask_shards(|answer| Command::Ask(OperatorQuestion::Blocks { answer })).await;
        let (node, now) = (self.node.borrow(), self.now());
        let mut blocks: Vec<_> =
            shards.into_iter().flatten().map(|block| (Service::Sip.name(), block)).collect();
        if let Some(access) = node.shared.access.get() {
            blocks.extend(access.attempts.blocks(now).into_iter().map(|block| (Service::Xmpp.name(), block)));
            let components = access.wrong_secrets.blocks(now).into_iter();
            blocks.extend(components.map(|block| (Service::Components.name(), block)));
        }
        if let Some(rest) = &node.rest {
            blocks.extend(rest.blocks().into_iter().map(|block| (Service::Rest.name(), block)));
        }
        BlockList::new(blocks.into_iter().chain(self.console.blocks()))
    }

    async fn lift_block(&self, subject: &str) -> u64 {
        let domain = self.node.borrow().shared.config.sip.default_domain.clone();
        let (subject, of_rest) = subjects(subject, &domain);
        let lift = |answer| Command::Ask(OperatorQuestion::LiftBlock { subject: subject.clone(), answer });
        let mut lifted: usize = self.ask_shards(lift).await.into_iter().sum();
        let (node, now) = (self.node.borrow(), self.now());
        if let Some(access) = node.shared.access.get() {
            lifted += access.attempts.lift(now, &subject) + access.wrong_secrets.lift(now, &subject);
        }
        if let Some(rest) = &node.rest {
            lifted += rest.lift_block(&of_rest);
        }
        (lifted + self.console.lift_block(&subject)) as u64
    }

    async fn end_call(&self, call: &str) -> Result<(), Failure> {
        let ended = self.live(LiveRequest::end_of_call(call)).await;
        ended.map(drop).map_err(|error| farm_requests::failure_of_call(error, call))
    }

    async fn live(&self, request: LiveRequest) -> Result<LiveAnswer, admin::ControlError> {
        let live = rest::LiveObjects::new(&self.node.borrow());
        // It waits for shards.
        let answer = tokio::task::spawn_blocking(move || live.perform(request)).await;
        answer.unwrap_or(Err(admin::ControlError::Busy))
    }

    async fn ask_nodes(&self, request: &control::Request) -> Option<control::OtherNodes> {
        let requester = self.node.borrow().shared.farm.as_ref().map(FarmMembership::requester)?;
        requester.ask(request).await
    }

    async fn read(&self, read: Read) -> Result<Loaded, StoreError> {
        if let Some(loaded) = self.read_of_farm(&read).await {
            return loaded;
        }
        let answer = {
            let node = self.node.borrow();
            let begun = node.desk.begin_read(|ticket| node.store.read(read, ticket));
            begun.map_err(|store::Busy| StoreError::Closed)?
        };
        answer.await.unwrap_or(Err(StoreError::Closed))
    }

    async fn write(&self, write: Write) -> Result<WriteDone, StoreError> {
        self.check_write(&write)?;
        let (notice, aliases) = (Notice::of(&write), self.aliases_of(&write).await);
        let answer = {
            let node = self.node.borrow();
            let begun = node.desk.begin_write(|ticket| node.store.write(write, ticket));
            begun.map_err(|store::Busy| StoreError::Closed)?
        };
        let done = answer.await.unwrap_or(Err(StoreError::Closed))?;
        if let Some(notice) = &notice {
            tell_shards(&self.node.borrow().outlets, notice, &aliases, Some(&done));
        }
        if notice == Some(Notice::Plan)
            && let Err(error) = due_reads::replan(self)
        {
            return Err(StoreError::Internal {
                detail: format!("written, but the node goes on with the old routes: {error:#}"),
            });
        }
        Ok(done)
    }

    async fn chat(&self, ask: admin::chat::Ask) -> Result<admin::chat::Answer, admin::ControlError> {
        let chat = self.node.borrow().chat();
        chat.perform(self.now(), ask).await
    }

    fn passwords_changed(&self, accounts: Vec<Address>) {
        let accounts = accounts.iter().map(|account| account.to_string().into()).collect();
        let ended = Arc::new(Ended { accounts, ending: SessionEndReason::Changed, roster: Vec::new() });
        self.node.borrow().tell(|| Command::EndSessions(Arc::clone(&ended)));
    }

    fn accounts_changed(&self) {
        if let Err(error) = due_reads::replan(self) {
            tracing::error!("domains could not be read again: {error:#}");
        }
        due_reads::set_numbers_due(self);
    }

    fn audit(&self, change: control::CommandAudit<'_>) {
        operator_status::audit(change);
    }
}
