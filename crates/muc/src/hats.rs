//! Hats of users: titles that an administrator of the room gives them, and that occupants see in their presence (XEP-0317).
//!
//! A hat is a URI with a title. A room has no list of hats of its own: the hats that its users have are those that can be chosen, and
//! a new one is made by naming its URI and title. Hats carry no rights.
//!
//! An administrator gives and takes hats by two commands (XEP-0050), each with one form. `query` passes a command to
//! [`handle_command`]; it asks for the form, or performs the submitted one, and every occupant sees the change in the
//! user's presence.

use std::collections::BTreeMap;

use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Bare, Element, Jid, ns};

use super::form::{field, form, type_of, value};
use super::rules::Affiliation;
use super::users::{ChangeCause, RoomUsers};
use super::{FULL, RoomEffect, refuse};
use crate::limits::{HAT_TITLE, HAT_URI, HATS_OF_USER, ROOM_HATS};

/// `FORM_TYPE` of the forms (§3.2).
const FORM: &str = "urn:xmpp:hats:commands";

/// The commands for hats, with their names.
const COMMANDS: [(&str, &str); 2] = [(DON, "Give a hat to a user"), (DOFF, "Take a hat from a user")];
const DON: &str = "urn:xmpp:hats:commands:don";
const DOFF: &str = "urn:xmpp:hats:commands:doff";

/// The session of a command. A command holds nothing between two requests.
const SESSION: &str = "hats";

/// A hat: two of one URI are the same hat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hat {
    uri: Box<str>,
    title: Box<str>,
}

impl Hat {
    fn element(&self) -> Element {
        Element::new("hat", ns::HATS).with("uri", &*self.uri).with("title", &*self.title)
    }

    fn from_stored(hat: &Element) -> Option<Hat> {
        Some(Hat { uri: hat.attr("uri")?.into(), title: hat.attr("title")?.into() })
    }
}

/// The users of a room that have hats, in the room or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Hats {
    by_user: BTreeMap<Bare, Vec<Hat>>,
}

impl Hats {
    /// The `<hats/>` of a presence. `None`: the user has none.
    pub(super) fn shown(&self, user: &Bare) -> Option<Element> {
        let hats = self.by_user.get(user)?;
        Some(Element::new("hats", ns::HATS).children(hats.iter().map(Hat::element)))
    }

    /// True: a hat with that title is new to the user.
    fn add(&mut self, user: &Bare, hat: Hat) -> Result<bool, Condition> {
        let count = self.by_user.values().map(Vec::len).sum::<usize>();
        if let Some(hats) = self.by_user.get_mut(user) {
            if let Some(known) = hats.iter_mut().find(|known| known.uri == hat.uri) {
                let has_changed = *known != hat;
                *known = hat;
                return Ok(has_changed);
            }
            if hats.len() >= HATS_OF_USER {
                return Err(FULL);
            }
        }
        if count >= ROOM_HATS {
            return Err(FULL);
        }
        self.by_user.entry(user.clone()).or_default().push(hat);
        Ok(true)
    }

    /// True: the user had it.
    fn remove(&mut self, user: &Bare, uri: &str) -> bool {
        let Some(hats) = self.by_user.get_mut(user) else { return false };
        let before = hats.len();
        hats.retain(|hat| *hat.uri != *uri);
        let had_it = hats.len() < before;
        if hats.is_empty() {
            self.by_user.remove(user);
        }
        had_it
    }

    /// The account was removed. True: it had hats.
    pub(super) fn remove_user(&mut self, user: &Bare) -> bool {
        self.by_user.remove(user).is_some()
    }

    /// The title of a hat that users of the room have.
    fn title_of(&self, uri: &str) -> Option<&str> {
        self.by_user.values().flatten().find(|hat| *hat.uri == *uri).map(|hat| &*hat.title)
    }

    /// The hats that can be chosen, by URI.
    fn known(&self) -> BTreeMap<&str, &str> {
        self.by_user.values().flatten().map(|hat| (&*hat.uri, &*hat.title)).collect()
    }

    /// The children of the stored room.
    pub(super) fn stored(&self) -> impl Iterator<Item = Element> {
        self.by_user.iter().map(|(user, hats)| {
            Element::new("hats", ns::HATS).with("jid", user.as_str()).children(hats.iter().map(Hat::element))
        })
    }

    pub(super) fn from_stored(room: &Element) -> Hats {
        let of_user = |hats: &Element| {
            let user = Bare::parse(hats.attr("jid")?).ok()?;
            Some((user, hats.elements().filter_map(Hat::from_stored).collect()))
        };
        let hats = room.elements().filter(|child| child.is("hats", ns::HATS));
        Hats { by_user: hats.filter_map(of_user).collect() }
    }
}

/// A command with the submitted form.
struct HatRequest {
    user: Bare,
    uri: Box<str>,
    /// The title that was typed; of a known hat it may be absent.
    title: Option<Box<str>>,
}

impl HatRequest {
    /// Reads the submitted form of either command. A typed URI goes before a chosen one.
    fn parse(form: &Element) -> Result<HatRequest, StanzaError> {
        if type_of(form).is_some_and(|kind| kind != FORM) {
            return Err(Condition::BadRequest.into());
        }
        let user = value(form, "accountjid").ok_or(Condition::BadRequest)?;
        let user = Jid::parse(&user).map_err(|_| Condition::JidMalformed)?.bare();
        let typed = value(form, "hat_uri").filter(|uri| !uri.trim().is_empty()).map(|uri| uri.trim().into());
        let uri: Box<str> = typed.or_else(|| chosen(form)).ok_or(Condition::BadRequest)?;
        let title = value(form, "hat_title").map(|title| Box::<str>::from(title.trim()));
        let title = title.filter(|title| !title.is_empty());
        if uri.len() > HAT_URI || title.as_ref().is_some_and(|title| title.len() > HAT_TITLE) {
            return Err(StanzaError::new(
                Condition::NotAcceptable,
                "the URI or title of the hat is too long",
            ));
        }
        if user.local().is_none() || !is_uri(&uri) {
            return Err(StanzaError::new(
                Condition::NotAcceptable,
                "a hat is a URI, for the address of a user",
            ));
        }
        Ok(HatRequest { user, uri, title })
    }
}

/// The hat that was chosen from the list. The example in §3.3 has the value in an `<option/>`.
fn chosen(form: &Element) -> Option<Box<str>> {
    let mut fields = form.elements().filter(|child| child.is("field", ns::DATA));
    let field = fields.find(|field| field.attr("var") == Some("hat"))?;
    let of =
        |element: &Element| element.content_of("value", ns::DATA).map(|uri| Box::<str>::from(uri.trim()));
    of(field).or_else(|| of(field.get("option", ns::DATA)?)).filter(|uri| !uri.is_empty())
}

/// A scheme and what follows it (RFC 3986 §3), without white space.
fn is_uri(uri: &str) -> bool {
    let Some((scheme, rest)) = uri.split_once(':') else { return false };
    let is_of_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.chars().all(is_of_scheme)
        && !rest.is_empty()
        && !uri.chars().any(|c| c.is_whitespace() || c.is_control())
}

/// The commands that a user may give, for disco.
pub(super) fn commands_of(
    users: &RoomUsers,
    from: &Jid,
) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
    let may = users.affiliation(&from.bare()) >= Affiliation::Admin;
    COMMANDS.into_iter().filter(move |_| may)
}

/// Handles a command (XEP-0050) about hats, which administrators and owners of the room may give.
pub(super) fn handle_command(
    users: &mut RoomUsers,
    from: &Jid,
    command: &Element,
    iq: &Element,
    out: &mut Vec<RoomEffect>,
) {
    let node = command.attr("node").unwrap_or_default();
    let Some((node, name)) = COMMANDS.into_iter().find(|(known, _)| *known == node) else {
        return refuse(iq, Condition::ItemNotFound, out);
    };
    if users.affiliation(&from.bare()) < Affiliation::Admin {
        return refuse(iq, Condition::Forbidden, out);
    }
    let submitted = command.get("x", ns::DATA).filter(|form| form.attr("type") != Some("cancel"));
    let status = match (command.attr("action").unwrap_or("execute"), submitted) {
        ("cancel", _) => "canceled",
        ("execute" | "next" | "complete", None) => {
            let actions = Element::new("actions", ns::COMMANDS)
                .with("execute", "complete")
                .child(Element::new("complete", ns::COMMANDS));
            let reply = reply(node, "executing").child(actions).child(form_of(&users.hats, node, name));
            return out.push(RoomEffect::Send(stanza::result(iq, Some(reply))));
        }
        ("execute" | "next" | "complete", Some(form)) => {
            if let Err(error) = change(users, from, node, form, out) {
                return refuse(iq, error, out);
            }
            "completed"
        }
        _ => return refuse(iq, Condition::BadRequest, out),
    };
    out.push(RoomEffect::Send(stanza::result(iq, Some(reply(node, status)))));
}

/// The form of a command (§3.2): a user, and one hat of those that there are. COMPAT(ejabberd): fields for a new one.
fn form_of(hats: &Hats, node: &str, name: &'static str) -> Element {
    let options = hats.known().into_iter().map(|(uri, title)| {
        let value = Element::new("value", ns::DATA).text(uri);
        Element::new("option", ns::DATA).with("label", title).child(value)
    });
    let user = field("accountjid", "jid-single", "User", []).child(Element::new("required", ns::DATA));
    let new = [("hat_uri", "URI of a new hat"), ("hat_title", "Title of a new hat")];
    let new = new.into_iter().filter(|_| node == DON);
    form("form", FORM)
        .child(Element::new("title", ns::DATA).text(name))
        .child(user)
        .child(field("hat", "list-single", "Hat", []).children(options))
        .children(new.map(|(var, label)| field(var, "text-single", label, [])))
}

/// Performs a command. The change is in the presence of each occupant of the user.
fn change(
    users: &mut RoomUsers,
    from: &Jid,
    node: &str,
    form: &Element,
    out: &mut Vec<RoomEffect>,
) -> Result<(), StanzaError> {
    let HatRequest { user, uri, title } = HatRequest::parse(form)?;
    let hats = &mut users.hats;
    let has_changed = if node == DON {
        let title = title.or_else(|| hats.title_of(&uri).map(Box::from));
        let text = "this hat is not known here: give it a title";
        let title = title.ok_or_else(|| StanzaError::new(Condition::NotAcceptable, text))?;
        hats.add(&user, Hat { uri, title })?
    } else if hats.remove(&user, &uri) {
        true
    } else {
        return Err(Condition::ItemNotFound.into());
    };
    if !has_changed {
        return Ok(());
    }
    if users.is_stored() {
        out.push(RoomEffect::Save);
    }
    let actor = users.occupants.of_session(from).map(|actor| actor.nick.clone());
    let cause = ChangeCause { by: actor.as_deref(), reason: None };
    for key in users.occupants.keys_of_user(&user) {
        users.announce(*key, cause, out);
    }
    Ok(())
}

fn reply(node: &'static str, status: &'static str) -> Element {
    Element::new("command", ns::COMMANDS).with("node", node).with("sessionid", SESSION).with("status", status)
}
