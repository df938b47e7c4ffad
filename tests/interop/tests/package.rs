//! The Debian package: installed in a root of its own, started as its unit says, upgraded, removed, purged. It needs root, dpkg and
//! binutils; programs are those that were built with the tests.

#![cfg(test)]

use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use interop::{Peer, free_port};
use md5::{Digest as _, Md5};
use tempfile::TempDir;

/// The time that one answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// `target/debug`, where the programs are.
fn programs() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let programs = test.ancestors().nth(2).unwrap().to_owned();
    for (program, made_by) in
        [("belfry", "-p server --bin belfry"), ("examples/pages", "-p cli --example pages")]
    {
        assert!(programs.join(program).is_file(), "no {program}: cargo build {made_by}");
    }
    programs
}

/// The output of a command that must succeed.
fn run(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text.into_owned()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A system with nothing but what maintainers' scripts need.
struct Root {
    folder: TempDir,
}

impl Root {
    fn new() -> Root {
        let folder = TempDir::new().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let root = Root { folder };
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("package-root");
        run(Command::new(script).arg(root.path("")).arg(programs().join("belfry")));
        root
    }

    /// Outside of the root, beside it.
    fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.folder.path().join("root").join(inner.trim_start_matches('/'))
    }

    /// Makes the package in this version, as `make package` does.
    fn package(&self, version: &str) -> PathBuf {
        let mut command = Command::new(repository().join("tools/package"));
        command.arg("--programs").arg(programs()).args(["--version", version, "--fast", "--deb-only"]);
        // In the place of what `make docs` builds.
        let docs = self.beside("docs");
        std::fs::create_dir_all(&docs).unwrap();
        std::fs::write(docs.join("index.html"), "the documentation").unwrap();
        let made = run(command.arg("--docs").arg(docs).arg("--to").arg(self.beside("packages")));
        PathBuf::from(made.trim())
    }

    fn dpkg(&self, action: &str, what: &Path) {
        let mut command = Command::new("dpkg");
        // The root has the host's list of packages and few of its programs.
        command.arg(format!("--root={}", self.path("").display())).arg("--force-bad-path");
        // A changed file of the configuration would stop it with a question, which has no terminal to be asked at.
        run(command.arg(action).arg(what));
    }

    /// User and group of the service, by number.
    fn user(&self) -> String {
        let users = text(&self.path("etc/passwd"));
        let line =
            users.lines().find(|line| line.starts_with("belfry:")).expect("the package makes the user");
        let fields: Vec<&str> = line.split(':').collect();
        format!("{}:{}", fields[2], fields[3])
    }

    /// A program of the root, by the user of the service.
    fn as_user(&self, words: &[String]) -> Vec<String> {
        let chroot = [format!("--userspec={}", self.user()), self.path("").display().to_string()];
        [&chroot[..], words].concat()
    }

    fn belfry(&self, arguments: &[&str], input: &str) -> String {
        let words = ["/usr/bin/env", "BELFRY_CONFIG=/etc/belfry/belfry.toml", "/usr/bin/belfry"];
        let words: Vec<String> = words.iter().chain(arguments).map(ToString::to_string).collect();
        let mut command = Command::new("chroot");
        command
            .args(self.as_user(&words))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let output = child.wait_with_output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "belfry {arguments:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// The lines of a unit with this key.
fn values<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    unit.lines().filter_map(|line| line.strip_prefix(key)?.strip_prefix('=')).collect()
}

/// The service as its unit describes it, and the test in the place of systemd.
struct Service {
    peer: Peer,
    notices: UnixDatagram,
}

impl Service {
    /// Returns when the node has said that it is ready.
    fn start(root: &Root) -> Service {
        let unit = text(&root.path("usr/lib/systemd/system/belfry.service"));
        assert_eq!((values(&unit, "Type"), values(&unit, "User")), (vec!["notify"], vec!["belfry"]));
        let socket = root.path("run/notify");
        let _ = std::fs::remove_file(&socket);
        let notices = UnixDatagram::bind(&socket).unwrap();
        notices.set_read_timeout(Some(PATIENCE)).unwrap();
        std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o777)).unwrap();
        let own = ["NOTIFY_SOCKET=/run/notify", "WATCHDOG_USEC=60000000"];
        let words = [&["/usr/bin/env"][..], &own, &values(&unit, "Environment")].concat();
        let start = values(&unit, "ExecStart")[0].split_whitespace();
        let words: Vec<String> = words.into_iter().chain(start).map(str::to_owned).collect();
        let peer = Peer::start("belfry", "chroot", &root.as_user(&words), root.folder.path());
        let service = Service { peer, notices };
        service.expect("READY=1");
        service.expect("WATCHDOG=1");
        service
    }

    /// Reads the node's notices up to this one.
    fn expect(&self, notice: &str) {
        let mut buffer = [0; 128];
        loop {
            let length = self.notices.recv(&mut buffer);
            let length = length.unwrap_or_else(|error| panic!("no {notice}: {error}\n{}", self.peer.tail()));
            let found = String::from_utf8_lossy(&buffer[..length]);
            if found == notice {
                return;
            }
            assert_eq!(found, "WATCHDOG=1", "before {notice}");
        }
    }

    /// Stops it as systemd does.
    fn stop(mut self) {
        self.peer.signal("TERM");
        self.expect("STOPPING=1");
        assert!(self.peer.wait(PATIENCE).success());
    }
}

fn hex_of(text: &str) -> String {
    Md5::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Registers a phone; the status of the answer to its credentials (RFC 3261 §22).
fn register(port: u16, user: &str, password: &str) -> String {
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    phone.connect(("127.0.0.1", port)).unwrap();
    let own = phone.local_addr().unwrap();
    let ask = |number: u32, credentials: &str| {
        let request = format!(
            "REGISTER sip:localhost SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK-{number}-{own}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{user}@localhost>;tag=a\r\nTo: <sip:{user}@localhost>\r\n\
             Call-ID: {own}\r\nCSeq: {number} REGISTER\r\nContact: <sip:{user}@{own}>\r\n{credentials}Content-Length: 0\r\n\r\n"
        );
        phone.send(request.as_bytes()).unwrap();
        let mut buffer = [0; 4096];
        let length = phone.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let challenge = ask(1, "");
    let line = challenge.lines().find(|line| line.starts_with("WWW-Authenticate") && line.contains("MD5"));
    let line = line.unwrap_or_else(|| panic!("no challenge for MD5:\n{challenge}"));
    let value = |name: &str| {
        let (_, rest) = line.split_once(&format!("{name}=\"")).unwrap_or_else(|| panic!("no {name}: {line}"));
        rest.split('"').next().unwrap().to_owned()
    };
    let (realm, nonce) = (value("realm"), value("nonce"));
    let secret = hex_of(&format!("{user}:{realm}:{password}"));
    let what = hex_of("REGISTER:sip:localhost");
    let response = hex_of(&format!("{secret}:{nonce}:00000001:c:auth:{what}"));
    let answer = ask(
        2,
        &format!(
            "Authorization: Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"sip:localhost\", \
             algorithm=MD5, qop=auth, nc=00000001, cnonce=\"c\", response=\"{response}\"\r\n"
        ),
    );
    answer.split_whitespace().nth(1).unwrap().to_owned()
}

/// Gives the packaged configuration ports that no other test has, as an operator would; returns the one of SIP.
fn move_ports(file: &Path) -> u16 {
    let packaged = text(file);
    let sip = free_port();
    let mut moved = packaged.replace(":5060\"", &format!(":{sip}\""));
    for port in [5061, 5222, 5223, 5281, 5443, 9090] {
        assert!(moved.contains(&format!(":{port}\"")), "{moved}");
        moved = moved.replace(&format!(":{port}\""), &format!(":{}\"", free_port()));
    }
    std::fs::write(file, moved).unwrap();
    sip
}

#[test]
fn the_package_is_installed_started_upgraded_removed_and_purged() {
    let root = Root::new();
    root.dpkg("--install", &root.package("0.1.0"));
    let (config, database) = (root.path("etc/belfry/belfry.toml"), root.path("var/lib/belfry/belfry.db"));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&config), mode(&root.path("var/lib/belfry"))), (0o640, 0o700));
    assert!(root.path("usr/share/man/man1/belfry-doctor.1.gz").is_file());
    assert_eq!(text(&root.path("usr/share/doc/belfry/html/index.html")), "the documentation");
    assert!(text(&root.path("usr/share/bash-completion/completions/belfry")).contains("doctor"));
    assert!(root.belfry(&["check-config"], "").contains("/etc/belfry/belfry.toml: good"));

    let port = move_ports(&config);
    let moved = text(&config);
    root.belfry(&["account", "add", "alice@localhost", "--password-stdin"], "secret-a\n");
    let service = Service::start(&root);
    assert_eq!(register(port, "alice", "secret-a"), "200");
    assert_eq!(register(port, "alice", "wrong"), "401");
    let doctor = root.belfry(&["doctor", "--json"], "");
    let own = format!("udp:127.0.0.1:{port}: the node has it");
    assert!(doctor.contains(&own) && !doctor.contains("\"problem\""), "{doctor}");
    service.stop();

    root.dpkg("--install", &root.package("0.2.0"));
    assert_eq!(text(&config), moved, "an upgrade keeps what the operator has changed");
    let service = Service::start(&root);
    assert_eq!(register(port, "alice", "secret-a"), "200", "an upgrade keeps the data");
    service.stop();

    root.dpkg("--remove", Path::new("belfry"));
    assert!(!root.path("usr/bin/belfry").exists());
    assert!(database.is_file() && config.is_file(), "a removal keeps data and configuration");
    root.dpkg("--purge", Path::new("belfry"));
    assert!(!database.exists() && !root.path("var/lib/belfry").exists() && !root.path("etc/belfry").exists());
    assert!(!text(&root.path("etc/passwd")).contains("belfry"), "a purge removes the user");
}

/// The instructions of the container's file, with the words that follow each.
fn container_file() -> Vec<(String, String)> {
    let text = text(&repository().join("packaging/Containerfile"));
    let instructions =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(' '));
    instructions.map(|(name, words)| (name.to_owned(), words.to_owned())).collect()
}

/// No engine of containers is needed: what the file takes for granted of the package is looked at in a root where the package is installed.
#[test]
fn the_container_file_starts_the_package_as_it_is() {
    let root = Root::new();
    let package = root.package("0.1.0");
    let instructions = container_file();
    let words = |name: &str| {
        let found = instructions.iter().find(|(instruction, _)| instruction == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.as_str()
    };
    // With `VERSION` left out the package matches, and so it does in the step that installs it.
    let copied = words("COPY").split(' ').next().unwrap().replace("${VERSION}", "*");
    let name = package.file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(copied, "belfry_*_*.deb");
    assert!(
        name.starts_with("belfry_") && name.ends_with(".deb") && words("RUN").contains(" /tmp/belfry_*.deb "),
        "{name}"
    );
    assert!(words("RUN").contains("path-include=/usr/share/doc/belfry/*"), "the slim images leave it out");

    root.dpkg("--install", &package);
    let user = words("USER");
    assert!(
        text(&root.path("etc/passwd")).lines().any(|line| line.starts_with(&format!("{user}:"))),
        "{user}"
    );
    let (variable, file) = words("ENV").split_once('=').unwrap();
    assert_eq!(variable, "BELFRY_CONFIG");
    let port = move_ports(&root.path(file));
    let data = std::fs::metadata(root.path(words("VOLUME"))).unwrap();
    let (uid, _) = root.user().split_once(':').map(|(uid, gid)| (uid.to_owned(), gid.to_owned())).unwrap();
    assert_eq!(std::os::unix::fs::MetadataExt::uid(&data).to_string(), uid, "the volume is the user's");

    let words_of = |name: &str| -> Vec<String> { serde_json::from_str(words(name)).unwrap() };
    let environment = ["/usr/bin/env".to_owned(), words("ENV").to_owned()];
    let start = [environment.to_vec(), words_of("ENTRYPOINT"), words_of("CMD")].concat();
    let mut peer = Peer::start("belfry", "chroot", &root.as_user(&start), root.folder.path());
    let is_bound = || peer.is_bound("udp", port);
    interop::wait_until("the node listens", PATIENCE, is_bound, || peer.tail());
    assert_eq!(words("STOPSIGNAL"), "SIGTERM");
    peer.signal("TERM");
    assert!(peer.wait(PATIENCE).success());
}

/// Runs `belfry init` at a terminal, or without one, with these answers; what it showed, and whether it succeeded.
fn init(flags: &str, answers: &str, is_terminal: bool) -> (String, bool) {
    let line = format!("{} init {flags}", programs().join("belfry").display());
    let mut command = if is_terminal { Command::new("script") } else { Command::new("sh") };
    command.args(if is_terminal { vec!["-qec", &line, "/dev/null"] } else { vec!["-c", &line] });
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // A refusal does not wait for the answers.
    let _ = child.stdin.take().unwrap().write_all(answers.as_bytes());
    let output = child.wait_with_output().unwrap();
    let shown = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&shown).into_owned(), output.status.success())
}

#[test]
fn init_asks_at_a_terminal_and_makes_the_first_account() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("etc");
    let flags = format!("--dir {}", dir.display());
    // Domain, address, certificate, account.
    let (shown, succeeded) = init(&flags, "chat.test\n\n\nalice\n", true);
    assert!(succeeded && shown.contains("made alice@chat.test, password "), "{shown}");
    let next = format!("belfry doctor --config {}/belfry.toml", dir.display());
    assert!(shown.contains(&next) && !shown.contains("belfry account add"), "{shown}");
    let mut show = Command::new(programs().join("belfry"));
    show.args(["account", "show", "alice", "--config"]).arg(dir.join("belfry.toml"));
    assert!(run(&mut show).contains("alice@chat.test"));

    let before = text(&dir.join("belfry.toml"));
    let (shown, succeeded) = init(&flags, "other.test\n\n\n\n", true);
    assert!(!succeeded && shown.contains("there is one already, and nothing was changed"), "{shown}");
    assert_eq!(text(&dir.join("belfry.toml")), before);
}

#[test]
fn init_without_a_terminal_wants_flags() {
    let folder = TempDir::new().unwrap();
    let flags = format!("--dir {}", folder.path().join("etc").display());
    let (shown, succeeded) = init(&flags, "chat.test\n", false);
    assert!(!succeeded && shown.contains("no terminal to ask at"), "{shown}");
    assert!(!folder.path().join("etc").exists());
    let (shown, succeeded) = init(&format!("{flags} --yes --domain chat.test --account bob"), "", false);
    assert!(succeeded && shown.contains("made bob@chat.test, password "), "{shown}");
}
