//! `belfry account`.
//!
//! Every command takes addresses with or without a domain ([`address`]), and aliases where an account is wanted (`find`), and works with a node or without.

use std::io::{self, Write as _};

use clap::{Args, Subcommand};
use config::Config;
use control::{AccountRow, Ask, BindingRow, Change, Listing, Request, Response};
use store::{AccountFilter, AccountLimits, Address};

use super::alias::AliasCommand;
use super::backend::{Backend, unexpected};
use super::error::CliError;
use super::export::ExportArgs;
use super::greeting::sign_in;
use super::import::ImportArgs;
use super::password::PasswordArgs;
use super::table::{Table, date, elapsed};

/// ACCOUNT is user@domain, or user in the default domain.
#[derive(Debug, Subcommand)]
pub(super) enum AccountCommand {
    /// Make an account
    Add(AddArgs),
    /// Make many: from CSV, from XEP-0227 with all that belongs to them, or from another server's own files
    Import(ImportArgs),
    /// Write all, with what belongs to them, for another server (XEP-0227)
    Export(ExportArgs),
    /// Accounts in order of name
    List(ListArgs),
    /// One account, its aliases and where it is registered
    Show(ShowArgs),
    /// Change the password
    Passwd(PasswdArgs),
    /// Change name and limits
    Set(SetArgs),
    /// Refuse its registrations and calls, keep everything else
    Disable {
        /// user@domain, or user in the default domain
        account: String,
    },
    /// Take `disable` back
    Enable {
        /// user@domain, or user in the default domain
        account: String,
    },
    /// Remove accounts, their aliases with them
    Remove {
        /// Each user@domain, or user in the default domain
        #[arg(required = true, value_name = "ACCOUNT")]
        accounts: Vec<String>,
    },
    /// Other addresses of an account
    #[command(subcommand)]
    Alias(AliasCommand),
}

#[derive(Debug, Args)]
pub(super) struct AddArgs {
    /// user@domain, or user in the default domain
    account: String,
    #[command(flatten)]
    password: PasswordArgs,
    #[command(flatten)]
    details: Details,
}

// All optional: `add` takes a missing one as none, `set` leaves it as it is.
#[derive(Debug, Args)]
struct Details {
    /// Name shown to people [default: none]
    #[arg(long)]
    name: Option<String>,
    /// Phones at once [default: what the configuration says]
    #[arg(long, value_name = "N")]
    max_contacts: Option<u32>,
    /// Calls at once, placed and received [default: no limit]
    #[arg(long, value_name = "N")]
    max_calls: Option<u32>,
    /// New calls a second that it places [default: no limit]
    #[arg(long, value_name = "N")]
    max_rate: Option<u32>,
    /// Destinations that it may not call, as +882*, 00* or 1900???????; may be repeated
    #[arg(long, value_name = "PATTERN")]
    deny: Vec<Box<str>>,
}

#[derive(Debug, Args)]
pub(super) struct PasswdArgs {
    /// user@domain, or user in the default domain
    account: String,
    #[command(flatten)]
    password: PasswordArgs,
}

#[derive(Debug, Args)]
pub(super) struct SetArgs {
    /// user@domain, or user in the default domain
    account: String,
    #[command(flatten)]
    details: Details,
    /// No limits and denied destinations of its own any more
    #[arg(long, conflicts_with_all = ["max_contacts", "max_calls", "max_rate", "deny"])]
    no_limits: bool,
}

#[derive(Debug, Args)]
pub(super) struct ListArgs {
    /// Only accounts of this domain [default: all domains]
    #[arg(long)]
    domain: Option<String>,
    /// Only names that start so [default: all names]
    #[arg(long, default_value = "", hide_default_value = true)]
    prefix: String,
    /// Only accounts that come after this one, which need not be there: user@domain, or user in the default domain
    #[arg(long, value_name = "ACCOUNT")]
    after: Option<String>,
    /// No more than so many [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct ShowArgs {
    /// user@domain, or user in the default domain
    account: String,
    /// One JSON object
    #[arg(long)]
    json: bool,
}

/// `user@domain`, or `user` in the default domain.
pub(super) fn address(text: &str, config: &Config) -> Result<Address, CliError> {
    // Addresses are often copied from a SIP client or a log.
    let bare = text.strip_prefix("sip:").unwrap_or(text);
    Ok(Address::parse(bare, Some(&config.sip.default_domain))?)
}

impl AccountCommand {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let disable = |account: String, disabled: bool| {
            let mut backend = Backend::open(config)?;
            let account = find(&mut backend, &address(&account, config)?)?.address;
            backend.change(Change::SetDisabled { account, disabled })
        };
        match self {
            AccountCommand::Add(args) => args.run(config),
            AccountCommand::Import(args) => args.run(config),
            AccountCommand::Export(args) => args.run(config),
            AccountCommand::List(args) => args.run(config),
            AccountCommand::Show(args) => args.run(config),
            AccountCommand::Passwd(args) => {
                let mut backend = Backend::open(config)?;
                // Before the password is asked for; and an alias has none of its own.
                let account = find(&mut backend, &address(&args.account, config)?)?.address;
                let password = args.password.read(&account)?;
                backend.change(Change::SetPassword { account, password })
            }
            AccountCommand::Set(args) => args.run(config),
            AccountCommand::Disable { account } => disable(account, true),
            AccountCommand::Enable { account } => disable(account, false),
            AccountCommand::Remove { accounts } => remove(&accounts, config),
            AccountCommand::Alias(command) => command.run(config),
        }
    }
}

impl AddArgs {
    // The domain must be served: first one of the configuration is added, then all are asked, so that the error comes before the password is asked for.
    fn run(self, config: &Config) -> Result<(), CliError> {
        let address = address(&self.account, config)?;
        let mut backend = Backend::open_or_make(config)?;
        backend.ensure_domain(config, &address.domain)?;
        let domains = backend.ask(Ask::Domains)?;
        let Listing::Domains(domains) = &domains else { return Err(unexpected(&domains)) };
        if !domains.iter().any(|domain| domain.name == address.domain) {
            return Err(CliError::Other(format!(
                "the domain {0} is not served here; add it with: belfry domain add {0}",
                address.domain
            )));
        }
        let Details { name, max_contacts, max_calls, max_rate, deny } = self.details;
        backend.change(Change::AddAccount {
            password: self.password.read(&address)?,
            address: address.clone(),
            display_name: name.unwrap_or_default().into(),
            limits: AccountLimits { max_contacts, max_calls, max_rate, deny },
        })?;
        say!("made {address}");
        let how = sign_in(config, &address.user, &address.domain);
        let heading = match &backend {
            Backend::Node(_) => "to sign in",
            Backend::Record(_) => "to sign in, once a node runs (belfry serve)",
        };
        if !how.is_empty() {
            say!("{heading}\n{}", how.trim_end());
        }
        Ok(())
    }
}

impl SetArgs {
    // Limits that are not named keep their values; `--deny` replaces the whole list. Name and limits are two changes, and equal limits are not written.
    fn run(self, config: &Config) -> Result<(), CliError> {
        let account = address(&self.account, config)?;
        let mut backend = Backend::open(config)?;
        let found = find(&mut backend, &account)?;
        let Details { name, max_contacts, max_calls, max_rate, deny } = self.details;
        // Each change is a write of its own: if the second fails, the error says so and the first stays.
        if let Some(name) = name {
            let account = found.address.clone();
            backend.change(Change::SetDisplayName { account, display_name: name.into() })?;
        }
        let had = found.limits.clone();
        let limits = AccountLimits {
            max_contacts: max_contacts.or(had.max_contacts),
            max_calls: max_calls.or(had.max_calls),
            max_rate: max_rate.or(had.max_rate),
            deny: if deny.is_empty() { had.deny } else { deny },
        };
        // Excludes the single limits (clap), so there is nothing to merge.
        let limits = if self.no_limits { AccountLimits::default() } else { limits };
        if limits == found.limits {
            return Ok(());
        }
        backend.change(Change::SetLimits { account: found.address, limits })
    }
}

/// The account itself where the address is an alias.
fn find(backend: &mut Backend, account: &Address) -> Result<AccountRow, CliError> {
    match backend.ask(Ask::Account { address: account.clone() })? {
        Listing::Account(Some(found)) => Ok(found),
        Listing::Account(None) => Err(CliError::Other(format!(
            "there is no account {account}; see those there are with: belfry account list"
        ))),
        other => Err(unexpected(&other)),
    }
}

/// An account that is not there has no empty list of anything: its name was misspelt, and that is an error. An edge without a
/// database cannot know.
///
/// # Errors
/// There is no account and no alias of this name.
pub(super) fn must_be_there(
    backend: &mut Backend,
    account: &Address,
    config: &Config,
) -> Result<(), CliError> {
    if config.is_edge_without_database() {
        return Ok(());
    }
    find(backend, account).map(drop)
}

/// Domains of the configuration are in the database only after the first start.
fn must_be_served(backend: &mut Backend, domain: &str, config: &Config) -> Result<(), CliError> {
    if config.is_edge_without_database() || config.sip.domains.iter().any(|served| **served == *domain) {
        return Ok(());
    }
    match backend.ask(Ask::Domains)? {
        Listing::Domains(domains) if domains.iter().any(|served| *served.name == *domain) => Ok(()),
        Listing::Domains(_) => Err(CliError::Other(format!(
            "there is no domain {domain}; see those there are with: belfry domain list"
        ))),
        other => Err(unexpected(&other)),
    }
}

/// All that can be; the first failure is the exit code.
fn remove(accounts: &[String], config: &Config) -> Result<(), CliError> {
    // All texts are parsed before the first account is removed.
    let accounts: Vec<_> = accounts.iter().map(|text| address(text, config)).collect::<Result<_, _>>()?;
    let mut backend = Backend::open(config)?;
    let mut first = None;
    for account in accounts {
        if let Err(error) = backend.change(Change::RemoveAccount { account }) {
            match &first {
                None => first = Some(error),
                Some(_) => eprintln!("belfry: {error}"),
            }
        }
    }
    first.map_or(Ok(()), Err)
}

impl ListArgs {
    // By pages, each after the last account of the page before: a list of a million accounts is never in memory at once.
    fn run(self, config: &Config) -> Result<(), CliError> {
        let after = self.after.map(|after| address(&after, config)).transpose()?;
        let mut backend = Backend::open(config)?;
        let mut out = io::BufWriter::new(io::stdout().lock());
        let mut filter = AccountFilter {
            domain: self.domain.map(|domain| domain.to_lowercase().into()),
            prefix: self.prefix.into(),
            after,
            limit: control::limits::LIST_PAGE,
        };
        if let Some(domain) = &filter.domain {
            must_be_served(&mut backend, domain, config)?;
        }
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut shown = 0;
        while left > 0 {
            filter.limit = u32::try_from(left).unwrap_or(u32::MAX).min(control::limits::LIST_PAGE);
            let page = match backend.ask(Ask::Accounts(filter.clone()))? {
                Listing::Accounts(page) => page,
                other => return Err(unexpected(&other)),
            };
            let Some(last) = page.last() else { break };
            filter.after = Some(last.address.clone());
            // A page that is not full is the last one, which saves one question.
            let full = page.len() as u64 == u64::from(filter.limit);
            if self.json {
                print_json(&page, &mut out)?;
            } else {
                table(&page).print(&mut out)?;
            }
            shown += page.len();
            left -= page.len() as u64;
            if !full {
                break;
            }
        }
        if shown == 0 && !self.json {
            writeln!(out, "no accounts")?;
        }
        Ok(out.flush()?)
    }
}

fn print_json(page: &[AccountRow], out: &mut impl io::Write) -> Result<(), CliError> {
    for account in page {
        serde_json::to_writer(&mut *out, &json(account, &[], None))?;
        writeln!(out)?;
    }
    Ok(())
}

/// Aliases and bindings only with `show`.
fn json(account: &AccountRow, aliases: &[String], bindings: Option<&[BindingRow]>) -> serde_json::Value {
    let mut object = serde_json::json!({
        "account": account.address.to_string(),
        "name": account.display_name,
        "disabled": account.disabled,
        "max_contacts": account.limits.max_contacts,
        "max_calls": account.limits.max_calls,
        "max_rate": account.limits.max_rate,
        "deny": account.limits.deny,
        "created_at": account.created_at,
    });
    if let Some(bindings) = bindings {
        object["aliases"] = serde_json::json!(aliases);
        object["bindings"] = serde_json::json!(bindings);
    }
    object
}

fn table(page: &[AccountRow]) -> Table {
    let mut table = Table::new(&["account", "name", "state", "made"], &[]);
    for account in page {
        table.row([
            account.address.to_string(),
            account.display_name.to_string(),
            state(account).to_owned(),
            date(account.created_at),
        ]);
    }
    table
}

fn state(account: &AccountRow) -> &'static str {
    if account.disabled { "disabled" } else { "enabled" }
}

impl ShowArgs {
    fn run(&self, config: &Config) -> Result<(), CliError> {
        let mut backend = Backend::open(config)?;
        let account = find(&mut backend, &address(&self.account, config)?)?;
        let aliases = match backend.ask(Ask::Aliases { account: Some(account.address.clone()) })? {
            Listing::Aliases(aliases) => {
                aliases.into_iter().map(|alias| alias.alias.to_string()).collect::<Vec<_>>()
            }
            other => return Err(unexpected(&other)),
        };
        let bindings = bindings(&mut backend, &account.address)?;
        let mut out = io::stdout().lock();
        if self.json {
            let object = json(&account, &aliases, Some(bindings.as_deref().unwrap_or_default()));
            return Ok(writeln!(out, "{object}")?);
        }
        let limit = |limit: Option<u32>| limit.map_or("not limited here".into(), |limit| limit.to_string());
        writeln!(out, "account      {}", account.address)?;
        writeln!(out, "name         {}", super::table::printable(&account.display_name))?;
        writeln!(out, "state        {}", state(&account))?;
        writeln!(out, "made         {} UTC", date(account.created_at))?;
        writeln!(out, "contacts     {}", limit(account.limits.max_contacts))?;
        writeln!(out, "calls        {}", limit(account.limits.max_calls))?;
        writeln!(out, "a second     {}", limit(account.limits.max_rate))?;
        let deny = &account.limits.deny;
        writeln!(
            out,
            "not to       {}",
            if deny.is_empty() { "not limited here".into() } else { deny.join(", ") }
        )?;
        let aliases = if aliases.is_empty() { "none".into() } else { aliases.join(", ") };
        writeln!(out, "aliases      {aliases}")?;
        match bindings.as_deref() {
            None => writeln!(out, "registered   not known: no node runs")?,
            Some([]) => writeln!(out, "registered   nowhere")?,
            Some(bindings) => {
                writeln!(out, "registered")?;
                binding_table(bindings).print(&mut out)?;
            }
        }
        Ok(())
    }
}

/// `None`: no node runs, so the bindings are unknown.
fn bindings(backend: &mut Backend, account: &Address) -> Result<Option<Vec<BindingRow>>, CliError> {
    let Backend::Node(client) = backend else { return Ok(None) };
    match client.ask(&Request::Bindings { account: account.clone() })? {
        Response::Bindings(bindings) => Ok(Some(bindings)),
        other => Err(client.unexpected(&other).into()),
    }
}

fn binding_table(bindings: &[BindingRow]) -> Table {
    let mut table = Table::new(&["  contact", "q", "expires in", "from", "agent"], &[1, 2]);
    for binding in bindings {
        table.row([
            format!("  {}", binding.contact),
            format!("{}.{:03}", binding.q / 1_000, binding.q % 1_000),
            elapsed(binding.expires_in_seconds),
            binding.received.as_deref().unwrap_or("its contact").to_owned(),
            binding.user_agent.to_string(),
        ]);
    }
    table
}
