//! Reading an answer to its end.
//!
//! What always holds: an answer is complete or it is none. Complete means a final status, a length
//! that was met, or chunks that were ended (or no content by its status or method); an answer that is
//! ended by nothing but the closing of the connection counts only where the limits accept it. An
//! answer too large to keep is as complete as any other, without its content.
//!
//! What it does not do: undo content codings, follow redirects, keep trailers, or judge the answer.

use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;

use super::fields;
use super::onward::{Onward, PassingOn};
use crate::clock;
use crate::protocol::outcome::Answer;
use crate::protocol::time::BootInstant;
use crate::wire::body::BodyBudget;

/// How an answer's content ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// By its length, zero included, or by chunks.
    Certain,
    /// With the connection, whatever the reason.
    ByClose,
    /// A transfer coding that we would have to undo, or two framings that may disagree.
    Unknown,
}

/// Why an answer is none.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unusable {
    /// 101, or beyond 599.
    #[error("the answer's status is {0}, which is not final")]
    NotFinal(StatusCode),
    /// Nothing says where it ends, or in a way that we do not read.
    #[error("nothing reliable says where the answer's content ends")]
    Unframed,
    /// Its content ended before its end.
    #[error("the answer's content was cut short")]
    CutShort(#[source] hyper::Error),
}

/// What of an answer's content is kept, and where the rest goes.
pub(super) struct Keeping {
    /// Content of more bytes is not kept.
    pub(super) limit: usize,
    /// All content that is held at once counts against it. An answer that finds no room is too large
    /// to keep.
    pub(super) bodies: BodyBudget,
    /// Who gets an answer that is too large to keep.
    pub(super) onward: Option<Onward>,
    /// When sending began.
    pub(super) begun: BootInstant,
    /// How long all of it may take from then on.
    pub(super) response: Duration,
}

impl Keeping {
    /// How long whoever takes the answer may hold the reading up, in all: half of the time that is left,
    /// so that the other half stays for the upstream.
    fn patience(&self) -> Duration {
        let taken = Duration::from_millis(clock::boottime().since(self.begun).0);
        self.response.saturating_sub(taken) / 2
    }
}

/// Of every answer so much is kept without asking for room: small answers, which are almost all, must
/// not be lost because somebody uploads. What that takes is bounded by the requests under way.
const FREE: usize = 16 << 10;

/// Reads the rest of an answer. Content that is too large to keep is passed on, and read to its end
/// whoever takes it.
pub(super) async fn read(
    response: Response<Incoming>,
    keeping: Keeping,
    accept_by_close: bool,
) -> Result<Answer, Unusable> {
    let (head, content) = response.into_parts();
    let status = head.status.as_u16();
    if !(200..=599).contains(&status) {
        return Err(Unusable::NotFinal(head.status));
    }
    match framing(&head.headers, &content) {
        Framing::Certain => {}
        Framing::ByClose if accept_by_close => {}
        Framing::ByClose | Framing::Unknown => return Err(Unusable::Unframed),
    }
    let mut answer = Answer {
        status,
        fields: fields::end_to_end(&head.headers),
        body: None,
    };
    answer.body = collect(&answer, content, keeping)
        .await
        .map_err(Unusable::CutShort)?;
    Ok(answer)
}

/// hyper has judged status, method and lengths already; what it does not tell is whether content of
/// unknown length is chunked.
fn framing(fields: &HeaderMap, content: &Incoming) -> Framing {
    if content.is_end_stream() || content.size_hint().exact().is_some() {
        return Framing::Certain;
    }
    let mut codings = fields
        .get_all(TRANSFER_ENCODING)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii);
    match (codings.next(), codings.next()) {
        (None, _) => Framing::ByClose,
        // Whoever reads the length instead sees another answer (RFC 9112, 6.3).
        (Some(_), _) if fields.contains_key(CONTENT_LENGTH) => Framing::Unknown,
        (Some(only), None) if only.eq_ignore_ascii_case(b"chunked") => Framing::Certain,
        (Some(_), _) => Framing::Unknown,
    }
}

/// `None`: too large to keep.
async fn collect(
    head: &Answer,
    mut content: Incoming,
    keeping: Keeping,
) -> Result<Option<Bytes>, hyper::Error> {
    let length = content.size_hint().exact();
    let mut kept = keeping.bodies.gathering(FREE);
    while let Some(frame) = content.frame().await {
        let Ok(piece) = frame?.into_data() else {
            continue;
        };
        let so_far = kept.len().saturating_add(piece.len());
        if so_far > keeping.limit || kept.make_room(so_far).is_err() {
            let patience = keeping.patience();
            let passing = keeping.onward.and_then(|onward| {
                let head = (head.status, head.fields.clone(), length);
                onward.begin(head, kept.finish(), patience)
            });
            pass_on(piece, content, passing).await?;
            return Ok(None);
        }
        kept.push(piece);
    }
    Ok(Some(kept.finish()))
}

/// Reads content to its end, whether or not anybody takes it.
async fn pass_on(
    first: Bytes,
    mut content: Incoming,
    mut passing: Option<PassingOn>,
) -> Result<(), hyper::Error> {
    let mut piece = Some(first);
    loop {
        if let Some(piece) = piece {
            passing = match passing {
                Some(passing) => passing.pass(piece).await,
                None => None,
            };
        }
        let Some(frame) = content.frame().await else {
            break;
        };
        piece = frame?.into_data().ok();
    }
    if let Some(passing) = passing {
        passing.end();
    }
    Ok(())
}
