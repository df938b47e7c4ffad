//! The command line of `belfry`: one file a group of commands. Tables are for people, `--json` for machines.
//!
//! A command speaks to the running node by the control socket (`control`), or to its database when no node runs; only `serve` needs the
//! node, and [`main`] is given it.
//!
//! The way of a command: clap reads the line ([`Cli`]), `run` loads the configuration, and the command's own `run` asks a `Backend` (accounts, domains, routes,
//! records of calls: with or without a node) or a `control::Client` (all that only a running node knows). Each returns a `CliError`, whose exit code and text
//! [`main`] gives. Doc comments of the arguments are the text of `--help` and of the manual pages: notes for readers of the code stand in `//` there.

#![warn(missing_docs)]

/// A line of a command's answer. A standard output that is full or closed is an error like any other, not a panic.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        writeln!(std::io::stdout().lock(), $($text)*)?
    }};
}

mod account;
mod alias;
mod backend;
mod backup;
mod blocks;
mod calls;
mod check;
pub mod database;
mod doctor;
mod domain;
mod error;
mod export;
mod farm;
mod farm_status;
mod farm_sums;
pub mod first_account;
pub mod greeting;
mod import;
mod init;
mod invite;
mod limits;
mod node;
mod nodes;
mod owner;
mod password;
mod registrations;
mod rest;
mod restore;
mod route;
mod serve;
pub mod service_manager;
mod status;
mod stop;
mod store;
mod table;
mod trace;
mod xmpp;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use config::Config;

use error::CliError;

const AFTER: &str = "\
Commands speak to the running node through its control socket, or to its database when no node runs. \
Which node, the configuration says: --config, else BELFRY_CONFIG, else ./belfry.toml, else /etc/belfry/belfry.toml, else the defaults.

Exit codes: 0 done, 1 failed, 2 usage, 69 no node runs, 75 serve: to be started again, 78 mistakes in the configuration.";

/// A communications server: SIP proxy and registrar, applications of calls, and XMPP chat on one set of accounts.
#[derive(Debug, Parser)]
#[command(name = "belfry", version, after_help = AFTER, max_term_width = 110)]
pub struct Cli {
    /// The configuration [default: ./belfry.toml, else /etc/belfry/belfry.toml, where it is there]
    #[arg(long, global = true, value_name = "FILE", env = "BELFRY_CONFIG")]
    config: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a node, or several of one configuration
    Serve(serve::ServeArgs),
    /// Say what is wrong with a configuration; exit 78 when something is
    CheckConfig(check::CheckConfig),
    /// Write a configuration and make the first account, by flags or by questions
    Init(init::InitArgs),
    /// Say what is wrong on this machine for the node, and how to mend it; exit 1 when there is a problem
    Doctor(doctor::DoctorArgs),
    /// State of the node: calls, registrations, rates, memory, drops
    Status(status::StatusArgs),
    /// Accounts and their aliases
    #[command(subcommand)]
    Account(account::AccountCommand),
    /// Domains served
    #[command(subcommand)]
    Domain(domain::DomainCommand),
    /// Routes of numbers, users and foreign domains
    #[command(subcommand)]
    Route(route::RouteCommand),
    /// The REST interface's accounts and tokens
    #[command(subcommand)]
    Rest(rest::RestCommand),
    /// Write the database to one file, while the node runs; or check such a file
    Backup(backup::BackupArgs),
    /// Make the database of a backup, in SQLite or PostgreSQL, while no node runs
    Restore(restore::RestoreArgs),
    /// The database as a whole
    #[command(subcommand)]
    Store(store::StoreCommand),
    /// Chat: sessions, rooms, messages to all users
    #[command(subcommand)]
    Xmpp(xmpp::XmppCommand),
    /// Draw an account's messages as they come, until Ctrl-C
    Trace(trace::TraceArgs),
    /// The farm that the node belongs to
    #[command(subcommand)]
    Farm(farm::FarmCommand),
    /// Addresses that are registered, with their contacts and the time that is left; of all nodes of the farm
    Registrations(registrations::RegistrationsArgs),
    /// Records of calls, newest first
    Calls(calls::CallsArgs),
    /// Addresses and accounts whose sign-ins are slowed down or refused, why and until when
    Blocks(blocks::BlocksArgs),
    /// Read configuration, routes and certificates again
    Reload,
    /// Take nothing new; the node ends when its last transaction has
    Drain(node::DrainArgs),
}

/// The command line, for its manual pages and completions.
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// The whole program: reads its command line and runs the command. `serve` runs a node until it ends.
pub fn main(serve: impl FnOnce(Config) -> anyhow::Result<()>) -> ExitCode {
    match run(Cli::parse(), serve) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has ended, as `head` does: that is no failure of the command.
        Err(CliError::Broken) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("belfry: {error}");
            ExitCode::from(error.exit_code())
        }
    }
}

/// Four commands do without a good configuration: two find out what is wrong with it, one writes it, and one makes a file that it names.
fn run(cli: Cli, serve: impl FnOnce(Config) -> anyhow::Result<()>) -> Result<(), CliError> {
    match &cli.command {
        Command::CheckConfig(check) => return check.run(cli.config.as_deref()),
        Command::Doctor(doctor) => return doctor.run(cli.config.as_deref()),
        Command::Init(init) => return init.run(),
        Command::Farm(farm::FarmCommand::Secret { file }) => return farm::make_secret(file),
        _ => {}
    }
    // Once for all commands: mistakes end each of them in the same way, with the code 78.
    let config = Config::load(cli.config.as_deref())?;
    match cli.command {
        Command::Serve(args) => args.run(config, serve),
        Command::CheckConfig(_) | Command::Doctor(_) | Command::Init(_) => unreachable!("answered above"),
        Command::Status(args) => args.run(&config),
        Command::Account(command) => command.run(&config),
        Command::Domain(command) => command.run(&config),
        Command::Route(command) => command.run(&config),
        Command::Rest(command) => command.run(&config),
        Command::Backup(args) => args.run(&config),
        Command::Restore(args) => args.run(&config),
        Command::Store(command) => command.run(),
        Command::Xmpp(command) => command.run(&config),
        Command::Trace(args) => args.run(&config),
        Command::Farm(command) => command.run(&config),
        Command::Registrations(args) => args.run(&config),
        Command::Calls(args) => args.run(&config),
        Command::Blocks(args) => args.run(&config),
        Command::Reload => node::reload(&config),
        Command::Drain(args) => args.run(&config),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    /// Commands and arguments without help, by their paths.
    fn without_help(command: &clap::Command, path: &str, missing: &mut Vec<String>) {
        let arguments = command.get_arguments().filter(|argument| argument.get_help().is_none());
        missing.extend(arguments.map(|argument| format!("{path} {}", argument.get_id())));
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name());
            if inner.get_about().is_none() {
                missing.push(path.clone());
            }
            without_help(inner, &path, missing);
        }
    }

    #[test]
    fn every_command_and_argument_has_help() {
        let mut missing = Vec::new();
        without_help(&Cli::command(), "belfry", &mut missing);
        assert!(missing.is_empty(), "{missing:#?}");
    }
}
