//! The boundary of the machine: events of the host, and the effects that they have.

use std::rc::Rc;

use xmpp::stanza::StanzaError;
use xmpp::{Bare, Element, Jid};

use super::context::NodesView;
use super::notify::Notification;
use super::publish::Publication;
use super::request::PendingRequest;
use super::service::ServiceRequest;
use super::state::{PubSubRead, PubSubWrite};
use super::store::{NodeChange, NodeLoad};
use super::subscribe::Approval;

/// The number of a request that another feature of the host makes: the effect that answers it has the same. Each is answered once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FeatureRequest(pub u64);

/// An event for [`PubSub`](crate::PubSub).
pub enum PubSubEvent<'a> {
    /// A request with `<pubsub/>` to an account or a service.
    Request {
        /// The request.
        iq: &'a Element,
        /// Its sender.
        from: &'a Jid,
        /// The owner of the nodes.
        to: &'a Jid,
    },
    /// A stanza for a service.
    ServiceStanza {
        /// The stanza.
        stanza: &'a Element,
        /// Its sender.
        from: &'a Jid,
        /// Its addressee: the service, or an address at its domain.
        to: &'a Jid,
    },
    /// A request of service discovery to a service.
    ServiceRequest(ServiceRequest, &'a Jid),
    /// An owner has decided on a pending subscription (XEP-0060 §8.6).
    Approval {
        /// The decision.
        approval: Approval,
        /// Its sender.
        from: &'a Jid,
        /// The owner of the node.
        to: &'a Jid,
    },
    /// A presence that an account of ours got, or one of its sessions sent.
    Presence {
        /// The account.
        user: &'a Bare,
        /// The client whose presence it is.
        from: &'a Jid,
        /// The presence.
        presence: &'a Element,
    },
    /// From now on the contact sees the account's presence, and perhaps its nodes.
    ContactAdded {
        /// The account.
        user: &'a Bare,
        /// The contact.
        contact: &'a Bare,
    },
    /// The features of clients with this hash are known from now on.
    FeaturesKnown {
        /// The hash.
        ver: &'a str,
    },
    /// A client with known features sees the account, whose data are in memory.
    ClientSeen {
        /// The account.
        user: &'a Bare,
        /// The client.
        client: &'a Jid,
        /// The hash of its features.
        ver: &'a str,
    },
    /// An account was removed.
    UserRemoved {
        /// The account.
        user: &'a Bare,
    },
    /// Another feature publishes something for an account: [`PubSubEffect::Done`].
    Publish {
        /// The account.
        owner: &'a Bare,
        /// The item and its node.
        publication: Publication,
        /// The feature's request.
        then: FeatureRequest,
    },
    /// Another feature retracts the items that exist; others are ignored: [`PubSubEffect::Done`].
    Retract {
        /// The account.
        owner: &'a Bare,
        /// The name of the node.
        node: &'static str,
        /// The ids of the items.
        ids: Vec<Box<str>>,
        /// The feature's request.
        then: FeatureRequest,
    },
    /// Another feature reads nodes on behalf of a requester: [`PubSubEffect::View`].
    View {
        /// The owner of the nodes.
        owner: &'a Bare,
        /// The requester.
        from: &'a Jid,
        /// The feature's request.
        then: FeatureRequest,
    },
}

/// Everything that [`PubSub`](crate::PubSub) asks of its host.
pub enum PubSubEffect {
    /// Read from the store; answered by [`PubSub::handle_loaded`](crate::PubSub::handle_loaded).
    Load(NodeLoad, PubSubRead),
    /// Change the store; answered by [`PubSub::handle_written`](crate::PubSub::handle_written).
    Write(NodeChange, Box<PubSubWrite>),
    /// Answer a stanza.
    Answer(Element, Result<Option<Element>, StanzaError>),
    /// Answer a request.
    Reply(Rc<PendingRequest>, Result<Option<Element>, StanzaError>),
    /// Send a stanza to its addressee.
    Send(Element),
    /// Send an event to the audience of a node, when the owner's roster is in memory.
    Notify(Notification),
    /// An account has published this payload: the avatar may be for the vCard, too (XEP-0398).
    Published {
        /// The account.
        owner: Bare,
        /// The name of the node.
        node: Box<str>,
        /// The child of the item.
        payload: Element,
    },
    /// Mirror bookmarks that were published or retracted (XEP-0402 §5), then answer.
    MirrorBookmarks {
        /// The request that is to be answered.
        asked: Rc<PendingRequest>,
        /// The name of the node.
        node: Box<str>,
        /// The child of the item; `None`: it was retracted.
        payload: Option<Element>,
        /// The node was made for the item.
        is_new: bool,
        /// The payload of the answer.
        answer: Option<Element>,
    },
    /// [`PubSubEvent::ClientSeen`] follows once the user's account is in memory.
    LoadAccount {
        /// The account.
        user: Bare,
        /// The client.
        client: Jid,
        /// The hash of its features.
        ver: Box<str>,
    },
    /// A feature's write is on disk, or has failed.
    Done(FeatureRequest, Result<(), StanzaError>),
    /// A feature gets the nodes.
    View(FeatureRequest, Result<NodesView, StanzaError>),
}
