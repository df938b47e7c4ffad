//! The nodes of a farm that answered a command.

use control::NodesAnswered;

use super::error::CliError;

/// Says at the end of a list or a sum how many nodes of the farm it is of; nothing for a node alone.
pub(super) fn say_nodes(nodes: Option<&NodesAnswered>) -> Result<(), CliError> {
    if let Some(nodes) = nodes {
        say!("{nodes}");
    }
    Ok(())
}

/// Says on standard error that nodes are missing: standard output is for programs.
pub(super) fn warn_of_missing(nodes: Option<&NodesAnswered>) {
    if let Some(nodes) = nodes.filter(|nodes| !nodes.is_complete()) {
        eprintln!("belfry: {nodes}");
    }
}
