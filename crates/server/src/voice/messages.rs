//! Texts and mail that scripts send.

use ivr::document::{Email, code};
use ivr::script::{Failure, Id, Message};
use stdx::Instant;
use stdx::slab::Key;

use super::{Voice, World};

impl Voice {
    pub(super) fn send_message(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        _message: Message,
        world: &mut World<'_>,
    ) {
        let failure = Failure { code: code::MESSAGE, text: "Sms: not built yet".to_owned() };
        self.drive(now, actor, world, |script, out| script.handle_sent(now, id, Err(failure), out));
    }

    pub(super) fn send_mail(
        &mut self,
        now: Instant,
        actor: Key,
        id: Id,
        _mail: Email,
        world: &mut World<'_>,
    ) {
        let failure = Failure { code: code::MESSAGE, text: "Email: not built yet".to_owned() };
        self.drive(now, actor, world, |script, out| script.handle_sent(now, id, Err(failure), out));
    }
}
