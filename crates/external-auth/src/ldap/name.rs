//! The name of a bind that follows from the user's name: a distinguished name (RFC 4514), or the user principal name that
//! Active Directory takes ([MS-ADTS] §5.1.1.1.1).

use std::fmt::Write as _;

use super::text::{Names, Piece, pieces};

/// A name with a place for the user's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameTemplate {
    text: Box<str>,
    pieces: Vec<Piece>,
    /// A distinguished name, whose values are escaped.
    is_dn: bool,
}

impl NameTemplate {
    /// Reads a template, as `{user}@corp.example.net` or `uid={user},ou=people,dc=example,dc=net`.
    ///
    /// # Errors
    /// The mistake.
    pub fn parse(text: &str) -> Result<NameTemplate, String> {
        let pieces = pieces(text.as_bytes())?;
        if !pieces.contains(&Piece::User) {
            return Err("no {user}".into());
        }
        let is_dn = text.contains('=');
        if !is_dn && !text.contains('@') {
            return Err("neither a distinguished name nor user@domain".into());
        }
        Ok(NameTemplate { text: text.into(), pieces, is_dn })
    }

    /// The template as it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name for a user. `None`: no user principal name has this user's name in it.
    pub(super) fn name(&self, names: Names<'_>) -> Option<String> {
        let mut name = String::new();
        for piece in &self.pieces {
            let (bytes, is_name) = names.bytes(piece);
            // Pieces are cut between characters.
            let text = std::str::from_utf8(bytes).ok()?;
            match (is_name, self.is_dn) {
                (true, true) => escape(text, &mut name),
                (true, false) if !is_plain(text) => return None,
                _ => name.push_str(text),
            }
        }
        Some(name)
    }
}

/// Active Directory reads `DOMAIN\user`, `user@domain` and other forms: a user's own name may not turn one into another.
fn is_plain(user: &str) -> bool {
    !user.is_empty() && user.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_'))
}

/// RFC 4514 §2.4: a character may be written as its bytes, each a backslash and two digits. All ASCII that could have a
/// meaning is.
fn escape(value: &str, out: &mut String) {
    for character in value.chars() {
        match character {
            c if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | '@') || !c.is_ascii() => {
                out.push(c);
            }
            c => {
                // Writing to a text does not fail.
                let _ = write!(out, "\\{:02x}", u32::from(c));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(template: &str, user: &str) -> Option<String> {
        NameTemplate::parse(template).unwrap().name(Names { user, domain: "example.net" })
    }

    #[test]
    fn a_users_name_stays_one_value_of_a_distinguished_name() {
        let template = "uid={user},ou=people,dc=example";
        for (user, expected) in [
            ("alice", "uid=alice,ou=people,dc=example"),
            ("o'neil", "uid=o\\27neil,ou=people,dc=example"),
            ("x,ou=admins", "uid=x\\2cou\\3dadmins,ou=people,dc=example"),
            ("a+cn=b", "uid=a\\2bcn\\3db,ou=people,dc=example"),
            ("#00 \\\"", "uid=\\2300\\20\\5c\\22,ou=people,dc=example"),
            ("jürgen", "uid=jürgen,ou=people,dc=example"),
        ] {
            assert_eq!(name(template, user).as_deref(), Some(expected));
        }
    }

    #[test]
    fn a_user_principal_name_is_of_its_domain() {
        assert_eq!(name("{user}@corp.test", "alice").as_deref(), Some("alice@corp.test"));
        assert_eq!(name("{user}@{domain}", "alice").as_deref(), Some("alice@example.net"));
        for user in ["CORP\\admin", "a@b", "a/b", "", "a b", "a,b"] {
            assert_eq!(name("{user}@corp.test", user), None, "{user}");
        }
    }

    #[test]
    fn a_template_needs_a_place_for_the_user() {
        for text in ["cn=admin,dc=example", "{user}", "{users}@a", "uid={user", ""] {
            assert!(NameTemplate::parse(text).is_err(), "{text}");
        }
    }
}
