//! `belfry account export`: for another server, a file of XEP-0227.
//!
//! For each domain and each page of its accounts: contacts, blocked addresses, messages that wait and private data are read account by account and
//! written at once, so that memory does not grow with the number of accounts. The file has a name of its own until it is whole.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use chat::pie::{Credentials, ExportedAccount};
use chat_store::keys;
use chat_store::rows::{contacts_of, element};
use clap::Args;
use config::Config;
use store::xmpp::{XmppLoaded, XmppRead};
use store::{Account, AccountFilter, Admin, Loaded, Read};
use xmpp::xml::escape;
use xmpp::{Bare, ns};

use super::backend::open_database;
use super::error::CliError;
use super::table::grouped;

#[derive(Debug, Args)]
pub(super) struct ExportArgs {
    /// File to create, readable by its owner only: the password keys in it allow passwords to be guessed offline. A pipe or
    /// device that is there is written to; - is standard output
    file: PathBuf,
    /// Only accounts of this domain [default: all domains]
    #[arg(long)]
    domain: Option<String>,
}

/// The numbers of exported items.
#[derive(Default)]
struct Counts {
    /// Accounts written.
    accounts: u64,
    /// Accounts that have no keys of SCRAM: nothing in the file lets them sign in.
    without_keys: u64,
    /// Accounts whose names no XMPP address can have, as those with capital letters.
    unnamed: u64,
}

impl ExportArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        // The database itself, not the node: an export may take minutes and must not keep the node's readers
        // busy.
        let mut admin = Admin::new(&open_database(config)?)?;
        let mut domains: Vec<Box<str>> = admin.domains()?.into_iter().map(|domain| domain.name).collect();
        if let Some(only) = self.domain.map(|domain| domain.to_lowercase()) {
            domains.retain(|domain| **domain == *only);
            if domains.is_empty() {
                let text = format!("there is no domain {only}; see those there are with: belfry domain list");
                return Err(CliError::Other(text));
            }
        }
        if let Some(stream) = stream(&self.file).map_err(|error| cannot_write(&self.file, &error))? {
            let counts = write_all(&mut admin, &domains, &self.file, BufWriter::new(stream))?;
            // Standard output may be the stream.
            eprint!("{}", counts.words());
            return Ok(());
        }
        // Also a link that leads nowhere, to which the rename would otherwise write.
        if self.file.symlink_metadata().is_ok() {
            return Err(cannot_write(&self.file, &io::Error::from_raw_os_error(libc::EEXIST)));
        }
        // Half of the accounts would look like all of them: the file has its name once it is whole and on disk.
        let part = part_of(&self.file);
        // Left by an export that was killed.
        let _ = std::fs::remove_file(&part);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part);
        let file = file.map_err(|error| cannot_write(&self.file, &error))?;
        let written = write_all(&mut admin, &domains, &self.file, BufWriter::new(file)).and_then(|counts| {
            std::fs::rename(&part, &self.file).map_err(|error| cannot_write(&self.file, &error))?;
            Ok(counts)
        });
        let counts = written.inspect_err(|_| {
            let _ = std::fs::remove_file(&part);
        })?;
        io::stdout().lock().write_all(counts.words().as_bytes())?;
        Ok(())
    }
}

impl Counts {
    fn words(&self) -> String {
        let mut words = format!("accounts: {}\n", grouped(self.accounts));
        if self.without_keys > 0 {
            words += &format!(
                "without anything to sign in by: {}, whose keys of SCRAM are made when they send their password once\n",
                grouped(self.without_keys)
            );
        }
        if self.unnamed > 0 {
            words += &format!(
                "passed over: {} accounts whose names no chat client can have\n",
                grouped(self.unnamed)
            );
        }
        words
    }
}

/// Standard output, or a device or pipe that is there: it is written to, and nothing of it can be taken back. `None`: the file is to be made.
fn stream(path: &Path) -> io::Result<Option<File>> {
    if path == Path::new("-") || path == Path::new("/dev/stdout") {
        return Ok(Some(io::stdout().as_fd().try_clone_to_owned()?.into()));
    }
    let is_stream = path.metadata().is_ok_and(|found| {
        let kind = found.file_type();
        kind.is_char_device() || kind.is_fifo()
    });
    is_stream.then(|| OpenOptions::new().write(true).open(path)).transpose()
}

/// Its name while it is written.
fn part_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".part");
    name.into()
}

fn cannot_write(path: &Path, error: &io::Error) -> CliError {
    // The reader has what it wanted, as `head` does.
    if error.kind() == io::ErrorKind::BrokenPipe {
        return CliError::Broken;
    }
    let next = match error.kind() {
        io::ErrorKind::AlreadyExists => "choose another name, or remove it",
        _ => "nothing of it was kept; give the same command again when that is mended",
    };
    CliError::Other(format!("{}: cannot be written: {error}; {next}", path.display()))
}

/// The document: one `host` for each domain, with its accounts in order of name.
fn write_all(
    admin: &mut Admin,
    domains: &[Box<str>],
    path: &Path,
    mut out: BufWriter<File>,
) -> Result<Counts, CliError> {
    let failed = |error| cannot_write(path, &error);
    let mut counts = Counts::default();
    writeln!(out, "<?xml version='1.0' encoding='UTF-8'?>\n<server-data xmlns='{}'>", ns::PIE)
        .map_err(failed)?;
    for domain in domains {
        writeln!(out, "<host jid='{}'>", escape(domain)).map_err(failed)?;
        let mut filter = AccountFilter {
            domain: Some(domain.clone()),
            limit: control::limits::LIST_PAGE,
            ..AccountFilter::default()
        };
        loop {
            let page = admin.accounts(filter.clone())?;
            let Some(last) = page.last() else { break };
            filter.after = Some(last.address());
            for account in &page {
                if let Some(kept) = kept(admin, account, &mut counts)? {
                    out.write_all(&kept.element().to_bytes(ns::PIE)).map_err(failed)?;
                    writeln!(out).map_err(failed)?;
                }
            }
        }
        writeln!(out, "</host>").map_err(failed)?;
    }
    writeln!(out, "</server-data>").map_err(failed)?;
    let file = out.into_inner().map_err(|error| failed(error.into_error()))?;
    match file.sync_all() {
        // A pipe or a device cannot be synchronised (fsync(2)).
        Err(error) if error.kind() != io::ErrorKind::InvalidInput => Err(failed(error)),
        _ => Ok(counts),
    }
}

/// All that is exported of one account. `None`: its name cannot be in an XMPP address.
fn kept(
    admin: &mut Admin,
    account: &Account,
    counts: &mut Counts,
) -> Result<Option<ExportedAccount>, CliError> {
    let address = Bare::new(Some(&account.name), &account.domain).ok();
    let Some(address) = address.filter(|address| address.local() == Some(&*account.name)) else {
        counts.unnamed += 1;
        return Ok(None);
    };
    let owner: Box<str> = address.as_str().into();
    let mut kept = ExportedAccount {
        credentials: Credentials { password: None, keys: keys::all_known(&account.verifiers) },
        address,
        roster: Vec::new(),
        blocked: Vec::new(),
        messages: Vec::new(),
        nodes: Vec::new(),
        items: Vec::new(),
    };
    counts.accounts += 1;
    counts.without_keys += u64::from(kept.credentials.keys.is_empty());
    for read in [XmppRead::User { user: owner.clone(), nodes: &[] }, XmppRead::Kept { owner: owner.clone() }]
    {
        add(&mut kept, admin.read(&Read::Xmpp(read))?);
    }
    // Messages and nodes come in pages, each after the last id or name of the page before.
    let mut next = Some(0);
    while let Some(after) = next {
        let loaded =
            admin.read(&Read::Xmpp(XmppRead::Offline { user: owner.clone(), after, ids: Vec::new() }))?;
        next = match &loaded {
            Loaded::Xmpp(XmppLoaded::Stanzas(page)) if !page.is_complete => {
                page.stanzas.last().map(|(id, _, _)| *id)
            }
            _ => None,
        };
        add(&mut kept, loaded);
    }
    let mut next = Some(None);
    while let Some(after) = next {
        let loaded = admin.read(&Read::Xmpp(XmppRead::Nodes { owner: owner.clone(), after }))?;
        next = match &loaded {
            Loaded::Xmpp(XmppLoaded::Rows(page)) if !page.is_complete => {
                page.rows.last().map(|(name, _, _)| Some(name.clone()))
            }
            _ => None,
        };
        add(&mut kept, loaded);
    }
    Ok(Some(kept))
}

/// Rows that are not readable as XML are left out.
fn add(kept: &mut ExportedAccount, loaded: Loaded) {
    let Loaded::Xmpp(loaded) = loaded else { return };
    match loaded {
        XmppLoaded::User(row) => {
            kept.blocked = row.blocked.iter().filter_map(|jid| xmpp::Jid::parse(jid).ok()).collect();
            kept.roster = contacts_of(row.roster);
        }
        XmppLoaded::Stanzas(page) => {
            let message = |(_, at, text): (_, _, Box<str>)| Some((at, element(&text)?));
            kept.messages.extend(page.stanzas.into_iter().filter_map(message));
        }
        XmppLoaded::Rows(page) => {
            let node = |(name, _, text): (_, _, Box<str>)| Some((name, element(&text)?));
            kept.nodes.extend(page.rows.into_iter().filter_map(node));
        }
        XmppLoaded::Kept(rows) => {
            let item = |(node, id, text): (_, _, Box<str>)| Some((node, id, element(&text)?));
            kept.items = rows.into_iter().filter_map(item).collect();
        }
        // None of the reads above returns these.
        XmppLoaded::Items(_) | XmppLoaded::Page(_) | XmppLoaded::Room(_) | XmppLoaded::Users(_) => {}
    }
}
