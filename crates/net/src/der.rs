//! Reads the encoding of certificates, as far as their fields have to be found (X.690 §8.1).

/// One value: its tag and its content.
pub(super) struct DerValue<'a> {
    pub(super) tag: u8,
    pub(super) content: &'a [u8],
    /// The bytes that follow the value.
    pub(super) rest: &'a [u8],
}

/// The first value of `bytes`. `None` when it is cut short, or has a tag or length of more bytes than certificates have.
pub(super) fn first_value(bytes: &[u8]) -> Option<DerValue<'_>> {
    let [tag, first, rest @ ..] = bytes else { return None };
    let (length, rest) = match usize::from(*first) {
        short @ 0..0x80 => (short, rest),
        long => {
            let (length, rest) =
                rest.split_at_checked(long - 0x80).filter(|(length, _)| length.len() <= 4)?;
            (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
        }
    };
    rest.split_at_checked(length).map(|(content, rest)| DerValue { tag: *tag, content, rest })
}
