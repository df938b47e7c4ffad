//! `belfry reload` and `belfry drain`: what only a running node can do.
//!
//! Both need no record, so they go to the control socket directly; without a node they end with exit code 69.

use std::time::Duration;

use clap::Args;
use config::Config;
use control::{Client, ClientError, Request, Response};

use super::error::CliError;

/// The node reads its files again and answers with the settings that a restart only can change.
pub(super) fn reload(config: &Config) -> Result<(), CliError> {
    let mut client = Client::connect(&config.server.control)?;
    match client.ask(&Request::Reload)? {
        Response::Reloaded(reloaded) => {
            say!("reloaded");
            if !reloaded.needs_restart.is_empty() {
                say!("after a restart only: {}", reloaded.needs_restart.join(", "));
            }
            Ok(())
        }
        other => Err(client.unexpected(&other).into()),
    }
}

#[derive(Debug, Args)]
pub(super) struct DrainArgs {
    /// Return when the node has ended
    #[arg(long)]
    wait: bool,
}

impl DrainArgs {
    pub(super) fn run(&self, config: &Config) -> Result<(), CliError> {
        let mut client = Client::connect(&config.server.control)?;
        match client.ask(&Request::Drain)? {
            Response::Draining => say!("draining"),
            other => return Err(client.unexpected(&other).into()),
        }
        if !self.wait {
            return Ok(());
        }
        // The node says nothing unasked; its end closes the connection. Asking now and then keeps the
        // connection from being closed for silence.
        client.set_patience(Some(Duration::from_secs(60)))?;
        loop {
            match client.next_line() {
                Ok(Some(other)) => return Err(client.unexpected(&other).into()),
                Ok(None) => {}
                Err(error) => return Err(error.into()),
            }
            match client.ask(&Request::Status) {
                Ok(_) => {}
                // The node has ended, and its socket with it.
                Err(ClientError::Io { .. }) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
