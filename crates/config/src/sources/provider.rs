//! `provider` of a source of tokens: the OpenID provider to which the console's page sends users.

use std::time::Duration;

use external_auth::ProviderSettings;

use super::{DAY, Fault, MINUTE, SourceKeys, fault};

/// Keys of `provider`.
pub(super) const PROVIDER: [&str; 6] =
    ["client_id", "client_secret_file", "scopes", "label", "session", "app_client_id"];
/// Scopes, at most.
const SCOPES: usize = 16;
/// Characters of a provider's name on the page: one line of a button.
const LABEL: usize = 64;

/// The provider. Its addresses come from the issuer (OpenID Connect Discovery 1.0 §4).
pub(super) fn read(source: &SourceKeys<'_>) -> Result<Option<ProviderSettings>, Fault> {
    let provider = source.table_of("provider", &PROVIDER, read_provider)?;
    if provider.is_some() {
        // The same rule as for URLs that are asked: the document there says where codes and the secret go.
        let expected = "an https: URL: the provider of `provider` is found by it";
        source.http_url("issuer").map_err(|(what, _)| fault(what, expected))?;
    }
    Ok(provider)
}

fn read_provider(keys: &SourceKeys<'_>) -> Result<ProviderSettings, Fault> {
    let client_id = keys.needed::<Box<str>>("client_id")?;
    let label = keys.get::<Box<str>>("label")?.unwrap_or_else(|| "single sign-on".into());
    if client_id.trim().is_empty() || label.trim().is_empty() || label.chars().count() > LABEL {
        let expected = format!("texts, `label` of at most {LABEL} characters");
        return Err(fault("`client_id` or `label` is empty or too long", expected));
    }
    let app_client_id = keys.get::<Box<str>>("app_client_id")?;
    if app_client_id.as_deref().is_some_and(|id| id.trim().is_empty()) {
        return Err(fault(
            "`app_client_id` is empty",
            "the name of the users' page at the provider, or no such line",
        ));
    }
    let mut scopes = keys.names("scopes")?;
    // RFC 6749 §3.3: words of visible characters.
    let is_scope = |scope: &str| {
        !scope.is_empty() && scope.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte))
    };
    if scopes.len() > SCOPES || !scopes.iter().all(|scope| is_scope(scope)) {
        return Err(fault("`scopes` cannot be used", format!("at most {SCOPES} scopes, as \"profile\"")));
    }
    // Without it the provider gives no ID token (OpenID Connect Core 1.0 §3.1.2.1).
    if !scopes.iter().any(|scope| &**scope == "openid") {
        scopes.insert(0, "openid".into());
    }
    Ok(ProviderSettings {
        client_id,
        client_secret_file: keys.file("client_secret_file")?,
        scopes,
        label,
        session: keys.duration("session", Duration::from_hours(1), (MINUTE, DAY))?,
        app_client_id,
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use external_auth::{SourceKind, SourceSettings};

    use super::*;
    use crate::Config;

    fn read(issuer: &str, more: &str) -> Result<SourceSettings, String> {
        let text = format!(
            "[[accounts.sources]]\ndomain = \"a.test\"\ntype = \"jwt\"\nkeys_file = \"k\"\nissuer = \"{issuer}\"\n\
             audience = \"belfry\"\n{more}\n"
        );
        let config = Config::parse(&text, Path::new("belfry.toml"));
        config.map(|mut config| config.accounts.sources.remove(0)).map_err(|error| error.to_string())
    }

    const ISSUER: &str = "https://id.example.com";

    #[test]
    fn a_provider_is_read_with_its_secret_and_its_scopes() {
        let mut source = read(ISSUER, "provider = { client_id = \"console\", scopes = [\"profile\", \"groups\"], client_secret_file = \"s\", label = \"Example\", session = \"10m\" }").unwrap();
        let files: Vec<_> = source.kind.files().map(|file| file.display().to_string()).collect();
        assert_eq!(files, ["k", "s"]);
        let provider = source.provider().unwrap();
        let scopes: Vec<&str> = provider.scopes.iter().map(|scope| &**scope).collect();
        assert_eq!((&*provider.client_id, scopes), ("console", vec!["openid", "profile", "groups"]));
        assert_eq!((&*provider.label, provider.session), ("Example", 10 * MINUTE));
        let source = read("http://127.0.0.1:8080/realm", "provider = { client_id = \"console\" }").unwrap();
        let provider = source.provider().unwrap();
        assert_eq!((&*provider.label, provider.session), ("single sign-on", 60 * MINUTE));
        assert_eq!((provider.scopes.len(), provider.client_secret_file.is_none()), (1, true));
        assert_eq!(provider.app_client_id, None, "the users' page does not send users to it");
        let source =
            read(ISSUER, "provider = { client_id = \"console\", app_client_id = \"page\" }").unwrap();
        assert_eq!(source.provider().unwrap().app_client_id.as_deref(), Some("page"));
        let configuration = source.openid_configuration().unwrap();
        assert!(configuration.ends_with("/.well-known/openid-configuration"), "{configuration}");
        assert!(read("i", "").unwrap().provider().is_none(), "without one an issuer is any text");
    }

    #[test]
    fn mistakes_of_a_provider_are_named() {
        let many = format!("provider = {{ client_id = \"c\", scopes = [{}] }}", "\"a\",".repeat(17));
        for (issuer, provider, mistake) in [
            (ISSUER, "provider = {}", "`provider`: no `client_id`"),
            (ISSUER, "provider = { client_id = \" \" }", "`client_id` or `label` is empty"),
            (ISSUER, "provider = { client_id = \"c\", scopes = [\"a b\"] }", "`scopes` cannot be used"),
            (ISSUER, &many, "`scopes` cannot be used"),
            (ISSUER, "provider = { client_id = \"c\", app_client_id = \" \" }", "`app_client_id` is empty"),
            (ISSUER, "provider = { client_id = \"c\", session = \"10s\" }", "`session` is"),
            (
                ISSUER,
                "provider = { client_id = \"c\", secret = \"hush\" }",
                "unknown key `secret` of `provider`",
            ),
            ("i", "provider = { client_id = \"c\" }", "`issuer` is no URL"),
            ("http://id.example.com", "provider = { client_id = \"c\" }", "`issuer` is without TLS"),
        ] {
            let error = read(issuer, provider).unwrap_err();
            assert!(error.contains(mistake) && !error.contains("hush"), "{mistake}: {error}");
        }
    }

    #[test]
    fn a_claim_that_names_accounts_of_rest_is_read() {
        let SourceKind::Jwt(jwt) = read("i", "account_claim = \"belfry_account\"").unwrap().kind else {
            panic!("a source of tokens")
        };
        assert_eq!(jwt.account_claim.as_deref(), Some("belfry_account"));
        assert!(read("i", "account_claim = \" \"").unwrap_err().contains("`account_claim` is empty"));
    }
}
