//! From the configuration to the XMPP of a shard.

use std::sync::Arc;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use xmpp::{c2s, host};

use super::build::Shared;
use crate::net::tls::Tls;
use crate::xmpp::streams;
use crate::xmpp::{Reload, Settings};

/// `None`: nobody listens for chat clients.
pub(super) fn settings(shared: &Shared, tls: Option<Arc<Tls>>) -> Result<Option<Settings>> {
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
    };
    Ok(Some(Settings { streams, host, seed }))
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
        texts_to_phones: xmpp.texts_to_phones,
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
