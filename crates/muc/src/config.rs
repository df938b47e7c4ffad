//! The configuration of a room (XEP-0045 §10, §15.5.3). One form serves for the owner and for the store, so a field that an
//! owner can set is stored without further code. A form that an owner submits has to keep the limits; a stored one is read
//! whatever the limits are by now, because a room that cannot be read is lost to its users.

use std::borrow::Cow;

use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Element, Jid, ns};

use super::form::{boolean, choice, field, flag, form, value, values};
use crate::RoomListing;
use crate::limits::{OCCUPANTS, ROOM_CONTACTS, ROOM_DESCRIPTION, ROOM_TEXT};

/// `FORM_TYPE` of the form.
pub(super) const FORM: &str = "http://jabber.org/protocol/muc#roomconfig";

/// The occupants that may send private messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AllowPm {
    Anyone,
    Participants,
    Moderators,
    None,
}

impl AllowPm {
    const ALL: [AllowPm; 4] = [AllowPm::Anyone, AllowPm::Participants, AllowPm::Moderators, AllowPm::None];
    const NAMES: [&str; 4] = ["anyone", "participants", "moderators", "none"];

    fn as_str(self) -> &'static str {
        match self {
            AllowPm::Anyone => "anyone",
            AllowPm::Participants => "participants",
            AllowPm::Moderators => "moderators",
            AllowPm::None => "none",
        }
    }
}

/// The settings of a room, as its owner chose them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RoomConfig {
    pub(super) name: Box<str>,
    pub(super) description: Box<str>,
    pub(super) lang: Box<str>,
    /// Addresses of contacts.
    pub(super) contacts: Vec<Box<str>>,
    /// A node of pubsub that belongs to the room.
    pub(super) pubsub: Box<str>,
    /// It stays without occupants, and is stored.
    pub(super) is_persistent: bool,
    /// Directories list it.
    pub(super) is_public: bool,
    /// Users without affiliation enter without voice.
    pub(super) is_moderated: bool,
    pub(super) is_members_only: bool,
    /// Empty: none.
    pub(super) password: Box<str>,
    /// 0: as many as the limit allows.
    pub(super) max_users: usize,
    /// All occupants see real addresses, not moderators only.
    pub(super) is_whois_anyone: bool,
    /// Participants may, not only moderators.
    pub(super) may_change_subject: bool,
    /// Occupants with voice may invite, not only moderators and administrators.
    pub(super) may_invite: bool,
    pub(super) allow_pm: AllowPm,
    /// The owner wants the messages archived. Where nothing was said, this counts once the room is persistent ([`RoomConfig::is_archived`]).
    pub(super) is_logged: bool,
    /// The owner has said so of the room while it is temporary.
    pub(super) is_logged_temporary: bool,
}

/// The field of `is_logged_temporary` in the store's form. No client sets it.
const LOGGED_TEMPORARY: &str = "belfry#roomconfig_logged_temporary";

// The configuration of an instant room (§10.1.2): what most users expect of a new room, and nothing that outlasts it.
impl Default for RoomConfig {
    fn default() -> Self {
        RoomConfig {
            name: "".into(),
            description: "".into(),
            lang: "".into(),
            contacts: Vec::new(),
            pubsub: "".into(),
            is_persistent: false,
            is_public: true,
            is_moderated: false,
            is_members_only: false,
            password: "".into(),
            max_users: 0,
            is_whois_anyone: false,
            may_change_subject: false,
            may_invite: false,
            allow_pm: AllowPm::Anyone,
            is_logged: true,
            is_logged_temporary: false,
        }
    }
}

impl RoomConfig {
    pub(super) fn max_users(&self) -> usize {
        if self.max_users == 0 { OCCUPANTS } else { self.max_users.min(OCCUPANTS) }
    }

    pub(super) fn listing(&self, occupants: u32) -> RoomListing {
        RoomListing {
            name: self.name.clone(),
            description: self.description.clone(),
            lang: self.lang.clone(),
            occupants,
            is_open: !self.is_members_only && self.password.is_empty(),
            is_anonymous: !self.is_whois_anyone,
        }
    }

    /// True if messages are archived. A temporary room's are where its owner has asked for it; the archive ends with the room, as its address
    /// may belong to another room tomorrow.
    pub(super) fn is_archived(&self) -> bool {
        self.is_logged && (self.is_persistent || self.is_logged_temporary)
    }

    /// `kind`: `form` for the owner, `submit` for the store.
    pub(super) fn to_form(&self, kind: &'static str) -> Element {
        let text = |var, label, value| field(var, "text-single", label, [value]);
        let on = boolean;
        let whois = if self.is_whois_anyone { "anyone" } else { "moderators" };
        // The owner sees whether messages are archived; the store has the owner's choice, which counts again once the
        // room is persistent.
        let is_logged = if kind == "form" { self.is_archived() } else { self.is_logged };
        let own = (kind != "form" && self.is_logged_temporary).then(|| on(LOGGED_TEMPORARY, "", true));
        form(kind, FORM).children(own).children([
            text("muc#roomconfig_roomname", "Name", &self.name),
            text("muc#roomconfig_roomdesc", "Description", &self.description),
            text("muc#roomconfig_lang", "Language", &self.lang),
            field(
                "muc#roomconfig_contactjid",
                "jid-multi",
                "Contacts",
                self.contacts.iter().map(|jid| &**jid),
            ),
            text("muc#roomconfig_pubsub", "Node of pubsub", &self.pubsub),
            on("muc#roomconfig_persistentroom", "Stays when all have left", self.is_persistent),
            on("muc#roomconfig_publicroom", "Is in the list of rooms", self.is_public),
            on("muc#roomconfig_moderatedroom", "Only those with voice speak", self.is_moderated),
            on("muc#roomconfig_membersonly", "Only members enter", self.is_members_only),
            on(
                "muc#roomconfig_passwordprotectedroom",
                "A password is needed to enter",
                !self.password.is_empty(),
            ),
            field("muc#roomconfig_roomsecret", "text-private", "Password", [&*self.password]),
            self.max_users_field(),
            choice("muc#roomconfig_whois", "Who sees real addresses", whois, &["moderators", "anyone"]),
            on("muc#roomconfig_changesubject", "Occupants change the subject", self.may_change_subject),
            on("muc#roomconfig_allowinvites", "Occupants invite others", self.may_invite),
            choice(
                "muc#roomconfig_allowpm",
                "Who sends private messages",
                self.allow_pm.as_str(),
                &AllowPm::NAMES,
            ),
            on("muc#roomconfig_enablelogging", "Messages are archived", is_logged),
        ])
    }

    /// §15.5.3 has it as a list. Clients may submit any number.
    fn max_users_field(&self) -> Element {
        let mut counts = vec![10, 20, 30, 50, 100, 200, 500, 1_000, OCCUPANTS];
        counts.extend(Some(self.max_users).filter(|count| *count > 0));
        counts.sort_unstable();
        counts.dedup();
        let mut options: Vec<String> = counts.iter().map(usize::to_string).collect();
        options.push("none".to_owned());
        let current = if self.max_users == 0 { "none".to_owned() } else { self.max_users.to_string() };
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        choice("muc#roomconfig_maxusers", "Most occupants", &current, &options)
    }

    /// Applies a form; fields that it lacks stay as they are.
    ///
    /// # Errors
    /// `not-acceptable` with the field that is not.
    pub(super) fn apply(&self, form: &Element) -> Result<RoomConfig, StanzaError> {
        let mut config = self.clone().changed(form, |text, most| text.len() <= most)?;
        if let Some(contacts) = values(form, "muc#roomconfig_contactjid") {
            let is_address = |jid: &Cow<'_, str>| Jid::parse(jid).is_ok() && jid.len() <= ROOM_TEXT;
            let mut given = contacts.iter().filter(|jid| !jid.is_empty());
            if contacts.len() > ROOM_CONTACTS || !given.all(is_address) {
                return Err(refused("muc#roomconfig_contactjid has too many addresses, or one that is none"));
            }
        }
        // A form for a persistent room says nothing of the time after it.
        config.is_logged_temporary = match flag(form, "muc#roomconfig_enablelogging") {
            Some(is_logged) => is_logged && !config.is_persistent,
            None => config.is_logged_temporary && !config.is_persistent,
        };
        Ok(config)
    }

    /// The configuration as it was stored, whatever the limits are now. `None`: it has fields that this server does not write.
    pub(super) fn stored(form: &Element) -> Option<RoomConfig> {
        let mut config = RoomConfig::default().changed(form, |_, _| true).ok()?;
        config.is_logged_temporary = flag(form, LOGGED_TEMPORARY) == Some(true);
        Some(config)
    }

    /// The configuration with the fields of the form. It returns a new one, so that a form with one bad field changes nothing.
    fn changed(self, form: &Element, fits: impl Fn(&str, usize) -> bool) -> Result<RoomConfig, StanzaError> {
        let mut config = self;
        for (var, place, most) in [
            ("muc#roomconfig_roomname", &mut config.name, ROOM_TEXT),
            ("muc#roomconfig_roomdesc", &mut config.description, ROOM_DESCRIPTION),
            ("muc#roomconfig_lang", &mut config.lang, ROOM_TEXT),
            ("muc#roomconfig_pubsub", &mut config.pubsub, ROOM_TEXT),
            ("muc#roomconfig_roomsecret", &mut config.password, ROOM_TEXT),
        ] {
            let Some(value) = value(form, var) else { continue };
            if !fits(&value, most) {
                return Err(refused(&format!("{var} is longer than {most} bytes")));
            }
            *place = value.into();
        }
        for (var, place) in [
            ("muc#roomconfig_persistentroom", &mut config.is_persistent),
            ("muc#roomconfig_publicroom", &mut config.is_public),
            ("muc#roomconfig_moderatedroom", &mut config.is_moderated),
            ("muc#roomconfig_membersonly", &mut config.is_members_only),
            ("muc#roomconfig_changesubject", &mut config.may_change_subject),
            ("muc#roomconfig_allowinvites", &mut config.may_invite),
            ("muc#roomconfig_enablelogging", &mut config.is_logged),
        ] {
            if value(form, var).is_some() {
                *place = flag(form, var).ok_or_else(|| refused(&format!("{var} is neither 0 nor 1")))?;
            }
        }
        if let Some(contacts) = values(form, "muc#roomconfig_contactjid") {
            config.contacts =
                contacts.iter().filter(|jid| !jid.is_empty()).map(|jid| (&**jid).into()).collect();
        }
        config.apply_choices(form)?;
        Ok(config)
    }

    /// The fields with a few values. They come after the texts: the password has to be known before the form says that there is
    /// one.
    fn apply_choices(&mut self, form: &Element) -> Result<(), StanzaError> {
        if let Some(is_protected) = flag(form, "muc#roomconfig_passwordprotectedroom") {
            if !is_protected {
                self.password = "".into();
            } else if self.password.is_empty() {
                // §10.1.3: an empty password would let every user in, though the form says otherwise.
                return Err(refused("a room with a password needs one"));
            }
        }
        if let Some(most) = value(form, "muc#roomconfig_maxusers") {
            // A number above our own limit is the owner's wish and is shown as such; `max_users` has the smaller of both.
            self.max_users = match &*most {
                // §15.5.3: "none" is a value of the field: no limit of the owner's.
                "none" | "" => 0,
                most => most
                    .parse()
                    .ok()
                    .filter(|most| *most > 0)
                    .ok_or_else(|| refused("muc#roomconfig_maxusers is not a number"))?,
            };
        }
        if let Some(whois) = value(form, "muc#roomconfig_whois") {
            self.is_whois_anyone = match &*whois {
                "anyone" => true,
                "moderators" => false,
                _ => return Err(refused("muc#roomconfig_whois is neither moderators nor anyone")),
            };
        }
        if let Some(allowed) = value(form, "muc#roomconfig_allowpm") {
            let found = AllowPm::ALL.into_iter().find(|known| known.as_str() == allowed);
            self.allow_pm = found.ok_or_else(|| refused("muc#roomconfig_allowpm is none of its options"))?;
        }
        Ok(())
    }

    /// The room's type, as features of disco name it (§15.3).
    pub(super) fn features(&self) -> [&'static str; 6] {
        [
            if self.is_persistent { "muc_persistent" } else { "muc_temporary" },
            if self.is_public { "muc_public" } else { "muc_hidden" },
            if self.is_moderated { "muc_moderated" } else { "muc_unmoderated" },
            if self.is_members_only { "muc_membersonly" } else { "muc_open" },
            if self.password.is_empty() { "muc_unsecured" } else { "muc_passwordprotected" },
            if self.is_whois_anyone { "muc_nonanonymous" } else { "muc_semianonymous" },
        ]
    }

    /// The status codes that tell occupants of a change (§10.2.1).
    pub(super) fn changes(&self, old: &RoomConfig) -> Vec<u16> {
        let mut codes = Vec::new();
        if self.is_archived() != old.is_archived() {
            codes.push(if self.is_archived() { 170 } else { 171 });
        }
        if self.is_whois_anyone != old.is_whois_anyone {
            codes.push(if self.is_whois_anyone { 172 } else { 173 });
        }
        // §10.2.1: changes that concern privacy have codes of their own; 104 stands for all others.
        let rest = RoomConfig {
            is_logged: old.is_logged,
            is_logged_temporary: old.is_logged_temporary,
            is_whois_anyone: old.is_whois_anyone,
            ..self.clone()
        };
        if rest != *old {
            codes.push(104);
        }
        codes
    }
}

fn refused(text: &str) -> StanzaError {
    StanzaError::new(Condition::NotAcceptable, text)
}

/// The form in a request, and whether it was cancelled.
pub(super) fn submitted(query: &Element) -> Option<(&Element, bool)> {
    let form = query.get("x", ns::DATA)?;
    match form.attr("type") {
        Some("submit") => Some((form, false)),
        Some("cancel") => Some((form, true)),
        _ => None,
    }
}
