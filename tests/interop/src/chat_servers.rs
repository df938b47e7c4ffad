//! Three chat servers as a load finds them: keys of SCRAM-SHA-1 with as many iterations, everything on disk, STARTTLS, no
//! shaper and no debug log. Their accounts `user0 …` are made as each server makes them; the password is `secret`.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::certificates::self_signed;
use crate::node::Node;
use crate::peer::Peer;
use crate::ports::free_port;
use crate::prosody::{fill, wait_for_port};
use crate::{DOMAIN, ejabberd};

/// PBKDF2 of an account's keys, at all three: the minimum of RFC 5802 §5.1.
const ITERATIONS: u32 = 4096;

/// A chat server for `example.test`.
pub struct ChatServer {
    /// TCP, with STARTTLS; without TLS only where that is said.
    pub client: u16,
    /// Direct TLS and WebSocket; of Belfry alone.
    pub web: Option<u16>,
    /// BOSH, and its path; Belfry's is with TLS.
    pub bosh: (u16, &'static str),
    /// The process that a load watches.
    pub pid: u32,
    /// The most messages that it may lose, to users that sign out meanwhile: ejabberd's router gives a message to the process of
    /// the session, which may have ended. Seen three times beside a busy machine.
    pub may_lose: u64,
    program: Program,
}

enum Program {
    Belfry(Node),
    Other { peer: Peer, _folder: TempDir },
}

impl ChatServer {
    /// `more` goes into `[xmpp]`.
    pub fn belfry(users: usize, more: &str) -> ChatServer {
        ChatServer::prepared(more, |node| node.with_chat_users(users))
    }

    /// With the accounts of that file.
    pub fn belfry_with(accounts: &Path) -> ChatServer {
        ChatServer::prepared("", |node| {
            node.run(&["account", "import", &accounts.display().to_string()]);
            node
        })
    }

    fn prepared(more: &str, with_accounts: impl FnOnce(Node) -> Node) -> ChatServer {
        let (client, web) = (free_port(), free_port());
        let listen = format!("listen = [\"tcp:127.0.0.1:{client}\", \"wss:127.0.0.1:{web}\"]");
        let node = Node::prepare().with_sections(&format!("[xmpp]\n{listen}\n{more}\n"));
        let node = with_accounts(node).started();
        let bosh = (web, "/bosh");
        ChatServer {
            client,
            web: Some(web),
            bosh,
            pid: node.id(),
            may_lose: 0,
            program: Program::Belfry(node),
        }
    }

    pub fn ejabberd(users: usize) -> ChatServer {
        ChatServer::ejabberd_that(&format!(
            "[ok = ejabberd_auth:try_register(<<\"user\", (integer_to_binary(N))/binary>>, <<\"{DOMAIN}\">>, \
             <<\"secret\">>) || N <- lists:seq(0, {users} - 1)]"
        ))
    }

    /// Lets ejabberd import that file of accounts and export them into this folder (XEP-0227).
    pub fn exported_by_ejabberd(accounts: &Path, folder: &Path) {
        let (accounts, folder) = (accounts.display(), folder.display());
        drop(ChatServer::ejabberd_that(&format!(
            "ok = ejabberd_piefxis:import_file(<<\"{accounts}\">>), ok = ejabberd_piefxis:export_server(<<\"{folder}\">>)"
        )));
    }

    /// `then`: Erlang that is evaluated when it runs.
    fn ejabberd_that(then: &str) -> ChatServer {
        let folder = TempDir::new().expect("a temporary folder");
        let place = folder.path();
        let (client, http) = (free_port(), free_port());
        let own = self_signed(place, DOMAIN);
        let both = [&own.certificate, &own.key].map(|file| read_to_string(file).expect("it was made above"));
        let certificate = place.join("own.pem");
        std::fs::write(&certificate, both.concat()).expect("the test's folder is writable");
        let filled = [
            ("CLIENT", client.to_string()),
            ("HTTP", http.to_string()),
            ("DOMAIN", DOMAIN.to_owned()),
            ("CERTIFICATE", certificate.display().to_string()),
        ];
        let config = fill(&source("ejabberd.yml"), &place.join("ejabberd.yml"), &filled);
        let peer = ejabberd::start(place, &config, &[], then);
        wait_for_line(&peer, ejabberd::READY);
        let (bosh, pid) = ((http, "/bosh"), peer.id());
        ChatServer {
            client,
            web: None,
            bosh,
            pid,
            may_lose: 1,
            program: Program::Other { peer, _folder: folder },
        }
    }

    pub fn prosody(users: usize) -> ChatServer {
        let folder = TempDir::new().expect("a temporary folder");
        let place = folder.path();
        std::fs::create_dir(place.join("certs")).expect("the test's folder is writable");
        let (client, http) = (free_port(), free_port());
        let own = self_signed(place, DOMAIN);
        let addresses: String = (0..users).map(|user| format!("\"user{user}@{DOMAIN}\"; ")).collect();
        let filled = [
            ("FOLDER", place.display().to_string()),
            ("CLIENT", client.to_string()),
            ("HTTP", http.to_string()),
            ("DOMAIN", DOMAIN.to_owned()),
            ("USERS", addresses),
            ("ITERATIONS", ITERATIONS.to_string()),
            ("KEY", own.key.display().to_string()),
            ("CERTIFICATE", own.certificate.display().to_string()),
        ];
        let config = fill(&source("prosody.cfg.lua"), &place.join("prosody.cfg.lua"), &filled);
        if users > 0 {
            register_at_prosody(place, &config, users);
        }
        let arguments = ["--config".to_owned(), config.display().to_string(), "-F".to_owned()];
        let peer = Peer::start("prosody", "prosody", &arguments, place);
        wait_for_port(client, &peer);
        wait_for_port(http, &peer);
        let (bosh, pid) = ((http, "/http-bind"), peer.id());
        ChatServer {
            client,
            web: None,
            bosh,
            pid,
            may_lose: 0,
            program: Program::Other { peer, _folder: folder },
        }
    }

    /// The end of its output.
    pub fn tail(&self) -> String {
        match &self.program {
            Program::Belfry(node) => node.tail(),
            Program::Other { peer, .. } => peer.tail(),
        }
    }
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("loads").join(name)
}

fn wait_for_line(peer: &Peer, line: &str) {
    let is_there = || peer.lines().iter().any(|printed| printed == line);
    crate::wait::wait_until(line, std::time::Duration::from_secs(180), is_there, || peer.tail());
}

/// The first with its own tool, which starts Lua each time; keys do not name their account, so all others
/// have the same.
fn register_at_prosody(place: &Path, config: &Path, users: usize) {
    let output = Command::new("prosodyctl")
        .arg("--config")
        .arg(config)
        .args(["register", "user0", DOMAIN, "secret"])
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|error| panic!("prosodyctl: {error}. Install it: apt-get install prosody"));
    let accounts = place.join("data").join(DOMAIN.replace('.', "%2e")).join("accounts");
    let first = std::fs::read(accounts.join("user0.dat"));
    let first = first.unwrap_or_else(|error| {
        panic!("prosodyctl made no account: {error}\n{}", String::from_utf8_lossy(&output.stderr))
    });
    for user in 1..users {
        std::fs::write(accounts.join(format!("user{user}.dat")), &first)
            .expect("the test's folder is writable");
    }
}
