//! Error messages of commands, and their exit codes.
//!
//! Failures of the node and of the database come with their own text; here they get the next command to give, which only the command line knows.

use std::fmt;
use std::io;

use config::ConfigError;
use control::{ClientError, Failure, FailureKind};
use store::StoreError;

/// The failure of a command. It is shown as one line.
#[derive(Debug)]
pub(super) enum CliError {
    /// The configuration cannot be read or has mistakes.
    Config(ConfigError),
    /// The file that the command itself names cannot be read.
    NamedConfig(ConfigError),
    /// The control socket: no node runs, or it does not answer.
    Client(ClientError),
    /// The database or the node has refused.
    Failure(Failure),
    /// The cause and the remedy.
    Other(String),
    /// Another process of the program has said why it ended with this code.
    // `serve` with several processes: the one that watches them passes a code on.
    Said(u8),
    /// A mistake in the command line that clap cannot see.
    Usage(String),
    /// The reader of standard output is gone, so no message is written.
    Broken,
}

impl CliError {
    /// From `sysexits.h` where one fits.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            // EX_CONFIG.
            CliError::Config(_) | CliError::NamedConfig(_) => 78,
            // EX_UNAVAILABLE.
            CliError::Client(ClientError::NotRunning { .. }) => 69,
            CliError::Usage(_) => 2,
            CliError::Said(code) => *code,
            CliError::Client(_) | CliError::Failure(_) | CliError::Other(_) | CliError::Broken => 1,
        }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CliError::Config(error @ ConfigError::Unreadable { error: cause, .. }) => {
                // The package's file is closed to other users, and found where none is named.
                let advice = match cause.kind() {
                    io::ErrorKind::PermissionDenied => {
                        "give the command as root or as the user of the node, or "
                    }
                    _ => "",
                };
                write!(f, "{error}; {advice}name another file with --config or BELFRY_CONFIG")
            }
            CliError::NamedConfig(error) => {
                write!(f, "{error}; give the path of a configuration, or make one with: belfry init")
            }
            CliError::Config(error) => error.fmt(f),
            CliError::Client(error) => error.fmt(f),
            CliError::Failure(failure) => {
                failure.fmt(f)?;
                next_step(failure).map_or(Ok(()), |step| write!(f, "; {step}"))
            }
            CliError::Other(text) | CliError::Usage(text) => f.write_str(text),
            CliError::Said(code) => write!(f, "a process has ended with code {code}"),
            CliError::Broken => f.write_str("the output was closed"),
        }
    }
}

/// Advice for a failure whose message names an object that is missing or already exists. Messages of other kinds
/// contain their own advice.
fn next_step(failure: &Failure) -> Option<String> {
    const NOUNS: [(&str, &str); 4] = [
        ("account ", "belfry account"),
        ("alias ", "belfry account alias"),
        ("domain ", "belfry domain"),
        ("route ", "belfry route"),
    ];
    let command =
        |text: &str| NOUNS.iter().find(|(noun, _)| text.starts_with(noun)).map(|(_, command)| *command);
    match failure.kind {
        FailureKind::NotFound => {
            let command = command(failure.message.strip_prefix("there is no ")?)?;
            Some(format!("see those there are with: {command} list"))
        }
        FailureKind::Exists => match command(&failure.message)? {
            "belfry account" => {
                Some("change it with: belfry account set, or belfry account passwd".to_owned())
            }
            "belfry route" => Some("replace it with: belfry route add --replace".to_owned()),
            command => Some(format!("see those there are with: {command} list")),
        },
        _ => None,
    }
}

impl From<ConfigError> for CliError {
    fn from(error: ConfigError) -> Self {
        CliError::Config(error)
    }
}

impl From<ClientError> for CliError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Failed(failure) => CliError::Failure(failure),
            error => CliError::Client(error),
        }
    }
}

impl From<Failure> for CliError {
    fn from(failure: Failure) -> Self {
        CliError::Failure(failure)
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        CliError::Failure(error.into())
    }
}

/// Errors of standard output.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::Broken,
            _ => CliError::Other(format!("cannot write the answer: {error}")),
        }
    }
}

impl From<serde_json::Error> for CliError {
    fn from(error: serde_json::Error) -> Self {
        io::Error::from(error).into()
    }
}
