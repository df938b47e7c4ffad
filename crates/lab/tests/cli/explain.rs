//! `ringer sip --explain` and `--schema`.

use crate::program::Place;

#[test]
fn a_scenario_is_told_in_words_or_as_json() {
    let place = Place::new();
    let said = place.run("sip --explain uac");
    assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
    assert!(said.out.contains("needs HOST:PORT: the target of the calls"), "{said:?}");
    let json = place.run("sip --explain uac --json -");
    assert_eq!(json.code, Some(0), "{json:?}");
    let value: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((value["valid"].as_bool(), value["role"].as_str()), (Some(true), Some("client")));
    assert_eq!(place.run("sip --explain uac --json words.json").code, Some(0));
    assert_eq!(place.read("words.json"), json.out);
}

#[test]
fn an_invalid_scenario_is_reported_with_its_line_and_ends_with_255() {
    let place = Place::new();
    place.write("broken.xml", "<scenario>\n<recv request=\"INVITE\"/>\n<forward/>\n</scenario>\n");
    let said = place.run("sip --explain broken.xml");
    assert_eq!((said.code, said.out.as_str()), (Some(255), ""));
    assert!(said.err.contains("broken.xml:3: <forward> is no element of a scenario"), "{said:?}");
    place.write("cut.xml", "<scenario>\n<send><![CDATA[\nINVITE sip:a SIP/2.0\n");
    let said = place.run("sip --explain cut.xml --json -");
    assert_eq!(said.code, Some(255));
    let value: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
    assert_eq!(
        (value["valid"].as_bool(), value["mistakes"][0]["line"].as_u64()),
        (Some(false), Some(2)),
        "{value}"
    );
    let said = place.run("sip --explain nowhere.xml");
    assert_eq!(said.code, Some(255));
    assert!(
        said.err.contains("nowhere.xml: cannot be read: No such file") && said.err.contains("uac_pcap"),
        "{said:?}"
    );
}

#[test]
fn the_schema_is_printed() {
    let said = Place::new().run("sip --schema");
    assert_eq!(said.code, Some(0), "{said:?}");
    let committed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scenario.xsd");
    assert_eq!(said.out, std::fs::read_to_string(committed).expect("the schema is there"));
}
