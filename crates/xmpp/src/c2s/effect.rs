//! The inputs and outputs of a client's stream: the connection that it has, the bytes that it writes and the effects that
//! its driver performs.

use super::writer::StreamWriter;
use super::{BindRequest, Direction, Registration, TokenWork};
use crate::internal::{mark_too_large, remove_ack_token};
use crate::{Element, Jid, ns, sasl, stanza};

/// The delimiting of stanzas on the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// One document for the whole stream (RFC 6120).
    Stream,
    /// A document each (RFC 7395).
    Messages,
    /// Documents in bodies of HTTP, which another part packs and unpacks (XEP-0206). A stream has no tags of its own.
    Bodies,
}

/// The security of the connection, at its begin or after a handshake.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// TLS protects the connection.
    pub encrypted: bool,
    /// The channel bindings of the connection.
    pub bindings: sasl::Bindings,
    /// Address of a client certificate that was verified.
    pub certified: Option<Jid>,
}

/// An effect, which the driver performs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// After the bytes that were written: TLS as a server, then `handle_secured`.
    StartTls,
    /// Answered by `handle_found`. The domain is one of ours.
    Find {
        /// The query.
        find: sasl::CredentialQuery,
        /// The domain of the account.
        domain: Box<str>,
    },
    /// Answered by `handle_tokens`.
    Tokens(Box<TokenWork>),
    /// Asks if this invitation is valid. Answered by `handle_invited`.
    Invited {
        /// The token of the invitation.
        token: Box<str>,
        /// The domain that the client named.
        domain: Box<str>,
    },
    /// Make an account. Answered by `handle_registered`.
    Register(Box<Registration>),
    /// Make a session. Answered by `handle_bound`.
    Bind(Box<BindRequest>),
    /// Take up an old session: its identity and how many of its stanzas the client has had (XEP-0198). Answered by
    /// `handle_bound`.
    Resume {
        /// The bare address of the account.
        user: Jid,
        /// The id of the session.
        id: Box<str>,
        /// The number of stanzas that the client has received (XEP-0198 §5: `h`).
        seen: u32,
    },
    /// From the session's client; `from` is its full address.
    Stanza(Element),
    /// An element of stream management, client state and the like: no stanza.
    Nonza(Element),
    /// The client has closed its stream: its session ends. The stream is closed by [`C2s::close`](super::C2s::close) once all stanzas
    /// that the session was sent are written.
    End,
    /// After the bytes that were written.
    Close,
}

/// The output of a stream: bytes for the client and effects for the host.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Bytes for the client.
    pub bytes: Vec<u8>,
    /// The end of each document in `bytes`; empty for `Framing::Stream`.
    pub ends: Vec<usize>,
    /// Effects for the driver, in order.
    pub effects: Vec<Effect>,
    /// An element that was received or sent, credentials masked; of a stream that is traced.
    pub traced: Vec<(Direction, Element)>,
}

/// An element of a bound client for its session. `Err`: the stream error that ends the stream.
pub(super) fn session_effect(
    writer: &StreamWriter,
    jid: &Jid,
    mut element: Element,
    written: usize,
) -> Result<Effect, &'static str> {
    if stanza::kind_of(&element).is_none() {
        return match element.ns() {
            ns::SM | ns::CSI => Ok(Effect::Nonza(element)),
            _ => Err("unsupported-stanza-type"),
        };
    }
    let is_own = match stanza::from(&element) {
        Ok(None) => true,
        Ok(Some(from)) => from == *jid || (from.is_bare() && from.as_str() == jid.bare_str()),
        Err(_) => false,
    };
    if !is_own {
        return Err("invalid-from");
    }
    element.set("from", jid.as_str());
    remove_ack_token(&mut element);
    stanza::inherit_lang(&mut element, writer.lang.as_deref());
    if written > writer.settings.max_stanza {
        mark_too_large(&mut element);
    }
    Ok(Effect::Stanza(element))
}
