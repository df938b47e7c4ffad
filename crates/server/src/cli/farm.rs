//! `belfry farm`.

use std::io;
use std::path::PathBuf;

use clap::Subcommand;

use super::error::CliError;
use super::farm_status::table;
use crate::config::Config;
use crate::control::{Client, Request, Response};

#[derive(Debug, Subcommand)]
pub(super) enum FarmCommand {
    /// The nodes of the farm as this node sees them: tasks, states, shares of calls and accounts, load
    Status {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make a secret for a farm: a file for [farm] secret, the same for all nodes
    Secret {
        /// The new file, readable by its owner alone
        file: PathBuf,
    },
}

impl FarmCommand {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        match self {
            FarmCommand::Status { json } => status(config, json),
            FarmCommand::Secret { file } => {
                crate::farm::make_secret(&file).map_err(|error| CliError::Other(format!("{error:#}")))?;
                say!("made {}: copy it to every node, and name it in [farm] secret", file.display());
                Ok(())
            }
        }
    }
}

fn status(config: &Config, json: bool) -> Result<(), CliError> {
    let mut client = Client::connect(&config.server.control)?;
    let status = match client.ask(&Request::Farm)? {
        Response::Farm(status) => status,
        other => return Err(client.unexpected(&other).into()),
    };
    if json {
        say!("{}", serde_json::to_string(&status)?);
        return Ok(());
    }
    let Some(status) = status else {
        say!("this node is in no farm: [farm] name is not set");
        return Ok(());
    };
    let nodes = if status.nodes.len() == 1 { "node" } else { "nodes" };
    say!("farm {}: {} {nodes}, map {}", status.farm, status.nodes.len(), status.map_version);
    match &status.council_away {
        Some(reason) => {
            say!("the council is away ({reason}): calls go on, no node takes over from another");
        }
        None => say!("the council answers"),
    }
    table(&status).print(&mut io::stdout().lock())?;
    Ok(())
}
