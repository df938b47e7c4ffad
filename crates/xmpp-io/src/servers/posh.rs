//! POSH documents of other domains (RFC 7711), fetched over HTTPS for [`s2s::Servers`](xmpp::s2s::Servers).
//!
//! A stranger that connects and names a domain causes a fetch at that domain. So only public addresses are connected to
//! (the name is looked up first, and the connection is made to the address that was checked), redirects and answers are
//! bounded, each source causes a bounded number of fetches over all shards, and shards that want one address wait for one
//! fetch. The certificate of the web server is always verified, by the authorities that those of XMPP servers are judged by.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use net::source_limiter::SourceLimiter;
use reqwest::header::LOCATION;
use reqwest::{Client, Response, StatusCode, Url, redirect};
use stdx::Instant;
use stdx::address::is_private;
use stdx::error::innermost_cause;
use tokio::sync::OnceCell;
use tokio::time::timeout;
use xmpp::domain::to_unicode;
use xmpp::s2s::{PoshFailure, PoshFetch};

use super::connect::ips;
use super::shared::S2sConnections;
use crate::limits;

/// The settings of fetches that a reload may change.
#[derive(Clone, Debug, Default)]
pub struct PoshSettings {
    /// Web servers in private networks are asked, too.
    pub allow_private: bool,
    /// Web servers that are not looked up in DNS, wherever they are.
    pub routes: Arc<[config::WebRoute]>,
}

/// The body, or the reason why there is none.
type Fetched = Result<Vec<u8>, Box<str>>;

/// The fetches of all shards.
pub struct PoshFetches {
    /// Those that go on, by their address. Shards that come later wait for the first one's.
    running: Mutex<HashMap<Box<str>, Arc<OnceCell<Fetched>>>>,
    /// The fetches that each source has caused.
    sources: SourceLimiter,
    /// The fetches for streams that this server has opened, as of one source: answers of users to strangers open some, too.
    own: SourceLimiter,
}

impl Default for PoshFetches {
    fn default() -> Self {
        PoshFetches {
            running: Mutex::default(),
            sources: SourceLimiter::new(limits::POSH_OF_SOURCE),
            own: SourceLimiter::new(limits::POSH_OF_OWN),
        }
    }
}

impl fmt::Debug for PoshFetches {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoshFetches")
            .field("running", &self.lock().len())
            .field("sources", &self.sources)
            .finish()
    }
}

impl PoshFetches {
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Arc<OnceCell<Fetched>>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if a fetch of that origin may begin, which is then counted.
    fn may(&self, now: Instant, cause: FetchCause) -> bool {
        match cause {
            FetchCause::Own => self.own.allow(now, Ipv4Addr::UNSPECIFIED.into()).is_pass(),
            FetchCause::Source(source) => self.sources.allow(now, source).is_pass(),
            FetchCause::Ended => false,
        }
    }

    /// The document at an address, fetched once for all that want it meanwhile.
    async fn document(&self, url: &str, fetch: impl Future<Output = Fetched>) -> Fetched {
        let cell = Arc::clone(self.lock().entry(url.into()).or_default());
        // If the task that fetches ends with its shard, the next one goes on with a fetch of its own.
        let fetched = cell.get_or_init(|| fetch).await.clone();
        let mut running = self.lock();
        if running.get(url).is_some_and(|known| Arc::ptr_eq(known, &cell)) {
            running.remove(url);
        }
        fetched
    }
}

/// The origin of a fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FetchCause {
    /// A stream that this server has opened.
    Own,
    /// The address of the server whose stream it is for.
    Source(IpAddr),
    /// Its stream has ended: a stranger that hangs up would cause the fetch of a reference that is not counted.
    Ended,
}

/// Fetches a document and gives it to the machine.
pub(super) async fn run(shared: Rc<S2sConnections>, fetch: PoshFetch, cause: FetchCause) {
    let fetches = &shared.settings.posh;
    let result = if fetches.may(shared.settings.clock.now(), cause) {
        let fetched = fetches.document(&fetch.url, bounded(&shared, &fetch.url)).await;
        fetched.map_err(PoshFailure::Failed)
    } else {
        Err(PoshFailure::Busy)
    };
    shared.tell(|servers, now, out| servers.handle_posh(now, &fetch, result, out));
}

async fn bounded(shared: &S2sConnections, url: &str) -> Fetched {
    let fetched = timeout(limits::POSH_FETCH, follow(shared, url)).await;
    fetched.unwrap_or_else(|_| Err("the web server did not answer in time".into()))
}

/// Follows redirects, which lead to HTTPS only (RFC 7711 §3).
async fn follow(shared: &S2sConnections, url: &str) -> Fetched {
    let parse = |url: &str| Url::parse(url).map_err(|_| "the address is no URL");
    let mut url = parse(url)?;
    for _ in 0..=limits::POSH_REDIRECTS {
        let response = get(shared, &url).await?;
        match response.status() {
            StatusCode::OK => return read(response).await,
            StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT => {
                let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok());
                url = redirected(&url, location)?;
            }
            status => return Err(format!("the status is {status}").into()),
        }
    }
    Err("too many redirects".into())
}

/// The address that a redirect leads to, of bounded length: it goes into the next request, and into the log.
fn redirected(url: &Url, location: Option<&str>) -> Result<Url, &'static str> {
    let location = location.filter(|text| !text.is_empty() && text.len() <= ::xmpp::limits::POSH_URL);
    url.join(location.ok_or("a redirect without an address, or with a long one")?)
        .map_err(|_| "a redirect to no address")
}

/// One request. The client is made for it, as its connections go to the addresses that were checked for this URL.
async fn get(shared: &S2sConnections, url: &Url) -> Result<Response, Box<str>> {
    if url.scheme() != "https" || !url.username().is_empty() || url.password().is_some() {
        return Err(format!("{url} is no address of HTTPS").into());
    }
    let host = url.host_str().ok_or("the address has no host")?;
    let addresses = addresses(shared, host).await?;
    let tls = shared.settings.tls.as_ref().ok_or("this server has no TLS")?;
    let client = Client::builder()
        .user_agent(concat!("Belfry/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .referer(false)
        .https_only(true)
        // A proxy of the environment would go around the check of addresses.
        .no_proxy()
        .tls_backend_preconfigured(tls.https_client())
        .resolve_to_addrs(host, &addresses)
        .connect_timeout(limits::POSH_CONNECT)
        .pool_max_idle_per_host(0)
        .build()
        .map_err(|error| format!("no client of HTTP: {error}"))?;
    client.get(url.clone()).send().await.map_err(|error| innermost_cause(&error).to_string().into())
}

/// The addresses that a request to that host may be sent to. Port 0 stands for the port of the URL.
async fn addresses(shared: &S2sConnections, host: &str) -> Result<Vec<SocketAddr>, Box<str>> {
    let settings = shared.reload.borrow().posh.clone();
    // The host of a URL has A-labels, those of the configuration letters.
    let name = to_unicode(host).unwrap_or(host.into());
    let route = settings.routes.iter().find(|route| route.domains.has(&name));
    let (target, port) = route.map_or((host, 0), |route| (&*route.host, route.port));
    let target = target.trim_start_matches('[').trim_end_matches(']');
    let found = match target.parse::<IpAddr>() {
        Ok(ip) => vec![ip],
        Err(_) => {
            let resolver = shared.resolver().ok_or("this server cannot ask DNS")?;
            ips(&resolver, target).await.map_err(|_| "DNS has no address of the web server")?
        }
    };
    // A host that an operator has configured may be anywhere.
    let may = |ip: &IpAddr| route.is_some() || settings.allow_private || !is_private(*ip);
    let allowed: Vec<_> = found.into_iter().filter(may).map(|ip| SocketAddr::new(ip, port)).collect();
    if allowed.is_empty() {
        return Err("the web server is in a private network, and `posh_private` is false".into());
    }
    // RFC 6724 is left aside: a few addresses of either family do.
    Ok(allowed.into_iter().take(limits::POSH_ADDRESSES).collect())
}

/// The body, up to its limit.
async fn read(mut response: Response) -> Fetched {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| innermost_cause(&error).to_string())? {
        if body.len() + chunk.len() > ::xmpp::limits::POSH_DOCUMENT {
            return Err("the document is too large".into());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().build().expect("a runtime")
    }

    #[test]
    fn a_source_causes_a_bounded_number_of_fetches_also_by_streams_that_have_ended() {
        let (fetches, now) = (PoshFetches::default(), Instant::from_unix_seconds(1_800_000_000));
        let stranger = |ip: &str| FetchCause::Source(ip.parse().unwrap());
        let count = |cause: FetchCause| (0..200).filter(|_| fetches.may(now, cause)).count();
        let most = limits::POSH_OF_SOURCE.rate.burst as usize;
        assert_eq!(count(stranger("192.0.2.1")), most);
        assert_eq!((count(stranger("192.0.2.2")), count(stranger("192.0.2.1"))), (most, 0));
        assert_eq!(count(FetchCause::Ended), 0);
        assert_eq!(count(FetchCause::Own), limits::POSH_OF_OWN.rate.burst as usize);
    }

    #[test]
    fn a_redirect_has_an_address_of_bounded_length() {
        let url = Url::parse("https://a.test/.well-known/posh/xmpp-server.json").unwrap();
        let of = |location: Option<&str>| redirected(&url, location).map(String::from).ok();
        assert_eq!(of(Some("https://b.test/x")).as_deref(), Some("https://b.test/x"));
        assert_eq!(of(Some("/x")).as_deref(), Some("https://a.test/x"));
        let long = format!("https://b.test/{}", "x".repeat(::xmpp::limits::POSH_URL));
        // The same address once more would be asked to the last redirect.
        for wrong in [None, Some(""), Some("https://"), Some(&*long)] {
            assert_eq!(of(wrong), None, "{wrong:.40?}");
        }
    }

    /// Shards that want one document at once have it fetched once.
    #[test]
    fn one_document_is_fetched_once_for_all_shards_that_want_it_meanwhile() {
        let (fetches, begun) = (PoshFetches::default(), Cell::new(0));
        let (sender, receiver) = tokio::sync::watch::channel(false);
        let fetch = || {
            let mut receiver = receiver.clone();
            let begun = &begun;
            async move {
                begun.set(begun.get() + 1);
                let _ = receiver.wait_for(|is_there| *is_there).await;
                Ok(b"document".to_vec())
            }
        };
        runtime().block_on(async {
            let serve = async {
                tokio::task::yield_now().await;
                let _ = sender.send(true);
            };
            let (one, two, other, ()) = tokio::join!(
                fetches.document("https://a.test/", fetch()),
                fetches.document("https://a.test/", fetch()),
                fetches.document("https://b.test/", fetch()),
                serve,
            );
            assert!(one.is_ok() && one == two && two == other);
        });
        assert_eq!((begun.get(), fetches.lock().len()), (2, 0));
        // The next one fetches anew: documents are remembered by the machine.
        runtime().block_on(fetches.document("https://a.test/", fetch())).expect("a document");
        assert_eq!(begun.get(), 3);
    }
}
