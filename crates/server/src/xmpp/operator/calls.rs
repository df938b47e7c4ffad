//! The calls of one account for its user (`chat::calls`): from the database, and from the other nodes of a farm whose nodes have databases of
//! their own.
//!
//! The other nodes are asked by the search that operators use (`Ask::CallSearch`), for this account only.

use chat::effect::{CallHistoryPage, CallHistoryQuery, PastCall};
use chat::{StoreFailure, StoreReply};
use control::{Ask, Listing, Request, Response};
use store::{CallPage, CallRecord, CallSearch, Loaded, Read};
use xmpp::Bare;

use super::Operator;

impl Operator {
    /// Reads a page of the calls that an account placed or was called by.
    pub(crate) async fn calls_of(
        &self,
        user: &Bare,
        query: CallHistoryQuery,
    ) -> Result<StoreReply, StoreFailure> {
        let account: Box<str> = user.as_str().into();
        let search = CallSearch {
            account: Some(account.clone()),
            ended_until: query.until,
            limit: query.max,
            ..CallSearch::default()
        };
        let request = Request::Ask(Ask::CallSearch(search.clone()));
        let others = async {
            match &self.farm {
                Some(farm) => farm.ask_for_user(&request).await,
                None => Ok(None),
            }
        };
        let (own, others) = tokio::join!(self.read(Read::CallSearch(search.clone())), others);
        let others = others.map_err(|_| StoreFailure::Unavailable)?;
        let Ok(Loaded::CallPage(mut page)) = own else { return Err(StoreFailure::Unavailable) };
        let mut is_partial = false;
        for other in others.into_iter().flat_map(|others| others.responses) {
            match other.response {
                Some(Response::Listing(Listing::CallPage(part))) => page.add(part),
                // It does not answer, or cannot search.
                _ => is_partial = true,
            }
        }
        page.finish(&search);
        Ok(StoreReply::Calls(history_of(page, &account, is_partial)))
    }
}

fn history_of(page: CallPage, account: &str, is_partial: bool) -> CallHistoryPage {
    // The search is for this account only; a record of another one must not leave this function in any case.
    let is_own =
        |call: &CallRecord| [&call.account, &call.callee].iter().any(|one| one.as_deref() == Some(account));
    let calls = page.calls.into_iter().filter(is_own).map(|call| past_call(call, account)).collect();
    CallHistoryPage { calls, next: page.next, is_partial }
}

/// The other end is what the phones of the account saw: the account of a caller that hides itself is not in the From of its call.
fn past_call(call: CallRecord, account: &str) -> PastCall {
    // A call between phones of one account counts as one that it placed.
    let is_incoming = call.account.as_deref() != Some(account);
    PastCall {
        id: call.call_id,
        with: if is_incoming { call.from } else { call.to },
        is_incoming,
        started_at: call.started_at,
        answered_at: call.answered_at,
        ended_at: call.ended_at,
        code: call.code,
    }
}

#[cfg(test)]
mod tests {
    use stdx::Instant;

    use super::*;

    fn record(account: Option<&str>, callee: Option<&str>) -> CallRecord {
        CallRecord {
            call_id: "1".into(),
            from: "sip:anonymous@anonymous.invalid".into(),
            to: "sip:100@example.org".into(),
            started_at: Instant::from_unix_seconds(1),
            answered_at: None,
            ended_at: Instant::from_unix_seconds(2),
            code: 487,
            reason: "Request Terminated".into(),
            account: account.map(Into::into),
            callee: callee.map(Into::into),
        }
    }

    #[test]
    fn a_user_reads_only_the_parties_that_its_phones_showed() {
        let (alice, bob) = (Some("alice@example.org"), Some("bob@example.org"));
        let calls = vec![
            record(bob, alice),
            record(alice, bob),
            record(alice, alice),
            record(bob, None),
            record(None, alice),
        ];
        let page = CallPage { calls, next: None };
        let seen = history_of(page, "alice@example.org", false).calls;
        let seen: Vec<(bool, &str)> = seen.iter().map(|call| (call.is_incoming, &*call.with)).collect();
        let (hidden, dialled) = ("sip:anonymous@anonymous.invalid", "sip:100@example.org");
        assert_eq!(seen, [(true, hidden), (false, dialled), (false, dialled), (true, hidden)]);
    }
}
