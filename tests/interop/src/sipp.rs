//! SIPp as a caller, an answerer and a registering phone.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use crate::DOMAIN;
use crate::network::Namespace;
use crate::peer::Peer;
use crate::ports::{Ports, free_port};
use crate::wait::{lines_in, wait_until};

/// One line of an injection file.
pub struct Account {
    pub user: String,
    pub password: String,
}

impl Account {
    pub fn new(user: &str, password: &str) -> Account {
        Account { user: user.to_owned(), password: password.to_owned() }
    }
}

/// It listens for audio and, two above, for video, and for the echo of each.
const MEDIA: u16 = 4;

/// A SIPp that runs one scenario. Drop it to end it.
pub struct Sipp {
    pub port: u16,
    peer: Peer,
    _media: Ports,
    folder: TempDir,
}

/// The time between the ACK and the BYE of a call: another core may send the second.
const SHORT: Duration = Duration::from_millis(50);

impl Sipp {
    /// Waits for `calls` calls and ends after them. `scenario` is a file of `scenarios/` or of the bench's, or `-uas`
    /// and `-uac` for SIPp's built-in ones.
    pub fn answering(scenario: &str, calls: u32) -> Sipp {
        let sipp = Sipp::start(scenario, &[], calls, &[]);
        sipp.wait_until_bound();
        sipp
    }

    /// As [`answering`](Self::answering), for requests that nodes of a farm forward again: the Via names the node, and SIPp compares all
    /// bytes, but a retransmission is told by its transaction (RFC 3261 §17.2.3).
    pub fn answering_nodes(scenario: &str, calls: u32) -> Sipp {
        let sipp = Sipp::start(scenario, &[], calls, &["-rtcheck", "loose"].map(str::to_owned));
        sipp.wait_until_bound();
        sipp
    }

    /// Places `calls` calls to `user` through 127.0.0.1:`proxy`, `rate` a second. They end soon.
    pub fn calling(scenario: &str, proxy: u16, user: &str, calls: u32, rate: u32) -> Sipp {
        Sipp::calling_for(SHORT, scenario, proxy, user, calls, rate)
    }

    /// Does what [`calling`](Self::calling) does, with calls that are up for so long.
    pub fn calling_for(
        time: Duration,
        scenario: &str,
        proxy: u16,
        user: &str,
        calls: u32,
        rate: u32,
    ) -> Sipp {
        let (rate, time) = (rate.to_string(), time.as_millis().to_string());
        let more = ["-s", user, "-r", &rate, "-d", &time].map(str::to_owned);
        Sipp::start(scenario, &[format!("127.0.0.1:{proxy}")], calls, &more)
    }

    /// As [`answering`](Self::answering), on a host of a test's network.
    pub fn answering_on(host: &Namespace, scenario: &str, calls: u32) -> Sipp {
        let sipp = Sipp::start_in(Place::on(host), scenario, &[], calls, &[]);
        sipp.wait_until_bound();
        sipp
    }

    /// As [`calling`](Self::calling), on a host of a test's network.
    pub fn calling_on(
        host: &Namespace,
        scenario: &str,
        proxy: SocketAddrV4,
        user: &str,
        calls: u32,
        rate: u32,
    ) -> Sipp {
        let (rate, time) = (rate.to_string(), SHORT.as_millis().to_string());
        let more = ["-s", user, "-r", &rate, "-d", &time].map(str::to_owned);
        Sipp::start_in(Place::on(host), scenario, &[proxy.to_string()], calls, &more)
    }

    /// One call of SIPp's own caller, which hangs up after so long.
    pub fn holding(proxy: u16, user: &str, time: Duration) -> Sipp {
        let more = ["-s", user, "-d", &time.as_millis().to_string()].map(str::to_owned);
        Sipp::start("-uac", &[format!("127.0.0.1:{proxy}")], 1, &more)
    }

    /// Runs a scenario once for each account: its fields are user, domain and credentials. `contact` is where
    /// register.xml binds them.
    pub fn for_accounts(scenario: &str, proxy: u16, accounts: &[Account], contact: u16, rate: u32) -> Sipp {
        let folder = TempDir::new().expect("a temporary folder");
        let mut lines = vec!["SEQUENTIAL".to_owned()];
        for Account { user, password } in accounts {
            lines.push(format!("{user};{DOMAIN};[authentication username={user} password={password}]"));
        }
        let injection = folder.path().join("accounts.csv");
        std::fs::write(&injection, lines.join("\n") + "\n").expect("the test's folder is writable");
        let more = [
            "-inf".to_owned(),
            injection.display().to_string(),
            "-key".to_owned(),
            "contact".to_owned(),
            format!("127.0.0.1:{contact}"),
            "-r".to_owned(),
            rate.to_string(),
        ];
        let calls = u32::try_from(accounts.len()).expect("a test has few accounts");
        let place = Place { folder, host: None };
        Sipp::start_in(place, scenario, &[format!("127.0.0.1:{proxy}")], calls, &more)
    }

    /// Waits until all its calls are done, and panics with SIPp's output unless all went as written.
    pub fn succeeds(mut self) {
        let code = self.code();
        assert!(code == Some(0), "SIPp: {code:?}\n{}", self.report());
    }

    /// Waits until all its calls are done; at least one must not have gone as written.
    pub fn fails(mut self) {
        let code = self.code();
        assert!(code == Some(1), "SIPp was to fail a call: {code:?}\n{}", self.report());
    }

    /// Waits until all its calls are done. True if all went as written.
    pub fn passes(mut self) -> bool {
        let code = self.code();
        assert!(matches!(code, Some(0 | 1)), "SIPp: {code:?}\n{}", self.report());
        code == Some(0)
    }

    /// The lines that the scenario's `<log>` actions have written so far.
    pub fn logged(&self) -> Vec<String> {
        lines_in(&self.folder.path().join("log.txt"))
    }

    fn code(&mut self) -> Option<i32> {
        self.peer.wait(Duration::from_secs(90)).code()
    }

    fn report(&self) -> String {
        let errors = lines_in(&self.folder.path().join("errors.txt"));
        format!("{}\n{}", self.peer.tail(), errors[..errors.len().min(60)].join("\n"))
    }

    fn start(scenario: &str, remote: &[String], calls: u32, more: &[String]) -> Sipp {
        let place = Place { folder: TempDir::new().expect("a temporary folder"), host: None };
        Sipp::start_in(place, scenario, remote, calls, more)
    }

    fn start_in(place: Place<'_>, scenario: &str, remote: &[String], calls: u32, more: &[String]) -> Sipp {
        let Place { folder, host } = place;
        let address = host.map_or(Ipv4Addr::LOCALHOST, Namespace::address);
        let port = free_port();
        let text = format!(
            "-i {address} -nostdin -timer_resol 1 -trace_err -error_file errors.txt -trace_logs -log_file log.txt"
        );
        let mut arguments: Vec<String> = match scenario.strip_prefix('-') {
            Some(built_in) => vec!["-sn".to_owned(), built_in.to_owned()],
            None => vec!["-sf".to_owned(), find(scenario).display().to_string()],
        };
        arguments.extend(remote.iter().cloned());
        arguments.extend(text.split(' ').map(str::to_owned));
        arguments.extend(["-p".to_owned(), port.to_string(), "-m".to_owned(), calls.to_string()]);
        let media = Ports::reserve(MEDIA);
        arguments.extend(["-mp".to_owned(), media.first().to_string()]);
        arguments.extend(more.iter().cloned());
        let peer = match host {
            Some(host) => host.start("sipp", "sipp", &arguments, folder.path()),
            None => Peer::start("sipp", "sipp", &arguments, folder.path()),
        };
        Sipp { port, peer, _media: media, folder }
    }

    fn wait_until_bound(&self) {
        let is_bound = || self.peer.is_bound("udp", self.port);
        wait_until("SIPp to listen", Duration::from_secs(60), is_bound, || self.report());
    }
}

/// The messages of one end of a call say why a test has failed at the other.
impl Drop for Sipp {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("SIPp at {}:\n{}", self.port, self.report());
        }
    }
}

/// The folder of a SIPp, and its host in a test's network.
struct Place<'a> {
    folder: TempDir,
    host: Option<&'a Namespace>,
}

impl<'a> Place<'a> {
    fn on(host: &'a Namespace) -> Place<'a> {
        Place { folder: TempDir::new().expect("a temporary folder"), host: Some(host) }
    }
}

fn find(scenario: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    ["scenarios", "../../bench/scenarios"]
        .map(|folder| here.join(folder).join(scenario))
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("no scenario {scenario}"))
}
