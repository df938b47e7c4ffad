//! OpenLDAP's server, in a folder of its own on loopback.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::certificates::Authority;
use crate::peer::Peer;
use crate::ports::Ports;
use crate::wait::wait_until;

/// A directory of users below `dc=example,dc=test`. The account [`SEARCHER`](Slapd::SEARCHER) may search; other names may
/// only bind. StartTLS is served at `port`, TLS from the first byte at `tls_port`, as `localhost`.
pub struct Slapd {
    /// LDAP, with StartTLS.
    pub port: u16,
    /// LDAP over TLS.
    pub tls_port: u16,
    /// `None`: it is stopped.
    peer: Option<Peer>,
    authority: Authority,
    folder: TempDir,
    _ports: Ports,
}

const USERS: &str = "ou=people,dc=example,dc=test";

impl Slapd {
    /// The name of the account that may search.
    pub const SEARCHER: &str = "cn=searcher,dc=example,dc=test";
    /// Its password.
    pub const PASSWORD: &str = "search-secret";
    /// The entry below which groups are.
    pub const GROUPS: &str = "ou=groups,dc=example,dc=test";
    /// The entry below which users are.
    pub const BASE: &str = "dc=example,dc=test";

    /// With these users and their passwords.
    pub fn start(users: &[(&str, &str)]) -> Slapd {
        let folder = TempDir::new().expect("a temporary folder");
        let (ports, authority) = (Ports::reserve(2), Authority::new());
        let own = authority.certify("localhost");
        let place = folder.path().display();
        // An empty password binds here, as at directories that allow unauthenticated binds (RFC 4513 §5.1.2).
        let config = format!(
            "include /etc/ldap/schema/core.schema\n\
             include /etc/ldap/schema/cosine.schema\n\
             include /etc/ldap/schema/inetorgperson.schema\n\
             include /etc/ldap/schema/nis.schema\n\
             modulepath /usr/lib/ldap\n\
             moduleload back_mdb\n\
             pidfile {place}/pid\n\
             argsfile {place}/args\n\
             allow bind_anon_cred bind_anon_dn\n\
             TLSCACertificateFile {}\n\
             TLSCertificateFile {}\n\
             TLSCertificateKeyFile {}\n\
             database mdb\n\
             maxsize 10485760\n\
             suffix \"{base}\"\n\
             rootdn \"cn=admin,{base}\"\n\
             directory {place}/db\n\
             access to attrs=userPassword by anonymous auth by * none\n\
             access to * by dn.exact=\"{searcher}\" read by * none\n",
            authority.certificate().display(),
            own.certificate.display(),
            own.key.display(),
            base = Slapd::BASE,
            searcher = Slapd::SEARCHER,
        );
        std::fs::create_dir(folder.path().join("db")).expect("the test's folder is writable");
        std::fs::write(folder.path().join("slapd.conf"), config).expect("the test's folder is writable");
        std::fs::write(folder.path().join("searcher"), Slapd::PASSWORD)
            .expect("the test's folder is writable");
        let (port, tls_port) = (ports.first(), ports.first() + 1);
        let mut slapd = Slapd { port, tls_port, peer: None, authority, folder, _ports: ports };
        change(slapd.folder.path(), "slapadd", &entries(users));
        slapd.go_on();
        slapd
    }

    /// The file with the password of the account that may search.
    pub fn password_file(&self) -> PathBuf {
        self.folder.path().join("searcher")
    }

    /// The authority that its certificate is of.
    pub fn authorities(&self) -> PathBuf {
        self.authority.certificate()
    }

    /// Makes a group of these users: their distinguished names are in `member`.
    pub fn add_group(&self, name: &str, users: &[&str]) {
        let head = format!("dn: cn={name},{}\nobjectClass: groupOfNames\ncn: {name}\n", Slapd::GROUPS);
        change(self.folder.path(), "slapadd", &(head + &members(users)));
    }

    /// Makes a group of these users as Unix has them: their names are in `memberUid`.
    pub fn add_posix_group(&self, name: &str, users: &[&str]) {
        let mut text = format!(
            "dn: cn={name},{}\nobjectClass: posixGroup\ncn: {name}\ngidNumber: 1000\n",
            Slapd::GROUPS
        );
        for user in users {
            let _ = writeln!(text, "memberUid: {user}");
        }
        change(self.folder.path(), "slapadd", &text);
    }

    /// Gives a group other members, at least one.
    pub fn set_members(&self, group: &str, users: &[&str]) {
        let head = format!("dn: cn={group},{}\nchangetype: modify\nreplace: member\n", Slapd::GROUPS);
        change(self.folder.path(), "slapmodify", &(head + &members(users)));
    }

    /// Ends it; its entries stay.
    pub fn stop(&mut self) {
        self.peer = None;
    }

    /// Starts it again.
    pub fn go_on(&mut self) {
        let urls = format!("ldap://127.0.0.1:{}/ ldaps://127.0.0.1:{}/", self.port, self.tls_port);
        let config = self.folder.path().join("slapd.conf").display().to_string();
        // In the foreground, and nothing but faults in the log.
        let arguments = ["-f".to_owned(), config, "-h".to_owned(), urls, "-d".to_owned(), "0".to_owned()];
        let peer = Peer::start("slapd", "/usr/sbin/slapd", &arguments, self.folder.path());
        for port in [self.port, self.tls_port] {
            let is_bound = || peer.is_bound("tcp", port);
            wait_until("slapd listens", Duration::from_secs(60), is_bound, || peer.tail());
        }
        self.peer = Some(peer);
    }

    /// True while it holds back everything: it does not answer, and its connections stay open.
    pub fn freeze(&self, is_frozen: bool) {
        let peer = self.peer.as_ref().expect("it is started");
        peer.signal(if is_frozen { "STOP" } else { "CONT" });
    }
}

fn entries(users: &[(&str, &str)]) -> String {
    let mut text = format!(
        "dn: {base}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n\
         dn: {}\nobjectClass: organizationalRole\nobjectClass: simpleSecurityObject\ncn: searcher\n\
         userPassword: {}\n\n\
         dn: {USERS}\nobjectClass: organizationalUnit\nou: people\n\n\
         dn: {}\nobjectClass: organizationalUnit\nou: groups\n\n",
        Slapd::SEARCHER,
        Slapd::PASSWORD,
        Slapd::GROUPS,
        base = Slapd::BASE,
    );
    for (user, password) in users {
        let _ = write!(
            text,
            "dn: uid={user},{USERS}\nobjectClass: inetOrgPerson\nuid: {user}\ncn: {user}\nsn: {user}\n\
             employeeType: staff\nuserPassword: {password}\n\n"
        );
    }
    text
}

fn members(users: &[&str]) -> String {
    users.iter().map(|user| format!("member: uid={user},{USERS}\n")).collect()
}

/// Changes the database; a server that has it open sees the change, as the back end `mdb` keeps no entries in memory.
fn change(folder: &Path, program: &str, entries: &str) {
    let file = folder.join("entries.ldif");
    std::fs::write(&file, entries).expect("the test's folder is writable");
    let mut command = Command::new(format!("/usr/sbin/{program}"));
    let output = command.arg("-f").arg(folder.join("slapd.conf")).arg("-l").arg(&file).output();
    let output =
        output.unwrap_or_else(|error| panic!("{program}: {error}. Install slapd (or run tools/setup)"));
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}
