//! `belfry status --farm`: sums of all nodes, and a line for each.
//!
//! Each node answers with its whole status, and the sums are made here. Nodes that did not answer are named, as the sums lack them.

use std::io::{self, Write};

use control::{Client, NodeState, NodeStatus, NodesAnswered, Request, Response, ShardCounters};

use super::error::CliError;
use super::nodes::warn_of_missing;
use super::table::{Table, elapsed, grouped};

/// Asks all nodes for their state and shows it. A screen is cleared first.
pub(super) fn show(client: &mut Client, json: bool, clears: bool) -> Result<(), CliError> {
    let (response, nodes) = client.ask_all_nodes(&Request::Status)?;
    let statuses = match response {
        Response::Statuses(statuses) => statuses,
        // A node alone answers a request to all nodes as one to itself.
        Response::Status(_) => {
            return Err(CliError::Other(
                "this node is in no farm: belfry status without --farm shows it".into(),
            ));
        }
        other => return Err(client.unexpected(&other).into()),
    };
    let mut out = io::stdout().lock();
    // Lines of objects alone: the note about missing nodes goes to standard error.
    if json {
        for status in &statuses {
            writeln!(out, "{}", serde_json::to_string(status)?)?;
        }
        warn_of_missing(nodes.as_ref());
    } else {
        if clears {
            console::Term::stdout().clear_screen()?;
        }
        print(&statuses, nodes.as_ref(), &mut out)?;
    }
    Ok(out.flush()?)
}

/// The sums of the nodes that have answered, as lines of `belfry status` have them, and the table.
fn print(statuses: &[NodeStatus], nodes: Option<&NodesAnswered>, out: &mut impl Write) -> io::Result<()> {
    let sum =
        |read: fn(&ShardCounters) -> u64| grouped(statuses.iter().map(|node| node.status.sum(read)).sum());
    if let Some(nodes) = nodes {
        writeln!(out, "{nodes}")?;
    }
    writeln!(
        out,
        "calls          {} up, {} being set up",
        sum(|s| s.calls_up),
        sum(|s| s.calls - s.calls_up.min(s.calls))
    )?;
    let (calls, members) = (sum(|s| s.voice_calls), sum(|s| s.voice_members));
    writeln!(out, "voice          {calls} calls, {members} members of conferences and queues")?;
    let (sessions, connections) = (sum(|s| s.xmpp_sessions), sum(|s| s.xmpp_connections));
    writeln!(out, "chat           {sessions} sessions, {connections} connections")?;
    let (rooms, occupants) = (sum(|s| s.xmpp_rooms), sum(|s| s.xmpp_occupants));
    writeln!(out, "chat rooms     {rooms} with {occupants} occupants")?;
    writeln!(out, "registrations  {} contacts of {} addresses", sum(|s| s.bindings), sum(|s| s.addresses))?;
    writeln!(out, "transactions   {}", sum(|s| s.transactions))?;
    writeln!(out, "connections    {}", sum(|s| s.connections))?;
    let failures = statuses.iter().flat_map(|node| &node.status.node.sign_in_failures);
    writeln!(out, "sign-ins       {} failed", grouped(failures.map(|failures| failures.count).sum()))?;
    writeln!(out)?;
    table(statuses).print(out)
}

/// One line for each node that has answered.
fn table(statuses: &[NodeStatus]) -> Table {
    let headings =
        ["node", "state", "up", "calls", "contacts", "sessions", "connections", "memory", "version"];
    let mut table = Table::new(&headings, &[2, 3, 4, 5, 6, 7]);
    for NodeStatus { node, status } in statuses {
        let state = match status.node.state {
            NodeState::Running if status.node.store.unwritable.is_some() => "cannot write",
            NodeState::Running => "running",
            NodeState::Draining => "draining",
        };
        let sum = |read: fn(&ShardCounters) -> u64| grouped(status.sum(read));
        table.row([
            node.to_string(),
            state.to_owned(),
            elapsed(status.uptime_seconds),
            sum(|s| s.calls),
            sum(|s| s.bindings),
            sum(|s| s.xmpp_sessions),
            sum(|s| s.connections + s.xmpp_connections),
            format!("{} MiB", grouped(status.resident_bytes >> 20)),
            status.version.to_string(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_of_the_nodes_that_answered_each_of_which_has_a_line() {
        let status = |node: &str, calls_up, bindings| {
            let mut status = NodeStatus { node: node.into(), ..NodeStatus::default() };
            let shard = ShardCounters { calls_up, calls: calls_up + 1, bindings, ..ShardCounters::new(0) };
            status.status.node.shards = vec![shard];
            status
        };
        let nodes = NodesAnswered {
            answered: vec!["n1".into(), "n3".into()],
            missing: vec![control::MissingNode { name: "n2".into(), reason: None }],
        };
        let mut out = Vec::new();
        print(&[status("n1", 3, 5), status("n3", 4, 6)], Some(&nodes), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("2 of 3 nodes answered (n2 did not)\n"), "{text}");
        assert!(text.contains("calls          7 up, 2 being set up\n"), "{text}");
        assert!(text.contains("registrations  11 contacts of"), "{text}");
        assert!(text.lines().any(|line| line.starts_with("n3") && line.contains("running")), "{text}");
    }
}
