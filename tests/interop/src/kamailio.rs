//! Kamailio, as a peer on either side of a node, or in a node's place.

use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;

use crate::peer::Peer;
use crate::ports::free_port;
use crate::wait::{wait_for_sip, wait_until};

pub struct Kamailio {
    pub port: u16,
    peer: Peer,
    _folder: TempDir,
}

impl Kamailio {
    /// A proxy that sends everything without a route on to `target`. One worker: with two, a 200 may overtake the 180
    /// before it, which SIPp takes for a fault.
    pub fn proxy_to(target: u16) -> Kamailio {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/kamailio/proxy.cfg");
        Kamailio::start(&config, &[&format!("TARGET=\"sip:127.0.0.1:{target}\""), "WORKERS=1"])
    }

    /// A registrar and proxy for [`crate::DOMAIN`] where every account's password is `secret`.
    pub fn office() -> Kamailio {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("kamailio/office.cfg");
        Kamailio::start(&config, &["OFFICE"])
    }

    /// A capture server: it prints a line for each message that it is sent a copy of.
    pub fn capture() -> Kamailio {
        let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("kamailio/capture.cfg");
        let kamailio = Kamailio::launch(&config, &[]);
        // It answers nothing. Datagrams that come before its processes have started wait in the socket.
        let (peer, port) = (&kamailio.peer, kamailio.port);
        let is_bound = || peer.is_bound("udp", port);
        wait_until("Kamailio's socket", Duration::from_secs(20), is_bound, || peer.tail());
        kamailio
    }

    /// The lines that it has printed.
    pub fn lines(&self) -> Vec<String> {
        self.peer.lines()
    }

    fn start(config: &Path, defines: &[&str]) -> Kamailio {
        let kamailio = Kamailio::launch(config, defines);
        wait_for_sip(kamailio.port, || kamailio.peer.tail());
        kamailio
    }

    fn launch(config: &Path, defines: &[&str]) -> Kamailio {
        let folder = TempDir::new().expect("a temporary folder");
        let port = free_port();
        let place = folder.path().display();
        let mut arguments = vec![
            "-f".to_owned(),
            config.display().to_string(),
            "-DD".to_owned(),
            "-E".to_owned(),
            "-l".to_owned(),
            format!("udp:127.0.0.1:{port}"),
            "-Y".to_owned(),
            place.to_string(),
            "-P".to_owned(),
            format!("{place}/kamailio.pid"),
        ];
        arguments.extend(["-A".to_owned(), format!("DATABASE=\"text://{place}\"")]);
        arguments.extend(defines.iter().flat_map(|define| ["-A".to_owned(), (*define).to_owned()]));
        let peer = Peer::start("kamailio", "kamailio", &arguments, folder.path());
        Kamailio { port, peer, _folder: folder }
    }
}
