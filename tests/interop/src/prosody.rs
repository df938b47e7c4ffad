//! Prosody, another chat server, in a folder of its own on loopback.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::certificates::{Authority, self_signed};
use crate::peer::Peer;
use crate::ports::free_port;
use crate::wait::wait_until;

pub struct Prosody {
    /// Where clients connect, without TLS.
    pub client: u16,
    /// Where servers connect.
    pub server: u16,
    /// Where servers connect with TLS from the first byte.
    pub direct: u16,
    peer: Peer,
    _folder: TempDir,
}

impl Prosody {
    /// Serves `domain` and its rooms with these accounts, whose password is `secret`. All other servers are
    /// at 127.0.0.1:`peers`. With an authority it has a certificate of it, and admits only servers that have
    /// one too.
    pub fn start(domain: &str, users: &[&str], peers: u16, authority: Option<&Authority>) -> Prosody {
        let folder = TempDir::new().expect("a temporary folder");
        let place = folder.path();
        let (client, server, direct) = (free_port(), free_port(), free_port());
        std::fs::create_dir(place.join("certs")).expect("the test's folder is writable");
        for user in users {
            add_account(place, domain, user);
        }
        let own = match authority {
            Some(authority) => authority.certify(domain),
            None => self_signed(place, domain),
        };
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("prosody");
        let trusted =
            authority.map(|authority| format!("cafile = \"{}\";", authority.certificate().display()));
        let filled = [
            ("FOLDER", place.display().to_string()),
            ("PLUGINS", sources.display().to_string()),
            ("CLIENT", client.to_string()),
            ("SERVER", server.to_string()),
            ("DIRECT", direct.to_string()),
            ("PEERS", peers.to_string()),
            ("SECURE", authority.is_some().to_string()),
            ("AUTHORITY", trusted.unwrap_or_default()),
            ("BIDI", "\"s2s_bidi\";".to_owned()),
            ("OPERATOR", format!("{}@{domain}", users.first().unwrap_or(&"admin"))),
            ("DOMAIN", domain.to_owned()),
            ("KEY", own.key.display().to_string()),
            ("CERTIFICATE", own.certificate.display().to_string()),
        ];
        let config = fill(&sources.join("prosody.cfg.lua"), &place.join("prosody.cfg.lua"), &filled);
        let arguments = ["--config".to_owned(), config.display().to_string(), "-F".to_owned()];
        let peer = Peer::start("prosody", "prosody", &arguments, place);
        wait_for_port(client, &peer);
        wait_for_port(server, &peer);
        wait_for_port(direct, &peer);
        Prosody { client, server, direct, peer, _folder: folder }
    }

    /// The end of its output.
    pub fn tail(&self) -> String {
        self.peer.tail()
    }
}

/// As its store of files has it.
fn add_account(place: &Path, domain: &str, user: &str) {
    let folder = place.join("data").join(domain.replace('.', "%2e")).join("accounts");
    std::fs::create_dir_all(&folder).expect("the test's folder is writable");
    let text = "return { [\"password\"] = \"secret\"; };\n";
    std::fs::write(folder.join(format!("{user}.dat")), text).expect("the test's folder is writable");
}

/// Copies a configuration with its places filled in.
pub(crate) fn fill(from: &Path, to: &Path, filled: &[(&str, String)]) -> PathBuf {
    let mut text = std::fs::read_to_string(from).expect("the configuration is in the sources");
    for (name, value) in filled {
        text = text.replace(&format!("@{name}@"), value);
    }
    std::fs::write(to, text).expect("the test's folder is writable");
    to.to_owned()
}

pub(crate) fn wait_for_port(port: u16, peer: &Peer) {
    let is_open = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    wait_until(&format!("127.0.0.1:{port}"), Duration::from_secs(180), is_open, || peer.tail());
}
