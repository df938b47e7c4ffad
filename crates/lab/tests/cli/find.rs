//! `ringer find xmpp`, against a server in this process.

use crate::jabber::Jabber;
use crate::program::{Place, address};

const LOAD: &str = "--domain d --contacts 2 --tls none --mechanism PLAIN --logins 100 --think 500ms --timeout 1 \
                    --mix message=1 --step 1 --repeats 1 --confirm 10 --threads 1";

#[test]
fn users_are_searched_to_the_end_of_the_range() {
    let place = Place::new();
    let server = Jabber::start(&address());
    let said = place.run(&format!("find xmpp {} {LOAD} --from 6 --to 9 --json found.json", server.address));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.out.contains("found: at least 8.0 users (the end of the range)"), "{said:?}");
    let runs: serde_json::Value = serde_json::from_str(&place.read("found.json")).expect("reports");
    let peaks: Vec<_> =
        runs.as_array().expect("several").iter().map(|run| &run["totals"]["peak_open"]).collect();
    assert_eq!(peaks, [6, 8, 8], "ramp, the end of the range, its confirmation");
}

#[test]
fn a_search_of_an_absent_server_fails_with_a_reason() {
    let place = Place::new();
    let said = place.run(&format!("find xmpp {}:9 {LOAD} --from 6 --to 9", address()));
    assert_eq!(said.code, Some(255), "{said:?}");
    assert!(
        said.err.contains(":9: Connection refused (os error 111): expected a server that listens there"),
        "{said:?}"
    );
    let said = place.run(&format!("find -sn uac {}:9 -t t1 --step 1 -r 6..9", address()));
    assert_eq!(said.code, Some(255), "{said:?}");
    assert!(
        said.err.contains(":9 by TCP: Connection refused (os error 111); check address, port"),
        "{said:?}"
    );
}
