//! RFC 6121: rosters (§2), subscriptions (§3 with Appendix A), presence (§4), messages (§5) and
//! the rules for servers (§8).

mod message;
mod presence;
mod roster;
mod rules;
mod state_chart;
mod subscription;

use super::exchange::{END, ROSTER, Row, check, row, test};

const CAROL: &str = "carol@x.org";

/// Presence to Carol, who is an account of another server.
fn to_carol(kind: &str) -> String {
    format!("<presence type='{kind}' to='{CAROL}'/>")
}

fn from_carol(kind: &str) -> String {
    format!("<presence type='{kind}' from='{CAROL}' to='alice@example.org'/>")
}

fn roster_set(item: &str) -> String {
    format!("<iq type='set' id='s'><query xmlns='jabber:iq:roster'>{item}</query></iq>")
}
