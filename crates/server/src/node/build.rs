//! From configuration and database to the parts of a node, without state. A reload calls the same functions again.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use ::object_storage::ObjectStorage;
use anyhow::{Context, Result, anyhow};
use call::{Health, HealthSettings, Ledger, LedgerSettings, Plan, PlanSettings};
use cluster::{Bucket, Inbox, Life, Outlet, ShardAddress, ShardMap};
use config::Config;
use external_auth::Authenticator;
use hep::CaptureAgent;
use logging::sign_in_failures::SignInFailures;
use net::admission::Admissions;
use net::clock::Clock;
use net::tickets::TicketKeys;
use net::tls::{self, Tls, TlsFiles};
use net::{CaptureSettings, Io, Listener, NetSettings};
use router::{Router, RouterSettings};
use sip::endpoint::{Endpoint, EndpointSettings};
use sip::events::WatchPolicy;
use stdx::Instant;
use store::{Database, Loaded, Read, Reader, Service, Store, Write, WriteDone};
use voice_io::helpers::{self, Deliver, Helpers};
use voice_io::recordings::Files;
use voice_io::{NodeVoice, ShardVoice};
use xmpp_io::uploads::Uploads;

use super::completions::StoreCompletions;
use super::playable_recordings::PlayableRecordings;
use super::{CallTraces, Node, certificates, looks, object_storage, xmpp};
use crate::farm::FarmMembership;
use crate::farm::plan::StoredPlan;
use crate::message::InboxMessage;
use crate::routes;
use crate::shard::voice::HelperResults;
use crate::shard::{AccountSource, CallerProof, Reload, Shard, ShardDeps, ShardSelector, run_on_this_thread};
use crate::waiting::StartListeners;

/// The parts that all shards are made from.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) plan: Arc<Plan>,
    /// Domains and routes of which the plan is made; none: an edge waits for those of the farm.
    pub(crate) stored: Option<Arc<StoredPlan>>,
    pub(crate) route_peers: Arc<sip::endpoint::RoutePeers>,
    /// Configured and added ones.
    pub(crate) domains: Vec<Box<str>>,
    /// The root of tags, branches and nonces: of the farm, else of the database, so that it outlives a restart.
    pub(super) secret: [u8; 32],
    /// Drawn at each start: the keys of hash tables, so that peers cannot choose colliding keys.
    seed: [u8; 32],
    pub(super) started: Instant,
    pub(super) clock: Clock,
    pub(super) uploads: Option<Arc<Uploads>>,
    /// The store that gets uploads and recordings.
    pub(super) storage: Option<Arc<ObjectStorage>>,
    /// Connections by source, of all shards.
    pub(crate) admissions: Admissions,
    /// Failed sign-ins of all services.
    pub(crate) failures: Arc<SignInFailures>,
    /// The sources of sign-ins outside the database. `None`: there are none.
    pub(crate) authenticator: Option<Arc<Authenticator>>,
    /// One for all shards, made with the first.
    pub(crate) access: std::sync::OnceLock<Arc<crate::xmpp::access::Access>>,
    /// The parameters of accounts that clients see before they sign in, as of the node's start.
    pub(super) looks: ::xmpp::sasl::UnknownAccounts,
    /// Block lists, webhooks and bytestreams of chat, for all shards.
    pub(super) chat: xmpp::ProcessChat,
    /// `None`: the node is alone.
    pub(crate) farm: Option<FarmMembership>,
}

/// The life of a node outside a farm. Nothing of an earlier process reaches it, so one will do.
const LIFE: Life = Life(0);

impl Shared {
    /// This start of the node.
    pub(crate) fn life(&self) -> Life {
        self.farm.as_ref().map_or(LIFE, |farm| farm.life)
    }

    /// The responsible shards.
    pub(crate) fn map(&self) -> ShardMap {
        ShardMap::of_process(self.life(), self.config.server.shards)
    }

    /// The database with the writes of this life only, where nodes share it.
    pub(super) fn fenced(&self, database: Database) -> Database {
        match &self.farm {
            Some(farm) if farm.shares_database => database.fenced_by(farm.life.0),
            _ => database,
        }
    }

    /// The place of the accounts that the shards need.
    fn account_source(&self) -> AccountSource {
        if self.farm.as_ref().is_some_and(|farm| farm.asks_owners) {
            AccountSource::Owners
        } else if self.config.store.url.is_some() {
            AccountSource::Server
        } else {
            AccountSource::File
        }
    }

    pub(crate) fn read(
        config: Config,
        database: &Database,
        clock: Clock,
        listeners: StartListeners,
    ) -> Result<Self> {
        let (mut fresh, mut seed) = ([0; 32], [0; 32]);
        getrandom::fill(&mut fresh).context("the system gives no randomness")?;
        getrandom::fill(&mut seed).context("the system gives no randomness")?;
        let mut writer = database.writer()?;
        let own = writer.secret("sip", fresh)?;
        let farm = FarmMembership::join(&config, database, clock, listeners)?;
        // Nodes of a farm recognise each other's dialogs, nonces and branches.
        let secret = farm.as_ref().map_or(own, |farm| farm.secret.derive("sip"));
        for name in &config.sip.domains {
            // "Exists" is what is wanted.
            let _ = writer.write_group(&[Write::AddDomain { name: name.clone(), created_at: clock.now() }]);
        }
        keep_digests(&config, &mut *writer)?;
        let plan =
            Arc::new(Plan::new(&PlanSettings::default(), Vec::new()).map_err(|error| anyhow!("{error}"))?);
        let node = farm.as_ref().map(|farm| farm.node.clone());
        let storage = object_storage::start(&config)?;
        let uploads = xmpp::uploads(&config, (&secret, node), (clock, database), storage.clone())?;
        let authenticator = Authenticator::start(&config.accounts.sources)?.map(Arc::new);
        let admissions = Admissions::new();
        let chat = xmpp::ProcessChat::start(&config, &admissions, database)?;
        let mut shared = Shared {
            config,
            plan,
            stored: None,
            route_peers: Arc::default(),
            domains: Vec::new(),
            secret,
            seed,
            started: clock.now(),
            clock,
            uploads,
            storage,
            admissions,
            failures: Arc::new(SignInFailures::default()),
            authenticator,
            access: std::sync::OnceLock::new(),
            looks: ::xmpp::sasl::UnknownAccounts::default(),
            chat,
            farm,
        };
        let follows = shared.farm.as_ref().is_some_and(|farm| farm.follows_plan);
        let stored = if follows { None } else { Some(Arc::new(StoredPlan::read(database)?)) };
        shared.set_plan(stored)?;
        shared.looks = looks::read(&mut *database.reader()?, &shared.domains)?;
        Ok(shared)
    }

    /// Serves these domains and routes, and the configuration's, from now on. None: those of the farm are not known yet.
    pub(super) fn set_plan(&mut self, stored: Option<Arc<StoredPlan>>) -> Result<()> {
        let sip = &self.config.sip;
        let mut domains = vec![sip.default_domain.clone()];
        domains.extend(sip.domains.iter().filter(|name| **name != sip.default_domain).cloned());
        let (added, routes) = match &stored {
            Some(stored) => (&*stored.domains, &*stored.routes),
            None => Default::default(),
        };
        domains.extend(added.iter().filter(|name| !sip.domains.contains(name)).cloned());
        self.plan = Arc::new(compile(&self.config, &domains, routes, stored.is_none())?);
        self.route_peers =
            Arc::new(sip::endpoint::RoutePeers::new(routes::peers(routes), routes::certificates(routes)));
        self.domains = domains;
        self.stored = stored;
        Ok(())
    }
}

/// Writers keep digests from now on, or drop them.
fn keep_digests(config: &Config, writer: &mut dyn store::Writer) -> Result<()> {
    let written = writer.write_group(&[Write::KeepDigests(config.accounts.digests)]);
    let left = match written.into_iter().next() {
        Some(Ok(WriteDone::Changed { rows })) => rows,
        Some(Err(error)) => return Err(error).context("digests of passwords cannot be removed"),
        _ => 0,
    };
    config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    if left > 0 {
        tracing::warn!(
            accounts = left,
            "these have nothing but digests, which stay until they sign in to chat by PLAIN or get a new password"
        );
    }
    Ok(())
}

/// The spelling of domains with other letters than ASCII in SIP and certificates.
fn spellings(domains: &[Box<str>]) -> Vec<(Box<str>, Box<str>)> {
    let spelled = domains.iter().filter_map(|domain| {
        let ascii = ::xmpp::domain::to_ascii(domain).filter(|ascii| **ascii != **domain)?;
        Some((ascii.into(), domain.clone()))
    });
    spelled.collect()
}

/// A route that cannot be is left out and said so: one mistake must not take the others down.
fn compile(config: &Config, domains: &[Box<str>], routes: &[store::Route], is_awaited: bool) -> Result<Plan> {
    let alone = |route: call::Route| match Plan::new(&PlanSettings::default(), vec![route.clone()]) {
        Ok(_) => Ok(route),
        Err(problem) => Err(problem.to_string()),
    };
    let sound = routes.iter().filter_map(|route| match control::routes::to_plan(route).and_then(alone) {
        Ok(route) => Some(route),
        Err(problem) => {
            tracing::error!(route = %route.name, %problem, "this route is left out");
            None
        }
    });
    let missing = config.unverifiable_certificates();
    for warning in routes.iter().filter_map(|route| control::routes::unverifiable(route, missing)) {
        tracing::warn!("{warning}");
    }
    let local = addresses(config).into_iter().map(|listener| listener.address).collect();
    let settings = PlanSettings {
        domains: domains.to_vec(),
        spellings: spellings(domains),
        default_domain: Some(config.sip.default_domain.clone()),
        names: config.sip.advertise.iter().cloned().collect(),
        local,
        is_awaited,
    };
    Plan::new(&settings, sound.collect()).map_err(|error| anyhow!("{error}"))
}

/// Listening addresses with `0.0.0.0` and `[::]` written out as what the machine has.
pub(crate) fn addresses(config: &Config) -> Vec<Listener> {
    let mut all = Vec::new();
    for listener in &config.sip.listen {
        if !listener.address.ip().is_unspecified() {
            all.push(*listener);
            continue;
        }
        let own = if_addrs::get_if_addrs().unwrap_or_default();
        let family = own
            .iter()
            .map(|interface| interface.ip())
            .filter(|ip| ip.is_ipv4() == listener.address.is_ipv4());
        all.extend(family.map(|ip| Listener {
            transport: listener.transport,
            address: SocketAddr::new(ip, listener.address.port()),
        }));
    }
    all
}

/// The certificate's files, made when none are configured and a listener needs them.
pub(crate) fn certificates(shared: &Shared) -> Result<Option<Arc<Tls>>> {
    let config = &shared.config;
    let named = config.tls.certificate.clone().zip(config.tls.key.clone());
    let named =
        named.map(|(certificate, key)| TlsFiles { certificate, key, authorities: config.tls.ca.clone() });
    let files = match named.or_else(|| certificates::ordered_files(config)) {
        Some(files) => files,
        None => {
            let names = own_names(config);
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            let made = tls::own_certificate(&config.server.data, &names)?;
            TlsFiles { authorities: config.tls.ca.clone(), ..made }
        }
    };
    Ok(Some(Tls::load(files, TicketKeys::new(shared.secret, shared.clock))?))
}

/// The names that clients may reach this node by: of its domains, and hosts and addresses that the configuration tells or listens at.
fn own_names(config: &Config) -> Vec<Box<str>> {
    let spelled = |name: &str| ::xmpp::domain::to_ascii(name).unwrap_or_default().into();
    let mut names: Vec<Box<str>> = config.sip.domains.iter().map(|name| spelled(name)).collect();
    names.extend(["localhost", "127.0.0.1", "::1"].map(Box::from));
    names.extend(config.sip.advertise.clone());
    let listeners = config.sip.listen.iter().chain(&config.xmpp.listen).map(|listener| listener.address);
    let hosts = listeners.chain(config.console.listen).map(|address| address.ip());
    // The unspecified address stands for those of the machine, which change.
    names.extend(hosts.filter(|ip| !ip.is_unspecified()).map(|ip| ip.to_string().into()));
    let mut known = std::collections::HashSet::new();
    names.retain(|name| known.insert(name.clone()));
    names
}

/// Every binding and every count of kept messages back into the router that owns it. `store` hears which rows of the log
/// of bindings are dead. Routers of nodes that share a database begin empty: the farm orders which buckets they load.
pub(crate) fn routers(
    shared: &Shared,
    reader: &mut dyn Reader,
    store: &Service,
    now: Instant,
) -> Result<Vec<Router>> {
    let map = shared.map();
    let mut hash_key = [0; 16];
    hash_key.copy_from_slice(&shared.seed[16..]);
    let settings = RouterSettings { tells_presence: shared.config.xmpp.is_on(), ..RouterSettings::default() };
    let mut routers: Vec<Router> = map.all().map(|_| Router::new(settings.clone(), hash_key, now)).collect();
    if shared.config.shares_database() {
        return Ok(routers);
    }
    let (mut damaged, mut dead) = (0_u64, Vec::new());
    let rows = reader.replay(&mut |row| {
        let owner = router::aor_of_record(row.record).map(|aor| map.owner(Bucket::of(aor)).shard);
        let replayed = owner
            .and_then(|owner| routers[usize::from(owner)].replay(now, row.seq, row.record, &[], &mut dead));
        damaged += u64::from(replayed.is_err());
    })?;
    if damaged > 0 {
        tracing::error!(
            damaged,
            "bindings in the log could not be read and are lost until their phones refresh"
        );
    }
    if let Loaded::KeptCounts(counts) = reader.load(&Read::KeptCounts)? {
        for (aor, count) in counts {
            routers[usize::from(map.owner(Bucket::of(&aor)).shard)].seed_kept(&aor, count);
        }
    }
    let bindings: usize = routers.iter().map(|router| router.counts().bindings).sum();
    tracing::info!(rows, dead = dead.len(), bindings, "read the log of bindings");
    // The queue is empty: no shard runs yet.
    let _ = store.write(Write::ForgetBindings { rows: dead.into() }, None);
    Ok(routers)
}

/// Says so when another process is there, before half the traffic goes to each.
pub(crate) fn check_addresses(config: &Config) -> Result<()> {
    let chat = [&config.xmpp.listen, &config.federation.listen, &config.xmpp.components.listen];
    // Other nodes of the farm may listen at the same addresses.
    if !config.farm.shares_ports {
        for listener in config.sip.listen.iter().chain(chat.into_iter().flatten()) {
            Io::check_free(listener)?;
        }
    }
    if let Some(ip) = config.voice.media {
        std::net::UdpSocket::bind((ip, 0)).with_context(|| {
            format!("cannot receive sound at {ip}; [voice] media is an address of this machine, and the one that phones are told is media_advertise")
        })?;
    }
    Ok(())
}

fn endpoint_settings(shared: &Shared, shard: usize) -> EndpointSettings {
    let sip = &shared.config.sip;
    let seconds = |duration: std::time::Duration| u32::try_from(duration.as_secs()).unwrap_or(u32::MAX);
    let listeners = addresses(&shared.config)
        .iter()
        .map(|listener| {
            let mut named = sip::endpoint::Listener::new(listener.transport, listener.address);
            if let Some(host) = &sip.advertise {
                named.advertised =
                    format!("{}:{}", config::host_in_uri(host), listener.address.port()).into();
            }
            named
        })
        .collect();
    let mut table_seed = [0; 16];
    table_seed.copy_from_slice(&shared.seed[..16]);
    EndpointSettings {
        edge: ShardAddress::new(shared.life(), u16::try_from(shard).unwrap_or(0)),
        listeners,
        domains: shared.domains.clone(),
        spellings: spellings(&shared.domains),
        timer_c: sip.timer_c,
        secret: shared.secret,
        table_seed,
        registrar: sip::registrar::RegistrarRules {
            min_expires: seconds(sip.min_expires),
            max_expires: seconds(sip.max_expires),
            default_expires: seconds(sip.default_expires),
            max_contacts: sip.max_contacts as usize,
        },
        digest: sip::digest::DigestSettings { hashes: sip.algorithms.clone(), ..Default::default() },
        events: sip::events::EventRules {
            chat: shared.config.xmpp.is_on(),
            watching: sip.watching.unwrap_or(if shared.config.xmpp.is_on() {
                WatchPolicy::Contacts
            } else {
                WatchPolicy::Accounts
            }),
            ..Default::default()
        },
        service_route: "".into(),
        unproved_requests: stdx::rate::Rate::per_second(
            sip.unproved_requests,
            sip.unproved_requests.saturating_mul(10),
        ),
        flow_timer: seconds(sip.tcp_idle),
        trust: sip.trust.clone(),
        route_peers: Arc::clone(&shared.route_peers),
        failover_on_redirect: sip.failover_on_redirect,
        tcp_for_large_requests: sip.tcp_for_large_requests,
    }
}

pub(crate) fn reload_of(shared: &Shared, shard: usize) -> Reload {
    Reload {
        settings: endpoint_settings(shared, shard),
        proof: proof(&shared.config),
        default_max_contacts: shared.config.sip.max_contacts as usize,
        records: shared.config.calls.records,
        xmpp: xmpp::reload_of(shared),
        capture: capture(shared),
    }
}

/// The capture server, and what it is sent; `None`: nothing.
fn capture(shared: &Shared) -> Option<CaptureSettings> {
    let hep = &shared.config.hep;
    let password = hep.password.as_ref().map(|password| password.0.clone()).unwrap_or_default();
    let agent = Arc::new(CaptureAgent { id: hep.capture_id, password });
    hep.server.map(|server| CaptureSettings { server, agent, percent: hep.percent, clock: shared.clock })
}

fn proof(config: &Config) -> CallerProof {
    if config.sip.authenticate_calls { CallerProof::Required } else { CallerProof::Waived }
}

fn net_settings(shared: &Shared, tls: Option<Arc<Tls>>) -> NetSettings {
    let config = &shared.config;
    NetSettings {
        admission: Arc::clone(&shared.admissions.sip),
        udp_receive_buffer: config.sip.udp_receive_buffer,
        max_flows: config.limits.connections as usize,
        shares_ports: config.farm.shares_ports,
        max_flows_per_source: config.limits.connections_per_source as usize,
        flow_idle: config.sip.tcp_idle,
        tls,
        client_certificates: config.tls.client_certificates,
        ws_origins: config.sip.websocket_origins.clone(),
        proxies: config.sip.websocket_proxies.clone(),
        capture: capture(shared),
        nameservers: config.sip.nameservers.clone(),
        ..NetSettings::default()
    }
}

fn probing(shared: &Shared) -> HealthSettings {
    let routes = &shared.config.routes;
    HealthSettings { interval: routes.probe_interval, failures: routes.probe_failures }
}

/// An endpoint whose calls have ladders.
fn remembering_endpoint(settings: EndpointSettings, now: Instant) -> Endpoint {
    let mut endpoint = Endpoint::new(settings, now);
    sip::endpoint::remember_calls(&mut endpoint, now);
    endpoint
}

/// A shard on its own thread; returns when it listens, or why it cannot.
pub(crate) fn start_shard(
    node: &Node,
    number: usize,
    router: Router,
    inbox: Inbox<InboxMessage>,
) -> Result<JoinHandle<()>> {
    let (shared, now) = (&node.shared, node.clock.now());
    let settings = endpoint_settings(shared, number);
    let parts = ShardDeps {
        edge: settings.edge,
        map: shared.map(),
        clock: node.clock,
        endpoint: remembering_endpoint(settings, now),
        router,
        ledger: Ledger::new(LedgerSettings::default(), now),
        health: (number == 0).then(|| Health::new(probing(shared), now.as_micros())),
        plan: Arc::clone(&shared.plan),
        proof: proof(&shared.config),
        default_max_contacts: shared.config.sip.max_contacts as usize,
        records: shared.config.calls.records,
        record_sinks: node.record_sinks.clone(),
        store: Arc::clone(&node.store),
        accounts: shared.account_source(),
        inbox,
        outlets: node.outlets.clone(),
        board: Arc::clone(&node.board),
        voice: voice(node, number)?,
        xmpp: xmpp::settings(shared, (node.tls.clone(), node.clock), &node.chat_traces)?,
        chat: node.chat(),
        farm: shared.farm.as_ref().map(|farm| farm.shard(number)),
        traces: node.traces.clone(),
        failures: Arc::clone(&shared.failures),
    };
    let net = NetSettings { tap: node.call_traces.tap(), ..net_settings(shared, node.tls.clone()) };
    let (receive_buffer, listen) = (net.udp_receive_buffer, shared.config.sip.listen.clone());
    let (ready, is_ready) = std::sync::mpsc::sync_channel::<Result<()>>(1);
    let thread = Builder::new().name(format!("shard-{number}")).spawn(move || {
        let build = || -> Result<Shard> {
            let mut io = Io::new(parts.edge, net);
            for listener in &listen {
                bind(&mut io, listener, receive_buffer, parts.edge.shard)?;
            }
            Shard::new(parts, io)
        };
        let run = || {
            run_on_this_thread(build, move |result| {
                // The starter waits for exactly this.
                let _ = ready.send(result);
            });
        };
        // A node that lost a shard looks alive and answers half of the calls. Acknowledged writes are on
        // disk, so starting anew is better: the supervisor of the process does that.
        if std::panic::catch_unwind(std::panic::AssertUnwindSafe(run)).is_err() {
            tracing::error!(shard = number, "a shard panicked; the process ends");
            std::process::abort();
        }
    })?;
    is_ready.recv().context("a shard ended before it began")??;
    Ok(thread)
}

/// A shard's part of programmable voice, where it is configured.
fn voice(node: &Node, number: usize) -> Result<Option<ShardVoice>> {
    let Some(common) = &node.voice else { return Ok(None) };
    let shard = u16::try_from(number).context("a node has at most limits::SHARDS shards")?;
    let shards = node.shared.config.server.shards;
    // Responses are not asked about, so the node's number does not matter.
    let selector = ShardSelector::new(ShardMap::of_process(Life::default(), shards));
    let owns_call_id = move |call_id: &[u8]| selector.of_call(call_id).shard == shard;
    ShardVoice::new(common, shard, shards, owns_call_id).map(Some).context("media cannot begin")
}

/// The state that all shards' calls have in common; `None`: programmable voice is off.
pub(crate) fn voice_common(
    shared: &Shared,
    database: &Database,
    (store, desk): (&Arc<Service>, &Arc<StoreCompletions>),
    outlets: &[Outlet<InboxMessage>],
    traces: &CallTraces,
) -> Result<Option<NodeVoice>> {
    let (config, voice) = (&shared.config, &shared.config.voice);
    if !voice.is_on() {
        return Ok(None);
    }
    let node = shared.farm.as_ref().map(|farm| farm.node.clone());
    let post = Arc::new(HelperResults(outlets.to_vec()));
    let folder = voice.recordings.clone().unwrap_or_else(|| config.server.data.join("recordings"));
    let files = Files::start(&folder, node, Arc::clone(&post) as Arc<dyn Deliver>)
        .context("recordings cannot be kept")?;
    let files = Arc::new(files.with_mp3(&voice.mp3).with_storage(shared.storage.clone()));
    let (store, desk) = (Arc::clone(store), Arc::clone(desk));
    let settings = helpers::Settings {
        allow_private: voice.allow_private,
        documents: voice.documents.clone(),
        prompts: voice.prompts.clone(),
        command: (!voice.speech.is_empty()).then(|| voice.speech.iter().map(ToString::to_string).collect()),
        mail: voice.mail.clone(),
        recordings: shared.storage.clone(),
        access: Some(Arc::new(PlayableRecordings { files: Arc::clone(&files), store, desk })),
        recogniser: (!voice.recogniser.is_empty())
            .then(|| voice.recogniser.iter().map(ToString::to_string).collect()),
        ..helpers::Settings::default()
    };
    let helpers = Helpers::traced(&settings, post, traces.requests()).context("no helpers of calls")?;
    let repository = admin::Blocking::new(store::Admin::new(database)?);
    let numbers = ::voice::Numbers::load(&voice.number_settings(), &repository)
        .context("bound numbers cannot be read")?;
    let url = crate::rest::public_url(config);
    let domain = &config.sip.default_domain;
    let node = NodeVoice::new(voice, numbers, domain, (Arc::new(helpers), files), &url);
    Ok(node.map(|node| node.with_trace(traces.parts())))
}

/// Binds a listener. The first shard says if the kernel grants a smaller buffer.
fn bind(io: &mut Io, listener: &Listener, wanted: usize, shard: u16) -> Result<()> {
    let bound = io.bind(listener)?;
    if let Some(granted) = bound.receive_buffer.filter(|granted| *granted < wanted && shard == 0) {
        tracing::warn!(
            address = %bound.address, granted, wanted,
            "the kernel grants a smaller receive buffer; bursts may be lost: sysctl -w net.core.rmem_max={wanted}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
