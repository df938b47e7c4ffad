//! Templates to bytes: `[keywords]` filled in as SIPp fills them.
//!
//! Text that is the same for the whole run is folded into the literals when the run starts ([`PreparedMessages`]); what is left
//! is written straight into the target, so a message costs no allocation but the target's growth.
//!
//! Where it departs from SIPp: a keyword that gives nothing at the start of a line takes the white space after it
//! along, as in SIPp, but never the blank line that ends the headers.

mod call_id;
mod date;
mod header;
mod keyword;
mod number;
mod prepare;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod speed;
#[cfg(test)]
mod tests;
mod visit;

use memchr::memmem;

use super::{Call, CallContext};
use crate::scenario::template::{Template, TemplatePart};

pub use call_id::{CallIdFacts, call_id};
use number::write_padded;
pub use prepare::{Addresses, PreparedMessages};
use prepare::{LineSelector, RenderOp};

/// The release of SIPp whose behaviour this is, for `-v`.
pub const SIPP_RELEASE: &str = "3.7.3";

/// The value of `[sipp_version]`: the version whose behaviour this is, and that it is not SIPp itself. Without
/// SIPp's leading `v`, as SIPp prints it there.
pub const SIPP_VERSION: &str = "3.7.3-ringer";

/// Digits SIPp keeps for `[len]`: the number stands right-aligned in five columns.
const LEN_WIDTH: usize = 5;

/// `index` of [`message_text`] for messages SIPp sends on its own account.
pub const NO_STEP: i64 = -1;
/// `index` of texts of actions: `[branch]` is then that of the step before.
pub const IN_ACTION: i64 = -2;

/// Appends the message of a `send` or `sendCmd` step to `out`. `[len]` becomes the length of the body.
///
/// `Err` names the keyword that has no value and why; `out` may then hold a part of the message.
pub fn message(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    step: usize,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let prepared = &ctx.env.prepared;
    let Some(message) = prepared.message(step) else {
        return Err(format!("step {step} has no message"));
    };
    let mut renderer = Renderer::new(call, ctx, message.index, out);
    for op in &message.ops {
        renderer.op(op)?;
    }
    renderer.finish()
}

/// Appends a message that is no step's: one of SIPp's default messages. `index` is what `[branch]` and
/// `[msg_index]` count with: a step's, [`NO_STEP`] or [`IN_ACTION`].
pub fn message_text(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    template: &Template,
    index: i64,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let mut renderer = Renderer::new(call, ctx, index, out);
    renderer.template(template)?;
    renderer.finish()
}

/// Appends a plain text (log line, file name, command).
pub fn text(
    call: &mut Call,
    ctx: &mut CallContext<'_>,
    template: &Template,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    message_text(call, ctx, template, IN_ACTION, out)
}

/// One rendering: where it started, and what can only be written when the rest is there.
struct Renderer<'r, 'c> {
    /// The call whose message it is.
    call: &'r mut Call,
    ctx: &'r mut CallContext<'c>,
    out: &'r mut Vec<u8>,
    /// The place in `out` where this message begins.
    start: usize,
    /// The step for `[branch]` and `[msg_index]`, or one of the two constants.
    index: i64,
    /// The index of the last message, once one of its headers was looked up.
    last: Option<header::HeaderIndex>,
    /// A keyword at the start of a line gave nothing: the next literal loses its leading white space.
    swallow: bool,
    /// Place and offset of the last `[len]`; SIPp fills only one.
    len: Option<(usize, i32)>,
    /// Place of the credentials, and the account they are for.
    credentials: Option<(usize, crate::auth::Secrets)>,
}

impl<'r, 'c> Renderer<'r, 'c> {
    fn new(call: &'r mut Call, ctx: &'r mut CallContext<'c>, index: i64, out: &'r mut Vec<u8>) -> Self {
        let start = out.len();
        Renderer { call, ctx, out, start, index, last: None, swallow: false, len: None, credentials: None }
    }

    /// One operation of a prepared message.
    fn op(&mut self, op: &RenderOp) -> Result<(), String> {
        match op {
            RenderOp::Text(text) => self.literal(text),
            RenderOp::Fixed(bytes) => self.out.extend_from_slice(bytes),
            RenderOp::Keyword(keyword) => self.keyword(keyword)?,
            RenderOp::Field { file, field, line } => {
                let line = match line {
                    None => None,
                    Some(LineSelector::Number(number)) => Some(*number),
                    Some(LineSelector::Template(template)) => Some(self.line_number(template)?),
                };
                self.field(*file, *field, line)?;
            }
            RenderOp::File(content) => self.out.extend_from_slice(content),
        }
        Ok(())
    }

    /// A template that was not prepared.
    fn template(&mut self, template: &Template) -> Result<(), String> {
        for part in &template.parts {
            match part {
                TemplatePart::Text(text) => self.literal(text),
                TemplatePart::Keyword(keyword) => self.keyword(keyword)?,
            }
        }
        Ok(())
    }

    /// The author's text; after a keyword without a value it loses its leading white space.
    fn literal(&mut self, text: &[u8]) {
        if !self.swallow {
            self.out.extend_from_slice(text);
            return;
        }
        self.swallow = false;
        let kept = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
        // Departs from SIPp, which would lose the blank line and with it the body.
        let ends_headers = memchr::memchr_iter(b'\n', &text[..kept]).count() > 1;
        if ends_headers && !self.has_body() {
            let at_line_start = self.out.last() == Some(&b'\n');
            self.out.extend_from_slice(if at_line_start { b"\r\n" } else { b"\r\n\r\n" });
        }
        self.out.extend_from_slice(&text[kept..]);
    }

    /// The blank line was written: white space is now the body's own.
    fn has_body(&self) -> bool {
        memmem::find(&self.out[self.start..], b"\r\n\r\n").is_some()
    }

    /// After a keyword that may give nothing: at the start of a line it takes the line end along.
    fn swallow_if_line_start(&mut self) {
        if self.out.len() > self.start && self.out.last() == Some(&b'\n') {
            self.swallow = true;
        }
    }

    /// Fills in what depends on the whole: first the length, then the credentials, which may hash the body.
    fn finish(&mut self) -> Result<(), String> {
        if self.len.is_none() && self.credentials.is_none() {
            return Ok(());
        }
        let body = memmem::find(&self.out[self.start..], b"\r\n\r\n").map(|at| self.start + at + 4);
        if let Some((at, offset)) = self.len {
            let length = match body {
                Some(body) if body < self.out.len() => (self.out.len() - body) as i64 + i64::from(offset),
                // SIPp: without a body the offset does not count either.
                _ => 0,
            };
            write_padded(self.out, at, LEN_WIDTH, length);
        }
        match self.credentials.take() {
            Some((at, secrets)) => self.place_credentials(at, &secrets),
            None => Ok(()),
        }
    }
}
