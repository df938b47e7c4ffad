//! Specifications requirement by requirement, as `muc/table` has XEP-0045: a row has the section, its demand,
//! the stanzas sent, and the answers. The cast: Alice, her contact Bob, who sees her presence, and Eve, who
//! is no contact. Requirements that have no row are in `compliance::UNTESTED`.

mod exchange;
mod rfc_6120;
mod rfc_6121;
mod xep_0030;
mod xep_0054;
mod xep_0060;
mod xep_0133;
mod xep_0198;
mod xep_0248;
mod xep_0313;

use super::effect::{RosterItem, Subscription};
use super::*;
use crate::requirements::{self, has_in_order};

const ALICE: &str = "alice@example.org";

/// One requirement.
struct Row {
    section: &'static str,
    demand: &'static str,
    before: Vec<(&'static str, String)>,
    sent: (&'static str, String),
    told: &'static [&'static str],
}

fn row(section: &'static str, demand: &'static str) -> Row {
    Row { section, demand, before: Vec::new(), sent: ("alice", String::new()), told: &[] }
}

impl Row {
    fn after(mut self, sender: &'static str, xml: impl Into<String>) -> Row {
        self.before.push((sender, xml.into()));
        self
    }

    fn when(self, sender: &'static str, xml: impl Into<String>) -> Row {
        Row { sent: (sender, xml.into()), ..self }
    }

    /// Parts of the stanzas that the sender gets then, in this order; after `!` what is in none of it.
    /// Nothing at all: it gets nothing.
    fn told(self, told: &'static [&'static str]) -> Row {
        Row { told, ..self }
    }

    /// The difference between the expected and the actual outcome, if there is one.
    fn play(&self) -> Option<String> {
        let mut world = stage();
        let client =
            |name: &str| 1 + ["alice", "bob", "eve"].iter().position(|known| *known == name).unwrap() as u64;
        for (sender, xml) in &self.before {
            world.say(client(sender), xml);
        }
        world.got.clear();
        let (sender, xml) = &self.sent;
        world.say(client(sender), xml);
        let heard = world.hear(client(sender)).join("\n");
        let is_right = has_in_order(&heard, self.told);
        (!is_right).then(|| {
            format!("§{} {}\n  expected {:?}\n  told\n{heard}\n", self.section, self.demand, self.told)
        })
    }
}

fn stage() -> HostWorld {
    let mut world = HostWorld::new(&[ALICE, "bob@example.org", "eve@example.org"]);
    let (alice, bob) = (Bare::parse(ALICE).unwrap(), Bare::parse("bob@example.org").unwrap());
    let item = RosterItem { subscription: Subscription::From, is_listed: true, ..Default::default() };
    world.store.users.get_mut(&alice).unwrap().roster.push((bob, item));
    for name in ["alice", "bob", "eve"] {
        let client = world.sign_in(&format!("{name}@example.org/desk"));
        world.say(client, "<presence/>");
    }
    world.got.clear();
    world
}

fn iq(kind: &str, to: &str, payload: &str) -> String {
    format!("<iq id='q' type='{kind}' to='{to}'>{payload}</iq>")
}

/// All rows of a part at once, so that a change shows all that it breaks.
fn play(rows: &[Row]) {
    let wrong: Vec<String> = rows.iter().filter_map(Row::play).collect();
    requirements::assert_none(&wrong, rows.len());
}

/// Rows with only the section, its demand, and the test.
#[track_caller]
fn check_named(rows: &[(&str, &str, &str)]) {
    let wrong = rows.iter().filter_map(|(section, demand, path)| {
        requirements::fault_of(path).map(|wrong| format!("§{section} {demand}: {wrong}"))
    });
    let wrong: Vec<String> = wrong.collect();
    requirements::assert_none(&wrong, rows.len());
}
