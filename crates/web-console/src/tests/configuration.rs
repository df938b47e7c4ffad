//! The configuration as the console shows and checks it.

use control::{ConfigKey, ConfigReport};

use super::*;

/// The node's answer: one mistake, and one key, which is a secret.
pub(super) fn report() -> ConfigReport {
    let key = ConfigKey {
        section: "hep".into(),
        name: "password".into(),
        value: Some("\"***\"".into()),
        default: None,
    };
    ConfigReport { mistakes: vec!["1:2: wrong".into()], keys: vec![key], ..ConfigReport::default() }
}

/// The configuration has addresses and names that no one but an admin needs; a check is no reload.
#[tokio::test]
async fn the_configuration_is_shown_to_an_admin_and_checked_without_a_reload() {
    let mut world = world();
    let (operator, admin) = (world.sign_in("op").await, world.sign_in("root").await);
    for (method, path) in [("GET", "/configuration"), ("POST", "/configuration/check")] {
        let refused = world.ask(&operator, method, path, None).await;
        assert_eq!(refused.status, StatusCode::FORBIDDEN, "{path}");
    }
    let shown = world.ask(&admin, "GET", "/configuration", None).await;
    let key = json!({ "section": "hep", "name": "password", "value": "\"***\"", "default": null });
    assert_eq!(shown.body, json!({ "file": null, "keys": [key] }));
    let checked = world.ask(&admin, "POST", "/configuration/check", None).await;
    let expected = json!({
        "file": null, "good": false, "mistakes": ["1:2: wrong"], "warnings": [], "needs_restart": [],
    });
    assert_eq!(checked.body, expected);
    assert!(!world.requests.iter().any(|request| request.contains("Reload")), "{:?}", world.requests);
}
