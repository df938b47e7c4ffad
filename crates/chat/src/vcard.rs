//! vCards (XEP-0054, XEP-0292), and one avatar however it is set: in the vCard, as items (XEP-0084), in
//! presence (XEP-0153, XEP-0398).
//!
//! A client sets its avatar in the vCard (`vcard`) or publishes it (`Avatars::handle_publication`); the other
//! place follows, and the hash of the picture is written apart from it. The hash is added to the presence of
//! every session (`Avatars::stamp`), and when it changes the presence is sent again.
//!
//! A change that one place causes in the other must not come back: a vCard that a node has caused is written
//! without a request (`iq` is `None`) and is not published, and metadata whose hash is known cause nothing.

use std::hash::{BuildHasher, RandomState};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};
use stdx::Instant;
use stdx::cache::Cache;
use stdx::hash::HashedKeys;
use stdx::hex;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Level, Specification, ns};

use super::account_memory::AccountMemory;
use super::change_queue::not_written;
use super::effect::{Change, Load, StoreFailure};
use super::feature::{Feature, IqHandler, IqReply, IqRequest, IqTarget, IqView};
use super::iq_effect::IqEffect;
use super::presence::PresenceEffect;
use super::pubsub::{Publication, ViewContinuation, items_of, load_newest};
use super::session::Session;
use super::store_requests::StoreRequests;
use super::{Host, ItemQuery, Outbox, imported};
use crate::{limits, outgoing, presence};

const FILE: &str = "crates/chat/src/vcard.rs";

const fn complete(name: &'static str, title: &'static str, version: &'static str) -> Specification {
    Specification { name, title, version, level: Level::Complete, file: FILE, note: "" }
}

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        complete("XEP-0054", "vcard-temp", "1.2"),
        complete("XEP-0084", "User Avatar", "1.1.4"),
        complete("XEP-0153", "vCard-Based Avatars", "1.1"),
        complete("XEP-0292", "vCard4 Over XMPP", "0.12.0"),
        complete("XEP-0398", "User Avatar to vCard-Based Avatars Conversion", "1.0.1"),
    ],
    account: &[ns::VCARD, ns::VCARD4, ns::VCARD_CONVERSION],
    // XEP-0054 §4: a server says that it has the vCards of its accounts.
    server: &[ns::VCARD],
    handles: &[
        IqHandler { at: IqTarget::Account, name: "vCard", ns: ns::VCARD, run: vcard },
        IqHandler { at: IqTarget::Account, name: "vcard", ns: ns::VCARD4, run: vcard4 },
    ],
};

/// Entities that may see a vCard may see its picture: all.
const OPEN: &[(&str, &str)] = &[("pubsub#access_model", "open")];

/// The id of the one item of a vCard and of its hash.
const CURRENT: &str = "current";

/// The picture of a vCard.
pub(super) struct Photo {
    /// SHA-1 of the picture's bytes, in hexadecimal digits: the name of the avatar in presence and in nodes.
    hash: Box<str>,
    kind: Box<str>,
    /// Base64 without white space.
    data: Box<str>,
    /// The size of the picture.
    bytes: usize,
}

impl Photo {
    /// A picture from its base64 text. `None`: it is not base64, or empty.
    fn new(kind: &str, data: &str) -> Option<Photo> {
        let data: String = data.split_ascii_whitespace().collect();
        let bytes = BASE64_STANDARD.decode(&data).ok().filter(|bytes| !bytes.is_empty())?;
        let kind = if kind.is_empty() { "image/png" } else { kind };
        Some(Photo {
            hash: hex::encode(&Sha1::digest(&bytes)).into(),
            kind: kind.into(),
            data: data.into(),
            bytes: bytes.len(),
        })
    }

    /// `Ok(None)`: the vCard has none.
    fn of(vcard: &Element) -> Result<Option<Photo>, StanzaError> {
        let photo = vcard.get("PHOTO", ns::VCARD);
        let data = photo.and_then(|photo| photo.content_of("BINVAL", ns::VCARD));
        let Some((photo, data)) = photo.zip(data.filter(|data| !data.trim().is_empty())) else {
            return Ok(None);
        };
        let kind = photo.content_of("TYPE", ns::VCARD).unwrap_or_default();
        let wrong = || StanzaError::new(Condition::BadRequest, "the photo is not base64");
        Photo::new(kind.trim(), &data).map(Some).ok_or_else(wrong)
    }

    /// The picture as a vCard has it.
    fn element(&self) -> Element {
        let text = |name: &'static str, text: &str| Element::new(name, ns::VCARD).text(text);
        Element::new("PHOTO", ns::VCARD).child(text("TYPE", &self.kind)).child(text("BINVAL", &self.data))
    }

    /// The picture as the node of metadata names it (XEP-0084 §4.2). Width and height are optional and would
    /// need a decoder.
    fn metadata(&self) -> Element {
        let info = Element::new("info", ns::AVATAR_METADATA)
            .with("id", self.hash.clone())
            .with("type", self.kind.clone())
            .with("bytes", self.bytes.to_string());
        Element::new("metadata", ns::AVATAR_METADATA).child(info)
    }
}

/// The handler of `<vCard/>`: reads it for any sender, and writes that of the account itself.
fn vcard(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if !iq.is_set {
        return IqReply::Perform(IqEffect::ReadVcard);
    }
    if let Err(error) = may_set(view.accounts, iq) {
        return IqReply::Error(error);
    }
    match Photo::of(iq.payload) {
        Ok(photo) => {
            let effect = write(view.now, &iq.to.bare(), iq.payload.clone(), photo, Some(iq.iq.clone()));
            IqReply::Perform(IqEffect::Avatar(effect))
        }
        Err(error) => IqReply::Error(error),
    }
}

/// Reads the vCard of the account that is asked, and answers. Any sender may read it (XEP-0054 §3).
pub(super) fn read(store: &mut StoreRequests, iq: &IqRequest<'_>, out: &mut Outbox) {
    let (question, is_own) = (iq.iq.clone(), iq.from.bare() == iq.to.bare());
    load_newest(store, &iq.to.bare(), ns::VCARD, out, move |_, _, newest, out| {
        outgoing::answer(&question, found(newest, is_own), out);
    });
}

/// XEP-0054 §3: the answer does not show whether there is such an account.
fn found(newest: Result<Option<Element>, StanzaError>, is_own: bool) -> Result<Option<Element>, StanzaError> {
    let none = if is_own { Condition::ItemNotFound } else { Condition::ServiceUnavailable };
    newest.and_then(|vcard| vcard.map(Some).ok_or_else(|| none.into()))
}

/// True if a stanza for an account sets its vCard, as only the account itself may.
pub(super) fn sets_vcard(iq: &Element) -> bool {
    iq.attr("type") == Some("set")
        && (iq.get("vCard", ns::VCARD).is_some() || iq.get("vcard", ns::VCARD4).is_some())
}

/// Checks that the sender may set the vCard of the account, and its size.
fn may_set(accounts: &AccountMemory, iq: &IqRequest<'_>) -> Result<(), StanzaError> {
    if iq.from.bare() != iq.to.bare() {
        return Err(Condition::Forbidden.into());
    }
    if accounts.is_anonymous(&iq.to.bare()) {
        return Err(StanzaError::new(Condition::NotAllowed, "anonymous accounts have no vCard"));
    }
    if iq.payload.to_bytes(ns::CLIENT).len() > limits::ITEM {
        return Err(StanzaError::new(Condition::NotAcceptable, "the vCard is too big: use a smaller photo"));
    }
    Ok(())
}

/// XEP-0292: the same as its node has.
fn vcard4(view: &mut IqView<'_>, iq: &IqRequest<'_>) -> IqReply {
    if !iq.is_set {
        return IqReply::Perform(IqEffect::ViewNodes(read4(iq)));
    }
    if let Err(error) = may_set(view.accounts, iq) {
        return IqReply::Error(error);
    }
    let publication =
        Publication { node: ns::VCARD4_NODE, id: CURRENT.into(), payload: iq.payload.clone(), options: OPEN };
    IqReply::Perform(IqEffect::PublishVcard4(Box::new(publication)))
}

/// Answers from the node of XEP-0292, if its access model lets the sender read it.
fn read4(iq: &IqRequest<'_>) -> ViewContinuation {
    let (owner, is_own, question) = (iq.to.bare(), iq.from.bare() == iq.to.bare(), iq.iq.clone());
    Box::new(move |store, nodes, out| match nodes {
        Ok(nodes) if nodes.may_read(ns::VCARD4_NODE) => {
            load_newest(store, &owner, ns::VCARD4_NODE, out, move |_, _, newest, out| {
                let vcard = newest.map(|item| item.and_then(|item| item.first().cloned()));
                outgoing::answer(&question, found(vcard, is_own), out);
            });
        }
        nodes => outgoing::answer(&question, found(nodes.map(|_| None), is_own), out),
    })
}

/// The writes when a client sets its vCard. Its picture is shown in presence; nodes of XEP-0084 have their own.
pub(crate) fn imported(owner: &Bare, vcard: &Element, at: Instant) -> Result<Vec<Change>, &'static str> {
    let photo = Photo::of(vcard).ok().filter(|_| vcard.to_bytes(ns::CLIENT).len() <= limits::ITEM);
    let photo = photo.ok_or("vCards whose picture is too large or none")?;
    let update = update(photo.as_ref().map(|photo| &*photo.hash));
    Ok(vec![
        imported::kept(owner, (ns::VCARD, CURRENT), vcard.clone(), at, 1),
        imported::kept(owner, (ns::VCARD_UPDATE, CURRENT), update, at, 1),
    ])
}

/// True for the element of presence with the hash of the avatar.
fn is_update(child: &Element) -> bool {
    child.is("x", ns::VCARD_UPDATE)
}

/// The last presence of a session, to be sent with another hash; `None`: it shows no avatar. The element of the old hash, or the empty photo
/// that said that there is none, becomes one that says nothing (XEP-0153 §4.2), whose place the new hash takes.
fn to_be_stamped(session: &Session) -> Option<Element> {
    let mut presence = session.presence().filter(|_| !session.hides_avatar)?;
    if presence.elements().any(is_update) {
        presence.remove_children(is_update);
        presence.push(Element::new("x", ns::VCARD_UPDATE));
    }
    Some(presence)
}

/// The element of presence with the hash of the avatar (XEP-0153 §3); without a hash it says that there is none.
fn update(hash: Option<&str>) -> Element {
    let photo = Element::new("photo", ns::VCARD_UPDATE).text(hash.unwrap_or_default());
    Element::new("x", ns::VCARD_UPDATE).child(photo)
}

/// The feature: the hashes of accounts' avatars. It is told of writes and publications and returns effects.
pub(super) struct Avatars {
    /// The hash of each account's avatar, by the hash of the account's address; `None` inside: the account has none. An account that is
    /// not in the cache is read again when it signs in.
    hashes: Cache<u64, Option<Box<str>>, HashedKeys>,
    /// Hashes addresses, under a secret of its own.
    addresses: RandomState,
}

/// A vCard that is being written, and apart from it the hash of its photo, which is read at every sign-in.
pub(super) struct VcardWrite {
    user: Bare,
    photo: Option<Photo>,
    /// The write of the hash, until it is begun.
    update: Option<Change>,
    /// The request of the client that set the vCard. `None`: the photo is from the node of XEP-0084.
    iq: Option<Element>,
}

/// Everything that [`Avatars`] asks of its host.
pub(super) enum AvatarEffect {
    /// Write to the store; answered by `handle_written`.
    Write(Change, Box<VcardWrite>),
    /// Answer the request.
    Answer(Element, Result<(), StanzaError>),
    /// Send the presence of the account's sessions again.
    Show(Bare),
    /// Publish the first, and when it is stored the second. Notifications are not sent for a picture that was
    /// not stored; the vCard has it in any case.
    Publish(Bare, Box<Publication>, Option<Box<Publication>>),
    /// Read the data of a published avatar; answered by `handle_data`.
    ReadData(Bare, PublishedAvatar),
    /// Read the vCard; answered by `handle_vcard`.
    ReadVcard(Bare, Option<Photo>),
}

/// The hash and the media type of an avatar, as its metadata say them.
pub(super) struct PublishedAvatar {
    id: Box<str>,
    kind: Box<str>,
}

impl Default for Avatars {
    fn default() -> Avatars {
        Avatars { hashes: Cache::of_hashes(limits::AVATARS), addresses: RandomState::new() }
    }
}

impl Avatars {
    /// The hash of an account's avatar, if it is known; `None` inside: the account has none.
    fn hash_of(&self, user: &Bare) -> Option<&Option<Box<str>>> {
        self.hashes.get(&self.addresses.hash_one(user))
    }

    fn remember(&mut self, user: &Bare, hash: Option<Box<str>>) {
        self.hashes.insert(self.addresses.hash_one(user), hash);
    }

    /// Forgets the avatars of all accounts: they are read again.
    pub(super) fn forget_all(&mut self) {
        *self = Avatars::default();
    }

    /// The account's data was read, and the avatar hash of its presence with it. True: it has one, which is
    /// news.
    pub(super) fn handle_loaded(&mut self, user: &Bare, update: Option<&Element>) -> bool {
        if self.hash_of(user).is_some() {
            return false;
        }
        let hash = update.and_then(|update| update.content_of("photo", ns::VCARD_UPDATE));
        let hash: Option<Box<str>> = hash.filter(|hash| !hash.is_empty()).map(Box::from);
        let is_there = hash.is_some();
        self.remember(user, hash);
        is_there
    }

    /// XEP-0398 §4: clients that look for avatars in presence find them, whatever the sending client
    /// supports. True: the client says that it shows none, and the presence stays as it is.
    pub(super) fn stamp(&self, user: &Bare, presence: &mut Element) -> bool {
        // XEP-0398, "Presence Broadcast": the hash is in "every available presence that does not contain an empty photo element".
        let hides = |child: &Element| {
            is_update(child)
                && child.content_of("photo", ns::VCARD_UPDATE).is_some_and(|hash| hash.trim().is_empty())
        };
        if presence.elements().any(hides) {
            return true;
        }
        let Some(hash) = self.hash_of(user) else { return false };
        if hash.is_some() || presence.elements().any(is_update) {
            presence.remove_children(is_update);
            presence.push(update(hash.as_deref()));
        }
        false
    }

    /// True if the account is known to have an avatar.
    pub(super) fn has_avatar(&self, user: &Bare) -> bool {
        self.hash_of(user).is_some_and(Option::is_some)
    }

    /// The account has published an item of this node.
    pub(super) fn handle_publication(
        &self,
        user: &Bare,
        node: &str,
        payload: &Element,
    ) -> Option<AvatarEffect> {
        let is_metadata = node == ns::AVATAR_METADATA && payload.is("metadata", ns::AVATAR_METADATA);
        if is_metadata { self.handle_metadata(user, payload) } else { None }
    }

    /// Metadata of an avatar were published. XEP-0398: the avatar goes into the vCard.
    fn handle_metadata(&self, user: &Bare, metadata: &Element) -> Option<AvatarEffect> {
        // An avatar that is elsewhere cannot be shown in a vCard.
        let info = metadata.elements().find(|child| child.name() == "info" && child.attr("url").is_none());
        let Some((id, kind)) = info.and_then(|info| Some((info.attr("id")?, info.attr("type")))) else {
            let is_removal = info.is_none() && metadata.elements().next().is_none();
            return if is_removal { self.set_photo(user, None) } else { None };
        };
        let is_known = self.hash_of(user).is_some_and(|hash| hash.as_deref() == Some(id));
        let avatar = PublishedAvatar { id: id.into(), kind: kind.unwrap_or_default().into() };
        (!is_known).then(|| AvatarEffect::ReadData(user.clone(), avatar))
    }

    /// The data of a published avatar were read. `item`: of the node of avatars' data.
    fn handle_data(&self, user: &Bare, avatar: &PublishedAvatar, item: &Element) -> Option<AvatarEffect> {
        let photo = Photo::new(&avatar.kind, &item.content_of("data", ns::AVATAR_DATA)?)?;
        // An id that is not the hash of the data would show another picture than it says.
        if photo.hash == avatar.id { self.set_photo(user, Some(photo)) } else { None }
    }

    /// Begins to put a photo into the vCard, or to take it out, unless it is known that there is none.
    fn set_photo(&self, user: &Bare, photo: Option<Photo>) -> Option<AvatarEffect> {
        let is_known = photo.is_none() && self.hash_of(user) == Some(&None);
        (!is_known).then(|| AvatarEffect::ReadVcard(user.clone(), photo))
    }

    /// The vCard or the hash was written. The order: vCard, hash, presence, answer, nodes; a vCard that a node has caused
    /// is not published again.
    fn handle_written(
        &mut self,
        mut write: Box<VcardWrite>,
        result: Result<(), StoreFailure>,
    ) -> Vec<AvatarEffect> {
        if result.is_ok()
            && let Some(update) = write.update.take()
        {
            return vec![AvatarEffect::Write(update, write)];
        }
        let VcardWrite { user, photo, iq, .. } = *write;
        let hash = photo.as_ref().map(|photo| photo.hash.clone());
        let mut effects = Vec::new();
        let is_new = result.is_ok() && self.hash_of(&user) != Some(&hash);
        if is_new {
            self.remember(&user, hash);
            effects.push(AvatarEffect::Show(user.clone()));
        }
        if let Some(iq) = iq {
            effects.push(AvatarEffect::Answer(iq, result.map_err(not_written)));
            effects.extend(is_new.then(|| publish(user, photo.as_ref())));
        }
        effects
    }
}

/// Begins to write a vCard.
fn write(
    now: Instant,
    user: &Bare,
    vcard: Element,
    photo: Option<Photo>,
    iq: Option<Element>,
) -> AvatarEffect {
    let item = |node: &str, item: Element| Change::Item {
        owner: user.clone(),
        node: node.into(),
        id: CURRENT.into(),
        item: Some(Box::new(item)),
        at: now,
        keep: 1,
    };
    let update = item(ns::VCARD_UPDATE, update(photo.as_ref().map(|photo| &*photo.hash)));
    let write = VcardWrite { user: user.clone(), photo, update: Some(update), iq };
    AvatarEffect::Write(item(ns::VCARD, vcard), Box::new(write))
}

/// Puts the photo into the vCard as it was read. `vcard`: `None` when there is none yet.
fn handle_vcard(now: Instant, user: &Bare, vcard: Option<Element>, photo: Option<Photo>) -> AvatarEffect {
    let mut vcard = vcard.unwrap_or_else(|| Element::new("vCard", ns::VCARD));
    vcard.remove_children(|child| child.is("PHOTO", ns::VCARD));
    if let Some(photo) = &photo {
        vcard.push(photo.element());
    }
    write(now, user, vcard, photo, None)
}

/// Publishes the photo of a vCard in the nodes of XEP-0084, as XEP-0398 asks for: first the data, then the metadata that name them.
fn publish(user: Bare, photo: Option<&Photo>) -> AvatarEffect {
    let publication = |node: &'static str, id: &str, payload: Element| {
        Box::new(Publication { node, id: id.into(), payload, options: OPEN })
    };
    let Some(photo) = photo else {
        let metadata = Element::new("metadata", ns::AVATAR_METADATA);
        return AvatarEffect::Publish(user, publication(ns::AVATAR_METADATA, CURRENT, metadata), None);
    };
    let data = Element::new("data", ns::AVATAR_DATA).text(photo.data.clone());
    let data = publication(ns::AVATAR_DATA, &photo.hash, data);
    let metadata = publication(ns::AVATAR_METADATA, &photo.hash, photo.metadata());
    AvatarEffect::Publish(user, data, Some(metadata))
}

/// A client has signed in to an account that is in memory already: its presence will need the hash.
pub(super) fn load_avatar(
    store: &mut StoreRequests,
    (avatars, accounts): (&Avatars, &AccountMemory),
    user: &Bare,
    out: &mut Outbox,
) {
    if avatars.hash_of(user).is_some() || accounts.is_anonymous(user) {
        return;
    }
    let user = user.clone();
    load_newest(store, &user.clone(), ns::VCARD_UPDATE, out, move |host, now, newest, out| {
        // When it cannot be read, presence goes as the client wrote it.
        let Ok(newest) = newest else { return };
        if host.avatars.handle_loaded(&user, newest.as_ref()) {
            perform(host, now, vec![AvatarEffect::Show(user)], out);
        }
    });
}

/// Performs effects of [`Avatars`]; the store's replies go back into it.
pub(super) fn perform(
    host: &mut Host,
    now: Instant,
    effects: impl IntoIterator<Item = AvatarEffect>,
    out: &mut Outbox,
) {
    for effect in effects {
        match effect {
            AvatarEffect::Write(change, write) => {
                host.store.change(change, out, move |host, now, result, out| {
                    let effects = host.avatars.handle_written(write, result);
                    perform(host, now, effects, out);
                });
            }
            AvatarEffect::Answer(iq, result) => outgoing::answer(&iq, result.map(|()| None), out),
            AvatarEffect::Show(user) => {
                for key in host.accounts.keys_of(&user, Session::is_available) {
                    if let Some(last) = host.accounts.sessions.get(key).and_then(to_be_stamped) {
                        presence::perform(host, now, PresenceEffect::Available(key, last), out);
                    }
                }
            }
            AvatarEffect::Publish(user, first, second) => {
                let owner = user.clone();
                host.publish_for(now, &user, *first, out, move |host, now, result, out| {
                    if let (Ok(()), Some(second)) = (result, second) {
                        host.publish_for(now, &owner, *second, out, |_, _, _, _| {});
                    }
                });
            }
            AvatarEffect::ReadData(user, avatar) => {
                let query = Box::new(ItemQuery::of_id(&avatar.id));
                let load = Load::Items { owner: user.clone(), node: ns::AVATAR_DATA.into(), query };
                host.store.load(load, out, move |host, now, result, out| {
                    let item = items_of(result).ok().and_then(|page| page.items.into_iter().next());
                    let effect =
                        item.and_then(|(_, _, item)| host.avatars.handle_data(&user, &avatar, &item));
                    perform(host, now, effect, out);
                });
            }
            AvatarEffect::ReadVcard(user, photo) => {
                load_newest(&mut host.store, &user.clone(), ns::VCARD, out, move |host, _, newest, out| {
                    // When it cannot be read it must not be overwritten either.
                    let Ok(vcard) = newest else { return };
                    let effect = handle_vcard(now, &user, vcard, photo);
                    perform(host, now, [effect], out);
                });
            }
        }
    }
}
