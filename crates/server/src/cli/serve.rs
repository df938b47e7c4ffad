//! `belfry serve`.

use super::error::CliError;
use crate::config::Config;
use crate::node;

pub(super) fn run(config: Config) -> Result<(), CliError> {
    node::run(config).map_err(|error| CliError::Other(format!("{error:#}")))
}
