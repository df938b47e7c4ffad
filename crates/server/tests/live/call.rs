//! Calls between phones: their messages, in a few verbs.

use sip::wire::{Header, Message};

use crate::phone::{Ask, Phone, fresh, text};

/// An INVITE that was sent and what is needed to go on with it.
pub(crate) struct Invite {
    pub(crate) ask: Ask<'static>,
    /// As it went out, for ACK and CANCEL.
    pub(crate) sent: Message,
}

/// One side of a dialog (RFC 3261 §12).
pub(crate) struct Dialog {
    pub(crate) call_id: String,
    pub(crate) local: String,
    pub(crate) remote: String,
    pub(crate) target: String,
    pub(crate) routes: Vec<String>,
    pub(crate) cseq: u32,
}

impl Phone {
    /// An INVITE, with the password if the server wants one.
    #[track_caller]
    pub(crate) fn invite(&mut self, to: &str) -> Invite {
        let uri: &'static str = format!("sip:{to}").leak();
        let mut ask = self.ask("INVITE", uri);
        ask.more = format!("Contact: <{}>\r\n", self.contact());
        let mut sent = self.send_invite(&ask);
        if self.proves {
            let word = self.first_word(&ask);
            match self.prove(&word, &ask) {
                Some(proof) => {
                    self.acknowledge_refusal(&sent, &word);
                    ask.more.push_str(&proof);
                    ask.cseq = self.next_cseq();
                    sent = self.send_invite(&ask);
                }
                None => self.put_back(word),
            }
        }
        Invite { ask, sent }
    }

    #[track_caller]
    fn first_word(&mut self, ask: &Ask<'_>) -> Message {
        let (call_id, cseq) = (ask.call_id.clone(), ask.cseq);
        self.expect("a challenge", |message| {
            message.status() > 100
                && message.call_id() == Some(call_id.as_bytes())
                && message.cseq().is_some_and(|(number, _)| number == cseq)
        })
    }

    pub(crate) fn send_invite(&mut self, ask: &Ask<'_>) -> Message {
        let bytes = self.write(ask);
        self.send(bytes.as_bytes());
        Message::parse(bytes.into()).unwrap()
    }

    fn acknowledge_refusal(&mut self, invite: &Message, refusal: &Message) {
        let to = refusal.header(Header::To).unwrap().to_vec();
        let ack = sip::wire::Request::from_invite("ACK", invite, &to);
        self.send(&ack);
    }

    /// The final answer; an ACK is sent for a refusal.
    #[track_caller]
    pub(crate) fn outcome(&mut self, invite: &Invite) -> Message {
        let answer = self.final_of(&invite.ask);
        if answer.status() >= 300 {
            self.acknowledge_refusal(&invite.sent, &answer);
        }
        answer
    }

    /// Rings and answers the next INVITE.
    #[track_caller]
    pub(crate) fn pick_up(&mut self) -> Dialog {
        let invite = self.expect_request("INVITE");
        self.accept(&invite)
    }

    pub(crate) fn accept(&mut self, invite: &Message) -> Dialog {
        let tag = fresh();
        let contact = format!("Contact: <{}>\r\n", self.contact());
        self.reply(invite, "180 Ringing", &tag, &contact);
        self.reply(invite, "200 OK", &tag, &contact);
        Dialog {
            call_id: text(invite.call_id()),
            local: format!("{};tag={tag}", text(invite.header(Header::To))),
            remote: text(invite.header(Header::From)),
            target: contact_of(invite),
            routes: invite.values(Header::RecordRoute).map(|value| text(Some(value))).collect(),
            cseq: 1,
        }
    }

    /// The caller's side once the 200 is there; sends the ACK.
    #[track_caller]
    pub(crate) fn answered(&mut self, invite: &Invite) -> Dialog {
        let ok = self.final_of(&invite.ask);
        assert_eq!(ok.status(), 200, "{}", text(Some(ok.start_line())));
        let mut routes: Vec<String> = ok.values(Header::RecordRoute).map(|value| text(Some(value))).collect();
        routes.reverse();
        let dialog = Dialog {
            call_id: invite.ask.call_id.clone(),
            local: invite.ask.from.clone(),
            remote: text(ok.header(Header::To)),
            target: contact_of(&ok),
            routes,
            cseq: invite.ask.cseq,
        };
        let ack = dialog.ask("ACK", dialog.cseq);
        let bytes = self.write(&ack);
        self.send(bytes.as_bytes());
        dialog
    }

    /// A request in the dialog, its answer awaited.
    #[track_caller]
    pub(crate) fn within(&mut self, dialog: &mut Dialog, method: &'static str) -> Message {
        dialog.cseq += 1;
        let ask = dialog.ask(method, dialog.cseq);
        let bytes = self.write(&ask);
        self.send(bytes.as_bytes());
        self.final_of(&ask)
    }

    /// Sends BYE, without waiting.
    pub(crate) fn hang_up(&mut self, dialog: &mut Dialog) -> Ask<'static> {
        dialog.cseq += 1;
        let ask = dialog.ask("BYE", dialog.cseq);
        let bytes = self.write(&ask);
        self.send(bytes.as_bytes());
        ask
    }
}

impl Dialog {
    pub(crate) fn ask(&self, method: &'static str, cseq: u32) -> Ask<'static> {
        let routes: String = self.routes.iter().map(|route| format!("Route: {route}\r\n")).collect();
        Ask {
            method,
            uri: self.target.clone().leak(),
            from: self.local.clone(),
            to: self.remote.clone(),
            call_id: self.call_id.clone(),
            cseq,
            more: routes,
            body: "",
        }
    }
}

/// A whole call: `caller` calls `callee` at `to`, one of them hangs up.
#[track_caller]
pub(crate) fn talk(caller: &mut Phone, callee: &mut Phone, to: &str) {
    let invite = caller.invite(to);
    callee.pick_up();
    let mut caller_dialog = caller.answered(&invite);
    callee.expect_request("ACK");
    end(caller, &mut caller_dialog, callee);
}

/// `one` hangs up and `other` agrees.
#[track_caller]
pub(crate) fn end(one: &mut Phone, dialog: &mut Dialog, other: &mut Phone) {
    let bye = one.hang_up(dialog);
    let request = other.expect_request("BYE");
    other.reply(&request, "200 OK", "", "");
    assert_eq!(one.final_of(&bye).status(), 200);
}

pub(crate) fn contact_of(message: &Message) -> String {
    let value = message.values(Header::Contact).next().expect("a Contact");
    text(Some(sip::wire::Address::parse(value).unwrap().uri))
}
