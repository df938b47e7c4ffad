//! `belfry farm`.
//!
//! All of it asks the local node, which knows the farm by the council. Call slots and buckets are the two ways in which work is divided: calls by
//! slot, accounts by bucket; each is held by one life of a node.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Subcommand;
use config::Config;
use control::{Client, FarmMapStatus, FarmStatus, HolderRange, Request, Response};

use super::error::CliError;
use super::farm_status::table;
use super::table::{Table, grouped};

const ALONE: &str = "this node is in no farm: [farm] name is not set in its configuration; belfry status shows the node, and docs/farm.md \
                     says how one node becomes several";

/// Questions, and the pause between them, whether a node has begun to drain: it takes a second or two, unless the node is stopped
/// or cut off.
const DRAIN_LOOKS: u32 = 50;
const DRAIN_LOOK: Duration = Duration::from_millis(200);

/// Characters of a row of ranges.
const RANGES_WIDTH: usize = 72;

#[derive(Debug, Subcommand)]
pub(super) enum FarmCommand {
    /// The nodes of the farm as this node sees them: tasks, states, shares of calls and accounts, load
    Status {
        /// One JSON object
        #[arg(long)]
        json: bool,
    },
    /// The nodes of the farm with their addresses, weights and shards, and lives that count as dead
    Nodes {
        /// One JSON object a line, a node each
        #[arg(long)]
        json: bool,
    },
    /// The call slots and buckets of each node
    Map {
        /// One JSON object, by shard
        #[arg(long)]
        json: bool,
    },
    /// Drain a node of the farm, this one or another; returns when it has begun
    Drain {
        /// The node's name
        node: String,
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
            FarmCommand::Nodes { json } => nodes(config, json),
            FarmCommand::Map { json } => map(config, json),
            FarmCommand::Drain { node } => drain(config, &node),
            FarmCommand::Secret { file } => make_secret(&file),
        }
    }
}

/// Makes a secret without a configuration: one that names the file is good only when the file is there.
pub(super) fn make_secret(file: &Path) -> Result<(), CliError> {
    ::farm::secret::make(file).map_err(|error| CliError::Other(format!("{error:#}")))?;
    say!("made {}: copy it to every node, and name it in [farm] secret", file.display());
    Ok(())
}

/// The farm as the node sees it.
///
/// # Errors
/// The node is alone, or does not answer.
fn ask_status(client: &mut Client) -> Result<FarmStatus, CliError> {
    match client.ask(&Request::Farm)? {
        Response::Farm(status) => status.ok_or_else(alone),
        other => Err(client.unexpected(&other).into()),
    }
}

fn status(config: &Config, json: bool) -> Result<(), CliError> {
    let status = ask_status(&mut Client::connect(&config.server.control)?)?;
    if json {
        say!("{}", serde_json::to_string(&status)?);
        return Ok(());
    }
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

fn nodes(config: &Config, json: bool) -> Result<(), CliError> {
    let status = ask_status(&mut Client::connect(&config.server.control)?)?;
    if json {
        for node in &status.nodes {
            say!("{}", serde_json::to_string(node)?);
        }
        return Ok(());
    }
    let headings = ["node", "life", "role", "state", "weight", "shards", "links", "version"];
    let mut table = Table::new(&headings, &[1, 4, 5]);
    for node in &status.nodes {
        let own = if node.life == status.life { " (this)" } else { "" };
        let late = if node.suspected { ", renews late" } else { "" };
        table.row([
            format!("{}{own}", node.name),
            node.life.to_string(),
            node.role.to_string(),
            format!("{}{late}", node.state),
            grouped(u64::from(node.weight)),
            node.shards.to_string(),
            node.address.to_string(),
            node.version.to_string(),
        ]);
    }
    table.print(&mut io::stdout().lock())?;
    if !status.dead.is_empty() {
        let lives: Vec<String> = status.dead.iter().map(u32::to_string).collect();
        say!("dead lives: {}", lives.join(" "));
    }
    Ok(())
}

fn alone() -> CliError {
    CliError::Other(ALONE.into())
}

fn map(config: &Config, json: bool) -> Result<(), CliError> {
    let mut client = Client::connect(&config.server.control)?;
    let map = match client.ask(&Request::FarmMap)? {
        Response::FarmMap(map) => map.ok_or_else(alone)?,
        other => return Err(client.unexpected(&other).into()),
    };
    if json {
        say!("{}", serde_json::to_string(&map)?);
        return Ok(());
    }
    say!("farm {}: map {}", map.farm, map.map_version);
    map_table(&map).print(&mut io::stdout().lock())?;
    Ok(())
}

/// Two rows for each life that holds anything, and `none` for numbers that no node holds.
fn map_table(map: &FarmMapStatus) -> Table {
    let mut table = Table::new(&["node", "what", "count", "numbers"], &[2]);
    // In the order of lives, those without a holder first.
    let mut holders: Vec<_> = map.call_slots.iter().chain(&map.buckets).map(|range| range.life).collect();
    holders.sort_unstable();
    holders.dedup();
    for life in holders {
        for (what, ranges) in [("call slots", &map.call_slots), ("buckets", &map.buckets)] {
            let ranges: Vec<&HolderRange> = ranges.iter().filter(|range| range.life == life).collect();
            let Some(first) = ranges.first() else { continue };
            let name = match (life, &first.node) {
                (None, _) => "none".to_owned(),
                (Some(life), None) => format!("life {life}, gone"),
                (Some(life), Some(node)) if life == map.life => format!("{node} (this)"),
                (Some(_), Some(node)) => node.to_string(),
            };
            // Both ends belong to a range.
            let count: u64 = ranges.iter().map(|range| u64::from(range.last - range.first) + 1).sum();
            let mut rows = rows(&ranges).into_iter();
            table.row([name, what.to_owned(), grouped(count), rows.next().unwrap_or_default()]);
            rows.for_each(|row| table.row(["", "", "", &*row]));
        }
    }
    table
}

/// The numbers of ranges in rows of [`RANGES_WIDTH`]; ranges of several shards of one node that adjoin are one.
fn rows(ranges: &[&HolderRange]) -> Vec<String> {
    let mut joined: Vec<(u16, u16)> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            // By node, not by shard: shards of one node are one line of work for an operator.
            Some((_, last)) if *last + 1 == range.first => *last = range.last,
            _ => joined.push((range.first, range.last)),
        }
    }
    let mut rows = vec![String::new()];
    for (first, last) in joined {
        let text = if first == last { first.to_string() } else { format!("{first}-{last}") };
        match rows.last_mut() {
            Some(row) if row.is_empty() => *row = text,
            Some(row) if row.len() + 1 + text.len() <= RANGES_WIDTH => {
                row.push(' ');
                row.push_str(&text);
            }
            _ => rows.push(text),
        }
    }
    rows
}

/// The node that is to drain hears of it by the council; its announcement says when it has begun.
fn drain(config: &Config, name: &str) -> Result<(), CliError> {
    let mut client = Client::connect(&config.server.control)?;
    match client.ask(&Request::DrainFarmNode { name: name.into() })? {
        Response::Draining => {}
        other => return Err(client.unexpected(&other).into()),
    }
    for _ in 0..DRAIN_LOOKS {
        let nodes = ask_status(&mut client)?.nodes;
        if !nodes.iter().any(|node| *node.name == *name && matches!(&*node.state, "serving" | "joining")) {
            say!("{name} is draining");
            return Ok(());
        }
        // Nothing comes unasked: this is the pause.
        client.set_patience(Some(DRAIN_LOOK))?;
        client.next_line()?;
        client.set_patience(Some(control::limits::CONTROL_PATIENCE))?;
    }
    Err(CliError::Other(format!(
        "the node {name} was asked to drain and has not begun: see its log, and belfry farm nodes"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u16, last: u16, shard: u16) -> HolderRange {
        HolderRange { first, last, life: Some(7), node: Some("n1".into()), shard: Some(shard) }
    }

    #[test]
    fn shards_of_one_node_that_adjoin_are_one_range() {
        let ranges = [range(0, 9, 0), range(10, 19, 1), range(21, 21, 0)];
        assert_eq!(rows(&ranges.iter().collect::<Vec<_>>()), ["0-19 21"]);
    }

    #[test]
    fn many_ranges_stand_in_several_rows() {
        let ranges: Vec<HolderRange> = (0..40).map(|n| range(n * 2, n * 2, 0)).collect();
        let rows = rows(&ranges.iter().collect::<Vec<_>>());
        assert_eq!(rows.len(), 2);
        assert!(rows.iter().all(|row| row.len() <= RANGES_WIDTH), "{rows:?}");
    }
}
