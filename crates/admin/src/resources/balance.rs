//! The balance of an account: Twilio's libraries ask for it. Nothing has a price here, so it is always zero.

use crate::table::{Answer, Route, Shape};
use crate::value::Value;

use super::NONE;

/// The one operation.
pub(crate) const ROUTES: &[Route] = &[Route {
    method: "GET",
    path: "/Accounts/{AccountSid}/Balance",
    summary: "The balance: always zero, for nothing has a price here",
    parameters: NONE,
    answer: Shape::Item(200, "Balance", || render("")),
    handler: |context| Ok(Answer::Item(200, "Balance", render(&context.account.common.sid))),
}];

/// Twilio writes the figure as a text.
fn render(account: &str) -> Value {
    Value::Object(vec![
        ("account_sid", Value::text(account)),
        ("balance", Value::Text("0.00".into())),
        ("currency", Value::Text("USD".into())),
    ])
}
