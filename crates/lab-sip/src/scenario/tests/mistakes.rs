//! Mistakes: all of them, each with its line and what was expected.

use super::super::compile::{compile_file, compile_text};
use super::super::model::ScenarioSource;
use super::{mistakes, warnings};

/// The only mistake in the inside of a `<scenario>`.
#[track_caller]
fn mistake(inside: &str) -> String {
    let all = mistakes(&format!("<scenario>{inside}</scenario>"));
    assert_eq!(all.len(), 1, "{all:#?}");
    all.into_iter().next().expect("there is one")
}

#[track_caller]
fn action(xml: &str) -> String {
    mistake(&format!("<recv request='X'><action>{xml}</action></recv>"))
}

#[test]
fn all_are_reported_in_order_of_lines() {
    let all = mistakes(
        "<scenario>\n<sned/>\n<recv/>\n<send>\n<![CDATA[\n [method] sip:a SIP/2.0\n To: [call_id\n]]></send>\n\
         <recv response='abc' next='nowhere'/>\n</scenario>",
    );
    assert_eq!(
        all,
        [
            "2: <sned> is no element of a scenario: did you mean <send>?",
            "3: <recv> with neither response= nor request=: expected one of them",
            "7: `[` is not closed on its line in `To: [call_id`: expected `]`, or `\\x5B` for the character",
            "9: response=\"abc\": expected a status code from 100 to 699",
            "9: next=\"nowhere\": no such label, expected <label id=\"nowhere\"/>",
        ]
    );
}

#[test]
fn elements() {
    assert_eq!(mistakes("<foo/>"), ["1: <foo> at the top: expected <scenario>"]);
    assert!(mistake("").contains("a scenario without steps"));
    assert!(mistake("<nop/>").contains("neither client nor server"));
    assert!(mistake("<recv request='X'/><gibberish/>").contains("expected one of send, recv, pause"));
    assert!(mistakes("<scenario><recv request='X'/></scenario>\n<b/>")[0].starts_with("2: an element after"));
}

#[test]
fn send() {
    assert_eq!(mistake("<send/>"), "1: <send> without a message: expected <![CDATA[ … ]]>");
    assert!(mistake("<send>\nINVITE sip:a SIP/2.0</send>").contains("outside CDATA (line 2)"));
    assert!(mistake("<send><![CDATA[ \n ]]></send>").contains("is empty"));
    assert!(
        mistake("<send><![CDATA[\n[method] sip:a SIP/2.0]]></send>")
            .starts_with("2: a message must begin with a method")
    );
    assert!(
        mistake("<send><![CDATA[SIP/2.0 [code] OK]]></send>").contains("expected a number from 100 to 699")
    );
    assert!(mistake("<send><![CDATA[SIP/2.0 99 OK]]></send>").contains("expected a number from 100 to 699"));
    assert!(
        mistake("<send retrans='soon'><![CDATA[A b]]></send>")
            .contains("retrans=\"soon\": expected a whole number")
    );
    assert!(mistake("<send retrans='-1'><![CDATA[A b]]></send>").contains("expected 0 or more"));
}

#[test]
fn recv() {
    assert!(mistake("<recv request='A' response='200'/>").contains("both response= and request="));
    assert!(mistake("<recv response='99'/>").contains("from 100 to 699"));
    assert!(mistake("<recv request=''/>").contains("expected a method"));
    assert!(mistake("<recv request='A' optional='maybe'/>").contains("expected true, false or global"));
    assert!(mistake("<recv request='A' advance_state='false'/>").contains("only for an optional"));
    assert!(mistake("<recv request='A' rrs='perhaps'/>").contains("expected true or false"));
    assert!(mistake("<recv request='A' repeat_rtd='true'/>").contains("repeat_rtd= without rtd="));
}

#[test]
fn order() {
    const SEND: &str = "<send><![CDATA[A b]]></send>";
    let optional = mistake(&format!("{SEND}<recv response='100' optional='true'/>\n<pause/>"));
    assert_eq!(optional, "2: <pause> after an optional <recv> (line 1): expected a mandatory one before it");
    assert!(mistake(&format!("{SEND}<timewait milliseconds='1'/><nop/>")).contains("must be the last step"));
    assert!(
        mistake(&format!("<label id='a'/>{SEND}<timewait next='a'/>")).contains("nothing comes after it")
    );
}

#[test]
fn labels() {
    assert_eq!(
        mistake("<label id='start'/><recv request='A' next='strat'/>"),
        "1: next=\"strat\": no such label, expected <label id=\"strat\"/>; did you mean `start`?"
    );
    assert!(
        mistake("<label id='a'/>\n<label id='a'/><recv request='A'/>")
            .starts_with("2: label `a` is defined twice")
    );
    assert!(mistake("<label/><recv request='A'/>").contains("<label> without id="));
    assert!(mistake("<recv request='A' ontimeout='x'/>").contains("ontimeout=\"x\""));
}

#[test]
fn values() {
    assert!(mistake("<pause milliseconds='1s'/><recv request='A'/>").contains("expected a number"));
    assert!(
        mistake("<pause distribution='even'/><recv request='A'/>")
            .contains("expected one of fixed, uniform, normal")
    );
    assert!(mistake("<pause min='1'/><recv request='A'/>").contains("without max="));
    assert!(mistake("<label id='l'/><recv request='A' next='l' chance='2'/>").contains("from 0 to 1"));
    assert!(
        mistake("<recv request='A'/><ResponseTimeRepartition value='1,x'/>").contains("separated by commas")
    );
    assert!(mistake("<recv request='A'/><Global/>").contains("<Global> without variables="));
    assert!(
        mistake("<recv request='A'/><DefaultMessage id='x'><![CDATA[a]]></DefaultMessage>")
            .contains("expected 3pcc_abort")
    );
    assert!(mistake("<recv request='A'/><init><pause/></init>").contains("expected <nop> or <label>"));
    assert!(mistake("<recv request='A' counter=''/>").contains("counter="));
}

#[test]
fn transactions() {
    assert!(mistake("<recv response='200' response_txn='t'/>").contains("is never started"));
    assert!(mistake("<recv request='A' response_txn='t'/>").contains("for a received response"));
    assert!(mistake("<send start_txn='t'><![CDATA[ACK b]]></send>").contains("expected ack_txn"));
    assert!(mistake("<send ack_txn='t'><![CDATA[BYE b]]></send>").contains("for an ACK only"));
    assert!(mistake("<send start_txn='t'><![CDATA[SIP/2.0 200 OK]]></send>").contains("only a request"));
    assert!(mistake("<send response_txn='t'><![CDATA[BYE b]]></send>").contains("it is for a response"));
    assert!(
        mistake("<recv request='A'/><send response_txn='t'><![CDATA[SIP/2.0 200 OK]]></send>")
            .contains("has no request to answer")
    );
    assert!(mistake("<recv response='200' start_txn='t'/>").contains("keeps a request"));
    assert!(
        mistake("<recv request='A' start_txn='t'/><send start_txn='t'><![CDATA[BYE b]]></send>")
            .contains("by a <send> and by a <recv>")
    );
    assert_eq!(
        warnings("<recv request='A' start_txn='t'/>"),
        ["1: transaction `t` is never answered: no <send> has its response_txn"]
    );
    assert!(
        mistake("<recv request='A' timeout='5' timeout_variable='v'/><Global variables='v'/>")
            .contains("both timeout= and timeout_variable=")
    );
    let half = "<send start_txn='t'><![CDATA[INVITE b]]></send><recv response='200' response_txn='t'/>";
    assert_eq!(warnings(half), ["1: INVITE transaction `t` has no ack_txn (SIPp stops here)"]);
}

#[test]
fn actions() {
    assert!(action("<erg regexp='a'/>").contains("<erg> is no action: did you mean <ereg>?"));
    assert!(action("<frobnicate/>").contains("expected one of ereg, log, warning"));
    assert!(action("<ereg regexp='a'/>").contains("without assign_to= or check_it="));
    assert!(action("<ereg assign_to='a'/>").contains("without regexp="));
    assert!(
        action("<ereg regexp='a' search_in='all' assign_to='a'/>").contains("expected msg, hdr, body or var")
    );
    assert!(action("<ereg regexp='a' search_in='hdr' assign_to='a'/>").contains("without header="));
    assert!(
        action("<ereg regexp='a' assign_to='a' check_it='true' check_it_inverse='true'/>")
            .contains("with both")
    );
    assert!(action("<assign assign_to='a'/>").contains("neither value= nor variable="));
    assert!(action("<add assign_to='a' value='1' variable='b'/>").contains("both value= and variable="));
    assert!(action("<add value='1'/>").contains("without assign_to="));
    assert!(action("<divide assign_to='a' value='0'/>").contains("by zero"));
    assert!(action("<assignstr assign_to='$a' value='1'/>").contains("may not contain $"));
    assert!(action("<gettimeofday assign_to='a'/>").contains("seconds,microseconds"));
    assert!(action("<test assign_to='a' variable='b' compare='like' value='1'/>").contains("expected equal"));
    assert!(action("<test assign_to='a' variable='b' compare='equal'/>").contains("value= and variable2="));
    assert!(action("<strcmp assign_to='a' variable='b'/>").contains("value= and variable2="));
    assert!(action("<log/>").contains("<log> without message="));
    assert!(action("<exec/>").contains("expected command="));
    assert!(action("<exec rtp_echo='go'/>").contains("expected startaudio"));
    assert!(action("<rtpcheck audio='true'/>").contains("demands nothing"));
    assert!(action("<rtpcheck audio='true' video='true' min_mos='1'/>").contains("looks at one stream"));
    assert!(action("<lookup assign_to='a' file='f'/>").contains("<lookup> without key="));
}

#[test]
fn attributes_that_mean_nothing_warn() {
    let warned =
        warnings("<recv request='A' rss='true'/><send rrs='true'><![CDATA[A b]]></send><nop compare='x'/>");
    assert_eq!(
        warned,
        [
            "1: `rss` means nothing on <recv> and is ignored; did you mean `rrs`?",
            "1: `rrs` means nothing on <send> and is ignored",
            "1: `compare` means nothing on <nop> and is ignored",
        ]
    );
}

#[test]
fn errors_name_the_file() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("bad.xml");
    std::fs::write(&path, "<scenario>\n<recv/></scenario>").expect("it is written");
    let errors = compile_file(&path).expect_err("a mistake");
    assert!(
        errors[0]
            .to_string()
            .ends_with("bad.xml:2: <recv> with neither response= nor request=: expected one of them")
    );
    let missing = compile_file(&directory.path().join("none.xml")).expect_err("no file");
    assert!(missing[0].to_string().contains("none.xml: cannot be read"), "{}", missing[0]);
    let built = compile_text(b"<a/>", ScenarioSource::BuiltIn("uac")).expect_err("a mistake");
    assert_eq!(built[0].to_string(), "uac:1: <a> at the top: expected <scenario>");
}

#[test]
fn received_media() {
    assert_eq!(
        action("\n<rtp_stats assign_to='a,b,c,d'/>"),
        "2: <rtp_stats> gives one to three values: expected assign_to=\"packets,payload_type,payload\""
    );
    assert!(action("<rtp_stats/>").contains("<rtp_stats> without assign_to="));
    assert!(
        action("<rtp_stats assign_to='a' media='text'/>").contains("media=\"text\": expected audio or video")
    );
    assert!(action("<rtp_dtmf/>").contains("<rtp_dtmf> without assign_to="));
    assert!(
        action("<rtp_dtmf assign_to='a' payload_type='128'/>")
            .contains("payload_type=\"128\": expected 0 to 127")
    );
    assert!(action("<exec/>").contains("expected command=, verify=, int_cmd="));
}
