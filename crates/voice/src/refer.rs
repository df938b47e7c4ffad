//! Transfers that a peer asks for: REFER (RFC 3515) within a Dial whose document says who is to be asked, blind ones
//! (RFC 5589 §6). An attended one would have a dialog that is not ours replaced (RFC 3891), and is refused.

use ivr::request::{Form, Target};
use ivr::script::{Role, Script};
use sip::session::{ReferId, SessionId};
use sip::wire::{Header, Message, Uri};
use stdx::slab::Key;

use super::actor::{Actor, Part};
use super::dial::{Dials, plan_of};
use super::dial_attempt::{DialAttempt, Originator, text};
use super::dial_effect::{DialEffect, DialOutbox};

/// An accepted REFER: the two parties of the call, and the application that decides about the party that stays.
pub(super) struct Transfer {
    caller: Key,
    attempt: Key,
    is_by_caller: bool,
    /// The document to ask.
    document: Target,
    /// The URI of the Refer-To.
    target: String,
}

/// A REFER, and the leg that it came in on.
pub(super) struct ReferRequest<'a> {
    pub(super) session: SessionId,
    pub(super) refer: ReferId,
    pub(super) leg: Key,
    /// The attempt that the leg is a phone of.
    pub(super) attempt: Option<Key>,
    pub(super) request: &'a Message,
}

impl Dials {
    /// Accepts a transfer of a connection whose Dial names a document for it; refuses any other.
    pub(super) fn handle_refer(&self, refer: &ReferRequest<'_>, out: &mut DialOutbox) {
        let ReferRequest { session, refer, leg, attempt, request } = *refer;
        let target = uri_in(request, Header::ReferTo).unwrap_or_default();
        if is_attended(&target) {
            // RFC 3891 §3: Replaces names a dialog at the transfer target, which is not known here.
            let (status, reason) = (501, "Not Implemented");
            return out.push(DialEffect::RefuseRefer { session, refer, status, reason });
        }
        out.push(match self.transfer_of(leg, attempt, target) {
            // RFC 3515 §2.4.2: 202; the NOTIFY of §2.4.4 follows.
            Some(transfer) => DialEffect::AcceptRefer { session, refer, transfer: Box::new(transfer) },
            None => DialEffect::RefuseRefer { session, refer, status: 603, reason: "Decline" },
        });
    }

    /// A connection of a Dial that lets itself be transferred, seen from either side.
    fn transfer_of(&self, leg: Key, attempt: Option<Key>, target: String) -> Option<Transfer> {
        let caller = match attempt {
            Some(attempt) => self.get(attempt)?.caller,
            None => leg,
        };
        let dial = self.callers.get(&caller)?;
        let (document, attempt) = (dial.refer.clone()?, dial.bridged?);
        let is_by_caller = caller == leg;
        let is_in_it = is_by_caller || self.get(attempt)?.phones.contains(&leg);
        is_in_it.then_some(Transfer { caller, attempt, is_by_caller, document, target })
    }

    /// The referrer was told that the transfer is done: the other party goes on with the document.
    pub(super) fn handle_refer_accepted(&mut self, transfer: Transfer, out: &mut DialOutbox) {
        let parameters = self.parameters(&transfer);
        if transfer.is_by_caller {
            return self.continue_callee(&transfer, parameters, out);
        }
        let Transfer { caller, document, .. } = transfer;
        out.push(DialEffect::TransferScript { leg: caller, target: document, parameters });
    }

    /// Twilio's parameter, and RestComm's.
    fn parameters(&self, transfer: &Transfer) -> Form {
        let caller = self.callers.get(&transfer.caller).map(|dial| dial.from.to_string()).unwrap_or_default();
        let callee = self.get(transfer.attempt).map(|attempt| attempt.to.clone()).unwrap_or_default();
        let (transferor, transferee) =
            if transfer.is_by_caller { (caller, callee) } else { (callee, caller) };
        let pair = |name: &str, value: String| (name.to_owned(), value);
        vec![
            pair("ReferTransferTarget", transfer.target.clone()),
            pair("ReferTarget", transfer.target.clone()),
            pair("Transferor", transferor),
            pair("Transferee", transferee),
        ]
    }

    /// The caller has transferred its callee: the callee's leg is a call of its own now, and the caller's script goes
    /// on behind its Dial.
    fn continue_callee(&mut self, transfer: &Transfer, parameters: Form, out: &mut DialOutbox) {
        let (caller, key) = (transfer.caller, transfer.attempt);
        let Some(&phone) = self.get(key).and_then(|attempt| attempt.phones.first()) else { return };
        let Some(attempt) = self.take(key) else { return };
        out.push(DialEffect::Disconnect { leg: caller });
        let is_last = self.leave(caller, key, out);
        let mut call = attempt.call();
        call.extra.extend(parameters);
        let script = Script::new(call, plan_of(Role::Call, transfer.document.clone()));
        let DialAttempt { actor, originator, from, .. } = attempt;
        out.push(DialEffect::Detach { phone, from });
        out.push(DialEffect::StartScript(Box::new(Actor { script, leg: phone, part: Part::Main })));
        if let Originator::Dialed(id) = originator {
            out.push(DialEffect::TellEnded { actor, id, recorded: is_last.then_some(caller) });
        }
    }
}

/// RFC 5589 §7: the Refer-To of an attended transfer carries a Replaces.
fn is_attended(target: &str) -> bool {
    Uri::parse(target.as_bytes()).is_ok_and(|uri| {
        let headers = String::from_utf8_lossy(uri.headers).to_ascii_lowercase();
        headers.split('&').any(|header| header.starts_with("replaces="))
    })
}

/// The URI of a Refer-To, a Contact or the like.
fn uri_in(message: &Message, header: Header) -> Option<String> {
    sip::wire::Address::parse(message.header(header)?).map(|address| text(address.uri))
}
