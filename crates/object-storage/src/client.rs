//! Requests to the store. They are sent on the thread of this crate, whose runtime drives the pooled connections; answers are awaited
//! anywhere.

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use reqwest::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, RANGE};
use reqwest::{Client, RequestBuilder, Response};
use rusty_s3::actions::{DeleteObject, GetObject, PutObject, S3Action};
use rusty_s3::{Bucket, Credentials, UrlStyle};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout};
use url::Url;

use crate::body::{self, ContentDigest};
use crate::fault::{StorageFault, of_error, of_response};
use crate::limits;

/// The store, and the place in it.
pub struct ObjectStorageSettings {
    /// The URL of the service, without the bucket.
    pub endpoint: Url,
    /// The region, as the service names it.
    pub region: Box<str>,
    /// The bucket, which has to exist.
    pub bucket: Box<str>,
    /// Before all keys of objects.
    pub prefix: Box<str>,
    /// The name of the key.
    pub access_key: Box<str>,
    /// The key itself.
    pub secret_key: Box<str>,
    /// The bucket is in the path of URLs, and not in the name of the host.
    pub path_style: bool,
    /// PEM: the authorities of the service's certificate. `None`: those of the system.
    pub authorities: Option<PathBuf>,
}

impl ObjectStorageSettings {
    /// A bucket of a service of S3 in the form that most services other than Amazon's have: in the path of URLs, with the usual region.
    pub fn new(endpoint: Url, bucket: &str, (access_key, secret_key): (&str, &str)) -> ObjectStorageSettings {
        ObjectStorageSettings {
            endpoint,
            region: "us-east-1".into(),
            bucket: bucket.into(),
            prefix: Box::default(),
            access_key: access_key.into(),
            secret_key: secret_key.into(),
            path_style: true,
            authorities: None,
        }
    }
}

/// The state of a store as operators see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageStatus {
    /// The URL of the service and the bucket, without keys.
    pub place: Box<str>,
    /// Files that wait to be put, as last counted.
    pub waiting: u64,
    /// Files that the store has confirmed, since the start.
    pub put: u64,
    /// Requests that failed, since the start.
    pub failures: u64,
    /// The reason of the last failure, until a request succeeds.
    pub failure: Option<Box<str>>,
}

/// A bucket of a store. Its thread ends with the last reference.
pub struct ObjectStorage {
    client: Client,
    bucket: Bucket,
    credentials: Credentials,
    prefix: Box<str>,
    place: Box<str>,
    pub(crate) runtime: Handle,
    reads: Arc<Semaphore>,
    waiting: AtomicU64,
    put: AtomicU64,
    failures: AtomicU64,
    failure: Mutex<Option<Box<str>>>,
    /// Dropped, the thread ends.
    _stop: oneshot::Sender<()>,
}

impl fmt::Debug for ObjectStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectStorage").field("place", &self.place).finish_non_exhaustive()
    }
}

/// An object that is read.
pub struct ObjectReader {
    response: Response,
    /// Bytes of the whole object.
    pub total: u64,
    /// Bytes that came, and the time that was waited for them, without that of a slow client.
    received: u64,
    waited: Duration,
    _permit: OwnedSemaphorePermit,
}

impl fmt::Debug for ObjectReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The response has the signed URL.
        f.debug_struct("ObjectReader").field("total", &self.total).finish_non_exhaustive()
    }
}

impl ObjectReader {
    /// The next bytes. `None`: the end of the range.
    ///
    /// # Errors
    /// The connection broke, nothing came for [`limits::READ_TIME`], or the object trickles.
    pub async fn next(&mut self) -> Result<Option<Bytes>, StorageFault> {
        let asked = Instant::now();
        let chunk = timeout(patience(self.received, self.waited), self.response.chunk()).await;
        self.waited += asked.elapsed();
        match chunk {
            Ok(chunk) => {
                let chunk = chunk.map_err(|error| of_error(&error))?;
                self.received += chunk.as_ref().map_or(0, |bytes| bytes.len() as u64);
                Ok(chunk)
            }
            Err(_) => Err(StorageFault::Away("an object stopped coming".into())),
        }
    }
}

impl ObjectStorage {
    /// Starts the thread; nothing is sent yet.
    ///
    /// # Errors
    /// The settings cannot be used, or the system gives no thread.
    pub fn start(settings: ObjectStorageSettings) -> io::Result<Arc<ObjectStorage>> {
        let style = if settings.path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let place = format!("{}{}", settings.endpoint, settings.bucket).into();
        let bucket = Bucket::new(
            settings.endpoint,
            style,
            String::from(settings.bucket),
            String::from(settings.region),
        )
        .map_err(io::Error::other)?;
        let client = external_auth::http_client(settings.authorities.as_deref())
            .map_err(|error| io::Error::other(format!("{error:#}")))?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        Builder::new().name("object-storage".into()).spawn(move || {
            // Ends with the sender.
            let _ = runtime.block_on(stopped);
            // A thread of the pool may wait for a disk that does not answer.
            runtime.shutdown_background();
        })?;
        Ok(Arc::new(ObjectStorage {
            client,
            bucket,
            credentials: Credentials::new(settings.access_key, settings.secret_key),
            prefix: settings.prefix,
            place,
            runtime: handle,
            reads: Arc::new(Semaphore::new(limits::READS)),
            waiting: AtomicU64::new(0),
            put: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            failure: Mutex::new(None),
            _stop: stop,
        }))
    }

    /// The state, for operators.
    pub fn status(&self) -> StorageStatus {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StorageStatus {
            place: self.place.clone(),
            waiting: of(&self.waiting),
            put: of(&self.put),
            failures: of(&self.failures),
            failure: self.lock().clone(),
        }
    }

    /// Puts a file, and returns when the store has confirmed its content.
    ///
    /// # Errors
    /// The file cannot be read, or the store has not confirmed it.
    pub async fn put_file(&self, key: &str, path: &Path) -> Result<(), StorageFault> {
        let path = path.to_owned();
        let opened = spawn_blocking(move || Ok((ContentDigest::of_file(&path)?, File::open(&path)?)));
        let opened: io::Result<_> = opened.await.map_err(io::Error::other).flatten();
        let (digest, file) = opened.map_err(|error| StorageFault::File(error.to_string()))?;
        if digest.length > limits::OBJECT_SIZE {
            return Err(StorageFault::File("it is larger than one PUT may be".into()));
        }
        self.put(key, digest, body::of_file(file)).await?;
        self.put.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    async fn put(&self, key: &str, digest: ContentDigest, body: reqwest::Body) -> Result<(), StorageFault> {
        let key = self.key(key);
        let url = PutObject::new(&self.bucket, Some(&self.credentials), &key).sign(limits::SIGNATURE_TIME);
        // RFC 1864: the store compares, and refuses content that was damaged on its way.
        let request = self
            .client
            .put(url)
            .header(CONTENT_LENGTH, digest.length)
            .header("content-md5", STANDARD.encode(digest.md5))
            .body(body);
        let limit = limits::PUT_TIME + Duration::from_secs(digest.length / limits::PUT_SPEED);
        let response = self.send(request, limit).await?;
        let checked = check_confirmation(response.headers(), digest);
        self.note(checked)
    }

    /// Reads a part of an object; its size comes with it.
    ///
    /// # Errors
    /// The object is missing, or the store does not give it.
    pub async fn open(&self, key: &str, range: Range<u64>) -> Result<ObjectReader, StorageFault> {
        // A permit that is not free is refused at once: readers would wait for each other's slow clients.
        let permit = Arc::clone(&self.reads).try_acquire_owned().map_err(|_| StorageFault::Busy)?;
        let key = self.key(key);
        let url = GetObject::new(&self.bucket, Some(&self.credentials), &key).sign(limits::SIGNATURE_TIME);
        let last = range.end.saturating_sub(1);
        let request = self.client.get(url).header(RANGE, format!("bytes={}-{last}", range.start));
        let response = self.send(request, limits::ANSWER_TIME).await?;
        match total_of(response.headers(), range.start) {
            Some(total) => {
                Ok(ObjectReader { response, total, received: 0, waited: Duration::ZERO, _permit: permit })
            }
            None => self.note(Err(StorageFault::Refused("the store does not serve ranges".into()))),
        }
    }

    /// Deletes an object. Not an error when it is gone.
    ///
    /// # Errors
    /// The store does not delete it.
    pub async fn delete(&self, key: &str) -> Result<(), StorageFault> {
        let key = self.key(key);
        let url = DeleteObject::new(&self.bucket, Some(&self.credentials), &key).sign(limits::SIGNATURE_TIME);
        match self.send(self.client.delete(url), limits::ANSWER_TIME).await {
            Ok(_) | Err(StorageFault::Missing) => Ok(()),
            Err(fault) => Err(fault),
        }
    }

    /// [`delete`](Self::delete) for a thread without a runtime.
    ///
    /// # Errors
    /// Those of [`delete`](Self::delete).
    pub fn delete_blocking(&self, key: &str) -> Result<(), StorageFault> {
        self.runtime.block_on(self.delete(key))
    }

    /// Puts a small object, reads it and deletes it: the bucket, the keys and their rights are good if all three succeed.
    ///
    /// # Errors
    /// The first of them that fails.
    pub async fn check(&self) -> Result<(), StorageFault> {
        const CONTENT: &[u8] = b"belfry\n";
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(|error| StorageFault::File(error.to_string()))?;
        // A key of its own: several nodes check at once.
        let key = format!("check/{}", stdx::hex::encode(&number));
        self.put(&key, ContentDigest::of_bytes(CONTENT), CONTENT.into()).await?;
        let mut reader = self.open(&key, 0..CONTENT.len() as u64).await?;
        let read = reader.next().await?;
        self.delete(&key).await?;
        match read {
            Some(bytes) if *bytes == *CONTENT => Ok(()),
            _ => self.note(Err(StorageFault::Refused("the store gives other content than was put".into()))),
        }
    }

    /// [`check`](Self::check) for a thread without a runtime.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    pub fn check_blocking(&self) -> Result<(), StorageFault> {
        self.runtime.block_on(self.check())
    }

    pub(crate) fn set_waiting(&self, count: usize) {
        self.waiting.store(count as u64, Ordering::Relaxed);
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.prefix)
    }

    async fn send(&self, request: RequestBuilder, limit: Duration) -> Result<Response, StorageFault> {
        // On the thread of this crate: a connection is driven by the runtime that opened it, which must not end before the pool.
        let sent = self.runtime.spawn(async move { timeout(limit, request.send()).await }).await;
        let result = match sent {
            Ok(Ok(Ok(response))) if response.status().is_success() => Ok(response),
            Ok(Ok(Ok(response))) => Err(of_response(response, self.bucket.name()).await),
            Ok(Ok(Err(error))) => Err(of_error(&error)),
            Ok(Err(_)) => Err(StorageFault::Away(format!("no answer for {} s", limit.as_secs()))),
            Err(_) => Err(StorageFault::Away("the thread of requests has ended".into())),
        };
        self.note(result)
    }

    /// Notes a result. The first failure is logged, and the first success after it.
    fn note<T>(&self, result: Result<T, StorageFault>) -> Result<T, StorageFault> {
        match &result {
            Ok(_) | Err(StorageFault::Missing) => {
                if self.lock().take().is_some() {
                    tracing::info!(url = &*self.place, "the store of files answers again");
                }
            }
            // Not of the store.
            Err(StorageFault::Busy | StorageFault::File(_)) => {}
            Err(fault @ (StorageFault::Away(_) | StorageFault::Refused(_))) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                if self.lock().replace(fault.to_string().into()).is_none() {
                    tracing::warn!(
                        url = &*self.place,
                        error = %fault,
                        "the store of files fails: new files wait on disk, and files that are only there get 503"
                    );
                }
            }
        }
        result
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<str>>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The time for the next bytes of an object of which so many came, after so long a wait in all.
fn patience(received: u64, waited: Duration) -> Duration {
    let earned = Duration::from_secs(received / limits::READ_SPEED);
    (limits::READ_TIME + earned).saturating_sub(waited).min(limits::READ_TIME)
}

/// The whole size in `Content-Range: bytes 5-9/100`, if the answer begins where it was asked to (RFC 9110 §14.4).
fn total_of(headers: &HeaderMap, start: u64) -> Option<u64> {
    let range = headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes ")?;
    let (part, total) = range.split_once('/')?;
    let (first, _) = part.split_once('-')?;
    (first.parse() == Ok(start)).then(|| total.parse().ok())?
}

/// The ETag of an object that was put at once is the MD5 of its content, unless keys of a customer or of a key service encrypt it
/// (Amazon S3 API Reference, "Object").
fn check_confirmation(headers: &HeaderMap, digest: ContentDigest) -> Result<(), StorageFault> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_encrypted = text("x-amz-server-side-encryption").starts_with("aws:kms")
        || !text("x-amz-server-side-encryption-customer-algorithm").is_empty();
    let etag = text(ETAG.as_str()).trim_matches('"');
    if etag.eq_ignore_ascii_case(&stdx::hex::encode(&digest.md5)) || (is_encrypted && !etag.is_empty()) {
        return Ok(());
    }
    Err(StorageFault::Away("the store confirms other content than was put (its ETag differs)".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_that_trickles_ends_and_one_that_is_slow_does_not() {
        let second = Duration::from_secs(1);
        // A byte each second: the next one has no time any more after `READ_TIME`.
        let trickle = (1..).map(|count| patience(count, second * u32::try_from(count).unwrap()));
        let bytes = trickle.take_while(|limit| !limit.is_zero()).count();
        assert_eq!(second * u32::try_from(bytes + 1).unwrap(), limits::READ_TIME);
        // At the speed that is due it lasts, and a pause is no longer than that of any other.
        assert_eq!(patience(1_000 * limits::READ_SPEED, second * 1_000), limits::READ_TIME);
        assert_eq!(patience(limits::OBJECT_SIZE, Duration::ZERO), limits::READ_TIME);
    }
}
