//! Any bytes give a scenario or mistakes, never a panic.

use proptest::prelude::*;

use super::super::builtin::{BUILT_IN_NAMES, built_in};
use super::super::compile::{compile_template, compile_text};
use super::super::model::Variables;
use super::super::xml::read;
use super::source;

/// Pieces that get deep into the compiler.
const PIECES: &[&str] = &[
    "<scenario>",
    "</scenario>",
    "<send>",
    "<send retrans='5'>",
    "</send>",
    "<![CDATA[",
    "]]>",
    "<recv request='A'/>",
    "<recv response='200' next='1'>",
    "</recv>",
    "<action>",
    "</action>",
    "<ereg regexp='(' assign_to='1'/>",
    "<label id='1'/>",
    "<pause/>",
    "<nop>",
    "</nop>",
    "<init>",
    "</init>",
    "<test compare='equal'/>",
    "INVITE sip:a SIP/2.0\n",
    "[field0 file=\"",
    "\"]",
    "[$",
    "[last_",
    "[authentication username=\"[",
    "]",
    "[",
    "\\x",
    "\\",
    "\n",
    " ",
    "<!--",
    "-->",
    "<!",
    "&#",
    ";",
    "=",
    "\"",
    "'",
    "“",
    "/>",
    "<sendCmd>",
    "<timewait/>",
    "é",
    "SIP/2.0 ",
    "+99999999999",
];

proptest! {
    #[test]
    fn on_any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
        let _ = compile_text(&bytes, source());
        let _ = compile_template(&bytes, &mut Variables::default());
    }

    #[test]
    fn on_pieces_of_the_language(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..60)) {
        let text = pieces.concat();
        let _ = compile_text(text.as_bytes(), source());
        let _ = compile_text(format!("<scenario>{text}</scenario>").as_bytes(), source());
        let _ = compile_template(text.as_bytes(), &mut Variables::default());
    }

    #[test]
    fn on_damaged_scenarios(which in 0..BUILT_IN_NAMES.len(), at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = built_in(BUILT_IN_NAMES[which]).expect("it is built in").as_bytes().to_vec();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let _ = compile_text(&bytes, source());
    }
}
