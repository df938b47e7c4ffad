//! The place of the configuration's database.

use chat_store::database::DatabasePlace;
use config::Config;

/// The place of the database that the configuration names.
pub fn place(config: &Config) -> DatabasePlace {
    DatabasePlace {
        folder: config.server.data.clone(),
        file: config.server.database(),
        url: config.store.url.clone(),
    }
}
