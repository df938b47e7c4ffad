//! Pebble, Let's Encrypt's authority for tests of ACME, on loopback.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use crate::certificates::{Authority, Certified};
use crate::dns::Dns;
use crate::peer::{Peer, installed};
use crate::ports::free_port;
use crate::wait::wait_until;

/// An authority to which all names lead to loopback.
pub struct Pebble {
    /// The port of its directory.
    port: u16,
    /// The port at which it gives out its root.
    management: u16,
    /// The port at which it asks for HTTP-01.
    pub http: u16,
    /// The port at which it asks for TLS-ALPN-01.
    pub tls: u16,
    dns: Dns,
    /// The authority of the directory's own server.
    authority: Authority,
    server: Certified,
    folder: TempDir,
    peer: Option<Peer>,
}

impl Pebble {
    /// Configured, not started.
    pub fn prepare() -> Pebble {
        let authority = Authority::new();
        let server = authority.certify("localhost");
        let pebble = Pebble {
            port: free_port(),
            management: free_port(),
            http: free_port(),
            tls: free_port(),
            dns: Dns::of_hosts(),
            authority,
            server,
            folder: TempDir::new().expect("a temporary folder"),
            peer: None,
        };
        let text = pebble.configuration();
        std::fs::write(pebble.folder.path().join("pebble.json"), text)
            .expect("the test's folder is writable");
        pebble
    }

    /// Two kinds of certificates: of 90 days, and `brief` ones.
    fn configuration(&self) -> String {
        serde_json::json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{}", self.port),
            "managementListenAddress": format!("127.0.0.1:{}", self.management),
            "certificate": self.server.certificate,
            "privateKey": self.server.key,
            "httpPort": self.http,
            "tlsPort": self.tls,
            "retryAfter": { "authz": 1, "order": 1 },
            "profiles": {
                "default": { "description": "90 days", "validityPeriod": 7_776_000 },
                "brief": { "description": "30 seconds", "validityPeriod": 30 },
            },
        }})
        .to_string()
    }

    /// Starts it, at the ports that it had before.
    #[must_use]
    pub fn started(mut self) -> Pebble {
        let program = installed("pebble", "pebble").display().to_string();
        let dns = format!("127.0.0.1:{}", self.dns.port);
        // It sleeps up to 15 seconds before each question otherwise. It refuses some good nonces, and is left to.
        let arguments = ["PEBBLE_VA_NOSLEEP=1", &program, "-config", "pebble.json", "-dnsserver", &dns]
            .map(str::to_owned);
        let peer = Peer::start("pebble", "env", &arguments, self.folder.path());
        let is_bound = || peer.is_bound("tcp", self.port) && peer.is_bound("tcp", self.management);
        wait_until("Pebble to listen", Duration::from_secs(20), is_bound, || peer.tail());
        self.peer = Some(peer);
        self
    }

    /// Keys of `[acme]` for a node that orders certificates of this kind here; without a kind Pebble takes any.
    pub fn keys(&self, profile: &str) -> String {
        format!(
            "agree_to_terms = true\nprofile = \"{profile}\"\ndirectory = \"https://localhost:{}/dir\"\nauthorities = \"{}\"\n",
            self.port,
            self.authority.certificate().display()
        )
    }

    /// The file of its root, which clients have to trust.
    pub fn root(&self) -> PathBuf {
        let file = self.folder.path().join("root.pem");
        let output = Command::new("curl")
            .args(["-sS", "--max-time", "20", "--cacert"])
            .arg(self.authority.certificate())
            .arg(format!("https://localhost:{}/roots/0", self.management))
            .arg("-o")
            .arg(&file)
            .output()
            .unwrap_or_else(|error| panic!("curl: {error}. Install it: apt-get install curl"));
        assert!(output.status.success(), "curl: {}", String::from_utf8_lossy(&output.stderr));
        file
    }

    /// The end of its output.
    pub fn tail(&self) -> String {
        self.peer.as_ref().map(Peer::tail).unwrap_or_default()
    }
}

/// The certificate that a server shows in PEM, by OpenSSL's client, if it is for `name` and `root` vouches for it. `more`: `-starttls`
/// and its kin.
///
/// # Errors
/// The output of the client.
pub fn certificate_shown(port: u16, name: &str, root: &Path, more: &[&str]) -> Result<String, String> {
    let output = Command::new("openssl")
        .args(["s_client", "-connect", &format!("127.0.0.1:{port}"), "-servername", name])
        .args(["-verify_hostname", name, "-verify_return_error", "-CAfile"])
        .arg(root)
        .args(more)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("openssl: {error}. Install it: apt-get install openssl"));
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr).into_owned());
    let begin = out.find("-----BEGIN CERTIFICATE-----");
    let end = out.find("-----END CERTIFICATE-----");
    match begin.zip(end).filter(|_| out.contains("Verify return code: 0 (ok)")) {
        Some((begin, end)) => Ok(out[begin..end].to_owned()),
        None => Err(format!("{errors}\n{out}")),
    }
}
