//! Records of calls, as a list and as a file, and the end of a call.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;

use admin::NodesAnswered;
use axum::body::{Body, Bytes};
use call_files::csv;
use control::{Ask, Listing, Request, Response};
use serde_json::json;
use stdx::Instant;
use store::{CallPage, CallRecord, CallSearch};
use tokio::sync::OwnedSemaphorePermit;

use super::{Answer, Context};
use crate::fault::Fault;
use crate::limits;
use crate::node::NodeHandle;

pub(super) async fn list(context: &Context<'_>) -> Result<Answer, Fault> {
    let search = search(context, context.values.limit())?;
    let (CallPage { calls, next }, nodes) = find(&context.state.node, search).await?;
    let next = next.map(Instant::as_micros);
    Ok(Answer::Json(json!({ "calls": calls, "next": next, "has_more": next.is_some(), "nodes": nodes })))
}

/// The search of the request's parameters.
fn search(context: &Context<'_>, limit: u32) -> Result<CallSearch, Fault> {
    let values = &context.values;
    let account = match values.some_text("account") {
        // A SID of an account of the REST interface is no address.
        Some(sid) if sid.starts_with("AC") && !sid.contains('@') => Some(sid.into()),
        Some(text) => Some(context.address(text)?.to_string().into()),
        None => None,
    };
    let time = |name: &str| values.number(name).map(Instant::from_micros);
    Ok(CallSearch {
        account,
        call_id: values.some_text("call_id").map(Into::into),
        text: values.some_text("text").map(|text| text.trim().into()),
        code: values.number("code").and_then(|code| u16::try_from(code).ok()),
        ended_from: time("from"),
        ended_until: time("until"),
        limit,
        look_at: None,
    })
}

async fn find(node: &NodeHandle, search: CallSearch) -> Result<(CallPage, Option<NodesAnswered>), Fault> {
    match node.ask(Request::Ask(Ask::CallSearch(search))).await? {
        (Response::Listing(Listing::CallPage(page)), nodes) => Ok((page, nodes)),
        _ => Err(Fault::unexpected()),
    }
}

/// The first page is read before the answer begins, so that a refusal has its status; each further one as the client takes the file.
pub(super) async fn csv(context: &Context<'_>) -> Result<Answer, Fault> {
    let place = context.state.call_files.clone().try_acquire_owned().map_err(|_| Fault::busy())?;
    let mut file = CallFile {
        node: context.state.node.clone(),
        search: Some(search(context, limits::CSV_PAGE)?),
        shown: Vec::new(),
        rows: 0,
        missing: BTreeSet::new(),
        _place: place,
    };
    let begin = format!("{}{}", csv::HEAD, file.next().await?.unwrap_or_default());
    let pieces = futures_util::stream::unfold((Some(begin), file), |(begin, mut file)| async move {
        let piece = match begin {
            Some(begin) => Ok(begin),
            None => match file.next().await {
                Ok(piece) => Ok(piece?),
                // An answer that ends early ends the connection: no browser takes the file for whole.
                Err(fault) => Err(io::Error::other(fault.message)),
            },
        };
        Some((piece.map(Bytes::from), (None, file)))
    });
    Ok(Answer::Csv(Body::from_stream(pieces)))
}

/// A file of call records that is being sent.
struct CallFile {
    node: NodeHandle,
    /// The next page; none: the file is whole.
    search: Option<CallSearch>,
    /// Calls of the page before that ended at the time at which the next page begins: they may come again.
    shown: Vec<CallRecord>,
    rows: u32,
    /// Nodes that did not answer.
    missing: BTreeSet<Box<str>>,
    _place: OwnedSemaphorePermit,
}

impl CallFile {
    /// The lines of the next page; none: the file has ended.
    async fn next(&mut self) -> Result<Option<String>, Fault> {
        let Some(search) = self.search.take() else { return Ok(None) };
        let (page, nodes) = find(&self.node, search.clone()).await?;
        self.missing.extend(nodes.into_iter().flat_map(|nodes| nodes.missing).map(|node| node.name));
        let mut lines = String::new();
        for call in page.calls.iter().filter(|call| !self.shown.contains(call)) {
            csv::write_line(call, &mut lines);
            self.rows += 1;
        }
        match page.next {
            Some(next) if self.rows < limits::CSV_ROWS => {
                self.shown = page.calls.into_iter().filter(|call| call.ended_at == next).collect();
                let limit = limits::CSV_PAGE.min(limits::CSV_ROWS - self.rows);
                self.search = Some(CallSearch { ended_until: Some(next), limit, ..search });
                return Ok(Some(lines));
            }
            Some(next) => {
                let (rows, next) = (self.rows, next.as_micros());
                let _ = write!(lines, "# cut off after {rows} calls; the others: until={next}\r\n");
            }
            None => {}
        }
        for node in &self.missing {
            let _ = write!(lines, "# node {node} has not answered: its calls are missing\r\n");
        }
        Ok(Some(lines))
    }
}

pub(super) async fn end(context: &Context<'_>) -> Result<Answer, Fault> {
    let call = context.values.text("call");
    context.perform(Request::EndCall { call: call.into() }, call).await
}
