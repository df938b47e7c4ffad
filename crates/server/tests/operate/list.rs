//! `belfry account list` of many accounts: in pages, in memory that does not grow with them.

use std::io::{BufRead as _, BufReader};

use super::place::Place;

const ACCOUNTS: usize = 200_000;
/// Lines after which the command has all that it ever needs, and before which it is looked at again.
const EARLY: usize = 20_000;
const LATE: usize = 190_000;
/// KB: the page cache of a connection (16 MiB) and what the allocator keeps of some pages. 170,000 accounts would be more
/// than 60,000.
const GROWTH: u64 = 30_000;

fn import(place: &Place, config: &str) {
    let lines: String = (0..ACCOUNTS).map(|number| format!("user{number:06},secret,User\n")).collect();
    place.write("accounts.csv", &lines);
    place.belfry(&["--config", config, "account", "import", "accounts.csv"]).good();
}

/// The highest resident memory of a process so far, in KB.
fn peak(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

fn listed_in_bounded_memory(place: &Place, config: &str) {
    let command = ["--config", config, "account", "list", "--json"];
    let mut list = place.command(&command).spawn().unwrap();
    let mut lines = BufReader::new(list.stdout.take().unwrap()).lines();
    // It waits for its reader when it is some pages ahead, so it is still there.
    let mut peaks = Vec::new();
    for number in 0..ACCOUNTS {
        let line = lines.next().unwrap().unwrap();
        let expected = format!("{{\"account\":\"user{number:06}@example.test\"");
        assert!(line.starts_with(&expected), "{line}");
        if [EARLY, LATE].contains(&number) {
            peaks.push(peak(list.id()));
        }
    }
    assert!(lines.next().is_none() && list.wait().unwrap().success());
    assert!(peaks[1] < peaks[0] + GROWTH, "KB at {EARLY} and {LATE} lines: {peaks:?}");
}

fn pages_follow_one_another(place: &Place, config: &str) {
    let list = |more: &[&str]| {
        let command = [&["--config", config, "account", "list", "--json"], more].concat();
        place.belfry(&command).good().lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let page = list(&["--after", "user199996", "--limit", "2"]);
    assert_eq!(page.len(), 2);
    assert!(page[0].contains("user199997@") && page[1].contains("user199998@"), "{page:?}");
    assert_eq!(list(&["--after", "user199998@example.test"]).len(), 1);
    assert_eq!(list(&["--after", "user1999975"]), list(&["--after", "user199997"]), "one that is not there");
    assert!(list(&["--after", "zoe"]).is_empty());
    assert_eq!(list(&["--prefix", "user1999", "--after", "user199950"]).len(), 49);
}

#[test]
fn many_accounts_of_a_file_are_listed_in_bounded_memory() {
    let place = Place::new();
    import(&place, "belfry.toml");
    listed_in_bounded_memory(&place, "belfry.toml");
    pages_follow_one_another(&place, "belfry.toml");
    place.belfry(&["account", "list", "--after", "a b"]).failed(1, "account name \"a b\"");
}

#[test]
fn many_accounts_of_postgresql_are_listed_in_bounded_memory() {
    let place = Place::new();
    let config = std::fs::read_to_string(place.path("belfry.toml")).unwrap();
    place.write("server.toml", &format!("{config}[store]\nurl = \"{}\"\n", interop::new_postgres_database()));
    import(&place, "server.toml");
    listed_in_bounded_memory(&place, "server.toml");
    pages_follow_one_another(&place, "server.toml");
}
