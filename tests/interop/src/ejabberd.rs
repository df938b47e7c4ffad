//! ejabberd, another chat server, in a folder of its own on loopback: an Erlang node without a name, so that it needs no
//! daemon beside it.

use std::fs::read_to_string;
use std::path::Path;

use tempfile::TempDir;

use crate::certificates::{Authority, self_signed};
use crate::dns::Dns;
use crate::peer::Peer;
use crate::ports::free_port;
use crate::prosody::{fill, wait_for_port};

pub struct Ejabberd {
    /// Where clients connect, with STARTTLS if they want.
    pub client: u16,
    /// Where servers connect.
    pub server: u16,
    peer: Peer,
    folder: TempDir,
    _dns: Dns,
}

impl Ejabberd {
    /// Serves `domain` and its rooms with these accounts, whose password is `secret`. All other servers are
    /// at 127.0.0.1:`peers`. With an authority it has a certificate of it, and admits only servers that have
    /// one too.
    pub fn start(domain: &str, users: &[&str], peers: u16, authority: Option<&Authority>) -> Ejabberd {
        let dns = Dns::start(peers);
        let folder = TempDir::new().expect("a temporary folder");
        let place = folder.path();
        let (client, server) = (free_port(), free_port());
        let own = match authority {
            Some(authority) => authority.certify(domain),
            None => self_signed(place, domain),
        };
        // It wants both in one file.
        let both = [&own.certificate, &own.key].map(|file| read_to_string(file).expect("it was made above"));
        let certificate = place.join("own.pem");
        std::fs::write(&certificate, both.concat()).expect("the test's folder is writable");
        let trusted = authority.map_or_else(|| own.certificate.clone(), Authority::certificate);
        let filled = [
            ("CLIENT", client.to_string()),
            ("SERVER", server.to_string()),
            ("DOMAIN", domain.to_owned()),
            ("AUTHORITY", trusted.display().to_string()),
            ("CERTIFICATE", certificate.display().to_string()),
        ];
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("ejabberd/ejabberd.yml");
        let config = fill(&source, &place.join("ejabberd.yml"), &filled);
        std::fs::write(place.join("inetrc"), asks(&dns)).expect("the test's folder is writable");
        let register: String = users
            .iter()
            .map(|user| {
                format!("ok = ejabberd_auth:try_register(<<\"{user}\">>, <<\"{domain}\">>, <<\"secret\">>), ")
            })
            .collect();
        let inetrc = format!("ERL_INETRC={}", place.join("inetrc").display());
        let peer = start(place, &config, &[inetrc], &format!("{register} ok"));
        wait_for_port(client, &peer);
        wait_for_port(server, &peer);
        Ejabberd { client, server, peer, folder, _dns: dns }
    }

    /// The end of its output and log.
    pub fn tail(&self) -> String {
        let log = read_to_string(self.folder.path().join("ejabberd.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        format!("{}\n{}", self.peer.tail(), lines[lines.len().saturating_sub(60)..].join("\n"))
    }
}

/// The line that it prints once the last expression is evaluated.
pub(crate) const READY: &str = "ejabberd is ready";

/// Two schedulers, no distribution. `then`: Erlang that is evaluated when it runs.
pub(crate) fn start(place: &Path, config: &Path, more: &[String], then: &str) -> Peer {
    let begin =
        format!("{{ok, _}} = application:ensure_all_started(ejabberd), {then}, io:format(\"{READY}~n\").");
    let text = |path: &Path| path.display().to_string();
    let assignments = [
        "ERL_LIBS=/usr/lib/x86_64-linux-gnu".to_owned(),
        format!("EJABBERD_CONFIG_PATH={}", text(config)),
        format!("EJABBERD_LOG_PATH={}", text(&place.join("ejabberd.log"))),
        format!("ERL_CRASH_DUMP={}", text(&place.join("crash.dump"))),
        format!("HOME={}", text(place)),
    ];
    let erl = ["erl", "-noinput", "+S", "2", "+P", "50000", "-mnesia", "dir"].map(str::to_owned);
    let rest = [format!("\"{}\"", text(&place.join("mnesia"))), "-eval".to_owned(), begin];
    let arguments: Vec<String> =
        assignments.into_iter().chain(more.iter().cloned()).chain(erl).chain(rest).collect();
    Peer::start("erl", "env", &arguments, place)
}

/// The test's DNS and no other.
fn asks(dns: &Dns) -> String {
    format!("{{resolv_conf, \"\"}}.\n{{nameserver, {{127,0,0,1}}, {}}}.\n{{lookup, [dns]}}.\n", dns.port)
}
