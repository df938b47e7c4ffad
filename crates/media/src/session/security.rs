//! A leg's SRTP contexts over its re-offers.
//!
//! A key stream must never be used twice (RFC 3711 §9.1). A master key that stays, under another suite or after an
//! interlude of plain RTP, therefore keeps its packet indices: contexts are put aside while RTP is plain, never dropped.

use crate::sdp::Negotiated;
use crate::srtp::{Context, CryptoLine};

/// One direction: the attribute of the SDP that is in force and its state.
struct KeyedSrtp {
    /// The attribute in force, to notice a change.
    line: CryptoLine,
    /// Its keys and packet indices.
    context: Context,
}

impl KeyedSrtp {
    fn new(line: CryptoLine) -> KeyedSrtp {
        KeyedSrtp { line, context: line.context() }
    }

    /// Another attribute for the same direction. The same master key keeps its indices.
    fn change(&mut self, line: CryptoLine) {
        if line == self.line {
            return;
        }
        if line.key == self.line.key {
            self.context.change_suite(line.suite, line.unencrypted);
        } else {
            self.context = line.context();
        }
        self.line = line;
    }
}

/// The contexts of both directions: SDES has a key for each (RFC 4568 §6.1).
struct Directions {
    send: KeyedSrtp,
    receive: KeyedSrtp,
}

/// The SRTP of one leg. Without keys it costs a null pointer.
#[derive(Default)]
pub(super) struct Security {
    directions: Option<Box<Directions>>,
    /// The last offer and answer agreed on SRTP; the contexts stay while they do not.
    is_on: bool,
}

impl Security {
    pub(super) fn new(negotiated: &Negotiated) -> Security {
        let mut security = Security::default();
        security.renegotiate(negotiated);
        security
    }

    /// The keys of an offer and answer, or plain RTP.
    pub(super) fn renegotiate(&mut self, negotiated: &Negotiated) {
        self.is_on = negotiated.srtp.is_some();
        let Some((send, receive)) = negotiated.srtp else { return };
        match &mut self.directions {
            Some(directions) => {
                directions.send.change(send);
                directions.receive.change(receive);
            }
            None => {
                let directions = Directions { send: KeyedSrtp::new(send), receive: KeyedSrtp::new(receive) };
                self.directions = Some(Box::new(directions));
            }
        }
    }

    /// True while SRTP is negotiated: packets that come are authentic.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Protects what is sent; `None` while RTP is plain.
    pub(super) fn sender(&mut self) -> Option<&mut Context> {
        let is_on = self.is_on;
        self.directions.as_mut().filter(|_| is_on).map(|directions| &mut directions.send.context)
    }

    /// Checks and decrypts what is received; `None` while RTP is plain.
    pub(super) fn receiver(&mut self) -> Option<&mut Context> {
        let is_on = self.is_on;
        self.directions.as_mut().filter(|_| is_on).map(|directions| &mut directions.receive.context)
    }
}
