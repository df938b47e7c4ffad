//! The account of an answer to an edge without a database (`router::PhoneAccount`), as numbered fields. It has digests of a password:
//! links that leave the machine are encrypted (`docs/decisions/0064-edges-without-a-database.md`).

use cluster::fields::{Corrupt, Field, put_bytes, put_number};
use router::PhoneAccount;

use super::values::{absent, fields, flag, put_flag, put_text, text};

/// The wire version whose nodes understand questions about accounts.
pub const ACCOUNTS_SINCE: u16 = 2;

/// Writes the account; nothing for an address without one.
pub(super) fn put_account(out: &mut Vec<u8>, account: Option<&PhoneAccount>) {
    let Some(account) = account else { return };
    let PhoneAccount { aor, md5, sha256, sha512_256, disabled, max_contacts, max_calls, max_rate, deny } =
        account;
    put_text(out, 1, aor);
    put_bytes(out, 2, md5);
    put_bytes(out, 3, sha256);
    put_bytes(out, 4, sha512_256);
    put_flag(out, 5, *disabled);
    put_number(out, 6, *max_contacts as u64);
    for (number, limit) in [(7, max_calls), (8, max_rate)] {
        limit.iter().for_each(|limit| put_number(out, number, u64::from(*limit)));
    }
    deny.iter().for_each(|pattern| put_bytes(out, 9, pattern.as_bytes()));
}

/// Reads what [`put_account`] has written.
pub(super) fn read_account(bytes: &[u8]) -> Result<Option<PhoneAccount>, Corrupt> {
    let (mut aor, mut disabled, mut max_contacts) = (None, false, 0);
    let (mut md5, mut sha256, mut sha512_256) = (None, None, None);
    let (mut max_calls, mut max_rate, mut deny) = (None, None, Vec::new());
    let mut fields = fields(bytes)?;
    while let Some(field) = fields.next()? {
        match field.number {
            1 => aor = Some(text(&field)?).filter(|aor| !aor.is_empty()),
            2 => md5 = Some(digest(&field)?),
            3 => sha256 = Some(digest(&field)?),
            4 => sha512_256 = Some(digest(&field)?),
            5 => disabled = flag(&field)?,
            6 => max_contacts = field.value()?,
            7 => max_calls = Some(field.value()?),
            8 => max_rate = Some(field.value()?),
            9 => deny.push(text(&field)?),
            _ => {}
        }
    }
    let Some(aor) = aor else { return Ok(None) };
    let missing = || absent("an account has no digest");
    Ok(Some(PhoneAccount {
        aor,
        md5: md5.ok_or_else(missing)?,
        sha256: sha256.ok_or_else(missing)?,
        sha512_256: sha512_256.ok_or_else(missing)?,
        disabled,
        max_contacts,
        max_calls,
        max_rate,
        deny,
    }))
}

fn digest<const BYTES: usize>(field: &Field<'_>) -> Result<[u8; BYTES], Corrupt> {
    field.bytes.try_into().map_err(|_| absent("a digest of an account has another length"))
}
