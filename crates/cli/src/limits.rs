//! Limits of the commands, with their reasons and what happens at them.

/// Rows of an import in one transaction while a node runs: a phone's REGISTER waits behind it, at most for
/// some tens of milliseconds. Without a node the store's own batch is used.
pub(crate) const IMPORT_BATCH_BESIDE_NODE: usize = 5_000;

/// Files of XEP-0227 that include each other, one within the other: its own layout has three (main, host, user). Beyond: the
/// import ends.
pub(crate) const IMPORT_INCLUDES: usize = 8;

/// Accounts, and reasons why others were not imported, that an import names at its end. The rest is counted.
pub(crate) const IMPORT_NAMED: usize = 20;

/// Accounts whose repetition `account import --check` notices, by hashes of some 16 bytes each: more than the largest measured store has. Of further
/// ones it notices no repetition.
pub(crate) const IMPORT_SEEN: usize = 30_000_000;

/// Bad lines that `account import --check` names: a screen of a terminal, many times over. The rest is counted.
pub(crate) const IMPORT_CHECKED: usize = 1_000;

/// Bytes of the values of one row of another server's tables: rows of accounts have some hundred. A larger one is not taken; only a row of a table
/// that is asked for is kept at all.
pub(crate) const IMPORT_ROW: usize = 1 << 20;

/// Tables of a dump whose columns are remembered, and whose rows are counted: no server has a thousand. Further ones are not.
pub(crate) const IMPORT_TABLES: usize = 1_000;

/// Columns of one of its tables: MySQL allows 4,096, tables of accounts have some dozens. Rows with further ones are not taken.
pub(crate) const IMPORT_COLUMNS: usize = 1_000;

/// Bytes of a name in a dump: MySQL allows 64 characters. Of a longer one the beginning counts.
pub(crate) const IMPORT_TABLE_NAME: usize = 256;

/// Aliases that an import keeps in memory until all accounts are there, some 20 MB. Further ones are not taken: they come with another import,
/// of the table of aliases alone.
pub(crate) const IMPORT_ALIASES: usize = 100_000;

/// Accounts of Openfire that an import keeps in memory until their keys of SCRAM come, some 30 MB. Further ones are not taken.
pub(crate) const IMPORT_WAITING: usize = 200_000;

/// Keys of SCRAM of one account: one for each hash that there is. Further ones are left out.
pub(crate) const IMPORT_HASHES: usize = 3;

/// Bytes of one file of Asterisk, and of all that is kept of its sections: an account takes some 200, so it is a hundred thousand of them. Beyond:
/// the import ends.
pub(crate) const IMPORT_CONFIG: usize = 64 << 20;

/// Bytes of one line of a file of Asterisk, which itself reads 8,192. A longer one is not taken.
pub(crate) const IMPORT_CONFIG_LINE: usize = 8 << 10;

/// Values of one section of a file of Asterisk, those of its templates among them. A section with more is not taken.
pub(crate) const IMPORT_SECTION: usize = 256;

/// Bytes of white space before what tells XML from lines. More: it is lines.
pub(crate) const IMPORT_LOOK: usize = 1 << 10;

/// One answer of a server that `belfry doctor` asks: DNS, the database, NATS. Beyond: the server counts as unreachable.
pub(crate) const DOCTOR_PATIENCE: std::time::Duration = std::time::Duration::from_secs(3);

/// Bytes of the first line of a NATS server, which names its settings. More: it is no NATS server.
pub(crate) const DOCTOR_NATS_LINE: usize = 4 << 10;

/// Letters and digits of the first account's password that `belfry init` makes: 100 bits.
pub(crate) const FIRST_PASSWORD: usize = 20;
