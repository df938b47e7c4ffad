//! MESSAGE outside of any dialog, as a user agent client (RFC 3428 §4): sent once, answered once.

use std::collections::HashMap;

use bytes::Bytes;
use stdx::rng::Rng;

use super::outgoing::CHALLENGES;
use super::{
    CommandError, Dialog, Invite, Login, MessageId, PendingRequests, SessionEffect, SessionEffects,
    SessionEvent, auth,
};
use crate::events::{OutgoingRoute, RequestId};
use crate::limits;
use crate::wire::{Header, Message};

/// One that waits for its final response, kept to be sent again with credentials.
pub(super) struct PendingMessage {
    id: MessageId,
    message: Message,
    onward: OutgoingRoute,
    login: Option<Box<Login>>,
    challenges: u8,
}

/// A text to be sent.
#[derive(Clone, Debug, Default)]
pub struct MessageOut {
    /// As in [`Invite`].
    pub target: Box<str>,
    /// As in [`Invite`].
    pub path: Box<str>,
    /// As in [`Invite`].
    pub received: Option<router::Received>,
    /// As in [`Invite`].
    pub from: Box<str>,
    /// As in [`Invite`].
    pub to: Box<str>,
    /// Made here when empty.
    pub call_id: Box<str>,
    /// The Content-Type of the body.
    pub content_type: Box<str>,
    /// The text.
    pub body: Bytes,
    /// As in [`Invite`].
    pub login: Option<Login>,
    /// As in [`Invite`].
    pub is_binding: bool,
    /// As in [`Invite`].
    pub asserted: Box<str>,
}

/// The MESSAGEs outside of dialogs that wait for their final response, by request.
#[derive(Default)]
pub(super) struct PendingMessages {
    by_request: HashMap<u64, PendingMessage>,
}

impl PendingMessages {
    pub(super) fn len(&self) -> usize {
        self.by_request.len()
    }

    pub(super) fn contains(&self, request: RequestId) -> bool {
        self.by_request.contains_key(&request.0)
    }

    pub(super) fn send(
        &mut self,
        requests: &mut PendingRequests,
        rng: &mut Rng,
        text: MessageOut,
        out: &mut SessionEffects,
    ) -> Result<MessageId, CommandError> {
        let MessageOut { target, path, from, to, call_id, content_type, asserted, .. } = &text;
        let lines = [target, path, from, to, call_id, content_type, asserted];
        let is_one_line = lines.iter().all(|line| !line.contains(char::is_control));
        if self.len() >= limits::SESSION_TEXTS || !is_one_line {
            return Err(CommandError::Refused);
        }
        let call_id: Box<[u8]> = match &*text.call_id {
            "" => rng.token(limits::TAG_CHARS).into_bytes().into(),
            chosen => chosen.as_bytes().into(),
        };
        let MessageOut {
            target,
            path,
            received,
            from,
            to,
            content_type,
            body,
            login,
            is_binding,
            asserted,
            ..
        } = text;
        let names = Invite { target, path, received, from, to, is_binding, ..Invite::default() };
        let tag = rng.token(limits::TAG_CHARS).into();
        let mut dialog = Dialog::calling(&names, call_id, tag).ok_or(CommandError::Refused)?;
        let (mut request, onward) = dialog.request("MESSAGE");
        request.header("User-Agent", crate::wire::PRODUCT.as_bytes());
        if !asserted.is_empty() {
            request.header(Header::PAssertedIdentity.as_str(), asserted.as_bytes());
        }
        let bytes = request.finish_with(&content_type, &body);
        // Headers of applications must leave it a valid message.
        let message = Message::parse(bytes.clone()).map_err(|_| CommandError::Refused)?;
        let number = requests.next_id();
        let id = MessageId(number);
        let texting =
            PendingMessage { id, message, onward: onward.clone(), login: login.map(Box::new), challenges: 0 };
        self.by_request.insert(number, texting);
        out.push(SessionEffect::Request { id: RequestId(number), bytes, onward });
        Ok(id)
    }

    /// A final response, or a failure of ours, to a MESSAGE. False: it is of something else.
    pub(super) fn handle_final(
        &mut self,
        requests: &mut PendingRequests,
        rng: &mut Rng,
        request: RequestId,
        status: u16,
        response: Option<&Message>,
        out: &mut SessionEffects,
    ) -> bool {
        let Some(texting) = self.by_request.remove(&request.0) else { return false };
        let id = texting.id;
        let is_again = response.is_some_and(|response| self.prove(requests, rng, texting, response, out));
        if !is_again {
            out.push(SessionEffect::Event(SessionEvent::MessageAnswered { message: id, status }));
        }
        true
    }

    /// Sent again with credentials, when it was challenged and we have some.
    fn prove(
        &mut self,
        requests: &mut PendingRequests,
        rng: &mut Rng,
        mut texting: PendingMessage,
        response: &Message,
        out: &mut SessionEffects,
    ) -> bool {
        let Some(login) = texting.login.as_deref().filter(|_| texting.challenges < CHALLENGES) else {
            return false;
        };
        texting.challenges += 1;
        let cseq = 1 + u32::from(texting.challenges);
        let Some(bytes) = auth::answer(rng, &texting.message, response, login, cseq) else {
            return false;
        };
        let Ok(message) = Message::parse(bytes.clone()) else { return false };
        texting.message = message;
        let number = requests.next_id();
        let onward = texting.onward.clone();
        self.by_request.insert(number, texting);
        out.push(SessionEffect::Request { id: RequestId(number), bytes, onward });
        true
    }
}
