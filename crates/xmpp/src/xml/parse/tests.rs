use proptest::prelude::*;

use super::*;

fn read(text: &str) -> Result<Element, XmlError> {
    parse(text.as_bytes(), &Prefixes::of_default(ns::CLIENT))
}

#[test]
fn usual_names_are_found() {
    assert!(NAMES.is_sorted());
    assert!(NAMES.iter().all(|name| matches!(local_name(name), Name::Static(_))));
}

#[test]
fn line_ends_are_feeds_unless_they_are_written_as_numbers() {
    let element = read("<a b='1\r\n2'>x\r\ny\rz&#13;\n<![CDATA[c\r\nd]]></a>").unwrap();
    assert_eq!(element.content(), "x\ny\nz\r\nc\nd");
    assert_eq!(element.attr("b"), Some("1 2"));
    let bytes = element.to_bytes(ns::CLIENT);
    assert_eq!(read(&String::from_utf8(bytes).unwrap()), Ok(element));
}

#[test]
fn namespaces_are_resolved_and_declared_again_where_they_change() {
    let element = read(
        "<message to='a&amp;b' xml:lang='de'><body>1 &lt; 2 &#x263A;</body>\
         <x:y xmlns:x='urn:x' x:z='1'><q xmlns='urn:q'/><x:w/></x:y></message>",
    )
    .unwrap();
    assert!(element.is("message", ns::CLIENT));
    assert_eq!((element.attr("to"), element.lang()), (Some("a&b"), Some("de")));
    assert_eq!(element.content_of("body", ns::CLIENT).unwrap(), "1 < 2 ☺");
    let inner = element.get("y", "urn:x").unwrap();
    assert_eq!(inner.attr_ns("z", "urn:x"), Some("1"));
    assert!(inner.get("q", "urn:q").is_some() && inner.get("w", "urn:x").is_some());
    assert_eq!(
        String::from_utf8(element.to_bytes(ns::CLIENT)).unwrap(),
        "<message to='a&amp;b' xml:lang='de'><body>1 &lt; 2 ☺</body>\
         <y xmlns='urn:x' xmlns:n0='urn:x' n0:z='1'><q xmlns='urn:q'/><w/></y></message>"
    );
}

#[test]
fn mistakes_have_the_stream_errors_that_the_text_names() {
    for (text, condition) in [
        ("<a", "not-well-formed"),
        ("<a></b>", "not-well-formed"),
        ("<a x='1' x='2'/>", "not-well-formed"),
        ("<a x=1/>", "not-well-formed"),
        ("<a x='<'/>", "not-well-formed"),
        ("<a>&#0;</a>", "not-well-formed"),
        ("<a>\u{1}</a>", "not-well-formed"),
        ("<a>]]></a>", "not-well-formed"),
        ("<a:b:c/>", "not-well-formed"),
        ("<a xmlns:xml='urn:x'/>", "not-well-formed"),
        ("<a/><b/>", "not-well-formed"),
        ("<a>&nbsp;</a>", "restricted-xml"),
        ("<a><!-- x --></a>", "restricted-xml"),
        ("<x:a/>", "bad-namespace-prefix"),
        ("<a x:b='1'/>", "bad-namespace-prefix"),
    ] {
        assert_eq!(read(text).unwrap_err().condition(), condition, "{text}");
    }
    assert_eq!(parse(b"<a>\xFF</a>", &Prefixes::default()).unwrap_err().condition(), "unsupported-encoding");
    let deep = "<a>".repeat(limits::DEPTH + 1) + &"</a>".repeat(limits::DEPTH + 1);
    assert_eq!(read(&deep).unwrap_err().condition(), "policy-violation");
}

#[test]
fn a_prefix_of_the_stream_is_known_in_its_stanzas() {
    let header = b"<stream:stream xmlns='jabber:client' xmlns:stream='http://etherx.jabber.org/streams' xmlns:e='urn:e' to='x'>";
    let (header, prefixes) = parse_header(header).unwrap();
    assert!(header.is("stream", ns::STREAM));
    assert_eq!(prefixes.default_ns(), ns::CLIENT);
    assert!(parse(b"<e:x/>", &prefixes).unwrap().is("x", "urn:e"));
}

fn element() -> impl Strategy<Value = Element> {
    let text = "[ -~\u{a0}-\u{d7ff}]{0,12}";
    let leaf = (0..3_usize, text, text).prop_map(|(name, value, text)| {
        let (name, ns) = [("a", "urn:1"), ("b", "urn:2"), ("c", ns::CLIENT)][name];
        Element::new(name, ns).with("v", value).text(text)
    });
    leaf.prop_recursive(4, 20, 4, |inner| {
        (inner.clone(), prop::collection::vec(inner, 0..4))
            .prop_map(|(outer, children)| outer.children(children))
    })
}

proptest! {
    #[test]
    fn a_written_element_is_read_back_unchanged(element in element()) {
        let bytes = element.to_bytes(ns::CLIENT);
        prop_assert_eq!(parse(&bytes, &Prefixes::of_default(ns::CLIENT)).unwrap(), element);
    }

    #[test]
    fn no_bytes_make_it_panic(text in "[<>/a-c='\" &;:!\\[\\]x#]{0,60}") {
        let _ = read(&text);
    }
}

/// As an attacker writes it: prefixes with long namespaces, declared once and used often.
fn bomb(children: usize) -> String {
    let ns = "n".repeat(limits::NAMESPACE);
    format!("<message xmlns:p='{ns}'>{}</message>", "<p:a/>".repeat(children))
}

#[test]
fn a_namespace_is_kept_once_however_often_it_is_used() {
    let element = read(&bomb(10)).unwrap();
    let mut namespaces = element.elements().map(|child| child.ns().as_ptr());
    let first = namespaces.next();
    assert!(namespaces.all(|other| Some(other) == first));
}

#[test]
fn a_stanza_that_grows_when_it_is_written_is_refused() {
    assert_eq!(
        read(&bomb(10_000)).unwrap_err(),
        XmlError::TooLarge("a stanza that grows when it is written")
    );
    let ns = "n".repeat(limits::NAMESPACE);
    let attributes = format!("<message xmlns:p='{ns}'>{}</message>", "<a p:b=''/>".repeat(8_000));
    assert_eq!(read(&attributes).unwrap_err().condition(), "policy-violation");
    let data = format!("<message><body><![CDATA[{}]]></body></message>", "&".repeat(100_000));
    assert_eq!(read(&data).unwrap_err().condition(), "policy-violation");
}

#[test]
fn a_stanza_that_grows_when_it_is_read_is_refused() {
    let dense = |count: usize| format!("<message>{}</message>", "<b/>".repeat(count));
    assert!(read(&dense(500)).is_ok());
    assert_eq!(read(&dense(8_000)).unwrap_err(), XmlError::TooLarge("a stanza that grows when it is read"));
    let stranger = parse_within(dense(300).as_bytes(), &Prefixes::default(), Budget::BEFORE_AUTH);
    assert_eq!(stranger.unwrap_err().condition(), "policy-violation");
}

#[test]
fn namespaces_are_bounded_in_length_and_number() {
    let long = format!("<a xmlns='{}'/>", "n".repeat(limits::NAMESPACE + 1));
    assert_eq!(read(&long).unwrap_err().condition(), "policy-violation");
    let many =
        |count: usize| -> String { (0..count).map(|number| format!(" xmlns:p{number}='urn:x'")).collect() };
    assert!(read(&format!("<a{}/>", many(limits::DECLARATIONS))).is_ok());
    assert_eq!(
        read(&format!("<a{}/>", many(limits::DECLARATIONS + 1))).unwrap_err().condition(),
        "policy-violation"
    );
    // Those of the elements around it are compared with every name, too.
    let around = format!("<a{}>", many(limits::DECLARATIONS)) + "<b xmlns:q='urn:y'/></a>";
    assert_eq!(read(&around).unwrap_err().condition(), "policy-violation");
    assert_eq!(read("<a xmlns:p='urn:x' xmlns:p='urn:y'/>").unwrap_err().condition(), "not-well-formed");
}

#[test]
fn text_is_written_as_it_was_said() {
    let said = "it's \"so\" > that ]> ]]&gt; 1 &lt; 2 &amp; more";
    let element = read(&format!("<body a=\"it's\" b='say \"so\"' c='&apos;\"\"&#9;'>{said}</body>")).unwrap();
    let bytes = String::from_utf8(element.to_bytes(ns::CLIENT)).unwrap();
    assert_eq!(bytes, format!("<body a=\"it's\" b='say \"so\"' c='&#39;\"\"&#9;'>{said}</body>"));
}

/// Texts of other protocols, as the Call-ID and From of a call, come into stanzas: a client could not read its stream further.
#[test]
fn characters_that_xml_excludes_are_written_as_replacement_characters() {
    let excluded = "\0\u{1}\u{8}\u{b}\u{c}\u{e}\u{1f}\u{fffe}\u{ffff}";
    let kept = "\t\n\r \u{7f}\u{80}\u{d7ff}\u{e000}\u{fffd}\u{ffbe}\u{1fffe}\u{10ffff}";
    let element = Element::new("call", ns::CLIENT)
        .with("id", format!("{excluded}{kept}"))
        .text(format!("{kept}{excluded}"));
    let bytes = element.to_bytes(ns::CLIENT);
    assert_eq!(element.written_len(ns::CLIENT), bytes.len());
    let read = read(&String::from_utf8(bytes).unwrap()).unwrap();
    let replaced = "\u{fffd}".repeat(9);
    assert_eq!(read.attr("id"), Some(&*format!("{replaced}{kept}")));
    assert_eq!(read.content(), format!("{kept}{replaced}"));
    assert_eq!(crate::xml::escape(&format!("<{excluded}")), format!("&lt;{replaced}"));
}

/// Stanzas of the characters that are escaped, in texts and values of both kinds, and CDATA.
fn escapes() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "'", "\"", "&gt;", ">", "]", "&lt;", "&amp;", "&apos;", "&quot;", "&#34;", "&#x27;", "&#13;", "&#9;",
        "a", "\n", "\t",
    ]);
    let text = prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat());
    let data = "[&<>'\"a]{0,10}";
    (text.clone(), text.clone(), text, data, "[a-c]{1,3}").prop_map(|(one, two, text, data, name)| {
        let (one, two) = (one.replace('\'', "&apos;"), two.replace('"', "&quot;"));
        let text = text.replace("]]>", "]]");
        format!(
            "<{name} xmlns:p='urn:p' xmlns:q='urn:&amp;' one='{one}' p:two=\"{two}\" q:x='' p:y='' xml:lang='de'>\
             {text}<![CDATA[{data}]]><p:x/><x/></{name}>"
        )
    })
}

proptest! {
    #[test]
    fn any_text_is_written_as_xml(text in prop::collection::vec(any::<char>(), 0..20)) {
        let text: String = text.into_iter().collect();
        let element = Element::new("a", ns::CLIENT).with("b", text.clone()).text(text);
        let bytes = element.to_bytes(ns::CLIENT);
        prop_assert_eq!(element.written_len(ns::CLIENT), bytes.len());
        prop_assert!(read(&String::from_utf8(bytes).unwrap()).is_ok());
    }

    #[test]
    fn the_measured_size_is_the_written_size(text in escapes()) {
        let Ok(measured) = parse_within(text.as_bytes(), &Prefixes::of_default(ns::CLIENT), Budget::STANZA) else {
            return Ok(());
        };
        let bytes = measured.element.to_bytes(ns::CLIENT);
        prop_assert_eq!(measured.written, bytes.len());
        prop_assert_eq!(measured.element.written_len(ns::CLIENT), bytes.len());
        prop_assert_eq!(read(&String::from_utf8(bytes).unwrap()).unwrap(), measured.element);
    }

    #[test]
    fn a_stanza_is_written_in_a_small_multiple_of_the_bytes_it_came_in(text in escapes(), times in 1..60_usize) {
        let text = format!("<message>{}</message>", text.repeat(times));
        if let Ok(element) = read(&text) {
            let most = limits::WRITTEN_PER_BYTE * text.len() + limits::WRITTEN_PER_STANZA;
            prop_assert!(element.to_bytes(ns::CLIENT).len() <= most);
        }
    }

    #[test]
    fn an_element_without_prefixes_and_cdata_does_not_grow_when_it_is_written(
        text in escapes().prop_filter_map("a text", |text| Some(text.split_once(" q:x=")?.0.split_once(" one=")?.1.to_owned()))
    ) {
        let value = text.replace(" p:two=", " two=");
        let text = format!("<message one={value}/>");
        if let Ok(element) = read(&text) {
            prop_assert!(element.to_bytes(ns::CLIENT).len() <= text.len(), "{}", text);
        }
    }
}

#[test]
fn a_stanza_accepted_from_a_client_fits_the_limits_of_another_server() {
    let nested = |depth: usize| {
        let pair = "<p:a p:x=''><q:b q:x=''>".repeat(depth / 2);
        let end = "</q:b></p:a>".repeat(depth / 2);
        format!("<message xmlns:p='urn:p' xmlns:q='urn:q'>{pair}{end}</message>")
    };
    // As it is written each level declares its namespaces again.
    assert!(read(&nested(20)).is_ok());
    assert_eq!(read(&nested(40)).unwrap_err(), XmlError::TooLarge("too many namespaces declared"));
    // White space and long entities are not written on.
    let padded = format!("<message>{}</message>", format!("<b{}/>", " ".repeat(20)).repeat(4_000));
    assert_eq!(read(&padded).unwrap_err(), XmlError::TooLarge("a stanza that grows when it is read"));
    let attributes: String = (0..60).map(|number| format!(" a{number}=''")).collect();
    let message = format!("<message{attributes}/>");
    assert!(read(&message).is_ok());
    assert!(
        parse_within(message.as_bytes(), &Prefixes::default(), Budget::CLIENT).is_err(),
        "`from` has to fit"
    );
}

proptest! {
    #[test]
    fn an_accepted_stanza_is_accepted_again_as_it_is_written(text in escapes(), times in 1..60_usize, pad in 0..30_usize) {
        let text = text.replace(" xmlns", &(" ".repeat(pad + 1) + "xmlns"));
        let text = format!("<message>{}</message>", text.repeat(times));
        let prefixes = Prefixes::of_default(ns::CLIENT);
        if let Ok(measured) = parse_within(text.as_bytes(), &prefixes, Budget::CLIENT) {
            let bytes = measured.element.to_bytes(ns::CLIENT);
            prop_assert_eq!(parse_within(&bytes, &prefixes, Budget::STANZA).map(|again| again.element), Ok(measured.element));
        }
    }
}
