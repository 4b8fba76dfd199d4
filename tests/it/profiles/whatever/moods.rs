//! Whatever the upstream does: what befalls the next request, be it an effect, a repeat or a question.
//!
//! What always holds: every mood is one that an honest upstream can have. It may lose, hold, cut and forget to say; it
//! never says that something was done which was not, or that something was not done which was or still may be. What
//! is held comes late, but well within the lag that the profiles count with here.

use std::time::Duration;

use super::rows::Row;
use crate::support::dice::Dice;
use crate::support::gate::Gate;
use crate::support::script::{Ending, Script};

const PAGE: &str = "<html><body>We will be right back</body></html>";

/// What befalls one request.
pub(super) fn mood(dice: &mut Dice, row: &Row) -> Script {
    let shapes = &row.shapes;
    let says = |(status, body)| Script::refuse(status, body);
    let slow = Gate::slow(Duration::from_millis(20 * (1 + dice.roll() % 15)));
    match dice.below(18) {
        0 => Script::cut_request_after(1 + dice.below(500)),
        1 | 2 => Script::lose_answer(),
        3 => Script::cut_answer_after(dice.below(150)),
        4 => Script::hold_effect(&slow),
        5 => Script::hold_effect(&slow).then(Ending::Reset),
        6 => Script::hold_answer(&slow),
        7 => Script::default().rest_held_at(dice.below(100), &slow),
        8 => Script::store(500, r#"{"error":"no idea"}"#),
        9 => Script::store_raw(page(200)),
        10 => {
            let (status, body) = shapes.refusal;
            Script::refuse_what_is_new(status, body, shapes.remembers_refusals)
        }
        11 => says(shapes.unprocessed),
        12 => says(shapes.running),
        13 => says(shapes.conflict),
        14 => says((503, r#"{"error":"not now"}"#)).held_at(&slow),
        15 => Script::answer_raw(page(502)),
        16 => Script::answer_raw("no HTTP at all\r\n\r\n").then(Ending::Close),
        _ => Script::default(),
    }
}

/// What stands there when nobody is at home.
pub(super) fn page(status: u16) -> String {
    let length = PAGE.len();
    format!(
        "HTTP/1.1 {status} Scripted\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n\r\n{PAGE}"
    )
}
