//! The table of features: the features that each announces and the requests that it answers. `route::ask` finds the handler of an iq here,
//! `disco` the features, and the compliance page the specifications. A new feature with requests needs its line in [`FEATURES`].

use privilege::NestedDiscovery;
use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::StanzaError;
use xmpp::{Element, Jid, Specification};

use super::HostSettings;
use super::account_memory::AccountMemory;
use super::iq_effect::IqEffect;

/// The kind of this server's addresses at which a request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IqTarget {
    /// An account's bare address: its own, from one of its sessions.
    Own,
    /// An account's bare address, from any sender.
    Account,
    /// A domain that we serve.
    Server,
}

/// A request (an iq of type `get` or `set`), for its handler.
pub(super) struct IqRequest<'a> {
    pub(super) iq: &'a Element,
    /// Its only child, by whose name and namespace the handler was found.
    pub(super) payload: &'a Element,
    pub(super) from: &'a Jid,
    /// The address that was asked; the account of the session when the iq has none.
    pub(super) to: &'a Jid,
    /// The session that asks, when it is one of ours.
    pub(super) session: Option<Key>,
    /// Its type is `set`, else `get`.
    pub(super) is_set: bool,
}

/// The reply of a handler, or what it depends on.
#[expect(
    clippy::large_enum_variant,
    reason = "a reply lives on the stack for one call, where a box would cost an allocation"
)]
pub(super) enum IqReply {
    /// The answer, with its payload if it has one.
    Result(Option<Element>),
    Error(StanzaError),
    /// The host performs the effect, and the reply follows from it.
    Perform(IqEffect),
    /// The reply follows.
    Later,
}

/// The function of a handler. It answers from the accounts and the settings, or says by an effect which feature goes on.
pub(super) type IqHandlerFn = fn(&mut IqView<'_>, &IqRequest<'_>) -> IqReply;

/// The parts of a host from which most requests are answered.
pub(super) struct IqView<'a> {
    pub(super) now: Instant,
    pub(super) settings: &'a HostSettings,
    pub(super) accounts: &'a mut AccountMemory,
    /// The features of namespaces that components answer.
    pub(super) nested: &'a NestedDiscovery,
}

/// Answers a question with this payload.
pub(super) struct IqHandler {
    pub(super) at: IqTarget,
    pub(super) name: &'static str,
    pub(super) ns: &'static str,
    pub(super) run: IqHandlerFn,
}

/// The announcement of one feature.
pub(super) struct Feature {
    pub(super) specifications: &'static [Specification],
    /// Announced by accounts and by the server (XEP-0030).
    pub(super) account: &'static [&'static str],
    pub(super) server: &'static [&'static str],
    pub(super) handles: &'static [IqHandler],
}

/// All, in the order of their names.
pub(super) const FEATURES: &[&Feature] = &[
    &super::archive::FEATURE,
    &super::blocking::FEATURE,
    &super::bytestreams::FEATURE,
    &super::calls::FEATURE,
    &super::caps::FEATURE,
    &super::carbons::FEATURE,
    &super::commands::FEATURE,
    &super::csi::FEATURE,
    &super::disco::FEATURE,
    &super::extdisco::FEATURE,
    &super::hints::FEATURE,
    &super::invite::FEATURE,
    &super::last::FEATURE,
    &super::legacy_session::FEATURE,
    &super::muc::FEATURE,
    &super::offline::FEATURE,
    &super::phones::FEATURE,
    &super::ping::FEATURE,
    &super::presence::FEATURE,
    &super::private::FEATURE,
    &super::pubsub::FEATURE,
    &super::push::FEATURE,
    &super::register::FEATURE,
    &super::reports::FEATURE,
    &super::retract::FEATURE,
    &super::roster::FEATURE,
    &super::sm::FEATURE,
    &super::upload::FEATURE,
    &super::vcard::FEATURE,
    &super::voicemail::FEATURE,
];

pub(super) fn find(at: IqTarget, payload: &Element) -> Option<IqHandlerFn> {
    let handles = FEATURES.iter().flat_map(|feature| feature.handles);
    let mut fitting = handles.filter(|handle| handle.at == at && payload.is(handle.name, handle.ns));
    fitting.next().map(|handle| handle.run)
}

/// The specifications that features implement, for `docs/compliance.md`.
pub fn specifications() -> impl Iterator<Item = &'static Specification> {
    FEATURES.iter().flat_map(|feature| feature.specifications)
}
