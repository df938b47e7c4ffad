//! The operator's questions about the calls, registrations and sign-ins of a shard (`Command::Ask`). They are answered at once from the
//! shard's memory, but for the end of a registration: its owner is asked as by a REGISTER.

use std::collections::{BTreeMap, HashMap};

use control::{OpenCall, OpenCallList};
use router::{Answer, AskId, Change, Contact, Query, Register};
use stdx::Instant;
use tokio::sync::oneshot;

use super::Shard;
use super::request_origin::of_operator;
use crate::message::{OperatorQuestion, RegisteredAddresses};

/// The Call-ID of changes that no REGISTER asked for: no binding has it, so that their order is never wrong (RFC 3261 §10.3 step 7).
const CALL_ID: &str = "ended by an operator";

/// Changes that wait for the answer of an address's owner.
#[derive(Default)]
pub(super) struct OperatorChanges {
    waiting: BTreeMap<u64, oneshot::Sender<Answer>>,
    last: u64,
}

impl OperatorChanges {
    /// The number of a new change. Those whose operator has gone are forgotten.
    fn insert(&mut self, answer: oneshot::Sender<Answer>) -> u64 {
        self.waiting.retain(|_, answer| !answer.is_closed());
        self.last += 1;
        self.waiting.insert(self.last, answer);
        self.last
    }

    pub(super) fn handle_answer(&mut self, number: u64, answer: Answer) {
        if let Some(waiting) = self.waiting.remove(&number) {
            // The operator may have gone.
            let _ = waiting.send(answer);
        }
    }
}

/// Handles a question. Lists are cut to the longest that the control protocol sends, and give the number of all.
pub(super) fn handle(shard: &mut Shard, question: OperatorQuestion) {
    let now = shard.parts.clock.now();
    match question {
        // The asker may have hung up, here and below.
        OperatorQuestion::Bindings { aor, answer } => drop(answer.send(shard.parts.bindings(aor))),
        OperatorQuestion::Blocks { answer } => drop(answer.send(shard.parts.endpoint.blocks(now))),
        OperatorQuestion::LiftBlock { subject, answer } => {
            let _ = answer.send(shard.parts.endpoint.lift_block(now, &subject));
        }
        OperatorQuestion::OpenCalls { account, answer } => {
            drop(answer.send(open_calls(shard, account.as_deref())));
        }
        OperatorQuestion::CallMessages { call_id, answer } => {
            drop(answer.send(sip::endpoint::ladder_of(&shard.parts.endpoint, &call_id)));
        }
        OperatorQuestion::Registrations { query, answer } => {
            // Of each shard, as all names of a page may be in one; `RegistrationPage::joined` cuts the sum.
            let most = query.limit.min(control::limits::LIST_PAGE) as usize;
            let from = (&*query.prefix, &*query.after);
            let (addresses, total) = shard.parts.router.registrations(now, from, most);
            drop(answer.send(RegisteredAddresses { addresses, total }));
        }
        OperatorQuestion::EndRegistration { aor, contact, answer } => {
            let number = shard.operator_changes.insert(answer);
            shard.ask(now, AskId(of_operator(number)), Query::Register(Box::new(removal(aor, *contact))));
        }
    }
}

/// The change of a REGISTER with `expires=0` for this contact (RFC 3261 §10.2.2). The limit of contacts is for additions only.
fn removal(aor: Box<str>, contact: Contact) -> Register {
    // The other bindings of the address stay (RFC 3261 §10.2.2: expiry 0 is for the named contact).
    let change = Change::Update(vec![Contact { expires: 0, ..contact }]);
    Register { aor, call_id: CALL_ID.into(), cseq: 0, change, max_contacts: usize::MAX }
}

/// The open calls of the ledger. Calls of applications have the SID by which REST names them.
fn open_calls(shard: &Shard, account: Option<&str>) -> OpenCallList {
    let (calls, total) = shard.records.open_calls(account, control::limits::OPEN_CALLS);
    let voice = shard.voice.as_ref();
    let sids: HashMap<&str, &str> =
        voice.iter().flat_map(|voice| ::voice::control::live_calls(&voice.calls)).collect();
    let row = |call: call::OpenCall| {
        let state = if call.answer.is_some() { "answered" } else { "calling" };
        OpenCall {
            sid: sids.get(&*call.call_id).map(|sid| (*sid).into()),
            call_id: call.call_id,
            from: call.from,
            to: call.to,
            account: call.account,
            callee: call.callee,
            state: state.into(),
            started_at: call.start.as_micros(),
            answered_at: call.answer.map(Instant::as_micros),
            node: None,
        }
    };
    OpenCallList { calls: calls.into_iter().map(row).collect(), total: total as u64 }
}
