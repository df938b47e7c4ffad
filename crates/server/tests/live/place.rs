//! A folder with a configuration and a record, and the node in it: as a process, or within the test.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use config::Config;
use interop::Ports;
use net::clock::Clock;
use server::node::Node;
use sip::transport::Transport;
use store::Admin;
use store::types::{Address, NewAccount, Pattern, Route, RoutePolicy, RouteTarget};
use tempfile::TempDir;

use crate::link::Link;
use crate::phone::{DOMAIN, PASSWORD, Phone};
use crate::{Deadline, PATIENCE};

pub(crate) struct Place {
    folder: TempDir,
    base: u16,
    /// Reserved until this is dropped.
    _ports: Ports,
}

/// Ports of one place: UDP and TCP share the first.
const PORTS: u16 = 11;

impl Place {
    /// Two shards, all transports; `more` goes into `[sip]`.
    pub(crate) fn new(more: &str) -> Place {
        Self::with_shards(2, more)
    }

    pub(crate) fn with_shards(shards: u16, more: &str) -> Place {
        let ports = Ports::reserve(PORTS);
        let place = Place { folder: tempfile::tempdir().unwrap(), base: ports.first(), _ports: ports };
        let at = |offset: u16| format!("127.0.0.1:{}", place.base + offset);
        let text = format!(
            "[server]\ndata = \"data\"\nshards = {shards}\n\
             [http]\nlisten = \"{}\"\n\
             [sip]\ndomains = [\"{DOMAIN}\"]\n\
             listen = [\"udp:{}\", \"tcp:{}\", \"tls:{}\", \"ws:{}\", \"wss:{}\", \"udp:[::1]:{}\"]\n{more}\n",
            at(5),
            at(0),
            at(0),
            at(1),
            at(2),
            at(3),
            place.base
        );
        std::fs::write(place.path("belfry.toml"), text).unwrap();
        std::fs::create_dir(place.path("data")).unwrap();
        place
    }

    /// `more` goes into `[http]`.
    pub(crate) fn with_http(self, more: &str) -> Place {
        let file = self.path("belfry.toml");
        let text =
            std::fs::read_to_string(&file).unwrap().replacen("[http]\n", &format!("[http]\n{more}\n"), 1);
        std::fs::write(file, text).unwrap();
        self
    }

    /// Chat clients may come, by all ways; `more` goes into `[xmpp]`.
    pub(crate) fn with_xmpp(self, more: &str) -> Place {
        let at = |offset: u16| format!("127.0.0.1:{}", self.base + offset);
        let listen = format!("\"tcp:{}\", \"tls:{}\", \"ws:{}\", \"wss:{}\"", at(6), at(7), at(8), at(9));
        let file = self.path("belfry.toml");
        let text =
            std::fs::read_to_string(&file).unwrap() + &format!("[xmpp]\nlisten = [{listen}]\n{more}\n");
        std::fs::write(file, text).unwrap();
        self
    }

    /// There is a proxy of bytestreams; `more` goes into `[xmpp.bytestreams]`.
    pub(crate) fn with_bytestreams(self, more: &str) -> Place {
        let file = self.path("belfry.toml");
        let section = format!("[xmpp.bytestreams]\nlisten = [\"tcp:{}\"]\n{more}\n", self.bytestreams());
        std::fs::write(&file, std::fs::read_to_string(&file).unwrap() + &section).unwrap();
        self
    }

    /// The address of the proxy of bytestreams.
    pub(crate) fn bytestreams(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.base + 10).into()
    }

    /// The database is in a PostgreSQL server.
    pub(crate) fn with_postgres(self, url: &str) -> Place {
        let file = self.path("belfry.toml");
        let text = std::fs::read_to_string(&file).unwrap() + &format!("[store]\nurl = \"{url}\"\n");
        std::fs::write(file, text).unwrap();
        self
    }

    /// The address for chat clients of that transport.
    pub(crate) fn xmpp_at(&self, transport: Transport) -> SocketAddr {
        let offset = match transport {
            Transport::Udp | Transport::Tcp => 6,
            Transport::Tls => 7,
            Transport::Ws => 8,
            Transport::Wss => 9,
        };
        (Ipv4Addr::LOCALHOST, self.base + offset).into()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.path("data/belfry.db")
    }

    pub(crate) fn config(&self) -> Config {
        Config::read(&self.path("belfry.toml")).unwrap()
    }

    pub(crate) fn admin(&self) -> Admin {
        let mut admin = Admin::new(&cli::database::place(&self.config()).open().unwrap()).unwrap();
        admin.ensure_domain(DOMAIN, Clock::new().now()).unwrap();
        admin
    }

    pub(crate) fn with_accounts(self, users: &[&str]) -> Place {
        let mut admin = self.admin();
        for user in users {
            let address = Address::new(user, DOMAIN).unwrap();
            let account = NewAccount::with_password(address, PASSWORD, Clock::new().now()).unwrap();
            admin.add_account(account).unwrap();
        }
        self
    }

    /// Calls to `user` go to a socket of the test, also those of strangers.
    pub(crate) fn with_route(self, user: &str, to: SocketAddr) -> Place {
        self.with_policy(user, to, true, RoutePolicy::default())
    }

    pub(crate) fn with_policy(self, user: &str, to: SocketAddr, open: bool, policy: RoutePolicy) -> Place {
        let target = RouteTarget { uri: format!("sip:{to}").into(), weight: 1, priority: 1 };
        let route = Route {
            id: 0,
            name: user.into(),
            pattern: Pattern::User(user.into()),
            targets: vec![target],
            open,
            probe: false,
            strip: 0,
            prefix: "".into(),
            policy,
            created_at: Clock::new().now(),
        };
        self.admin().add_route(route).unwrap();
        self
    }

    pub(crate) fn at(&self, transport: Transport) -> SocketAddr {
        let offset = match transport {
            Transport::Udp | Transport::Tcp => 0,
            Transport::Tls => 1,
            Transport::Ws => 2,
            Transport::Wss => 3,
        };
        (Ipv4Addr::LOCALHOST, self.base + offset).into()
    }

    /// The address of metrics and, without an address of its own, of the REST interface.
    pub(crate) fn http(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.base + 5).into()
    }

    pub(crate) fn phone(&self, user: &str, transport: Transport) -> Phone {
        let server = self.at(transport);
        let ca = self.path("data/cert.pem");
        let link = match transport {
            Transport::Udp => Link::udp(server),
            Transport::Tcp => Link::tcp(server),
            Transport::Tls => Link::tls(server, &ca),
            Transport::Ws => Link::ws(server),
            Transport::Wss => Link::wss(server, &ca),
        };
        Phone::new(user, transport, server, link)
    }

    pub(crate) fn udp(&self, user: &str) -> Phone {
        self.phone(user, Transport::Udp)
    }

    pub(crate) fn udp6(&self, user: &str) -> Phone {
        let server = format!("[::1]:{}", self.base).parse().unwrap();
        Phone::new(user, Transport::Udp, server, Link::udp(server))
    }

    pub(crate) fn start(&self) -> Node {
        self.start_with(&store::sqlite::Options::default())
    }

    pub(crate) fn start_with(&self, record: &store::sqlite::Options) -> Node {
        Node::start_with(self.config(), record).unwrap()
    }

    /// The binary; ready when it answers.
    pub(crate) fn spawn(&self) -> Process {
        self.spawn_as(Command::new(env!("CARGO_BIN_EXE_belfry")))
    }

    /// `command` is the binary or a shell that becomes it.
    pub(crate) fn spawn_as(&self, mut command: Command) -> Process {
        let log = self.path("log");
        let file = File::options().create(true).append(true).open(&log).unwrap();
        command.arg("serve").current_dir(self.folder.path()).env("NO_COLOR", "1");
        command.stdin(Stdio::null()).stdout(file.try_clone().unwrap()).stderr(file);
        let mut process = Process { child: command.spawn().unwrap(), log };
        let mut asker = self.udp("nobody");
        let deadline = Deadline::after(PATIENCE);
        loop {
            let here = asker.server.to_string();
            let uri = format!("sip:{here}");
            let ask = asker.ask("OPTIONS", &uri);
            let message = asker.write(&ask);
            asker.send(message.as_bytes());
            let soon = Deadline::after(Duration::from_millis(100));
            if asker.wait(soon, |message| message.status() == 200).is_some() {
                return process;
            }
            let ended = process.child.try_wait().unwrap();
            let alive = ended.is_none() && deadline.left().is_some();
            assert!(alive, "it did not start: {ended:?}\n{}", process.log());
        }
    }
}

/// The running binary; killed when dropped.
pub(crate) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// SIGKILL, by its id; returns when it is gone.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // It may be gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
    }
}
