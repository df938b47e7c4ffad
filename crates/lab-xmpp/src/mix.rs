//! What users do, by probability.

use stdx::rng::Rng;

/// One thing a user does at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Message,
    MessageOnline,
    MessageOffline,
    Presence,
    PresenceDirected,
    Logout,
    RosterGet,
    RosterAdd,
    RosterRename,
    RosterRemove,
    VcardGet,
    VcardLookup,
    VcardSet,
    Room,
    RoomNick,
    RoomRejoin,
    Archive,
    Ping,
    Disco,
    DiscoItems,
    PepPublish,
    PepGet,
    Block,
    Unblock,
    PubsubPublish,
    PubsubGet,
    Raw,
}

/// Their names in `--mix`, and what is done.
pub const ACTIONS: &[(&str, Action, &str)] = &[
    ("message", Action::Message, "to a contact, who may be there or not"),
    ("message-online", Action::MessageOnline, "to a contact who is there"),
    (
        "message-offline",
        Action::MessageOffline,
        "to a contact who has signed out: it must wait for him, and come",
    ),
    ("presence", Action::Presence, "another show and status, to all contacts"),
    ("presence-directed", Action::PresenceDirected, "to one user who is there, contact or stranger"),
    ("logout", Action::Logout, "signs out, and in again after a while"),
    ("roster-get", Action::RosterGet, "reads the whole roster"),
    ("roster-add", Action::RosterAdd, "adds an entry"),
    ("roster-rename", Action::RosterRename, "gives it another name"),
    ("roster-remove", Action::RosterRemove, "removes it"),
    ("vcard-get", Action::VcardGet, "reads his own vCard"),
    ("vcard-lookup", Action::VcardLookup, "reads that of another user, contact or stranger"),
    ("vcard-set", Action::VcardSet, "changes his own vCard"),
    ("room", Action::Room, "says something in the room he is in"),
    ("room-nick", Action::RoomNick, "takes another nick there"),
    ("room-rejoin", Action::RoomRejoin, "leaves the room and comes again"),
    ("archive", Action::Archive, "reads the newest page of his archive"),
    ("ping", Action::Ping, "pings the server (XEP-0199)"),
    ("disco", Action::Disco, "asks what the server can do (XEP-0030)"),
    ("disco-items", Action::DiscoItems, "asks what services the server has"),
    ("pep-publish", Action::PepPublish, "publishes the tune he hears (XEP-0163)"),
    ("pep-get", Action::PepGet, "reads what he published"),
    ("block", Action::Block, "blocks somebody who is no user of the load (XEP-0191)"),
    ("unblock", Action::Unblock, "lets him again"),
    (
        "pubsub-publish",
        Action::PubsubPublish,
        "publishes at a node of the service that all users share (XEP-0060)",
    ),
    ("pubsub-get", Action::PubsubGet, "reads the newest that is published there"),
    ("raw", Action::Raw, "sends one of the stanzas of --stanza; an iq has an answer, which is awaited"),
];

/// Shares of a hundred, or any other weights.
#[derive(Debug, Clone, PartialEq)]
pub struct Mix {
    /// With the sum of all weights up to it, in millionths.
    steps: Vec<(u64, Action)>,
    text: String,
}

const PARTS: f64 = 1e6;

impl Mix {
    /// `message=83.5,presence=13.5,…`.
    pub fn parse(text: &str) -> Result<Mix, String> {
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
        Ok(Mix { steps, text: text.to_owned() })
    }

    pub fn draw(&self, rng: &mut Rng) -> Action {
        let sum = self.steps.last().map_or(1, |step| step.0);
        let at = rng.below(sum);
        let step = self.steps.iter().find(|step| at < step.0);
        step.map_or(Action::Message, |step| step.1)
    }

    pub fn has(&self, action: Action) -> bool {
        let mut before = 0;
        self.steps.iter().any(|step| std::mem::replace(&mut before, step.0) < step.0 && step.1 == action)
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_kept() {
        let mix = Mix::parse("message=83.5, presence=13.5,logout=2.5,roster-add=0.5,room=0").unwrap();
        let mut rng = Rng::seeded(1);
        let mut counts = [0u32; 4];
        for _ in 0..100_000 {
            let at = match mix.draw(&mut rng) {
                Action::Message => 0,
                Action::Presence => 1,
                Action::Logout => 2,
                Action::RosterAdd => 3,
                other => panic!("{other:?}"),
            };
            counts[at] += 1;
        }
        for (count, share) in counts.into_iter().zip([83_500u32, 13_500, 2_500, 500]) {
            assert!(count.abs_diff(share) < 600, "{counts:?}");
        }
        assert!(mix.has(Action::Logout) && !mix.has(Action::Room) && !mix.has(Action::Archive));
    }

    #[test]
    fn mistakes_say_what_was_expected() {
        for (text, says) in [
            ("message", "ACTION=SHARE"),
            ("mesage=1", "expected one of message, message-online"),
            ("message=-1", "from 0"),
            ("message=0", "above 0"),
            ("", "above 0"),
        ] {
            assert!(Mix::parse(text).unwrap_err().contains(says), "{text}");
        }
    }
}
