//! `;name=value` lists of headers and URIs.

use super::scan::{eq_ignore_case, find_outside, position, trim, trim_start};

/// The text after the first `;`, not yet looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Params<'a>(pub &'a [u8]);

/// One parameter of a header or URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Param<'a> {
    /// The name as written; names are compared without case.
    pub name: &'a [u8],
    /// As written, quotes included; `None` for a flag.
    pub value: Option<&'a [u8]>,
}

impl<'a> Params<'a> {
    /// The parameters in their order.
    pub fn iter(self) -> impl Iterator<Item = Param<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            loop {
                if rest.is_empty() {
                    return None;
                }
                let end = find_outside(rest, b';').unwrap_or(rest.len());
                let piece = trim(&rest[..end]);
                rest = rest.get(end + 1..).unwrap_or_default();
                if !piece.is_empty() {
                    return Some(Param::from_bytes(piece));
                }
            }
        })
    }

    /// The parameter's value; an empty slice for a flag without one.
    #[inline]
    pub fn get(self, name: &str) -> Option<&'a [u8]> {
        // Most URIs have no parameters.
        if self.0.len() < name.len() { None } else { self.find(name) }
    }

    fn find(self, name: &str) -> Option<&'a [u8]> {
        let mut rest = self.0;
        // Most look-ups find nothing: only the value of a parameter with this name is looked at.
        while rest.len() >= name.len() {
            rest = trim_start(rest);
            match without_name(rest, name) {
                Some([b'=', value @ ..]) => {
                    return Some(trim(&value[..find_outside(value, b';').unwrap_or(value.len())]));
                }
                Some([] | [b';', ..]) => return Some(b""),
                _ => rest = &rest[find_outside(rest, b';')? + 1..],
            }
        }
        None
    }

    /// As [`get`](Self::get), of two parameters in one pass.
    pub(super) fn get_both(self, names: [&str; 2]) -> [Option<&'a [u8]>; 2] {
        let (mut found, mut rest) = ([None; 2], self.0);
        while !rest.is_empty() && found.contains(&None) {
            rest = trim_start(rest);
            let (param, after) = rest.split_at(find_outside(rest, b';').unwrap_or(rest.len()));
            for (name, value) in names.iter().zip(&mut found).filter(|(_, value)| value.is_none()) {
                *value = match without_name(param, name) {
                    Some([b'=', text @ ..]) => Some(trim(text)),
                    Some([]) => Some(&b""[..]),
                    _ => None,
                };
            }
            rest = after.get(1..).unwrap_or_default();
        }
        found
    }

    /// As [`get`](Self::get), without surrounding quotes.
    pub fn unquoted(self, name: &str) -> Option<&'a [u8]> {
        self.get(name).map(unquote)
    }

    /// True if a parameter has this name.
    pub fn has(self, name: &str) -> bool {
        self.get(name).is_some()
    }
}

impl<'a> Param<'a> {
    fn from_bytes(piece: &'a [u8]) -> Self {
        match position(b'=', piece) {
            Some(at) => Param { name: trim(&piece[..at]), value: Some(trim(&piece[at + 1..])) },
            None => Param { name: piece, value: None },
        }
    }
}

/// The text after a name and the white space behind it.
fn without_name<'a>(text: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (start, rest) = text.split_at_checked(name.len())?;
    eq_ignore_case(start, name).then(|| trim_start(rest))
}

fn unquote(value: &[u8]) -> &[u8] {
    match value {
        [b'"', inner @ .., b'"'] => inner,
        _ => value,
    }
}
