//! `[farm]`: the farm that the node belongs to, if any.
//!
//! Most keys are for `farm` and `cluster`; a node alone reads none of them. Processes of one configuration change some (`processes`).
//!
//! Invariant: if `name` is set, there are a council, a secret, an address that others reach, and for a router a
//! shared database. A missing `node` is filled with the host name when the node joins
//! (`server/src/farm/mod.rs`).

use std::net::SocketAddr;
use std::path::PathBuf;

use cluster::member::Roles;
use farm::links::Encryption;

use super::reader::{Reader, Section};

/// `[farm]`. A node outside a farm needs nothing of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Farm {
    /// The farm's name; none: the node is alone.
    pub name: Option<Box<str>>,
    /// The node's name, the same after a restart.
    pub node: Option<Box<str>>,
    /// The NATS servers of the council.
    pub council: Vec<Box<str>>,
    /// NATS credentials.
    pub credentials: Option<PathBuf>,
    /// Certificates that those of the NATS servers are checked against.
    pub authorities: Option<PathBuf>,
    /// Copies of each key in a cluster of NATS servers.
    pub replicas: u32,
    /// The file of the farm's secret.
    pub secret: Option<PathBuf>,
    /// The address for links from other nodes.
    pub listen: SocketAddr,
    /// The address of the links as other nodes reach it; none: `listen`.
    pub advertise: Option<SocketAddr>,
    /// The links that are encrypted.
    /// Each node decides for the links that it opens.
    pub encryption: Encryption,
    /// The node's tasks.
    pub roles: Roles,
    /// The node's share in relation to others'.
    /// The map gives a node of weight 200 twice the buckets and call slots of one of 100.
    pub weight: u32,
    /// Other nodes of this machine listen at the same addresses.
    pub shares_ports: bool,
}

impl Farm {
    /// `has_store`: the node's database is in a server.
    pub(super) fn read(reader: &mut Reader<'_>, has_store: bool) -> Self {
        let mut section = reader.section("farm");
        let farm = Farm {
            name: section.optional(
                "name",
                "The farm that this node belongs to: letters, digits and hyphens, the same in all its nodes. A node without it is alone.",
            ),
            node: section.optional(
                "node",
                "The name of this node, unlike those of the others and the same after a restart. The machine's host name when not given.",
            ),
            council: section.list(
                "council",
                Vec::new(),
                "NATS servers with JetStream that hold members and map: `nats://host:port`, or `tls://host:port`; one of a cluster suffices. Calls do not pass them and go on while they are away.",
            ),
            credentials: section.file("credentials", "File of NATS credentials (JWT and key)."),
            authorities: section.file(
                "council_ca",
                "PEM file of certificates that those of the NATS servers are checked against. The system's when not given.",
            ),
            replicas: section.key_in(
                "council_replicas",
                1,
                1..=5,
                "Copies of each key in a cluster of NATS servers: 3 in a cluster of three. Counts when the first node of a farm starts.",
            ),
            secret: section.file(
                "secret",
                "File of the farm's secret, the same in all nodes: `belfry farm secret FILE` makes one. Nodes prove it to each other; calls in progress are recognised by it at any node.",
            ),
            listen: section.key(
                "listen",
                SocketAddr::from(([127, 0, 0, 1], 5290)),
                "Address for links from other nodes, which prove the farm's secret.",
            ),
            advertise: section.optional("advertise", "That address as other nodes reach it. `listen` when not given."),
            encryption: read_encryption(&mut section),
            roles: read_roles(&mut section),
            weight: section.key_in(
                "weight",
                100,
                1..=10_000,
                "The node's share of calls and accounts in relation to other nodes'.",
            ),
            shares_ports: section.key(
                "shared_ports",
                false,
                "Whether other nodes of this machine listen at the same addresses, so that the kernel divides packets and connections among them.",
            ),
        };
        farm.check(&mut section, has_store);
        section.finish();
        farm
    }

    /// A name makes the node one of a farm, and then the council, a secret and an address that others reach are needed.
    fn check(&self, section: &mut Section<'_, '_>, has_store: bool) {
        let Some(name) = &self.name else { return };
        // A node of both roles may have a database of its own: then accounts and routes stay at it
        // (ARCHITECTURE.md, "Choices that may surprise").
        if !has_store && !self.roles.is_edge {
            section.mistake(
                "role",
                "`role` is \"router\" and there is no `[store] url`",
                "both: a router keeps registrations for the other nodes in a database that all share",
            );
        }
        // Both are parts of keys in the council's buckets and of paths in shared folders.
        let names = [("name", Some(name)), ("node", self.node.as_ref())];
        for (key, name) in names {
            if let Some(name) = name.filter(|name| !is_name(name)) {
                section.mistake(key, format!("`{key}` is {name:?}"), "1 to 32 letters, digits and hyphens");
            }
        }
        if self.council.is_empty() {
            section.mistake(
                "name",
                "a farm has no `council`",
                "NATS servers, as [\"nats://127.0.0.1:4222\"]",
            );
        }
        if self.secret.is_none() {
            section.mistake("name", "a farm has no `secret`", "a file made by `belfry farm secret FILE`");
        }
        let is_url = |url: &str| url.starts_with("nats://") || url.starts_with("tls://");
        if let Some(url) = self.council.iter().find(|url| !is_url(url)) {
            // A URL may hold a password.
            let scheme = url.split("://").next().unwrap_or_default();
            section.mistake(
                "council",
                format!("`council` has a URL of {scheme:?}"),
                "nats://host:port or tls://host:port",
            );
        }
        // The address goes into the node's announcement as it is, and other nodes connect to it.
        if self.advertise.unwrap_or(self.listen).ip().is_unspecified() {
            section.mistake(
                "listen",
                format!("other nodes cannot reach {}", self.listen),
                "an address of this machine, or `advertise` beside it",
            );
        }
    }
}

fn is_name(name: &str) -> bool {
    (1..=32).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn read_encryption(section: &mut Section<'_, '_>) -> Encryption {
    let encrypt: Box<str> = section.key(
        "encrypt",
        "auto".into(),
        "The links that are encrypted (TLS 1.3 with a key of the farm's secret): `auto` (all but those of this machine by loopback), `always`, or `never` (none that this node opens; those of others may be).",
    );
    match &*encrypt {
        "auto" => Encryption::Auto,
        "always" => Encryption::Always,
        "never" => Encryption::Never,
        other => {
            section.mistake("encrypt", format!("`encrypt` is {other:?}"), "auto, always or never");
            Encryption::Auto
        }
    }
}

fn read_roles(section: &mut Section<'_, '_>) -> Roles {
    let role: Box<str> = section.key(
        "role",
        "both".into(),
        "The node's tasks: `edge` (phones, trunks and clients connect to it, it works on calls), `router` (it keeps registrations, presence and sessions of accounts), or `both`.",
    );
    match &*role {
        "edge" => Roles { is_edge: true, is_router: false },
        "router" => Roles { is_edge: false, is_router: true },
        "both" => Roles::BOTH,
        other => {
            section.mistake("role", format!("`role` is {other:?}"), "edge, router or both");
            Roles::BOTH
        }
    }
}
