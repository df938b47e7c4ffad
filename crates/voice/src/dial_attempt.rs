//! A dial attempt: the callee of a Dial or of the REST interface. Its address is looked up, its phones ring together,
//! groups of them in turn; the first that answers is the attempt's leg and the others are hung up. For its script all
//! that is one leg. [`super::dial::Dials`] decides with it.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use ivr::document::{Address as Dialled, Item};
use ivr::request::Form;
use ivr::script::{Call, CallStatus, Direction, Id, LegFailure};
use media::codec::Codec;
use router::Aor;
use sip::endpoint::ListedUnder;
use sip::session::{Invite, Login};
use sip::wire::{Message, Uri};
use stdx::rng::Rng;
use stdx::slab::{Key, Slab};

use super::leg::codecs_like;
use super::outgoing::CallOrigin;
use super::record::Background;
use super::rows::{self, Row};
use super::{API_VERSION, Address, CountedCall, Destination, Owner};

/// A call that a script makes, and its progress.
pub(super) struct DialAttempt {
    /// The actor whose script is told.
    pub(super) actor: Key,
    pub(super) originator: Originator,
    /// The leg of that script.
    pub(super) caller: Key,
    pub(super) sid: String,
    /// The sid of the caller's call.
    pub(super) parent_sid: Option<String>,
    pub(super) owner: Arc<Owner>,
    /// As scripts know the two.
    pub(super) from: Box<str>,
    pub(super) caller_name: Option<Box<str>>,
    pub(super) to: String,
    /// From and To of the INVITE; the second is empty for a destination that is called directly.
    from_name: Box<str>,
    pub(super) to_name: Box<str>,
    /// The dialled URI, when its host is not ours.
    pub(super) direct: Option<Box<str>>,
    headers: Vec<(Box<str>, Box<str>)>,
    login: Option<Login>,
    pub(super) send_digits: Vec<Item>,
    /// The time that its phones may ring.
    pub(super) timeout: Duration,
    pub(super) codecs: &'static [Codec],
    /// Max-Forwards.
    pub(super) hops: u8,
    /// A limit of ours refused it, and a notification has said which.
    pub(super) is_refused: bool,
    /// Its P-Asserted-Identity towards trusted next hops, when the caller's identity is proved or the account's.
    pub(super) asserted: Box<str>,
    /// The account that is called counts the call.
    pub(super) counted: Option<Arc<CountedCall>>,
    /// While its address is looked up.
    pub(super) ticket: Option<u64>,
    /// Still to be tried.
    pub(super) groups: VecDeque<Vec<Destination>>,
    /// The legs of its phones that ring, or of the one that has answered.
    pub(super) phones: Vec<Key>,
    pub(super) is_up: bool,
    pub(super) has_started: bool,
    pub(super) has_rung: bool,
    /// The most telling so far.
    pub(super) failure: Option<LegFailure>,
    /// The Call-ID of the phone that was called last, then of the one that has answered.
    pub(super) call_id: String,
    /// The account that is called, when it is one of ours.
    pub(super) aor: Option<Aor>,
    /// `X-` headers of the answer.
    pub(super) answer_headers: Form,
    /// The row of a Dial's call; for a call of the REST interface the leg has it.
    pub(super) row: Option<Box<Row>>,
    /// Begins with the answer.
    pub(super) record: Option<Background>,
}

/// The role of an attempt for the script that is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Originator {
    /// A leg of its Dial.
    Dialed(Id),
    /// The script's own call, that the REST interface asked for.
    Own,
}

/// The script that makes an attempt, and the parties of the call.
pub(super) struct DialOrigin {
    pub(super) actor: Key,
    pub(super) originator: Originator,
    /// The leg of the script.
    pub(super) caller: Key,
    pub(super) owner: Arc<Owner>,
    /// The caller as scripts know it, and its From.
    pub(super) from: Box<str>,
    pub(super) from_name: Box<str>,
}

/// One phone of an attempt: the leg that is to be made for it, and its INVITE.
pub(super) struct PhoneInvite {
    pub(super) sid: String,
    pub(super) owner: Arc<Owner>,
    /// The address that the signalling comes from, as far as it is known.
    pub(super) trusted: IpAddr,
    pub(super) codecs: &'static [Codec],
    pub(super) hops: u8,
    pub(super) counted: Option<Arc<CountedCall>>,
    /// Without its offer, which the leg makes.
    pub(super) invite: Invite,
}

impl DialAttempt {
    pub(super) fn new(origin: DialOrigin, sid: String) -> DialAttempt {
        let DialOrigin { actor, originator, caller, owner, from, from_name } = origin;
        DialAttempt {
            actor,
            originator,
            caller,
            sid,
            parent_sid: None,
            owner,
            from,
            caller_name: None,
            to: String::new(),
            from_name,
            to_name: "".into(),
            direct: None,
            headers: Vec::new(),
            login: None,
            send_digits: Vec::new(),
            timeout: sip::limits::RING_PATIENCE,
            codecs: codecs_like(None),
            hops: sip::limits::MAX_FORWARDS,
            asserted: "".into(),
            counted: None,
            ticket: None,
            groups: VecDeque::new(),
            phones: Vec::new(),
            is_up: false,
            has_started: false,
            has_rung: false,
            failure: None,
            is_refused: false,
            call_id: String::new(),
            aor: None,
            answer_headers: Form::new(),
            row: None,
            record: None,
        }
    }

    /// Takes the address to look up. `None`: no address, or not one of SIP.
    pub(super) fn take_address(&mut self, to: Dialled) -> Option<Address> {
        self.to = shown(&to);
        let of_user = |user: String| Address { user: user.into(), host: "".into(), port: None };
        let uri = match to {
            Dialled::Number { number, send_digits } => {
                self.send_digits.extend(send_digits);
                // As people write them. RFC 3966 §5.1.1: visual separators mean nothing.
                return Some(of_user(number.chars().filter(|c| !" -.()".contains(*c)).collect()));
            }
            Dialled::Client { name } => return Some(of_user(name)),
            Dialled::Sip { uri, headers, username, password } => {
                self.headers = headers.into_iter().map(|(name, value)| (name.into(), value.into())).collect();
                self.login = username
                    .map(|user| Login { user: user.into(), password: password.unwrap_or_default().into() });
                uri
            }
            Dialled::Uri(uri) => uri,
            Dialled::Queue { .. } => return None,
        };
        // COMPAT(RestComm): addresses are written without their scheme, too.
        let scheme = uri.split(':').next().unwrap_or_default().to_ascii_lowercase();
        let uri = if matches!(&*scheme, "sip" | "sips") { uri } else { format!("sip:{uri}") };
        let parsed = Uri::parse(uri.as_bytes()).ok().filter(Uri::is_sip)?;
        let address = Address {
            user: parsed.user_decoded().unwrap_or_default().into(),
            host: parsed.host_lower().into(),
            port: parsed.port,
        };
        self.direct = Some(uri.into());
        Some(address)
    }

    /// The phones of a group, each with its INVITE.
    pub(super) fn invites(
        &self,
        group: Vec<Destination>,
        origin: &CallOrigin,
        rng: &mut Rng,
    ) -> Vec<PhoneInvite> {
        group.into_iter().map(|reach| self.invite_to(reach, origin.call_id(rng))).collect()
    }

    fn invite_to(&self, reach: Destination, call_id: String) -> PhoneInvite {
        let host = Uri::parse(reach.uri.as_bytes()).ok().and_then(|uri| uri.host_ip());
        let trusted = reach.received.map(|received| received.remote.ip()).or(host);
        PhoneInvite {
            // A call of the REST interface has its sid with the leg that its script is on.
            sid: if self.originator == Originator::Own { String::new() } else { self.sid.clone() },
            owner: Arc::clone(&self.owner),
            // A name's address is known once a response came from it; no media comes from 0.0.0.0.
            trusted: trusted.unwrap_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED)),
            codecs: self.codecs,
            hops: self.hops,
            counted: self.counted.clone(),
            invite: Invite {
                target: reach.uri,
                path: reach.path,
                received: reach.received,
                from: self.from_name.clone(),
                to: self.to_name.clone(),
                call_id: call_id.into(),
                headers: self.headers.clone(),
                login: self.login.clone(),
                public_only: reach.public_only,
                is_binding: reach.is_binding,
                asserted: self.asserted.clone(),
                hops: self.hops,
                timeout: self.timeout,
                listed: ListedUnder { account: Some(self.owner.account.clone()), callee: self.aor.clone() },
                ..Invite::default()
            },
        }
    }

    /// The call of the callee, as the scripts on the callee's leg know it.
    pub(super) fn call(&self) -> Call {
        Call {
            sid: self.sid.clone(),
            account_sid: self.owner.account.to_string(),
            from: self.from.to_string(),
            to: self.to.clone(),
            direction: Direction::OutboundDial,
            caller_name: self.caller_name.as_deref().map(str::to_owned),
            forwarded_from: None,
            parent_sid: self.parent_sid.clone(),
            api_version: API_VERSION.to_owned(),
            extra: self.extra(),
            answered: true,
        }
    }

    /// Parameters of the dialog for scripts on its leg.
    pub(super) fn extra(&self) -> Form {
        let headers =
            self.answer_headers.iter().map(|(name, value)| (format!("SipHeader_{name}"), value.clone()));
        std::iter::once((rows::CALL_ID.to_owned(), self.call_id.clone())).chain(headers).collect()
    }

    /// The most telling failure, with the Call-ID of the last INVITE where no answer brought one.
    pub(super) fn failure(&self) -> Option<LegFailure> {
        let mut failure = self.failure.clone()?;
        if failure.call_id.is_none() && !self.call_id.is_empty() {
            failure.call_id = Some(self.call_id.clone());
        }
        Some(failure)
    }

    /// As its call ends.
    pub(super) fn status(&self) -> CallStatus {
        match &self.failure {
            _ if self.is_up => CallStatus::Completed,
            Some(failure) => failure.status,
            None => CallStatus::NoAnswer,
        }
    }

    /// Keeps the most telling failure: a busy callee counts more than no answer, and either more than an error.
    pub(super) fn note_failure(&mut self, failure: LegFailure) {
        let weight = |status| match status {
            CallStatus::Busy => 2,
            CallStatus::NoAnswer => 1,
            _ => 0,
        };
        if self.failure.as_ref().is_none_or(|known| weight(failure.status) >= weight(known.status)) {
            self.failure = Some(failure);
        }
    }
}

/// As a leg's `To`.
pub(super) fn shown(address: &Dialled) -> String {
    match address {
        Dialled::Number { number, .. } => number.clone(),
        Dialled::Client { name } => format!("client:{name}"),
        Dialled::Sip { uri, .. } | Dialled::Uri(uri) => uri.clone(),
        Dialled::Queue { name, .. } => format!("queue:{name}"),
    }
}

/// The call status for a final status. A callee that declines is busy for the caller, as with RestComm.
fn status_of(code: u16) -> CallStatus {
    match code {
        486 | 600 | 603 => CallStatus::Busy,
        408 | 480 | 487 => CallStatus::NoAnswer,
        _ => CallStatus::Failed,
    }
}

pub(super) fn failure_of(code: u16, response: Option<&Message>) -> LegFailure {
    // RFC 3261 §7.2: the phrase is the callee's own, where it is the callee's status that counts.
    let reason =
        response.filter(|response| response.status() == code).map(|response| text(response.reason()));
    LegFailure {
        status: status_of(code),
        code: Some(code),
        reason: reason.unwrap_or_else(|| phrase_of(code).to_owned()),
        call_id: response.and_then(Message::call_id).map(text),
        headers: response.map(extra_headers).unwrap_or_default(),
    }
}

/// RFC 3261 §21: of statuses that end a call on this side.
fn phrase_of(code: u16) -> &'static str {
    match code {
        403 => "Forbidden",
        404 => "Not Found",
        408 => "Request Timeout",
        416 => "Unsupported URI Scheme",
        480 => "Temporarily Unavailable",
        483 => "Too Many Hops",
        487 => "Request Terminated",
        488 => "Not Acceptable Here",
        500 => "Server Internal Error",
        503 => "Service Unavailable",
        _ => "",
    }
}

pub(super) fn extra_headers(message: &Message) -> Form {
    let all = message.others().filter(|(name, _)| name.len() > 2 && name[..2].eq_ignore_ascii_case(b"X-"));
    all.map(|(name, value)| (text(name), text(value))).collect()
}

pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// True if one of these attempts has been answered.
pub(super) fn is_any_up(attempts: &Slab<DialAttempt>, keys: &[Key]) -> bool {
    keys.iter().any(|key| attempts.get(*key).is_some_and(|attempt| attempt.is_up))
}
