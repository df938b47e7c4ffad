//! The words of the language, for tests that each of them is used.

use super::lexicon::{ACTIONS, COMMON, ELEMENTS, KEYWORDS, SCENARIO};

/// The kind of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WordKind {
    /// An element that is a step, such as `<send>`.
    Element,
    /// An element inside `<action>`.
    Action,
    /// An attribute of an element.
    Attribute,
    /// A `[keyword]` of a message.
    Keyword,
}

/// A word of the scenario language.
#[derive(Debug, Clone, Copy)]
pub struct LanguageWord {
    /// The kind of the word.
    pub kind: WordKind,
    /// The element or action of an attribute; empty for attributes that every command has.
    pub of: &'static str,
    /// Keywords are without brackets.
    pub name: &'static str,
}

/// Every word of the tables that scenarios are compiled with.
pub fn words() -> Vec<LanguageWord> {
    let mut words = Vec::new();
    let mut attributes = |of, list: &[super::lexicon::AttributeDoc]| {
        words.extend(list.iter().map(|attribute| LanguageWord {
            kind: WordKind::Attribute,
            of,
            name: attribute.name,
        }));
    };
    attributes("scenario", SCENARIO);
    attributes("", COMMON);
    for element in ELEMENTS {
        attributes(element.name, element.attributes);
    }
    for action in ACTIONS {
        attributes(action.name, action.attributes);
    }
    words.extend(ELEMENTS.iter().map(|element| LanguageWord {
        kind: WordKind::Element,
        of: "",
        name: element.name,
    }));
    words.extend(ACTIONS.iter().map(|action| LanguageWord {
        kind: WordKind::Action,
        of: "",
        name: action.name,
    }));
    words.extend(KEYWORDS.iter().map(|keyword| LanguageWord {
        kind: WordKind::Keyword,
        of: "",
        name: keyword.name,
    }));
    words
}
