//! The Debian package: installed in a root of its own, started as its unit says, upgraded, removed, purged. It needs root, dpkg and
//! binutils; programs are those that were built with the tests.

#![cfg(test)]

use std::io::Write as _;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use interop::{DOMAIN, Namespace, Network, Peer, free_port, play_in_browsers_on};
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
    for (program, made_by) in [
        ("belfry", "-p server --bin belfry"),
        ("ringer", "-p lab --bin ringer"),
        ("examples/pages", "-p cli --example pages"),
        ("examples/ringer_pages", "-p lab --example ringer_pages"),
    ] {
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

    /// Makes the package of belfry in this version, as `make package` does.
    fn package(&self, version: &str) -> PathBuf {
        self.make(version, &["--deb-only"]).remove(0)
    }

    /// Makes all packages, and the tarball; their paths.
    fn make(&self, version: &str, flags: &[&str]) -> Vec<PathBuf> {
        let mut command = Command::new(repository().join("tools/package"));
        command.arg("--programs").arg(programs()).args(["--version", version, "--fast"]).args(flags);
        // In the place of what `make docs` builds.
        let docs = self.beside("docs");
        std::fs::create_dir_all(&docs).unwrap();
        std::fs::write(docs.join("index.html"), "the documentation").unwrap();
        let made = run(command.arg("--docs").arg(docs).arg("--to").arg(self.beside("packages")));
        made.lines().map(PathBuf::from).collect()
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

    /// A command as the operator gives it: by root, in a folder without a configuration, and with none named.
    fn command(&self, arguments: &[&str], input: &str) -> Output {
        let mut command = Command::new("chroot");
        command
            .arg(self.path(""))
            .arg("/usr/bin/belfry")
            .args(arguments)
            .env_remove("BELFRY_CONFIG")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // A refusal does not read its input.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    }

    fn belfry(&self, arguments: &[&str], input: &str) -> String {
        let output = self.command(arguments, input);
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
        Service::start_with(root, Peer::start)
    }

    fn start_on(host: &Namespace, root: &Root) -> Service {
        Service::start_with(root, |name, program, arguments, folder| {
            host.start(name, program, arguments, folder)
        })
    }

    /// `start` starts a program by its name, path and arguments in a folder.
    fn start_with(root: &Root, start_peer: impl Fn(&str, &str, &[String], &Path) -> Peer) -> Service {
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
        let peer = start_peer("belfry", "chroot", &root.as_user(&words), root.folder.path());
        let service = Service { peer, notices };
        service.expect("READY=1");
        service.expect("WATCHDOG=1");
        service
    }

    /// Reads the node's notices up to this one.
    fn expect(&self, notice: &str) {
        let mut buffer = [0; 128];
        loop {
            let length = wait::uninterrupted(|| self.notices.recv(&mut buffer));
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
fn register(port: u16, address: &str, password: &str) -> String {
    let (user, domain) = address.split_once('@').unwrap();
    let phone = UdpSocket::bind("127.0.0.1:0").unwrap();
    phone.set_read_timeout(Some(PATIENCE)).unwrap();
    phone.connect(("127.0.0.1", port)).unwrap();
    let own = phone.local_addr().unwrap();
    let ask = |number: u32, credentials: &str| {
        let request = format!(
            "REGISTER sip:{domain} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=z9hG4bK-{number}-{own}\r\n\
             Max-Forwards: 70\r\nFrom: <sip:{address}>;tag=a\r\nTo: <sip:{address}>\r\n\
             Call-ID: {own}\r\nCSeq: {number} REGISTER\r\nContact: <sip:{user}@{own}>\r\n{credentials}Content-Length: 0\r\n\r\n"
        );
        phone.send(request.as_bytes()).unwrap();
        let mut buffer = [0; 4096];
        let length = wait::uninterrupted(|| phone.recv(&mut buffer)).unwrap();
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
    let what = hex_of(&format!("REGISTER:sip:{domain}"));
    let response = hex_of(&format!("{secret}:{nonce}:00000001:c:auth:{what}"));
    let answer = ask(
        2,
        &format!(
            "Authorization: Digest username=\"{user}\", realm=\"{realm}\", nonce=\"{nonce}\", uri=\"sip:{domain}\", \
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

/// The schema of an earlier version of the program.
const EARLIER: u32 = 8;

/// Puts a database of that version in the place of the service's. It has bob@example.net with the password "secret", and
/// alice@example.org, who is disabled.
fn put_earlier_database(root: &Root, file: &Path) {
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
    let dump = repository().join(format!("crates/store/tests/contract/kept/sqlite-{EARLIER}.sql"));
    // Bindings of that dump are of the store's tests: no records of a router.
    let script = "import sqlite3, sys; db = sqlite3.connect(sys.argv[1]); \
                  db.executescript(open(sys.argv[2]).read() + 'DELETE FROM binding_log;')";
    run(Command::new("python3").args(["-c", script]).arg(file).arg(dump));
    run(Command::new("chown").arg(root.user()).arg(file));
}

fn schema(file: &Path) -> String {
    let script =
        "import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute('PRAGMA user_version').fetchone())";
    run(Command::new("python3").args(["-c", script]).arg(file)).trim().to_owned()
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
    let owner =
        |path: &Path| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).unwrap()).to_string();
    assert!(root.user().starts_with(&format!("{}:", owner(&database))), "root made it for the service");
    let refused = root.command(&["serve"], "");
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && error.contains("belongs to the user"), "{error}");
    let service = Service::start(&root);
    assert_eq!(register(port, "alice@localhost", "secret-a"), "200");
    assert_eq!(register(port, "alice@localhost", "wrong"), "401");
    let doctor = root.belfry(&["doctor", "--json"], "");
    let own = format!("udp:127.0.0.1:{port}: the node has it");
    assert!(doctor.contains(&own) && !doctor.contains("\"problem\""), "{doctor}");
    service.stop();

    put_earlier_database(&root, &database);
    assert_eq!(schema(&database), EARLIER.to_string());
    let later = root.package("0.2.0");
    root.dpkg("--install", &later);
    assert_eq!(text(&config), moved, "an upgrade keeps what the operator has changed");
    let service = Service::start(&root);
    assert_ne!(schema(&database), EARLIER.to_string(), "the later program has another schema");
    assert_eq!(register(port, "bob@example.net", "secret"), "200", "an upgrade keeps the data");
    assert_eq!(register(port, "alice@example.org", "secret"), "401", "a disabled account stays disabled");
    service.stop();

    root.dpkg("--remove", Path::new("belfry"));
    assert!(!root.path("usr/bin/belfry").exists());
    assert!(database.is_file() && config.is_file(), "a removal keeps data and configuration");
    root.dpkg("--install", &later);
    assert!(
        root.belfry(&["account", "list"], "").contains("alice@example.org"),
        "a later installation finds the data"
    );
    root.dpkg("--remove", Path::new("belfry"));
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

/// The lines that README's operator types, from the installation on.
fn lines_of_readme() -> Vec<Vec<String>> {
    let readme = text(&repository().join("README.md"));
    let (_, rest) = readme.split_once("\n    make package\n").expect("README makes the package");
    let block = rest.lines().take_while(|line| line.starts_with("    "));
    let words =
        |line: &str| line.split("  #").next().unwrap().split_whitespace().map(str::to_owned).collect();
    block.map(words).collect()
}

/// The time in which README's operator comes from the package to the first call.
const FROM_PACKAGE_TO_CALL: Duration = Duration::from_mins(3);

#[expect(clippy::disallowed_methods, reason = "an operator's time is the wall clock's")]
fn wall_clock() -> Instant {
    Instant::now()
}

/// The host has a network of its own, so that nothing has to be moved: the ports are those that the package brings.
#[test]
fn readme_leads_from_the_package_to_the_first_chat_and_call_of_two_browsers() {
    let root = Root::new();
    let package = root.package("0.1.0");
    let (network, lines) = (Network::new(), lines_of_readme());
    let host = network.host();
    let started = wall_clock();
    let mut service = None;
    let mut alices_password = String::new();
    for line in &lines {
        let words: Vec<&str> = line.iter().map(String::as_str).collect();
        match &words[..] {
            ["sudo", "apt-get", "install", _] => {
                root.dpkg("--install", &package);
                // As the package's script does where systemd runs.
                service = Some(Service::start_on(&host, &root));
            }
            ["sudo", "belfry", "init", flags @ ..] => {
                let shown = root.belfry(&[&["init"], flags].concat(), "");
                let (_, rest) = shown.split_once("password ").expect("it shows the password");
                alices_password = rest.split_whitespace().next().unwrap().to_owned();
                assert!(shown.contains("\n  https://127.0.0.1:5281/app/\n"), "{shown}");
                assert!(shown.contains("\n  belfry doctor\n  systemctl restart belfry\n"), "{shown}");
            }
            ["sudo", "belfry", "account", "add", name] => {
                root.belfry(&["account", "add", name, "--password-stdin"], "secret-b\n");
            }
            ["sudo", "systemctl", "restart", "belfry"] => {
                service.take().expect("it was started").stop();
                service = Some(Service::start_on(&host, &root));
            }
            ["sudo", "belfry", "doctor"] => {
                let found =
                    host.run("chroot", &format!("{} /usr/bin/belfry doctor", root.path("").display()));
                assert!(found.contains("/etc/belfry/belfry.toml is good"), "{found}");
            }
            other => panic!("README has another line: {other:?}"),
        }
    }
    play_in_browsers_on(&host, "https://127.0.0.1:5281/app/", "first", &alices_password);
    let took = started.elapsed();
    println!("from the package to the end of the first call: {took:?}");
    assert!(took < FROM_PACKAGE_TO_CALL, "{took:?}");
    assert!(root.belfry(&["calls"], "").contains(&format!("alice@{DOMAIN}")));
    service.expect("it was started").stop();
}

#[test]
fn the_tarball_and_the_package_of_ringer_have_programs_that_run() {
    let root = Root::new();
    let made = root.make("0.1.0", &[]);
    let [_, ringer, tarball] = &made[..] else { panic!("{made:?}") };
    run(Command::new("tar").arg("-xzf").arg(tarball).arg("-C").arg(root.folder.path()));
    let name = tarball.file_name().unwrap().to_string_lossy().into_owned();
    let tree = root.beside(name.strip_suffix(".tar.gz").unwrap());
    for program in ["belfry", "ringer"] {
        let shown = run(Command::new(tree.join("bin").join(program)).arg("--version"));
        assert!(shown.starts_with(&format!("{program} ")), "{shown}");
        for page in [
            "man/man1/PROGRAM.1.gz",
            "bash-completion/completions/PROGRAM",
            "zsh/vendor-completions/_PROGRAM",
        ] {
            let page = tree.join("share").join(page.replace("PROGRAM", program));
            assert!(page.is_file(), "{}", page.display());
        }
    }
    assert!(tree.join("etc/belfry/belfry.toml").is_file() && tree.join("README.md").is_file());

    root.dpkg("--install", ringer);
    let shown = run(Command::new("chroot").arg(root.path("")).args(["/usr/bin/ringer", "--version"]));
    assert!(shown.starts_with("ringer "), "{shown}");
    assert!(root.path("usr/share/man/man1/ringer-sip.1.gz").is_file());
    assert!(!root.path("usr/bin/belfry").exists(), "a load lab brings no server");
}
