//! Patterns of users and domains in a route.

use regex::{Regex, RegexBuilder};

use crate::limits;

/// A pattern as operators write it.
#[derive(Clone, Debug)]
pub(crate) enum Pattern {
    /// `+4930123`, `4930123`: this number, with or without `+`.
    Number(Box<str>),
    /// `+4930*`: numbers that begin so.
    Prefix(Box<str>),
    /// `alice`: this user.
    User(Box<str>),
    /// `~[a-f]\d+`: users that match as a whole.
    Regex(Box<Regex>),
    /// `sales-*`, `desk?`: `*` is any text, `?` any character. `*` alone is any user.
    Glob(Box<str>),
}

impl Pattern {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(regex) = text.strip_prefix('~') {
            return whole(regex)
                .map(|regex| Pattern::Regex(Box::new(regex)))
                .map_err(|error| error.to_string());
        }
        if text.is_empty() || text.len() > limits::USER_BYTES {
            return Err("expected a number, a prefix, a user, a glob or ~regex".into());
        }
        Ok(match (number(text), text.strip_suffix('*').and_then(number)) {
            (Some(number), _) => Pattern::Number(number.into()),
            (None, Some(prefix)) => Pattern::Prefix(prefix.into()),
            _ if text.contains(['*', '?']) => Pattern::Glob(text.into()),
            _ => Pattern::User(text.into()),
        })
    }

    /// Among routes of one priority the more particular goes first: exact, then longest prefix, then
    /// regular expressions, then globs with the most text.
    pub(crate) fn rank(&self) -> (u8, usize) {
        match self {
            Pattern::Number(_) | Pattern::User(_) => (0, 0),
            Pattern::Prefix(prefix) => (1, usize::MAX - prefix.len()),
            Pattern::Regex(_) => (2, 0),
            Pattern::Glob(glob) => (3, usize::MAX - glob.chars().filter(|c| !"*?".contains(*c)).count()),
        }
    }

    pub(crate) fn matches(&self, user: &str) -> bool {
        match self {
            Pattern::Number(number) => digits(user).is_some_and(|digits| *digits == **number),
            Pattern::Prefix(prefix) => digits(user).is_some_and(|digits| digits.starts_with(&**prefix)),
            Pattern::User(name) => **name == *user,
            Pattern::Regex(regex) => regex.is_match(user),
            Pattern::Glob(glob) => glob_matches(glob, user),
        }
    }
}

fn whole(regex: &str) -> Result<Regex, regex::Error> {
    // Alone first: `a)|(b` would be well-formed only inside our own parentheses, and not match as a whole.
    RegexBuilder::new(regex).size_limit(limits::REGEX_BYTES).build()?;
    RegexBuilder::new(&format!("^(?:{regex})$")).size_limit(limits::REGEX_BYTES).build()
}

/// The digits of something that is a number and nothing else, `+` set aside.
fn number(text: &str) -> Option<&str> {
    let digits = text.strip_prefix('+').unwrap_or(text);
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

/// The digits of a user part that is a telephone number (RFC 3261 §19.1.6, RFC 3966 §3): visual separators
/// and parameters do not count.
pub(crate) fn digits(user: &str) -> Option<String> {
    let subscriber = user.split(';').next().unwrap_or_default();
    let subscriber = subscriber.strip_prefix('+').unwrap_or(subscriber);
    let digits: String = subscriber.chars().filter(|c| !"-.()".contains(*c)).collect();
    (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
}

/// `*` any text, `?` any character. Time grows with the product of the lengths at worst: both are limited.
pub(crate) fn glob_matches(glob: &str, text: &str) -> bool {
    let (glob, text): (Vec<char>, Vec<char>) = (glob.chars().collect(), text.chars().collect());
    let (mut g, mut t) = (0, 0);
    // Where to go on when what follows the last star did not match: let the star take one more.
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        match (glob.get(g), star) {
            (Some('*'), _) => {
                star = Some((g, t));
                g += 1;
            }
            (Some(c), _) if *c == '?' || *c == text[t] => {
                g += 1;
                t += 1;
            }
            (_, Some((at, taken))) => {
                star = Some((at, taken + 1));
                g = at + 1;
                t = taken + 1;
            }
            (_, None) => return false,
        }
    }
    glob[g..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patterns_match_only_the_users_they_describe() {
        for (pattern, user, expected) in [
            ("1234", "+1234", true),
            ("+1234", "1234", true),
            ("1234", "12345", false),
            ("+4930*", "493012", true),
            ("+4930*", "+49-30-12;phone-context=x", true),
            ("4930*", "4930", true),
            ("4930*", "alice4930", false),
            ("alice", "alice", true),
            ("alice", "Alice", false),
            ("sales-*", "sales-7", true),
            ("desk?", "desk12", false),
            ("*", "", true),
            ("~[a-f]\\d+", "a12", true),
            ("~[a-f]\\d+", "xa12", false),
            ("~a|b", "ab", false),
            ("~\\*97", "*97", true),
        ] {
            assert_eq!(Pattern::parse(pattern).expect(pattern).matches(user), expected, "{pattern} {user}");
        }
    }

    #[test]
    fn invalid_patterns_are_refused() {
        for pattern in ["", "~(", "~a)|(b", "~a{1000}{1000}"] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }

    fn naive(glob: &[char], text: &[char]) -> bool {
        match (glob, text) {
            ([], text) => text.is_empty(),
            (['*', rest @ ..], text) => (0..=text.len()).any(|at| naive(rest, &text[at..])),
            (['?', rest @ ..], [_, text @ ..]) => naive(rest, text),
            ([c, rest @ ..], [d, text @ ..]) => c == d && naive(rest, text),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn globs_match_as_the_naive_ones_do(glob in "[ab*?]{0,8}", text in "[ab]{0,10}") {
            let (g, t): (Vec<_>, Vec<_>) = (glob.chars().collect(), text.chars().collect());
            prop_assert_eq!(glob_matches(&glob, &text), naive(&g, &t));
        }

        #[test]
        fn anything_is_a_pattern_or_an_error(pattern in "\\PC{0,20}", user in "\\PC{0,20}") {
            if let Ok(pattern) = Pattern::parse(&pattern) {
                let _ = (pattern.matches(&user), pattern.rank());
            }
        }
    }
}
