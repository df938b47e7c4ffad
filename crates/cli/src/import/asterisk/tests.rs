//! Files as operators and FreePBX write them.

use std::sync::Arc;

use super::*;
use crate::import::Stop;

fn pieces(text: &str) -> Vec<String> {
    let stop = Stop::on_interrupt(Arc::default()).unwrap();
    let file: Box<dyn Read + Send> = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    let input =
        ForeignInput { path: Path::new("-"), file: Some(file), domain: "example.test".into(), stop: &stop };
    let mut asterisk = match Asterisk::open(input) {
        Ok(asterisk) => asterisk,
        Err(error) => return vec![error.to_string()],
    };
    let mut said = Vec::new();
    while let Ok(Some(piece)) = asterisk.next() {
        said.push(match piece {
            ForeignPiece::Account(account) => {
                let by = match account.credentials {
                    ForeignCredentials::Password(password) => password.to_string(),
                    ForeignCredentials::Md5(md5) => format!("md5 {}", md5[0]),
                    ForeignCredentials::Keys(_) => "keys".into(),
                };
                format!("{} {} {:?} {by}", asterisk.place(account.line), account.user, account.name)
            }
            ForeignPiece::Alias { alias, account, .. } => format!("alias {} {}", alias.0, account.0),
            ForeignPiece::Bad { line, what } => format!("{} {what}", asterisk.place(line)),
            ForeignPiece::Other(what, count) => format!("{count} {what}"),
        });
    }
    said
}

#[test]
fn endpoints_with_auth_are_accounts_also_of_templates() {
    let text = "; comment\n[global]\ntype=global\ndefault_realm=example.test ;-- not\n this --;\n
[phone](!)\ntype=endpoint\ncontext=internal\n[auth-userpass](!)\ntype = auth\nauth_type => userpass\n
[alice](phone)\nauth=alice-auth\naors=alice\ncallerid=\"Alice Liddell\" <100>\n
[alice-auth](auth-userpass)\nusername=alice\npassword=a\\;b=c\n[alice]\ntype=aor\nmax_contacts=1\nmailboxes=100@default\n
[bob](phone)\nauth=bob\naors=200,bob-desk\n[bob]\ntype=auth\nauth_type=md5\nusername=robert\nmd5_cred=00112233445566778899aabbccddeeff\n
[carrier]\ntype=endpoint\noutbound_auth=x\n[carrier]\ntype=registration\n";
    assert_eq!(
        pieces(text),
        [
            "standard input:14 alice \"Alice Liddell\" a;b=c",
            "standard input:27 robert \"\" md5 0",
            "alias 200 robert",
            "alias bob robert",
            "alias bob-desk robert",
            "1 endpoints without auth, as trunks, which a route replaces: belfry route add",
            "1 mailboxes",
            "1 registrations at carriers, which a route replaces: belfry route add",
        ]
    );
}

#[test]
fn entries_that_cannot_be_imported_are_reported_with_a_reason() {
    let auth = |more: &str| format!("[a]\ntype=endpoint\nauth=a\naors=a\n[a]\ntype=auth\n{more}");
    let says = |text: &str, words: &str| {
        let said = pieces(text);
        assert!(said.iter().any(|line| line.contains(words)), "{words}: {said:?}");
    };
    says(&auth(""), "standard input:5 endpoint a: auth a without username");
    says(&auth("username=a"), "endpoint a: auth a of auth_type userpass without password and digest of MD5");
    says(
        &auth("username=a\nmd5_cred=00"),
        "a digest of the realm \"asterisk\"; expected one of \"example.test\"",
    );
    says(&auth("username=a\nrealm=example.test\nmd5_cred=00"), "a digest that is none");
    says(
        &auth("username=a\nrealm=example.test\npassword_digest=SHA-256:00"),
        "without password and digest of MD5",
    );
    says(
        "[a]\ntype=endpoint\nauth=b\n",
        "standard input:1 endpoint a: auth b; expected a section [b] with type=auth",
    );
    says("[a](b)\n[c](+)\n[d\n", "standard input:1 [a](b); expected a template [b] before");
    says("[c](+)\n", "[c](+); expected a section [c] before");
    says("[d\n", "standard input:1 [d; expected [name]");
    says("#include \"x.conf\"\n", "#include of \"x.conf\"; expected the file's name instead of -");
    says(&format!("[a]\nx={}\n", "y".repeat(9_000)), "standard input:2 a line of more than 8 KiB");
    let digest = "username=a\nrealm=example.test\npassword_digest=MD5:ff112233445566778899aabbccddeeff";
    assert_eq!(pieces(&auth(digest)), ["standard input:1 a \"\" md5 255"]);
}

#[test]
fn templates_of_templates_stay_within_the_limits() {
    let mut text = format!("[t0](!)\n{}", format!("username={}\n", "x".repeat(4_000)).repeat(200));
    for level in 1..40 {
        text.push_str(&format!("[t{level}](!,t{0},t{0})\n", level - 1));
    }
    let said = pieces(&text);
    assert!(said.iter().any(|line| line.contains("[t39] with too many values; expected fewer")), "{said:?}");
    text.push_str(&"[x](t0)\n".repeat(1_000));
    assert_eq!(
        pieces(&text),
        ["all sections together: more than 64 MiB; expected files with fewer sections"]
    );
}

#[test]
fn numbers_that_call_one_endpoint_are_found() {
    let mut plan = DialPlan::default();
    let text = "[internal]\nexten => 100,1,NoOp()\nsame => n,Dial(PJSIP/alice,20)\nsame => n,Hangup()\n\
                exten => 101,1,Dial(PJSIP/alice&PJSIP/bob)\nexten => 102,1,Dial(PJSIP/bob)\nsame => n,VoiceMail(102)\n\
                exten => _1XX,1,Dial(PJSIP/${EXTEN})\nsame => n,Hangup()\nexten = 103,1,Dial(PJSIP/${EXTEN})\n\
                exten => 104,1,Dial(PJSIP/0123@carrier)\nexten => 105,hint,PJSIP/alice\nexten => s,1,Answer()\n";
    for (number, text) in text.lines().enumerate() {
        plan.line(config::ConfigLine {
            line: Line { file: 0, number: number as u32 + 1 },
            text: text.into(),
        });
    }
    let mut numbers: Vec<_> = plan.numbers.iter().map(|((_, number), (_, does))| (&**number, does)).collect();
    numbers.sort_by_key(|(number, _)| *number);
    let calls = |name: &str| Extension::Calls(name.into());
    assert_eq!(
        numbers,
        [
            ("100", &calls("alice")),
            ("101", &Extension::More),
            ("102", &Extension::More),
            ("103", &calls("103")),
            ("104", &Extension::More),
        ]
    );
    assert_eq!(plan.patterns, 1);
}
