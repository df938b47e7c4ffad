//! The resources of the REST interface as rows: typed resources, their searchable columns, filters and sums.

mod client;
pub mod key;
pub mod token;
pub mod types;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stdx::Instant;
use stdx::hash::Keyed;

use crate::error::StoreError;
use crate::limits;

/// A kind of resource. The numbers are in the record and never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// [`types::RestAccount`]: sids begin with `AC`.
    Account = 0,
    /// [`types::Application`]: `AP`.
    Application = 1,
    /// [`types::IncomingNumber`]: `PN`.
    IncomingNumber = 2,
    /// [`types::Client`]: `CL`.
    Client = 3,
    /// [`types::RestCall`]: `CA`.
    Call = 4,
    /// [`types::Conference`]: `CF`.
    Conference = 5,
    /// [`types::Recording`]: `RE`.
    Recording = 6,
    /// [`types::Notification`]: `NO`.
    Notification = 7,
    /// [`types::TextMessage`]: `SM`.
    Message = 8,
    /// [`types::Queue`]: `QU`.
    Queue = 9,
    /// [`types::CallerId`]: `PN`.
    CallerId = 10,
    /// [`types::Transcription`]: `TR`.
    Transcription = 11,
    /// [`types::UploadedFile`]: `UP`.
    Upload = 12,
    /// [`key::ApiKey`]: `SK`.
    ApiKey = 13,
    /// [`types::Recording`]: voicemail of a removed account, whose sound is still to be deleted. Applications see none of it.
    RemovedVoicemail = 14,
}

impl Kind {
    /// `None`: a kind of a later version.
    pub(crate) fn from_number(number: u8) -> Option<Kind> {
        const KINDS: [Kind; 15] = [
            Kind::Account,
            Kind::Application,
            Kind::IncomingNumber,
            Kind::Client,
            Kind::Call,
            Kind::Conference,
            Kind::Recording,
            Kind::Notification,
            Kind::Message,
            Kind::Queue,
            Kind::CallerId,
            Kind::Transcription,
            Kind::Upload,
            Kind::ApiKey,
            Kind::RemovedVoicemail,
        ];
        KINDS.get(usize::from(number)).copied()
    }
}

/// A resource that can be a row.
pub trait Resource: Serialize + DeserializeOwned {
    /// The kind of all rows of this type.
    const KIND: Kind;

    /// The row without its body.
    fn columns(&self) -> Row;

    /// Fails on a value beyond its limit.
    fn row(&self) -> Result<Row, StoreError> {
        let body = serde_json::to_string(self)
            .map_err(|error| StoreError::Internal { detail: format!("a resource's body: {error}") })?;
        crate::types::check_length("body of a resource", body.len(), limits::MAX_REST_BODY)?;
        Ok(Row { kind: Self::KIND, body: body.into(), ..self.columns() })
    }

    /// Decodes the body.
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        serde_json::from_str(&row.body)
            .map_err(|error| StoreError::Internal { detail: format!("body of {}: {error}", row.sid) })
    }
}

/// One resource as it lies in the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The type that `body` decodes to.
    pub kind: Kind,
    /// Two letters and 32 hexadecimal digits; unique over all kinds.
    pub sid: Box<str>,
    /// The owner's sid; of an account, its parent's, or its own.
    pub account: Box<str>,
    /// The parent account or call, the call of a recording or notification, the recording of a transcription; of a queue
    /// that a request of the REST interface has made or changed, [`REQUESTED`].
    pub parent: Option<Box<str>>,
    /// E-mail address, number, login or friendly name; of a call, [`types::RestCall::node_life`].
    pub name: Option<Box<str>>,
    /// The resource's `status`, in Twilio's words; of a notification, its `log`.
    pub status: Option<Box<str>>,
    /// The sender's number, user or URI of a call, message or voicemail.
    pub from: Option<Box<str>>,
    /// The recipient's number, user or URI of a call or message; the account of voicemail.
    pub to: Option<Box<str>>,
    /// `inbound`, `outbound-api` and so on, of a call or message.
    pub direction: Option<Box<str>>,
    /// Seconds of a call or recording; segments of a message.
    pub amount: Option<i64>,
    /// Twilio's `date_created`; lists are sorted by it unless another column is asked for.
    pub created_at: Instant,
    /// Twilio's `date_updated`: the time of the last write.
    pub updated_at: Instant,
    /// The time at which a call ended, or at which voicemail was heard.
    pub ended_at: Option<Instant>,
    /// JSON.
    pub body: Box<str>,
}

impl Row {
    /// A row without the columns that only some kinds have, and without its body.
    pub(crate) fn new(
        kind: Kind,
        sid: &str,
        account: &str,
        created_at: Instant,
        updated_at: Instant,
    ) -> Self {
        Row {
            kind,
            sid: sid.into(),
            account: account.into(),
            parent: None,
            name: None,
            status: None,
            from: None,
            to: None,
            direction: None,
            amount: None,
            created_at,
            updated_at,
            ended_at: None,
            body: "".into(),
        }
    }
}

/// A write of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum RestWrite {
    /// `StoreError::Exists` when the sid, or a name that must be its own, is taken.
    Insert(Box<Row>),
    /// Inserted unless its sid, or a name that must be its own, is taken: `WriteDone::Changed`, of one row or none.
    Ensure(Box<Row>),
    /// The row of the same sid and kind.
    Replace(Box<Row>),
    /// Delete one row; a row that is not there is an error.
    Remove {
        /// The kind of the row.
        kind: Kind,
        /// The sid of the row.
        sid: Box<str>,
    },
    /// Delete the oldest rows of a kind that were made before; at most `limits::CLEAN_CHUNK` at a time.
    Forget {
        /// The kind of the rows.
        kind: Kind,
        /// Rows whose `created_at` is earlier are deleted.
        before: Instant,
    },
}

/// A read of resources.
#[derive(Clone, Debug, PartialEq)]
pub enum RestRead {
    /// Answered with `RestLoaded::Row`.
    Sid {
        /// The kind of the row: a row of that sid and another kind is not found.
        kind: Kind,
        /// The sid of the row.
        sid: Box<str>,
    },
    /// By its name, among those of one account or (accounts, numbers, clients) all. Answered with
    /// `RestLoaded::Row`.
    Name {
        /// The kind of the row.
        kind: Kind,
        /// The owner's sid; `None` searches all accounts.
        account: Option<Box<str>>,
        /// The whole value of the column `name`.
        name: Box<str>,
    },
    /// Answered with `RestLoaded::Page`.
    List(RestFilter),
    /// Answered with `RestLoaded::Sums`.
    Usage(UsageFilter),
}

/// The answer to a [`RestRead`].
#[derive(Clone, Debug, PartialEq)]
pub enum RestLoaded {
    /// The row; `None` if there is none.
    Row(Option<Box<Row>>),
    /// One page of a list.
    Page {
        /// The rows of the page, in the order that the filter asked for.
        rows: Vec<Row>,
        /// Rows that match, on all pages.
        total: u64,
    },
    /// One sum for each kind, direction and period with at least one row.
    Sums(Vec<Sum>),
}

/// The column that a list is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortBy {
    /// By the time of creation.
    #[default]
    Created,
    /// By the sender.
    From,
    /// By the recipient.
    To,
    /// By the direction.
    Direction,
    /// By the status.
    Status,
    /// By seconds of a call or recording, or segments of a message.
    Amount,
    /// By e-mail address, number, login or friendly name.
    Name,
}

/// The rows to list. Texts match as a whole; times are inclusive.
#[derive(Clone, Debug, PartialEq)]
pub struct RestFilter {
    /// The kind of the rows.
    pub kind: Kind,
    /// All accounts when `None`.
    pub account: Option<Box<str>>,
    /// The parent's sid.
    pub parent: Option<Box<str>>,
    /// The value of the column `name`.
    pub name: Option<Box<str>>,
    /// The value of the column `status`.
    pub status: Option<Box<str>>,
    /// The sender of a call or message.
    pub from: Option<Box<str>>,
    /// The recipient of a call or message.
    pub to: Option<Box<str>>,
    /// The earliest `created_at`.
    pub created_from: Option<Instant>,
    /// The latest `created_at`.
    pub created_to: Option<Instant>,
    /// The earliest `ended_at`; rows that have not ended do not match.
    pub ended_from: Option<Instant>,
    /// The latest `ended_at`; rows that have not ended do not match.
    pub ended_to: Option<Instant>,
    /// The column that the rows are sorted by.
    pub sort: SortBy,
    /// Oldest, or least, first.
    pub ascending: bool,
    /// Rows to leave out before the first one of the page.
    pub offset: u64,
    /// Rows at most; cut to `limits::MAX_PAGE`.
    pub limit: u32,
}

impl RestFilter {
    /// Everything of a kind, newest first.
    pub fn all(kind: Kind) -> Self {
        RestFilter {
            kind,
            account: None,
            parent: None,
            name: None,
            status: None,
            from: None,
            to: None,
            created_from: None,
            created_to: None,
            ended_from: None,
            ended_to: None,
            sort: SortBy::Created,
            ascending: false,
            offset: 0,
            limit: limits::MAX_PAGE,
        }
    }
}

/// The periods that usage is divided into, in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    /// One period for all time.
    All,
    /// Calendar days.
    Day,
    /// Calendar months.
    Month,
    /// Calendar years.
    Year,
}

/// The rows to sum up.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageFilter {
    /// The sid of the account; the rows of its sub-accounts are not counted.
    pub account: Box<str>,
    /// Inclusive.
    pub from: Option<Instant>,
    /// Exclusive.
    pub to: Option<Instant>,
    /// The length of a period.
    pub by: Period,
}

/// The sums of one kind and direction in one period.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sum {
    /// The kind of the rows.
    pub kind: Kind,
    /// The direction of the calls or messages; `None` for other kinds.
    pub direction: Option<Box<str>>,
    /// `2026`, `2026-11`, `2026-11-21`, or empty for all time.
    pub period: Box<str>,
    /// Rows.
    pub count: u64,
    /// The sum of the rows' `amount`.
    pub amount: u64,
    /// The sum of the rows' `amount` in whole minutes, each rounded up.
    pub minutes: u64,
}

/// A fixed key: the sids must be the same at every start and at every node.
const QUEUES: Keyed = Keyed::new(*b"belfry's queues!");

/// The column `parent` of queues that a request of the REST interface has made or changed: a program that reads these reads none of
/// the many that documents make.
pub const REQUESTED: &str = "requested";

/// A queue is known by its name, in documents and to the REST interface: its sid follows from the name, so
/// that both make the same row.
pub fn queue_sid(account: &str, name: &str) -> String {
    format!("QU{:032x}", QUEUES.hash128(&[account.as_bytes(), b"\0", name.as_bytes()].concat()))
}
