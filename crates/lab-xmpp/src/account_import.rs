//! Accounts and rosters of a load, as the import of a server takes them.
//!
//! Used by `ringer xmpp accounts`. Rosters are those of the ring that [`UserDirectory`] describes, so that the users find their contacts at once.

use std::io::{self, Write};

use xmpp::xml::escape;

use super::UserDirectory;

/// The import file of one kind of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportFormat {
    /// One file for `belfry account import` (XEP-0227), with rosters.
    Belfry,
    /// The same for `ejabberdctl import_piefxis`.
    Ejabberd,
    /// A file a user for Prosody's storage `xep0227`, which `prosody-migrator` reads as well, with rosters.
    Prosody,
    /// Lines of account and password, as `belfry account import` takes beside a running node. `--befriend yes` makes rosters.
    Csv,
}

impl ImportFormat {
    /// The format by its name on the command line.
    pub fn parse(name: &str) -> Result<ImportFormat, String> {
        Ok(match name {
            "belfry" => ImportFormat::Belfry,
            "ejabberd" => ImportFormat::Ejabberd,
            "prosody" => ImportFormat::Prosody,
            "csv" => ImportFormat::Csv,
            _ => return Err(format!("{name:?}: expected belfry, ejabberd, prosody or csv")),
        })
    }

    /// True if it is a folder with a file a user.
    pub fn is_folder(self) -> bool {
        self == ImportFormat::Prosody
    }
}

impl UserDirectory {
    /// Lines `account,password`, headings first.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "account,password")?;
        for user in 0..self.all() {
            let account = self.address(user);
            writeln!(out, "{},{}", quoted(&account), quoted(&self.password(user)))?;
        }
        Ok(())
    }

    /// XEP-0227 §4, of these users.
    pub fn write_pie(&self, users: impl Iterator<Item = u32>, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "<?xml version='1.0' encoding='UTF-8'?>")?;
        writeln!(out, "<server-data xmlns='urn:xmpp:pie:0'><host jid='{}'>", escape(self.domain()))?;
        for user in users {
            let (name, password) = (self.name(user), self.password(user));
            writeln!(out, "<user name='{}' password='{}'>", escape(&name), escape(&password))?;
            write!(out, "<query xmlns='jabber:iq:roster'>")?;
            for place in 0..self.contacts_of(user) {
                let contact = self.contact(user, place);
                let (jid, contact) = (self.address(contact), self.name(contact));
                write!(
                    out,
                    "<item jid='{}' name='{}' subscription='both'/>",
                    escape(&jid),
                    escape(&contact)
                )?;
            }
            writeln!(out, "</query></user>")?;
        }
        writeln!(out, "</host></server-data>")
    }
}

/// RFC 4180 §2.6.
fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use xmpp::ns;
    use xmpp::xml::{Prefixes, parse};

    fn people(password: &str) -> UserDirectory {
        let people = UserDirectory::new(4, 2, 1, ("user{n}", password), "example.test").unwrap();
        people.with_monitors(1).unwrap()
    }

    #[test]
    fn lines_have_every_account() {
        let mut text = Vec::new();
        people("p{n},\"x").write_csv(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0]), (7, "account,password"), "four users, two monitors");
        assert_eq!(lines[1], "user1@example.test,\"p1,\"\"x\"");
    }

    #[test]
    fn rosters_are_mutual() {
        let mut text = Vec::new();
        let people = people("<&'{n}");
        people.write_pie(0..people.all(), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let (_, body) = text.split_once('\n').unwrap();
        let data = parse(body.trim().as_bytes(), &Prefixes::default()).unwrap();
        let users: Vec<_> = data.get("host", "urn:xmpp:pie:0").unwrap().elements().cloned().collect();
        assert_eq!((users.len(), users[1].attr("password")), (6, Some("<&'2")));
        let knows = |user: usize| -> Vec<String> {
            let roster = users[user].get("query", ns::ROSTER).unwrap().elements();
            roster.map(|item| item.attr("jid").unwrap().to_owned()).collect()
        };
        for (number, user) in users.iter().enumerate() {
            let me = format!("{}@example.test", user.attr("name").unwrap());
            for friend in knows(number) {
                let place = people.number(&friend).unwrap();
                assert!(knows(place as usize).contains(&me), "{friend} knows not {me}");
            }
        }
        assert_eq!((knows(0).len(), knows(5)), (2, vec!["user5@example.test".to_owned()]));
    }
}
