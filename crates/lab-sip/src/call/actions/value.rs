//! Variables: where they are kept, what counts as set, and how they turn into numbers and text.
//!
//! SIPp's rules, which differ by purpose: text is always set, a number only when it is not 0; as an operand text counts when it is a number.

use std::io::Write;

use crate::call::{Call, CallContext, VariableValue};
use crate::scenario::action::Operand;
use crate::scenario::model::{Scope, VarRef};

impl VariableValue {
    /// Appends the text `[$name]` gives: numbers with six decimals. As in SIPp a number that does not count as
    /// set, zero, gives nothing.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            VariableValue::Unset => {}
            VariableValue::Text(text) => out.extend_from_slice(text),
            VariableValue::Number(0.0) => {}
            VariableValue::Number(number) => write!(out, "{number:.6}").expect("a vector takes every byte"),
            VariableValue::Bool(set) => out.extend_from_slice(if *set { b"true" } else { b"false" }),
        }
    }

    /// For `test` and `condexec`: a number is set when it is not zero, a boolean when it is true.
    pub fn is_set(&self) -> bool {
        match self {
            VariableValue::Unset => false,
            VariableValue::Text(_) => true,
            VariableValue::Number(number) => *number != 0.0,
            VariableValue::Bool(set) => *set,
        }
    }

    /// The value as an operand: a number, or the text of one; everything else counts 0.
    pub fn as_operand(&self) -> f64 {
        match self {
            VariableValue::Number(number) => *number,
            VariableValue::Text(text) => number(text).unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// `todouble`: text must be a number to its end.
    pub fn to_number(&self) -> Option<f64> {
        match self {
            VariableValue::Unset => None,
            VariableValue::Number(number) => Some(*number),
            VariableValue::Bool(set) => Some(f64::from(u8::from(*set))),
            VariableValue::Text(text) => number(text),
        }
    }

    /// The text of a text; empty for all others.
    pub fn as_text(&self) -> &[u8] {
        match self {
            VariableValue::Text(text) => text,
            _ => b"",
        }
    }
}

/// As C's `strtod`, if it reads to the end: blanks before it, hexadecimal whole numbers too; 0 for empty text.
fn number(text: &[u8]) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    // `trim_start_matches` with the blanks of C's `isspace`.
    let text = std::str::from_utf8(text).ok()?.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => digits
            .bytes()
            .try_fold(0.0, |sum, digit| Some(sum * 16.0 + f64::from(char::from(digit).to_digit(16)?)))
            .filter(|_| !digits.is_empty())
            .map(|number| sign * number),
        None => text.parse().ok(),
    }
}

/// Reads a variable of any scope in place.
pub fn with<T>(
    call: &Call,
    ctx: &CallContext<'_>,
    variable: VarRef,
    read: impl FnOnce(&VariableValue) -> T,
) -> T {
    let slot = usize::from(variable.slot);
    match variable.scope {
        Scope::Call => read(call.variables.get(slot).unwrap_or(&VariableValue::Unset)),
        Scope::User => {
            read(ctx.user.as_ref().and_then(|values| values.get(slot)).unwrap_or(&VariableValue::Unset))
        }
        Scope::Global => read(ctx.env.globals.read().get(slot).unwrap_or(&VariableValue::Unset)),
    }
}

/// Sets a variable of the call, its user or the run.
pub fn set(call: &mut Call, ctx: &mut CallContext<'_>, variable: VarRef, value: VariableValue) {
    let slot = usize::from(variable.slot);
    match variable.scope {
        Scope::Call => {
            // A slot that the scenario does not have is ignored: the compiler gives none.
            if let Some(place) = call.variables.get_mut(slot) {
                *place = value;
            }
        }
        Scope::User => {
            if let Some(place) = ctx.user.as_mut().and_then(|values| values.get_mut(slot)) {
                *place = value;
            }
        }
        Scope::Global => {
            if let Some(place) = ctx.env.globals.write().get_mut(slot) {
                *place = value;
            }
        }
    }
}

/// The variable has a value.
pub fn is_set(call: &Call, ctx: &CallContext<'_>, variable: VarRef) -> bool {
    with(call, ctx, variable, VariableValue::is_set)
}

/// The operand as a number.
pub fn operand(call: &Call, ctx: &CallContext<'_>, operand: Operand) -> f64 {
    match operand {
        Operand::Value(number) => number,
        Operand::Variable(variable) => with(call, ctx, variable, VariableValue::as_operand),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_that_count_as_set_depend_on_the_type() {
        assert!(!VariableValue::Unset.is_set());
        assert!(!VariableValue::Number(0.0).is_set());
        assert!(VariableValue::Number(-1.0).is_set());
        assert!(!VariableValue::Bool(false).is_set());
        assert!(VariableValue::Text(Box::default()).is_set());
    }

    #[test]
    fn numbers_are_written_with_six_decimals() {
        let mut out = Vec::new();
        VariableValue::Number(1.5).write_to(&mut out);
        VariableValue::Number(-1e20).write_to(&mut out);
        assert_eq!(out, b"1.500000-100000000000000000000.000000");
        out.clear();
        VariableValue::Number(0.0).write_to(&mut out);
        VariableValue::Unset.write_to(&mut out);
        assert_eq!(out, b"");
        VariableValue::Bool(false).write_to(&mut out);
        VariableValue::Bool(true).write_to(&mut out);
        assert_eq!(out, b"falsetrue");
    }

    #[test]
    fn text_is_a_number_only_to_its_end() {
        for (text, wanted) in [
            (" 12.5", Some(12.5)),
            ("", Some(0.0)),
            ("-1e3", Some(-1000.0)),
            ("+.5", Some(0.5)),
            ("5.", Some(5.0)),
            ("0x1F", Some(31.0)),
            ("-0Xff", Some(-255.0)),
            ("12x", None),
            ("12 ", None),
            (" ", None),
            ("0x", None),
            ("+-1", None),
            ("0x1G", None),
        ] {
            assert_eq!(VariableValue::Text(text.as_bytes().into()).to_number(), wanted, "{text:?}");
        }
        assert_eq!(VariableValue::Bool(true).to_number(), Some(1.0));
        assert_eq!(VariableValue::Text((*b"1\xff").into()).to_number(), None);
        assert_eq!(VariableValue::Unset.to_number(), None);
    }
}
