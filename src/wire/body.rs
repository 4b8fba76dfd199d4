//! Reading a request's content within bounds.
//!
//! What always holds: nothing is read of content that declares itself too long, so that a caller who
//! waits for `100 Continue` is refused without one; all content held at once, over all requests,
//! stays within one budget; a byte counts against it from when it is read until the last holder of
//! the content lets go, whoever that is. Nobody waits for room: two readers that each wait for the
//! other's would wait for ever. Content that comes in one piece is not copied.
//!
//! What it does not do: time out (`proxy`), or keep trailers.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use http_body::Body;
use http_body_util::BodyExt;

use super::problem::Fault;

/// Why content was not read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Longer than allowed, declared or found.
    #[error("the content is longer than {limit} bytes")]
    TooLarge {
        /// The limit, in bytes.
        limit: usize,
    },
    /// All room for buffered content is taken.
    #[error("all room for buffered content is taken")]
    Overloaded,
    /// The caller went away, or its framing is broken.
    #[error("the content did not come to its end: {why}")]
    Broken {
        /// What the connection said.
        why: String,
    },
}

impl BodyError {
    /// What to tell the caller; `None` where the connection is of no use any more.
    pub fn fault(&self) -> Option<Fault> {
        match self {
            Self::TooLarge { limit } => Some(Fault::BodyTooLarge { limit: *limit }),
            Self::Overloaded => Some(Fault::Overloaded),
            Self::Broken { .. } => None,
        }
    }
}

/// Room for all buffered content together. Clones share it.
#[derive(Clone, Debug)]
pub struct BodyBudget {
    left: Arc<AtomicUsize>,
}

impl BodyBudget {
    /// `bytes`: how much may be held at once.
    pub fn new(bytes: usize) -> Self {
        Self {
            left: Arc::new(AtomicUsize::new(bytes)),
        }
    }

    /// How many bytes are free.
    pub fn left(&self) -> usize {
        self.left.load(Ordering::Relaxed)
    }

    /// Reads content of at most `limit` bytes to its end.
    pub async fn read<B>(&self, body: B, limit: usize) -> Result<Bytes, BodyError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let mut body = pin!(body);
        let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
        if declared > limit {
            return Err(BodyError::TooLarge { limit });
        }
        let mut share = Share::empty(self);
        share.cover(declared)?;
        let mut content = Content::None;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| BodyError::Broken {
                why: error.to_string(),
            })?;
            let Ok(piece) = frame.into_data() else {
                continue;
            };
            let length = content.len().saturating_add(piece.len());
            if length > limit {
                return Err(BodyError::TooLarge { limit });
            }
            share.cover(length)?;
            content = content.and(piece, declared);
        }
        Ok(content.held_by(share))
    }
}

/// Part of the budget; given back when dropped.
pub(super) struct Share {
    left: Arc<AtomicUsize>,
    bytes: usize,
}

impl Share {
    pub(super) fn empty(budget: &BodyBudget) -> Self {
        Self {
            left: Arc::clone(&budget.left),
            bytes: 0,
        }
    }

    /// Grows to that many bytes, unless it is as large.
    pub(super) fn cover(&mut self, bytes: usize) -> Result<(), BodyError> {
        let more = bytes.saturating_sub(self.bytes);
        let taken = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(more)
            });
        if taken.is_err() {
            return Err(BodyError::Overloaded);
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.left.fetch_add(self.bytes, Ordering::Relaxed);
    }
}

/// What was read so far.
pub(super) enum Content {
    None,
    /// As it came in.
    One(Bytes),
    Many(Vec<u8>),
}

impl Content {
    pub(super) fn len(&self) -> usize {
        self.as_ref().len()
    }

    pub(super) fn and(self, piece: Bytes, declared: usize) -> Self {
        match self {
            _ if piece.is_empty() => self,
            Self::None => Self::One(piece),
            Self::One(first) => {
                let mut all = Vec::with_capacity(declared.max(first.len() + piece.len()));
                all.extend_from_slice(&first);
                Self::Many(all).and(piece, declared)
            }
            Self::Many(mut all) => {
                all.extend_from_slice(&piece);
                Self::Many(all)
            }
        }
    }

    pub(super) fn held_by(self, share: Share) -> Bytes {
        match self {
            Self::None => Bytes::new(),
            Self::One(_) | Self::Many(_) => Bytes::from_owner(Held {
                content: self,
                _share: share,
            }),
        }
    }
}

impl AsRef<[u8]> for Content {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::None => &[],
            Self::One(bytes) => bytes,
            Self::Many(bytes) => bytes,
        }
    }
}

/// Content and the room it takes, which is given back when the last clone of the content is dropped.
struct Held {
    content: Content,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self.content.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use http_body_util::{Full, channel::Channel};
    use std::convert::Infallible;

    fn full(length: usize) -> Full<Bytes> {
        Full::new(Bytes::from(vec![b'x'; length]))
    }

    /// Content of unknown length, in pieces.
    async fn pieces(pieces: &[&'static [u8]]) -> Channel<Bytes, Infallible> {
        let (mut sender, body) = Channel::new(64);
        for piece in pieces {
            sender.send_data(Bytes::from_static(piece)).await.unwrap();
        }
        drop(sender);
        body
    }

    #[tokio::test]
    async fn content_is_read_whole_and_one_piece_is_not_copied() {
        let budget = BodyBudget::new(100);
        let one = Bytes::from(vec![b'x'; 10]);
        let read = budget.read(Full::new(one.clone()), 10).await.unwrap();
        assert_eq!(read, one);
        assert_eq!(read.as_ptr(), one.as_ptr());
        let many = pieces(&[b"ab", b"", b"cd", b"e"]).await;
        assert_eq!(budget.read(many, 5).await.unwrap(), "abcde");
        assert_eq!(budget.read(full(0), 0).await.unwrap(), "");
    }

    #[tokio::test]
    async fn the_limit_is_the_last_length_that_passes() {
        let budget = BodyBudget::new(100);
        let too_large = Err(BodyError::TooLarge { limit: 4 });
        assert!(budget.read(full(4), 4).await.is_ok());
        assert_eq!(budget.read(full(5), 4).await, too_large);
        let undeclared = pieces(&[b"ab", b"cde"]).await;
        assert_eq!(budget.read(undeclared, 4).await, too_large);
        assert_eq!(budget.left(), 100);
    }

    /// A body that must not be read: whoever polls it has sent a `100 Continue`.
    struct Untouched(u64);

    impl Body for Untouched {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            panic!("read")
        }

        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(self.0)
        }
    }

    #[tokio::test]
    async fn what_declares_itself_too_long_is_never_asked_for() {
        let budget = BodyBudget::new(1_000);
        let refused = budget.read(Untouched(999_999_999_999), 500).await;
        assert_eq!(refused, Err(BodyError::TooLarge { limit: 500 }));
        let refused = BodyBudget::new(10).read(Untouched(11), 500).await;
        assert_eq!(refused, Err(BodyError::Overloaded));
    }

    #[tokio::test]
    async fn room_is_taken_until_the_last_holder_lets_go() {
        let budget = BodyBudget::new(10);
        let first = budget.read(full(6), 10).await.unwrap();
        assert_eq!(budget.left(), 4);
        assert_eq!(budget.read(full(5), 10).await, Err(BodyError::Overloaded));
        let undeclared = pieces(&[b"abc", b"de"]).await;
        assert_eq!(
            budget.read(undeclared, 10).await,
            Err(BodyError::Overloaded)
        );
        assert_eq!(budget.left(), 4, "what was read in vain is given back");
        let slice = first.slice(1..2);
        drop(first);
        assert_eq!(budget.left(), 4);
        drop(slice);
        assert_eq!(budget.left(), 10);
    }

    #[tokio::test]
    async fn a_caller_that_goes_away_leaves_nothing_behind() {
        let budget = BodyBudget::new(10);
        let (mut sender, body) = Channel::<Bytes, std::io::Error>::new(4);
        sender.send_data(Bytes::from_static(b"abc")).await.unwrap();
        sender.abort(std::io::ErrorKind::ConnectionReset.into());
        let error = budget.read(body, 10).await.unwrap_err();
        assert!(matches!(error, BodyError::Broken { .. }));
        assert_eq!(error.fault(), None);
        assert_eq!(budget.left(), 10);
    }
}
