//! From the configuration to the XMPP of a shard.

use std::sync::Arc;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use xmpp::{c2s, host, s2s};

use super::build::Shared;
use crate::clock::Clock;
use crate::net::tls::Tls;
use crate::xmpp::{Reload, Settings};
use crate::xmpp::{servers, streams};

/// `None`: nobody listens for chat clients.
pub(super) fn settings(shared: &Shared, tls: Option<Arc<Tls>>, clock: Clock) -> Result<Option<Settings>> {
    let config = &shared.config;
    let Some(Reload { stream, host, servers }) = reload_of(shared) else { return Ok(None) };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no randomness")?;
    let servers = servers.map(|reload| server_settings(shared, tls.clone(), clock, reload)).transpose()?;
    let streams = streams::Settings {
        listen: config.xmpp.listen.clone(),
        tls,
        origins: config.xmpp.websocket_origins.clone(),
        max_streams: config.limits.connections as usize,
        max_streams_per_source: config.limits.connections_per_source as usize,
        idle: config.xmpp.idle,
        sign_in: config.xmpp.sign_in,
        stream,
    };
    Ok(Some(Settings { streams, servers, host, seed }))
}

/// What changes with a reload: the domains.
pub(super) fn reload_of(shared: &Shared) -> Option<Reload> {
    let xmpp = &shared.config.xmpp;
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
        // Slots, relays and administrators' commands are not configured yet.
        uploads: None,
        services: Vec::new(),
        admins: Vec::new(),
    };
    let stream = c2s::Settings {
        domains: shared.domains.clone(),
        // There is always a certificate: configured, or made by the node.
        tls: true,
        tls_required: xmpp.require_tls,
        anonymous: xmpp.anonymous,
        registration: false,
        max_stanza: xmpp.max_stanza,
        idle_seconds: u32::try_from(xmpp.idle.as_secs()).unwrap_or(u32::MAX),
        caps: Some(host::caps::of_server(&host)),
        // Of its own, so that what is made of it tells nothing of the other's.
        secret: Sha256::new().chain_update(b"xmpp").chain_update(shared.secret).finalize().into(),
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
