//! The probabilities of the users' actions.
//!
//! Weights are kept as running sums in millionths; one random number below the last sum draws an action.

use stdx::rng::Rng;

/// One thing a user does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UserAction {
    /// A chat message to a random contact, signed in or not.
    Message,
    /// A chat message to a random contact that is signed in; blocked when there is none.
    MessageOnline,
    /// A chat message to a random contact that has signed out; the server stores it until the contact
    /// returns.
    MessageOffline,
    /// A broadcast presence with the next of four `show` values.
    Presence,
    /// A directed presence (RFC 6121 §4.6) to a random user that is signed in, contact or not.
    PresenceDirected,
    /// Signing out; the next sign-in follows after a think time.
    Logout,
    /// A request for the whole roster (RFC 6121 §2.1.3).
    RosterGet,
    /// A roster set of one extra entry, whose address is no user of the load (RFC 6121 §2.3).
    RosterAdd,
    /// A roster set that gives the extra entry a new name (RFC 6121 §2.4).
    RosterRename,
    /// The removal of the extra entry (RFC 6121 §2.5); adds it when it is absent.
    RosterRemove,
    /// A request for the user's own vCard (XEP-0054).
    VcardGet,
    /// A request for the vCard of a random user, contact or not (XEP-0054).
    VcardLookup,
    /// A change of the user's own vCard (XEP-0054).
    VcardSet,
    /// A groupchat message to the user's room (XEP-0045); blocked when the load has no rooms.
    Room,
    /// A change of the nick in the user's room (XEP-0045 §7.6).
    RoomNick,
    /// Leaving the user's room and joining it again (XEP-0045 §7.2, §7.14).
    RoomRejoin,
    /// A query for the newest page of the user's own archive (XEP-0313).
    Archive,
    /// A ping of the server (XEP-0199).
    Ping,
    /// A `disco#info` query to the server (XEP-0030 §3).
    Disco,
    /// A `disco#items` query to the server (XEP-0030 §4).
    DiscoItems,
    /// The publication of a tune at the user's own account (XEP-0163).
    PepPublish,
    /// A request for the tune that the user published (XEP-0163).
    PepGet,
    /// Blocks an address that is no user of the load (XEP-0191).
    Block,
    /// Unblocks that address; blocks it when it is not blocked, as some servers refuse to unblock it then
    /// (XEP-0191).
    Unblock,
    /// The publication of an item at the node that all users share (XEP-0060); creates the node if it is
    /// missing.
    PubsubPublish,
    /// A request for the newest item of the node that all users share (XEP-0060).
    PubsubGet,
    /// One of [`XmppLoad::stanzas`](crate::XmppLoad::stanzas), written as given; the answer to an `iq` is
    /// awaited.
    Raw,
}

/// Their names in `--mix`, and what is done.
pub const ACTIONS: &[(&str, UserAction, &str)] = &[
    ("message", UserAction::Message, "to a contact, who may be there or not"),
    ("message-online", UserAction::MessageOnline, "to a contact who is there"),
    (
        "message-offline",
        UserAction::MessageOffline,
        "to a contact who has signed out: it must wait there, and come",
    ),
    ("presence", UserAction::Presence, "another show and status, to all contacts"),
    ("presence-directed", UserAction::PresenceDirected, "to one user who is there, contact or stranger"),
    ("logout", UserAction::Logout, "signs out, and in again after a while"),
    ("roster-get", UserAction::RosterGet, "reads the whole roster"),
    ("roster-add", UserAction::RosterAdd, "adds an entry"),
    ("roster-rename", UserAction::RosterRename, "gives it another name"),
    ("roster-remove", UserAction::RosterRemove, "removes it"),
    ("vcard-get", UserAction::VcardGet, "reads the own vCard"),
    ("vcard-lookup", UserAction::VcardLookup, "reads that of another user, contact or stranger"),
    ("vcard-set", UserAction::VcardSet, "changes the own vCard"),
    ("room", UserAction::Room, "writes a message in the room that the user is in"),
    ("room-nick", UserAction::RoomNick, "takes another nick there"),
    ("room-rejoin", UserAction::RoomRejoin, "leaves the room and comes again"),
    ("archive", UserAction::Archive, "reads the newest page of the own archive"),
    ("ping", UserAction::Ping, "pings the server (XEP-0199)"),
    ("disco", UserAction::Disco, "asks what the server can do (XEP-0030)"),
    ("disco-items", UserAction::DiscoItems, "asks what services the server has"),
    ("pep-publish", UserAction::PepPublish, "publishes a tune (XEP-0163)"),
    ("pep-get", UserAction::PepGet, "reads the tune that the user published"),
    ("block", UserAction::Block, "blocks an address that is no user of the load (XEP-0191)"),
    ("unblock", UserAction::Unblock, "lifts the block"),
    (
        "pubsub-publish",
        UserAction::PubsubPublish,
        "publishes at a node of the service that all users share (XEP-0060)",
    ),
    ("pubsub-get", UserAction::PubsubGet, "reads the newest that is published there"),
    ("raw", UserAction::Raw, "sends one of the stanzas of --stanza; an iq has an answer, which is awaited"),
];

/// Shares of a hundred, or any other weights.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionMix {
    /// With the sum of all weights up to it, in millionths.
    steps: Vec<(u64, UserAction)>,
    /// As written, for the report.
    text: String,
}

/// Parts of a weight of 1: shares such as 83.5 stay exact.
const PARTS: f64 = 1e6;

impl ActionMix {
    /// `message=83.5,presence=13.5,…`.
    pub fn parse(text: &str) -> Result<ActionMix, String> {
        let mut steps = Vec::new();
        let mut sum = 0;
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (name, weight) =
                part.split_once('=').ok_or_else(|| format!("{part:?}: expected ACTION=SHARE"))?;
            let known = ACTIONS.iter().find(|(known, ..)| *known == name.trim());
            let (_, action, _) = known.ok_or_else(|| {
                let names: Vec<&str> = ACTIONS.iter().map(|(name, ..)| *name).collect();
                format!("{name:?}: expected one of {}", names.join(", "))
            })?;
            let weight: f64 = weight
                .trim()
                .parse()
                .ok()
                .filter(|weight| (0.0..=1e6).contains(weight))
                .ok_or_else(|| format!("{part:?}: expected a share from 0 to 1000000"))?;
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within bounds")]
            let weight = (weight * PARTS) as u64;
            sum += weight;
            steps.push((sum, *action));
        }
        if sum == 0 {
            return Err(format!("{text:?}: expected a share above 0"));
        }
        Ok(ActionMix { steps, text: text.to_owned() })
    }

    /// A random action.
    pub fn draw(&self, rng: &mut Rng) -> UserAction {
        let sum = self.steps.last().map_or(1, |step| step.0);
        let at = rng.below(sum);
        let step = self.steps.iter().find(|step| at < step.0);
        step.map_or(UserAction::Message, |step| step.1)
    }

    /// The mix contains the action.
    pub fn has(&self, action: UserAction) -> bool {
        let mut before = 0;
        self.steps.iter().any(|step| std::mem::replace(&mut before, step.0) < step.0 && step.1 == action)
    }

    /// The share of the action among all, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "weights of at most a million")]
    pub fn share(&self, action: UserAction) -> f64 {
        let sum = self.steps.last().map_or(1, |step| step.0);
        let mut before = 0;
        let weights = self.steps.iter().map(|step| (step.0 - std::mem::replace(&mut before, step.0), step.1));
        weights.filter(|weight| weight.1 == action).map(|weight| weight.0 as f64 / sum as f64).sum()
    }

    /// The mix as written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept() {
        let mix = ActionMix::parse("message=83.5, presence=13.5,logout=2.5,roster-add=0.5,room=0").unwrap();
        let mut rng = Rng::seeded(1);
        let mut counts = [0u32; 4];
        for _ in 0..100_000 {
            let at = match mix.draw(&mut rng) {
                UserAction::Message => 0,
                UserAction::Presence => 1,
                UserAction::Logout => 2,
                UserAction::RosterAdd => 3,
                other => panic!("{other:?}"),
            };
            counts[at] += 1;
        }
        for (count, share) in counts.into_iter().zip([83_500u32, 13_500, 2_500, 500]) {
            assert!(count.abs_diff(share) < 600, "{counts:?}");
        }
        assert_eq!((mix.share(UserAction::Logout), mix.share(UserAction::Room)), (0.025, 0.0));
        assert!(mix.has(UserAction::Logout) && !mix.has(UserAction::Room) && !mix.has(UserAction::Archive));
    }

    #[test]
    fn mistakes_name_the_expected_input() {
        for (text, says) in [
            ("message", "ACTION=SHARE"),
            ("mesage=1", "expected one of message, message-online"),
            ("message=-1", "from 0"),
            ("message=0", "above 0"),
            ("", "above 0"),
        ] {
            assert!(ActionMix::parse(text).unwrap_err().contains(says), "{text}");
        }
    }
}
