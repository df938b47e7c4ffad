//! The real `belfry`, on free ports of loopback, with a data folder of its own.

use std::io::{Read as _, Write as _};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::DOMAIN;
use crate::network::Namespace;
use crate::peer::{Peer, send};
use crate::ports::{Ports, free_port};
use crate::wait::{wait_for_sip, wait_until};

pub struct Node {
    /// UDP and TCP.
    pub port: u16,
    pub tls: u16,
    /// Metrics, and the REST interface where there is one.
    pub http: u16,
    config: PathBuf,
    /// None: loopback of the test's own network.
    host: Option<Arc<Namespace>>,
    /// The most files that its process may have open, if not as many as the test's.
    open_files: Option<u32>,
    /// Several processes run from the configuration, with these neighbouring ports for HTTP.
    processes: Option<(u16, Ports)>,
    peer: Option<Peer>,
    folder: TempDir,
}

impl Node {
    /// Configured, not started: give it accounts and routes first, or later through the same commands.
    pub fn prepare() -> Node {
        Node::prepare_at(free_port())
    }

    /// As [`prepare`](Self::prepare), at a port that other nodes may have, too.
    pub fn prepare_at(port: u16) -> Node {
        Node::prepare_with(port, Ipv4Addr::LOCALHOST, None)
    }

    /// A node on a host of a test's network, with this address and port for SIP.
    pub fn prepare_on(host: &Arc<Namespace>, address: Ipv4Addr, port: u16) -> Node {
        Node::prepare_with(port, address, Some(Arc::clone(host)))
    }

    fn prepare_with(port: u16, address: Ipv4Addr, host: Option<Arc<Namespace>>) -> Node {
        let folder = TempDir::new().expect("a temporary folder");
        let (tls, http) = (free_port(), free_port());
        let place = folder.path().display();
        let config = folder.path().join("belfry.toml");
        // COMPAT(sipp 3.6, baresip 1.0): both give up on a challenge that is not MD5, even beside one that is.
        let text = format!(
            r#"[server]
data = "{place}/data"
control = "{place}/control.sock"
shards = 2

[sip]
listen = ["udp:{address}:{port}", "tcp:{address}:{port}", "tls:{address}:{tls}"]
domains = ["{DOMAIN}"]
algorithms = ["MD5"]

[http]
listen = "127.0.0.1:{http}"
"#
        );
        std::fs::write(&config, text).expect("the test's folder is writable");
        Node { port, tls, http, config, host, open_files: None, processes: None, peer: None, folder }
    }

    /// More sections of the configuration.
    pub fn with_sections(self, text: &str) -> Node {
        let before = std::fs::read_to_string(&self.config).expect("it was written above");
        std::fs::write(&self.config, format!("{before}\n{text}")).expect("the test's folder is writable");
        self
    }

    /// Writes one text for another in the configuration, for the next reload.
    pub fn change_config(&self, from: &str, to: &str) {
        let text = std::fs::read_to_string(&self.config).expect("it was written before");
        assert!(text.contains(from), "{text}");
        std::fs::write(&self.config, text.replace(from, to)).expect("the test's folder is writable");
    }

    /// Also listens for SIP there, and challenges as a node that is not told otherwise: by SHA-256 first.
    pub fn with_sip_listener(self, listener: &str) -> Node {
        let before = std::fs::read_to_string(&self.config).expect("it was written above");
        let tls = format!(":{}\"]", self.tls);
        let text = before.replacen(&tls, &format!(":{}\", \"{listener}\"]", self.tls), 1);
        let text = text.replacen("algorithms = [\"MD5\"]\n", "", 1);
        std::fs::write(&self.config, text).expect("the test's folder is writable");
        self
    }

    pub fn with_account(self, user: &str, password: &str) -> Node {
        self.run(&["account", "add", &format!("{user}@{DOMAIN}"), "--password", password]);
        self
    }

    /// `user0`, `user1`, … all with the password `secret`.
    pub fn with_users(self, count: usize) -> Node {
        self.import(count, &[])
    }

    /// The same with keys of SCRAM, so that no client has to send its password.
    pub fn with_chat_users(self, count: usize) -> Node {
        self.import(count, &["--scram"])
    }

    fn import(self, count: usize, flags: &[&str]) -> Node {
        let rows: String = (0..count).map(|n| format!("user{n}@{DOMAIN},secret,User {n}\n")).collect();
        let path = self.folder.path().join("accounts.csv");
        std::fs::write(&path, format!("account,password,name\n{rows}"))
            .expect("the test's folder is writable");
        let path = path.display().to_string();
        self.run(&[&["account", "import", &path], flags].concat());
        self
    }

    /// Calls of all sources to `user` of any domain go to 127.0.0.1:`target`.
    pub fn with_open_route(self, user: &str, target: u16) -> Node {
        self.with_open_route_to(user, &format!("127.0.0.1:{target}"))
    }

    /// Calls of all sources to `user` of any domain go to this address.
    pub fn with_open_route_to(self, user: &str, target: &str) -> Node {
        self.run(&["route", "add", user, &format!("user:{user}"), &format!("sip:{target}"), "--open"]);
        self
    }

    /// With so many open files at most.
    pub fn with_open_files(mut self, files: u32) -> Node {
        self.open_files = Some(files);
        self
    }

    /// So many processes of one configuration.
    pub fn with_processes(mut self, count: u16) -> Node {
        let ports = Ports::reserve(count);
        let text = std::fs::read_to_string(&self.config).expect("it was written above");
        let (before, after) = (format!("127.0.0.1:{}", self.http), format!("127.0.0.1:{}", ports.first()));
        std::fs::write(&self.config, text.replace(&before, &after)).expect("the test's folder is writable");
        self.http = ports.first();
        self.processes = Some((count, ports));
        self
    }

    pub fn started(mut self) -> Node {
        self.start();
        self
    }

    pub fn start(&mut self) {
        self.start_unready();
        if let (None, Some(peer)) = (&self.host, &self.peer) {
            wait_for_sip(self.port, || peer.tail());
        }
    }

    /// Starts the process. A node on a host of a network is then ready; another one may wait for what it needs.
    pub fn start_unready(&mut self) {
        assert!(self.peer.is_none(), "it runs already");
        let mut arguments =
            vec!["serve".to_owned(), "--config".to_owned(), self.config.display().to_string()];
        if let Some((count, _)) = &self.processes {
            arguments.extend(["--processes".to_owned(), count.to_string()]);
        }
        let (program, folder) = (binary().display().to_string(), self.folder.path());
        let peer = match &self.host {
            Some(host) => {
                let peer = host.start("belfry", &program, &arguments, folder);
                let is_bound = || peer.is_bound("udp", self.port);
                wait_until("belfry to listen", Duration::from_secs(60), is_bound, || peer.tail());
                peer
            }
            None => match self.open_files {
                None => Peer::start("belfry", &program, &arguments, folder),
                Some(files) => {
                    let script = format!("ulimit -n {files} && exec \"$0\" \"$@\"");
                    let arguments = [vec!["-c".into(), script, program], arguments].concat();
                    Peer::start("belfry", "sh", &arguments, folder)
                }
            },
        };
        self.peer = Some(peer);
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        self.peer.take().expect("it runs").kill();
    }

    /// One command of the CLI; panics unless it succeeds, returns what it printed.
    pub fn run(&self, arguments: &[&str]) -> String {
        let output = self.output(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "belfry {}: {}\n{text}{errors}", arguments.join(" "), output.status);
        text
    }

    /// One command of the CLI that must fail: its exit code and what it wrote to standard error. Also `serve`, for a node that
    /// must not start.
    pub fn fails(&self, arguments: &[&str]) -> (i32, String) {
        let output = self.output(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code().filter(|code| *code != 0);
        let Some(code) = code else {
            panic!("belfry {}: {}\n{errors}", arguments.join(" "), output.status);
        };
        (code, errors)
    }

    fn output(&self, arguments: &[&str]) -> Output {
        Command::new(binary())
            .args(arguments)
            .arg("--config")
            .arg(&self.config)
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .output()
            .expect("the binary can be run")
    }

    /// Waits until the node has ended by itself; its exit code.
    pub fn ended(&mut self, limit: Duration) -> Option<i32> {
        let status = self.peer.as_mut().expect("it runs").wait(limit);
        self.peer = None;
        status.code()
    }

    /// The exit code of a process that has ended by itself; the outer none: it runs, or was killed. Returns it once.
    pub fn exit_code(&mut self) -> Option<Option<i32>> {
        let has_ended = self.peer.as_mut().is_some_and(|peer| !peer.is_running());
        has_ended.then(|| self.peer.take()?.wait(Duration::from_secs(1)).code())
    }

    /// The JSON that a command of the CLI printed; none unless it succeeded.
    pub fn try_json(&self, arguments: &[&str]) -> Option<serde_json::Value> {
        let output = self.output(arguments);
        output.status.success().then(|| serde_json::from_slice(&output.stdout).ok())?
    }

    /// That the node made for itself.
    pub fn certificate(&self) -> PathBuf {
        self.folder.path().join("data/cert.pem")
    }

    /// Sends the signal of this name, `STOP`.
    pub fn signal(&self, name: &str) {
        self.peer.as_ref().expect("it runs").signal(name);
    }

    /// The processes that it has started.
    pub fn children(&self) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.id());
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
    }

    /// Sends a signal to one of its [`children`](Self::children).
    pub fn signal_child(&self, child: u32, name: &str) {
        send(name, &child.to_string());
    }

    /// The process id; 0 unless it runs.
    pub fn id(&self) -> u32 {
        self.peer.as_ref().map_or(0, Peer::id)
    }

    /// The node's metrics, in Prometheus' form.
    pub fn metrics(&self) -> String {
        self.get("/metrics")
    }

    /// The answer to `GET /health`, with its head.
    pub fn health(&self) -> String {
        self.get("/health")
    }

    /// True if `GET /health` is answered, with nothing to report.
    pub fn is_healthy(&self) -> bool {
        let Ok(mut stream) = std::net::TcpStream::connect(("127.0.0.1", self.http)) else { return false };
        let mut answer = String::new();
        let asked = stream
            .set_read_timeout(Some(Duration::from_secs(5)))
            .and_then(|()| stream.write_all(b"GET /health HTTP/1.0\r\n\r\n"))
            .and_then(|()| stream.read_to_string(&mut answer));
        asked.is_ok() && answer.starts_with("HTTP/1.0 200 ") && answer.ends_with("\r\nok\n")
    }

    fn get(&self, path: &str) -> String {
        if let Some(host) = &self.host {
            return host.run("curl", &format!("-sS --max-time 20 http://127.0.0.1:{}{path}", self.http));
        }
        let mut stream =
            std::net::TcpStream::connect(("127.0.0.1", self.http)).expect("the node serves HTTP");
        let request = format!("GET {path} HTTP/1.0\r\n\r\n");
        stream.write_all(request.as_bytes()).expect("the node reads the request");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the node answers in text");
        answer
    }

    /// The sum of a metric over its labels; 0 if the node does not have it.
    pub fn metric(&self, name: &str) -> u64 {
        let metrics = self.metrics();
        let values = metrics.lines().filter_map(|line| {
            let rest = line.strip_prefix(name).filter(|rest| rest.starts_with(['{', ' ']))?;
            rest.rsplit(' ').next()?.parse::<u64>().ok()
        });
        values.sum()
    }

    /// The folder of its database and recordings.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// The end of the node's output.
    pub fn tail(&self) -> String {
        self.peer.as_ref().map(Peer::tail).unwrap_or_default()
    }
}

/// `$BELFRY`, or the binary beside the tests: `target/<profile>/belfry`.
fn binary() -> PathBuf {
    if let Some(path) = std::env::var_os("BELFRY") {
        return path.into();
    }
    let test = std::env::current_exe().expect("a running test has a path");
    let path = test.ancestors().nth(2).unwrap_or(Path::new(".")).join("belfry");
    assert!(path.is_file(), "no {}: cargo build --package server --bin belfry", path.display());
    path
}
