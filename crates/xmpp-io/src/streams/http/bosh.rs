//! Sessions of BOSH (XEP-0124, XEP-0206). One is a small task of the shard that was asked for it, as a connection is; requests of it come to any
//! shard, and go to the session's by message. Its name says which.
//!
//! `post` handles a request at the shard of its HTTP connection: it begins a session, or gives the request as a [`Call`] to the session, and
//! waits for the reply. The task of a session drives its stream by the wire [`Bodies`]; `xmpp::bosh::Session` has the rules: the order of
//! requests, repetitions, and how long one is held.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use cluster::{Life, ShardAddress};
use hyper::StatusCode;
use net::clock::Clock;
use sip::transport::Transport;
use stdx::Instant;
use subtle::ConstantTimeEq;
use tokio::sync::oneshot;
use tokio::task::spawn_local;
use tokio::time::{Sleep, sleep};
use xmpp::Jid;
use xmpp::bosh::{BoshSettings, Condition, Input, Outbox, Reply, Request, Session};
use xmpp::c2s::{Framing, Security};
use xmpp::limits::BOSH_ANSWER;

use super::Front;
use crate::limits;
use crate::streams::serve::{Place, drive};
use crate::streams::shared::{C2sConnections, C2sEvent};
use crate::streams::stream::Stream;
use crate::streams::wire::{Ended, Wire};

/// One request on its way to its session. Dropped, it is answered "try again".
pub struct Call {
    /// The number of the session's stream at its shard.
    number: u64,
    request: Request,
    /// Bytes of the body.
    size: usize,
    is_secure: bool,
    reply: oneshot::Sender<Reply>,
}

impl fmt::Debug for Call {
    /// Omits the body, which may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Call({})", self.number)
    }
}

impl Call {
    /// There is no such session.
    pub fn refuse(self) {
        self.refuse_as(Condition::ItemNotFound);
    }

    fn refuse_as(self, condition: Condition) {
        // The client may have gone.
        let _ = self.reply.send(Reply::refusal(condition));
    }
}

/// The queue of a session's requests.
pub(in crate::streams) struct Mailbox {
    /// The name with the secret, which a request has to show.
    sid: Box<str>,
    /// The session has begun over TLS: a request in the clear is not given to it.
    is_secure: bool,
    calls: RefCell<VecDeque<Call>>,
    stream: Rc<Stream>,
}

/// Answers a request; the error is the HTTP status of a request that BOSH has no answer for.
pub(super) async fn post(front: &Rc<Front>, body: &[u8]) -> Result<Reply, StatusCode> {
    let shared = &front.shared;
    let request = match Request::parse(body) {
        Ok(request) => request,
        Err(condition) => return Ok(refused(shared, condition)),
    };
    let (reply, answer) = oneshot::channel();
    match request.sid.as_deref().map(parse_sid) {
        None if request.is_for_known => return Ok(refused(shared, Condition::PolicyViolation)),
        None => {
            if let Err(condition) = begin(front, request, body.len(), reply) {
                return Ok(refused(shared, condition));
            }
        }
        Some(None) => return Ok(refused(shared, Condition::ItemNotFound)),
        Some(Some((shard, number))) => {
            let call = Call { number, request, size: body.len(), is_secure: front.is_secure, reply };
            if shard == shared.shard {
                shared.bosh.deliver_call(call);
            } else {
                shared.event(C2sEvent::Bosh { shard, call: Box::new(call) });
            }
        }
    }
    // XEP-0124 §19.1: a secure session's request that comes in the clear ends its connection, and not the session.
    let reply = tokio::select! {
        reply = answer => reply.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?,
        reply = ended(shared) => reply,
    };
    if reply.is_refusal {
        shared.counts.count(|counters| counters.bosh_faults += 1);
    }
    Ok(reply)
}

/// The node ends, and a request that was on its way to another shard may never have come there.
async fn ended(shared: &C2sConnections) -> Reply {
    shared.ending.notified().await;
    sleep(limits::XMPP_LINGER / 2).await;
    Reply::refusal(Condition::SystemShutdown)
}

fn refused(shared: &C2sConnections, condition: Condition) -> Reply {
    shared.counts.count(|counters| counters.bosh_faults += 1);
    Reply::refusal(condition)
}

/// `LIFE.SHARD.NUMBER.SECRET`.
fn parse_sid(sid: &str) -> Option<(ShardAddress, u64)> {
    let mut parts = sid.split('.');
    let life = Life(u32::from_str_radix(parts.next()?, 16).ok()?);
    let shard = u16::from_str_radix(parts.next()?, 16).ok()?;
    Some((ShardAddress::new(life, shard), u64::from_str_radix(parts.next()?, 16).ok()?))
}

/// Begins a session with its first request.
///
/// # Errors
/// The condition of the refusal.
fn begin(
    front: &Front,
    request: Request,
    size: usize,
    reply: oneshot::Sender<Reply>,
) -> Result<(), Condition> {
    let shared = &front.shared;
    if shared.is_leaving.get() {
        return Err(Condition::SystemShutdown);
    }
    let settings = Arc::clone(&shared.stream_settings.borrow());
    let is_ours = |to: &str| {
        Jid::parse(to).is_ok_and(|to| settings.domains.iter().any(|domain| **domain == *to.domain()))
    };
    if request.to.as_deref().is_some_and(|to| !is_ours(to)) {
        return Err(Condition::HostUnknown);
    }
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|_| Condition::InternalServerError)?;
    let transport = if front.is_secure { Transport::Wss } else { Transport::Ws };
    let Some(mut place) = Place::enter(shared, front.source.get(), transport) else {
        return Err(Condition::PolicyViolation);
    };
    let security = Security { encrypted: front.is_secure, ..Security::default() };
    let stream = place.open(Framing::Bodies, security);
    let ShardAddress { life, shard } = shared.shard;
    let sid = format!("{:x}.{shard:x}.{:x}.{}", life.0, stream.number, stdx::hex::encode(&secret));
    let mailbox = Rc::new(Mailbox {
        sid: sid.into(),
        is_secure: front.is_secure,
        calls: RefCell::default(),
        stream: Rc::clone(&stream),
    });
    shared.bosh.insert(&mailbox);
    let call = Call { number: stream.number, request, size, is_secure: front.is_secure, reply };
    let mut wire = Bodies::new(Rc::clone(shared), mailbox, call);
    spawn_local(async move {
        // It ends before its place is left.
        let place = place;
        drive(place.shared(), &stream, &mut wire).await;
        drop(wire);
    });
    Ok(())
}

/// The sessions of one shard, by the numbers of their streams.
#[derive(Default)]
pub(in crate::streams) struct BoshSessions {
    by_stream: RefCell<HashMap<u64, Rc<Mailbox>>>,
}

impl BoshSessions {
    fn insert(&self, mailbox: &Rc<Mailbox>) {
        self.by_stream.borrow_mut().insert(mailbox.stream.number, Rc::clone(mailbox));
    }

    fn remove(&self, mailbox: &Mailbox) {
        self.by_stream.borrow_mut().remove(&mailbox.stream.number);
    }

    pub(in crate::streams) fn count(&self) -> u64 {
        self.by_stream.borrow().len() as u64
    }

    /// Gives a request to its session.
    pub(in crate::streams) fn deliver_call(&self, call: Call) {
        let mailbox = self.by_stream.borrow().get(&call.number).cloned();
        let is_it = |mailbox: &Rc<Mailbox>| {
            let sid = call.request.sid.as_deref().unwrap_or_default();
            bool::from(mailbox.sid.as_bytes().ct_eq(sid.as_bytes()))
        };
        match mailbox.filter(is_it) {
            // Dropped, see `post`.
            Some(mailbox) if mailbox.is_secure && !call.is_secure => {}
            Some(mailbox) if call.request.is_for_known && mailbox.stream.c2s.borrow().jid().is_none() => {
                call.refuse_as(Condition::PolicyViolation);
            }
            Some(mailbox) => {
                mailbox.calls.borrow_mut().push_back(call);
                mailbox.stream.wake();
            }
            None => call.refuse(),
        }
    }
}

/// A session as a stream's wire.
struct Bodies {
    shared: Rc<C2sConnections>,
    mailbox: Rc<Mailbox>,
    session: Session,
    clock: Clock,
    /// Requests that are not answered.
    waiting: Vec<(u64, oneshot::Sender<Reply>)>,
    last_ticket: u64,
    /// For the stream, as soon as it listens.
    inputs: VecDeque<Input>,
    /// Bytes of requests that are not yet counted against what the client may send.
    uncounted: usize,
    out: Outbox,
    alarm: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl Bodies {
    fn new(shared: Rc<C2sConnections>, mailbox: Rc<Mailbox>, call: Call) -> Bodies {
        let Call { request, size, reply, .. } = call;
        let (clock, mut out) = (shared.settings.http.clock, Outbox::default());
        let session =
            Session::begin(clock.now(), BoshSettings::default(), &mailbox.sid, request, 0, &mut out);
        Bodies {
            shared,
            mailbox,
            session,
            clock,
            waiting: vec![(0, reply)],
            last_ticket: 0,
            inputs: out.inputs.drain(..).collect(),
            uncounted: size,
            out,
            alarm: None,
        }
    }

    /// Requests that came, and those whose connection went.
    fn receive(&mut self, now: Instant, cx: &mut Context<'_>) {
        while let Some(Call { request, size, reply, .. }) = self.next_call() {
            self.last_ticket += 1;
            self.uncounted += size;
            self.waiting.push((self.last_ticket, reply));
            self.mailbox.stream.heard.set(self.shared.ticks.now());
            self.mailbox.stream.probed.set(false);
            self.session.handle_request(now, request, self.last_ticket, &mut self.out);
        }
        let session = &mut self.session;
        self.waiting.retain_mut(|(ticket, reply)| {
            let is_lost = reply.poll_closed(cx).is_ready();
            if is_lost {
                session.handle_lost(now, *ticket);
            }
            !is_lost
        });
    }

    fn next_call(&self) -> Option<Call> {
        self.mailbox.calls.borrow_mut().pop_front()
    }

    fn send_answers(&mut self) {
        self.inputs.extend(self.out.inputs.drain(..));
        for (ticket, reply) in self.out.answers.drain(..) {
            if let Some(at) = self.waiting.iter().position(|(waiting, _)| *waiting == ticket) {
                // A client that has gone will ask again.
                let _ = self.waiting.swap_remove(at).1.send(reply);
            }
        }
    }

    /// Ready: there is something to do.
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(deadline) = self.session.deadline() else {
            self.alarm = None;
            return Poll::Pending;
        };
        if self.alarm.as_ref().is_none_or(|(at, _)| *at != deadline) {
            // One more, for the timer counts whole milliseconds.
            let wait = deadline.since(self.clock.now()) + std::time::Duration::from_millis(1);
            self.alarm = Some((deadline, Box::pin(sleep(wait))));
        }
        let done = self.alarm.as_mut().is_some_and(|(_, alarm)| alarm.as_mut().poll(cx).is_ready());
        if done {
            self.alarm = None;
            return Poll::Ready(());
        }
        Poll::Pending
    }

    /// Ends the session with the condition of the stream's error and all documents that wait.
    fn finish(&mut self, stream: &Stream) {
        let condition = Condition::of_stream(stream.c2s.borrow().error());
        let documents = take_documents(stream, usize::MAX);
        self.session.finish(condition, &documents, &mut self.out);
        self.send_answers();
    }
}

/// Takes queued documents, up to so many bytes and one document more.
fn take_documents(stream: &Stream, most: usize) -> Vec<Box<[u8]>> {
    let mut size = 0;
    let mut documents = Vec::new();
    while size < most {
        let Some(document) = stream.pop() else { break };
        size += document.len();
        documents.push(document);
    }
    documents
}

impl Wire for Bodies {
    fn poll_read(
        &mut self,
        _cx: &mut Context<'_>,
        shared: &C2sConnections,
        stream: &Stream,
    ) -> Poll<Result<(), Ended>> {
        // `poll_write`, which comes first, waits for more.
        let Some(input) = self.inputs.pop_front() else { return Poll::Pending };
        shared.tell(stream, |c2s, out| match input {
            Input::Open(payload) | Input::Payload(payload) => c2s.handle_payload(payload, out),
            Input::Close => c2s.handle_close(out),
        });
        shared.pace(stream, std::mem::take(&mut self.uncounted));
        Poll::Ready(Ok(()))
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, stream: &Stream) -> Poll<Result<(), Ended>> {
        loop {
            let now = self.clock.now();
            self.receive(now, cx);
            self.session.expire(now, &mut self.out);
            self.send_answers();
            if stream.closing.get() {
                self.finish(stream);
                return Poll::Ready(Ok(()));
            }
            // A client that sent too much gets its answers later, and without them it sends nothing.
            let is_paused = stream.paused.get();
            while !is_paused && stream.has_queued() && self.session.is_held() {
                let documents = take_documents(stream, BOSH_ANSWER);
                self.session.write(now, &documents, &mut self.out);
                self.send_answers();
            }
            // Input that the stream has not taken holds its client back.
            if !is_paused && self.inputs.is_empty() && !stream.c2s.borrow().is_waiting() {
                self.session.relax(now, &mut self.out);
            }
            self.send_answers();
            if self.session.is_over() {
                return Poll::Ready(Err(Ended));
            }
            if self.poll_alarm(cx).is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn poll_shutdown(&mut self, cx: &mut Context<'_>, _shared: &C2sConnections) -> Poll<()> {
        self.receive(self.clock.now(), cx);
        self.send_answers();
        if self.session.is_over() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Bodies {
    fn drop(&mut self) {
        self.shared.bosh.remove(&self.mailbox);
    }
}
