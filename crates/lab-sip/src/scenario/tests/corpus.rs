//! Files as people really write them.

use super::super::compile::compile_text;
use super::super::model::{ScenarioSource, StepKind};
use super::{source, warnings};

/// Latin-1, carriage returns, DOCTYPE, odd comments, attributes that mean nothing, all at once.
const ODD: &[u8] = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\" ?>\r\n\
<!DOCTYPE scenario SYSTEM \"sipp.dtd\">\r\n\
<!-- caf\xe9 -- with -- dashes --->\r\n\
<scenario name=\"Caf\xe9\">\r\n\
  stray text\r\n\
  <Reference variables=\"nothing\"/>\r\n\
  <send retrans=\"500\" start_rtd='invite' rrs=\"true\">\r\n\
    <![CDATA[\r\n\
\r\n\
      INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0\r\n\
      From: \"Caf\xe9\" <sip:a@[local_ip]>;tag=[call_number]\r\n\
      Contact: <sip:a@[[local_ip]]:[local_port]>\r\n\
      Content-Length: [len]\r\n\
\r\n\
      v=0\r\n\
\r\n\
    ]]>\r\n\
  </send>\r\n\
  <recv response=\"100\" optional=\"true\"></recv >\r\n\
  <recv response=\"200\" rtd=\"invite\" rss=\"true\" bare>\r\n\
    <!-- <action> not this --> <action>\r\n\
      <ereg regexp=\"&lt;sip:(.*)&gt;\" search_in=\"hdr\" header=\"Contact:\" occurence=\"1\" assign_to=\"dummy,uri\" />\r\n\
      <log message=\"got [$uri] \\\"quoted\\\"\"/>\r\n\
    </action>\r\n\
  </recv>\r\n\
  <Reference variables=\"dummy,uri\"/>\r\n\
</scenario>\r\n\
<!-- end -->\r\n";

#[test]
fn an_odd_file_compiles() {
    let compiled = compile_text(ODD, source()).expect("it compiles");
    let scenario = compiled.scenario;
    assert_eq!((scenario.name.as_str(), scenario.steps.len()), ("Caf\u{e9}", 3));
    assert_eq!((scenario.steps[0].line, scenario.steps[2].line), (7, 20));
    assert_eq!(scenario.steps[2].actions.len(), 2);
    let StepKind::Send(send) = &scenario.steps[0].kind else { panic!("no send") };
    let text = format!("{:?}", send.message.parts);
    // The byte of the accented letter goes out as it came in.
    assert!(text.contains("67, 97, 102, 233, 34"), "{text}");
    let lines: Vec<u32> = compiled.warnings.iter().map(|warning| warning.line).collect();
    assert_eq!(lines, [6, 7, 20]);
}

#[test]
fn a_copy_from_a_web_page_is_told_so() {
    let text = "<scenario name=“x”>\n</scenario>";
    let errors = compile_text(text.as_bytes(), source()).expect_err("typographic quotes");
    assert!(errors[0].to_string().starts_with("dir/t.xml:1: name= in <scenario> has a typographic quote"));
}

#[test]
fn pcap_and_keys_of_the_command_line() {
    let warned = warnings(
        "<send><![CDATA[\nREGISTER sip:[domain] SIP/2.0\nContact: <sip:[from]@[customip1]>\n]]></send>\
         <recv response='401' auth='true'/>\
         <send><![CDATA[\nREGISTER sip:[domain] SIP/2.0\n[authentication username=[field0] password=secret]\n]]></send>\
         <recv response='200'/>",
    );
    assert_eq!(warned, Vec::<String>::new());
}

#[test]
fn the_name_may_be_missing() {
    let text = b"<scenario><recv request='OPTIONS'/></scenario>";
    let compiled = compile_text(text, ScenarioSource::File("x/y.z.xml".into())).expect("it compiles");
    assert_eq!((compiled.scenario.name.as_str(), compiled.scenario.source.stem().as_str()), ("", "y.z"));
}
