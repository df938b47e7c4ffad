//! The requests that accounts and settings alone cannot answer. A handler checks its request and says by an [`IqEffect`] which
//! feature goes on with it; the feature replies when it has what it needs.

use stdx::Instant;
use stdx::slab::Key;
use xmpp::stanza::StanzaError;
use xmpp::{Bare, Element};

use super::blocking::{self, BlockingCommand};
use super::feature::IqRequest;
use super::offline::OfflineEffect;
use super::private::PrivateEffect;
use super::pubsub::{NodesView, PubSubEvent, Publication, ViewContinuation};
use super::push::{PushEffect, PushTask};
use super::register::AccountRequest;
use super::roster::RosterAction;
use super::upload::UploadRequest;
use super::vcard::AvatarEffect;
use super::{Host, Outbox, archive, offline, private, pubsub, push, register, roster, upload, vcard};

/// The effect of a request that is not answered at once.
pub(super) enum IqEffect {
    /// Deliver the reply to the session that asks, past the router as pushes are: else a push could overtake it.
    Deliver(Key, Element),
    /// Read the sender's own archive.
    ReadArchive,
    /// Change the sender's blocking list.
    Block(BlockingCommand),
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
    /// Store a client that wants notifications.
    EnablePush(PushEffect),
    /// Begin a task with the clients that want notifications.
    Push(PushTask),
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
}

/// Performs the effect of a request.
pub(super) fn perform(host: &mut Host, now: Instant, iq: &IqRequest<'_>, effect: IqEffect, out: &mut Outbox) {
    let result = match effect {
        IqEffect::Deliver(key, reply) => return host.deliver(now, key, reply, out),
        IqEffect::ReadArchive => return archive::handle_query(host, &iq.to.bare(), iq.iq, out),
        IqEffect::Block(command) => blocking::change_blocked(host, now, iq, command, out),
        IqEffect::ViewNodes(then) => {
            return pubsub::view_nodes(host, now, (&iq.to.bare(), iq.from), then, out);
        }
        IqEffect::RetrieveOffline => {
            let user = iq.to.bare();
            let effect = host.offline.handle_request(&user, iq);
            effect.map(|effect| offline::perform(host, now, &user, effect, out))
        }
        IqEffect::Offline(effect) => return offline::perform(host, now, &iq.to.bare(), effect, out),
        IqEffect::Private(effect) => return private::perform(host, now, effect, out),
        IqEffect::PubSub => {
            let event = PubSubEvent::Request { iq: iq.iq, from: iq.from, to: iq.to };
            return host.tell_pubsub(now, event, out);
        }
        IqEffect::EnablePush(effect) => return push::perform(host, vec![effect], out),
        IqEffect::Push(task) => {
            let effects = host.push.begin(now, iq.to.bare(), task);
            return push::perform(host, effects, out);
        }
        IqEffect::Register(key, request) => {
            return register::perform(&mut host.store, key, iq, request, out);
        }
        IqEffect::Roster(contact, action) => {
            roster::change_contact(host, now, &iq.to.bare(), (contact, action), out)
        }
        IqEffect::ReadVcard => return vcard::read(&mut host.store, iq, out),
        IqEffect::PublishVcard4(publication) => {
            let question = iq.iq.clone();
            return host.publish_for(now, &iq.to.bare(), *publication, out, move |host, _, result, out| {
                host.answer(&question, result.map(|()| None), out);
            });
        }
        IqEffect::Avatar(effect) => return vcard::perform(host, now, [effect], out),
        IqEffect::Upload(request) => {
            let effect = host.upload.handle_request(now, request, host.settings.uploads);
            return upload::perform(host, effect, out);
        }
    };
    if let Err(error) = result {
        host.refuse(iq.iq, &error, out);
    }
}

/// The answer to a request from the nodes of the account that is asked, as its sender may see them.
pub(super) fn answer_from_nodes(
    iq: &IqRequest<'_>,
    describe: impl FnOnce(NodesView, &Bare) -> Result<Element, StanzaError> + 'static,
) -> ViewContinuation {
    let (owner, question) = (iq.to.bare(), iq.iq.clone());
    Box::new(move |host, nodes, out| {
        let answer = nodes.and_then(|nodes| describe(nodes, &owner));
        host.answer(&question, answer.map(Some), out);
    })
}
