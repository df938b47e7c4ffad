//! Templates as they are written: literal text and `[keywords]`.

use std::mem::discriminant;

use super::super::lexicon::{KEYWORDS, KeywordForm};
use super::super::model::{Scope, VarRef, Variables};
use super::super::template::{Keyword, Template, TemplatePart};
use super::super::xml;

/// The most characters of a text that one line of an explanation shows.
const SHOWN: usize = 100;

/// The whole template on one line, shortened.
pub(super) fn shown(template: &Template, variables: &Variables) -> String {
    shortened(&written(template, variables).replace("\r\n", " "))
}

/// The first line of a message.
pub(super) fn first_line(template: &Template, variables: &Variables) -> String {
    let text = written(template, variables);
    shortened(text.lines().next().unwrap_or_default())
}

/// Counts characters, not bytes, so that none is cut in two.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{}…", &text[..cut]),
        None => text.to_owned(),
    }
}

/// The template as its author wrote it, but without the line of a field and the parameters of `[authentication]` and `[fill]`.
fn written(template: &Template, variables: &Variables) -> String {
    let part = |part: &TemplatePart| match part {
        TemplatePart::Text(text) => xml::text(text),
        TemplatePart::Keyword(keyword) => format!("[{}]", keyword_text(keyword, variables)),
    };
    template.parts.iter().map(part).collect()
}

/// The name of a variable.
pub(super) fn variable(variables: &Variables, of: VarRef) -> String {
    let names = match of.scope {
        Scope::Call => &variables.call,
        Scope::User => &variables.user,
        Scope::Global => &variables.global,
    };
    names.get(usize::from(of.slot)).map_or_else(|| "$?".to_owned(), |name| format!("${name}"))
}

/// A keyword without its brackets.
pub(super) fn keyword_text(keyword: &Keyword, variables: &Variables) -> String {
    match keyword {
        Keyword::Last(name) => format!("last_{name}"),
        Keyword::LastValue(name) => format!("last_{name}.value"),
        Keyword::Field { field, file, .. } => match file {
            Some(file) => format!("field{field} file=\"{file}\""),
            None => format!("field{field}"),
        },
        Keyword::File(name) => format!("file name=\"{}\"", written(name, variables)),
        Keyword::Var(of) => variable(variables, *of),
        Keyword::Fill { variable: of, .. } => format!("fill variable={}", variable(variables, *of)),
        Keyword::Authentication(_) => "authentication".to_owned(),
        Keyword::Crypto(name) | Keyword::Key(name) => name.to_string(),
        plain => named(plain),
    }
}

/// Keywords with a fixed name, which the compiler's table has.
fn named(keyword: &Keyword) -> String {
    let known = KEYWORDS.iter().find(|doc| match doc.form {
        KeywordForm::Plain(make) => make() == *keyword,
        KeywordForm::Offset(make) => discriminant(&make(0)) == discriminant(keyword),
        KeywordForm::Crypto | KeywordForm::Parametric => false,
    });
    let name = known.map_or("?", |doc| doc.name);
    match offset(keyword) {
        0 => name.to_owned(),
        offset => format!("{name}{offset:+}"),
    }
}

/// The `+N` or `-N` of keywords that take one.
fn offset(keyword: &Keyword) -> i32 {
    match keyword {
        Keyword::RemotePort(offset)
        | Keyword::LocalPort(offset)
        | Keyword::MediaPort(offset)
        | Keyword::AutoMediaPort(offset)
        | Keyword::RtpStreamAudioPort(offset)
        | Keyword::RtpStreamVideoPort(offset)
        | Keyword::CallNumber(offset)
        | Keyword::DynamicId(offset)
        | Keyword::Cseq(offset)
        | Keyword::Branch(offset)
        | Keyword::Len(offset)
        | Keyword::LastCseqNumber(offset) => *offset,
        _ => 0,
    }
}
