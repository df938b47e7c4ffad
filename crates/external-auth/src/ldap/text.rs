//! Texts of the configuration with places for a user's name: `{user}` and `{domain}`.

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Bytes as they stand.
    Bytes(Vec<u8>),
    /// The local part of the user's address.
    User,
    /// The domain of the user's address.
    Domain,
}

/// The names that are put into a text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Names<'a> {
    pub(super) user: &'a str,
    pub(super) domain: &'a str,
}

impl<'a> Names<'a> {
    /// The bytes of a piece, and whether they are a name.
    pub(super) fn bytes(self, piece: &'a Piece) -> (&'a [u8], bool) {
        match piece {
            Piece::Bytes(bytes) => (bytes, false),
            Piece::User => (self.user.as_bytes(), true),
            Piece::Domain => (self.domain.as_bytes(), true),
        }
    }
}

/// Cuts bytes at the places of names.
pub(super) fn pieces(text: &[u8]) -> Result<Vec<Piece>, String> {
    let (mut pieces, mut plain, mut rest) = (Vec::new(), Vec::new(), text);
    while let Some(first) = rest.first() {
        let place = [(&b"{user}"[..], Piece::User), (b"{domain}", Piece::Domain)];
        if let Some((name, piece)) = place.into_iter().find(|(name, _)| rest.starts_with(name)) {
            if !plain.is_empty() {
                pieces.push(Piece::Bytes(std::mem::take(&mut plain)));
            }
            pieces.push(piece);
            rest = &rest[name.len()..];
        } else if matches!(first, b'{' | b'}') {
            return Err("a brace that is not of {user} or {domain}".into());
        } else {
            plain.push(*first);
            rest = &rest[1..];
        }
    }
    if !plain.is_empty() {
        pieces.push(Piece::Bytes(plain));
    }
    Ok(pieces)
}
