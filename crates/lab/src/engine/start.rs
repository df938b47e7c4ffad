//! Everything a run needs before its first call: ports, shards, threads.
//!
//! The order matters. Cheap checks of the options come first, then the limits of the system (descriptors, certificates, ports), so that a
//! mistake is reported before anything is bound; then the slow preparation (media files); only then the clock of the run starts. Threads are
//! started last, when every shard is built: a failure until then leaves no thread behind.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;

use lab_sip::call::render::{Addresses, PreparedMessages};
use lab_sip::call::{CallEnv, CallOutbox, ScenarioRole, VariableValue};
use lab_sip::inject::InjectionFiles;
use lab_sip::options::{self, Options};
use lab_sip::rtp;
use lab_sip::scenario::model::ScenarioSource;
use lab_sip::scenario::{Scenario, built_in, compile_text};
use lab_sip::stats::Stats;
use mio::{Poll, Waker};
use parking_lot::{Mutex, RwLock};
use stdx::hash::Keyed;
use stdx::rng::Rng;
use stdx::time::Instant;
use stdx::wheel::Wheel;

use super::bind::{self, BoundSockets};
use super::call_dispatcher::{CallDispatcher, CallEnvs};
use super::calls::Calls;
use super::clock::{Clock, TurnClock};
use super::collector::Collector;
use super::control::RunControl;
use super::limits::REPORTS_A_SHARD;
use super::report::Reporter;
use super::schedule::ShardArrivals;
use super::shard::{LoopPacing, Shard};
use super::shard_hub::{InboxContent, RunPhase, ShardHub, ShardInbox};
use super::shard_sockets::ShardSockets;
use super::stream::StreamConnections;
use super::tls::Tls;
use super::token::{MEDIA, WAKER};
use super::twin::Twins;
use super::user_variables::UserVariables;
use super::{EarlyEnd, Run, Setup, StartError};

/// Starts a run of calls. An error names the limit, port or file, and nothing goes on running.
pub(super) fn start(mut setup: Setup) -> Result<Run, StartError> {
    name_sources(&mut setup)?;
    answer_outside_calls(&mut setup);
    let options = Arc::clone(&setup.options);
    check_target(&setup)?;
    let shards = threads(&options);
    let clock = Clock::new();
    bind::check_descriptors(&options, RunControl::new(&setup, clock.now()).limit(), shards)?;
    let tls = tls(&setup)?;
    let mut bound = bind::bind(&options, shards)?;
    let (polls, doors) = polls(shards).map_err(|error| fatal(bind::explain_socket(&error)))?;
    let mut rng = Rng::from_seed(seed());
    let globals = globals(&setup);
    let media = media(&setup, bound.local, &mut rng)?;
    // The slow steps are done: the first call is due now, and would be late before.
    let started = clock.now();
    let control = RunControl::new(&setup, started + options.behaviour.start_after);
    let hub = hub(&setup, &control, Keyed::new(key(&mut rng)), doors);
    let (sender, receiver) = sync_channel(REPORTS_A_SHARD * shards);
    let common = ShardParts {
        setup: &setup,
        hub: &hub,
        clock,
        started,
        control: &control,
        globals,
        tls,
        media,
        addresses: addresses(&setup, bound.local),
        shared_local: Arc::default(),
    };
    let mut built = Vec::new();
    for (index, poll) in polls.into_iter().enumerate() {
        built.push(common.shard(index, poll, &mut bound, rng.fork(), sender.clone())?);
    }
    built[0].dispatcher.initialise(clock.now()).map_err(fatal)?;
    let collector = Collector::new(receiver, shards, common.empty_stats());
    let mut run = Run {
        hub: Arc::clone(&hub),
        clock,
        setup: setup.clone(),
        started,
        local: bound.local,
        control: Mutex::new(control),
        collector,
        threads: Vec::new(),
        early: EarlyEnd::default(),
        users: None,
        workers: None,
    };
    setup.tracer.begin(started);
    for shard in built {
        let thread = std::thread::Builder::new().name(format!("shard-{}", shard.dispatcher.index));
        let thread = thread.spawn(move || shard.run());
        run.threads.push(thread.map_err(|error| fatal(format!("cannot start a thread: {error}")))?);
    }
    Ok(run)
}

/// The state that the shards share, as it is before the first of them runs.
fn hub(setup: &Setup, control: &RunControl, keyed: Keyed, doors: Vec<ShardInbox>) -> Arc<ShardHub> {
    let total = setup.options.rate.total;
    let hub = Arc::new(ShardHub::new(keyed, total, doors));
    hub.limit.store(control.limit(), Ordering::Relaxed);
    hub.users.store(control.users(), Ordering::Relaxed);
    // `-m 0`: as with SIPp the run is over before its first call.
    if total == Some(0) && setup.scenario.starts_calls() {
        hub.advance(RunPhase::Soft);
    }
    hub
}

/// A scenario that begins with `<send>` needs a target, of the command line or by `-rsa`.
fn check_target(setup: &Setup) -> Result<(), StartError> {
    let named = setup.options.remote.is_some() || setup.options.network.remote_sending.is_some();
    if setup.scenario.starts_calls() && !named {
        return Err(fatal("this scenario starts calls: say where to, as HOST or HOST:PORT".to_owned()));
    }
    Ok(())
}

/// `-t ui -ip_field`: the addresses are in the injection file.
fn name_sources(setup: &mut Setup) -> Result<(), StartError> {
    let per_address = setup.options.network.transport.sockets == options::Sockets::PerAddress;
    let Some(field) = setup.options.injection.ip_field.filter(|_| per_address) else { return Ok(()) };
    let mut options = Options::clone(&setup.options);
    options.network.local = setup.files.source_addresses(field).map_err(fatal)?;
    setup.options = Arc::new(options);
    Ok(())
}

/// `-aa` answers outside calls too, unless `-oocsf` says how.
fn answer_outside_calls(setup: &mut Setup) {
    if !setup.options.call.auto_answer || setup.out_of_call.is_some() {
        return;
    }
    let text = built_in("ooc_default").expect("it comes with the program");
    let compiled = compile_text(text.as_bytes(), ScenarioSource::BuiltIn("ooc_default"));
    setup.out_of_call = compiled.ok().map(|compiled| Arc::new(compiled.scenario));
}

/// Certificates, when the transport wants them.
fn tls(setup: &Setup) -> Result<Option<Tls>, StartError> {
    let network = &setup.options.network;
    if !matches!(network.transport.protocol, options::Protocol::Tls | options::Protocol::Wss) {
        return Ok(None);
    }
    Tls::load(&network.tls, !setup.scenario.starts_calls()).map(Some).map_err(fatal)
}

/// Files and ports of media, for all shards.
fn media(setup: &Setup, local: SocketAddr, rng: &mut Rng) -> Result<Arc<rtp::RunMedia>, StartError> {
    let scenarios = [Some(&setup.scenario), setup.receive.as_ref(), setup.out_of_call.as_ref()];
    let scenarios: Vec<&Scenario> = scenarios.into_iter().flatten().map(|scenario| &**scenario).collect();
    rtp::RunMedia::load(&setup.options, &scenarios, local.ip(), rng).map_err(|all| fatal(all.join("\n")))
}

/// The addresses that are the same in every call.
fn addresses(setup: &Setup, local: SocketAddr) -> Addresses {
    let options = &setup.options;
    let one_socket = options.network.transport.sockets == options::Sockets::Shared;
    let one_address = options.network.local.len() < 2;
    let connects = options.network.transport.protocol != options::Protocol::Udp;
    let remote = options.remote.as_ref().filter(|_| setup.scenario.starts_calls() && setup.receive.is_none());
    // With several addresses of the target, each call has its own.
    let remote = remote.filter(|_| options.network.in_turn.len() < 2);
    Addresses {
        local_ip: Some(local.ip()).filter(|_| one_address && !connects),
        local_port: Some(local.port()).filter(|_| one_socket && !connects),
        remote_ip: remote.map(|remote| remote.address.ip()),
        remote_port: remote.map(|remote| remote.address.port()),
        media_ip: options.media.ip,
        pid: run_id(),
        ..Addresses::default()
    }
}

/// The value of `[pid]`: it sets the Call-IDs and branches of one run apart from those of every other. SIPp has one
/// run a process; a plan and a search have several, and a server remembers calls for half a minute. The first run
/// has the process's id, the others numbers that no process has (Linux ends at 2^22).
fn run_id() -> u32 {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    let earlier = RUNS.fetch_add(1, Ordering::Relaxed) % 1_000;
    std::process::id() + earlier * (1 << 22)
}

/// SIPp exits with 255 (-1) for every error that stops it before or during the run, except a failed bind.
pub(super) fn fatal(message: String) -> StartError {
    StartError { message, exit: 255 }
}

/// One a core; commands between instances (3PCC) go through one place.
pub(super) fn threads(options: &Options) -> usize {
    let three_pcc = &options.three_pcc;
    if three_pcc.twin.is_some() || three_pcc.master.is_some() || three_pcc.slave.is_some() {
        return 1;
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    options.threads.unwrap_or_else(cores).clamp(1, usize::from(u8::MAX))
}

/// A poll and an inbox for each shard. They exist before the shards, as each shard must know the inboxes of all.
pub(super) fn polls(shards: usize) -> std::io::Result<(Vec<Poll>, Vec<ShardInbox>)> {
    let mut polls = Vec::new();
    let mut doors = Vec::new();
    for _ in 0..shards {
        let poll = Poll::new()?;
        doors.push(ShardInbox::new(Waker::new(poll.registry(), WAKER)?));
        polls.push(poll);
    }
    Ok((polls, doors))
}

/// From the operating system's randomness, by way of the standard library's hash keys.
pub(super) fn seed() -> [u8; 32] {
    use std::hash::{BuildHasher, RandomState};
    let mut seed = [0; 32];
    for chunk in seed.chunks_mut(8) {
        chunk.copy_from_slice(&RandomState::new().hash_one(chunk.as_ptr() as usize).to_le_bytes());
    }
    seed
}

/// A key for the hash of Call-IDs: a peer must not be able to choose Call-IDs that all fall into one place.
pub(super) fn key(rng: &mut Rng) -> [u8; 16] {
    let mut key = [0; 16];
    rng.fill(&mut key);
    key
}

/// `-set` gives global variables their first values.
fn globals(setup: &Setup) -> Arc<RwLock<Vec<VariableValue>>> {
    let names = &setup.scenario.variables.global;
    let set = &setup.options.behaviour.set;
    let first = |name: &String| {
        // The last `-set` of a name counts.
        let given = set.iter().rfind(|(known, _)| known == name);
        given.map_or(VariableValue::Unset, |(_, value)| VariableValue::Text(value.as_bytes().into()))
    };
    Arc::new(RwLock::new(names.iter().map(first).collect()))
}

/// The parts of a run that its shards are made of.
struct ShardParts<'a> {
    /// Shared by all shards as it is; not changed after the start.
    setup: &'a Setup,
    hub: &'a Arc<ShardHub>,
    clock: Clock,
    /// The start of the run; the first arrival is due `start_after` later.
    started: Instant,
    control: &'a RunControl,
    /// Variables of `<Global>`, in the order of the scenario's names; all calls of all shards see the same values.
    globals: Arc<RwLock<Vec<VariableValue>>>,
    tls: Option<Tls>,
    media: Arc<rtp::RunMedia>,
    /// Values that messages can be rendered with in advance; the others are filled in per call.
    addresses: Addresses,
    /// Our end of the one shared connection. The first shard makes the connection and writes this, the others read it for `[local_port]`.
    shared_local: Arc<Mutex<Option<SocketAddr>>>,
}

impl ShardParts<'_> {
    /// Builds shard `index` with its share of the bound sockets; its thread does not run yet.
    fn shard(
        &self,
        index: usize,
        poll: Poll,
        bound: &mut BoundSockets,
        mut rng: Rng,
        reports: std::sync::mpsc::SyncSender<super::report::ShardReport>,
    ) -> Result<Shard, StartError> {
        let options = &self.setup.options;
        let system = |error: std::io::Error| fatal(bind::explain_socket(&error));
        let number = u16::try_from(index).expect("threads are at most 255");
        let streams = StreamConnections::new(Arc::clone(options), self.tls.clone());
        let local = Arc::clone(&self.shared_local);
        let mut net = ShardSockets::new(Arc::clone(options), bound.local, streams, number, local);
        for listener in std::mem::take(&mut bound.listeners[index]) {
            net.streams.listen(listener, poll.registry()).map_err(system)?;
        }
        for socket in std::mem::take(&mut bound.udp[index]) {
            net.add_shared(socket, &poll).map_err(system)?;
        }
        self.connect_first(&mut net, &poll);
        let registry = poll.registry().try_clone().map_err(system)?;
        let media = rtp::MediaStreams::new(&self.media, index, registry, MEDIA, self.started, rng.fork())
            .map_err(fatal)?;
        let twins = Twins::open(&options.three_pcc, self.setup.scenario.role, poll.registry())
            .map_err(|error| fatal(format!("the other instance (3PCC) cannot be reached: {error}")))?;
        let arrivals = self.arrivals(index, rng.fork());
        let dispatcher = CallDispatcher {
            index: number,
            hub: Arc::clone(self.hub),
            envs: self.envs()?,
            calls: Calls::new(),
            timers: Wheel::new(self.started),
            out: CallOutbox::default(),
            turn: TurnClock::new(self.clock),
            messages: 0,
            answers_all: options.scenario.out_of_call.is_some(),
            users: self.user_variables(index),
            rng,
            stats: self.empty_stats(),
            media,
            net,
            twins,
            poll,
            outgoing: (0..self.hub.doors.len()).map(|_| InboxContent::default()).collect(),
            faults: Vec::new(),
            reporter: Reporter::new(self.started, self.empty_stats()),
        };
        Ok(Shard {
            dispatcher,
            clock: self.clock,
            arrivals,
            arrivals_end: self.arrivals_end(),
            inbox: InboxContent::default(),
            frames: InboxContent::default(),
            rhythm: LoopPacing::default(),
            ramps_users: self.users() > 0,
            reports,
        })
    }

    /// The connection that all calls share is there before the first of them, so that all shards know our end.
    fn connect_first(&self, net: &mut ShardSockets, poll: &Poll) {
        let transport = self.setup.options.network.transport;
        let shared = transport.sockets != options::Sockets::PerCall;
        if shared && transport.is_reliable() && self.setup.scenario.starts_calls() {
            // One that fails at once is tried again by the first call, which is then told.
            let named = self.setup.options.remote.as_ref().map(|remote| remote.address);
            if let Ok(link) = net.link_for_call(named, poll) {
                net.release(link);
            }
        }
    }

    /// A scenario of incoming calls without injection files of its own reads those of the main scenario, as in SIPp.
    fn envs(&self) -> Result<CallEnvs, StartError> {
        let setup = self.setup;
        setup.tracer.begin(self.started);
        let optional = |scenario: &Option<Arc<Scenario>>, files: &Arc<InjectionFiles>, which| {
            scenario.as_ref().map(|scenario| self.env(scenario, files, which)).transpose()
        };
        let receive_files = setup.receive_files.as_ref().unwrap_or(&setup.files);
        Ok(CallEnvs {
            main: self.env(&setup.scenario, &setup.files, ScenarioRole::Main)?,
            receive: optional(&setup.receive, receive_files, ScenarioRole::Receive)?,
            out_of_call: optional(&setup.out_of_call, &setup.files, ScenarioRole::OutOfCall)?,
        })
    }

    fn env(
        &self,
        scenario: &Arc<Scenario>,
        files: &Arc<InjectionFiles>,
        which: ScenarioRole,
    ) -> Result<CallEnv, StartError> {
        let options = &self.setup.options;
        Ok(CallEnv {
            options: Arc::clone(options),
            scenario: Arc::clone(scenario),
            prepared: PreparedMessages::new(scenario, options, &self.addresses, files).map_err(fatal)?,
            files: Arc::clone(files),
            globals: Arc::clone(&self.globals),
            tracer: self.setup.tracer.clone(),
            pid: self.addresses.pid,
            started: self.started,
            which,
        })
    }

    /// A server has no users: `-users` speaks of calls that are started.
    fn users(&self) -> u32 {
        if self.setup.scenario.starts_calls() { self.control.users() } else { 0 }
    }

    /// The users of shard `index`.
    fn user_variables(&self, index: usize) -> UserVariables {
        let slots = self.setup.scenario.variables.user.len();
        UserVariables::new(index, self.hub.doors.len(), self.users(), slots)
    }

    /// `None` where calls are not started by time: servers, and `-users` without `-r`, where the end of one call starts the next. With `-r`
    /// calls of users begin at the rate until each of them has one.
    fn arrivals(&self, index: usize, rng: Rng) -> Option<ShardArrivals> {
        let rate = &self.setup.options.rate;
        if !self.setup.scenario.starts_calls() || (self.control.users() > 0 && !rate.is_given) {
            return None;
        }
        let (schedule, mut shards) = (self.control.schedule(), self.hub.doors.len());
        if self.control.users() > 0 {
            // User `n` is of the shard that has arrival `n`: with fewer users than shards some have neither.
            shards = shards.min(usize::try_from(self.control.users()).unwrap_or(usize::MAX));
            if index >= shards {
                return None;
            }
        }
        // Even arrivals are dealt out by index, every nth to this shard. Poisson needs no dealing: the sum of independent Poisson streams of
        // a fraction of the rate is a Poisson stream of the whole rate.
        Some(match rate.arrivals {
            options::ArrivalPattern::Even => ShardArrivals::even(schedule, index, shards),
            options::ArrivalPattern::Poisson => {
                ShardArrivals::poisson(schedule, shards, rng, schedule.due(0))
            }
        })
    }

    /// The length (`--for`) counts from the first call that is due, not from the start of the process, as `-timeout` does.
    fn arrivals_end(&self) -> Instant {
        let options = &self.setup.options;
        let length = options.rate.duration.map(|length| options.behaviour.start_after + length);
        let first = length.into_iter().chain(options.timers.global).min();
        first.map_or(Instant::FAR_FUTURE, |first| self.started + first)
    }

    /// Counters with a place for each step of each scenario; reports are added place by place, so all shards need the same sizes.
    fn empty_stats(&self) -> Stats {
        let steps = |scenario: &Option<Arc<Scenario>>| scenario.as_ref().map_or(0, |known| known.steps.len());
        let (main, receive, out_of_call) =
            (&self.setup.scenario, &self.setup.receive, &self.setup.out_of_call);
        let (rtds, counters) = (main.rtds.len(), main.counters.len());
        Stats::sized(main.steps.len(), steps(receive), steps(out_of_call), rtds, counters)
    }
}
