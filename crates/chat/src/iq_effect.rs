//! The requests that accounts and settings alone cannot answer. A handler checks its request and says by an [`IqEffect`] which
//! feature goes on with it; the feature replies when it has what it needs.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::StanzaError;
use xmpp::{Bare, Element};

use super::blocking::{self, BlockingCommand};
use super::effect::{CallHistoryQuery, VoicemailRequest};
use super::feature::{IqRequest, IqView};
use super::offline::OfflineEffect;
use super::private::PrivateEffect;
use super::pubsub::{NodesView, PubSubEvent, Publication, ViewContinuation};
use super::push::PushRequest;
use super::register::AccountRequest;
use super::roster::RosterAction;
use super::upload::UploadRequest;
use super::vcard::AvatarEffect;
use super::{
    Host, Outbox, archive, calls, offline, private, register, roster, route, upload, vcard, voicemail,
};
use crate::outgoing;

/// The effect of a request that is not answered at once.
pub(super) enum IqEffect {
    /// Deliver the reply to the session that asks, past the router as pushes are: else a push could overtake it.
    Deliver(Key, Element),
    /// Ask the account this in its own name: the request of a privileged component is in it.
    AskAccount(Element),
    /// Read the sender's own archive.
    ReadArchive,
    /// Read or change the preferences of the sender's own archive.
    ArchivePreferences,
    /// Change the sender's blocking list.
    Block(BlockingCommand),
    /// Read a page of the sender's own calls.
    ReadCalls(CallHistoryQuery),
    /// Run a command of the domain that is asked, or go on with it.
    Command,
    /// View the nodes of the account that is asked; the continuation answers.
    ViewNodes(ViewContinuation),
    /// The retrieval of offline messages.
    RetrieveOffline,
    /// An effect of the offline messages of the account that is asked.
    Offline(OfflineEffect),
    /// Read or write private data.
    Private(PrivateEffect),
    /// The nodes of the account that is asked handle the request.
    PubSub,
    /// Handle a request about the clients that want notifications.
    Push(PushRequest),
    /// Change or remove the sender's account.
    Register(Key, AccountRequest),
    /// Change a contact of the account that is asked.
    Roster(Bare, RosterAction),
    /// Read the vCard of the account that is asked.
    ReadVcard,
    /// Publish the sender's vCard in its node (XEP-0292).
    PublishVcard4(Box<Publication>),
    /// Write the sender's vCard, with the avatar that is in it.
    Avatar(AvatarEffect),
    /// Grant a slot for a file.
    Upload(UploadRequest),
    /// Read or change the sender's own voicemail.
    Voicemail(VoicemailRequest),
}

/// The payload with which a request is answered at once; `None`: the answer follows.
pub(super) type EffectReply = Result<Option<Element>, StanzaError>;

/// Performs the effect of a request.
pub(super) fn perform(host: &mut Host, now: Instant, iq: &IqRequest<'_>, effect: IqEffect, out: &mut Outbox) {
    let reply = match effect {
        IqEffect::Deliver(key, reply) => return host.deliver(now, &[key], reply, out),
        IqEffect::AskAccount(inner) => {
            let account = iq.to.bare().into_jid();
            return route::ask(host, now, &inner, &account, &account, None, out);
        }
        IqEffect::ReadArchive => {
            let parts = (&mut host.accounts, &mut host.store);
            return archive::handle_query(parts, &iq.to.bare(), iq.iq, out);
        }
        IqEffect::ArchivePreferences => {
            let archives = (&host.archive, host.settings.archive);
            archive::handle_preferences(archives, (&host.accounts, &mut host.store), now, iq, out)
        }
        IqEffect::Block(command) => {
            let turn = blocking::queue_change(&mut host.accounts, iq, command);
            turn.map(|job| job.into_iter().for_each(|job| job(host, now, out))).map(|()| None)
        }
        IqEffect::ReadCalls(query) => return calls::read(&mut host.store, iq, query, out),
        IqEffect::Voicemail(request) => return voicemail::ask(&mut host.store, iq, request, out),
        IqEffect::Command => perform_command(host, now, iq, out),
        IqEffect::ViewNodes(then) => {
            let (owner, then) = (iq.to.bare(), host.feature_continuations.insert_view(then));
            return host.tell_pubsub(now, PubSubEvent::View { owner: &owner, from: iq.from, then }, out);
        }
        IqEffect::RetrieveOffline => {
            let user = iq.to.bare();
            let effect = host.offline.handle_request(&user, iq);
            effect.map(|effect| offline::perform(host, now, &user, effect, out)).map(|()| None)
        }
        IqEffect::Offline(effect) => return offline::perform(host, now, &iq.to.bare(), effect, out),
        IqEffect::Private(effect) => return private::perform(host, now, effect, out),
        IqEffect::PubSub => return host.tell_pubsub(now, for_nodes(iq), out),
        IqEffect::Push(request) => {
            let context = (&mut host.accounts, &mut host.store, &mut host.rng);
            return host.push.handle_request(now, context, (iq.to.bare(), request), out);
        }
        IqEffect::Register(key, request) => {
            return register::perform(&mut host.store, (key, iq), request, out);
        }
        IqEffect::Roster(contact, action) => {
            let turn = roster::queue_change(&mut host.accounts, &iq.to.bare(), (contact, action));
            turn.map(|job| job.into_iter().for_each(|job| job(host, now, out))).map(|()| None)
        }
        IqEffect::ReadVcard => return vcard::read(&mut host.store, iq, out),
        IqEffect::PublishVcard4(publication) => {
            let then = outgoing::answer_written(iq.iq.clone());
            return host.publish_for(now, &iq.to.bare(), *publication, out, then);
        }
        IqEffect::Avatar(effect) => return vcard::perform(host, now, [effect], out),
        IqEffect::Upload(request) => {
            let effect = host.upload.handle_request(now, request, host.settings.uploads);
            return upload::perform(&mut host.store, effect, out);
        }
    };
    if reply != Ok(None) {
        outgoing::answer(iq.iq, reply, out);
    }
}

fn perform_command(host: &mut Host, now: Instant, iq: &IqRequest<'_>, out: &mut Outbox) -> EffectReply {
    let Host { settings, accounts, privileged, commands, store, rng, .. } = host;
    let view = IqView { now, settings, accounts, nested: privileged.nested() };
    commands.handle(&view, (store, rng), iq, out)
}

/// The request, for the nodes of the account that is asked.
fn for_nodes<'a>(iq: &IqRequest<'a>) -> PubSubEvent<'a> {
    PubSubEvent::Request { iq: iq.iq, from: iq.from, to: iq.to }
}

/// The answer to a request from the nodes of the account that is asked, as its sender may see them.
pub(super) fn answer_from_nodes(
    iq: &IqRequest<'_>,
    describe: impl FnOnce(NodesView, &Bare) -> Result<Element, StanzaError> + 'static,
) -> ViewContinuation {
    let (owner, question) = (iq.to.bare(), iq.iq.clone());
    Box::new(move |_, nodes, out| {
        let answer = nodes.and_then(|nodes| describe(nodes, &owner));
        outgoing::answer(&question, answer.map(Some), out);
    })
}
