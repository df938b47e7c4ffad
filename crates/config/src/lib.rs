//! `belfry.toml`: parsed whole into small typed structs, before any port is bound. Mistakes name file, line,
//! column and what was expected, all of them at once. Users, numbers and routes are data and not here.
//!
//! The order: [`Config::load`] finds the file, `Reader` parses the text, each section's `read` takes its keys out of it and checks them, what is left
//! over is an unknown key, and at last the paths are made to count from the file's folder. The defaults are the same reading of an empty text. A new
//! key is one call in a section's `read`; the page `docs/configuration.md` is made of the same calls ([`reference()`]).
//!
//! Flow: `cli` calls [`Config::load`] before anything else and hands the value to `server`, which makes the
//! settings of each part of it (`server/src/node/build.rs`, `server/src/node/xmpp.rs`). A reload reads the file
//! again ([`Config::reload`]) and keeps the parts that the running node cannot change ([`Config::keeping`]).
//! Invariants: a `Config` has passed all checks, so later code does not check again; reading opens no port and
//! writes no file; a mistake never shows the content of a table that may hold a secret.

#![warn(missing_docs)]

mod access;
mod accounts;
mod acme;
mod block_lists;
mod bytestreams;
mod call_export;
mod components;
mod console;
mod farm;
mod federation;
mod groups;
mod hep;
mod host;
mod log;
mod mistake;
mod operating;
mod phones;
mod privileges;
mod processes;
mod proxies;
mod reader;
mod reference;
mod registration;
mod s3;
mod sections;
mod services;
mod sockets;
mod sources;
mod store;
mod telemetry;
#[cfg(test)]
mod tests;
mod trust;
mod uploads;
mod value;
pub mod view;
mod voice;
mod webhooks;
mod xmpp;

use std::path::{Path, PathBuf};

pub use access::Access;
pub use accounts::Accounts;
pub use acme::{Acme, AcmeChallenge};
pub use bytestreams::Bytestreams;
pub use call_export::CallExport;
pub use components::{Component, ComponentSecret, Components};
pub use console::Console;
pub use farm::Farm;
pub use federation::{Federation, Posh, ServerRoute, WebRoute};
pub use groups::{DirectoryGroup, RosterGroup};
pub use hep::Hep;
pub use host::host_in_uri;
pub use log::{Log, LogFormat};
pub use mistake::{ConfigError, Mistake};
pub use operating::Operating;
pub use processes::{PROCESSES, ProcessNumber};
pub use reader::KeyDoc;
pub use reference::{keys, reference};
pub use registration::{Inviting, Registration};
pub use s3::S3;
pub use sections::{Calls, Http, Limits, Rest, Routes, Server, Sip, Tls};
pub use sockets::ListeningSocket;
pub use store::Store;
pub use store::is_postgres;
pub use telemetry::Telemetry;
pub use uploads::{Uploads, Web};
pub use value::{duration_text, listener_text, parse_duration};
pub use voice::{MailRelay, MailSecurity, Voice};
pub use webhooks::Webhook;
pub use xmpp::Xmpp;

use reader::Reader;

/// All of it. Defaults are right without a file: loopback only, the domain `localhost`.
///
/// One field a section, and the process that it is for. Sections have `PartialEq` so that
/// [`needs_restart`](Config::needs_restart) can compare what runs with what was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// `None`: defaults.
    pub file: Option<PathBuf>,
    /// `[server]`: the folder of the node and its shards.
    pub server: Server,
    /// `[store]`: the database.
    pub store: Store,
    /// `[sip]`: listeners, domains and rules of SIP.
    pub sip: Sip,
    /// `[tls]`: certificates of all listeners.
    pub tls: Tls,
    /// `[acme]`: the certificate that the node orders.
    pub acme: Acme,
    /// `[http]`: the address of metrics and health.
    pub http: Http,
    /// `[rest]`: the address of the REST interface.
    pub rest: Rest,
    /// `[console]`: the operators' pages.
    pub console: Console,
    /// `[log]`: the level and form of log lines.
    pub log: Log,
    /// `[hep]`: copies of SIP messages for a capture server.
    pub hep: Hep,
    /// `[telemetry]`: traces of calls.
    pub telemetry: Telemetry,
    /// `[calls]`: call records.
    pub calls: Calls,
    /// `[calls.export]`: receivers of call records.
    pub call_export: CallExport,
    /// `[accounts]`: the credentials that are kept.
    pub accounts: Accounts,
    /// `[routes]`: probes of routes' targets.
    pub routes: Routes,
    /// `[limits]`: connections.
    pub limits: Limits,
    /// `[voice]`: calls of applications.
    pub voice: Voice,
    /// `[xmpp]`: chat clients and components.
    pub xmpp: Xmpp,
    /// `[xmpp.web]`: the public address of the web services of chat.
    pub web: Web,
    /// `[xmpp.bytestreams]`: the proxy for files that clients send each other.
    pub bytestreams: Bytestreams,
    /// `[xmpp.uploads]`: files of chat users.
    pub uploads: Uploads,
    /// `[s3]`: the store of objects that gets uploads and recordings.
    pub s3: S3,
    /// `[xmpp.access]`: sign-in other than by password.
    pub access: Access,
    /// `[xmpp.registration]`: accounts that users make.
    pub registration: Registration,
    /// `[xmpp.federation]`: other XMPP servers.
    pub federation: Federation,
    /// `[farm]`: the farm that the node belongs to.
    pub farm: Farm,
    /// One of several processes of this machine that run from the file.
    pub process: Option<ProcessNumber>,
}

/// Used when no file is named and it is there.
pub const USUAL_FILE: &str = "belfry.toml";

/// The file of the Debian package, used when no file is named and there is no [`USUAL_FILE`].
pub const PACKAGED_FILE: &str = "/etc/belfry/belfry.toml";

/// The file that is read when none is named.
pub fn found_file() -> Option<&'static Path> {
    [USUAL_FILE, PACKAGED_FILE].map(Path::new).into_iter().find(|file| may_be_there(file))
}

/// True for a file in a folder that this user may not look into, too: that it cannot be read is then the error, and not that
/// the defaults are taken in its place.
fn may_be_there(file: &Path) -> bool {
    file.try_exists().unwrap_or(true)
}

impl Config {
    /// The named file; else [`found_file`]; else the defaults.
    ///
    /// # Errors
    /// The file cannot be read, or has mistakes. A file that was named and is not there is an error; only the
    /// usual file and the package's may be absent.
    pub fn load(named: Option<&Path>) -> Result<Self, ConfigError> {
        match named {
            Some(file) => Config::read(file),
            None => found_file().map_or_else(|| Ok(Config::default()), Config::read),
        }
    }

    /// Reads the file again, for the same process. A node that was started without a file reads `belfry.toml`
    /// if one is there by now; not the package's, which is the file of another node.
    ///
    /// # Errors
    /// The errors of [`load`](Config::load) and [`for_process`](Config::for_process).
    pub fn reload(&self) -> Result<Self, ConfigError> {
        let usual = Some(Path::new(USUAL_FILE)).filter(|file| may_be_there(file));
        let new = self.file.as_deref().or(usual).map_or_else(|| Ok(Config::default()), Config::read)?;
        match self.process {
            Some(process) => new.for_process(process),
            None => Ok(new),
        }
    }

    /// Paths in it count from the folder it is in.
    /// Files that it names as existing (keys read by `Section::file`) have to be readable by this user.
    ///
    /// # Errors
    /// The file cannot be read, or has mistakes.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file)
            .map_err(|error| ConfigError::Unreadable { file: file.into(), error })?;
        Config::from_text(&text, file, file.parent())
    }

    /// `file` is for messages and relative paths; neither it nor what it names is opened.
    ///
    /// # Errors
    /// All mistakes of the text, in the order of their places.
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        Config::from_text(text, file, None)
    }

    /// Files that the text names have to be there, when it is known from which folder they count.
    fn from_text(text: &str, file: &Path, folder: Option<&Path>) -> Result<Self, ConfigError> {
        let (mut config, mistakes, _) = read_all(text, folder);
        if !mistakes.is_empty() {
            return Err(ConfigError::Mistakes { file: file.into(), mistakes });
        }
        // Only now: the checks above open files by `folder.join`, and a path must not be joined twice.
        config.file = Some(file.into());
        if let Some(folder) = file.parent() {
            config.resolve_paths(folder);
        }
        Ok(config)
    }

    /// True if the node is of a farm whose nodes have their accounts, routes and registrations in one database.
    /// Such a node takes its buckets from the database's ownership table instead of from a local grant
    /// (`docs/decisions/0058-the-start-of-a-node-on-a-shared-database.md`).
    pub fn shares_database(&self) -> bool {
        self.farm.name.is_some() && self.store.url.is_some()
    }

    /// True if the node is an edge of a farm and no router, and has no database that nodes share.
    /// It asks the owners at other nodes for accounts, and follows the farm's copy of domains and routes.
    pub fn is_edge_without_database(&self) -> bool {
        let roles = self.farm.roles;
        self.farm.name.is_some() && roles.is_edge && !roles.is_router && self.store.url.is_none()
    }

    /// True if accounts of the REST interface exist and are asked for.
    pub fn has_rest(&self) -> bool {
        self.voice.is_on() || self.rest.listen.is_some()
    }

    /// The reason why no certificate of a client can be verified, and a remedy. `None`: it can. A certificate proves its name on a TLS
    /// connection, by an authority (RFC 5922 §7.1).
    pub fn unverifiable_certificates(&self) -> Option<&'static str> {
        // The authorities of the system certify any site of the web; for peers of SIP only those count that the
        // operator has named.
        if self.tls.ca.is_none() {
            return Some(
                "[tls] ca names no file of authorities, so no certificate can be verified: set it and restart the node",
            );
        }
        let has_tls =
            self.sip.listen.iter().any(|listener| listener.transport == sip::transport::Transport::Tls);
        let missing =
            "[sip] listen has no tls: address, so no certificate is ever shown: add one and restart the node";
        (!has_tls).then_some(missing)
    }

    /// Consequences of the configuration that may surprise, a line each, for `check-config` and for the log at the start.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings: Vec<String> = self.accounts.warning().map(str::to_owned).into_iter().collect();
        let gives_roles = self.accounts.sources.iter().any(external_auth::SourceSettings::gives_roles);
        warnings.extend(self.console.warning(gives_roles));
        warnings.extend(sources::warnings(&self.accounts.sources));
        let has_provider = self.accounts.sources.iter().any(|source| source.provider().is_some());
        warnings.extend(self.console.warning_of_provider(has_provider));
        warnings.extend(self.hep.warning());
        warnings.extend(self.call_export.warning());
        warnings.extend(self.telemetry.warning());
        // The REST interface shares the address of the metrics unless it has one of its own.
        let rest = self.rest.listen.unwrap_or(self.http.listen);
        if self.has_rest() && !rest.ip().is_loopback() {
            warnings.push(format!(
                "the REST interface speaks plain HTTP at {rest}: tokens can be read on the way; listen on loopback and put a proxy with TLS before it"
            ));
        }
        warnings
    }

    /// Keys that differ and need a restart; all others are taken over by a reload.
    /// Each entry has its counterpart in [`keeping`](Config::keeping): a key in one of the two alone would be
    /// reported and yet change, or be ignored in silence. A whole section is named where all of it needs a
    /// restart.
    pub fn needs_restart(&self, new: &Config) -> Vec<&'static str> {
        let differ = [
            ("server.data", self.server.data != new.server.data),
            ("server.control", self.server.control != new.server.control),
            ("server.shards", self.server.shards != new.server.shards),
            ("store", self.store != new.store),
            ("sip.listen", self.sip.listen != new.sip.listen),
            ("sip.advertise", self.sip.advertise != new.sip.advertise),
            ("sip.udp_receive_buffer", self.sip.udp_receive_buffer != new.sip.udp_receive_buffer),
            ("sip.tcp_idle", self.sip.tcp_idle != new.sip.tcp_idle),
            ("sip.nameservers", self.sip.nameservers != new.sip.nameservers),
            ("sip.websocket_origins", self.sip.websocket_origins != new.sip.websocket_origins),
            ("sip.websocket_proxies", self.sip.websocket_proxies != new.sip.websocket_proxies),
            ("tls", self.tls != new.tls),
            ("acme", self.acme != new.acme),
            ("http.listen", self.http.listen != new.http.listen),
            ("http.trusted_proxies", self.http.trusted_proxies != new.http.trusted_proxies),
            ("http.forwarded_header", self.http.forwarded != new.http.forwarded),
            ("rest.listen", self.rest != new.rest),
            ("console.listen", self.console.listen != new.console.listen),
            ("log.format", self.log.format != new.log.format),
            ("telemetry", self.telemetry != new.telemetry),
            ("calls.csv_folder", self.calls.csv_folder != new.calls.csv_folder),
            ("calls.export", self.call_export != new.call_export),
            ("accounts", self.accounts != new.accounts),
            ("routes", self.routes != new.routes),
            ("limits", self.limits != new.limits),
            ("voice", self.voice != new.voice),
            ("xmpp", self.xmpp.clone().with_groups_of(&new.xmpp) != new.xmpp),
            ("xmpp.web", self.web != new.web),
            ("xmpp.bytestreams", self.bytestreams != new.bytestreams),
            ("xmpp.uploads", self.uploads != new.uploads),
            ("s3", self.s3 != new.s3),
            ("xmpp.access", self.access != new.access),
            ("xmpp.registration", self.registration != new.registration),
            ("farm", self.farm != new.farm),
            ("xmpp.federation.listen", self.federation.listen != new.federation.listen),
        ];
        differ.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key).collect()
    }

    /// A new configuration without what counts only after a restart: as a node that runs takes it over.
    /// The fields that are not named here are those that a reload changes: rules of SIP, roles of the console, shared
    /// roster groups, the log level, call records, the capture server and the policy towards other servers.
    #[must_use]
    pub fn keeping(self, running: &Config) -> Config {
        let old = running.clone();
        Config {
            server: old.server,
            store: old.store,
            sip: Sip {
                listen: old.sip.listen,
                advertise: old.sip.advertise,
                udp_receive_buffer: old.sip.udp_receive_buffer,
                tcp_idle: old.sip.tcp_idle,
                nameservers: old.sip.nameservers,
                websocket_origins: old.sip.websocket_origins,
                websocket_proxies: old.sip.websocket_proxies,
                ..self.sip
            },
            tls: old.tls,
            acme: old.acme,
            http: old.http,
            rest: old.rest,
            console: Console { listen: old.console.listen, ..self.console },
            log: Log { format: old.log.format, ..self.log },
            telemetry: old.telemetry,
            calls: Calls { csv_folder: old.calls.csv_folder, ..self.calls },
            call_export: old.call_export,
            accounts: old.accounts,
            routes: old.routes,
            limits: old.limits,
            voice: old.voice,
            xmpp: old.xmpp.with_groups_of(&self.xmpp),
            web: old.web,
            bytestreams: old.bytestreams,
            uploads: old.uploads,
            s3: old.s3,
            access: old.access,
            registration: old.registration,
            farm: old.farm,
            federation: Federation { listen: old.federation.listen, ..self.federation },
            ..self
        }
    }

    /// Makes relative paths count from the folder of the file. Every key with a path has to be named here.
    /// A key that is forgotten counts from the folder in which the node was started, which a service manager
    /// chooses.
    fn resolve_paths(&mut self, folder: &Path) {
        let tls = [
            &mut self.tls.certificate,
            &mut self.tls.key,
            &mut self.tls.ca,
            &mut self.access.client_authorities,
            &mut self.acme.folder,
            &mut self.acme.authorities,
        ];
        let farm = [&mut self.farm.secret, &mut self.farm.credentials, &mut self.farm.authorities];
        let paths = [&mut self.server.data, &mut self.server.control];
        let voice = [
            &mut self.voice.documents,
            &mut self.voice.prompts,
            &mut self.voice.recordings,
            &mut self.console.docs,
            &mut self.uploads.folder,
            &mut self.calls.csv_folder,
            &mut self.call_export.authorities,
            &mut self.s3.authorities,
        ];
        let webhooks = self.xmpp.webhooks.iter_mut().filter_map(|webhook| webhook.secret.file_mut());
        let secrets = self.xmpp.components.files().chain(webhooks);
        let sources = self.accounts.sources.iter_mut().flat_map(|source| source.kind.files());
        for path in secrets
            .chain(sources)
            .chain(paths)
            .chain(tls.into_iter().flatten())
            .chain(farm.into_iter().flatten())
            .chain(voice.into_iter().flatten())
        {
            // `join` leaves absolute paths as they are.
            *path = folder.join(&*path);
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        read_all("", None).0
    }
}

/// Reads all sections. Inner sections are taken out before their outer ones, and `acme` comes last, as it looks at the others.
/// `farm` is told whether `[store] url` is given, since a router of a farm needs a shared database.
fn read_all(text: &str, folder: Option<&Path>) -> (Config, Vec<Mistake>, Vec<KeyDoc>) {
    let mut reader = Reader::new(text, folder);
    let server = Server::read(&mut reader);
    let store = Store::read(&mut reader);
    let has_store = store.url.is_some();
    // The order of the fields is the order of calls, and so that of the sections on the page. `xmpp.…` stand
    // before `xmpp`: `Reader::section` takes an inner section out of the outer table, and what is left there is
    // an unknown key.
    let (is_federated, sources, proxy);
    let mut config = Config {
        file: None,
        server,
        store,
        sip: Sip::read(&mut reader),
        tls: Tls::read(&mut reader),
        http: Http::read(&mut reader),
        rest: Rest::read(&mut reader),
        console: Console::read(&mut reader),
        log: Log::read(&mut reader),
        hep: Hep::read(&mut reader),
        telemetry: Telemetry::read(&mut reader),
        call_export: CallExport::read(&mut reader),
        calls: Calls::read(&mut reader),
        accounts: {
            let accounts = Accounts::read(&mut reader);
            sources = accounts.sources.clone();
            accounts
        },
        routes: Routes::read(&mut reader),
        limits: Limits::read(&mut reader),
        voice: Voice::read(&mut reader),
        web: Web::read(&mut reader),
        uploads: Uploads::read(&mut reader),
        bytestreams: {
            let bytestreams = Bytestreams::read(&mut reader);
            proxy = bytestreams.is_on().then(|| bytestreams.name.clone());
            bytestreams
        },
        s3: S3::read(&mut reader),
        access: Access::read(&mut reader),
        registration: Registration::read(&mut reader),
        federation: {
            let federation = Federation::read(&mut reader);
            is_federated = federation.is_on();
            federation
        },
        xmpp: Xmpp::read(&mut reader, is_federated, &sources, proxy.as_deref()),
        farm: Farm::read(&mut reader, has_store),
        acme: Acme::default(),
        process: None,
    };
    config.acme = Acme::read(&mut reader, &config);
    sockets::check(&config, &mut reader);
    let (mistakes, reference) = reader.finish();
    (config, mistakes, reference)
}
