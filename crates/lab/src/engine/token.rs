//! Tokens of poll events: a kind in the upper bits, a slab key below.
//!
//! `mio` gives back the number that a socket was registered with; from it the shard knows what to do without a table.

use mio::Token;
use stdx::slab::Key;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenKind {
    /// Another shard, or the run, has put something into the inbox.
    Waker,
    /// A datagram socket of calls.
    Udp,
    Listener,
    /// A connection of calls.
    Stream,
    /// An RTP socket; `lab_sip::rtp` numbers its own tokens above `MEDIA`.
    Media,
    /// A connection to another instance, or its listener.
    Twin,
}

/// 4 bits for the kind, 60 for the key.
const SHIFT: u32 = 60;
const KEY: u64 = (1 << SHIFT) - 1;

/// Tokens of this kind are for media sockets.
pub(super) const MEDIA: usize = 4 << SHIFT;

pub(super) const WAKER: Token = Token(0);

/// A token holds 28 bits of a key's generation; one slot is never reused by more calls.
pub(super) fn token(kind: TokenKind, key: Key) -> Token {
    Token(((kind as u64) << SHIFT | key.to_u64() & KEY) as usize)
}

/// The numbers are those of the order of the kinds.
pub(super) fn read(token: Token) -> (TokenKind, Key) {
    let kind = match token.0 as u64 >> SHIFT {
        1 => TokenKind::Udp,
        2 => TokenKind::Listener,
        3 => TokenKind::Stream,
        4 => TokenKind::Media,
        5 => TokenKind::Twin,
        _ => TokenKind::Waker,
    };
    (kind, Key::from_u64(token.0 as u64 & KEY))
}

pub(super) fn is_media(token: Token) -> bool {
    read(token).0 == TokenKind::Media
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_keep_kind_and_key() {
        let key = Key::from_u64(3 << 32 | 7);
        for kind in [TokenKind::Udp, TokenKind::Listener, TokenKind::Stream, TokenKind::Twin] {
            assert_eq!(read(token(kind, key)), (kind, key));
        }
        assert_eq!(read(WAKER).0, TokenKind::Waker);
        assert!((token(TokenKind::Stream, key).0) < MEDIA);
    }
}
