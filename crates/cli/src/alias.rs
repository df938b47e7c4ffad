//! `belfry account alias`.
//!
//! An alias is a second address of an account: calls and messages to it reach the account, but nothing signs in with it.

use std::io;

use clap::Subcommand;
use config::Config;
use control::{Ask, Change, Listing};

use super::account::{address, must_be_there};
use super::backend::{Backend, unexpected};
use super::error::CliError;
use super::table::Table;

#[derive(Debug, Subcommand)]
pub(super) enum AliasCommand {
    /// Let ALIAS lead to ACCOUNT
    Add {
        /// The new address: user@domain, or user in the default domain
        alias: String,
        /// An account that is there
        account: String,
    },
    /// Remove an alias; its account stays
    Remove {
        /// user@domain, or user in the default domain
        alias: String,
    },
    /// The aliases of an account, or all
    List {
        /// [default: of all accounts]
        account: Option<String>,
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
}

impl AliasCommand {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let mut backend = Backend::open(config)?;
        match self {
            AliasCommand::Add { alias, account } => {
                let (alias, account) = (address(&alias, config)?, address(&account, config)?);
                backend.ensure_domain(config, &alias.domain)?;
                backend.change(Change::AddAlias { alias, account })
            }
            AliasCommand::Remove { alias } => {
                backend.change(Change::RemoveAlias { alias: address(&alias, config)? })
            }
            AliasCommand::List { account, json } => {
                let account = account.map(|text| address(&text, config)).transpose()?;
                if let Some(account) = &account {
                    must_be_there(&mut backend, account, config)?;
                }
                list(&mut backend, account, json)
            }
        }
    }
}

fn list(backend: &mut Backend, account: Option<store::Address>, json: bool) -> Result<(), CliError> {
    let aliases = match backend.ask(Ask::Aliases { account })? {
        Listing::Aliases(aliases) => aliases,
        other => return Err(unexpected(&other)),
    };
    let mut table = Table::new(&["alias", "account"], &[]);
    for alias in &aliases {
        let (alias, account) = (alias.alias.to_string(), alias.account.to_string());
        if json {
            say!("{}", serde_json::json!({ "alias": alias, "account": account }));
        } else {
            table.row([alias, account]);
        }
    }
    if json {
        return Ok(());
    }
    if aliases.is_empty() {
        say!("no aliases");
        return Ok(());
    }
    Ok(table.print(&mut io::stdout().lock())?)
}
