//! Invitations (XEP-0401): a user or an administrator gets a link, and the user that follows it becomes a
//! contact (XEP-0379), by an account made for it when there is none (XEP-0445, `c2s::register`).
//!
//! An invitation is made by a command of a user (`command`, called by `commands`) or by the operator. It is used in two
//! ways: by a subscription request with its token (`preauthenticate`, called by `roster::approval`), which is granted and
//! answered without asking the user; or by a new account, for which the driver calls `Host::befriend_both`.

use std::time::Duration;

use stdx::Instant;
use stdx::rng::Rng;
use xmpp::c2s::form_value;
use xmpp::stanza::{Condition, StanzaError};
use xmpp::{Bare, Element, Jid, Level, Specification, ns, time};

use super::effect::{Access, Invitation, Load, StoreFailure, StoreReply};
use super::feature::{Feature, IqRequest, IqView};
use super::iq_effect::EffectReply;
use super::presence::subscription::SubscriptionAction;
use super::roster::{RosterAction, SentSubscription, SubscriptionRequest};
use super::store_requests::StoreRequests;
use super::{Effect, Host, HostSettings, Outbox};
use crate::{outgoing, roster, token};

const FILE: &str = "crates/chat/src/invite.rs";

pub(super) const FEATURE: Feature = Feature {
    specifications: &[
        Specification {
            name: "XEP-0401",
            title: "Ad-hoc Account Invitation Generation",
            version: "0.5.0",
            level: Level::Complete,
            file: FILE,
            note: "with a page for browsers; also by belfry xmpp invite",
        },
        Specification {
            name: "XEP-0379",
            title: "Pre-Authenticated Roster Subscription",
            version: "0.3.3",
            level: Level::Complete,
            file: FILE,
            note: "checked by the inviter's server, once for each token",
        },
    ],
    account: &[],
    server: &[],
    // Its commands are asked for as all are: `commands`.
    handles: &[],
};

/// The rights to invite. An invitation that is not good for an account still makes contacts of two accounts
/// that exist.
#[derive(Clone, Debug, Default)]
pub struct InvitationSettings {
    /// Users' invitations are good for an account.
    pub by_users: bool,
    /// Administrators' invitations are good for an account.
    pub by_admins: bool,
    /// The time for which an invitation is good.
    pub good_for: Duration,
    /// The URL of the server's HTTP, where each invitation has a page; `None`: there are no pages.
    pub pages: Option<Box<str>>,
}

/// A link, as XEP-0401 §5 writes it: to a new account of a certain name, to a contact (with or without the
/// right to register), or to any account of the domain.
pub fn uri(token: &str, invitation: &Invitation) -> String {
    let Invitation { domain, name, inviter, registers, .. } = invitation;
    match (inviter, name) {
        (_, Some(name)) => format!("xmpp:{name}@{domain}?register;preauth={token}"),
        (Some(inviter), None) if *registers => format!("xmpp:{inviter}?roster;preauth={token};ibr=y"),
        (Some(inviter), None) => format!("xmpp:{inviter}?roster;preauth={token}"),
        (None, None) => format!("xmpp:{domain}?register;preauth={token}"),
    }
}

/// The address of an invitation's page; `base`: the URL of the server's HTTP.
pub fn page_address(base: &str, token: &str) -> String {
    format!("{}/invite/{token}", base.trim_end_matches('/'))
}

/// The token that XEP-0379 puts into a subscription request. An empty one counts as none.
fn token_of(presence: &Element) -> Option<Box<str>> {
    let token = presence.get("preauth", ns::PARS)?.attr("token")?;
    (!token.is_empty()).then(|| token.into())
}

/// True for an invitation command, which the host of its user handles.
pub(super) fn is_command(iq: &Element) -> bool {
    let node = iq.get("command", ns::COMMANDS).and_then(|command| command.attr("node"));
    matches!(node, Some(ns::INVITE | ns::INVITE_ACCOUNT))
}

/// Runs an invitation command. `None`: it is another command, which goes on to `commands`.
pub(super) fn command(
    view: &IqView<'_>,
    (store, rng): (&mut StoreRequests, &mut Rng),
    iq: &IqRequest<'_>,
    out: &mut Outbox,
) -> Option<EffectReply> {
    let node = iq.payload.attr("node")?;
    let is_account = match node {
        ns::INVITE => false,
        ns::INVITE_ACCOUNT => true,
        _ => return None,
    };
    Some(run(view, iq, is_account).map(|effect| match effect {
        InvitationEffect::Reply(payload) => Some(payload),
        InvitationEffect::CheckName(wanted, invitation) => {
            invite_by_name(store, iq, wanted, invitation, out);
            None
        }
        InvitationEffect::Write(invitation) => {
            let (iq, command) = (iq.iq.clone(), reply(iq, "completed"));
            write_invitation(store, rng, (iq, command), invitation, out);
            None
        }
    }))
}

/// The effect of an invitation command.
enum InvitationEffect {
    /// The form is to be filled in, or the command is canceled.
    Reply(Element),
    /// The invitation is written if no account has its name.
    CheckName(Bare, Invitation),
    /// The invitation is written.
    Write(Invitation),
}

/// Checks a command, and says what follows. An account's invitation may name the account and has a form; a user's
/// invitation needs none.
fn run(view: &IqView<'_>, iq: &IqRequest<'_>, is_account: bool) -> Result<InvitationEffect, StanzaError> {
    let user = iq.from.bare();
    let is_ours =
        iq.session.is_some() && user.domain() == iq.to.domain() && !view.accounts.is_anonymous(&user);
    if !is_ours || (is_account && !may_invite(view.settings, iq.from)) {
        return Err(Condition::Forbidden.into());
    }
    if !iq.is_set {
        return Err(Condition::BadRequest.into());
    }
    match iq.payload.attr("action").unwrap_or("execute") {
        "execute" | "complete" => {}
        "cancel" => return Ok(InvitationEffect::Reply(reply(iq, "canceled"))),
        _ => return Err(Condition::BadRequest.into()),
    }
    let form = iq.payload.get("x", ns::DATA);
    let mut invitation = Invitation {
        domain: user.domain().into(),
        name: None,
        inviter: Some(user),
        registers: is_account || may_invite(view.settings, iq.from),
        expires_at: view.now + view.settings.invitations.good_for,
    };
    // A user's invitation has nothing to choose.
    if !is_account {
        return Ok(InvitationEffect::Write(invitation));
    }
    let Some(form) = form else { return Ok(InvitationEffect::Reply(ask(iq))) };
    if !matches!(form_value(form, "roster-subscription").as_deref(), Some("1" | "true")) {
        invitation.inviter = None;
    }
    let Some(name) = form_value(form, "username") else { return Ok(InvitationEffect::Write(invitation)) };
    let jid = Jid::new(Some(&name), iq.to.domain(), None).ok();
    let Some(wanted) = jid.filter(|jid| jid.local() == Some(&*name)) else {
        return Err(StanzaError::new(Condition::JidMalformed, "this is no username"));
    };
    invitation.name = Some(name);
    Ok(InvitationEffect::CheckName(wanted.bare(), invitation))
}

/// The answer of a command in that state. A client that gave no session id gets one, as XEP-0050 requires; it
/// is not remembered, as the form has all that is needed.
fn reply(iq: &IqRequest<'_>, status: &'static str) -> Element {
    let payload = iq.payload;
    Element::new("command", ns::COMMANDS)
        .with_opt("node", payload.attr("node"))
        .with("sessionid", payload.attr("sessionid").unwrap_or("invite"))
        .with("status", status)
}

/// An empty field of a form.
fn field(var: &'static str, kind: &'static str) -> Element {
    Element::new("field", ns::DATA).with("var", var).with("type", kind)
}

/// The form for an account's invitation.
fn ask(iq: &IqRequest<'_>) -> Element {
    let complete = Element::new("complete", ns::COMMANDS);
    let form = Element::new("x", ns::DATA)
        .with("type", "form")
        .child(Element::new("title", ns::DATA).text("Invite a person to make an account"))
        .child(field("username", "text-single").with("label", "Username, or any when empty"))
        .child(field("roster-subscription", "boolean").with("label", "Becomes a contact of yours"));
    reply(iq, "executing")
        .child(Element::new("actions", ns::COMMANDS).with("execute", "complete").child(complete))
        .child(form)
}

/// The result of a command: the link, its page and its end.
fn done(command: Element, token: &str, invitation: &Invitation, pages: Option<&str>) -> Element {
    let value = |text: String| Element::new("value", ns::DATA).text(text);
    let page = |base| field("landing-url", "text-single").child(value(page_address(base, token)));
    let form = Element::new("x", ns::DATA)
        .with("type", "result")
        .child(field("FORM_TYPE", "hidden").child(value(ns::INVITATION.into())))
        .child(field("uri", "text-single").child(value(uri(token, invitation))))
        .children(pages.map(page))
        .child(field("expire", "text-single").child(value(time::stamp(invitation.expires_at))));
    command.child(form)
}

/// True if this account's invitations permit creating an account.
fn may_invite(settings: &HostSettings, from: &Jid) -> bool {
    let invitations = &settings.invitations;
    invitations.by_users || (invitations.by_admins && settings.is_admin(from))
}

/// Nodes of these commands, for disco.
pub(super) fn list_invitations(
    settings: &HostSettings,
    from: &Jid,
) -> impl Iterator<Item = (String, &'static str)> + use<> {
    let is_ours = settings.is_local(from.domain());
    let account = may_invite(settings, from).then(|| (ns::INVITE_ACCOUNT.to_owned(), "Create account"));
    let user = (ns::INVITE.to_owned(), "Invite user");
    std::iter::once(user).chain(account).filter(move |_| is_ours)
}

/// The identity of a command's node, for disco. `None`: not a command that this user may run.
pub(super) fn describe_invitation(settings: &HostSettings, from: &Jid, node: &str) -> Option<Element> {
    let (_, name) = list_invitations(settings, from).find(|(known, _)| known == node)?;
    let identity = Element::new("identity", ns::DISCO_INFO)
        .with("category", "automation")
        .with("type", "command-node")
        .with("name", name);
    let feature = |var: &str| Element::new("feature", ns::DISCO_INFO).with("var", var);
    let query = Element::new("query", ns::DISCO_INFO).with("node", node).child(identity);
    Some(query.child(feature(ns::COMMANDS)).child(feature(ns::DATA)))
}

/// Writes an invitation for an account of a certain name, if no account has it yet.
fn invite_by_name(
    store: &mut StoreRequests,
    iq: &IqRequest<'_>,
    wanted: Bare,
    invitation: Invitation,
    out: &mut Outbox,
) {
    let (iq, command) = (iq.iq.clone(), reply(iq, "completed"));
    store.load(Load::User { user: wanted }, out, move |host, _, result, out| match result {
        Ok(StoreReply::User(None)) => {
            write_invitation(&mut host.store, &mut host.rng, (iq, command), invitation, out);
        }
        // Not checked again when the invitation is used: registration itself refuses a name that is taken.
        Ok(_) => outgoing::refuse(&iq, &StanzaError::new(Condition::Conflict, "this name is taken"), out),
        Err(_) => outgoing::refuse(&iq, &Condition::ResourceConstraint.into(), out),
    });
}

/// Writes an invitation, and then answers the iq by the command with the link in it.
fn write_invitation(
    store: &mut StoreRequests,
    rng: &mut Rng,
    (iq, command): (Element, Element),
    invitation: Invitation,
    out: &mut Outbox,
) {
    let token: Box<str> = token(rng).into();
    let access = Access::Invite { token: token.clone(), invitation: Box::new(invitation.clone()) };
    store.access(access, out, move |host, _, result, out| match result {
        Ok(_) => {
            let pages = host.settings.invitations.pages.clone();
            outgoing::answer(&iq, Ok(Some(done(command, &token, &invitation, pages.as_deref()))), out);
        }
        Err(_) => {
            let text = "too many unused invitations, or they cannot be stored now";
            outgoing::refuse(&iq, &StanzaError::new(Condition::ResourceConstraint, text), out);
        }
    });
}

/// A request for presence with a token (XEP-0379 §3.4). True: it is looked into, and `handle_preauthenticated` or the
/// usual way follows.
pub(super) fn preauthenticate(
    store: &mut StoreRequests,
    user: &Bare,
    contact: &Bare,
    presence: &Element,
    out: &mut Outbox,
) -> bool {
    let Some(token) = token_of(presence) else { return false };
    let (user, contact, presence) = (user.clone(), contact.clone(), presence.clone());
    let access = Access::Invitation { token: token.clone() };
    store.access(access, out, move |host, now, result, out| {
        // The token has to be this user's: it opens no other account.
        let is_good = |found: &Invitation| found.inviter.as_ref() == Some(&user) && found.expires_at > now;
        let is_good = matches!(&result, Ok(StoreReply::Invitation(Some(found))) if is_good(found));
        if !is_good {
            let job = preauthenticated((user.clone(), contact), (presence, false));
            // While the token was looked into, the account may have left memory.
            return host.with_account_data(now, &user, out, job);
        }
        let access = Access::UseInvitation { token, inviter: user.clone() };
        host.store.access(access, out, move |host, now, result, out| {
            let is_used = result == Err(StoreFailure::NotFound);
            let job = preauthenticated((user.clone(), contact), (presence, !is_used));
            host.with_account_data(now, &user, out, job);
        });
    });
    true
}

/// The job for an account when the token of a request was looked into. A good one grants the request in the user's name, and answers it by
/// a request to the contact (XEP-0379 §3.5), so that both see each other; else the user is asked as for any other request (§4.1), as its
/// client may recognise the token.
fn preauthenticated(
    (user, contact): (Bare, Bare),
    (presence, is_good): (Element, bool),
) -> impl FnOnce(&mut Host, Instant, &mut Outbox) + 'static {
    move |host, now, out| {
        if is_good && host.accounts.data(&user).is_none() {
            return;
        }
        let is_approved = is_good && {
            let approval = (contact.clone(), RosterAction::Approve);
            let turn = roster::queue_change(&mut host.accounts, &user, approval);
            turn.map(|job| job.into_iter().for_each(|job| job(host, now, out))).is_ok()
        };
        let (parties, act) = ((&user, contact.clone()), SubscriptionAction::Subscribe);
        let asked = SubscriptionRequest::without_token(&host.accounts, parties, act, presence, out);
        if let Some(job) = asked.and_then(|asked| roster::queue_subscription(&mut host.accounts, asked, out))
        {
            job(host, now, out);
        }
        if is_approved {
            let request = RosterAction::Send(SentSubscription::subscribe(&user, &contact));
            // A refused change is left to the user.
            if let Ok(Some(job)) = roster::queue_change(&mut host.accounts, &user, (contact, request)) {
                job(host, now, out);
            }
        }
    }
}

impl Host {
    /// Makes the inviter a contact of the invited account, then the reverse. In the other order a presence
    /// probe that came before would be answered by `unsubscribed` (XEP-0401 §5.4).
    pub fn befriend_both(&mut self, now: Instant, invited: &Bare, inviter: &Bare, out: &mut Outbox) {
        let next = Effect::Befriend { user: inviter.clone(), contact: invited.clone() };
        self.befriend(now, (invited, inviter), Some(next), out);
    }

    /// Makes an account and its contact see each other, on the side of the account; `after` follows once that is on disk. Each side is written
    /// by its own host.
    pub fn befriend(
        &mut self,
        now: Instant,
        (user, contact): (&Bare, &Bare),
        after: Option<Effect>,
        out: &mut Outbox,
    ) {
        let (user, contact) = (user.clone(), contact.clone());
        self.with_account_data(now, &user.clone(), out, move |host, now, out| {
            if host.accounts.data(&user).is_none() {
                return;
            }
            // With so much on its way that this does not fit, they ask each other as all do.
            let befriend = (contact, RosterAction::Befriend(after));
            if let Ok(Some(job)) = roster::queue_change(&mut host.accounts, &user, befriend) {
                job(host, now, out);
            }
        });
    }
}
