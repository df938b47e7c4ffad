//! One node: shards, the record, and what an operator sees of them.

use crate::config::Config;

/// Runs until drained or stopped.
pub fn run(config: Config) -> anyhow::Result<()> {
    drop(config);
    anyhow::bail!("this build has no shards yet")
}
