//! `[xmpp]`: chat and the phones of the same accounts.
//! Only one key: the rules of it are in `chat::phones`, which decides for each message.

use chat::phones::TextsToPhones;
use toml::de::DeValue;

use super::reader::Section;
use super::value::Value;

impl Value for TextsToPhones {
    const EXPECTED: &'static str = "\"absent\", \"always\" or \"never\"";

    fn read(value: &DeValue<'_>) -> Option<Self> {
        match value.as_str()? {
            "absent" => Some(TextsToPhones::Absent),
            "always" => Some(TextsToPhones::Always),
            "never" => Some(TextsToPhones::Never),
            _ => None,
        }
    }

    fn show(&self) -> String {
        let text = match self {
            TextsToPhones::Absent => "absent",
            TextsToPhones::Always => "always",
            TextsToPhones::Never => "never",
        };
        format!("\"{text}\"")
    }
}

/// By default a text reaches a phone only if no client of the account takes it, so that nothing is shown twice.
pub(super) fn read_texts(section: &mut Section<'_, '_>) -> TextsToPhones {
    section.key(
        "texts_to_phones",
        TextsToPhones::Absent,
        "Which chat messages go to the phones of their account, too: those that no client takes (`absent`), all (`always`), or none (`never`).",
    )
}
