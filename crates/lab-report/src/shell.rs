//! Command lines as a shell reads them.
//! The line that `report` and `find` print so that an operator can run the same load again.

/// The words as one line that a POSIX shell splits into the same words again.
pub fn join(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
    quoted.join(" ")
}

/// Characters that no POSIX shell treats specially inside a word (POSIX.1-2024, Shell & Utilities, §2.2). Braces and `~` are
/// special in bash; `=` makes an assignment of a first word only, which is a program's name here.
const PLAIN: &[u8] = b"%+,-./:=@_";

/// One word in single quotes where it needs them. A quote inside ends the quoted part, stands escaped, and begins the next part (`'\''`).
fn quote(word: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || PLAIN.contains(&byte);
    if !word.is_empty() && word.bytes().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn plain_words_stay_as_they_are() {
        let words = ["ringer", "sip", "-sf", "./uac.xml", "127.0.0.1:5060", "-r", "50%"].map(str::to_owned);
        assert_eq!(join(&words), "ringer sip -sf ./uac.xml 127.0.0.1:5060 -r 50%");
    }

    #[test]
    fn a_shell_reads_the_same_words_back() {
        let words = [
            "",
            "a b",
            "response.p99<20ms",
            "it's",
            "\"",
            "$HOME",
            "`id`",
            "*",
            "?",
            "~",
            "{a,b}",
            "#",
            "!",
            "a\\b",
            "(x)",
            "a|b",
            "a&b",
            "a;b",
            "a\nb",
            "user{n}",
            "[x]",
            "é",
            "growth < 1%/h",
        ];
        let words: Vec<String> = words.map(str::to_owned).to_vec();
        for shell in ["sh", "bash"] {
            let script = format!("printf '%s\\0' {}", join(&words));
            let output = Command::new(shell).args(["-c", &script]).output().expect("a shell");
            let text = String::from_utf8(output.stdout).expect("the given text");
            let read: Vec<&str> = text.split_terminator('\0').collect();
            assert_eq!(read, words, "{shell}");
        }
    }
}
