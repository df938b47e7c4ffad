//! The choice of the best response: RFC 3261 §16.7 step 6.

use bytes::Bytes;

/// The best final response so far. Without any, 408 (§16.7 step 6, first paragraph).
#[derive(Debug, Default)]
pub(crate) struct Best {
    status: u16,
    /// `None` when the response was not received but concluded (timeout, no route).
    response: Option<Bytes>,
}

impl Best {
    pub(crate) fn consider(&mut self, status: u16, response: Option<Bytes>) {
        if self.status == 0 || rank(status) < rank(self.status) {
            *self = Best { status, response };
        }
    }

    pub(crate) fn take(&mut self) -> (u16, Option<Bytes>) {
        let best = std::mem::take(self);
        if best.status == 0 { (408, None) } else { (best.status, best.response) }
    }
}

/// Smaller is better. 6xx decides; then the lowest class; within 4xx those that help the caller resubmit.
fn rank(status: u16) -> u16 {
    match status {
        600.. => 0,
        // §16.7 step 6: "give preference to responses that provide information affecting resubmission".
        401 | 407 => 400,
        415 | 420 | 484 => 401,
        // A branch that could not even be asked says less than one that answered.
        408 => 498,
        487 => 499,
        400..=499 => 410,
        503 => 599,
        _ => status,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_section_16_7() {
        let choose = |statuses: &[u16]| {
            let mut best = Best::default();
            for &status in statuses {
                best.consider(status, None);
            }
            best.take().0
        };
        assert_eq!(choose(&[]), 408);
        assert_eq!(choose(&[486, 404]), 486, "the first of equals");
        assert_eq!(choose(&[486, 407]), 407);
        assert_eq!(choose(&[503, 500]), 500);
        assert_eq!(choose(&[500, 486]), 486);
        assert_eq!(choose(&[302, 486]), 302);
        assert_eq!(choose(&[302, 603]), 603);
        assert_eq!(choose(&[408, 486]), 486);
    }
}
