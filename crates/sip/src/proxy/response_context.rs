//! The response context of a forwarded request: RFC 3261 §16.6 steps 9 to 11, §16.7, §16.8 (Timer C), §16.9 (transport
//! errors), §16.10 (CANCEL).

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use smallvec::SmallVec;
use stdx::Instant;
use stdx::slab::Key;

use super::{
    BestResponse, Destination, FinalResponse, ForwardingPurpose, ProxyEffect, ProxyEffects, ResponseEdit,
    TargetSearch,
};
use crate::resolve::{Hop, ResolveFault};
use crate::transaction::TIMEOUT;
use crate::transport::Transport;
use crate::wire::Message;

/// The facts about a request on which its forwarding depends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForwardedRequest {
    pub(crate) purpose: ForwardingPurpose,
    pub(crate) is_invite: bool,
    /// Branches that may run at once, here and behind us (RFC 5393 §5.3).
    pub(crate) breadth: usize,
    /// The length of Timer C (RFC 3261 §16.6 step 11).
    pub(crate) timer_c: Duration,
}

/// All branches of one request.
#[derive(Debug)]
pub(crate) struct ResponseContext {
    request: ForwardedRequest,
    /// Targets that are not tried yet, next group first: equal q rings at once, lower q later.
    waiting: VecDeque<Vec<Destination>>,
    branches: SmallVec<[Branch; 1]>,
    best: BestResponse,
    /// When Timer C fires, or the wait after a CANCEL ends.
    deadline: Instant,
    /// The route half of the token in our Record-Route values.
    token: Option<u64>,
    /// The value of Reason in the CANCELs of its branches; empty for none.
    cancel_reason: Box<[u8]>,
    /// CANCEL came, a 2xx or 6xx decided, or Timer C ended it: no new branches.
    closed: bool,
    /// A callee's early dialog was noted.
    rings: bool,
    forwarded_final: bool,
}

/// One target of a forwarded request.
#[derive(Debug)]
pub(crate) struct Branch {
    pub(crate) destination: Destination,
    state: BranchState,
    /// Next hops not tried yet (RFC 3263 §4.3).
    hops: VecDeque<Hop>,
    /// The number of hops that were tried: part of the branch parameter.
    pub(crate) attempt: u8,
    /// Its share of the request's Max-Breadth.
    pub(crate) breadth: usize,
    /// The status of the branch if no hop is left.
    failure: u16,
}

/// The state of one branch of a forked request (RFC 3261 §16.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BranchState {
    /// Its next hop is being looked up.
    Resolving,
    /// Its hops have answered 503 with Retry-After: it is tried when no other target is left.
    Postponed,
    /// Sent; no response yet.
    Trying {
        client: Key,
        cancel: bool,
    },
    Proceeding {
        client: Key,
        cancelled: bool,
    },
    /// Final response, timeout, failure.
    Done,
}

impl ResponseContext {
    pub(crate) fn new(request: ForwardedRequest, groups: Vec<Vec<Destination>>) -> Self {
        ResponseContext {
            request,
            waiting: in_breadth(each_once(groups), request.breadth),
            branches: SmallVec::new(),
            best: BestResponse::default(),
            deadline: Instant::FAR_FUTURE,
            token: None,
            cancel_reason: Box::default(),
            closed: false,
            rings: false,
            forwarded_final: false,
        }
    }

    pub(crate) fn purpose(&self) -> &ForwardingPurpose {
        &self.request.purpose
    }

    pub(crate) fn branch(&self, branch: usize) -> Option<&Branch> {
        self.branches.get(branch)
    }

    /// The targets that are or will be sent, by their number, and the attempt at each; those whose outcome is known here are not among them.
    pub(crate) fn open_attempts(&self) -> impl Iterator<Item = (usize, u8)> + '_ {
        let count = self.branches.len() + self.waiting.iter().map(Vec::len).sum::<usize>();
        (0..count).filter_map(|index| match self.branches.get(index) {
            Some(branch) if branch.state == BranchState::Done => None,
            // Attempts count from one.
            Some(branch) => Some((index, branch.attempt.max(1))),
            None => Some((index, 1)),
        })
    }

    /// Tries the first group of targets.
    pub(crate) fn start(&mut self, now: Instant, out: &mut ProxyEffects) {
        self.deadline = now + self.request.timer_c;
        self.try_next_group(now, out);
    }

    /// The hops of a branch, in the order to be tried, or the reason why there are none. `is_paused`: the time is not over for which all
    /// of them want no requests.
    pub(crate) fn handle_resolved(
        &mut self,
        now: Instant,
        branch: usize,
        result: Result<Vec<Hop>, ResolveFault>,
        is_paused: bool,
        out: &mut ProxyEffects,
    ) {
        // A branch may be cancelled while its next hop is looked up.
        let Some(resolving) = self.branches.get_mut(branch).filter(|b| b.state == BranchState::Resolving)
        else {
            return;
        };
        match result {
            // RFC 3261 §21.5.4: to an alternate server instead.
            Ok(hops) if is_paused && self.request.purpose.search != TargetSearch::Fork => {
                (resolving.hops, resolving.state) = (hops.into(), BranchState::Postponed);
                self.go_on(now, out);
            }
            Ok(hops) => {
                resolving.hops = hops.into();
                self.try_next_hop(now, branch, 503, out);
            }
            // §16.6 step 7: as if the branch had answered 503, which step 16.7.6 turns into 500... unless
            // the name does not exist, which is the caller's mistake.
            Err(ResolveFault::NoSuchHost) => self.finish_branch(now, branch, 404, None, out),
            Err(_) => self.finish_branch(now, branch, 503, None, out),
        }
    }

    /// The target has a tel URI, or one of a scheme that has no next hop.
    pub(crate) fn handle_unsupported_uri(&mut self, now: Instant, branch: usize, out: &mut ProxyEffects) {
        self.finish_branch(now, branch, 416, None, out);
    }

    /// The copy of a branch is on its way in this client transaction. `token` is the one of its Record-Route.
    pub(crate) fn handle_sent(&mut self, branch: usize, client: Key, token: Option<u64>) {
        self.token = token;
        if let Some(branch) = self.branches.get_mut(branch) {
            branch.state = BranchState::Trying { client, cancel: false };
        }
    }

    /// The hop cannot be used: no listener of ours reaches it, or requests must not go there.
    pub(crate) fn handle_not_sent(&mut self, now: Instant, branch: usize, out: &mut ProxyEffects) {
        let Some(status) = self.branches.get(branch).map(|branch| branch.failure) else { return };
        self.try_next_hop(now, branch, status, out);
    }

    /// RFC 3261 §16.7.
    pub(crate) fn handle_response(
        &mut self,
        now: Instant,
        client: Key,
        response: &Message,
        out: &mut ProxyEffects,
    ) {
        let Some(branch) = self.branch_of(client) else { return };
        match response.status() {
            ..200 => self.handle_provisional(now, branch, response, out),
            200..300 => self.handle_success(now, branch, client, out),
            503 if !self.closed && !self.branches[branch].hops.is_empty() => {
                out.push(ProxyEffect::Unavailable);
                self.try_next_hop(now, branch, 503, out);
            }
            status => {
                if status == 503 && self.request.purpose.search != TargetSearch::Fork {
                    out.push(ProxyEffect::Unavailable);
                }
                if status >= 600 {
                    // §16.7 step 5: a 6xx ends the search, once the others have answered.
                    self.set_cancel_reason(format!("SIP;cause={status}").as_bytes());
                    self.close(now, out);
                }
                self.finish_branch(now, branch, status, Some(response.bytes().clone()), out);
            }
        }
    }

    /// A client transaction ended without a final response: 408 after silence, 503 after a transport error (§16.9).
    pub(crate) fn handle_failure(
        &mut self,
        now: Instant,
        client: Key,
        hop: (SocketAddr, Transport),
        status: u16,
        out: &mut ProxyEffects,
    ) {
        let Some(index) = self.branch_of(client) else { return };
        let branch = &self.branches[index];
        // RFC 5626 §5.3: the way that the phone itself opened is closed, and with it the phone is gone.
        let received = branch.destination.received;
        let flow_failed = received.is_some_and(|r| r.flow.is_some() || status == 503);
        let status = if flow_failed { 430 } else { status };
        if matches!(branch.state, BranchState::Proceeding { .. }) {
            self.finish_branch(now, index, status, None, out);
        } else {
            // RFC 3263 §4.3: silence or a transport error moves on to the next hop.
            out.push(ProxyEffect::HopFailed { hop, next: branch.hops.front().cloned() });
            self.try_next_hop(now, index, status, out);
        }
    }

    /// Timer C (§16.8), or the end of the wait after CANCEL.
    pub(crate) fn handle_timer(&mut self, now: Instant, out: &mut ProxyEffects) {
        if self.deadline > now {
            // It was put off by a provisional response.
            out.push(ProxyEffect::Arm { at: self.deadline });
            return;
        }
        if !self.closed {
            // §16.8: as if 408 had come, whatever the cancelled branches say.
            self.best.consider(408, None);
            self.close(now, out);
            return self.conclude(out);
        }
        for branch in &mut self.branches {
            if let BranchState::Trying { client, .. } | BranchState::Proceeding { client, .. } = branch.state
            {
                out.push(ProxyEffect::Forget { client });
            }
            branch.state = BranchState::Done;
        }
        self.conclude(out);
    }

    /// §16.10: every branch that still runs is cancelled; the caller gets what they answer (487).
    pub(crate) fn cancel(&mut self, now: Instant, reason: &[u8], out: &mut ProxyEffects) {
        self.set_cancel_reason(reason);
        self.best.cancel();
        self.close(now, out);
        self.conclude(out);
    }

    fn try_next_group(&mut self, now: Instant, out: &mut ProxyEffects) {
        let first = self.branches.len();
        if let Some(group) = self.waiting.pop_front() {
            let share = (self.request.breadth / group.len().max(1)).max(1);
            self.branches.extend(group.into_iter().map(|destination| Branch::new(destination, share)));
            // §16.6 step 11: each branch has its own Timer C; those of a group start together.
            self.deadline = now + self.request.timer_c;
        }
        let last = self.branches.len();
        for branch in first..last {
            self.begin_branch(now, branch, out);
        }
        if first == last {
            self.conclude(out);
        }
    }

    /// The destination of the branch is tried for the first time.
    fn begin_branch(&mut self, now: Instant, branch: usize, out: &mut ProxyEffects) {
        match self.branches[branch].destination.received {
            Some(received) => {
                self.branches[branch].hops.push_back(Hop::of_flow(&received));
                self.try_next_hop(now, branch, 503, out);
            }
            None => out.push(ProxyEffect::Resolve { branch }),
        }
    }

    /// Sends to the next hop not tried; without one the branch has failed with `status`.
    fn try_next_hop(&mut self, now: Instant, index: usize, status: u16, out: &mut ProxyEffects) {
        let closed = self.closed;
        let Some(branch) = self.branches.get_mut(index) else { return };
        match branch.hops.pop_front().filter(|_| !closed) {
            Some(hop) => {
                branch.attempt += 1;
                branch.failure = status;
                out.push(ProxyEffect::Send { branch: index, hop });
            }
            None => self.finish_branch(now, index, status, None, out),
        }
    }

    fn handle_provisional(&mut self, now: Instant, index: usize, response: &Message, out: &mut ProxyEffects) {
        let status = response.status();
        if status > 100 && !self.closed {
            // §16.7 step 2: any provisional but 100 resets Timer C.
            self.deadline = now + self.request.timer_c;
        }
        let edit = self.response_edit(index);
        let branch = &mut self.branches[index];
        if let BranchState::Trying { client, cancel } = branch.state {
            branch.state = BranchState::Proceeding { client, cancelled: false };
            if cancel {
                // §9.1: a CANCEL had to wait for this, and has 64*T1 from here.
                self.deadline = now + TIMEOUT;
                self.cancel_branch(index, out);
            }
        }
        // RFC 4320 §4.1: nothing but 100 before the final response to a non-INVITE.
        if status > 100 && self.request.is_invite {
            // RFC 4235 §3.7.1: a tag makes the dialog an early one. Once a call, and not while it ends.
            if self.request.purpose.starts_call && !self.rings && !self.closed && response.to_tag().is_some()
            {
                self.rings = true;
                out.push(ProxyEffect::CallRings);
            }
            out.push(ProxyEffect::Forward { edit });
        }
    }

    fn handle_success(&mut self, now: Instant, index: usize, client: Key, out: &mut ProxyEffects) {
        let is_answered = self.request.purpose.starts_call && !self.forwarded_final;
        let edit = self.response_edit(index);
        self.forwarded_final = true;
        self.branches[index].state = BranchState::Done;
        if self.request.is_invite {
            out.push(ProxyEffect::ForwardLate { client, edit });
        }
        if is_answered {
            out.push(ProxyEffect::CallAnswered);
        }
        out.extend([ProxyEffect::Accepted, ProxyEffect::Forward { edit }]);
        // RFC 3326 §3.1: a phone that rang in vain does not list the call as missed.
        self.set_cancel_reason(b"SIP;cause=200;text=\"Call completed elsewhere\"");
        self.close(now, out);
        self.conclude(out);
    }

    /// A branch has its final response. `response` is as received, our Via still on top.
    fn finish_branch(
        &mut self,
        now: Instant,
        index: usize,
        status: u16,
        response: Option<Bytes>,
        out: &mut ProxyEffects,
    ) {
        let Some(branch) = self.branches.get_mut(index) else { return };
        // RFC 5626 §7: another flow replaces one that failed (430), and never one by which the instance has answered.
        let has_failed = response.is_none() || status == 430;
        if has_failed && !self.closed && branch.take_next_flow() {
            return self.begin_branch(now, index, out);
        }
        branch.state = BranchState::Done;
        if !self.request.purpose.search.goes_on(status, response.is_some()) {
            self.waiting.clear();
            self.drop_postponed();
        }
        self.best.consider(status, response);
        self.go_on(now, out);
    }

    /// Tries further targets once no branch is being tried; those that want no requests come last, in their order.
    fn go_on(&mut self, now: Instant, out: &mut ProxyEffects) {
        let is_idle = |branch: &Branch| matches!(branch.state, BranchState::Done | BranchState::Postponed);
        if self.closed || !self.branches.iter().all(is_idle) {
            return self.conclude(out);
        }
        if !self.waiting.is_empty() {
            return self.try_next_group(now, out);
        }
        match self.branches.iter().position(|branch| branch.state == BranchState::Postponed) {
            Some(index) => {
                self.deadline = now + self.request.timer_c;
                self.try_next_hop(now, index, 503, out);
            }
            None => self.conclude(out),
        }
    }

    fn drop_postponed(&mut self) {
        for branch in &mut self.branches {
            if branch.state == BranchState::Postponed {
                branch.state = BranchState::Done;
            }
        }
    }

    /// Sends the best response once every branch is done, and ends when nothing is owed.
    fn conclude(&mut self, out: &mut ProxyEffects) {
        if let Some(response) = self.take_best() {
            let is_late = response.status == 408 && !self.request.is_invite;
            out.push(match is_late {
                true => ProxyEffect::TimedOut(response),
                false => ProxyEffect::Respond(response),
            });
        } else if self.is_over() {
            out.push(ProxyEffect::Close);
        }
    }

    /// The first event that ends the branches says why; a CANCEL may leave later than it (§9.1).
    fn set_cancel_reason(&mut self, reason: &[u8]) {
        if !self.closed && !self.all_done() {
            self.cancel_reason = reason.into();
        }
    }

    /// No new branches; those that run are cancelled, and given 64*T1 to answer (§9.1).
    fn close(&mut self, now: Instant, out: &mut ProxyEffects) {
        if std::mem::replace(&mut self.closed, true) {
            // A second CANCEL does not prolong the wait.
            return;
        }
        self.waiting.clear();
        for index in 0..self.branches.len() {
            self.cancel_branch(index, out);
        }
        if !self.all_done() {
            self.deadline = now + TIMEOUT;
            out.push(ProxyEffect::Arm { at: self.deadline });
        }
    }

    fn cancel_branch(&mut self, index: usize, out: &mut ProxyEffects) {
        let branch = &mut self.branches[index];
        match &mut branch.state {
            BranchState::Resolving | BranchState::Postponed => branch.state = BranchState::Done,
            // §9.1: a CANCEL must not be sent before a provisional response has come.
            BranchState::Trying { cancel, .. } => *cancel = true,
            BranchState::Proceeding { client, cancelled } if !*cancelled && self.request.is_invite => {
                *cancelled = true;
                out.push(ProxyEffect::Cancel { client: *client, reason: self.cancel_reason.clone() });
            }
            BranchState::Proceeding { .. } | BranchState::Done => {}
        }
    }

    fn all_done(&self) -> bool {
        self.branches.iter().all(|branch| branch.state == BranchState::Done)
    }

    fn is_over(&self) -> bool {
        self.all_done() && (self.closed || self.waiting.is_empty())
    }

    /// The client transactions of the branches that have no final response yet.
    pub(crate) fn clients(&self) -> SmallVec<[Key; 1]> {
        let clients = self.branches.iter().filter_map(|branch| match branch.state {
            BranchState::Trying { client, .. } | BranchState::Proceeding { client, .. } => Some(client),
            BranchState::Resolving | BranchState::Postponed | BranchState::Done => None,
        });
        clients.collect()
    }

    /// The branch that this client transaction serves.
    fn branch_of(&self, client: Key) -> Option<usize> {
        self.branches.iter().position(|branch| match branch.state {
            BranchState::Trying { client: own, .. } | BranchState::Proceeding { client: own, .. } => {
                own == client
            }
            BranchState::Resolving | BranchState::Postponed | BranchState::Done => false,
        })
    }

    /// The changes that responses of a branch need on their way upstream.
    fn response_edit(&self, branch: usize) -> ResponseEdit {
        let Some(destination) = self.branches.get(branch).map(|branch| &branch.destination) else {
            return ResponseEdit::None;
        };
        ResponseEdit::of(destination, self.token, self.request.purpose.within)
    }

    /// True if no other branch is being tried: then this one's failure may be the request's.
    pub(crate) fn is_only_branch(&self, branch: usize) -> bool {
        let mut branches = self.branches.iter().enumerate();
        branches.all(|(index, other)| index == branch || other.state == BranchState::Done)
    }

    /// The final response to send now: every branch is done and none was sent yet.
    fn take_best(&mut self) -> Option<FinalResponse> {
        if self.forwarded_final || !self.is_over() {
            return None;
        }
        self.forwarded_final = true;
        Some(self.best.take())
    }
}

impl Branch {
    fn new(destination: Destination, breadth: usize) -> Self {
        let hops = VecDeque::new();
        Branch { destination, state: BranchState::Resolving, hops, attempt: 0, breadth, failure: 503 }
    }

    /// Puts the next flow of the instance in the place of the one that failed. False: there is none.
    fn take_next_flow(&mut self) -> bool {
        let mut flows = std::mem::take(&mut self.destination.other_flows).into_iter();
        let Some(next) = flows.next() else { return false };
        self.destination = Destination { other_flows: flows.collect(), ..next };
        // Attempts count on: each copy has a branch parameter of its own.
        (self.state, self.failure) = (BranchState::Resolving, 503);
        self.hops.clear();
        true
    }
}

/// RFC 3261 §16.5: a target that is in the set already is not added again. Groups are short: the plan bounds them.
fn each_once(groups: Vec<Vec<Destination>>) -> Vec<Vec<Destination>> {
    if let [group] = &*groups
        && group.len() < 2
    {
        return groups;
    }
    let mut once: Vec<Vec<Destination>> = Vec::with_capacity(groups.len());
    for group in groups {
        let mut new: Vec<Destination> = Vec::with_capacity(group.len());
        for target in group {
            if !once.iter().flatten().chain(&new).any(|other| *other == target) {
                new.push(target);
            }
        }
        if !new.is_empty() {
            once.push(new);
        }
    }
    once
}

/// No group rings more than `breadth` at once. The rest are not rung at all: in turns they would only make a
/// loop of forks last longer (RFC 5393 §3).
fn in_breadth(mut groups: Vec<Vec<Destination>>, breadth: usize) -> VecDeque<Vec<Destination>> {
    for group in &mut groups {
        group.truncate(breadth);
    }
    groups.into()
}

#[cfg(test)]
mod tests;
