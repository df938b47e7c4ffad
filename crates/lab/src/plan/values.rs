//! `{name}` in plans: settings, the target, the folder of the plan's files.

use std::collections::BTreeMap;

/// Names and their values.
#[derive(Debug, Clone, Default)]
pub struct PlanValues(BTreeMap<String, String>);

impl PlanValues {
    /// Sets the value of a name.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    /// The value of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Replaces each `{name}`; a brace that opens no name (`{` of JSON, `{2}`) stays as it is. A name that is not
    /// known is a mistake, because it is nearly always misspelt.
    pub fn fill(&self, text: &str) -> Result<String, String> {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            out.push_str(&rest[..open]);
            rest = &rest[open..];
            // A lone brace is text.
            let Some(name) = name_at(rest) else {
                out.push('{');
                rest = &rest[1..];
                continue;
            };
            let value = self.get(name).ok_or_else(|| {
                let known: Vec<&str> = self.0.keys().map(String::as_str).collect();
                format!("{{{name}}} is not set: expected one of {}", known.join(", "))
            })?;
            out.push_str(value);
            rest = &rest[name.len() + 2..];
        }
        out.push_str(rest);
        Ok(out)
    }
}

/// The name of `{name}` at the start of the text.
fn name_at(text: &str) -> Option<&str> {
    let name = text.strip_prefix('{')?.split_once('}')?.0;
    let first = name.bytes().next()?;
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (first.is_ascii_alphabetic() && name.bytes().all(plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_and_other_braces_stay() {
        let mut values = PlanValues::default();
        values.set("accounts", "1000");
        values.set("n", "7");
        assert_eq!(values.fill("user{n} of {accounts}").as_deref(), Ok("user7 of 1000"));
        assert_eq!(values.fill("a{2}{}{ x").as_deref(), Ok("a{2}{}{ x"));
        let error = values.fill("{acounts}").expect_err("misspelt");
        assert!(error.contains("expected one of accounts, n"), "{error}");
    }
}
