//! Where a command reads and writes the record: through the running node, or in the file when none runs.

use store::Admin;

use super::error::CliError;
use crate::clock::Clock;
use crate::config::Config;
use crate::control::{Ask, Change, Client, ClientError, Failure, FailureKind, Listing, Request, Response};
use crate::record;

pub(super) enum Backend {
    Node(Client),
    /// Boxed: the other is a socket.
    Record(Box<Admin>),
}

impl Backend {
    pub(super) fn open(config: &Config) -> Result<Self, CliError> {
        match Client::connect(&config.server.control) {
            Ok(client) => Ok(Backend::Node(client)),
            Err(ClientError::NotRunning { .. }) => {
                Ok(Backend::Record(Box::new(Admin::new(&record::open(&config.server)?)?)))
            }
            Err(error) => Err(error.into()),
        }
    }

    pub(super) fn ask(&mut self, ask: Ask) -> Result<Listing, CliError> {
        match self {
            Backend::Record(admin) => Ok(Listing::try_from(admin.read(&ask.into())?)?),
            Backend::Node(client) => match client.ask(&Request::Ask(ask))? {
                Response::Listing(listing) => Ok(listing),
                other => Err(client.unexpected(&other).into()),
            },
        }
    }

    pub(super) fn change(&mut self, change: Change) -> Result<(), CliError> {
        match self {
            Backend::Record(admin) => {
                admin.write(&change.into_write(Clock::new().now())?)?;
                Ok(())
            }
            Backend::Node(client) => match client.ask(&Request::Change(change))? {
                Response::Done { .. } => Ok(()),
                other => Err(client.unexpected(&other).into()),
            },
        }
    }

    /// A domain of the configuration is served whether or not the record has heard of it.
    pub(super) fn ensure_domain(&mut self, config: &Config, domain: &str) -> Result<(), CliError> {
        if !config.sip.domains.iter().any(|served| **served == *domain) {
            return Ok(());
        }
        match self.change(Change::AddDomain { name: domain.into() }) {
            Err(CliError::Failure(Failure { kind: FailureKind::Exists, .. })) => Ok(()),
            done => done,
        }
    }
}

/// For an answer of another kind than was asked for.
pub(super) fn unexpected(listing: &Listing) -> CliError {
    let text: String = format!("{listing:?}").chars().take(200).collect();
    CliError::Other(format!("defect in belfry: the record answered {text}"))
}
