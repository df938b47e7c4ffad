//! Publish-subscribe as a machine: the nodes of owners while they are in use, and the jobs that wait for them. Events and the
//! store's replies come in, [`PubSubEffect`]s go out; the host performs them.
//!
//! An owner is an account or a service. Its nodes are in `nodes` while they are in use, and in `busy` are the owners whose
//! nodes are being read or changed: jobs for these wait. Steps of an event: `handle` makes it a job, `begin` waits for the
//! owner's nodes, `run` performs it, and `handle_written` applies a change to the nodes in memory and goes on with the
//! waiting jobs.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use stdx::cache::Cache;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid};

use super::context::{NodesView, PubSubContext, Requester};
use super::interface::{FeatureRequest, PubSubEffect, PubSubEvent};
use super::items_page::ItemsPage;
use super::node::{Node, Nodes};
use super::node_batch::{BatchStep, NodeBatch};
use super::notify::{EventSource, Notification, NotifiedClients, Recipient, newest_message};
use super::owner_nodes::OwnerNodes;
use super::presences::{ClientChange, SubscriberPresences};
use super::publish::{ItemRemoval, ItemWrite, Publication, RemovalGoal, RemovalGroup};
use super::request::PendingRequest;
use super::service::{self, ServiceRequest, ServiceStanza};
use super::store::{NodeChange, NodeLoad, NodeReply, WriteFailure, items_of};
use super::subscribe::Approval;
use crate::limits;

/// The nodes of owners that are in use.
pub struct PubSub {
    /// The nodes of an owner, all or none of them: as the store has them, without subscriptions that have ended.
    nodes: Cache<Bare, OwnerNodes>,
    /// Owners whose nodes are read or changed, and the jobs that wait for that: each is judged by the
    /// current state.
    busy: HashMap<Bare, VecDeque<NodeJob>>,
    /// Clients that have been sent the newest items, or whose features are still asked for.
    clients: NotifiedClients,
    /// The presence of subscribers, as far as services know it.
    presences: SubscriberPresences,
}

/// Work on the nodes of an owner, which waits until they are in memory and no change of them is under way.
pub(crate) enum NodeJob {
    Request(Rc<PendingRequest>),
    Service(ServiceRequest),
    Approval {
        approval: Approval,
        by: Requester,
    },
    /// The client gets the newest items of these nodes.
    SendNewest {
        client: Jid,
        names: Vec<Box<str>>,
    },
    RemoveUser(Bare),
    Publish(Publication, FeatureRequest),
    Retract {
        node: &'static str,
        ids: Vec<Box<str>>,
        then: FeatureRequest,
    },
    /// Another feature reads the nodes.
    View(Requester, FeatureRequest),
}

/// The purpose of a read of the store; it comes back with the answer.
pub struct PubSubRead(pub(crate) PendingRead);

/// The purpose of a read.
pub(crate) enum PendingRead {
    /// The nodes of an owner, page by page, after the nodes that were read.
    Nodes(Bare, Nodes),
    /// Items for a request.
    Items { asked: Rc<PendingRequest>, name: Box<str>, page: ItemsPage },
    /// The ids of a node's items, for service discovery.
    ItemIds { iq: Element, owner: Bare, name: Box<str> },
    /// The newest item, for one client.
    Newest { owner: Bare, name: Box<str>, node: Rc<Node>, to: Jid },
}

/// The purpose of a write; it comes back with the outcome.
pub struct PubSubWrite(pub(crate) PendingWrite);

/// The purpose of a write.
pub(crate) enum PendingWrite {
    Node(NodeWrite),
    Item(ItemWrite),
    Removal(ItemRemoval),
}

/// A change of one node, or of all its items, that is being written: meanwhile all jobs of its owner wait.
pub(crate) struct NodeWrite {
    pub(crate) owner: Bare,
    pub(crate) name: Box<str>,
    /// `None`: the node is removed.
    pub(crate) node: Option<Node>,
    pub(crate) goal: NodeGoal,
}

/// The purpose of a [`NodeWrite`].
pub(crate) enum NodeGoal {
    /// The effects when it is on disk.
    Effects(Vec<PubSubEffect>),
    /// The effects when it is on disk, and then the answer.
    Reply { asked: Rc<PendingRequest>, effects: Vec<PubSubEffect>, payload: Option<Element> },
    /// The first item of a node that is made for it (§7.1.4).
    Publish(Box<ItemWrite>),
    /// One of several nodes that a request changes.
    Batch(Rc<RefCell<NodeBatch>>),
    /// The other nodes lose the account, too.
    RemoveUser(Bare),
}

impl NodeWrite {
    /// The effect that writes it.
    pub(crate) fn begin(self) -> PubSubEffect {
        let config = self.node.as_ref().map(|node| Box::new(node.element()));
        let change = NodeChange::Node { owner: self.owner.clone(), node: self.name.clone(), config };
        PubSubEffect::Write(change, Box::new(PubSubWrite(PendingWrite::Node(self))))
    }
}

impl Default for PubSub {
    fn default() -> PubSub {
        PubSub {
            nodes: Cache::new(limits::NODE_OWNERS),
            busy: HashMap::new(),
            clients: NotifiedClients::default(),
            presences: SubscriberPresences::default(),
        }
    }
}

impl PubSub {
    /// Forgets the nodes of all owners: they are read again.
    pub fn forget_nodes(&mut self) {
        self.nodes = Cache::new(limits::NODE_OWNERS);
    }
}

impl PubSub {
    /// The number of owners whose nodes are read or changed now.
    pub fn busy(&self) -> usize {
        self.busy.len()
    }

    /// An event. One that needs nodes becomes a job of their owner; one about clients is handled at once.
    pub fn handle(&mut self, context: &mut PubSubContext<'_>, event: PubSubEvent<'_>) -> Vec<PubSubEffect> {
        let mut effects = Vec::new();
        let (owner, job) = match event {
            PubSubEvent::Request { iq, from, to } => {
                let owner = to.bare();
                let by = context.requester(&owner, from);
                (owner.clone(), NodeJob::Request(Rc::new(PendingRequest { iq: iq.clone(), owner, by })))
            }
            PubSubEvent::ServiceStanza { stanza, from, to } => {
                return self.handle_service_stanza(context, stanza, (from, to));
            }
            PubSubEvent::ServiceRequest(request, to) => (to.bare(), NodeJob::Service(request)),
            PubSubEvent::Approval { approval, .. } if !approval.is_complete() => return effects,
            PubSubEvent::Approval { approval, from, to } => {
                let owner = to.bare();
                let by = context.requester(&owner, from);
                (owner, NodeJob::Approval { approval, by })
            }
            PubSubEvent::Publish { owner, publication, then } => {
                (owner.clone(), NodeJob::Publish(publication, then))
            }
            PubSubEvent::Retract { owner, node, ids, then } => {
                (owner.clone(), NodeJob::Retract { node, ids, then })
            }
            PubSubEvent::View { owner, from, then } => {
                (owner.clone(), NodeJob::View(context.requester(owner, from), then))
            }
            PubSubEvent::Presence { user, from, presence } => {
                if let Some(ver) = self.clients.handle_presence(context, user, from, presence) {
                    self.send_newest(context, user, from, ver, &mut effects);
                }
                return effects;
            }
            PubSubEvent::ContactAdded { user, contact } => {
                for (client, ver) in context.entities.clients_of(contact) {
                    self.send_newest(context, user, &client, &ver, &mut effects);
                }
                return effects;
            }
            PubSubEvent::FeaturesKnown { ver } => return self.clients.take_waiting(ver),
            PubSubEvent::ClientSeen { user, client, ver } => {
                self.send_newest(context, user, client, ver, &mut effects);
                return effects;
            }
            PubSubEvent::UserRemoved { user } => {
                self.remove_user(context, user, &mut effects);
                return effects;
            }
        };
        self.begin(context, &owner, job, &mut effects);
        effects
    }

    /// A stanza for a service: the events and answers that `service` makes of it.
    fn handle_service_stanza(
        &mut self,
        context: &mut PubSubContext<'_>,
        stanza: &Element,
        (from, to): (&Jid, &Jid),
    ) -> Vec<PubSubEffect> {
        match ServiceStanza::parse(stanza, from, to) {
            ServiceStanza::Event(event) => self.handle(context, event),
            ServiceStanza::Answer(result) => vec![PubSubEffect::Answer(stanza.clone(), result)],
            ServiceStanza::Presence => {
                self.handle_service_presence(context, (from, &to.bare()), stanza);
                Vec::new()
            }
            ServiceStanza::Ignore => Vec::new(),
        }
    }

    /// The answer to a request for an account that does not exist: that of an account without nodes to a stranger, so that none can tell the two
    /// apart. Nothing is read or written.
    ///
    /// # Errors
    /// The error for the requester.
    pub fn answer_without_account(
        &mut self,
        context: &mut PubSubContext<'_>,
        iq: &Element,
        (from, to): (&Jid, &Jid),
    ) -> Result<Option<Element>, StanzaError> {
        let owner = to.bare();
        let by = context.requester(&owner, from);
        let asked = Rc::new(PendingRequest { iq: iq.clone(), owner, by });
        let effects = asked.perform(context, &mut self.presences, &Rc::new(Nodes::new()))?;
        let reply = effects.into_iter().find_map(|effect| match effect {
            PubSubEffect::Reply(_, result) => Some(result),
            _ => None,
        });
        reply.unwrap_or_else(|| Err(Condition::ServiceUnavailable.into()))
    }

    /// Notes the presence that a client has sent to a service. It can end subscriptions of the client, which is away then and is not
    /// told.
    fn handle_service_presence(
        &mut self,
        context: &PubSubContext<'_>,
        (client, service): (&Jid, &Bare),
        presence: &Element,
    ) {
        // Another server can fail without sending the end of its clients' presence, and can have any number of accounts.
        if !context.entities.is_local(client.domain()) {
            return;
        }
        let change = self.presences.handle_presence(context.now, (service, client), presence);
        let (now, presences) = (context.now, &self.presences);
        if let Some(nodes) = self.nodes.get_mut(service).filter(|_| change == ClientChange::Left) {
            nodes.handle_left(&client.bare(), &|known| presences.has_ended(now, service, known));
        }
    }

    /// The recipients of a notification, each once, by the options of their subscriptions and their presence.
    pub fn audience(&self, context: &PubSubContext<'_>, notification: &Notification) -> Vec<Recipient> {
        notification.audience(context, &self.presences)
    }

    /// Runs the job with the owner's nodes: at once, or when they are read or not being changed any more.
    fn begin(
        &mut self,
        context: &mut PubSubContext<'_>,
        owner: &Bare,
        job: NodeJob,
        effects: &mut Vec<PubSubEffect>,
    ) {
        if let Some(waiting) = self.busy.get_mut(owner) {
            if waiting.len() >= limits::NODE_QUESTIONS {
                let text = "too many changes at once: wait for their answers";
                return refuse(job, StanzaError::new(Condition::ResourceConstraint, text), effects);
            }
            return waiting.push_back(job);
        }
        let (now, presences) = (context.now, &self.presences);
        if let Some(known) = self.nodes.get_mut(owner) {
            known.expire(now, &|known| presences.has_ended(now, owner, known));
            let nodes = Rc::clone(known.nodes());
            return self.run(context, owner, job, &nodes, effects);
        }
        self.busy.insert(owner.clone(), VecDeque::from([job]));
        effects.push(read_nodes(owner.clone(), Nodes::new()));
    }

    /// Runs a job with the owner's nodes. If it changes one of them, the owner is busy until that is written.
    fn run(
        &mut self,
        context: &mut PubSubContext<'_>,
        owner: &Bare,
        job: NodeJob,
        nodes: &Rc<Nodes>,
        effects: &mut Vec<PubSubEffect>,
    ) {
        let from = effects.len();
        match job {
            NodeJob::Request(asked) => match asked.perform(context, &mut self.presences, nodes) {
                Ok(more) => effects.extend(more),
                Err(error) => effects.push(PubSubEffect::Reply(asked, Err(error))),
            },
            NodeJob::Service(request) => effects.push(request.answer(context, owner, nodes)),
            NodeJob::Approval { approval, by } => effects.extend(approval.decide(owner, &by, nodes)),
            NodeJob::SendNewest { client, names } => {
                let by = context.requester(owner, &client);
                for name in names {
                    effects.extend(newest_for(owner, &name, nodes, &by, &client));
                }
            }
            // A change on its way may have written the account once more: one node after the other is written
            // without it.
            NodeJob::RemoveUser(user) => {
                if let Some((name, node)) = nodes.iter().find(|(_, node)| node.names(&user)) {
                    let mut node = Node::clone(node);
                    node.remove(&user);
                    let (owner, name, goal) = (owner.clone(), name.clone(), NodeGoal::RemoveUser(user));
                    effects.push(NodeWrite { owner, name, node: Some(node), goal }.begin());
                }
            }
            NodeJob::Publish(publication, then) => {
                effects.extend(publication.begin(context.now, owner, nodes, then));
            }
            NodeJob::Retract { node, ids, then } => retract(owner, (node, ids), nodes, then, effects),
            NodeJob::View(by, then) => {
                let view = NodesView { nodes: Rc::clone(nodes), by };
                effects.push(PubSubEffect::View(then, Ok(view)));
            }
        }
        let writes_node = |effect: &PubSubEffect| match effect {
            PubSubEffect::Write(_, write) => matches!(write.0, PendingWrite::Node(_)),
            _ => false,
        };
        if effects[from..].iter().any(writes_node) {
            self.busy.entry(owner.clone()).or_default();
        }
    }

    /// The owner's nodes were read or written: the jobs that waited.
    fn run_waiting(
        &mut self,
        context: &mut PubSubContext<'_>,
        owner: &Bare,
        error: Option<&StanzaError>,
        effects: &mut Vec<PubSubEffect>,
    ) {
        let mut waiting = self.busy.remove(owner).unwrap_or_default();
        while let Some(job) = waiting.pop_front() {
            match error {
                Some(error) => refuse(job, error.clone(), effects),
                None => self.begin(context, owner, job, effects),
            }
            // The job has begun a change, and the others wait for that, behind it.
            if let Some(newer) = self.busy.get_mut(owner) {
                newer.append(&mut waiting);
                return;
            }
        }
    }

    /// The store has answered a read.
    pub fn handle_loaded(
        &mut self,
        context: &mut PubSubContext<'_>,
        read: PubSubRead,
        result: Result<NodeReply, StanzaError>,
    ) -> Vec<PubSubEffect> {
        match read.0 {
            PendingRead::Nodes(owner, nodes) => self.handle_nodes(context, owner, nodes, result),
            PendingRead::Items { asked, name, page } => {
                let answer = items_of(result).and_then(|found| page.of(&name, found));
                vec![PubSubEffect::Reply(asked, answer.map(Some))]
            }
            PendingRead::ItemIds { iq, owner, name } => {
                let query = items_of(result).map(|page| service::item_list(&owner, name, page));
                vec![PubSubEffect::Answer(iq, query.map(Some))]
            }
            PendingRead::Newest { owner, name, node, to } => {
                // When it cannot be read now, the next publication is told anyway.
                let newest = items_of(result).ok().and_then(|page| page.items.into_iter().next());
                let message =
                    newest.map(|(_, at, item)| newest_message((&owner, &name, &node), &to, at, &item));
                message.map(PubSubEffect::Send).into_iter().collect()
            }
        }
    }

    /// A page of an owner's nodes was read: the next one, or the jobs that waited. A node that cannot be parsed is there,
    /// and closed.
    fn handle_nodes(
        &mut self,
        context: &mut PubSubContext<'_>,
        owner: Bare,
        mut nodes: Nodes,
        result: Result<NodeReply, StanzaError>,
    ) -> Vec<PubSubEffect> {
        let error = match result {
            Ok(NodeReply::Nodes(page)) => {
                let is_last = page.is_complete || page.rows.is_empty();
                let rows = page.rows.into_iter();
                nodes.extend(rows.map(|(name, row)| (name, Rc::new(Node::from_element(&row)))));
                if !is_last {
                    return vec![read_nodes(owner, nodes)];
                }
                let (now, presences) = (context.now, &self.presences);
                let nodes = OwnerNodes::new(nodes, &|known| presences.has_ended(now, &owner, known));
                self.nodes.insert(owner.clone(), nodes);
                None
            }
            Ok(_) => Some(Condition::InternalServerError.into()),
            Err(error) => Some(error),
        };
        let mut effects = Vec::new();
        self.run_waiting(context, &owner, error.as_ref(), &mut effects);
        effects
    }

    /// The store has answered a write.
    pub fn handle_written(
        &mut self,
        context: &mut PubSubContext<'_>,
        write: PubSubWrite,
        result: Result<(), WriteFailure>,
    ) -> Vec<PubSubEffect> {
        let mut effects = Vec::new();
        match write.0 {
            PendingWrite::Node(write) => self.handle_node_written(context, write, result, &mut effects),
            PendingWrite::Item(item) => {
                item.handle_written(result.map_err(|failure| failure.error), &mut effects);
            }
            PendingWrite::Removal(removal) => removal.handle_written(result, &mut effects),
        }
        effects
    }

    /// A node was written, or could not be: memory follows the store, then the purpose of the write, then the jobs that
    /// waited.
    fn handle_node_written(
        &mut self,
        context: &mut PubSubContext<'_>,
        write: NodeWrite,
        result: Result<(), WriteFailure>,
        effects: &mut Vec<PubSubEffect>,
    ) {
        let NodeWrite { owner, name, node, goal } = write;
        let (now, presences) = (context.now, &self.presences);
        if result.is_ok()
            && let Some(nodes) = self.nodes.get_mut(&owner)
        {
            nodes.insert(&name, node, &|known| presences.has_ended(now, &owner, known));
        }
        let result = result.map_err(|failure| failure.error);
        // The owner stays busy until all nodes of a batch are written.
        let (goal, result) = match goal {
            NodeGoal::Batch(batch) => match NodeBatch::finish_one(&batch, result) {
                BatchStep::Wait => return,
                BatchStep::Write(more) => return effects.extend(more),
                BatchStep::Done(goal, result) => (goal, result),
            },
            goal => (goal, result),
        };
        match (goal, result) {
            (NodeGoal::Effects(more), Ok(())) => effects.extend(more),
            // If it is not on disk, the subscription stays pending, and the owner may answer again.
            (NodeGoal::Effects(_), Err(_)) => {}
            (NodeGoal::Reply { asked, effects: more, payload }, Ok(())) => {
                effects.extend(more);
                effects.push(PubSubEffect::Reply(asked, Ok(payload)));
            }
            (NodeGoal::Reply { asked, .. }, Err(error)) => {
                effects.push(PubSubEffect::Reply(asked, Err(error)));
            }
            (NodeGoal::Publish(item), Ok(())) => effects.extend(item.begin(context.now)),
            (NodeGoal::Publish(item), Err(error)) => item.goal.finish(Err(error), effects),
            (NodeGoal::RemoveUser(user), Ok(())) => {
                self.begin(context, &owner, NodeJob::RemoveUser(user), effects);
            }
            // A batch ends with the goal of its request.
            (NodeGoal::RemoveUser(_), Err(_)) | (NodeGoal::Batch(_), _) => {}
        }
        self.run_waiting(context, &owner, None, effects);
    }

    /// XEP-0163 §4.1: a client that comes, or can do something new, gets the newest items of the nodes that
    /// it asks for.
    fn send_newest(
        &mut self,
        context: &mut PubSubContext<'_>,
        user: &Bare,
        client: &Jid,
        ver: &str,
        effects: &mut Vec<PubSubEffect>,
    ) {
        let Some(features) = context.entities.abilities_of(ver) else { return };
        let names = features.iter().filter_map(|feature| feature.strip_suffix("+notify"));
        let names: Vec<Box<str>> = names.map(Box::from).collect();
        if names.is_empty() || !self.clients.begin(user, client, ver) {
            return;
        }
        let job = NodeJob::SendNewest { client: client.clone(), names };
        self.begin(context, user, job, effects);
    }

    /// A removed account loses what it is in the nodes that are in memory or being changed.
    fn remove_user(&mut self, context: &mut PubSubContext<'_>, user: &Bare, effects: &mut Vec<PubSubEffect>) {
        // The store has already changed its nodes; they are read again.
        self.nodes.retain(|owner, _| owner != user);
        let busy = &self.busy;
        self.nodes.retain(|owner, nodes| {
            busy.contains_key(owner) || !nodes.nodes().values().any(|node| node.names(user))
        });
        let mut owners: Vec<Bare> = self.busy.keys().cloned().collect();
        owners.retain(|owner| owner != user);
        for owner in owners {
            self.begin(context, &owner, NodeJob::RemoveUser(user.clone()), effects);
        }
    }
}

/// Reads the next page of an owner's nodes; `nodes`: those of the pages before, in the order of their names.
fn read_nodes(owner: Bare, nodes: Nodes) -> PubSubEffect {
    let after = nodes.last_key_value().map(|(name, _)| name.clone());
    let load = NodeLoad::Nodes { owner: owner.clone(), after };
    PubSubEffect::Load(load, PubSubRead(PendingRead::Nodes(owner, nodes)))
}

/// The nodes cannot be read now, or too much waits for them.
fn refuse(job: NodeJob, error: StanzaError, effects: &mut Vec<PubSubEffect>) {
    effects.push(match job {
        NodeJob::Request(asked) => PubSubEffect::Reply(asked, Err(error)),
        NodeJob::Service(request) => PubSubEffect::Answer(request.iq, Err(error)),
        NodeJob::Publish(_, then) | NodeJob::Retract { then, .. } => PubSubEffect::Done(then, Err(error)),
        NodeJob::View(_, then) => PubSubEffect::View(then, Err(error)),
        NodeJob::Approval { .. } | NodeJob::SendNewest { .. } | NodeJob::RemoveUser(_) => return,
    });
}

/// The newest item of a node for a client that may read it.
fn newest_for(owner: &Bare, name: &str, nodes: &Nodes, by: &Requester, client: &Jid) -> Option<PubSubEffect> {
    let node = nodes.get(name)?;
    (node.config.sends_newest_on_presence() && node.may_read(&by.user, &by.relation).is_ok())
        .then(|| super::notify::send_newest(owner, name, node, client))
}

/// Retracts items for another feature, which is answered after all removals are, and at once without any.
fn retract(
    owner: &Bare,
    (name, ids): (&'static str, Vec<Box<str>>),
    nodes: &Nodes,
    then: FeatureRequest,
    effects: &mut Vec<PubSubEffect>,
) {
    let Some(node) = nodes.get(name).filter(|_| !ids.is_empty()) else {
        return effects.push(PubSubEffect::Done(then, Ok(())));
    };
    let group = RemovalGroup::new(ids.len(), then);
    for id in ids {
        let goal = RemovalGoal::Feature(Rc::clone(&group));
        let source = EventSource::new(owner, name, nodes, Rc::clone(node));
        effects.push(ItemRemoval { source, id, is_told: true, goal }.begin());
    }
}
