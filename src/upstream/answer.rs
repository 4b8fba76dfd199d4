//! Reading an answer to its end.
//!
//! What always holds: an answer is complete or it is none. Complete means a final status, a length
//! that was met, or chunks that were ended (or no content by its status or method); an answer that is
//! ended by nothing but the closing of the connection counts only where the limits accept it.
//!
//! What it does not do: undo content codings, follow redirects, keep trailers, or judge the answer.

use bytes::{Bytes, BytesMut};
use http::header::TRANSFER_ENCODING;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;

use super::fields;
use crate::protocol::outcome::Answer;

/// How an answer's content ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// By its length, zero included, or by chunks.
    Certain,
    /// With the connection, whatever the reason.
    ByClose,
    /// A transfer coding that we would have to undo.
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

/// Reads the rest of an answer. Content above `keep` bytes is read to its end but not kept.
pub(super) async fn read(
    response: Response<Incoming>,
    keep: usize,
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
    let fields = fields::end_to_end(&head.headers);
    let body = collect(content, keep).await.map_err(Unusable::CutShort)?;
    Ok(Answer {
        status,
        fields,
        body,
    })
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
        (Some(only), None) if only.eq_ignore_ascii_case(b"chunked") => Framing::Certain,
        (Some(_), _) => Framing::Unknown,
    }
}

/// `None`: too large to keep.
async fn collect(mut content: Incoming, keep: usize) -> Result<Option<Bytes>, hyper::Error> {
    let mut pieces = Vec::new();
    let mut length: usize = 0;
    while let Some(frame) = content.frame().await {
        if let Ok(piece) = frame?.into_data() {
            length = length.saturating_add(piece.len());
            if length > keep {
                pieces.clear();
            } else {
                pieces.push(piece);
            }
        }
    }
    Ok((length <= keep).then(|| joined(pieces, length)))
}

fn joined(mut pieces: Vec<Bytes>, length: usize) -> Bytes {
    if pieces.len() <= 1 {
        return pieces.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(length);
    for piece in pieces {
        whole.extend_from_slice(&piece);
    }
    whole.freeze()
}
