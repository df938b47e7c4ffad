//! From the configuration to the settings of the XMPP of a shard: of its streams, host, components and servers. `node::build` asks for them
//! once for each shard, and for those that a reload changes (`reload_of`) at each change of domains, too.
//!
//! Invariant: all shards have the same settings, but for the seeds of their random numbers. Parts that have to
//! be one for the whole node (tokens and failed sign-ins, uploads, places of connections) come from `Shared`.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use bytestreams::ProxySettings;
use config::Operating;
use config::{Config, Inviting, Registration, listener_text};
use control::ChatTrace;
use net::admission::{Admissions, Bounds};
use net::certified::ClientAuthorities;
use net::clock::Clock;
use net::proxies::Proxies;
use net::tls::Tls;
use net::{ForwardedHeader, Listener};
use object_storage::ObjectStorage;
use sha2::{Digest, Sha256};
use sip::transport::Transport;
use store::{Database, Loaded, Read, Reader, Store as _};
use tokio::sync::broadcast;
use xmpp::{c2s, component, s2s};
use xmpp_io::bytestreams::{BytestreamProxy, BytestreamProxySettings};
use xmpp_io::streams::http;
use xmpp_io::uploads::{self, HasAccount, Uploads};
use xmpp_io::{components, servers, streams};

use super::build::Shared;
use super::file_accounts::{external_of, looks_of};
use super::roster_groups::{self, RosterGroups};
use crate::xmpp::access::Access;
use crate::xmpp::rtbl::SharedRtblLists;
use crate::xmpp::webhooks::ChatWebhooks;
use crate::xmpp::{Reload, XmppSettings};

/// `None`: no listener is for chat clients.
pub(super) fn settings(
    shared: &Shared,
    (tls, clock): (Option<Arc<Tls>>, Clock),
    traces: &broadcast::Sender<Arc<ChatTrace>>,
) -> Result<Option<XmppSettings>> {
    let config = &shared.config;
    let Some(Reload { stream, host, servers }) = reload_of(shared) else { return Ok(None) };
    // A warning and no refusal: behind a proxy that does TLS the listener may be in the clear on purpose.
    warn_of_clear_text(config);
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no randomness")?;
    let authorities = config.access.client_authorities.as_deref();
    let client_authorities = authorities.map(ClientAuthorities::load).transpose();
    let client_authorities =
        client_authorities.map_err(|problem| anyhow!("[xmpp.access] client_authorities: {problem}"))?;
    let servers = servers.map(|reload| server_settings(shared, tls.clone(), clock, reload)).transpose()?;
    let streams = streams::C2sConnectionSettings {
        listen: config.xmpp.listen.clone(),
        tls,
        client_authorities,
        origins: config.xmpp.websocket_origins.clone(),
        proxies: Proxies::new(config.web.trusted_proxies.clone(), ForwardedHeader::XForwardedFor),
        max_streams: config.limits.connections as usize,
        shares_ports: config.farm.shares_ports,
        max_streams_per_source: config.limits.connections_per_source as usize,
        admission: Arc::clone(&shared.admissions.clients),
        idle: config.xmpp.idle,
        sign_in: config.xmpp.sign_in,
        http: http::HttpServiceSettings {
            clock: shared.clock,
            public_url: config.web.public_url.clone(),
            fallback_url: web_address(config).unwrap_or_default(),
            app: config.web.app.then(|| page(config)),
            invitations: has_invitation_page(&config.registration),
            uploads: shared.uploads.clone(),
            // A client that takes longer cannot sign in.
            head_within: xmpp_io::limits::XMPP_HTTP_HEAD.min(config.xmpp.sign_in),
            body_within: xmpp_io::limits::XMPP_HTTP_BODY.min(config.xmpp.sign_in),
        },
        stream,
        allowance: streams::Allowance {
            stanzas: config.xmpp.operating.stanzas,
            bytes: config.xmpp.operating.bytes,
        },
        traces: traces.clone(),
    };
    let components = components(shared, streams.tls.clone())?;
    let ProcessChat { rtbl, webhooks, bytestreams, .. } = shared.chat.clone();
    let access = access(shared);
    Ok(Some(XmppSettings { streams, servers, components, host, seed, access, rtbl, webhooks, bytestreams }))
}

/// The parts of chat that all shards of a process share.
#[derive(Clone, Debug)]
pub(super) struct ProcessChat {
    /// The content of real-time block lists.
    rtbl: Arc<SharedRtblLists>,
    /// `None`: no application gets events.
    webhooks: Option<Arc<ChatWebhooks>>,
    /// Shared roster groups.
    pub(super) groups: Arc<RosterGroups>,
    /// `None`: there is no proxy of bytestreams.
    bytestreams: Option<Arc<BytestreamProxy>>,
    /// Fetches of POSH documents.
    posh: Arc<servers::PoshFetches>,
}

impl ProcessChat {
    /// Starts the queues of webhooks and the proxy of bytestreams, and finds the members of shared groups.
    ///
    /// # Errors
    /// Those of [`ChatWebhooks::start`], an address that cannot be listened at, or accounts cannot be read.
    pub(super) fn start(
        config: &Config,
        admissions: &Admissions,
        database: &Database,
    ) -> Result<ProcessChat> {
        let groups = RosterGroups::default();
        roster_groups::find_accounts(&groups, &config.xmpp.groups, &mut *database.reader()?)?;
        let bytestreams = start_bytestreams(config, admissions)?;
        let webhooks = if config.xmpp.is_on() { ChatWebhooks::start(&config.xmpp.webhooks)? } else { None };
        let webhooks = webhooks.map(Arc::new);
        let (rtbl, posh) = Default::default();
        Ok(ProcessChat { rtbl, webhooks, groups: Arc::new(groups), bytestreams, posh })
    }
}

/// RFC 7590 §3.4, and what its readers would have to find out by themselves.
fn warn_of_clear_text(config: &Config) {
    let is_far = |listener: &&Listener| !listener.address.ip().is_loopback();
    // One line for the first such listener: the remedy is the same for all.
    let Some(far) = config.xmpp.listen.iter().find(is_far) else { return };
    let at = listener_text(far);
    if !config.xmpp.require_tls {
        tracing::warn!(
            listen = at,
            "chat clients may sign in without TLS, and not from this machine only: set require_tls in [xmpp]"
        );
    }
    if config.tls.certificate.is_none() && !config.acme.is_on {
        tracing::warn!(
            listen = at,
            "chat clients are shown a certificate that this node made for itself, which they do not trust: \
             set certificate and key in [tls], or let the node order one by [acme]"
        );
    }
}

/// Warns the operator about the configuration of chat, once a start.
pub(super) fn warn(shared: &Shared) {
    let Some(Reload { host, .. }) = reload_of(shared) else { return };
    roster_groups::warn(&shared.config.xmpp.groups, &shared.domains);
    // Addresses of our own are routed before those of components, so a stanza for such a domain never reaches
    // the component.
    for component in host.components.iter().filter(|component| host.is_ours(component)) {
        tracing::warn!(%component, "accounts or services of ours are at this domain: the component gets nothing");
    }
}

/// XEP-0114.
/// Secrets in files are read here, at each shard's start.
fn components(shared: &Shared, tls: Option<Arc<Tls>>) -> Result<components::ComponentConnectionSettings> {
    let xmpp = &shared.config.xmpp;
    let mut known = Vec::new();
    for component in &xmpp.components.known {
        let secret = component.secret()?;
        known.push(component::ComponentCredentials { domain: component.domain.clone(), secret });
    }
    let known = Arc::new(component::ComponentSettings { components: known, max_stanza: xmpp.max_stanza });
    Ok(components::ComponentConnectionSettings {
        listen: xmpp.components.listen.clone(),
        tls,
        known,
        admission: Arc::clone(&shared.admissions.components),
        allowance: streams::Allowance { stanzas: xmpp.components.stanzas, bytes: xmpp.components.bytes },
        wrong_secrets: Arc::clone(&access(shared).wrong_secrets),
        sign_in: xmpp.sign_in,
        // Not longer than the silence that ends a client's stream: a component that does not read holds memory
        // meanwhile.
        stalled: xmpp_io::limits::XMPP_STALLED.min(xmpp.idle),
    })
}

/// The settings that change with a reload: the domains and shared roster groups.
/// It is called for each shard at its start and for all at each change of domains or routes, so it reads no
/// file.
pub(super) fn reload_of(shared: &Shared) -> Option<Reload> {
    let (config, xmpp) = (&shared.config, &shared.config.xmpp);
    let host = chat::HostSettings {
        domains: shared.domains.clone(),
        rooms: xmpp.rooms.clone(),
        pubsub: xmpp.pubsub.clone(),
        software: "Belfry".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        resume_for: xmpp.resume_for,
        contacts: xmpp.contacts.clone(),
        started: shared.started,
        components: xmpp.components.known.iter().map(|component| component.domain.clone()).collect(),
        privileges: xmpp.components.known.iter().map(|component| component.privileges.clone()).collect(),
        texts_to_phones: xmpp.texts_to_phones,
        archive: xmpp.archive,
        bytestreams: bytestream_settings(config),
        uploads: shared.uploads.is_some().then_some(chat::upload::UploadSettings {
            max_size: shared.config.uploads.max_size,
            per_day: shared.config.uploads.per_day,
        }),
        services: xmpp.services.clone(),
        admins: admins(&xmpp.operating),
        sessions: chat::SessionLimit {
            most: xmpp.operating.sessions as usize,
            ends_oldest: xmpp.operating.ends_oldest,
        },
        rosters: xmpp.rosters,
        accounts: accounts_of(config),
        invitations: invitations_of(config),
        rtbl: xmpp.block_lists.clone(),
        webhooks: crate::xmpp::webhooks::settings_of(&xmpp.webhooks),
        groups: shared.chat.groups.of(&xmpp.groups, &shared.domains),
    };
    let stream = c2s::C2sSettings {
        domains: shared.domains.clone(),
        // There is always a certificate: configured, or made by the node.
        tls: true,
        tls_required: xmpp.require_tls,
        anonymous: xmpp.anonymous,
        registration: config.registration.open,
        invitations: config.registration.invitations != Inviting::Off,
        tokens: !config.access.tokens.is_zero(),
        external: Arc::new(external_of(shared)),
        openid_configurations: Arc::new(openid_configurations_of(config)),
        max_stanza: xmpp.max_stanza,
        idle_seconds: u32::try_from(xmpp.idle.as_secs()).unwrap_or(u32::MAX),
        // The hash of the server's features (XEP-0115) is computed once here and not for each stream.
        caps: chat::caps::of_server(&host),
        secret: secret_of(shared, b"xmpp"),
        looks: looks_of(shared),
    };
    let servers = reload_of_servers(shared);
    xmpp.is_on().then(|| Reload { servers, stream: Arc::new(stream), host: Arc::new(host) })
}

fn server_settings(
    shared: &Shared,
    tls: Option<Arc<Tls>>,
    clock: Clock,
    reload: servers::Reload,
) -> Result<servers::S2sConnectionSettings> {
    let config = &shared.config;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no randomness")?;
    Ok(servers::S2sConnectionSettings {
        listen: config.federation.listen.clone(),
        tls,
        clock,
        nameservers: config.sip.nameservers.clone(),
        max_connections: config.limits.connections as usize,
        max_connections_per_source: config.limits.connections_per_source as usize,
        admission: Arc::clone(&shared.admissions.servers),
        failures: Arc::clone(&shared.failures),
        posh: Arc::clone(&shared.chat.posh),
        allowance: streams::Allowance { stanzas: config.federation.stanzas, bytes: config.federation.bytes },
        reload,
        seed,
    })
}

/// `None`: no other server is spoken with.
fn reload_of_servers(shared: &Shared) -> Option<servers::Reload> {
    let config = &shared.config.federation;
    let streams = s2s::S2sSettings {
        domains: served(shared),
        // There is always a certificate: configured, or made by the node.
        tls: true,
        policy: s2s::Policy {
            admission: config.policy,
            allow: config.allow.clone(),
            block: config.block.clone(),
            require_tls: config.require_tls,
            require_certificate: config.require_certificate,
            tls_exceptions: config.tls_exceptions.clone(),
            certificate_exceptions: config.certificate_exceptions.clone(),
        },
        max_stanza: shared.config.xmpp.max_stanza,
        connect: config.connect,
        authorize: config.authorize,
        idle: config.idle,
        // A secret of its own, so that values made with it reveal nothing of the others.
        secret: Sha256::new().chain_update(b"dialback").chain_update(shared.secret).finalize().into(),
        posh: config.posh.is_on,
    };
    let posh = servers::PoshSettings {
        allow_private: config.posh.allow_private,
        routes: config.posh.routes.clone().into(),
    };
    let routes = config.routes.clone().into();
    config.is_on().then(|| servers::Reload { streams: Arc::new(streams), routes, posh })
}

/// The domains that other servers may write to.
/// For each of them another server may ask to prove ours (dialback), and stanzas to all others are refused.
fn served(shared: &Shared) -> Vec<Box<str>> {
    let xmpp = &shared.config.xmpp;
    let mut served = shared.domains.clone();
    let proxy = shared.config.bytestreams.is_on().then_some(&shared.config.bytestreams.name);
    for service in [&xmpp.rooms, &xmpp.pubsub].into_iter().chain(proxy) {
        served.extend(shared.domains.iter().map(|domain| format!("{service}.{domain}").into()));
    }
    // Callers from outside: only phones send in their name.
    let strangers = chat::phones::GUESTS;
    served.extend(shared.domains.iter().map(|domain| format!("{strangers}.{domain}").into()));
    served.extend(xmpp.components.known.iter().map(|component| component.domain.clone()));
    served
}

/// Their addresses were checked with the file.
fn admins(operating: &Operating) -> Vec<xmpp::Bare> {
    operating.admins.iter().filter_map(|admin| xmpp::Bare::parse(admin).ok()).collect()
}

/// Each use has a secret of its own, so that values made with one reveal nothing of the others.
fn secret_of(shared: &Shared, of: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(of).chain_update(shared.secret).finalize().into()
}

/// One for all shards.
/// One object holds the failed sign-ins, so that an attacker gains nothing by connecting to different shards.
fn access(shared: &Shared) -> Arc<Access> {
    let failures = || Arc::clone(&shared.failures);
    let authenticator = || shared.authenticator.clone();
    let made = || Access::new(secret_of(shared, b"xmpp tokens"), &shared.config, failures(), authenticator());
    Arc::clone(shared.access.get_or_init(made))
}

/// The URL of the configuration of the provider of each domain that has one.
fn openid_configurations_of(config: &Config) -> BTreeMap<Box<str>, Box<str>> {
    let sources = config.accounts.sources.iter();
    let url = |source: &external_auth::SourceSettings| {
        Some((source.domain.clone(), source.openid_configuration()?.into()))
    };
    sources.filter_map(url).collect()
}

fn accounts_of(config: &Config) -> chat::register::AccountSettings {
    let registration = &config.registration;
    chat::register::AccountSettings {
        may_change_password: registration.change_password,
        may_remove: registration.removal,
        min_password: registration.min_password as usize,
        // Their passwords are not here, so a client can neither change one nor register in such a domain.
        external: config.accounts.sources.iter().map(|source| source.domain.clone()).collect(),
    }
}

fn invitations_of(config: &Config) -> chat::invite::InvitationSettings {
    let registration = &config.registration;
    chat::invite::InvitationSettings {
        by_users: registration.invitations == Inviting::Users,
        by_admins: registration.invitations != Inviting::Off,
        good_for: registration.invitation_for,
        // XEP-0401 §5: an address with TLS.
        pages: web_address(config)
            .filter(|url| url.starts_with("https:") && has_invitation_page(registration)),
    }
}

fn has_invitation_page(config: &Registration) -> bool {
    config.invitation_page && config.invitations != Inviting::Off
}

/// The URL of the HTTP services for clients; `None`: there is none.
fn web_address(config: &Config) -> Option<Box<str>> {
    let listening =
        |transport| config.xmpp.listen.iter().find(move |listener| listener.transport == transport);
    let (scheme, listener) = match listening(Transport::Wss) {
        // With TLS first: the address is told to clients, which may be anywhere.
        Some(listener) => ("https", listener),
        None => ("http", listening(Transport::Ws)?),
    };
    if let Some(url) = &config.web.public_url {
        return Some(url.clone());
    }
    let address = listener.address;
    // Every address is none: then by name, which the certificate has.
    let host = if !address.ip().is_unspecified() {
        address.to_string()
    } else {
        let name = config.sip.advertise.as_ref().unwrap_or(&config.sip.default_domain);
        format!("{}:{}", config::host_in_uri(name), address.port())
    };
    Some(format!("{scheme}://{host}").into())
}

/// The address of the proxy of bytestreams, as clients are told it. `None`: there is none.
fn bytestream_settings(config: &Config) -> Option<chat::bytestreams::BytestreamSettings> {
    let bytestreams = &config.bytestreams;
    let listener = bytestreams.listen.first()?.address;
    let host = match &bytestreams.host {
        Some(host) => host.clone(),
        None if !listener.ip().is_unspecified() => listener.ip().to_string().into(),
        // Every address is none: then by name.
        None => config.sip.advertise.as_ref().unwrap_or(&config.sip.default_domain).clone(),
    };
    let port = bytestreams.port.unwrap_or(listener.port());
    Some(chat::bytestreams::BytestreamSettings { label: bytestreams.name.clone(), host, port })
}

/// The proxy of bytestreams. `None`: there is none.
fn start_bytestreams(config: &Config, admissions: &Admissions) -> Result<Option<Arc<BytestreamProxy>>> {
    let bytestreams = &config.bytestreams;
    if !bytestreams.is_on() {
        return Ok(None);
    }
    let files = Bounds::default().total;
    let settings = BytestreamProxySettings {
        listen: bytestreams.listen.iter().map(|listener| listener.address).collect(),
        proxy: ProxySettings {
            waiting: files,
            // Two files each.
            transfers: (bytestreams.transfers as usize).min(files / 2),
        },
        admission: Arc::clone(&admissions.bytestreams),
        per_source: config.limits.connections_per_source as usize,
        idle: bytestreams.idle,
        bytes_per_second: bytestreams.bytes_per_second,
    };
    if settings.proxy.transfers < bytestreams.transfers as usize {
        tracing::warn!(
            granted = settings.proxy.transfers,
            wanted = bytestreams.transfers,
            "fewer bytestreams than `transfers` of [xmpp.bytestreams] fit into the files that the process may have open"
        );
    }
    let proxy = BytestreamProxy::start(settings).context("[xmpp.bytestreams] listen")?;
    Ok(Some(Arc::new(proxy)))
}

/// The page of users: its phone, and the domains whose users sign in by tokens.
fn page(config: &Config) -> web_app::PageSettings {
    let token_domains = config.accounts.sources.iter().filter_map(|source| {
        let external_auth::SourceKind::Jwt(settings) = &source.kind else { return None };
        let provider = settings.provider.as_ref().and_then(|provider| {
            Some(web_app::PageProvider {
                issuer: settings.issuer.clone(),
                client_id: provider.app_client_id.clone()?,
                scopes: provider.scopes.clone(),
                label: provider.label.clone(),
            })
        });
        Some(web_app::TokenDomain { domain: source.domain.clone(), provider })
    });
    web_app::PageSettings { sip: sip_ways(config), token_domains: token_domains.collect() }
}

/// The listeners that the page of users may connect to for calls.
fn sip_ways(config: &Config) -> web_app::SipWays {
    let way = |transport| {
        // The page is loaded from a chat listener of the same transport. If SIP is at the same address, the
        // page finds it by its own host name, under which a certificate is valid; only another address has to
        // be told.
        let is_it = |listener: &&Listener| listener.transport == transport;
        let (sip, chat) = (config.sip.listen.iter().find(is_it)?, config.xmpp.listen.iter().find(is_it));
        let is_at_page = |chat: &Listener| chat.address.ip() == sip.address.ip();
        let is_found = sip.address.ip().is_unspecified() || chat.is_some_and(is_at_page);
        let address = (!is_found).then(|| sip.address.ip());
        Some(web_app::SipListener { address, port: sip.address.port() })
    };
    let url = config.web.sip_url.clone();
    web_app::SipWays { url, plain: way(Transport::Ws), secure: way(Transport::Wss) }
}

/// Files of users, for all shards. `None`: uploads are off.
pub(super) fn uploads(
    config: &Config,
    (secret, node): (&[u8; 32], Option<Box<str>>),
    (clock, database): (Clock, &Database),
    storage: Option<Arc<ObjectStorage>>,
) -> Result<Option<Arc<Uploads>>> {
    let Some(url) = web_address(config).filter(|_| config.uploads.enabled) else { return Ok(None) };
    let folder = config.uploads.folder.clone().unwrap_or_else(|| config.server.data.join("uploads"));
    let settings = uploads::UploadFolderSettings {
        folder: folder.clone(),
        total: config.uploads.total,
        keep: config.uploads.keep,
        url,
        key: Sha256::new().chain_update(b"xmpp uploads").chain_update(secret).finalize().into(),
        node,
        storage,
    };
    let uploads = Uploads::start(settings, clock, has_account(database.reader()?));
    uploads.map(Some).with_context(|| format!("files of users cannot be kept in {}", folder.display()))
}

/// False only if the account certainly does not exist.
fn has_account(mut reader: Box<dyn Reader>) -> HasAccount {
    Box::new(move |owner| {
        let Some((user, domain)) = owner.rsplit_once('@') else { return true };
        let read = Read::Account { user: user.into(), domain: domain.into() };
        !matches!(reader.load(&read), Ok(Loaded::Account(None)))
    })
}

#[cfg(test)]
mod tests {
    use store::{Address, Admin, NewAccount};

    use super::*;

    #[test]
    fn a_removed_user_has_no_account() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = store::Sqlite::open(folder.path().join("belfry.db")).unwrap();
        let (mut admin, now) = (Admin::new(&sqlite).unwrap(), Clock::new().now());
        admin.ensure_domain("example.org", now).unwrap();
        let alice = Address::new("alice", "example.org").unwrap();
        admin.add_account(NewAccount::with_password(alice.clone(), "secret", now).unwrap()).unwrap();
        let mut has_account = has_account(sqlite.reader().unwrap());
        assert!(has_account("alice@example.org") && !has_account("bob@example.org"));
        admin.remove_account(alice).unwrap();
        assert!(!has_account("alice@example.org"));
        assert!(has_account("nonsense"));
    }

    #[test]
    fn the_page_finds_its_phone_by_its_own_host_or_another_address() {
        let ways = |text: &str| sip_ways(&Config::parse(text, "belfry.toml".as_ref()).unwrap());
        let at = |address: Option<[u8; 4]>, port| {
            Some(web_app::SipListener { address: address.map(Into::into), port })
        };
        let own = ways("[xmpp]\nlisten = [\"ws:127.0.0.1:5280\"]\n");
        assert_eq!((own.plain, own.secure), (at(None, 5080), at(Some([127, 0, 0, 1]), 5443)));
        let all = ways("[sip]\nlisten = [\"wss:0.0.0.0:443\"]\n[xmpp]\nlisten = [\"wss:192.0.2.1:5281\"]\n");
        assert_eq!((all.plain, all.secure), (None, at(None, 443)));
    }

    #[test]
    fn clients_find_the_first_secure_address() {
        let address = |text: &str| {
            let config = Config::parse(text, "belfry.toml".as_ref()).unwrap();
            web_address(&config).map(String::from)
        };
        assert_eq!(address("[xmpp]\nlisten = [\"tcp:127.0.0.1:5222\"]\n"), None);
        let listen = "listen = [\"ws:127.0.0.1:5280\", \"wss:0.0.0.0:5281\"]\n";
        let text = format!("[sip]\ndomains = [\"example.net\"]\n[xmpp]\n{listen}");
        assert_eq!(address(&text).as_deref(), Some("https://example.net:5281"));
        let text = format!("[xmpp]\n{listen}[xmpp.web]\npublic_url = \"https://chat.example.net\"\n");
        assert_eq!(address(&text).as_deref(), Some("https://chat.example.net"));
        let text = "[xmpp]\nlisten = [\"ws:[::1]:5280\"]\n";
        assert_eq!(address(text).as_deref(), Some("http://[::1]:5280"));
    }
}
