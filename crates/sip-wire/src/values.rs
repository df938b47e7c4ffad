//! Comma-separated values of one header line (RFC 3261 §7.3.1).

use super::scan::{find_outside, trim};

/// The values of one header line, split at commas outside quotes and angle brackets.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Values<'a> {
    /// The comma-separated values of one header line.
    pub fn new(line: &'a [u8]) -> Self {
        Values { rest: Some(line) }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            let rest = self.rest?;
            let value = match find_outside(rest, b',') {
                Some(at) => {
                    self.rest = Some(&rest[at + 1..]);
                    &rest[..at]
                }
                None => {
                    self.rest = None;
                    rest
                }
            };
            let value = trim(value);
            if !value.is_empty() {
                return Some(value);
            }
        }
    }
}
