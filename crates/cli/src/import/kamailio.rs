//! Accounts of Kamailio: its tables `subscriber` (auth_db) and `dbaliases` (alias_db), in any form that `rows` reads.
//!
//! `ha1` is MD5 of `username:domain:password`, so it proves the password here, where the realm is the domain. `ha1b`, of
//! `username@domain`, is not used: phones give the user name alone.

use std::collections::VecDeque;

use store::Verifiers;

use super::foreign::{ForeignAccount, ForeignCredentials, ForeignPiece};
use super::row_files::RowFormat;
use super::rows::Row;

/// The tables that are read.
pub(super) const TABLES: &[&str] = &["subscriber", "dbaliases", "uacreg"];

/// Their files in a folder of db_text.
pub(super) const FOLDER: &[&str] = TABLES;

/// Rows of Kamailio.
pub(super) struct Kamailio;

impl RowFormat for Kamailio {
    // A file of CSV or db_text does not say its table: the columns do.
    fn row(&mut self, row: &Row, domain: &str, out: &mut VecDeque<ForeignPiece>) {
        let table = match &*row.table {
            "" if row.has("alias_username") => "dbaliases",
            "" if row.has("l_uuid") => "uacreg",
            "" => "subscriber",
            table => table,
        };
        match table {
            "dbaliases" => out.push_back(alias(row, domain)),
            "uacreg" => {
                let what = "registrations at carriers (uacreg), which a route replaces: belfry route add";
                out.push_back(ForeignPiece::Other(what.into(), 1));
            }
            _ => subscriber(row, domain, out),
        }
    }
}

/// The value of a column with a domain. Kamailio leaves it empty with a single domain.
fn domain_of<'a>(row: &'a Row, column: &str, default: &'a str) -> &'a str {
    Some(row.get(column)).filter(|domain| !domain.is_empty()).unwrap_or(default)
}

fn alias(row: &Row, domain: &str) -> ForeignPiece {
    let pair = |user: &str, column: &str| (row.get(user).into(), domain_of(row, column, domain).into());
    ForeignPiece::Alias {
        line: row.line,
        alias: pair("alias_username", "alias_domain"),
        account: pair("username", "domain"),
    }
}

fn subscriber(row: &Row, default: &str, out: &mut VecDeque<ForeignPiece>) {
    for (column, what) in [("email_address", "e-mail addresses"), ("rpid", "caller ids (rpid)")] {
        if !row.get(column).is_empty() {
            out.push_back(ForeignPiece::Other(what.into(), 1));
        }
    }
    let (user, domain) = (row.get("username"), domain_of(row, "domain", default));
    let credentials = credentials(row, user, domain);
    // Older versions had the name of the subscriber in two columns.
    let name = [row.get("first_name"), row.get("last_name")];
    let name = name.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    out.push_back(match credentials {
        Ok(credentials) => ForeignPiece::Account(ForeignAccount {
            line: row.line,
            user: user.into(),
            domain: domain.into(),
            name: name.into(),
            credentials,
        }),
        Err(why) => ForeignPiece::Bad { line: row.line, what: format!("user {user}: {why}") },
    });
}

/// The password if it is there, else the HA1. Two that contradict each other are not taken: only the configuration of Kamailio
/// knows which of them counts.
fn credentials(row: &Row, user: &str, domain: &str) -> Result<ForeignCredentials, String> {
    let (password, ha1) = (row.get("password"), row.get("ha1"));
    if ha1.is_empty() && password.is_empty() {
        return Err("no password and no ha1; expected one of them".into());
    }
    if ha1.is_empty() {
        return Ok(ForeignCredentials::Password(password.into()));
    }
    let Some(md5) = md5_of(ha1) else {
        let length = ha1.len();
        return Err(format!(
            "an ha1 of {length} characters; expected that of MD5, 32 hexadecimal digits: set its password with belfry \
             account add"
        ));
    };
    if password.is_empty() {
        if row.get("domain").is_empty() {
            return Err("an ha1 without domain; expected the domain, of which the ha1 is made".into());
        }
        return Ok(ForeignCredentials::Md5(md5));
    }
    if Verifiers::from_password(user, domain, password).md5 != md5 && !row.get("domain").is_empty() {
        return Err("an ha1 that is not of the password; expected only the one that Kamailio checks \
                    (calculate_ha1), and the other empty"
            .into());
    }
    Ok(ForeignCredentials::Password(password.into()))
}

/// An HA1 of MD5 as digits.
pub(super) fn md5_of(text: &str) -> Option<[u8; 16]> {
    let digits: Vec<u8> =
        text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    let bytes: Vec<u8> =
        digits.chunks(2).map(|pair| (pair[0] << 4) | pair.get(1).copied().unwrap_or(0)).collect();
    bytes.try_into().ok().filter(|_| digits.len() == 32)
}
