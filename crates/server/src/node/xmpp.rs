//! From the configuration to the XMPP of a shard.

use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use sha2::{Digest, Sha256};
use tokio::sync::broadcast;
use xmpp::{c2s, host, s2s};

use super::build::Shared;
use crate::clock::Clock;
use crate::config::Operating;
use crate::config::{Config, Inviting, Registration, listener_text};
use crate::net::Listener;
use crate::net::certified::ClientAuthorities;
use crate::net::tls::Tls;
use crate::xmpp::access::Access;
use crate::xmpp::streams::ChatTrace;
use crate::xmpp::{Reload, Settings};
use crate::xmpp::{servers, streams};

/// `None`: nobody listens for chat clients.
pub(super) fn settings(
    shared: &Shared,
    tls: Option<Arc<Tls>>,
    traces: &broadcast::Sender<Arc<ChatTrace>>,
    clock: Clock,
) -> Result<Option<Settings>> {
    let config = &shared.config;
    let Some(Reload { stream, host, servers }) = reload_of(shared) else { return Ok(None) };
    warn_of_clear_text(config);
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no randomness")?;
    let authorities = config.access.client_authorities.as_deref();
    let client_authorities = authorities.map(ClientAuthorities::load).transpose();
    let client_authorities =
        client_authorities.map_err(|problem| anyhow!("[xmpp.access] client_authorities: {problem}"))?;
    let servers = servers.map(|reload| server_settings(shared, tls.clone(), clock, reload)).transpose()?;
    let streams = streams::Settings {
        listen: config.xmpp.listen.clone(),
        tls,
        client_authorities,
        origins: config.xmpp.websocket_origins.clone(),
        max_streams: config.limits.connections as usize,
        max_streams_per_source: config.limits.connections_per_source as usize,
        idle: config.xmpp.idle,
        sign_in: config.xmpp.sign_in,
        stream,
        allowance: streams::Allowance {
            stanzas: config.xmpp.operating.stanzas,
            bytes: config.xmpp.operating.bytes,
        },
        traces: traces.clone(),
    };
    Ok(Some(Settings { streams, servers, host, seed, access: access(shared) }))
}

/// RFC 7590 §3.4, and what its readers would have to find out by themselves.
fn warn_of_clear_text(config: &Config) {
    let is_far = |listener: &&Listener| !listener.address.ip().is_loopback();
    let Some(far) = config.xmpp.listen.iter().find(is_far) else { return };
    let at = listener_text(far);
    if !config.xmpp.require_tls {
        tracing::warn!(
            listen = at,
            "chat clients may sign in without TLS, and not from this machine only: set require_tls in [xmpp]"
        );
    }
    if config.tls.certificate.is_none() {
        tracing::warn!(
            listen = at,
            "chat clients are shown a certificate that this node made for itself, which they do not trust: \
             set certificate and key in [tls]"
        );
    }
}

/// What changes with a reload: the domains.
pub(super) fn reload_of(shared: &Shared) -> Option<Reload> {
    let (config, xmpp) = (&shared.config, &shared.config.xmpp);
    let host = host::Settings {
        domains: shared.domains.clone(),
        rooms: xmpp.rooms.clone(),
        pubsub: xmpp.pubsub.clone(),
        software: "Belfry".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        resume_for: xmpp.resume_for,
        contacts: Vec::new(),
        started: shared.started,
        room_creation: host::RoomCreation::default(),
        // Slots and relays are not configured yet.
        uploads: None,
        services: Vec::new(),
        admins: admins(&xmpp.operating),
        sessions: host::SessionLimit {
            most: xmpp.operating.sessions as usize,
            ends_oldest: xmpp.operating.ends_oldest,
        },
        accounts: accounts_of(&config.registration),
        invitations: invitations_of(&config.registration),
    };
    let stream = c2s::Settings {
        domains: shared.domains.clone(),
        // There is always a certificate: configured, or made by the node.
        tls: true,
        tls_required: xmpp.require_tls,
        anonymous: xmpp.anonymous,
        registration: config.registration.open,
        invitations: config.registration.invitations != Inviting::Nobody,
        tokens: !config.access.tokens.is_zero(),
        max_stanza: xmpp.max_stanza,
        idle_seconds: u32::try_from(xmpp.idle.as_secs()).unwrap_or(u32::MAX),
        caps: Some(host::caps::of_server(&host)),
        secret: secret_of(shared, b"xmpp"),
    };
    let servers = reload_of_servers(shared);
    xmpp.is_on().then(|| Reload { servers, stream: Arc::new(stream), host: Arc::new(host) })
}

fn server_settings(
    shared: &Shared,
    tls: Option<Arc<Tls>>,
    clock: Clock,
    reload: servers::Reload,
) -> Result<servers::Settings> {
    let config = &shared.config;
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no randomness")?;
    Ok(servers::Settings {
        listen: config.federation.listen.clone(),
        tls,
        clock,
        nameservers: config.sip.nameservers.clone(),
        max_connections: config.limits.connections as usize,
        max_connections_per_source: config.limits.connections_per_source as usize,
        reload,
        seed,
    })
}

/// `None`: no other server is spoken with.
fn reload_of_servers(shared: &Shared) -> Option<servers::Reload> {
    let config = &shared.config.federation;
    let streams = s2s::Settings {
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
        // Of its own, so that what is made of it tells nothing of the other's.
        secret: Sha256::new().chain_update(b"dialback").chain_update(shared.secret).finalize().into(),
    };
    let routes = config.routes.clone().into();
    config.is_on().then(|| servers::Reload { streams: Arc::new(streams), routes })
}

/// What other servers may write to.
fn served(shared: &Shared) -> Vec<Box<str>> {
    let xmpp = &shared.config.xmpp;
    let mut served = shared.domains.clone();
    for service in [&xmpp.rooms, &xmpp.pubsub] {
        served.extend(shared.domains.iter().map(|domain| format!("{service}.{domain}").into()));
    }
    served
}

/// Their addresses were checked with the file.
fn admins(operating: &Operating) -> Vec<xmpp::Bare> {
    operating.admins.iter().filter_map(|admin| xmpp::Bare::parse(admin).ok()).collect()
}

/// Of its own for each use, so that what is made of it tells nothing of the others'.
fn secret_of(shared: &Shared, of: &[u8]) -> [u8; 32] {
    Sha256::new().chain_update(of).chain_update(shared.secret).finalize().into()
}

/// One for all shards.
fn access(shared: &Shared) -> Arc<Access> {
    let made =
        || Access::new(secret_of(shared, b"xmpp tokens"), &shared.config.access, &shared.config.registration);
    Arc::clone(shared.access.get_or_init(made))
}

fn accounts_of(config: &Registration) -> host::register::Accounts {
    host::register::Accounts {
        may_change_password: config.change_password,
        may_remove: config.removal,
        min_password: config.min_password as usize,
    }
}

fn invitations_of(config: &Registration) -> host::invite::Invitations {
    host::invite::Invitations {
        by_users: config.invitations == Inviting::Users,
        by_admins: config.invitations != Inviting::Nobody,
        good_for: config.invitation_for,
    }
}
