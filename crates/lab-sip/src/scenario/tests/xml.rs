//! Mistakes that the reader forgives, and those that it reports.

use super::super::xml::{Element, read};

fn root(text: &str) -> Element {
    read(text.as_bytes()).expect("it reads").root
}

fn fails(text: &str) -> String {
    let mistake = read(text.as_bytes()).expect_err("it does not read");
    format!("{}: {}", mistake.line, mistake.message)
}

fn attribute(text: &str) -> String {
    String::from_utf8_lossy(&root(text).attributes[0].value).into_owned()
}

#[test]
fn elements_know_their_lines() {
    let element = root("<?xml version='1.0'?>\n<a>\n <b/>\n\n <c x='1'\n y='2'>\n</c></a>");
    assert_eq!((element.line, element.children[0].line, element.children[1].line), (2, 3, 5));
    assert_eq!(element.children[1].attributes[1].line, 6);
}

#[test]
fn a_prolog_is_not_needed() {
    assert_eq!(root("<a/>").name, "a");
    assert_eq!(root("\u{feff}<a/>").name, "a");
}

#[test]
fn doctype_is_skipped_wherever_it_stands() {
    assert_eq!(root("<!DOCTYPE scenario SYSTEM \"sipp.dtd\">\n<a/>").line, 2);
    assert_eq!(root("<!DOCTYPE a [ <!ENTITY x \"y\"> <!ELEMENT a ANY> ]>\n<a><b/></a>").children.len(), 1);
    assert_eq!(root("<a><!DOCTYPE a><b/></a>").children[0].name, "b");
}

#[test]
fn odd_comments_end_at_the_first_end() {
    assert_eq!(root("<a><!-- one -- two -- --><b/></a>").children.len(), 1);
    assert_eq!(root("<a><!------><b/></a>").children.len(), 1);
    assert_eq!(root("<a><!--><b/></a>").children.len(), 1);
    assert_eq!(root("<!-- <a> --><b/>").name, "b");
    assert_eq!(root("<a x='1' <!-- why --> y='2'/>").attributes.len(), 2);
}

#[test]
fn quotes_may_be_single_or_double_and_names_spaced() {
    assert_eq!(attribute("<a x = 'it\"s' />"), "it\"s");
    assert_eq!(attribute("<a x=\"it's\"/>"), "it's");
}

#[test]
fn backslashes_and_entities_in_values() {
    assert_eq!(attribute(r#"<a x="a\"b\\c\nd\te\.f"/>"#), "a\"b\\c\nd\te\\.f");
    assert_eq!(attribute("<a x='&lt;&gt;&amp;&quot;&apos;&#65;&#x42;'/>"), "<>&\"'AB");
    assert_eq!(attribute("<a x='a&b &c; &nbsp; &#xZ; &'/>"), "a&b &c; &nbsp; &#xZ; &");
}

#[test]
fn cdata_is_kept_as_it_is() {
    let element = root("<a>\n<![CDATA[ <b> &lt; ]] > ]]></a>");
    let chunk = element.cdata.expect("it has one");
    assert_eq!((chunk.bytes.as_slice(), chunk.line), (b" <b> &lt; ]] > ".as_slice(), 2));
}

#[test]
fn latin_1_bytes_stay() {
    let element = read(b"<a x='caf\xe9'><![CDATA[\xe9]]></a>").expect("it reads").root;
    assert_eq!(element.attributes[0].value, b"caf\xe9");
    assert_eq!(element.cdata.expect("it has one").bytes, b"\xe9");
}

#[test]
fn carriage_returns_go() {
    let element = root("<a>\r\n<![CDATA[x\r\ny]]>\r\n</a>");
    assert_eq!(element.cdata.expect("it has one").bytes, b"x\ny");
}

#[test]
fn a_second_root_is_noticed() {
    let document = read(b"<a/>\n<b/>").expect("it reads");
    assert_eq!(document.second_root, Some(2));
}

#[test]
fn only_the_root_may_lack_its_end() {
    let document = read(b"<a>\n<b/>\n<c></c>\n").expect("it reads");
    assert!(document.root_is_open);
    assert_eq!(document.root.children.len(), 2);
    assert!(read(b"<a>\n<b/>\n</a\n").expect("it reads").root_is_open);
    assert!(!read(b"<a/>").expect("it reads").root_is_open);
    assert_eq!(fails("<a>\n<b/>\n</b\n"), "3: </b is never closed: expected `>`");
}

#[test]
fn xml_beyond_repair_is_refused_with_a_reason() {
    assert_eq!(fails("<a>\n<b>\n"), "2: <b> is never closed: expected </b> before the end of the file");
    assert_eq!(
        fails("<a>\n<b></a>"),
        "2: </a> where </b> was expected, to close the element opened in line 2"
    );
    assert_eq!(fails("</a>"), "1: </a> closes nothing: no element is open here");
    assert_eq!(fails("<a\n"), "1: <a is never closed: expected `>` or `/>`");
    assert_eq!(fails("<a\n<b/>"), "1: <a is never closed: expected `>` or `/>`");
    assert_eq!(fails("<a>\n<!-- "), "2: `<!--` is never closed: expected `-->`");
    assert_eq!(fails("<a>\n<![CDATA[ x"), "2: `<![CDATA[` is never closed: expected `]]>`");
    assert_eq!(fails("<a>\n<!–- x -->"), "2: `<!` with a typographic dash: expected `<!--` (two hyphens)");
    assert_eq!(
        fails("<a>\n<b x=“1”/></a>"),
        "2: x= in <b> has a typographic quote, as copied from a web page: expected \" or '"
    );
    assert_eq!(fails("<a x=1/>"), "1: x= in <a> has no quoted value: expected \" or '");
    assert_eq!(fails("<a\n x=\"1/>"), "2: the value of x= in <a> is never closed: expected \"");
    assert_eq!(
        fails("<a> < b</a>"),
        "1: a `<` that begins no tag: expected a name after it, or `&lt;` for the character"
    );
    assert_eq!(fails("just text"), "1: no element at all: expected <scenario>");
    assert_eq!(fails(&"<a>".repeat(40)), "1: more than 32 elements inside each other");
}

#[test]
fn windows_1252_quotes_are_typographic_too() {
    let mistake = read(b"<a x=\x931\x94/>").expect_err("no quotes");
    assert!(mistake.message.contains("typographic quote"), "{}", mistake.message);
}
