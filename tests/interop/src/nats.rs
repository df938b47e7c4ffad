//! NATS with JetStream, the council of a farm, in a folder of its own on loopback.

use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::network::Namespace;
use crate::peer::{Peer, installed};
use crate::ports::free_port;
use crate::wait::wait_until;

/// The releases that a farm must work with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NatsRelease {
    /// Debian's, 2.9.
    Debian,
    /// The one that `tools/setup` builds.
    Current,
}

/// Settings of a server beside its ports.
#[derive(Clone, Debug, Default)]
pub struct NatsSettings {
    /// Lines for the configuration file: TLS, users.
    pub lines: String,
    /// The ports of a cluster's servers between themselves; the first is this server's.
    pub cluster: Vec<u16>,
}

/// One server.
pub struct Nats {
    /// The port for clients.
    pub port: u16,
    program: String,
    /// None: loopback of the test's own network.
    host: Option<Arc<Namespace>>,
    peer: Option<Peer>,
    folder: TempDir,
}

impl Nats {
    /// Starts a server alone.
    pub fn start(release: NatsRelease) -> Nats {
        Nats::with(release, &NatsSettings::default())
    }

    /// Starts a server alone, on a host of a test's network.
    pub fn on_host(release: NatsRelease, host: &Arc<Namespace>) -> Nats {
        Nats::with_host(release, &NatsSettings::default(), Some(Arc::clone(host)))
    }

    /// Starts a server with these settings. A member of a cluster does not wait for the others.
    pub fn with(release: NatsRelease, settings: &NatsSettings) -> Nats {
        Nats::with_host(release, settings, None)
    }

    fn with_host(release: NatsRelease, settings: &NatsSettings, host: Option<Arc<Namespace>>) -> Nats {
        let program = match release {
            NatsRelease::Debian => "nats-server".to_owned(),
            NatsRelease::Current => installed("nats", "nats-server").display().to_string(),
        };
        let folder = TempDir::new().expect("a temporary folder");
        let port = free_port();
        let mut nats = Nats { port, program, host, peer: None, folder };
        let text = configuration(nats.address(), port, nats.folder.path(), settings);
        std::fs::write(nats.folder.path().join("nats.conf"), text).expect("the test's folder is writable");
        nats.start_again();
        nats
    }

    /// Starts the server on its files.
    pub fn start_again(&mut self) {
        let arguments = ["-c".to_owned(), "nats.conf".to_owned()];
        let folder = self.folder.path();
        let peer = match &self.host {
            Some(host) => host.start("nats", &self.program, &arguments, folder),
            None => Peer::start("nats", &self.program, &arguments, folder),
        };
        let accepts = || match &self.host {
            Some(_) => peer.is_bound("tcp", self.port),
            None => TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
        };
        wait_until("NATS to listen", Duration::from_secs(20), accepts, || peer.tail());
        self.peer = Some(peer);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.peer.take().expect("it runs").kill();
    }

    /// Removes the files of a server that has been killed.
    pub fn forget_all(&self) {
        std::fs::remove_dir_all(self.folder.path().join("store")).expect("the server is not running");
    }

    /// The URL for clients.
    pub fn url(&self) -> String {
        format!("nats://{}:{}", self.address(), self.port)
    }

    fn address(&self) -> Ipv4Addr {
        self.host.as_ref().map_or(Ipv4Addr::LOCALHOST, |host| host.address())
    }
}

fn configuration(address: Ipv4Addr, port: u16, folder: &Path, settings: &NatsSettings) -> String {
    let cluster = settings.cluster.first().map(|own| {
        let routes: Vec<String> =
            settings.cluster.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        format!("cluster {{ name: test, listen: \"127.0.0.1:{own}\", routes: [{}] }}\n", routes.join(", "))
    });
    format!(
        "server_name: n{port}\nlisten: \"{address}:{port}\"\njetstream {{ store_dir: \"{}/store\" }}\n{}{}\n",
        folder.display(),
        cluster.unwrap_or_default(),
        settings.lines,
    )
}
