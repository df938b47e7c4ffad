//! `belfry blocks`.
//!
//! Blocks are in the memory of each node, so only running nodes are asked; `lift` goes to all nodes of the farm.

use std::io;
use std::time::Duration;

use clap::{Args, Subcommand};
use config::Config;
use control::{BlockRow, Client, Failure, FailureKind, Request, Response};
use net::clock::Clock;
use stdx::Instant;

use super::error::CliError;
use super::nodes::{say_nodes, warn_of_missing};
use super::table::{Table, date, printable};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(super) struct BlocksArgs {
    #[command(subcommand)]
    command: Option<BlocksCommand>,
    /// One JSON object a line; times are microseconds since 1970
    #[arg(long)]
    json: bool,
    /// Only those of this node of a farm
    #[arg(long, alias = "node")]
    this_node: bool,
}

#[derive(Debug, Subcommand)]
enum BlocksCommand {
    /// Forget the failed sign-ins of an address, or for an account
    Lift {
        /// An address, a network as it is listed, `alice`, `alice@example.net`, or a sid of the REST interface
        #[arg(value_name = "ADDRESS|ACCOUNT")]
        subject: Box<str>,
    },
}

impl BlocksArgs {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        let mut client = Client::connect(&config.server.control)?;
        if let Some(BlocksCommand::Lift { subject }) = self.command {
            return lift(&mut client, subject);
        }
        let (response, nodes) = if self.this_node {
            (client.ask(&Request::Blocks)?, None)
        } else {
            client.ask_all_nodes(&Request::Blocks)?
        };
        let Response::Blocks(list) = response else { return Err(client.unexpected(&response).into()) };
        if self.json {
            for block in &list.blocks {
                say!("{}", serde_json::to_string(block)?);
            }
            warn_of_missing(nodes.as_ref());
            return Ok(());
        }
        if list.blocks.is_empty() {
            say!("nothing is blocked");
            return say_nodes(nodes.as_ref());
        }
        // The clock of this machine: the times left are of the node's, which for a command over the control
        // socket is the same one.
        table(&list.blocks, Clock::new().now()).print(&mut io::stdout().lock())?;
        let shown = list.blocks.len() as u64;
        // A node sends the most recent ones only.
        if list.total > shown {
            say!("the last {shown} of {}", list.total);
        }
        say_nodes(nodes.as_ref())
    }
}

/// Lifts blocks at all nodes: each node and service counts failures for itself.
fn lift(client: &mut Client, subject: Box<str>) -> Result<(), CliError> {
    let name = printable(&subject);
    let (response, nodes) = client.ask_all_nodes(&Request::LiftBlock { subject })?;
    match response {
        // An error, so that a script notices a subject that was misspelt.
        Response::Done { rows: 0 } => {
            let message = format!("nothing of {name} is blocked; `belfry blocks` lists what is");
            Err(Failure::new(FailureKind::NotFound, message).into())
        }
        Response::Done { rows } => {
            say!("lifted {rows}");
            say_nodes(nodes.as_ref())
        }
        other => Err(client.unexpected(&other).into()),
    }
}

/// `all` stands for a block that names no address or no account.
fn table(blocks: &[BlockRow], now: Instant) -> Table {
    let headings = ["service", "address", "account", "why", "last (UTC)", "refused for", "forgiven (UTC)"];
    let mut table = Table::new(&headings, &[5]);
    for block in blocks {
        table.row([
            block.service.to_string(),
            block.source.as_deref().unwrap_or("all").to_owned(),
            block.account.as_deref().unwrap_or("all").to_owned(),
            format!("{} failed sign-ins", block.failures),
            date(Instant::from_micros(block.failed_at).unix_seconds()),
            left(Instant::from_micros(block.refused_until).since(now)),
            date(Instant::from_micros(block.forgiven_at).unix_seconds()),
        ]);
    }
    table
}

/// Between two refusals the next attempt is looked at.
fn left(wait: Duration) -> String {
    if wait.is_zero() { "-".to_owned() } else { format!("{:.1} s", wait.as_secs_f64()) }
}
