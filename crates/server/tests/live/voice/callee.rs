//! A phone that is called: it has sound, and answers as it is told.

use std::net::SocketAddr;

use media::sdp::Description;
use sip::wire::{Header, Message};

use super::caller::Caller;
use crate::call::{Dialog, contact_of};
use crate::phone::{fresh, text};
use crate::place::Place;

pub(crate) struct Callee {
    pub(crate) line: Caller,
    tag: String,
}

impl Callee {
    /// Known to the registrar.
    pub(crate) fn registered(place: &Place, user: &str) -> Callee {
        let mut callee = Callee::new(place, user);
        callee.line.phone.register();
        callee
    }

    pub(crate) fn new(place: &Place, user: &str) -> Callee {
        Callee { line: Caller::named(place, user), tag: fresh() }
    }

    #[track_caller]
    pub(crate) fn invited(&mut self) -> Message {
        self.line.phone.expect_request("INVITE")
    }

    /// A provisional or final response without sound.
    pub(crate) fn say(&mut self, invite: &Message, status: &str) {
        let contact = format!("Contact: <{}>\r\n", self.line.phone.contact());
        let tag = self.tag.clone();
        self.line.phone.reply(invite, status, &tag, &contact);
    }

    /// With an answer that takes A-law, and where the caller's sound is to be sent.
    pub(crate) fn say_with_sound(&mut self, invite: &Message, status: &str) -> SocketAddr {
        let more = format!(
            "Contact: <{}>\r\nContent-Type: application/sdp\r\nX-Desk: seven\r\n",
            self.line.phone.contact()
        );
        let (tag, sdp) = (self.tag.clone(), self.line.sdp("8 101", "sendrecv"));
        self.line.phone.reply_with(invite, status, &tag, &more, sdp);
        let offer = Description::parse(invite.body()).unwrap();
        offer.remote(offer.audio().unwrap()).unwrap()
    }

    /// 200, and its ACK.
    #[track_caller]
    pub(crate) fn take(&mut self, invite: &Message) -> (Dialog, SocketAddr) {
        let remote = self.say_with_sound(invite, "200 OK");
        self.line.phone.expect_request("ACK");
        (self.dialog(invite), remote)
    }

    /// The callee's side of a call that it has answered.
    pub(crate) fn dialog(&self, invite: &Message) -> Dialog {
        Dialog {
            call_id: text(invite.call_id()),
            local: format!("{};tag={}", text(invite.header(Header::To)), self.tag),
            remote: text(invite.header(Header::From)),
            target: contact_of(invite),
            routes: invite.values(Header::RecordRoute).map(|value| text(Some(value))).collect(),
            cseq: 1,
        }
    }

    /// Rings, and is picked up.
    #[track_caller]
    pub(crate) fn pick_up(&mut self) -> (Dialog, SocketAddr) {
        let invite = self.invited();
        self.say(&invite, "180 Ringing");
        self.take(&invite)
    }

    /// A final refusal, and its ACK.
    #[track_caller]
    pub(crate) fn refuse(&mut self, status: &str) {
        let invite = self.invited();
        self.say(&invite, status);
        self.line.phone.expect_request("ACK");
    }

    /// It is hung up before it answered.
    #[track_caller]
    pub(crate) fn cancelled(&mut self, invite: &Message) {
        let cancel = self.line.phone.expect_request("CANCEL");
        self.line.phone.reply(&cancel, "200 OK", "", "");
        self.say(invite, "487 Request Terminated");
        self.line.phone.expect_request("ACK");
    }

    #[track_caller]
    pub(crate) fn hung_up(&mut self) {
        self.line.hung_up();
    }
}
