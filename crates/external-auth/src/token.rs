//! The user named by a token, and the role that its claims give.

use serde_json::{Map, Value};
use stdx::Instant;

use crate::ldap::DirectoryRole;

/// The claim of tokens that gives roles, and the values that give them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRoles {
    /// The name of the claim; dots lead into objects, as in `realm_access.roles`. Its value is a text or an array of texts.
    pub claim: Box<str>,
    /// Roles and the values that give them. They are compared with case (RFC 7519 §2: claims are compared as they are).
    pub roles: Vec<(DirectoryRole, Box<str>)>,
}

/// The user named by an accepted token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenUser {
    /// The local part of the address, not prepared.
    pub name: Box<str>,
    /// The role that the claims give.
    pub role: Option<DirectoryRole>,
    /// The account of REST that the token names: the value of the claim, of which nothing is known but that it is a text.
    pub account: Option<Box<str>>,
    /// The time from which the token is accepted no more: its `exp`, and the tolerated difference of clocks.
    pub ends_at: Instant,
}

/// The service that a token is shown to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenUse {
    /// The console: tokens give roles.
    Console,
    /// The REST interface of applications: tokens name an account there.
    Rest,
}

/// The answer to the question whose token it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TokenVerdict {
    /// The token of this user.
    Accepted(TokenUser),
    /// It is not accepted.
    Refused,
    /// Nothing is known: there are no keys to check it with.
    #[default]
    Unavailable,
}

impl TokenRoles {
    /// The greatest role that these claims give. `None`: they give none. A value of another type than text gives none.
    pub(crate) fn role_of(&self, claims: &Map<String, Value>) -> Option<DirectoryRole> {
        let values = match claim_at(claims, &self.claim)? {
            Value::Array(values) => &values[..],
            one => std::slice::from_ref(one),
        };
        let has = |given: &str| values.iter().any(|value| value.as_str() == Some(given));
        self.roles.iter().filter(|(_, given)| has(given)).map(|(role, _)| *role).max()
    }
}

/// The claim of this name. The whole name comes first: names of claims may have dots, as URLs do (RFC 7519 §4.2).
pub(crate) fn claim_at<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    claim_at(claims.get(first)?.as_object()?, rest)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn role(claim: &str, claims: &Value) -> Option<DirectoryRole> {
        let roles = TokenRoles {
            claim: claim.into(),
            roles: vec![
                (DirectoryRole::Admin, "belfry-admins".into()),
                (DirectoryRole::Operator, "help desk".into()),
                (DirectoryRole::ReadOnly, "staff".into()),
            ],
        };
        roles.role_of(claims.as_object().unwrap())
    }

    #[test]
    fn the_greatest_role_of_the_claims_values_counts_and_other_values_give_none() {
        let (admin, operator, reader) =
            (Some(DirectoryRole::Admin), Some(DirectoryRole::Operator), Some(DirectoryRole::ReadOnly));
        for (value, expected) in [
            (json!("staff"), reader),
            (json!("help desk"), operator),
            (json!(["staff", "belfry-admins", "help desk"]), admin),
            (json!(["other", 7, null, ["belfry-admins"], "staff"]), reader),
            (json!([]), None),
            (json!(""), None),
            (json!("Staff"), None),
            (json!("staff other"), None),
            (json!(["Belfry-Admins"]), None),
            (json!({"belfry-admins": true}), None),
            (json!(true), None),
            (Value::Null, None),
        ] {
            assert_eq!(role("groups", &json!({ "groups": value })), expected, "{value}");
        }
        assert_eq!(role("groups", &json!({ "roles": ["staff"] })), None);
    }

    #[test]
    fn dots_lead_into_objects_and_a_claim_of_the_whole_name_comes_first() {
        let reader = Some(DirectoryRole::ReadOnly);
        let keycloak = json!({ "realm_access": { "roles": ["staff"] }, "resource_access": { "belfry": { "roles": ["help desk"] } } });
        assert_eq!(role("realm_access.roles", &keycloak), reader);
        assert_eq!(role("resource_access.belfry.roles", &keycloak), Some(DirectoryRole::Operator));
        for none in ["realm_access", "roles", "realm_access.roles.0", "realm_access.", ".roles", "."] {
            assert_eq!(role(none, &keycloak), None, "{none}");
        }
        let url = "https://example.test/roles";
        assert_eq!(
            role(url, &json!({ url: ["staff"], "https://example": { "test/roles": "help desk" } })),
            reader
        );
    }
}
