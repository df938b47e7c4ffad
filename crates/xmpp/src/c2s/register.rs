//! Making an account before one has signed in (XEP-0077), or by an invitation (XEP-0445).

use super::sign_in::SignIn;
use super::writer::StreamWriter;
use super::{Effect, Outbox, features};
use crate::sasl::Secret;
use crate::stanza::{self, Condition, StanzaError, StanzaKind};
use crate::{Element, Jid, Level, Specification, ns};

pub(super) const SPECIFICATION: Specification = Specification {
    name: "XEP-0445",
    title: "Pre-Authenticated In-Band Registration",
    version: "0.2.0",
    level: Level::Complete,
    file: "crates/xmpp/src/c2s/register.rs",
    note: "invitations are made by users, administrators and `belfry xmpp invite`",
};

/// The account that a client wants to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Prepared (RFC 7622 §3.3).
    pub user: Box<str>,
    /// The domain of the account.
    pub domain: Box<str>,
    /// The password that the client chose.
    pub password: Secret,
    /// The invitation that it is made by.
    pub invitation: Option<Box<str>>,
}

/// The rights that a valid invitation grants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvitationGrant {
    /// This name and no other.
    pub user: Option<Box<str>>,
}

#[derive(Debug)]
pub(super) struct Invitation {
    token: Box<str>,
    user: Option<Box<str>>,
}

/// The features of registration, beside those of authentication.
pub(super) fn features(writer: &StreamWriter) -> impl Iterator<Item = Element> + use<> {
    let settings = &writer.settings;
    let is_ours = features::external(writer).is_none();
    let open = is_ours && (settings.registration || settings.invitations);
    let invited = (is_ours && settings.invitations).then(|| Element::new("register", ns::IBR_TOKEN));
    let plain = open.then(|| Element::new("register", "http://jabber.org/features/iq-register"));
    invited.into_iter().chain(plain)
}

/// True if it is about an account, and may be asked here. Not in the clear: there is a password in it.
pub(super) fn may_ask(writer: &StreamWriter, sign_in: &SignIn, element: &Element) -> bool {
    let is_about = element.get("query", ns::REGISTER).is_some() || element.get("preauth", ns::PARS).is_some();
    stanza::kind_of(element) == Some(StanzaKind::Iq)
        && is_about
        && !features::mechanisms(writer, sign_in).is_empty()
}

/// The registration of one stream: the invitation that its client has shown, and a request that waits for the driver.
#[derive(Debug, Default)]
pub(super) struct InBandRegistration {
    /// The iq that waits for `Effect::Invited` or `Effect::Register` to be answered.
    pending: Option<Box<Element>>,
    /// The client may make an account by this.
    invitation: Option<Box<Invitation>>,
}

impl InBandRegistration {
    pub(super) fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    pub(super) fn forget_invitation(&mut self) {
        self.invitation = None;
    }

    /// A request that [`may_ask`] let through.
    pub(super) fn handle_iq(&mut self, iq: &Element, writer: &StreamWriter, out: &mut Outbox) {
        match self.answer(iq, writer, out) {
            Ok(Some(effect)) => {
                out.effects.push(effect);
                self.pending = Some(Box::new(iq.clone()));
            }
            Ok(None) => {}
            Err(error) => writer.write(&stanza::refusal(iq, &error), out),
        }
    }

    /// `Ok(None)`: the answer is written. An effect: the driver has it.
    fn answer(
        &self,
        iq: &Element,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) -> Result<Option<Effect>, StanzaError> {
        let is_set = match iq.attr("type") {
            Some("set") => true,
            Some("get") => false,
            _ => return Err(Condition::BadRequest.into()),
        };
        if stanza::to(iq).is_ok_and(|to| to.is_some_and(|to| to.domain() != writer.domain())) {
            return Err(Condition::ItemNotFound.into());
        }
        if features::external(writer).is_some() {
            // A stranger could take the name of a user who has not signed in yet.
            let text = "accounts of this domain are made by the service that knows its users";
            return Err(StanzaError::new(Condition::NotAllowed, text));
        }
        match iq.get("preauth", ns::PARS) {
            Some(preauth) => ask_invited(preauth, is_set, writer).map(Some),
            None if self.invitation.is_none() && !writer.settings.registration => Err(StanzaError::new(
                Condition::NotAllowed,
                "accounts are made by the operator, or by invitation",
            )),
            None if is_set => self.ask_registered(iq, writer).map(Some),
            None => {
                writer.write(&stanza::result(iq, Some(self.form())), out);
                Ok(None)
            }
        }
    }

    /// XEP-0077 §3.1.1: a name and a password, by the old fields or by a form.
    fn ask_registered(&self, iq: &Element, writer: &StreamWriter) -> Result<Effect, StanzaError> {
        let refused = |text| Err(StanzaError::new(Condition::NotAcceptable, text));
        let Some(query) = iq.get("query", ns::REGISTER) else { return Err(Condition::BadRequest.into()) };
        if query.get("remove", ns::REGISTER).is_some() {
            // §3.2: an unauthenticated client cannot name the account to remove.
            return Err(Condition::UnexpectedRequest.into());
        }
        let (Some(user), Some(password)) =
            (register_value(query, "username"), register_value(query, "password"))
        else {
            return refused("username and password are needed");
        };
        // One with capital letters would be another account on the phone.
        let jid = Jid::new(Some(&user), writer.domain(), None).ok();
        let Some(user) =
            jid.filter(|jid| jid.local() == Some(&*user)).and_then(|jid| jid.local().map(Box::from))
        else {
            return refused("a username is lower case, without spaces and the characters \"&'/:<>@");
        };
        let invitation = self.invitation.as_deref();
        if invitation.and_then(|invitation| invitation.user.as_ref()).is_some_and(|invited| *invited != user)
        {
            return refused("this invitation is for another username");
        }
        Ok(Effect::Register(Box::new(Registration {
            user,
            domain: writer.domain().into(),
            password: Secret(password),
            invitation: invitation.map(|invitation| invitation.token.clone()),
        })))
    }

    /// XEP-0077 §3.1.1 and §4, for clients old and new.
    fn form(&self) -> Element {
        let invited = self.invitation.as_ref().and_then(|invitation| invitation.user.as_deref());
        let old = |name: &'static str| Element::new(name, ns::REGISTER);
        let value = |text: &str| Element::new("value", ns::DATA).text(text);
        let field = |var: &'static str, kind: &'static str, label: &'static str| {
            let field = Element::new("field", ns::DATA).with("var", var).with("type", kind);
            field.with("label", label).child(Element::new("required", ns::DATA))
        };
        let of_type = Element::new("field", ns::DATA).with("var", "FORM_TYPE").with("type", "hidden");
        let form = Element::new("x", ns::DATA)
            .with("type", "form")
            .child(Element::new("title", ns::DATA).text("A new account"))
            .child(of_type.child(value(ns::REGISTER)))
            .child(field("username", "text-single", "Username").children(invited.map(value)))
            .child(field("password", "text-private", "Password"));
        let mut username = old("username");
        if let Some(invited) = invited {
            username = username.text(invited);
        }
        Element::new("query", ns::REGISTER)
            .child(old("instructions").text("Choose a username and a password."))
            .child(username)
            .child(old("password"))
            .child(form)
    }

    /// The answer to `Effect::Invited`. True: there is no such invitation.
    pub(super) fn handle_invited(
        &mut self,
        invited: Result<InvitationGrant, StanzaError>,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) -> bool {
        let Some(iq) = self.pending.take() else { return false };
        match invited {
            Ok(InvitationGrant { user }) => {
                let token = iq.get("preauth", ns::PARS).and_then(|preauth| preauth.attr("token"));
                let token = token.unwrap_or_default().into();
                self.invitation = Some(Box::new(Invitation { token, user }));
                writer.write(&stanza::result(&iq, None), out);
                false
            }
            Err(error) => {
                writer.write(&stanza::refusal(&iq, &error), out);
                error.condition == Condition::ItemNotFound
            }
        }
    }

    /// The answer to `Effect::Register`.
    pub(super) fn handle_registered(
        &mut self,
        done: Result<(), StanzaError>,
        writer: &StreamWriter,
        out: &mut Outbox,
    ) {
        let Some(iq) = self.pending.take() else { return };
        match done {
            Ok(()) => {
                self.invitation = None;
                writer.write(&stanza::result(&iq, None), out);
            }
            Err(error) => writer.write(&stanza::refusal(&iq, &error), out),
        }
    }
}

fn ask_invited(preauth: &Element, is_set: bool, writer: &StreamWriter) -> Result<Effect, StanzaError> {
    if !writer.settings.invitations {
        return Err(Condition::ServiceUnavailable.into());
    }
    let token = preauth.attr("token").filter(|token| is_set && !token.is_empty());
    let token = token.ok_or_else(|| StanzaError::from(Condition::BadRequest))?.into();
    Ok(Effect::Invited { token, domain: writer.domain().into() })
}

/// The value of a field in a submitted form, else of the old fields.
pub fn register_value(query: &Element, name: &str) -> Option<Box<str>> {
    let form = query.get("x", ns::DATA).filter(|form| form.attr("type") == Some("submit"));
    let old = || query.content_of(name, ns::REGISTER).filter(|text| !text.is_empty()).map(Box::from);
    form.and_then(|form| form_value(form, name)).or_else(old)
}

/// The first value of a form's field; `None` if it is empty.
pub fn form_value(form: &Element, var: &str) -> Option<Box<str>> {
    let mut fields = form.elements().filter(|field| field.is("field", ns::DATA));
    let value = fields.find(|field| field.attr("var") == Some(var))?.content_of("value", ns::DATA)?;
    (!value.is_empty()).then(|| value.into())
}
