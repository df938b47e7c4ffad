//! Access of commands to the database: through the running node, or directly when none runs.
//!
//! [`Backend::open`] tries the control socket first: a running node holds accounts in memory, and a change behind its back would go unseen. Only when nothing
//! listens there is the database opened by the command itself. Both ways take the same [`Ask`] and [`Change`].

use std::path::Path;

use config::Config;
use control::{
    Ask, Change, Client, ClientError, Failure, FailureKind, Listing, NodesAnswered, Request, Response,
};
use net::clock::Clock;
use store::{Admin, Database};

use super::database::place;
use super::error::CliError;

/// The place where a command asks and changes.
pub(super) enum Backend {
    /// A node runs: it answers and writes.
    Node(Client),
    /// No node runs: the command reads and writes the database itself. Boxed, as it is much larger than a socket.
    Record(Box<Admin>),
}

impl Backend {
    /// The running node, or the database of one that does not run.
    ///
    /// # Errors
    /// No node runs and there is no database: a new one would only hide that the command was run in a wrong folder.
    pub(super) fn open(config: &Config) -> Result<Self, CliError> {
        Backend::connect(config, || open_database(config))
    }

    /// As [`open`](Backend::open); a database that is not there is made, which the command says.
    pub(super) fn open_or_make(config: &Config) -> Result<Self, CliError> {
        Backend::connect(config, || make_database(config))
    }

    /// `open` is called only when no node runs.
    fn connect(config: &Config, open: impl FnOnce() -> Result<Database, CliError>) -> Result<Self, CliError> {
        match Client::connect(&config.server.control) {
            Ok(client) => Ok(Backend::Node(client)),
            Err(ClientError::NotRunning { .. }) => Ok(Backend::Record(Box::new(Admin::new(&open()?)?))),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads from the database, one answer to each question; the caller matches the kind of [`Listing`].
    pub(super) fn ask(&mut self, ask: Ask) -> Result<Listing, CliError> {
        match self {
            Backend::Record(admin) => Ok(Listing::try_from(admin.read(&ask.into())?)?),
            Backend::Node(client) => match client.ask(&Request::Ask(ask))? {
                Response::Listing(listing) => Ok(listing),
                other => Err(client.unexpected(&other).into()),
            },
        }
    }

    /// Asks all nodes of the farm, unless `this_node`, and returns the nodes that answered, if the node is in a farm.
    pub(super) fn ask_nodes(
        &mut self,
        ask: Ask,
        this_node: bool,
    ) -> Result<(Listing, Option<NodesAnswered>), CliError> {
        match self {
            Backend::Node(client) if !this_node => match client.ask_all_nodes(&Request::Ask(ask))? {
                (Response::Listing(listing), nodes) => Ok((listing, nodes)),
                (other, _) => Err(client.unexpected(&other).into()),
            },
            backend => backend.ask(ask).map(|listing| (listing, None)),
        }
    }

    /// Makes one change. With a node it takes effect at once.
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

    /// Adds a domain of the configuration to the database, where accounts need it. It is served without that, too.
    pub(super) fn ensure_domain(&mut self, config: &Config, domain: &str) -> Result<(), CliError> {
        if !config.sip.domains.iter().any(|served| **served == *domain) {
            return Ok(());
        }
        // Asked first: a change that is refused has a line in the node's audit log.
        if let Listing::Domains(domains) = self.ask(Ask::Domains)?
            && domains.iter().any(|served| *served.name == *domain)
        {
            return Ok(());
        }
        match self.change(Change::AddDomain { name: domain.into() }) {
            Err(CliError::Failure(Failure { kind: FailureKind::Exists, .. })) => Ok(()),
            done => done,
        }
    }
}

/// The database of the configuration, which must be there.
pub(super) fn open_database(config: &Config) -> Result<Database, CliError> {
    if !place(config).is_there() {
        return Err(CliError::Other(no_database(config, &config.server.database())));
    }
    Ok(place(config).open()?)
}

/// The database of the configuration. A missing database is made, and the command says where.
pub(super) fn make_database(config: &Config) -> Result<Database, CliError> {
    let is_new = !place(config).is_there();
    let database = place(config).open()?;
    if is_new {
        eprintln!("belfry: made a new database, {}", absolute(&config.server.database()));
    }
    Ok(database)
}

/// The message for a missing database: its file, the origin of the file's name, and the remedy.
pub(super) fn no_database(config: &Config, file: &Path) -> String {
    let file = absolute(file);
    let origin = match &config.file {
        Some(config) => format!("`data` of {} leads there", absolute(config)),
        None => "there is no belfry.toml in this folder or in /etc/belfry, so the default `data` was taken"
            .to_owned(),
    };
    format!(
        "there is no database {file} and no node runs: {origin}. Name the configuration with --config FILE, \
         or make the database with: belfry serve, or belfry account add"
    )
}

/// For people: a relative path says nothing about the folder that the command was run in.
fn absolute(file: &Path) -> String {
    std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string()
}

/// For an answer of another kind than was asked for.
pub(super) fn unexpected(listing: &Listing) -> CliError {
    let text: String = format!("{listing:?}").chars().take(200).collect();
    CliError::Other(format!("defect in belfry: the database answered {text}"))
}
