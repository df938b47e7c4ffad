//! An XML Schema of the language for editors, made of the tables that the compiler reads with.

use std::fmt::Write;

use super::lexicon::{
    ACTIONS, ActionName, AttributeDoc, COMMON, DISTRIBUTION_ATTRIBUTES, ELEMENTS, ElementName, SCENARIO,
};

/// The beginning of the schema.
const HEAD: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- SIPp's scenario language as Ringer reads it, for editors. Made by the code that compiles scenarios:
     Ringer's flag `schema` prints it, `BLESS=1 cargo test -p lab-sip` writes it anew. Attributes that it does not have are ignored by Ringer, with a warning. -->
<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" elementFormDefault="qualified">
  <xs:simpleType name="bool">
    <xs:restriction base="xs:string">
      <xs:enumeration value="true"/>
      <xs:enumeration value="false"/>
    </xs:restriction>
  </xs:simpleType>
"#;

/// The schema, XSD 1.0.
pub fn scenario_schema() -> String {
    let mut out = HEAD.to_owned();
    let elements: Vec<&str> = ELEMENTS.iter().map(|element| element.name).collect();
    let scenario = ElementRule {
        name: "scenario",
        about: "A scenario: the steps of one call, in order.",
        attributes: [SCENARIO, &[], &[]],
        children: &elements,
    };
    scenario.write(&mut out);
    let actions: Vec<&str> = ACTIONS.iter().map(|action| action.name).collect();
    for element in ELEMENTS {
        let children: &[&str] = match element.id {
            ElementName::Init => &["nop", "label"],
            _ if element.command => &["action"],
            _ => &[],
        };
        let common = if element.command { COMMON } else { &[] };
        let distributed = if element.id == ElementName::Pause { DISTRIBUTION_ATTRIBUTES } else { &[] };
        let attributes = [element.attributes, common, distributed];
        ElementRule { name: element.name, about: element.about, attributes, children }.write(&mut out);
    }
    let about = "Actions of the step, in order.";
    ElementRule { name: "action", about, attributes: [&[], &[], &[]], children: &actions }.write(&mut out);
    for action in ACTIONS {
        let distributed = if action.id == ActionName::Sample { DISTRIBUTION_ATTRIBUTES } else { &[] };
        let attributes = [action.attributes, &[], distributed];
        ElementRule { name: action.name, about: action.about, attributes, children: &[] }.write(&mut out);
    }
    out.push_str("</xs:schema>\n");
    out
}

/// One element of the schema.
struct ElementRule<'a> {
    name: &'a str,
    about: &'a str,
    attributes: [&'static [AttributeDoc]; 3],
    children: &'a [&'a str],
}

impl ElementRule<'_> {
    /// Text is allowed everywhere: messages are CDATA, and other text has no effect.
    fn write(&self, out: &mut String) {
        let _ = write!(out, "  <xs:element name=\"{}\">\n    ", self.name);
        documentation(out, self.about);
        out.push_str("    <xs:complexType mixed=\"true\">\n");
        if !self.children.is_empty() {
            out.push_str("      <xs:choice minOccurs=\"0\" maxOccurs=\"unbounded\">\n");
            for child in self.children {
                let _ = writeln!(out, "        <xs:element ref=\"{child}\"/>");
            }
            out.push_str("      </xs:choice>\n");
        }
        let mut written: Vec<&str> = Vec::new();
        for attribute in self.attributes.into_iter().flatten() {
            // `value` of a pause is its own and its distribution's.
            if !written.contains(&attribute.name) {
                written.push(attribute.name);
                write_attribute(out, attribute);
            }
        }
        out.push_str("    </xs:complexType>\n  </xs:element>\n");
    }
}

fn write_attribute(out: &mut String, attribute: &AttributeDoc) {
    let about = format!("{}: {}", attribute.value, attribute.about);
    let name = attribute.name;
    let Some(words) = fixed_words(attribute.value) else {
        let kind = if attribute.value == "bool" { "bool" } else { "xs:string" };
        let _ = write!(out, "      <xs:attribute name=\"{name}\" type=\"{kind}\">");
        documentation(out, &about);
        out.push_str("      </xs:attribute>\n");
        return;
    };
    let _ = write!(out, "      <xs:attribute name=\"{name}\">");
    documentation(out, &about);
    out.push_str("        <xs:simpleType><xs:restriction base=\"xs:string\">");
    for word in words {
        let _ = write!(out, "<xs:enumeration value=\"{word}\"/>");
    }
    out.push_str("</xs:restriction></xs:simpleType>\n      </xs:attribute>\n");
}

/// The words of a value that is one of several, written `true, false, global` in the tables.
fn fixed_words(value: &str) -> Option<Vec<&str>> {
    let words: Vec<&str> = value.split(", ").collect();
    let is_word = |word: &&str| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    (words.len() > 1 && words.iter().all(is_word)).then_some(words)
}

fn documentation(out: &mut String, about: &str) {
    let about = about.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('`', "");
    let _ = writeln!(out, "<xs:annotation><xs:documentation>{about}</xs:documentation></xs:annotation>");
}
