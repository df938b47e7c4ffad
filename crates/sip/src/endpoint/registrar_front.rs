//! REGISTER: RFC 3261 §10.3, from the request to the router's word and back. The rules of Contact are
//! [`crate::registrar`]'s, the bindings the router's.
//!
//! In: a REGISTER whose sender has proved to be the account. Out: a `Query::Register`, and after its answer,
//! which comes once the bindings are on disk, the 200 with all of them, or a refusal.

use router::{Binding, Query, RegisterRefused};
use stdx::slab::Key;

use super::context::RequestStage;
use super::lower::{LowerView, ask_id};
use super::{Account, EndpointEffect};
use crate::registrar::gruu::Gruus;
use crate::registrar::{self, ContactReach, OkSettings, RegisterRefusal};
use crate::wire::{DateText, Reply};

/// The front of the registrar: from a REGISTER of a proved account to the router's answer.
pub(crate) struct RegistrarFront {
    pub(crate) gruus: Gruus,
    date: DateText,
}

impl RegistrarFront {
    pub(crate) fn new(gruus: Gruus) -> Self {
        RegistrarFront { gruus, date: DateText::default() }
    }

    /// The sender has proved to be the account it registers.
    pub(crate) fn register(&mut self, lower: &mut LowerView<'_>, key: Key, account: Account) {
        lower.remember_request(key);
        let Some(context) = lower.contexts.get(key) else { return };
        let mut rules = lower.env.settings.registrar;
        rules.max_contacts = account.max_contacts;
        let source = &context.source;
        // A Contact must not lead to this server or into a network that the operator keeps closed: requests
        // to the account would go there.
        let reach = ContactReach {
            networks: &lower.env.settings.trust.contacts,
            is_trusted: lower.env.trust().trusts_registrations(source),
            is_forbidden: &|host, port| lower.env.is_taken(host, port, source),
        };
        let parsed = registrar::parse_register(&context.request, source, account.aor.clone(), &rules, &reach);
        let parsed = parsed.and_then(|register| lower.env.check_way_back(register, source));
        match parsed {
            Ok(register) => {
                lower.set_stage(key, RequestStage::Registering { aor: account.aor });
                let query = Query::Register(Box::new(register));
                lower.out.push(EndpointEffect::Ask { id: ask_id(key), query });
            }
            Err(refusal) => self.refuse_register(lower, key, &refusal),
        }
    }

    /// The router has answered: a 200 lists all bindings of the account, not only those of this request
    /// (§10.3 step 8).
    pub(crate) fn finish_register(
        &mut self,
        lower: &mut LowerView<'_>,
        key: Key,
        result: Result<Vec<Binding>, RegisterRefused>,
    ) {
        let bindings = match result {
            Ok(bindings) => bindings,
            Err(refused) => return self.refuse_register(lower, key, &RegisterRefusal::from(refused)),
        };
        lower.counters.registered += 1;
        let Some(context) = lower.contexts.get(key) else { return };
        let RequestStage::Registering { aor } = &context.stage else { return };
        let settings = OkSettings {
            aor,
            gruus: &self.gruus,
            service_route: &lower.env.settings.service_route,
            flow_timer: lower.env.settings.flow_timer,
            date: self.date.of(lower.now),
        };
        let tag = lower.env.tag_of(&context.request, &context.source);
        let mut reply = Reply::new(&context.request, context.source.remote, 200, "OK", Some(&tag));
        registrar::write_ok(&mut reply, &context.request, &bindings, lower.now, &settings);
        let server = context.server;
        lower.respond(server, 200, reply.finish());
        lower.close(key);
    }

    /// Refuses with the status and headers of the reason.
    fn refuse_register(&mut self, lower: &mut LowerView<'_>, key: Key, refusal: &RegisterRefusal) {
        let write = |reply: &mut Reply| refusal.write(reply);
        lower.finish_with(key, refusal.status, refusal.reason, write);
    }
}
