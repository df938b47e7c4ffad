//! NATS with JetStream, the council of a farm, in a folder of its own on loopback.

use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

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
    peer: Option<Peer>,
    folder: TempDir,
}

impl Nats {
    /// Starts a server alone.
    pub fn start(release: NatsRelease) -> Nats {
        Nats::with(release, &NatsSettings::default())
    }

    /// Starts a server with these settings. A member of a cluster does not wait for the others.
    pub fn with(release: NatsRelease, settings: &NatsSettings) -> Nats {
        let program = match release {
            NatsRelease::Debian => "nats-server".to_owned(),
            NatsRelease::Current => installed("nats", "nats-server").display().to_string(),
        };
        let folder = TempDir::new().expect("a temporary folder");
        let port = free_port();
        let text = configuration(port, folder.path(), settings);
        std::fs::write(folder.path().join("nats.conf"), text).expect("the test's folder is writable");
        let mut nats = Nats { port, program, peer: None, folder };
        nats.start_again();
        nats
    }

    /// Starts the server on its files.
    pub fn start_again(&mut self) {
        let arguments = ["-c".to_owned(), "nats.conf".to_owned()];
        let peer = Peer::start("nats", &self.program, &arguments, self.folder.path());
        let accepts = || TcpStream::connect(("127.0.0.1", self.port)).is_ok();
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
        format!("nats://127.0.0.1:{}", self.port)
    }
}

fn configuration(port: u16, folder: &Path, settings: &NatsSettings) -> String {
    let cluster = settings.cluster.first().map(|own| {
        let routes: Vec<String> =
            settings.cluster.iter().map(|port| format!("\"nats://127.0.0.1:{port}\"")).collect();
        format!("cluster {{ name: test, listen: \"127.0.0.1:{own}\", routes: [{}] }}\n", routes.join(", "))
    });
    format!(
        "server_name: n{port}\nlisten: \"127.0.0.1:{port}\"\njetstream {{ store_dir: \"{}/store\" }}\n{}{}\n",
        folder.display(),
        cluster.unwrap_or_default(),
        settings.lines,
    )
}
