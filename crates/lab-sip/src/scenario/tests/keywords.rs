//! Every keyword, and text that is none; what becomes of a message's blanks.

use super::super::compile::compile_template;
use super::super::lexicon::{KEYWORDS, KeywordForm};
use super::super::model::{Scope, VarRef, Variables};
use super::super::template::{Keyword, Template, TemplatePart};
use super::{message, shown};

fn cut(text: &str) -> Template {
    compile_template(text.as_bytes(), &mut Variables::default()).expect("it compiles")
}

fn keyword(text: &str) -> Keyword {
    match cut(text).parts.as_slice() {
        [TemplatePart::Keyword(keyword)] => keyword.clone(),
        other => panic!("{text}: {other:?}"),
    }
}

fn stays(text: &str) {
    assert_eq!(shown(&cut(text)), text);
}

#[test]
fn every_simple_keyword_of_the_table_is_read() {
    for doc in KEYWORDS {
        let read = |text: String| format!("{:?}", keyword(&text));
        match doc.form {
            KeywordForm::Plain(make) => assert_eq!(read(format!("[{}]", doc.name)), format!("{:?}", make())),
            KeywordForm::Offset(make) => {
                assert_eq!(read(format!("[{}]", doc.name)), format!("{:?}", make(0)));
                assert_eq!(read(format!("[{}+12]", doc.name)), format!("{:?}", make(12)));
                assert_eq!(read(format!("[{}-3]", doc.name)), format!("{:?}", make(-3)));
            }
            KeywordForm::Crypto => {
                assert_eq!(keyword(&format!("[{}]", doc.name)), Keyword::Crypto(doc.name.into()));
            }
            KeywordForm::Parametric => {}
        }
    }
}

#[test]
fn fields() {
    assert_eq!(keyword("[field0]"), Keyword::Field { field: 0, file: None, line: None });
    let Keyword::Field { field: 12, file: Some(file), line: Some(line) } =
        keyword("[field12 file=\"a-1.csv\" line=\"[$v]\"]")
    else {
        panic!("no field")
    };
    assert_eq!(&*file, "a-1.csv");
    assert!(matches!(line.parts.as_slice(), [TemplatePart::Keyword(Keyword::Var(_))]));
    assert!(
        matches!(keyword("[field1 file=users.csv]"), Keyword::Field { file: Some(file), .. } if &*file == "users.csv")
    );
}

#[test]
fn variables() {
    let mut variables = Variables { global: vec!["g".into()], ..Variables::default() };
    let template = compile_template(b"[$g][$new][$new+1]", &mut variables).expect("it compiles");
    let new = VarRef { scope: Scope::Call, slot: 0 };
    let global = VarRef { scope: Scope::Global, slot: 0 };
    let expected = [global, new, new].map(|variable| TemplatePart::Keyword(Keyword::Var(variable)));
    assert_eq!(template.parts, expected);
    assert_eq!(variables.call, ["new"]);
}

#[test]
fn fill_and_file() {
    assert!(
        matches!(keyword("[fill text=\"ab\" variable=\"n\"]"), Keyword::Fill { text, .. } if &*text == b"ab")
    );
    assert!(matches!(keyword("[fill variable=n]"), Keyword::Fill { text, .. } if &*text == b"X"));
    assert!(
        matches!(keyword("[fill text=0x4142 variable=n]"), Keyword::Fill { text, .. } if &*text == b"AB")
    );
    let Keyword::File(name) = keyword("[file name=\"[$dir]/a.txt\"]") else { panic!("no file") };
    assert_eq!(name.parts.len(), 2);
}

#[test]
fn last_headers() {
    assert_eq!(keyword("[last_Via:]"), Keyword::Last("Via:".into()));
    assert_eq!(keyword("[last_From.value]"), Keyword::LastValue("From".into()));
    assert_eq!(keyword("[last_P-3GPP-X:]"), Keyword::Last("P-3GPP-X:".into()));
    assert_eq!(keyword("[last_message]"), Keyword::LastMessage);
    assert_eq!(keyword("[last_cseq_number+1]"), Keyword::LastCseqNumber(1));
}

#[test]
fn authentication() {
    assert!(
        matches!(keyword("[authentication]"), Keyword::Authentication(params) if params.username.is_none())
    );
    let Keyword::Authentication(params) = keyword(
        "[authentication username=\"[field0]\" password=a-1 aka_K=\"k\" aka_OP=0xCDC2 aka_AMF=\"\\\"q\\\"\"]",
    ) else {
        panic!("no authentication")
    };
    let text = |template: &Option<Template>| template.as_ref().map(shown);
    assert!(matches!(
        params.username.expect("it is set").parts.as_slice(),
        [TemplatePart::Keyword(Keyword::Field { field: 0, .. })]
    ));
    assert_eq!(text(&params.password).as_deref(), Some("a-1"));
    assert_eq!(text(&params.aka_k).as_deref(), Some("k"));
    assert_eq!(params.aka_op, Some(Template::text([0xCD, 0xC2])));
    assert_eq!(text(&params.aka_amf).as_deref(), Some("\"q\""));
}

#[test]
fn other_words_are_keys() {
    assert_eq!(keyword("[domain]"), Keyword::Key("domain".into()));
    assert_eq!(keyword("[customip1]"), Keyword::Key("customip1".into()));
    assert_eq!(keyword("[fieldname]"), Keyword::Key("fieldname".into()));
}

#[test]
fn text_in_brackets_stays() {
    for text in ["[::1]", "[fe80::1%eth0]", "[0-9]", "[a-z]", "[]", "[ x y ]", "[127.0.0.1]", "a]b", "[1]"] {
        stays(text);
    }
}

#[test]
fn a_keyword_may_stand_in_brackets() {
    assert_eq!(shown(&cut("[[local_ip]]:[local_port]")), "[{LocalIp}]:{LocalPort(0)}");
    assert_eq!(shown(&cut("[[[pid]]]")), "[[{Pid}]]");
}

#[test]
fn hexadecimal_escapes() {
    assert_eq!(cut("\\x5Bpid\\x5d\\x0a"), Template::text("[pid]\n"));
    assert_eq!(cut("a\\b\\n"), Template::text("a\\b\\n"));
    // One digit only: the byte after it goes with it, as in SIPp.
    assert_eq!(cut("\\x4Z!"), Template::text("\u{4}!"));
}

#[test]
fn malformed_keywords_are_mistakes() {
    let fails =
        |text: &str| compile_template(text.as_bytes(), &mut Variables::default()).expect_err("it does not");
    assert!(fails("To: [call_id\nx]").contains("`[` is not closed on its line in `To: [call_id`"));
    assert!(fails(&format!("[{}]", "x".repeat(300))).contains("is not closed"));
    assert!(fails("[file nam=\"x\"]").contains("expected [file name=\"…\"]"));
    assert!(fails("[fill text=\"x\"]").contains("without a variable"));
    assert!(fails("[$]").contains("empty"));
    assert!(fails("[field99999999999]").contains("no field number"));
}

#[test]
fn a_message_is_trimmed_as_sipp_does() {
    let text = |cdata: &str| shown(&message(&format!("<send><![CDATA[{cdata}]]></send>")));
    assert_eq!(
        text("\n\n   OPTIONS sip:a SIP/2.0  \n\tVia: x\t\n\n   "),
        "OPTIONS sip:a SIP/2.0\r\nVia: x\r\n\r\n"
    );
    assert_eq!(
        text("A sip:a SIP/2.0\n  To: x\n \n  v=0\n  s=-\n  "),
        "A sip:a SIP/2.0\r\nTo: x\r\n\r\nv=0\r\ns=-\r\n"
    );
    assert_eq!(text("A b\n\nv=0"), "A b\r\n\r\nv=0");
    assert_eq!(text("A b"), "A b\r\n\r\n");
    // Spaces go before tabs do.
    assert_eq!(text("A b\n\t x\n"), "A b\r\n x\r\n\r\n");
}

/// The bytes that SIPp 3.6.1 sent for the same text.
#[test]
fn a_mix_of_blanks_is_trimmed_as_sipp_was_seen_to() {
    let cdata = "\n\n  OPTIONS sip:a@b SIP/2.0  \n\tVia: x\n\t  From: <sip:a@b>;tag=\\x41\\x4Z!\n  To: <sip:b@b>\n \tX-Fold: x \t\n  \n  v=0\n\n  s=-\n  \n";
    let sent = "OPTIONS sip:a@b SIP/2.0\r\nVia: x\r\n  From: <sip:a@b>;tag=A\u{4}!\r\nTo: <sip:b@b>\r\nX-Fold: x \r\n\r\nv=0\r\n\r\ns=-\r\n";
    assert_eq!(shown(&message(&format!("<send><![CDATA[{cdata}]]></send>"))), sent);
}

#[test]
fn a_command_ends_without_a_line_end() {
    let text = |cdata: &str| shown(&message(&format!("<sendCmd><![CDATA[{cdata}]]></sendCmd>")));
    assert_eq!(text("a: b\n\nbody\n"), "a: b\r\n\r\nbody");
    assert_eq!(text(" a: b\n "), "a: b\r\n\r\n");
}

#[test]
fn len_is_noted() {
    assert!(cut("x [len]").has_len);
    assert!(!cut("x [pid]").has_len);
}
