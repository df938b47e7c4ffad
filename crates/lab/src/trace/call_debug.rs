//! `-trace_calldebug`: what each open call did, kept until it is known whether it failed.
//!
//! The writer thread has it: a line is added as it comes, and the end of a call either writes its block or forgets it.

use hashbrown::HashMap;

/// Kept of one call; what comes after it is left out and said to be.
/// Bytes.
const A_CALL: usize = 256 * 1024;
/// Kept of all calls together. Calls that begin when it is full are not collected.
const ALL: usize = 256 * 1024 * 1024;

#[derive(Default)]
pub(super) struct CallDebug {
    /// By Call-ID.
    calls: HashMap<Box<[u8]>, CallDebugText>,
    /// Bytes of all calls together.
    size: usize,
}

/// The lines of one call.
#[derive(Default)]
struct CallDebugText {
    text: Vec<u8>,
    /// The call has reached its bound; further lines are left out.
    full: bool,
}

impl CallDebug {
    /// Adds a line to a call. Beyond the bound of all calls nothing is added, to calls that have begun neither.
    pub(super) fn add(&mut self, call_id: Box<[u8]>, line: &str) {
        if self.size > ALL {
            return;
        }
        let call = self.calls.entry(call_id).or_default();
        if call.full {
            return;
        }
        call.full = call.text.len() + line.len() > A_CALL;
        let line = if call.full { "… and more\n" } else { line };
        call.text.extend_from_slice(line.as_bytes());
        self.size += line.len();
    }

    /// Everything about a call, as a block of the file; the call is forgotten.
    pub(super) fn end(&mut self, call_id: &[u8]) -> Option<Vec<u8>> {
        let CallDebugText { text, .. } = self.calls.remove(call_id)?;
        self.size -= text.len();
        let id = String::from_utf8_lossy(call_id);
        let mut block =
            format!("{}\nCall debugging information for call {id}:\n", "-".repeat(79)).into_bytes();
        block.extend_from_slice(&text);
        block.push(b'\n');
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_holds_one_call_and_is_bounded() {
        let mut debug = CallDebug::default();
        debug.add((*b"a").into(), "one\n");
        debug.add((*b"b").into(), "other\n");
        debug.add((*b"a").into(), "two\n");
        let block = String::from_utf8(debug.end(b"a").expect("collected")).expect("text");
        assert!(block.ends_with("\nCall debugging information for call a:\none\ntwo\n\n"), "{block}");
        assert_eq!(debug.end(b"a"), None);
        let line = "x".repeat(A_CALL / 2);
        for _ in 0..10 {
            debug.add((*b"b").into(), &line);
        }
        let block = debug.end(b"b").expect("collected");
        assert!(block.len() < A_CALL + 200 && block.ends_with("… and more\n\n".as_bytes()));
        assert_eq!(debug.size, 0);
    }
}
