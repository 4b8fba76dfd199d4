//! What attempts are made to show.

use super::*;

pub(super) fn answer(status: u16, class: AnswerClass) -> Evidence {
    Evidence::Answered {
        answer: Answer {
            status,
            fields: Vec::new(),
            body: Some(Bytes::from_static(b"{}")),
        },
        class,
    }
}

pub(super) fn applied() -> Evidence {
    answer(200, AnswerClass::Applied)
}

pub(super) fn lost() -> Evidence {
    Evidence::Interrupted {
        phase: Phase::Waiting,
        why: Interruption::Closed,
    }
}

pub(super) fn timed_out() -> Evidence {
    Evidence::Interrupted {
        phase: Phase::Waiting,
        why: Interruption::Timeout,
    }
}

pub(super) fn not_sent() -> Evidence {
    Evidence::NotSent(Unsent::ConnectionLost)
}
