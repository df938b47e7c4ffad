//! `belfry init`: writes a configuration with comments, and makes the first account. The answers come from flags; at a terminal it asks for
//! what the flags leave open.
//!
//! The order: the answers (`Answers`), a look at the certificate, the text of the file (`render`), the same text read back as a configuration, so
//! that every answer is judged by the rules of the configuration, then the file, and last the account.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal as _, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

use clap::Args;
use config::{Config, PACKAGED_FILE, USUAL_FILE, found_file};
use control::{Change, Secret};
use store::{AccountLimits, Address};

use super::backend::Backend;
use super::error::CliError;
use super::limits;

/// The folder of the package's configuration, and that of its data, which systemd makes.
const PACKAGED: (&str, &str) = ("/etc/belfry", "/var/lib/belfry");

#[derive(Debug, Args)]
pub(super) struct InitArgs {
    /// The domain of the accounts, as example.net
    #[arg(long)]
    domain: Option<String>,
    /// The address to listen at: 127.0.0.1 for this machine alone, 0.0.0.0 for all [default: 127.0.0.1]
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<IpAddr>,
    /// A PEM file with the certificate of the domain and its chain [default: the node makes one for itself]
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// The PEM file of its private key
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
    /// The first account, user or user@domain [default: none]
    #[arg(long, value_name = "USER")]
    account: Option<String>,
    /// The folder of belfry.toml, which is made when missing
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    dir: PathBuf,
    /// Ask nothing: flags that are not given have their defaults
    #[arg(long)]
    yes: bool,
}

/// The answers of which the configuration is made.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answers {
    /// Becomes `[sip] domains`; checked only when the file is read back.
    domain: String,
    /// The address of all listeners but those of HTTP and the console, which stay on loopback.
    listen: IpAddr,
    /// Certificate and key, absolute.
    tls: Option<(PathBuf, PathBuf)>,
    /// `user`, or `user@domain`; `None`: no account is made.
    account: Option<String>,
    /// `[server] data`: the package's folder where the file is the package's, else `data` beside it.
    data: PathBuf,
}

impl Answers {
    /// Those of the package's configuration.
    fn packaged() -> Answers {
        Answers {
            domain: "localhost".into(),
            listen: [127, 0, 0, 1].into(),
            tls: None,
            account: None,
            data: PACKAGED.1.into(),
        }
    }
}

impl InitArgs {
    pub(super) fn run(&self) -> Result<(), CliError> {
        let file = self.dir.join(USUAL_FILE);
        if file.exists() && !is_as_packaged(&file) {
            return Err(there_is_one(&file));
        }
        // With `--yes` each open question is answered by its default.
        let answers = if self.yes { self.answers(|_, default| Ok(default.into()))? } else { self.ask()? };
        // Only a look: the files stay where they are, and the configuration names them.
        if let Some((certificate, key)) = &answers.tls {
            check_certificate(certificate, key, &answers.domain)?;
        }
        // The file's own reader judges the answers, so that `init` has no rules of its own.
        let text = render(&answers);
        let config = Config::parse(&text, &file).map_err(|error| refused(&error.to_string()))?;
        // Before the file is there: a wrong name leaves nothing behind.
        let account =
            answers.account.as_deref().map(|name| super::account::address(name, &config)).transpose()?;
        if let Some(account) =
            account.as_ref().filter(|account| *account.domain != *config.sip.default_domain)
        {
            return Err(CliError::Usage(format!(
                "--account: {account} is not of the domain {}",
                config.sip.default_domain
            )));
        }
        // From here on the file stays, even if the account cannot be made: its error names the command that
        // makes it.
        write(&file, &text)?;
        say!("wrote {}", file.display());
        // Without an account no user can sign in: that is the first thing to do then.
        let example = account.is_none().then(|| format!("alice@{}", config.sip.default_domain));
        // `--config` of this command says nothing of those after it.
        let named = std::env::var_os("BELFRY_CONFIG").map(PathBuf::from);
        let found = match &named {
            Some(named) => Some(named.as_path()),
            None => found_file(),
        };
        let option = config_option(&file, found);
        if let Some(account) = account {
            make_account(&Config::read(&file)?, &account, &option)?;
        }
        say!("next:\n  {}", next_commands(&file, &option, example.as_deref()).join("\n  "));
        if let Some(url) = super::greeting::page(&config) {
            say!("then, in a browser, chat and calls:\n  {url}");
        }
        Ok(())
    }

    /// `ask` has the question and the default, and returns the answer.
    fn answers(
        &self,
        mut ask: impl FnMut(&str, &str) -> Result<String, CliError>,
    ) -> Result<Answers, CliError> {
        let domain = match &self.domain {
            Some(domain) => domain.clone(),
            None => ask("Domain of the accounts, as example.net", "")?,
        };
        if domain.is_empty() {
            return Err(CliError::Usage("no domain: name it with --domain example.net".into()));
        }
        let listen = match self.listen {
            Some(listen) => listen,
            None => {
                let text = ask(
                    "Address to listen at: 127.0.0.1 for this machine alone, 0.0.0.0 for all",
                    "127.0.0.1",
                )?;
                text.parse().map_err(|_| CliError::Usage(format!("{text:?} is no IP address, as 0.0.0.0")))?
            }
        };
        // One without the other is refused by clap.
        let certificate = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            _ => match ask("File of the certificate; empty: the node makes one for itself", "")?.as_str() {
                "" => None,
                certificate => Some((certificate.into(), ask("File of its private key", "")?.into())),
            },
        };
        // The node may be started in another folder.
        let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
        let account = match &self.account {
            Some(account) => account.clone(),
            None => ask("First account, as alice; empty: none", "")?,
        };
        // `data` is relative to the file.
        let data = if absolute(self.dir.clone()) == Path::new(PACKAGED.0) { PACKAGED.1 } else { "data" };
        Ok(Answers {
            domain,
            listen,
            tls: certificate.map(|(certificate, key)| (absolute(certificate), absolute(key))),
            account: Some(account).filter(|account| !account.is_empty()),
            data: data.into(),
        })
    }

    /// Asks at the terminal, on standard error: standard output is for the commands to give next.
    fn ask(&self) -> Result<Answers, CliError> {
        if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
            return Err(CliError::Usage(
                "no terminal to ask at: give the answers by flags, and --yes (belfry init --help)".into(),
            ));
        }
        let terminal = console::Term::stderr();
        self.answers(|question, default| {
            let hint = if default.is_empty() { String::new() } else { format!(" [{default}]") };
            let line = terminal.write_str(&format!("{question}{hint}: ")).and_then(|()| terminal.read_line());
            let line = line.map_err(|error| CliError::Other(format!("cannot read the answer: {error}")))?;
            Ok(if line.trim().is_empty() { default.to_owned() } else { line.trim().to_owned() })
        })
    }
}

/// The file of the package as it came: nothing of an operator is in it.
fn is_as_packaged(file: &Path) -> bool {
    is_same(file, Path::new(PACKAGED_FILE))
        && std::fs::read_to_string(file).is_ok_and(|text| text == render(&Answers::packaged()))
}

/// `init` never writes over an operator's file.
fn there_is_one(file: &Path) -> CliError {
    CliError::Other(format!(
        "{}: there is one already, and nothing was changed; move it away, or name another folder with --dir",
        file.display()
    ))
}

/// A mistake that the reader of configurations has found in an answer.
fn refused(mistakes: &str) -> CliError {
    CliError::Usage(format!("nothing was written, because an answer cannot be used:\n{mistakes}"))
}

/// A certificate that cannot be read is an error; one for other names is only warned of.
fn check_certificate(certificate: &Path, key: &Path, domain: &str) -> Result<(), CliError> {
    let facts = net::certificate::examine(certificate, key, &[net::dns::ascii(domain)])
        .map_err(|error| CliError::Other(format!("{error}; nothing was written")))?;
    if !facts.missing.is_empty() {
        eprintln!("belfry: warning: {} is not for {domain}: clients refuse it", certificate.display());
    }
    Ok(())
}

/// A new file, readable by its owner and group: the database's URL may come to stand in it.
fn write(file: &Path, text: &str) -> Result<(), CliError> {
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::AlreadyExists => there_is_one(file),
        _ => CliError::Other(format!("{}: cannot be written: {error}", file.display())),
    };
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(cannot)?;
    }
    let kept = is_as_packaged(file).then(|| file.with_extension("toml.packaged"));
    if let Some(kept) = &kept {
        std::fs::rename(file, kept).map_err(cannot)?;
        say!("kept the package's file as {}", kept.display());
    }
    // `create_new`: also when another process has made the file in the meantime.
    let mut out = OpenOptions::new().write(true).create_new(true).mode(0o640).open(file).map_err(cannot)?;
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.sync_all()) {
        // A part of a file would keep the next run from it. The package's file comes back if there is one.
        let _ = std::fs::remove_file(file);
        if let Some(kept) = kept {
            let _ = std::fs::rename(kept, file);
        }
        return Err(cannot(error));
    }
    // The service's group reads the folder that the package has made.
    if let Some(folder) = file.parent().and_then(|folder| std::fs::metadata(folder).ok()) {
        // Only root may; others make files of their own group. The file itself: the owner of the folder could have put a link in its place.
        let _ = fchown(&out, None, Some(folder.gid()));
    }
    Ok(())
}

/// Makes the account with a password by chance, and shows it this once.
///
/// `option`: what commands need to find the configuration again.
fn make_account(config: &Config, account: &Address, option: &str) -> Result<(), CliError> {
    let password = password()?;
    // By the node if one runs, else in the database itself, which is made.
    let made = Backend::open_or_make(config).and_then(|mut backend| {
        backend.ensure_domain(config, &account.domain)?;
        backend.change(Change::AddAccount {
            address: account.clone(),
            password: Secret::new(&password),
            display_name: "".into(),
            limits: AccountLimits::default(),
        })
    });
    if let Err(error) = made {
        return Err(CliError::Other(format!(
            "the configuration is written, and the account {account} is not made: {error}; make it with: belfry account add {account}{option}"
        )));
    }
    say!(
        "made {account}, password {password}   (it is shown this once; change it: belfry account passwd {account}{option})"
    );
    Ok(())
}

/// Letters and digits that are not taken for each other.
fn password() -> Result<String, CliError> {
    // Without l, o, 0 and 1.
    const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
    let mut bytes = [0; limits::FIRST_PASSWORD];
    getrandom::fill(&mut bytes)
        .map_err(|error| CliError::Other(format!("the system gives no randomness: {error}")))?;
    // 256 is a multiple of 32: each letter is as likely as the others.
    Ok(bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect())
}

/// The package's service runs under systemd; elsewhere the node is started by hand.
///
/// `example`: the address of an account that is to be made; none: there is one.
fn next_commands(file: &Path, option: &str, example: Option<&str>) -> Vec<String> {
    let add = example.map(|address| format!("belfry account add {address}{option}"));
    let is_packaged = is_same(file, Path::new(PACKAGED_FILE));
    let start = if is_packaged { "systemctl restart belfry".into() } else { format!("belfry serve{option}") };
    add.into_iter().chain([format!("belfry doctor{option}"), start]).collect()
}

/// The option by which commands read this file; empty if they read it without: `found` is the file that they read then.
fn config_option(file: &Path, found: Option<&Path>) -> String {
    if found.is_some_and(|found| is_same(file, found)) {
        return String::new();
    }
    // The operator may go to another folder.
    format!(" --config {}", std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display())
}

fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    absolute(one) == absolute(other)
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        // Control characters must be escaped in TOML's basic strings.
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out + "\""
}

/// The two keys, or the two ways of getting a certificate as comments.
fn tls_lines(files: Option<&(PathBuf, PathBuf)>) -> String {
    match files {
        Some((certificate, key)) => format!(
            "certificate = {}\nkey = {}\n",
            quoted(&certificate.to_string_lossy()),
            quoted(&key.to_string_lossy())
        ),
        None => "# Without these the node makes a certificate for itself, which clients are to be told to trust.\n\
                 # certificate = \"/etc/belfry/fullchain.pem\"\n# key = \"/etc/belfry/privkey.pem\"\n\n\
                 # Or the node orders one of Let's Encrypt and renews it, once you have agreed to the terms: docs/operating.md.\n\
                 # [acme]\n# agree_to_terms = true\n"
            .to_owned(),
    }
}

/// The console is on where an account can sign in to it.
fn console_lines(answers: &Answers) -> String {
    let about = "# The operators' pages for browsers, http://127.0.0.1:5380/; accounts in `admins` may do everything there (docs/console.md).\n";
    let (mark, account) = match &answers.account {
        Some(account) if account.contains('@') => ("", account.clone()),
        Some(account) => ("", format!("{account}@{}", answers.domain)),
        // As comments, with an example.
        None => ("# ", format!("alice@{}", answers.domain)),
    };
    let lines = [
        "[console]".to_owned(),
        "listen = \"127.0.0.1:5380\"".into(),
        format!("admins = [{}]", quoted(&account)),
    ];
    about.to_owned() + &lines.map(|line| format!("{mark}{line}\n")).concat()
}

/// The whole file. Keys that an operator is likely to need next stand in it as comments.
fn render(answers: &Answers) -> String {
    let Answers { domain, listen, tls, data, .. } = answers;
    let at =
        |transport: &str, port: u16| format!("\"{transport}:{}\"", std::net::SocketAddr::new(*listen, port));
    let tls = tls_lines(tls.as_ref());
    let console = console_lines(answers);
    format!(
        r#"# The configuration of Belfry, made by `belfry init`. Every key and its default: docs/configuration.md.
# Check a change:        belfry check-config
# Count it from now on:  belfry reload
# What is wrong here:    belfry doctor

[server]
# The database, the control socket, and a certificate that the node makes for itself. It is closed to other users.
data = {data}

[sip]
# Accounts are user@domain; more domains may follow.
domains = [{domain}]
# Phones, trunks and browsers. 127.0.0.1 is this machine alone, 0.0.0.0 all of its addresses.
listen = [{udp}, {tcp}, {sips}, {sipw}]
# Behind NAT: the public name or address, with the ports forwarded to this machine.
# advertise = "sip.example.net"

[tls]
{tls}
[xmpp]
# Chat clients: STARTTLS, TLS from the first byte, and browsers. No client signs in without TLS.
listen = [{chat}, {chats}, {web}]

[xmpp.web]
# A page with chat and a phone for users, at /app/ of the wss: address above.
app = true

# Other chat servers; off while it is commented out.
# [xmpp.federation]
# listen = [{servers}]

# Applications that answer calls (docs/applications.md) need an address for sound; off while it is commented out.
# [voice]
# media = "{listen}"

[http]
# Metrics and health. No password is asked for here: leave it on loopback.
listen = "127.0.0.1:9090"

{console}"#,
        data = quoted(&data.to_string_lossy()),
        domain = quoted(domain),
        udp = at("udp", 5060),
        tcp = at("tcp", 5060),
        sips = at("tls", 5061),
        sipw = at("wss", 5443),
        chat = at("tcp", 5222),
        chats = at("tls", 5223),
        web = at("wss", 5281),
        servers = at("tcp", 5269),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(dir: &Path) -> InitArgs {
        InitArgs {
            domain: Some("a.test".into()),
            listen: None,
            certificate: None,
            key: None,
            account: None,
            dir: dir.to_owned(),
            yes: true,
        }
    }

    #[test]
    fn the_written_file_is_a_good_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path().join("new");
        args(&dir).run().unwrap();
        let config = Config::read(&dir.join(USUAL_FILE)).unwrap();
        assert_eq!(config.sip.domains, ["a.test".into()]);
        assert!(config.sip.listen.iter().all(|listener| listener.address.ip().is_loopback()));
        assert_eq!(config.server.data, dir.join("data"));
        assert!(config.xmpp.require_tls && config.warnings().is_empty());
        let again = args(&dir).run().unwrap_err();
        assert!(again.to_string().contains("there is one already, and nothing was changed"), "{again}");
    }

    #[test]
    fn without_an_account_the_next_step_is_to_make_one() {
        let file = Path::new("/d/belfry.toml");
        let next = next_commands(file, " --config /d/belfry.toml", Some("alice@a.test"));
        let [add, doctor, serve] = ["account add alice@a.test", "doctor", "serve"]
            .map(|words| format!("belfry {words} --config /d/belfry.toml"));
        assert_eq!(next, [add, doctor.clone(), serve.clone()]);
        assert_eq!(next_commands(file, " --config /d/belfry.toml", None), [doctor, serve]);
        let packaged = Path::new(PACKAGED_FILE);
        let next = next_commands(packaged, "", Some("alice@a.test"));
        assert_eq!(next, ["belfry account add alice@a.test", "belfry doctor", "systemctl restart belfry"]);
    }

    #[test]
    fn commands_name_the_file_unless_they_find_it_by_themselves() {
        let here = std::env::current_dir().unwrap();
        let (usual, packaged) = (Path::new(USUAL_FILE), Path::new(PACKAGED_FILE));
        // The file that was written, the one that commands read when none is named, the option.
        let table = [
            ("./belfry.toml", Some(usual), String::new()),
            ("/etc/belfry/belfry.toml", Some(packaged), String::new()),
            ("/etc/belfry/belfry.toml", Some(usual), " --config /etc/belfry/belfry.toml".into()),
            ("d/belfry.toml", Some(packaged), format!(" --config {}/d/belfry.toml", here.display())),
            ("d/belfry.toml", None, format!(" --config {}/d/belfry.toml", here.display())),
        ];
        for (written, found, option) in table {
            assert_eq!(config_option(Path::new(written), found), option, "{written} {found:?}");
        }
    }

    #[test]
    fn the_first_account_is_the_admin_of_the_console() {
        let answers = |account: Option<&str>| Answers {
            domain: "a.test".into(),
            listen: [127, 0, 0, 1].into(),
            tls: None,
            account: account.map(str::to_owned),
            data: "data".into(),
        };
        let read =
            |answers: &Answers| Config::parse(&render(answers), Path::new(USUAL_FILE)).unwrap().console;
        for account in ["alice", "alice@a.test"] {
            let console = read(&answers(Some(account)));
            assert_eq!(console.admins, ["alice@a.test".into()]);
            assert_eq!(console.listen, Some(([127, 0, 0, 1], 5380).into()));
        }
        assert_eq!(read(&answers(None)).listen, None, "no account could sign in");
    }

    #[test]
    fn flags_come_before_questions_and_defaults() {
        let folder = tempfile::tempdir().unwrap();
        let mut asked = Vec::new();
        let open = InitArgs { domain: None, ..args(folder.path()) };
        let answers = open.answers(|question, default| {
            asked.push(question.split([' ', ':']).next().unwrap().to_owned());
            let is_domain = question.starts_with("Domain");
            Ok(if is_domain { "b.test".into() } else { default.into() })
        });
        assert_eq!(asked, ["Domain", "Address", "File", "First"]);
        let answers = answers.unwrap();
        assert_eq!((answers.domain.as_str(), answers.listen.to_string().as_str()), ("b.test", "127.0.0.1"));
        assert_eq!((answers.tls, answers.account, answers.data), (None, None, "data".into()));
        let packaged = InitArgs { listen: Some([0, 0, 0, 0].into()), ..args(Path::new("/etc/belfry")) };
        let answers = packaged.answers(|_, default| Ok(default.into())).unwrap();
        assert_eq!(answers.data, Path::new("/var/lib/belfry"));
        assert!(render(&answers).contains("\"udp:0.0.0.0:5060\""));
    }

    #[test]
    fn answers_that_cannot_be_used_leave_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let gone = folder.path().join("gone.pem");
        let refused = [
            (InitArgs { domain: None, ..args(folder.path()) }, "no domain: name it with --domain"),
            (InitArgs { domain: Some("a test\"\n".into()), ..args(folder.path()) }, "is no domain"),
            (
                InitArgs { account: Some("alice@b.test".into()), ..args(folder.path()) },
                "is not of the domain a.test",
            ),
            (
                InitArgs { certificate: Some(gone.clone()), key: Some(gone.clone()), ..args(folder.path()) },
                "nothing was written",
            ),
        ];
        for (args, expected) in refused {
            let error = args.run().unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
            assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        }
    }

    /// The configuration of the package is made by the code: `BLESS=1` writes it.
    #[test]
    fn the_package_has_the_configuration_of_this_machine_alone() {
        let answers = Answers::packaged();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/belfry.toml");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&page, render(&answers)).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(&page).unwrap(),
            render(&answers),
            "BLESS=1 cargo test -p cli --lib init"
        );
    }

    #[test]
    fn passwords_are_long_and_unlike() {
        let (one, two) = (password().unwrap(), password().unwrap());
        assert_eq!((one.len(), two.len()), (20, 20));
        assert_ne!(one, two);
    }
}
