//! Accounts of other servers in those servers' own forms, beside XEP-0227.
//!
//! [`FORMATS`] has a line for each server. A format turns its input into [`ForeignPiece`]s, one after the other; [`ForeignUsers`] checks them as
//! every account is checked here, counts what there is to tell, and is the source of `Admin::import_users`. Aliases are kept until all accounts
//! are there.

use std::io::Read;
use std::path::Path;

use clap::ValueEnum;
use store::{
    Address, ImportOptions, NewAccount, NewUser, ScramHash, ScramKeys, SourceUser, StoreError, Users,
    Verifiers,
};

use super::Stop;
use super::asterisk;
use super::kamailio::{self, Kamailio};
use super::openfire::{self, Openfire};
use super::row_files::RowFiles;
use super::summary::ImportSummary;
use crate::error::CliError;
use crate::limits;

/// A server whose accounts are imported in its own form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Server {
    /// pjsip.conf, or the folder with it and extensions.conf; tables ps_endpoints, ps_auths and ps_aors as a dump in SQL or a folder of CSV
    Asterisk,
    /// Tables subscriber and dbaliases, as a dump in SQL, CSV, or a folder of db_text
    Kamailio,
    /// Tables ofUser and ofUserScram as a dump in SQL; its XML is recognised without this
    Openfire,
}

impl Server {
    /// True if a folder has another form than XEP-0227.
    pub(super) fn has_folders(self) -> bool {
        self != Server::Openfire
    }
}

/// The common parts of the formats: an input, and a source of accounts.
struct Format {
    server: Server,
    /// Opens the input: a file, of which something may have been read already, or a folder.
    open: fn(ForeignInput<'_>) -> Result<Box<dyn ForeignSource>, CliError>,
}

/// One line for each server.
const FORMATS: &[Format] = &[
    Format { server: Server::Asterisk, open: asterisk::open },
    Format {
        server: Server::Kamailio,
        open: |input| Ok(Box::new(RowFiles::open(input, kamailio::TABLES, kamailio::FOLDER, Kamailio)?)),
    },
    Format {
        server: Server::Openfire,
        open: |input| Ok(Box::new(RowFiles::open(input, openfire::TABLES, &[], Openfire::default())?)),
    },
];

/// The input of an import from another server.
pub(super) struct ForeignInput<'a> {
    pub(super) path: &'a Path,
    /// `None`: it is a folder.
    pub(super) file: Option<Box<dyn Read + Send>>,
    /// The domain of accounts whose server names none.
    pub(super) domain: Box<str>,
    pub(super) stop: &'a Stop,
}

/// Opens the input of that server's form.
pub(super) fn open(server: Server, input: ForeignInput<'_>) -> Result<Box<dyn ForeignSource>, CliError> {
    let format = FORMATS.iter().find(|format| format.server == server);
    (format.expect("each server has a line in the table").open)(input)
}

/// A part of another server's data.
pub(super) enum ForeignPiece {
    /// An account, which is not checked yet.
    Account(ForeignAccount),
    /// Another address of an account.
    Alias { line: u64, alias: (Box<str>, Box<str>), account: (Box<str>, Box<str>) },
    /// Something that is not taken, with the reason.
    Bad { line: u64, what: String },
    /// A kind of data that has no place here, in the plural.
    Other(Box<str>, u64),
}

/// An account of another server.
pub(super) struct ForeignAccount {
    pub(super) line: u64,
    pub(super) user: Box<str>,
    pub(super) domain: Box<str>,
    /// Empty for none.
    pub(super) name: Box<str>,
    pub(super) credentials: ForeignCredentials,
}

/// The proof by which an account signs in.
pub(super) enum ForeignCredentials {
    Password(Box<str>),
    /// The HA1 of MD5 whose realm is the domain as it is written in the input.
    Md5([u8; 16]),
    /// Keys of SCRAM only.
    Keys(Vec<(ScramHash, ScramKeys)>),
}

/// Gives the pieces of an input.
pub(super) trait ForeignSource: Send {
    /// `None`: there are no more.
    fn next(&mut self) -> Result<Option<ForeignPiece>, CliError>;

    /// File and line, for messages.
    fn place(&self, line: u64) -> String;

    /// Bytes of the input that are done with.
    fn bytes(&self) -> u64;

    /// Bytes of all files, for the bar. `None`: not known.
    fn total(&self) -> Option<u64>;

    /// Asked behind the last piece: what the input should have had, if it had nothing of the server.
    fn unrecognised(&self) -> Option<String>;
}

/// Checked accounts of another server, one after the other.
pub(super) struct ForeignUsers<'a> {
    source: Box<dyn ForeignSource>,
    options: &'a ImportOptions,
    /// All that there is to say at the end.
    pub(super) told: ImportSummary,
    /// Aliases and their accounts, with the place of each.
    pub(super) aliases: Vec<(String, Address, Address)>,
    /// The end was reached, and was told of.
    has_ended: bool,
}

impl<'a> ForeignUsers<'a> {
    pub(super) fn new(
        source: Box<dyn ForeignSource>,
        options: &'a ImportOptions,
        named: usize,
    ) -> ForeignUsers<'a> {
        ForeignUsers {
            source,
            options,
            told: ImportSummary::new(named),
            aliases: Vec::new(),
            has_ended: false,
        }
    }

    fn bad(&mut self, line: u64, what: &str) {
        self.told.bad(&self.source.place(line), what);
    }

    /// An account as the store takes it. An error says what is wrong with it.
    fn account(&mut self, account: ForeignAccount) -> Result<SourceUser, StoreError> {
        let ForeignAccount { line: _, user, domain, name, credentials } = account;
        let address = Address::new(&user, &domain)?.with_addable_domain()?;
        let (verifiers, password) = match credentials {
            ForeignCredentials::Password(password) => {
                store::types::check_password(&password)?;
                self.told.passwords += 1;
                // The import derives them.
                (Verifiers::underived(), Some(password))
            }
            ForeignCredentials::Md5(_) if *address.domain != *domain => {
                let what = format!("an HA1 of the realm {domain:?}");
                let expected =
                    format!("one of {:?}, as the domain is written here, or the password", address.domain);
                return Err(StoreError::Invalid { what, expected });
            }
            ForeignCredentials::Md5(md5) => {
                self.told.md5_only(&address);
                (Verifiers::of_md5(md5, &self.options.stand_in(&address)?), None)
            }
            ForeignCredentials::Keys(keys) => {
                self.told.keys_only(&address);
                (Verifiers::without_password(&self.options.stand_in(&address)?).with_scram(&keys), None)
            }
        };
        let fits = name.len() <= store::limits::MAX_DISPLAY_NAME;
        if !fits {
            self.told.pass("names that are too long", 1);
        }
        let account = NewAccount {
            address,
            display_name: if fits { name } else { "".into() },
            verifiers,
            limits: store::AccountLimits::default(),
            created_at: self.options.now,
        };
        Ok(SourceUser { user: NewUser { account, chat: Vec::new() }, password })
    }

    fn alias(&mut self, line: u64, alias: &(Box<str>, Box<str>), account: &(Box<str>, Box<str>)) {
        let address = |(user, domain): &(Box<str>, Box<str>)| Address::new(user, domain);
        match (address(alias), address(account)) {
            (Ok(alias), Ok(account)) if alias == account => {}
            (Ok(_), Ok(_)) if self.aliases.len() >= limits::IMPORT_ALIASES => {
                let limit = limits::IMPORT_ALIASES;
                self.bad(
                    line,
                    &format!("an alias more than {limit}; expected the others in an import of their own"),
                );
            }
            (Ok(alias), Ok(account)) => self.aliases.push((self.source.place(line), alias, account)),
            (Err(error), _) | (_, Err(error)) => self.bad(line, &format!("alias: {error}")),
        }
    }
}

impl Users for ForeignUsers<'_> {
    type Error = CliError;

    fn next(&mut self) -> Result<Option<SourceUser>, CliError> {
        while let Some(piece) = self.source.next()? {
            match piece {
                ForeignPiece::Account(account) => {
                    let (line, user) = (account.line, account.user.clone());
                    match self.account(account) {
                        Ok(user) => return Ok(Some(user)),
                        Err(error) => self.bad(line, &format!("user {user}: {error}")),
                    }
                }
                ForeignPiece::Alias { line, alias, account } => self.alias(line, &alias, &account),
                ForeignPiece::Bad { line, what } => self.bad(line, &what),
                ForeignPiece::Other(what, count) => self.told.pass(&what, count),
            }
        }
        // A file of another kind would look like one of a server without accounts.
        if !std::mem::replace(&mut self.has_ended, true)
            && let Some(expected) = self.source.unrecognised()
        {
            return Err(CliError::Other(format!(
                "nothing of that server is in the input; expected {expected}"
            )));
        }
        Ok(None)
    }

    fn bytes(&self) -> u64 {
        self.source.bytes()
    }
}
