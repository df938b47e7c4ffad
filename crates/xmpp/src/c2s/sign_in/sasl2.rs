//! SASL2 (XEP-0388) with Bind 2 (XEP-0386) and resumption in the same breath.

use super::{Attempt, Sasl2Context, SignIn, SignInOutcome};
use crate::c2s::fast::{self, NewToken};
use crate::c2s::writer::StreamWriter;
use crate::c2s::{BindRequest, Outbox, UserAgent, features};
use crate::sasl::{self, Failure, Mechanism, Step, Token};
use crate::{Element, Jid, limits, ns};

/// The requests that a client makes with its authentication.
#[derive(Debug, Default)]
pub(in crate::c2s) struct Sasl2Request {
    /// Bind 2 (XEP-0386).
    pub(in crate::c2s) bind: Option<Element>,
    /// The id of an old session and how many of its stanzas the client has had (XEP-0198 §5).
    pub(in crate::c2s) resume: Option<(Box<str>, u32)>,
    pub(in crate::c2s) agent: Option<Box<UserAgent>>,
    pub(in crate::c2s) fast: fast::FastRequest,
    /// The token that the client signed in by.
    pub(in crate::c2s) used: Option<Token>,
    pub(in crate::c2s) token: Option<NewToken>,
    /// Why the old session is not taken up.
    pub(in crate::c2s) failed: Option<Element>,
}

/// The features that may be requested inline.
pub(in crate::c2s) fn inline(writer: &StreamWriter, sign_in: &SignIn) -> Element {
    let feature = |var: &'static str| Element::new("feature", ns::BIND2).with("var", var);
    let inline = [ns::SM, ns::CSI, ns::CARBONS].into_iter().map(feature);
    let bind = Element::new("bind", ns::BIND2).child(Element::new("inline", ns::BIND2).children(inline));
    Element::new("inline", ns::SASL2)
        .child(bind)
        .child(Element::new("sm", ns::SM))
        .children(fast::inline(writer, sign_in))
}

/// XEP-0388 §2.3.1.
fn agent_of(authenticate: &Element) -> Option<Box<UserAgent>> {
    let agent = authenticate.get("user-agent", ns::SASL2)?;
    let short = |text: &str| (1..=limits::USER_AGENT).contains(&text.len());
    let text = |name| agent.content_of(name, ns::SASL2).filter(|text| short(text)).map(Box::from);
    Some(Box::new(UserAgent {
        id: agent.attr("id").filter(|id| short(id)).map(Box::from),
        software: text("software"),
        device: text("device"),
    }))
}

/// Base64 (XEP-0388 §2.2). Unlike RFC 6120 there is no `=`: an empty element is an empty string. White space around it, as
/// in the text's own examples, is passed over.
fn decode(element: &Element) -> Result<Vec<u8>, Failure> {
    Ok(sasl::decode(element.content().trim_ascii())?.unwrap_or_default())
}

/// The other way round.
fn encode(bytes: &[u8]) -> String {
    if bytes.is_empty() { String::new() } else { sasl::encode(bytes) }
}

impl Sasl2Request {
    /// The further elements of a success: why the old session was not resumed (XEP-0198 §7.2), and a token.
    pub(in crate::c2s) fn after(&mut self) -> impl Iterator<Item = Element> + use<> {
        self.failed.take().into_iter().chain(self.token.take().as_ref().map(fast::element))
    }

    /// The request for a resource (XEP-0386), if there is one.
    pub(in crate::c2s) fn bind_request(&self, user: &Jid, is_anonymous: bool) -> Option<BindRequest> {
        let bind = self.bind.as_ref()?;
        Some(BindRequest {
            user: user.clone(),
            is_anonymous,
            resource: None,
            tag: bind.content_of("tag", ns::BIND2).map(Box::<str>::from),
            agent: self.agent.clone(),
            is_bind2: true,
            can_move: false,
            inline: bind.elements().filter(|child| child.ns() != ns::BIND2).cloned().collect(),
        })
    }
}

/// XEP-0388 §2.6.1. `last`: the mechanism's additional data; `inline`: the answers to the requests.
pub(in crate::c2s) fn success(
    last: Option<Vec<u8>>,
    jid: &Jid,
    inline: impl IntoIterator<Item = Element>,
) -> Element {
    let additional = last.map(|last| Element::new("additional-data", ns::SASL2).text(encode(&last)));
    let name = Element::new("authorization-identifier", ns::SASL2).text(jid.as_str());
    Element::new("success", ns::SASL2).children(additional).child(name).children(inline)
}

impl SignIn {
    /// `<authenticate>` (XEP-0388 §2.3).
    pub(super) fn begin2(
        &mut self,
        authenticate: &Element,
        writer: &mut StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        let initial = authenticate.get("initial-response", ns::SASL2);
        let initial = match initial.map(decode).transpose() {
            Ok(initial) => initial,
            Err(failure) => return self.refuse2(failure, writer, out),
        };
        let resume = authenticate
            .get("resume", ns::SM)
            .and_then(|resume| Some((resume.attr("previd")?.into(), resume.attr("h")?.parse().ok()?)));
        let request = Sasl2Request {
            bind: authenticate.get("bind", ns::BIND2).cloned(),
            resume,
            agent: agent_of(authenticate),
            fast: fast::FastRequest::of(writer, self, authenticate),
            ..Sasl2Request::default()
        };
        let mechanism = authenticate.attr("mechanism").and_then(Mechanism::parse);
        let mechanism = mechanism.filter(|named| match named {
            Mechanism::HashedToken(binding) => {
                request.fast.is_by_token && features::tokens(writer, self).any(|offered| offered == *binding)
            }
            named => features::sasl2_mechanisms(writer, self).contains(named),
        });
        let context = Sasl2Context {
            agent: request.agent.as_ref().and_then(|agent| agent.id.clone()),
            count: request.fast.count,
            caller: self.caller.clone(),
        };
        match self.start_exchange(mechanism, initial.as_deref(), context, writer) {
            Ok((exchange, step)) => {
                self.attempt = Some(Attempt { exchange, sasl2: Some(Box::new(request)) });
                self.handle_step2(step, writer, out)
            }
            Err(failure) => self.refuse2(failure, writer, out),
        }
    }

    /// `<response>` or `<abort>` (XEP-0388 §2.4, §2.5).
    pub(super) fn prove2(
        &mut self,
        element: &Element,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        let Some(attempt) = &mut self.attempt else { return SignInOutcome::Pending };
        if element.is("abort", ns::SASL2) {
            return self.refuse2(Failure::Aborted, writer, out);
        }
        if !element.is("response", ns::SASL2) {
            return SignInOutcome::Fail("not-authorized");
        }
        match decode(element) {
            Ok(response) => {
                let step = attempt.exchange.respond(&response);
                self.handle_step2(step, writer, out)
            }
            Err(failure) => self.refuse2(failure, writer, out),
        }
    }

    /// The next step of the exchange. The success is written later, with the answers to the client's requests.
    pub(super) fn handle_step2(
        &mut self,
        step: Step,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        match step {
            Step::Challenge(bytes) => {
                writer.write(&Element::new("challenge", ns::SASL2).text(encode(&bytes)), out);
                SignInOutcome::Pending
            }
            Step::Find(find) => self.find(find, writer, out),
            Step::Success { user, last } => match self.identify(&user, writer) {
                Some(jid) => {
                    let Some(Attempt { mut exchange, sasl2 }) = self.attempt.take() else {
                        return SignInOutcome::Pending;
                    };
                    let mut request = sasl2.unwrap_or_default();
                    request.used = exchange.take_token();
                    SignInOutcome::Authenticated2 { jid, last, request }
                }
                None => self.refuse2(Failure::NotAuthorized, writer, out),
            },
            Step::Failure(failure) => self.refuse2(failure, writer, out),
        }
    }

    /// `<failure>` (XEP-0388 §2.6.2). Also after the exchange, if its requests could not be granted.
    pub(in crate::c2s) fn refuse2(
        &mut self,
        failure: Failure,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) -> SignInOutcome {
        let condition = Element::new(failure.condition(), ns::SASL);
        writer.write(&Element::new("failure", ns::SASL2).child(condition), out);
        self.end_attempt(failure)
    }
}
