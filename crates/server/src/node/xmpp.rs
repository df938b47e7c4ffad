//! From the configuration to the XMPP of a shard.

use std::sync::Arc;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use tokio::sync::broadcast;
use xmpp::{c2s, component, host};

use super::build::Shared;
use crate::config::Operating;
use crate::net::tls::Tls;
use crate::xmpp::streams::ChatTrace;
use crate::xmpp::{Reload, Settings};
use crate::xmpp::{components, streams};

/// `None`: nobody listens for chat clients.
pub(super) fn settings(
    shared: &Shared,
    tls: Option<Arc<Tls>>,
    traces: &broadcast::Sender<Arc<ChatTrace>>,
) -> Result<Option<Settings>> {
    let config = &shared.config;
    let Some(Reload { stream, host }) = reload_of(shared) else { return Ok(None) };
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).context("the system gives no randomness")?;
    let streams = streams::Settings {
        listen: config.xmpp.listen.clone(),
        tls,
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
    let components = components(shared, streams.tls.clone())?;
    Ok(Some(Settings { streams, components, host, seed }))
}

/// What an operator should know, once a start.
pub(super) fn warn(shared: &Shared) {
    let Some(Reload { host, .. }) = reload_of(shared) else { return };
    for component in host.components.iter().filter(|component| host.is_ours(component)) {
        tracing::warn!(%component, "accounts or services of ours are at this domain: the component gets nothing");
    }
}

/// XEP-0114.
fn components(shared: &Shared, tls: Option<Arc<Tls>>) -> Result<components::Settings> {
    let xmpp = &shared.config.xmpp;
    let mut known = Vec::new();
    for component in &xmpp.components.known {
        let secret = component.secret()?;
        known.push(component::Known { domain: component.domain.clone(), secret });
    }
    let known = Arc::new(component::Settings { components: known, max_stanza: xmpp.max_stanza });
    Ok(components::Settings { listen: xmpp.components.listen.clone(), tls, known, sign_in: xmpp.sign_in })
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
        // Slots and relays are not configured yet.
        uploads: None,
        services: Vec::new(),
        components: xmpp.components.known.iter().map(|component| component.domain.clone()).collect(),
        admins: admins(&xmpp.operating),
        sessions: host::SessionLimit {
            most: xmpp.operating.sessions as usize,
            ends_oldest: xmpp.operating.ends_oldest,
        },
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
    xmpp.is_on().then(|| Reload { stream: Arc::new(stream), host: Arc::new(host) })
}

/// Their addresses were checked with the file.
fn admins(operating: &Operating) -> Vec<xmpp::Bare> {
    operating.admins.iter().filter_map(|admin| xmpp::Bare::parse(admin).ok()).collect()
}
