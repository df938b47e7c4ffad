//! From the configuration to the XMPP of a shard.

use std::sync::Arc;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};
use sip::transport::Transport;
use store::{Loaded, Read, Reader, Sqlite, Store as _};
use xmpp::{c2s, host};

use super::build::Shared;
use crate::clock::Clock;
use crate::config::Config;
use crate::limits;
use crate::net::tls::Tls;
use crate::xmpp::streams::{self, http};
use crate::xmpp::uploads::{self, HasAccount, Uploads};
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
        http: http::Settings {
            clock: shared.clock,
            public_url: config.web.public_url.clone(),
            fallback_url: web_address(config).unwrap_or_default(),
            uploads: shared.uploads.clone(),
            // Nobody signs in who takes longer.
            head_within: limits::XMPP_HTTP_HEAD.min(config.xmpp.sign_in),
            body_within: limits::XMPP_HTTP_BODY.min(config.xmpp.sign_in),
        },
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
        contacts: xmpp.contacts.clone(),
        started: shared.started,
        room_creation: host::RoomCreation::default(),
        uploads: shared.uploads.is_some().then_some(host::upload::Uploads {
            max_size: shared.config.uploads.max_size,
            per_day: shared.config.uploads.per_day,
        }),
        services: xmpp.services.clone(),
        // Administrators' commands are not configured yet.
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
    xmpp.is_on().then(|| Reload { stream: Arc::new(stream), host: Arc::new(host) })
}

/// Where clients find what is done by HTTP; `None`: nowhere.
fn web_address(config: &Config) -> Option<Box<str>> {
    let listening =
        |transport| config.xmpp.listen.iter().find(move |listener| listener.transport == transport);
    let (scheme, listener) = match listening(Transport::Wss) {
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
        format!("{name}:{}", address.port())
    };
    Some(format!("{scheme}://{host}").into())
}

/// Files of users, for all shards. `None`: nobody uploads.
pub(super) fn uploads(
    config: &Config,
    secret: &[u8; 32],
    clock: Clock,
    sqlite: &Sqlite,
) -> Result<Option<Arc<Uploads>>> {
    let Some(url) = web_address(config).filter(|_| config.uploads.enabled) else { return Ok(None) };
    let folder = config.uploads.folder.clone().unwrap_or_else(|| config.server.data.join("uploads"));
    let settings = uploads::Settings {
        folder: folder.clone(),
        total: config.uploads.total,
        keep: config.uploads.keep,
        url,
        key: Sha256::new().chain_update(b"xmpp uploads").chain_update(secret).finalize().into(),
    };
    let uploads = Uploads::start(settings, clock, has_account(sqlite.reader()?));
    uploads.map(Some).with_context(|| format!("files of users cannot be kept in {}", folder.display()))
}

/// Only who is certainly nobody has none.
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
    fn who_is_removed_has_no_account() {
        let folder = tempfile::tempdir().unwrap();
        let sqlite = Sqlite::open(folder.path().join("belfry.db")).unwrap();
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
