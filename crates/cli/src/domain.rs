//! `belfry domain`.
//!
//! Domains of the configuration are added by the node at its start; those added here are served besides.

use std::io;

use clap::Subcommand;
use config::Config;
use control::{Ask, Change, Listing};

use super::backend::{Backend, unexpected};
use super::error::CliError;
use super::table::{Table, grouped};

#[derive(Debug, Subcommand)]
pub(super) enum DomainCommand {
    /// Serve a domain
    Add {
        /// A host name, as example.net
        domain: String,
    },
    /// Domains and how many accounts each has
    List {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Stop serving a domain; refused while it has accounts
    Remove {
        /// As `belfry domain list` has it
        domain: String,
    },
}

impl DomainCommand {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        match self {
            DomainCommand::Add { domain } => {
                Backend::open_or_make(config)?.change(Change::AddDomain { name: domain.into() })
            }
            DomainCommand::Remove { domain } => {
                Backend::open(config)?.change(Change::RemoveDomain { name: domain.to_lowercase().into() })
            }
            DomainCommand::List { json } => list(&mut Backend::open(config)?, json),
        }
    }
}

fn list(backend: &mut Backend, json: bool) -> Result<(), CliError> {
    let domains = match backend.ask(Ask::Domains)? {
        Listing::Domains(domains) => domains,
        other => return Err(unexpected(&other)),
    };
    if json {
        for domain in &domains {
            say!("{}", serde_json::to_string(domain)?);
        }
        return Ok(());
    }
    if domains.is_empty() {
        say!("no domains; those of the configuration are added when the node starts");
        return Ok(());
    }
    let mut table = Table::new(&["domain", "accounts"], &[1]);
    for domain in &domains {
        table.row([domain.name.to_string(), grouped(domain.accounts)]);
    }
    Ok(table.print(&mut io::stdout().lock())?)
}
