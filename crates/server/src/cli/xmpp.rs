//! `belfry xmpp`: chat.

use clap::Subcommand;

use super::error::CliError;
use super::invite::InviteArgs;
use crate::config::Config;

#[derive(Debug, Subcommand)]
pub(super) enum XmppCommand {
    /// Make a link by which somebody makes an account
    Invite(InviteArgs),
}

impl XmppCommand {
    pub(super) fn run(self, config: &Config) -> Result<(), CliError> {
        match self {
            XmppCommand::Invite(args) => args.run(config),
        }
    }
}
