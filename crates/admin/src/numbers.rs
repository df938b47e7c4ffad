//! Finds the binding of a called number: an exact one, else the longest pattern that matches the whole
//! number.
//!
//! The crate `voice` has the [`Numbers`] of all accounts in memory, and gets them anew with each change of a binding.

use std::collections::HashMap;

use regex::{Regex, RegexBuilder};
use store::rest::types::IncomingNumber;
use store::rest::{Kind, Resource, RestFilter, RestLoaded, RestRead};
use store::{Loaded, Read, StoreError};

use crate::limits;
use crate::service::Repository;

/// The meaning of `PhoneNumber`: a number or name as it is kept, or a regular expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Number {
    /// `1234` is kept as `+1234`.
    Exact(String),
    /// A regular expression over whole numbers.
    Pattern(String),
}

impl Number {
    /// Fails, in words, on what is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.is_empty() || text.len() > limits::MAX_PATTERN {
            return Err(format!("expected 1 to {} characters", limits::MAX_PATTERN));
        }
        let rest = text.strip_prefix('+').unwrap_or(text);
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '*' | '#' | '_' | '-');
        let bare: String = rest.chars().filter(|c| !matches!(c, ' ' | '(' | ')' | '-' | '/')).collect();
        if !rest.is_empty() && rest.chars().all(plain) && !is_number(&bare) {
            return Ok(Number::Exact(text.to_owned()));
        }
        // `+1 (555) 123-4567` is the number people mean, not a regular expression.
        if is_number(&bare) {
            return Ok(Number::Exact(format!("+{bare}")));
        }
        compile(text).map(|_| Number::Pattern(text.to_owned())).map_err(|error| error.to_string())
    }
}

/// A number as it is dialled, without the separators that people write into it (RFC 3966 §5.1.1): `+1 (555) 010-0000` is `+15550100000`. Any other text,
/// a name or an address, is unchanged.
pub fn dialled(text: &str) -> String {
    let bare: String = text.chars().filter(|c| !" -.()/".contains(*c)).collect();
    let digits = bare.strip_prefix('+').unwrap_or(&bare);
    if is_number(digits) { bare } else { text.to_owned() }
}

/// True for digits only, without a plus.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Anchored at both ends: a pattern matches whole numbers. The size limit bounds memory and time of each call's match.
fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(limits::MAX_REGEX).build()
}

/// All bindings, ready to be asked. Made anew when one changes.
#[derive(Debug, Default)]
pub struct Numbers {
    /// The key is the number with its plus, or the name.
    exact: HashMap<String, IncomingNumber>,
    /// The longest pattern first.
    patterns: Vec<(Regex, IncomingNumber)>,
}

impl Numbers {
    /// Passes over patterns that do not compile: they were checked when they were bound.
    pub fn new(bindings: impl IntoIterator<Item = IncomingNumber>) -> Self {
        let mut numbers = Numbers::default();
        for binding in bindings {
            if !binding.is_pattern {
                numbers.exact.insert(binding.phone_number.clone(), binding);
            } else if let Ok(regex) = compile(&binding.phone_number) {
                numbers.patterns.push((regex, binding));
            }
        }
        numbers.patterns.sort_by_key(|(_, binding)| std::cmp::Reverse(binding.phone_number.len()));
        numbers
    }

    /// All that are in the record, page by page.
    pub fn load(repository: &dyn Repository) -> Result<Self, StoreError> {
        let mut bindings = Vec::new();
        loop {
            let filter = RestFilter {
                offset: bindings.len() as u64,
                ascending: true,
                ..RestFilter::all(Kind::IncomingNumber)
            };
            let loaded = repository.read(Read::Rest(RestRead::List(filter)))?;
            let Loaded::Rest(RestLoaded::Page { rows, .. }) = loaded else { break };
            if rows.is_empty() {
                break;
            }
            for row in &rows {
                bindings.push(IncomingNumber::from_row(row)?);
            }
        }
        Ok(Numbers::new(bindings))
    }

    /// The binding of a called user part: `1234` and `+1234` are one number.
    pub fn find(&self, called: &str) -> Option<&IncomingNumber> {
        let digits = called.strip_prefix('+').unwrap_or(called);
        let with_plus = format!("+{digits}");
        let forms = [called, &with_plus, digits];
        let exact = forms.iter().find_map(|form| self.exact.get(*form));
        exact.or_else(|| {
            let matching = |regex: &Regex| forms.iter().any(|form| regex.is_match(form));
            self.patterns.iter().find(|(regex, _)| matching(regex)).map(|(_, binding)| binding)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(bound: &[&str]) -> Numbers {
        Numbers::new(bound.iter().map(|text| {
            let (phone_number, is_pattern) = match Number::parse(text).unwrap() {
                Number::Exact(number) => (number, false),
                Number::Pattern(pattern) => (pattern, true),
            };
            IncomingNumber { phone_number, is_pattern, ..IncomingNumber::default() }
        }))
    }

    #[test]
    fn a_number_is_kept_with_its_plus() {
        for text in ["1234", "+1234", " 1234 ", "+1 (2)3-4"] {
            assert_eq!(Number::parse(text), Ok(Number::Exact("+1234".into())), "{text}");
        }
        assert_eq!(Number::parse("alice"), Ok(Number::Exact("alice".into())));
        assert_eq!(Number::parse("*98"), Ok(Number::Exact("*98".into())));
        assert_eq!(Number::parse("12[0-9]+"), Ok(Number::Pattern("12[0-9]+".into())));
        for wrong in ["", "(", "12[", "+", &"1".repeat(300), "(?:a{1000}){1000}"] {
            assert!(Number::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn separators_of_a_number_mean_nothing() {
        for text in ["+1 (555) 010-0000", "+1.555.010.0000", "+15550100000", "+1/555/0100000"] {
            assert_eq!(dialled(text), "+15550100000");
        }
        assert_eq!(dialled("12-34"), "1234");
        for text in
            ["alice", "alice.b-1", "client:bob", "sip:+1-555@a.test", "*98", "+", "", "- -", "+1 555 CALL"]
        {
            assert_eq!(dialled(text), text);
        }
    }

    #[test]
    fn exact_wins_and_then_the_longest_pattern() {
        let numbers = numbers(&["1234", "12.*", "12[0-9]{2}", "alice", ".*99"]);
        let found = |called: &str| numbers.find(called).map(|binding| &*binding.phone_number);
        assert_eq!(found("1234"), Some("+1234"));
        assert_eq!(found("+1234"), Some("+1234"));
        assert_eq!(found("1235"), Some("12[0-9]{2}"));
        assert_eq!(found("+1235"), Some("12[0-9]{2}"));
        assert_eq!(found("123456"), Some("12.*"));
        assert_eq!(found("alice"), Some("alice"));
        assert_eq!(found("3399"), Some(".*99"));
        assert_eq!(found("bob"), None);
        assert_eq!(found("991"), None);
    }
}
