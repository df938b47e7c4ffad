//! The choice of the best response: RFC 3261 §16.7 step 6.

use bytes::Bytes;

/// The best final response of the branches so far.
#[derive(Debug, Default)]
pub(crate) struct BestResponse {
    status: u16,
    /// `None` when the response was not received but concluded (timeout, no route).
    response: Option<Bytes>,
    /// Further 401 and 407 responses: the caller gets their challenges too (§16.7 step 7).
    challenges: Vec<Bytes>,
    cancelled: bool,
}

/// The final response that a response context sends upstream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FinalResponse {
    pub(crate) status: u16,
    pub(crate) response: Option<Bytes>,
    pub(crate) challenges: Vec<Bytes>,
}

impl BestResponse {
    /// Takes a final response of a branch into account. `response` is `None` for a status that no peer sent.
    pub(crate) fn consider(&mut self, status: u16, response: Option<Bytes>) {
        if self.cancelled {
            // The 487 of a branch is preferred to one of our own.
            if status == 487 && response.is_some() {
                self.response = response;
            }
        } else if is_challenge(status) && is_challenge(self.status) {
            self.challenges.extend(response);
        } else if self.status == 0 || rank(status) < rank(self.status) {
            *self = BestResponse { status, response, ..BestResponse::default() };
        }
    }

    /// RFC 3261 §9.2: a cancelled INVITE is answered 487, whatever its branches answered before or answer later.
    pub(crate) fn cancel(&mut self) {
        if !self.cancelled {
            *self = BestResponse { status: 487, cancelled: true, ..BestResponse::default() };
        }
    }

    /// Without any response 408 (§16.7 step 6, first paragraph).
    pub(crate) fn take(&mut self) -> FinalResponse {
        let BestResponse { status, response, challenges, .. } = std::mem::take(self);
        FinalResponse { status: if status == 0 { 408 } else { status }, response, challenges }
    }
}

fn is_challenge(status: u16) -> bool {
    matches!(status, 401 | 407)
}

/// Smaller is better. 6xx decides; then the lowest class; within 4xx those that help the caller resubmit.
fn rank(status: u16) -> u16 {
    match status {
        600.. => 0,
        // §16.7 step 6: "give preference to responses that provide information affecting resubmission".
        401 | 407 => 400,
        415 | 420 | 484 => 401,
        // A branch without a response tells the caller less than one that answered.
        408 | 430 => 498,
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
            let mut best = BestResponse::default();
            for &status in statuses {
                best.consider(status, None);
            }
            best.take().status
        };
        assert_eq!(choose(&[]), 408);
        assert_eq!(choose(&[486, 404]), 486, "the first of equals");
        assert_eq!(choose(&[486, 407]), 407);
        assert_eq!(choose(&[503, 500]), 500);
        assert_eq!(choose(&[500, 486]), 486);
        assert_eq!(choose(&[302, 486]), 302);
        assert_eq!(choose(&[302, 603]), 603);
        assert_eq!(choose(&[408, 486]), 486);
        assert_eq!(choose(&[487, 408]), 408, "Timer C cancelled what was then answered 487");
    }

    #[test]
    fn a_cancelled_request_is_answered_487() {
        let mut best = BestResponse::default();
        best.consider(486, None);
        best.cancel();
        best.consider(603, Some(Bytes::from_static(b"603")));
        best.consider(408, None);
        best.consider(487, Some(Bytes::from_static(b"487")));
        best.cancel();
        let outcome = best.take();
        assert_eq!((outcome.status, outcome.response), (487, Some(Bytes::from_static(b"487"))));
    }

    #[test]
    fn all_challenges_reach_the_caller() {
        let mut best = BestResponse::default();
        for (status, text) in [(486, "a"), (407, "b"), (401, "c"), (404, "d"), (407, "e")] {
            best.consider(status, Some(Bytes::from_static(text.as_bytes())));
        }
        let outcome = best.take();
        assert_eq!((outcome.status, outcome.response), (407, Some(Bytes::from_static(b"b"))));
        assert_eq!(outcome.challenges, ["c", "e"]);
    }
}
