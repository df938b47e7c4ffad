//! The table of `belfry farm status`: a row for each live node.
//!
//! Figures come with the announcements of the nodes; one that has not announced any shows a dash.

use control::{FarmNodeRow, FarmStatus};

use super::table::{Table, grouped};

/// Shown for a number that is not known.
const UNKNOWN: &str = "-";

/// One row for each node.
pub(super) fn table(status: &FarmStatus) -> Table {
    let headings = [
        "node",
        "life",
        "role",
        "state",
        "call slots",
        "buckets",
        "calls",
        "bindings",
        "sessions",
        "cpu",
        "lease",
        "delay",
        "links",
        "version",
    ];
    let mut table = Table::new(&headings, &[1, 4, 5, 6, 7, 8, 9, 10, 11]);
    status.nodes.iter().for_each(|node| table.row(row(node, node.life == status.life)));
    table
}

/// Each cell has its unit, as columns are read by people; programs take `--json`.
fn row(node: &FarmNodeRow, is_own: bool) -> [String; 14] {
    let figures = &node.figures;
    let count = |number: Option<u32>| number.map_or(UNKNOWN.to_owned(), |number| grouped(u64::from(number)));
    // One decimal, cut off.
    let seconds = |millis: u64| format!("{}.{} s", millis / 1_000, millis / 100 % 10);
    let millis = |micros: u64| format!("{}.{} ms", micros / 1_000, micros / 100 % 10);
    [
        format!("{}{}", node.name, if is_own { " (this)" } else { "" }),
        node.life.to_string(),
        node.role.to_string(),
        node.state.to_string(),
        grouped(u64::from(node.call_slots)),
        grouped(u64::from(node.buckets)),
        count(figures.calls),
        count(figures.bindings),
        count(figures.sessions),
        // Of one processor: a node with several may have more than 100 %.
        figures.cpu_permille.map_or(UNKNOWN.to_owned(), |cpu| format!("{}.{} %", cpu / 10, cpu % 10)),
        figures.lease_age_millis.map_or(UNKNOWN.to_owned(), seconds),
        figures.link_delay_micros.map_or(UNKNOWN.to_owned(), millis),
        node.address.to_string(),
        node.version.to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use control::FarmNodeFigures;

    #[test]
    fn each_node_has_a_row_and_unknown_numbers_a_dash() {
        let row = |name: &str, life| FarmNodeRow {
            name: name.into(),
            life,
            role: "both".into(),
            state: "serving".into(),
            address: "192.0.2.1:5280".into(),
            version: "0.1.0".into(),
            call_slots: 2_048,
            buckets: 2_048,
            weight: 100,
            shards: 2,
            suspected: false,
            figures: FarmNodeFigures::default(),
        };
        let figures = FarmNodeFigures {
            calls: Some(1_200),
            bindings: Some(7),
            sessions: Some(0),
            cpu_permille: Some(1_234),
            lease_age_millis: Some(950),
            link_delay_micros: Some(640),
            ..FarmNodeFigures::default()
        };
        let nodes = vec![row("n1", 5), FarmNodeRow { figures, ..row("n2", 6) }];
        let status = FarmStatus { life: 5, nodes, ..FarmStatus::default() };
        let mut out = Vec::new();
        table(&status).print(&mut out).unwrap();
        let expected = "\
NODE       LIFE  ROLE  STATE    CALL SLOTS  BUCKETS  CALLS  BINDINGS  SESSIONS      CPU  LEASE   DELAY  LINKS           VERSION
n1 (this)     5  both  serving       2 048    2 048      -         -         -        -      -       -  192.0.2.1:5280  0.1.0
n2            6  both  serving       2 048    2 048  1 200         7         0  123.4 %  0.9 s  0.6 ms  192.0.2.1:5280  0.1.0
";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
