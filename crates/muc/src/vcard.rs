//! The vCard of a room and the avatar in it, which owners set (XEP-0054, XEP-0486). Its hash is in the room's disco#info and in
//! presence of the room itself (XEP-0153), so that clients ask for the picture only when it has changed.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest as _, Sha1};
use stdx::hex;
use xmpp::stanza::{self, Condition, StanzaError};
use xmpp::{Element, Jid, ns};

use super::address::RoomAddress;
use super::rules::Affiliation;
use super::users::RoomUsers;
use super::{RoomEffect, refuse};
use crate::limits;

/// The vCard of a room.
#[derive(Clone, Default)]
pub(super) struct RoomVcard {
    /// `None`: it was never set, or was removed.
    vcard: Option<Arc<Element>>,
    /// SHA-1 of the picture in hexadecimal digits.
    hash: Option<Box<str>>,
}

impl RoomVcard {
    /// From a `<vCard/>`; an empty one removes what was there.
    fn parse(vcard: &Element) -> Result<RoomVcard, StanzaError> {
        if vcard.elements().next().is_none() {
            return Ok(RoomVcard::default());
        }
        if vcard.to_bytes(ns::CLIENT).len() > limits::ROOM_VCARD {
            return Err(StanzaError::new(
                Condition::NotAcceptable,
                "the vCard is too big: use a smaller photo",
            ));
        }
        let hash = match photo(vcard) {
            Some(Ok(bytes)) => Some(hex::encode(&Sha1::digest(&bytes)).into()),
            Some(Err(())) => return Err(StanzaError::new(Condition::BadRequest, "the photo is not base64")),
            None => None,
        };
        Ok(RoomVcard { vcard: Some(Arc::new(vcard.clone())), hash })
    }

    /// The child of the stored room.
    pub(super) fn stored(&self) -> Option<Element> {
        self.vcard.as_deref().cloned()
    }

    pub(super) fn from_stored(room: &Element) -> RoomVcard {
        let vcard = room.get("vCard", ns::VCARD).map(RoomVcard::parse);
        vcard.and_then(Result::ok).unwrap_or_default()
    }

    pub(super) fn hash(&self) -> Option<&str> {
        self.hash.as_deref()
    }

    /// Answers with the vCard. A room that strangers may not enter shows them no picture either.
    pub(super) fn answer(&self, users: &RoomUsers, from: &Jid, iq: &Element, out: &mut Vec<RoomEffect>) {
        let affiliation = users.affiliation(&from.bare());
        let is_open = users.config.is_public && !users.config.is_members_only && !users.is_locked;
        let is_insider = affiliation >= Affiliation::Member || users.occupants.of_session(from).is_some();
        if affiliation == Affiliation::Outcast || !(is_open || is_insider) {
            return refuse(iq, Condition::Forbidden, out);
        }
        // XEP-0486 §3.2: a picture is removed by an empty vCard, which is what then is read (XEP-0054 §3.1).
        let vcard = self.stored().unwrap_or_else(|| Element::new("vCard", ns::VCARD));
        out.push(RoomEffect::Send(stanza::result(iq, Some(vcard))));
    }

    /// Sets the vCard, as an owner may. All occupants learn by code 104 that the room has changed, and the hash by presence.
    pub(super) fn change(
        &mut self,
        users: &RoomUsers,
        from: &Jid,
        vcard: &Element,
        iq: &Element,
        out: &mut Vec<RoomEffect>,
    ) {
        if users.affiliation(&from.bare()) != Affiliation::Owner {
            return refuse(iq, Condition::Forbidden, out);
        }
        let vcard = match RoomVcard::parse(vcard) {
            Ok(vcard) => vcard,
            Err(error) => return refuse(iq, error, out),
        };
        let old = std::mem::replace(self, vcard);
        if users.is_stored() {
            out.push(RoomEffect::Save);
        }
        users.tell_codes(&[104], out);
        if old.hash != self.hash {
            let sessions = users.occupants.values().flat_map(|occupant| &occupant.sessions);
            out.extend(sessions.map(|session| RoomEffect::Send(self.presence(&users.address, session))));
        }
        out.push(RoomEffect::Send(stanza::result(iq, None)));
    }

    /// The presence of the room for an occupant that enters; a room without an avatar sends none.
    pub(super) fn presence_for(&self, room: &RoomAddress, session: &Jid) -> Option<Element> {
        self.hash.as_ref().map(|_| self.presence(room, session))
    }

    /// XEP-0153 §3: an empty `<photo/>` says that there is no picture.
    fn presence(&self, room: &RoomAddress, session: &Jid) -> Element {
        let photo = Element::new("photo", ns::VCARD_UPDATE).text(self.hash().unwrap_or_default());
        Element::new("presence", ns::CLIENT)
            .with("from", room.as_str())
            .with("to", session.as_str())
            .child(Element::new("x", ns::VCARD_UPDATE).child(photo))
    }
}

/// The bytes of the picture; `None`: there is none.
fn photo(vcard: &Element) -> Option<Result<Vec<u8>, ()>> {
    let data = vcard.get("PHOTO", ns::VCARD)?.content_of("BINVAL", ns::VCARD)?;
    let data: String = data.split_ascii_whitespace().collect();
    (!data.is_empty()).then(|| BASE64_STANDARD.decode(&data).map_err(|_| ()))
}
