//! The page of an invitation (XEP-0401): a read of the database, and what the page shows of the answer.
//!
//! The page is asked for without a sign-in: the token is all that a browser has. An unknown, a used and an
//! expired one are answered alike.

use chat::effect::Invitation;
use chat_store::invitation::hash_of;
use store::access::{AccessLoaded, AccessRead};
use xmpp::{Bare, time};
use xmpp_io::streams::http::invitation::{InvitationAnswer, InvitationQuery, ShownInvitation};

use super::super::XmppEffect;
use super::clients::{AccessContext, ClientAccess, ClientRequest};

impl ClientAccess {
    /// A browser asks for the page of an invitation. The invitation stays as it is: opening the page does not use it up.
    pub(in crate::xmpp) fn invitation_shown(
        &mut self,
        cx: &mut AccessContext<'_>,
        query: Box<InvitationQuery>,
    ) {
        let hash = hash_of(query.token());
        let id = self.pending.insert(ClientRequest::InvitationPage(query));
        cx.outbox.push(XmppEffect::Access { id, read: AccessRead::Invitation { hash } });
    }
}

/// The page of the invitation with that token.
pub(super) fn answer(cx: &AccessContext<'_>, token: &str, loaded: Option<AccessLoaded>) -> InvitationAnswer {
    let Some(AccessLoaded::Invitation(found)) = loaded else { return InvitationAnswer::Unavailable };
    let is_good =
        |found: &store::access::Invitation| found.expires_at > cx.now && cx.streams.serves(&found.domain);
    let Some(found) = found.filter(|found| is_good(found)) else { return InvitationAnswer::Unknown };
    let inviter = found.inviter.and_then(|inviter| Bare::parse(&inviter).ok());
    let invitation = Invitation {
        domain: found.domain,
        name: found.name,
        inviter,
        registers: found.registers,
        expires_at: found.expires_at,
    };
    InvitationAnswer::Valid(Box::new(ShownInvitation {
        uri: chat::invite::uri(token, &invitation).into(),
        until: time::stamp(invitation.expires_at).into(),
        inviter: invitation.inviter.map(|inviter| inviter.as_str().into()),
        domain: invitation.domain,
    }))
}
