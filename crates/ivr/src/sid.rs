//! Names of resources: two letters that say what it is, and 32 hexadecimal digits.

use std::fmt::Write;

/// Account.
pub const ACCOUNT: &str = "AC";
/// Application.
pub const APPLICATION: &str = "AP";
/// Call.
pub const CALL: &str = "CA";
/// Conference.
pub const CONFERENCE: &str = "CF";
/// Client.
pub const CLIENT: &str = "CL";
/// E-mail, RestComm's letters.
pub const MAIL: &str = "EM";
/// Message.
pub const MESSAGE: &str = "SM";
/// Media stream.
pub const STREAM: &str = "MZ";
/// Notification.
pub const NOTIFICATION: &str = "NO";
/// Number that leads to an application.
pub const NUMBER: &str = "PN";
/// Queue.
pub const QUEUE: &str = "QU";
/// Recording.
pub const RECORDING: &str = "RE";
/// Transcription.
pub const TRANSCRIPTION: &str = "TR";

/// `letters` is one of this module's constants; `random` comes from the operating system or a keyed generator.
pub fn new(letters: &str, random: u128) -> String {
    debug_assert!(letters.len() == 2 && letters.bytes().all(|byte| byte.is_ascii_uppercase()));
    let mut sid = String::with_capacity(34);
    sid.push_str(letters);
    let _ = write!(sid, "{random:032x}");
    sid
}

/// True if a text has the form of a sid of this kind. Hexadecimal digits of either case, as clients send them.
pub fn is(letters: &str, text: &str) -> bool {
    text.len() == 34 && text.starts_with(letters) && text.bytes().skip(2).all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sid_is_two_letters_and_32_hex() {
        assert_eq!(new(CALL, 0xab), "CA000000000000000000000000000000ab");
        assert_eq!(new(ACCOUNT, u128::MAX), "ACffffffffffffffffffffffffffffffff");
        assert!(is(ACCOUNT, "ACae6e420f425248d6a26948c17a9e2acf"));
        assert!(!is(CALL, "ACae6e420f425248d6a26948c17a9e2acf"));
        assert!(!is(ACCOUNT, "ACae6e420f425248d6a26948c17a9e2ac"));
        assert!(!is(ACCOUNT, "ACge6e420f425248d6a26948c17a9e2acf"));
        assert!(!is(ACCOUNT, "ACé6e420f425248d6a26948c17a9e2acf"));
    }
}
