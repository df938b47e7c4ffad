//! The reference page of the language, made of the tables that the compiler reads with.

use std::fmt::Write;

use super::builtin::BUILT_IN_NAMES;
use super::lexicon::{
    ACTIONS, AttributeDoc, COMMON, DISTRIBUTIONS, ELEMENTS, KEYWORDS, KeywordForm, SCENARIO,
};

/// The beginning of the reference page.
const INTRODUCTION: &str = "\
# Ringer's scenarios

This page is made by the code that compiles scenarios; `BLESS=1 cargo test -p lab-sip` writes it anew.

Ringer reads SIPp's scenario files as they are. What SIPp forgives is forgiven: attributes that mean nothing are
ignored (with a warning), so are carriage returns, DOCTYPE and text between elements; the bytes may be UTF-8 or ISO-8859-1.
`ringer sip --check -sf FILE` compiles a file and reports every mistake with its line, without a call.

In attributes `\\\"`, `\\\\`, `\\n`, `\\t`, `\\r` and XML's entities are understood. A *bool* is `true` or `false`.
A *template* is text with keywords. In templates and messages `\\xNN` is the byte NN.
A message loses the blanks around its line ends, which become CRLF, and gets an empty line at its end if it has none.
";

/// The text of the reference page between actions and keywords.
const AFTER_ACTIONS: &str = "
`<rtpcheck>` is not SIPp's: SIPp stops at it. Everything else on this page is.

```xml
<nop><action>
  <rtpcheck min_packets=\"50\" max_loss=\"1\" min_mos=\"4\" dtmf=\"5\" speech=\"1000\" two_way=\"true\"/>
</action></nop>
```
";

/// Markdown.
pub fn reference_page() -> String {
    let mut page = INTRODUCTION.to_owned();
    section(&mut page, "## `<scenario>`", "", SCENARIO);
    for element in ELEMENTS {
        section(&mut page, &format!("### `<{}>`", element.name), element.about, element.attributes);
    }
    section(
        &mut page,
        "## Attributes of every command",
        "Of `send`, `recv`, `pause`, `timewait`, `nop`, `sendCmd` and `recvCmd`, which may also begin with an `<action>`.",
        COMMON,
    );
    page.push_str("\n## Distributions\n\nOf `<pause>` (in milliseconds) and `<sample>`.\n\n| Name | Attributes |\n|---|---|\n");
    for distribution in DISTRIBUTIONS {
        line(&mut page, &[&code(distribution.name), &distribution.parameters.map_codes()]);
    }
    page.push_str("\n## Actions\n");
    for action in ACTIONS {
        section(&mut page, &format!("### `<{}>` (action)", action.name), action.about, action.attributes);
    }
    page.push_str(AFTER_ACTIONS);
    keywords(&mut page);
    let names: Vec<String> = BUILT_IN_NAMES.iter().map(|name| code(name)).collect();
    let _ = write!(
        page,
        "\n## Scenarios that come with Ringer\n\n`-sn` runs and `-sd` prints {}.\n",
        names.join(", ")
    );
    page
}

fn section(page: &mut String, heading: &str, about: &str, attributes: &[AttributeDoc]) {
    let _ = writeln!(page, "\n{heading}");
    if !about.is_empty() {
        let _ = writeln!(page, "\n{about}");
    }
    if attributes.is_empty() {
        return;
    }
    page.push_str("\n| Attribute | Value | Meaning |\n|---|---|---|\n");
    for attribute in attributes {
        line(page, &[&code(attribute.name), attribute.value, attribute.about]);
    }
}

fn keywords(page: &mut String) {
    page.push_str(
        "\n## Keywords\n\nIn brackets. ± marks those that take an offset: `[cseq+1]`, `[branch-3]`. Any other word in brackets is \
         looked up among `-key NAME VALUE`;\ntext that cannot be a name (`[::1]`, `[0-9]`) stays as it is; `\\x5B` is a bracket.\n\n\
         | Keyword | | Meaning |\n|---|---|---|\n",
    );
    for keyword in KEYWORDS {
        let offset = if matches!(keyword.form, KeywordForm::Offset(_)) { "±" } else { "" };
        line(page, &[&code(&format!("[{}]", keyword.name)), offset, keyword.about]);
    }
}

fn line(page: &mut String, cells: &[&str]) {
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn code(text: &str) -> String {
    format!("`{text}`")
}

trait MapCodes {
    fn map_codes(&self) -> String;
}

impl MapCodes for &[&str] {
    fn map_codes(&self) -> String {
        self.iter().map(|name| code(name)).collect::<Vec<_>>().join(", ")
    }
}
