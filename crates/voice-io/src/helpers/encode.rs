//! Sounds for codecs whose frames take time.

use std::rc::Rc;

use ::voice::Done;
use media::codec::Codec;
use media::prompt::Prompt;
use tokio::task::{spawn_blocking, spawn_local};

use super::cache::Samples;
use super::{Waiter, Worker};

impl Worker {
    /// The frames of a sound. The shard that asks keeps them.
    pub(super) fn encode(self: &Rc<Self>, (ticket, place): Waiter, codec: Codec, samples: Samples) {
        let worker = Rc::clone(self);
        spawn_local(async move {
            let turn = worker.encoders.acquire().await;
            let made = spawn_blocking(move || Prompt::encode(codec, &samples, Prompt::SAMPLE_RATE)).await;
            drop(turn);
            let result = match made {
                Ok(result) => result.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            drop(place);
            worker.deliver.deliver(ticket, Done::Encoded(result));
        });
    }
}
