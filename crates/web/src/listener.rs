//! Connections of HTTP, and the places of requests.
//!
//! A connection without a request at work makes room for others when there are many (`net::admission`). A request of the
//! REST interface is read whole first, and then needs one of a bounded number of places, so that neither slow clients nor
//! many requests keep `/metrics` and `/health` from being answered.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::Router;
use axum::body::Body as Content;
use axum::extract::ConnectInfo;
use axum::http::header::{CONNECTION, RETRY_AFTER};
use axum::http::{HeaderValue, Request, Response, StatusCode};
use axum::response::IntoResponse as _;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use net::admission::{Admitted, Handle};
use net::{AcceptFailures, WatchedIo};
use stdx::source::SourcePrefix;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tower_service::Service as _;

use super::Web;
use crate::limits;

/// Requests of the REST interface at work, and those whose answers are being read.
#[derive(Debug, Default)]
struct Places {
    taken: usize,
    by_source: HashMap<SourcePrefix, usize>,
}

/// One of them.
#[derive(Debug)]
struct Place {
    places: Rc<RefCell<Places>>,
    source: SourcePrefix,
}

impl Place {
    /// Or which status says why not.
    fn take(places: &Rc<RefCell<Places>>, source: SourcePrefix) -> Result<Place, StatusCode> {
        let mut all = places.borrow_mut();
        let of_source = all.by_source.get(&source).copied().unwrap_or(0);
        if of_source >= limits::REST_REQUESTS_PER_SOURCE {
            return Err(StatusCode::TOO_MANY_REQUESTS);
        }
        if all.taken >= limits::REST_REQUESTS {
            return Err(StatusCode::SERVICE_UNAVAILABLE);
        }
        all.taken += 1;
        all.by_source.insert(source, of_source + 1);
        Ok(Place { places: Rc::clone(places), source })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut all = self.places.borrow_mut();
        all.taken -= 1;
        if let Some(count) = all.by_source.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                all.by_source.remove(&self.source);
            }
        }
    }
}

/// State that the connections of one address share.
pub(super) struct Site {
    routes: Router,
    /// True if that path needs no place.
    is_status: fn(&str) -> bool,
    web: Web,
    places: Rc<RefCell<Places>>,
}

impl Site {
    pub(super) fn new((routes, is_status): (Router, fn(&str) -> bool), web: &Web) -> Rc<Site> {
        Rc::new(Site { routes, is_status, web: web.clone(), places: Rc::default() })
    }

    /// `None`: there are too many connections, of this source or of all.
    pub(super) fn admit(&self, remote: SocketAddr) -> Option<Admitted> {
        // A proxy's connections are those of many clients.
        let source = (!self.web.proxies.trust(remote.ip())).then(|| remote.ip().into());
        self.web.admission.enter(source, limits::HTTP_CONNECTIONS)
    }
}

/// Until dropped, on a `LocalSet`.
pub(super) async fn serve(listener: TcpListener, site: Rc<Site>) -> io::Result<()> {
    let mut failures = AcceptFailures::new(Arc::clone(&site.web.admission));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((socket, remote)) => {
                    if let Some(admitted) = site.admit(remote) {
                        connections.spawn_local(converse(Rc::clone(&site), socket, remote, admitted));
                    }
                }
                Err(error) => failures.handle(&listener, &error).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

/// The life of one connection.
pub(super) async fn converse<S>(site: Rc<Site>, socket: S, remote: SocketAddr, admitted: Admitted)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let handle = Handle::clone(&admitted);
    let answering = service_fn(|request| answer(Rc::clone(&site), handle.clone(), remote, request));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits::HTTP_HEAD)
        .max_buf_size(limits::HTTP_BUFFER)
        .serve_connection(TokioIo::new(WatchedIo::new(socket, Some(handle.clone()))), answering);
    let mut connection = pin!(connection);
    let done = poll_fn(|cx| match admitted.poll_evicted(cx) {
        Poll::Ready(()) => Poll::Ready(None),
        Poll::Pending => connection.as_mut().poll(cx).map(Some),
    });
    match done.await {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%remote, %error, "a connection of HTTP broke"),
        None => tracing::debug!(%remote, "a connection of HTTP made room for another"),
    }
}

async fn answer(
    site: Rc<Site>,
    handle: Handle,
    remote: SocketAddr,
    request: Request<Incoming>,
) -> Result<Response<Answer>, Infallible> {
    handle.step();
    let ip = site.web.proxies.source(remote.ip(), request.headers());
    let is_status = (site.is_status)(request.uri().path());
    // While the body comes, the connection may make room for others.
    let (mut request, place) = match take_place(&site, ip.into(), is_status, request).await {
        Ok(taken) => taken,
        Err(status) => return Ok(refuse(status)),
    };
    request.extensions_mut().insert(ConnectInfo(SocketAddr::new(ip, remote.port())));
    let busy = handle.busy();
    let response = match site.routes.clone().call(request).await {
        Ok(response) => response,
        Err(never) => match never {},
    };
    drop(busy);
    Ok(response.map(|content| Answer { content, _place: place }))
}

/// The request with its whole body, and its place.
async fn take_place(
    site: &Site,
    source: SourcePrefix,
    is_status: bool,
    request: Request<Incoming>,
) -> Result<(Request<Content>, Option<Place>), StatusCode> {
    let (head, body) = request.into_parts();
    if is_status {
        return Ok((Request::from_parts(head, Content::empty()), None));
    }
    let body = Limited::new(body, admin::limits::MAX_BODY).collect();
    let body = match timeout(admin::limits::BODY_TIME, body).await {
        Ok(Ok(body)) => Content::from(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => return Err(StatusCode::PAYLOAD_TOO_LARGE),
        Ok(Err(_)) => return Err(StatusCode::BAD_REQUEST),
        Err(_) => return Err(StatusCode::REQUEST_TIMEOUT),
    };
    let place = Place::take(&site.places, source)?;
    Ok((Request::from_parts(head, body), Some(place)))
}

fn refuse(status: StatusCode) -> Response<Answer> {
    let text = status.canonical_reason().unwrap_or_default();
    let mut response = (status, format!("{text}\n")).into_response();
    // The rest of the request is not read, and its place is free for others.
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response.map(|content| Answer { content, _place: None })
}

/// An answer, whose request has its place until it is written.
struct Answer {
    content: Content,
    _place: Option<Place>,
}

impl Body for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.content).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.content.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.content.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u8) -> SourcePrefix {
        std::net::IpAddr::from([192, 0, 2, number]).into()
    }

    #[test]
    fn one_source_takes_a_part_of_the_places_and_all_are_given_back() {
        let places = Rc::default();
        let take = |number| Place::take(&places, source(number));
        let of_one: Vec<Place> = std::iter::from_fn(|| take(1).ok()).collect();
        assert_eq!(of_one.len(), limits::REST_REQUESTS_PER_SOURCE);
        assert_eq!(take(1).unwrap_err(), StatusCode::TOO_MANY_REQUESTS);
        let of_others: Vec<Place> =
            (2..=255).flat_map(|number| take(number).into_iter().chain(take(number))).collect();
        assert_eq!(of_one.len() + of_others.len(), limits::REST_REQUESTS);
        assert_eq!(take(9).unwrap_err(), StatusCode::SERVICE_UNAVAILABLE);
        drop((of_one, of_others));
        assert!(places.borrow().by_source.is_empty() && places.borrow().taken == 0);
    }
}
