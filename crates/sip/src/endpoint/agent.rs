//! Requests that this server itself answers or sends: probes of routes, and what the event notifier does.

use router::{Answer, AskId};
use stdx::Instant;
use stdx::slab::Key;

use super::forward::next_hop_of;
use super::{Effect, Endpoint, Outbox, User};
use crate::token;
use crate::transport::Target;
use crate::wire::{Header, Message, Request, Rewrite, Uri};

impl Endpoint {
    /// Sends an OPTIONS to a route's target; [`Effect::Probed`] tells what became of it.
    pub fn probe(&mut self, now: Instant, id: u64, target: &str, out: &mut Outbox) {
        let sent = self.try_probe(now, id, target, out);
        if sent.is_none() {
            out.push(Effect::Probed { id, status: 503 });
        }
    }

    fn try_probe(&mut self, now: Instant, id: u64, target: &str, out: &mut Outbox) -> Option<()> {
        let uri = Uri::parse(target.as_bytes()).ok()?;
        let hop = self.resolve_at_once(now, &next_hop_of(&uri)?, out)?;
        let listener = self.listener_for(hop.transport, hop.addr, None)?;
        let us = String::from_utf8_lossy(&self.texts[listener].uri).into_owned();
        let unique = self.keys.branch.mac(&[b"probe", &id.to_be_bytes(), &now.as_micros().to_be_bytes()]);
        let mut request = Request::new(b"OPTIONS", target.as_bytes());
        request
            .header("Max-Forwards", b"70")
            .header("From", format!("<{us}>;tag={}", token::to_string(unique)).as_bytes())
            .header("To", format!("<{target}>").as_bytes())
            .header("Call-ID", token::to_string(unique.rotate_left(17)).as_bytes())
            .header("CSeq", b"1 OPTIONS")
            .header("User-Agent", crate::wire::PRODUCT.as_bytes());
        let target = Target {
            transport: hop.transport,
            remote: hop.addr,
            flow: None,
            local: Some(self.settings.listeners[listener].addr),
            tls_name: hop.tls_name,
            reconnect: true,
        };
        self.send_own(now, &Message::parse(request.finish()).ok()?, target, listener, User::Probe(id), out);
        Some(())
    }

    /// A request of our own gets its Via and its client transaction.
    fn send_own(
        &mut self,
        now: Instant,
        request: &Message,
        target: Target,
        listener: usize,
        user: User,
        out: &mut Outbox,
    ) {
        let mut rewrite = Rewrite::new(request);
        rewrite.push_front(Header::Via, |text| {
            self.write_via(text, listener, |text| self.write_branch(text, request, 0, 0));
        });
        let bytes = rewrite.finish();
        self.start_client(now, bytes, target, false, user, out);
    }

    /// Whether the request is for the account's event notifier, and no phone.
    pub(super) fn take_by_agent(&mut self, _now: Instant, _key: Key, _aor: &str, _out: &mut Outbox) -> bool {
        false
    }

    pub(super) fn handle_agent_answer(
        &mut self,
        _now: Instant,
        _id: AskId,
        _answer: Answer,
        _out: &mut Outbox,
    ) {
    }

    pub(super) fn keep_message(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        self.finish(now, key, 480, "Temporarily Unavailable", out);
    }
}
