//! Sources of type `http`.

use external_auth::{BodyForm, HttpSettings};

use super::{Fault, SourceKeys, fault};

impl SourceKeys<'_> {
    /// A service that is asked for each sign-in.
    pub(super) fn http(&self) -> Result<HttpSettings, Fault> {
        let url = self.http_url("url")?.ok_or_else(|| fault("no `url`", "an https: URL"))?;
        let form = match self.get::<Box<str>>("body")?.as_deref() {
            None | Some("form") => BodyForm::Form,
            Some("json") => BodyForm::Json,
            Some(other) => return Err(fault(format!("`body` is {other:?}"), "\"form\" or \"json\"")),
        };
        let (token_file, authorities) = (self.file("token_file")?, self.file("ca")?);
        Ok(HttpSettings { url, form, token_file, authorities })
    }
}
