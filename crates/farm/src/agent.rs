//! The thread of a node's membership: it speaks with the council, drives [`FarmNode`], and tells what changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use bytes::Bytes;
use cluster::Life;
use cluster::member::Member;
use stdx::Instant;
use tokio::sync::mpsc;

use crate::council::{self, CouncilCommand, CouncilEvent, CouncilSettings};
use crate::node::{FarmNode, NodeEffect, NodeEnd};
use crate::view::FarmView;

/// Commands to the council that wait: renewals of a minute. Later ones are dropped, as after the council is back only the
/// newest count.
const COMMANDS: usize = 64;

/// News of the council that wait for the machine.
const EVENTS: usize = 1_024;

/// Reports of links that wait.
const REPORTS: usize = 1_024;

/// What the rest of the node hears of its membership. Called on the agent's thread.
pub trait FarmListener: Send {
    /// The node is a member.
    fn joined(&mut self, life: Life);
    /// The shards decide by this view from now on.
    fn view(&mut self, view: Arc<FarmView>);
    /// The council is away, for this reason, or back.
    fn council(&mut self, away: Option<&str>);
    /// A node is dead.
    fn died(&mut self, life: Life);
    /// Another node is not accepted as a member.
    fn member_refused(&mut self, life: Life, reason: &str);
    /// The node's part in the farm is over.
    fn ended(&mut self, end: &NodeEnd);
}

/// Requests to the agent; clones speak with the same one.
#[derive(Clone, Debug)]
pub struct FarmAgent {
    requests: mpsc::Sender<AgentRequest>,
    /// The node may act as an owner.
    may_act: Arc<AtomicBool>,
}

/// A request to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AgentRequest {
    LinkLost { life: Life, is_refused: bool },
    Drain,
    Leave,
}

/// The parameters of an agent.
pub struct AgentArgs {
    /// The place of the council.
    pub council: CouncilSettings,
    /// The node's announcement; the council gives its life.
    pub member: Member,
    /// The time since some fixed moment that also passes while the machine sleeps (`CLOCK_BOOTTIME`), never set back.
    pub clock: Box<dyn Fn() -> Instant + Send>,
}

impl FarmAgent {
    /// Starts the agent's thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn start(
        args: AgentArgs,
        listener: Box<dyn FarmListener>,
    ) -> std::io::Result<(FarmAgent, JoinHandle<()>)> {
        let (requests, receiver) = mpsc::channel(REPORTS);
        let may_act = Arc::new(AtomicBool::new(false));
        let agent = FarmAgent { requests, may_act: Arc::clone(&may_act) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let thread = Builder::new().name("farm".to_owned()).spawn(move || {
            runtime.block_on(run(args, listener, receiver, &may_act));
        })?;
        Ok((agent, thread))
    }

    /// A link to a node broke; `is_refused` if the node's host refuses connections.
    pub fn link_lost(&self, life: Life, is_refused: bool) {
        self.request(AgentRequest::LinkLost { life, is_refused });
    }

    /// Gives everything away.
    pub fn drain(&self) {
        self.request(AgentRequest::Drain);
    }

    /// Withdraws from the farm at once.
    pub fn leave(&self) {
        self.request(AgentRequest::Leave);
    }

    /// True while the node may act as an owner.
    pub fn may_act(&self) -> bool {
        self.may_act.load(Ordering::Acquire)
    }

    fn request(&self, request: AgentRequest) {
        // A report that finds no room is a hint less; the lease decides.
        let _ = self.requests.try_send(request);
    }
}

async fn run(
    args: AgentArgs,
    mut listener: Box<dyn FarmListener>,
    mut requests: mpsc::Receiver<AgentRequest>,
    may_act: &AtomicBool,
) {
    let AgentArgs { council, member, clock } = args;
    let (commands, receiver) = mpsc::channel(COMMANDS);
    let (sender, mut events) = mpsc::channel(EVENTS);
    let announced = member.clone();
    let value = move |life| Bytes::from(Member { life: Life(life), ..announced.clone() }.encode());
    let council = tokio::spawn(council::run(council, value, receiver, sender));
    if let Some(life) = join(&mut events, &mut *listener).await {
        listener.joined(life);
        let node = FarmNode::new(clock(), Member { life, ..member });
        let mut session = Session { node, commands, listener, has_ended: false };
        while !session.has_ended {
            let wait = session.node.deadline().since(clock());
            tokio::select! {
                event = events.recv() => match event {
                    Some(event) => session.drive(|node, out| node.handle_event(clock(), event, out)),
                    None => break,
                },
                request = requests.recv() => match request {
                    Some(AgentRequest::LinkLost { life, is_refused }) => {
                        session.drive(|node, out| node.handle_link_lost(clock(), life, is_refused, out));
                    }
                    Some(AgentRequest::Drain) => session.drive(|node, out| node.drain(clock(), out)),
                    Some(AgentRequest::Leave) | None => break,
                },
                () = tokio::time::sleep(wait.max(Duration::from_millis(1))) => {
                    session.drive(|node, out| node.expire(clock(), out));
                }
            }
            may_act.store(session.node.may_act(clock()), Ordering::Release);
        }
        may_act.store(false, Ordering::Release);
        let _ = session.commands.send(CouncilCommand::Withdraw).await;
    }
    // The council may be away; its key of this node is then forgotten by its age.
    let _ = tokio::time::timeout(Duration::from_secs(1), council).await;
}

/// Waits until the council admits the node.
async fn join(events: &mut mpsc::Receiver<CouncilEvent>, listener: &mut dyn FarmListener) -> Option<Life> {
    while let Some(event) = events.recv().await {
        match event {
            CouncilEvent::Joined { life } => return Some(Life(life)),
            CouncilEvent::Refused(refused) => {
                listener.ended(&NodeEnd::Refused(refused));
                return None;
            }
            CouncilEvent::Away { reason } => listener.council(Some(&reason)),
            CouncilEvent::Back => listener.council(None),
            _ => {}
        }
    }
    None
}

/// The node while it is a member.
struct Session {
    node: FarmNode,
    commands: mpsc::Sender<CouncilCommand>,
    listener: Box<dyn FarmListener>,
    has_ended: bool,
}

impl Session {
    fn drive(&mut self, input: impl FnOnce(&mut FarmNode, &mut Vec<NodeEffect>)) {
        let mut out = Vec::new();
        input(&mut self.node, &mut out);
        out.into_iter().for_each(|effect| self.perform(effect));
    }

    fn perform(&mut self, effect: NodeEffect) {
        match effect {
            // A council that is away long takes no more; what is dropped is sent anew later.
            NodeEffect::Command(command) => drop(self.commands.try_send(command)),
            NodeEffect::View(view) => self.listener.view(view),
            NodeEffect::MemberRefused { life, refusal } => {
                self.listener.member_refused(life, &refusal.to_string());
            }
            NodeEffect::Died(life) => self.listener.died(life),
            NodeEffect::Council(away) => self.listener.council(away.as_deref()),
            NodeEffect::End(end) => {
                if !self.has_ended {
                    self.has_ended = true;
                    self.listener.ended(&end);
                }
            }
        }
    }
}
