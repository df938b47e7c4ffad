//! `belfry rest`: accounts of the REST interface.
//!
//! Works in the database itself, beside a running node, which is told afterwards so that it reads its accounts again.

use std::io;

use ::voice::numbers;
use admin::first::renew_token;
use clap::{Args, Subcommand};
use config::Config;
use control::{Client, ClientError, Request, Response};
use net::clock::Clock;
use store::Admin;
use store::rest::types::RestAccount;

use super::backend::open_database;
use super::error::CliError;
use super::first_account::{self, Chance};
use super::table::Table;

#[derive(Debug, Subcommand)]
pub(super) enum RestCommand {
    /// Accounts: who may ask, and in whose name applications are asked
    Accounts {
        /// One JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// An account's token. Only a proof of it is kept: a lost token is replaced by a new one
    Token(TokenArgs),
}

#[derive(Debug, Args)]
pub(super) struct TokenArgs {
    /// The account, AC and 32 hexadecimal digits [default: the first one's, as the configuration has it]
    sid: Option<String>,
    /// Make a new token, which the old one gives way to
    #[arg(long, required = true)]
    renew: bool,
}

impl RestCommand {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let repository = admin::Blocking::new(Admin::new(&open_database(config)?)?);
        match self {
            RestCommand::Accounts { json } => accounts(&repository, json),
            RestCommand::Token(TokenArgs { sid, .. }) => {
                let sid = sid.unwrap_or_else(|| config.voice.account.to_string());
                renew(config, &repository, &sid)
            }
        }
    }
}

fn accounts(repository: &admin::Blocking, json: bool) -> Result<(), CliError> {
    let accounts = numbers::all::<RestAccount>(repository)?;
    if json {
        for account in &accounts {
            let line = serde_json::json!({
                "sid": account.common.sid,
                "parent": account.parent,
                "friendly_name": account.friendly_name,
                "status": account.status,
            });
            say!("{line}");
        }
        return Ok(());
    }
    if accounts.is_empty() {
        say!("no accounts; the first one is made when a node with [voice] media or [rest] listen starts");
        return Ok(());
    }
    let mut table = Table::new(&["sid", "status", "name"], &[]);
    for account in accounts {
        table.row([account.common.sid, account.status, account.friendly_name]);
    }
    Ok(table.print(&mut io::stdout().lock())?)
}

/// Makes a token, shows it once, and brings the file of the first account up to date. A token that the configuration gives cannot be changed here.
fn renew(config: &Config, repository: &admin::Blocking, sid: &str) -> Result<(), CliError> {
    // The next start would put the configured token in place again.
    if config.voice.auth_token.is_some() && *config.voice.account == *sid {
        let text = format!("the token of {sid} is [voice] auth_token of the configuration; change it there");
        return Err(CliError::Other(text));
    }
    let made = renew_token(repository, &Chance::new(Clock::new()), sid)?;
    if let Err(error) = first_account::renewed(&config.server.data, &made) {
        eprintln!("belfry: warning: the file with the first account's token is out of date now: {error}");
    }
    // Before the node is told, which may fail: the database has a proof of the token only, so it could not be shown again.
    first_account::show(&made, &mut io::stdout().lock())?;
    // The node keeps accounts and signing keys in memory.
    if let Err(error) = tell_node(config) {
        eprintln!(
            "belfry: warning: the node has not heard of the new token and goes on with the old one: {error}; restart it, or renew the token again"
        );
    }
    Ok(())
}

/// It signs requests by what it has read.
fn tell_node(config: &Config) -> Result<(), CliError> {
    match Client::connect(&config.server.control) {
        Ok(mut client) => match client.ask(&Request::AccountsChanged)? {
            Response::Done { .. } => Ok(()),
            other => Err(client.unexpected(&other).into()),
        },
        Err(ClientError::NotRunning { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
