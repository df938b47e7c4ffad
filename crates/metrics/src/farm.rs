//! The metrics of a node of a farm; a node alone has none of them. Labels are bounded: a farm has at most 256 nodes.

use std::fmt::Write as _;

use control::{FarmLinkClass, FarmNodeRow, FarmStatus};

use super::{Kind, escaped, head, row};

const INFO: (&str, &str) = (
    "belfry_farm_info",
    "Always 1; the farm, the node's name and this start of it (`life`) are in the labels",
);
const MEMBERS: (&str, &str) = ("belfry_farm_members", "Live nodes by state, as this node sees them");
const LEASE_AGE: (&str, &str) =
    ("belfry_farm_lease_age_seconds", "Since the council's last answer to a renewal of this node's lease");
const DELAY: (&str, &str) =
    ("belfry_farm_link_delay_seconds", "From the last probe of the link to its answer");

/// All states, so that a state without nodes is shown as 0.
const STATES: [&str; 4] = ["joining", "serving", "draining", "left"];

/// One number of the farm or of this node's part in it.
struct FarmMetric {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    read: fn(&FarmStatus) -> u64,
}

const FARM: &[FarmMetric] = &[
    FarmMetric {
        name: "belfry_farm_map_version",
        kind: Kind::Gauge,
        help: "The number of the map, which each change counts up; the same at all nodes",
        read: |farm| farm.map_version,
    },
    FarmMetric {
        name: "belfry_farm_call_slots",
        kind: Kind::Gauge,
        help: "Call slots that this node works on, of 4,096",
        read: |farm| own(farm).map_or(0, |node| u64::from(node.call_slots)),
    },
    FarmMetric {
        name: "belfry_farm_buckets",
        kind: Kind::Gauge,
        help: "Buckets of accounts that this node owns, of 4,096",
        read: |farm| own(farm).map_or(0, |node| u64::from(node.buckets)),
    },
    FarmMetric {
        name: "belfry_farm_council_up",
        kind: Kind::Gauge,
        help: "1 while the council answers",
        read: |farm| u64::from(farm.council_away.is_none()),
    },
    FarmMetric {
        name: "belfry_farm_dead_lives",
        kind: Kind::Gauge,
        help: "Starts of nodes that the map lists as dead",
        read: |farm| farm.dead.len() as u64,
    },
    FarmMetric {
        name: "belfry_farm_link_sent_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of messages to other nodes, with their heads",
        read: |farm| farm.links.bytes_sent,
    },
    FarmMetric {
        name: "belfry_farm_link_received_bytes_total",
        kind: Kind::Counter,
        help: "Bytes of messages of other nodes, with their heads",
        read: |farm| farm.links.bytes_received,
    },
    FarmMetric {
        name: "belfry_farm_link_batches_total",
        kind: Kind::Counter,
        help: "Writes to links, each with all messages that waited",
        read: |farm| farm.links.batches,
    },
];

/// One number of each class of messages, with the label `class`.
struct ClassMetric {
    name: &'static str,
    help: &'static str,
    read: fn(&FarmLinkClass) -> u64,
}

const CLASSES: &[ClassMetric] = &[
    ClassMetric {
        name: "belfry_farm_link_sent_messages_total",
        help: "Messages that links took",
        read: |class| class.sent,
    },
    ClassMetric {
        name: "belfry_farm_link_received_messages_total",
        help: "Messages that came by links",
        read: |class| class.received,
    },
    ClassMetric {
        name: "belfry_farm_link_refused_messages_total",
        help: "Messages that a link did not take or gave back: it was full, or not connected",
        read: |class| class.refused,
    },
];

const RELAYED: (&str, &str) = (
    "belfry_farm_relayed_packets_total",
    "SIP packets passed to the worker of their call at another node (`direction=\"to\"`), or received so (`from`)",
);

/// Appends the metrics of the farm.
/// Nothing for a node alone: an absent metric says more than zeros. The own node is found by its life, as a
/// restarted node has the name of its earlier lives.
pub(super) fn write(out: &mut String, farm: Option<&FarmStatus>) {
    let Some(farm) = farm else { return };
    head(out, INFO.0, Kind::Gauge, INFO.1);
    let name = own(farm).map_or("", |node| &node.name);
    let (farm_name, name, life) = (escaped(&farm.farm), escaped(name), farm.life);
    let _ = writeln!(out, "{}{{farm=\"{farm_name}\",node=\"{name}\",life=\"{life}\"}} 1", INFO.0);
    for metric in FARM {
        head(out, metric.name, metric.kind, metric.help);
        let _ = writeln!(out, "{} {}", metric.name, (metric.read)(farm));
    }
    head(out, MEMBERS.0, Kind::Gauge, MEMBERS.1);
    for state in STATES {
        let count = farm.nodes.iter().filter(|node| &*node.state == state).count();
        let _ = writeln!(out, "{}{{state=\"{state}\"}} {count}", MEMBERS.0);
    }
    head(out, LEASE_AGE.0, Kind::Gauge, LEASE_AGE.1);
    if let Some(age) = own(farm).and_then(|node| node.figures.lease_age_millis) {
        let _ = writeln!(out, "{} {}.{:03}", LEASE_AGE.0, age / 1_000, age % 1_000);
    }
    for metric in CLASSES {
        head(out, metric.name, Kind::Counter, metric.help);
        for class in &farm.links.classes {
            let _ = writeln!(out, "{}{{class=\"{}\"}} {}", metric.name, class.class, (metric.read)(class));
        }
    }
    // Links are between this node and each other one; the row of the own node has no such figures.
    let others = || farm.nodes.iter().filter(|node| node.life != farm.life);
    head(out, RELAYED.0, Kind::Counter, RELAYED.1);
    for node in others() {
        let (name, node_name, figures) = (RELAYED.0, escaped(&node.name), &node.figures);
        for (direction, count) in [("to", figures.relayed_to), ("from", figures.relayed_from)] {
            let _ = writeln!(out, "{name}{{node=\"{node_name}\",direction=\"{direction}\"}} {count}");
        }
    }
    head(out, DELAY.0, Kind::Gauge, DELAY.1);
    for node in others() {
        // No sample instead of a zero before the first answer to a probe.
        if let Some(delay) = node.figures.link_delay_micros {
            let (name, node) = (DELAY.0, escaped(&node.name));
            let _ = writeln!(out, "{name}{{node=\"{node}\"}} {}.{:06}", delay / 1_000_000, delay % 1_000_000);
        }
    }
}

/// The part of `docs/metrics.md` about a farm.
pub(super) fn reference(page: &mut String) {
    page.push_str("\n## Of a node of a farm\n\n| name | kind | meaning |\n|---|---|---|\n");
    row(page, INFO.0, Kind::Gauge, INFO.1);
    FARM.iter().for_each(|metric| row(page, metric.name, metric.kind, metric.help));
    row(page, LEASE_AGE.0, Kind::Gauge, LEASE_AGE.1);
    page.push_str("\nAnd by label:\n\n| name | kind | label | meaning |\n|---|---|---|---|\n");
    let mut labelled = |(name, help): (&str, &str), kind: Kind, label: &str| {
        let _ = writeln!(page, "| `{name}` | {} | {label} | {help} |", kind.name());
    };
    labelled(MEMBERS, Kind::Gauge, "`state`");
    CLASSES.iter().for_each(|metric| labelled((metric.name, metric.help), Kind::Counter, "`class`"));
    labelled(RELAYED, Kind::Counter, "`node`, `direction`");
    labelled(DELAY, Kind::Gauge, "`node`");
}

fn own(farm: &FarmStatus) -> Option<&FarmNodeRow> {
    farm.nodes.iter().find(|node| node.life == farm.life)
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::{FarmLinkFigures, FarmNodeFigures};

    #[test]
    fn a_node_tells_of_its_farm_and_of_the_links_to_each_other_node() {
        let node = |name: &str, life, figures| FarmNodeRow {
            name: name.into(),
            life,
            role: "both".into(),
            state: "serving".into(),
            address: "192.0.2.1:5280".into(),
            version: "0.1.0".into(),
            call_slots: 2_048,
            buckets: 1,
            weight: 100,
            shards: 2,
            suspected: false,
            figures,
        };
        let own = FarmNodeFigures { lease_age_millis: Some(1_050), ..FarmNodeFigures::default() };
        let other =
            FarmNodeFigures { link_delay_micros: Some(420), relayed_to: 9, ..FarmNodeFigures::default() };
        let class = FarmLinkClass { class: "call".into(), sent: 9, ..FarmLinkClass::default() };
        let farm = FarmStatus {
            farm: "office".into(),
            life: 5,
            nodes: vec![node("n1", 5, own), node("n2", 6, other)],
            links: FarmLinkFigures { classes: vec![class], ..FarmLinkFigures::default() },
            ..FarmStatus::default()
        };
        let mut text = String::new();
        write(&mut text, Some(&farm));
        for line in [
            "belfry_farm_info{farm=\"office\",node=\"n1\",life=\"5\"} 1",
            "belfry_farm_members{state=\"serving\"} 2",
            "belfry_farm_call_slots 2048",
            "belfry_farm_council_up 1",
            "belfry_farm_lease_age_seconds 1.050",
            "belfry_farm_link_sent_messages_total{class=\"call\"} 9",
            "belfry_farm_relayed_packets_total{node=\"n2\",direction=\"to\"} 9",
            "belfry_farm_link_delay_seconds{node=\"n2\"} 0.000420",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
