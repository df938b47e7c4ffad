//! A received message, read as leniently as SIPp reads it: what matching needs is found in one pass, the rest when asked for.

/// Borrows the datagram, or the frame cut from a stream.
#[derive(Debug, Clone, Copy)]
pub struct Incoming<'a> {
    pub bytes: &'a [u8],
    pub start: StartLine<'a>,
    pub call_id: &'a [u8],
    pub cseq_number: u32,
    pub cseq_method: &'a [u8],
    /// `branch` of the topmost Via, empty without one.
    pub branch: &'a [u8],
    /// Offset of the body; `bytes.len()` without one.
    pub body: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartLine<'a> {
    Request { method: &'a [u8], uri: &'a [u8] },
    Response { code: u16 },
}

/// Why bytes are not a message we can count as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotSip {
    NoStartLine,
    NoCallId,
    NoCseq,
}

impl<'a> Incoming<'a> {
    pub fn parse(_bytes: &'a [u8]) -> Result<Incoming<'a>, NotSip> {
        Err(NotSip::NoStartLine)
    }

    /// All values of a header by its name or short form, in order, as they stand.
    pub fn header_values(&self, _name: &str) -> impl Iterator<Item = &'a [u8]> {
        std::iter::empty()
    }

    /// The text of the body.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[self.body..]
    }
}
