//! REGISTER: RFC 3261 §10.3, from the request to the router's word and back. The rules of Contact are
//! [`crate::registrar`]'s, the bindings the router's.

use router::{Binding, Query, RegisterRefused};
use stdx::Instant;
use stdx::slab::Key;

use super::authenticate::is_for_us;
use super::{Account, Effect, Endpoint, Outbox, Stage};
use crate::registrar::{self, OkSettings, Reach, Refusal};
use crate::wire::Reply;

impl Endpoint {
    pub(super) fn begin_register(&mut self, now: Instant, key: Key, out: &mut Outbox) {
        self.counters.registers += 1;
        // Before the credentials are looked at: those of a copy were used by the first one.
        if self.refuse_merged(now, key, out) {
            return;
        }
        let Some(context) = self.contexts.get(key) else { return };
        let known = is_for_us(self, &context.request) && self.claim(&context.request).is_some();
        if !known {
            // §10.3 step 1 would have us proxy it; we relay for nobody.
            return self.finish(now, key, 404, "Domain Not Served", out);
        }
        self.authenticate(now, key, 0, out);
    }

    /// The sender has proved to be the account it registers.
    pub(super) fn register(&mut self, now: Instant, key: Key, account: Account, out: &mut Outbox) {
        self.remember_request(key);
        let Some(context) = self.contexts.get(key) else { return };
        let mut rules = self.settings.registrar;
        rules.max_contacts = account.max_contacts;
        let source = &context.source;
        let reach = Reach {
            networks: &self.settings.trust.contacts,
            is_trusted: self.trusts_registrations(source),
            is_forbidden: &|host, port| self.is_taken(host, port, source),
        };
        let parsed = registrar::parse_register(&context.request, source, account.aor.clone(), &rules, &reach);
        let parsed = parsed.and_then(|register| self.check_way_back(register, source));
        match parsed {
            Ok(register) => {
                self.set_stage(key, Stage::Registering { aor: account.aor });
                let query = Query::Register(Box::new(register));
                out.push(Effect::Ask { id: Self::ask_id(key), query });
            }
            Err(refusal) => self.refuse_register(now, key, &refusal, out),
        }
    }

    pub(super) fn finish_register(
        &mut self,
        now: Instant,
        key: Key,
        result: Result<Vec<Binding>, RegisterRefused>,
        out: &mut Outbox,
    ) {
        let bindings = match result {
            Ok(bindings) => bindings,
            Err(refused) => return self.refuse_register(now, key, &Refusal::from(refused), out),
        };
        self.counters.registered += 1;
        let Some(context) = self.contexts.get(key) else { return };
        let Stage::Registering { aor } = &context.stage else { return };
        let settings = OkSettings {
            aor,
            gruus: &self.gruus,
            service_route: &self.settings.service_route,
            flow_timer: self.settings.flow_timer,
        };
        let tag = self.tag_of(&context.request, &context.source);
        let mut reply = Reply::new(&context.request, context.source.remote, 200, "OK", Some(&tag));
        registrar::write_ok(&mut reply, &context.request, &bindings, now, &settings);
        let server = context.server;
        self.respond(now, server, 200, reply.finish(), out);
        self.close(key);
    }

    fn refuse_register(&mut self, now: Instant, key: Key, refusal: &Refusal, out: &mut Outbox) {
        let write = |reply: &mut Reply| refusal.write(reply);
        self.finish_with(now, key, refusal.status, refusal.reason, write, out);
    }
}
