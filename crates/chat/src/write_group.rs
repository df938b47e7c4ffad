//! One continuation for several writes: it runs when the last of them is answered.
//!
//! The store answers each write by a continuation of its own. A group counts them: each closure of
//! [`WriteGroup::one`] is given to one write, and the last one to be called runs the continuation. Shared by
//! `Rc`, as a host is of one thread.

use std::cell::RefCell;
use std::rc::Rc;

use stdx::Instant;
use xmpp::stanza::StanzaError;

use super::{Host, Outbox};

/// A continuation that gets the outcome of a write.
pub(super) type WriteContinuation = Box<dyn FnOnce(&mut Host, Instant, Result<(), StanzaError>, &mut Outbox)>;

/// Writes that are under way, and the continuation. It gets the first error among them.
#[derive(Clone)]
pub(super) struct WriteGroup(Rc<RefCell<OpenWrites>>);

/// The state that the closures of a group share.
struct OpenWrites {
    /// Writes that are not answered.
    left: usize,
    result: Result<(), StanzaError>,
    then: Option<WriteContinuation>,
}

impl WriteGroup {
    pub(super) fn new(then: WriteContinuation) -> WriteGroup {
        WriteGroup(Rc::new(RefCell::new(OpenWrites { left: 0, result: Ok(()), then: Some(then) })))
    }

    /// Counts one more write; its outcome goes into the closure. A caller holds one of its own until all are
    /// counted: otherwise a write that is answered at once would be the last one.
    pub(super) fn one(
        &self,
    ) -> impl FnOnce(&mut Host, Instant, Result<(), StanzaError>, &mut Outbox) + 'static + use<> {
        self.0.borrow_mut().left += 1;
        let writes = Rc::clone(&self.0);
        move |host, now, result, out| {
            let (then, result) = {
                let mut writes = writes.borrow_mut();
                writes.left -= 1;
                if writes.result.is_ok() {
                    writes.result = result;
                }
                let is_last = writes.left == 0;
                (writes.then.take_if(|_| is_last), writes.result.clone())
            };
            if let Some(then) = then {
                then(host, now, result, out);
            }
        }
    }
}
