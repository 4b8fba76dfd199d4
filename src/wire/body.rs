//! Reading content within bounds: of requests, and of answers to them.
//!
//! What always holds: nothing is read of content that declares itself too long, so that a caller who
//! waits for `100 Continue` is refused without one; all content held at once, over all requests and
//! answers, stays within one budget; a byte counts against it from when it is read until the last holder of
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
    room: Arc<Room>,
}

/// In bytes.
#[derive(Debug)]
struct Room {
    held: AtomicUsize,
    limit: AtomicUsize,
}

impl BodyBudget {
    /// `bytes`: how much may be held at once.
    pub fn new(bytes: usize) -> Self {
        Self {
            room: Arc::new(Room {
                held: AtomicUsize::new(0),
                limit: AtomicUsize::new(bytes),
            }),
        }
    }

    /// How many bytes are free.
    pub fn left(&self) -> usize {
        let held = self.room.held.load(Ordering::Relaxed);
        self.room.limit.load(Ordering::Relaxed).saturating_sub(held)
    }

    /// From now on so much may be held at once. What is held stays, and counts.
    pub fn resize(&self, bytes: usize) {
        self.room.limit.store(bytes, Ordering::Relaxed);
    }

    /// Reads content of at most `limit` bytes to its end. Room for what it declares is taken at once.
    pub async fn read<B>(&self, body: B, limit: usize) -> Result<Bytes, BodyError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        let declared = declared(&body, limit)?;
        let mut gathering = self.gathering(0);
        gathering.expect(declared)?;
        gathered(gathering, body, limit).await
    }

    /// The same for content of whoever: it takes room as it comes, so that a mere declaration takes none.
    pub async fn read_as_it_comes<B>(&self, body: B, limit: usize) -> Result<Bytes, BodyError>
    where
        B: Body<Data = Bytes>,
        B::Error: std::fmt::Display,
    {
        declared(&body, limit)?;
        gathered(self.gathering(0), body, limit).await
    }

    /// Begins to gather content whose first `free` bytes count against nothing.
    pub fn gathering(&self, free: usize) -> Gathering {
        Gathering {
            share: Share {
                room: Arc::clone(&self.room),
                free,
                bytes: 0,
            },
            content: Content::None,
            expected: 0,
        }
    }
}

/// How long it says that it is; what says that it is too long is not read.
fn declared<B: Body>(body: &B, limit: usize) -> Result<usize, BodyError> {
    let declared = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if declared > limit {
        return Err(BodyError::TooLarge { limit });
    }
    Ok(declared)
}

async fn gathered<B>(mut gathering: Gathering, body: B, limit: usize) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes>,
    B::Error: std::fmt::Display,
{
    let mut body = pin!(body);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| BodyError::Broken {
            why: error.to_string(),
        })?;
        let Ok(piece) = frame.into_data() else {
            continue;
        };
        let length = gathering.len().saturating_add(piece.len());
        if length > limit {
            return Err(BodyError::TooLarge { limit });
        }
        gathering.make_room(length)?;
        gathering.push(piece);
    }
    Ok(gathering.finish())
}

/// Content that is being read, with the room that it takes.
pub struct Gathering {
    share: Share,
    content: Content,
    expected: usize,
}

impl Gathering {
    /// Makes room for all of it at once.
    pub fn expect(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.expected = bytes;
        self.make_room(bytes)
    }

    /// Makes room for that many bytes in all; `Overloaded` where there is none.
    pub fn make_room(&mut self, bytes: usize) -> Result<(), BodyError> {
        self.share.cover(bytes)
    }

    /// How much there is so far, in bytes.
    pub fn len(&self) -> usize {
        self.content.len()
    }

    /// Is there nothing yet?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds a piece, for which room was made.
    pub fn push(&mut self, piece: Bytes) {
        let so_far = std::mem::replace(&mut self.content, Content::None);
        self.content = so_far.and(piece, self.expected);
    }

    /// All of it. Its room is given back when the last clone of it is dropped.
    pub fn finish(self) -> Bytes {
        self.content.held_by(self.share)
    }
}

/// Part of the budget; given back when dropped.
struct Share {
    room: Arc<Room>,
    /// Bytes that take no room.
    free: usize,
    /// Bytes of the budget.
    bytes: usize,
}

impl Share {
    /// Grows to that many bytes, unless it is as large.
    fn cover(&mut self, bytes: usize) -> Result<(), BodyError> {
        let more = bytes.saturating_sub(self.free).saturating_sub(self.bytes);
        if more > 0 {
            let limit = self.room.limit.load(Ordering::Relaxed);
            let within = |held: usize| held.checked_add(more).filter(|held| *held <= limit);
            self.room
                .held
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, within)
                .map_err(|_full| BodyError::Overloaded)?;
        }
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// What was read so far.
enum Content {
    None,
    /// As it came in.
    One(Bytes),
    Many(Vec<u8>),
}

impl Content {
    fn len(&self) -> usize {
        self.as_ref().len()
    }

    fn and(self, piece: Bytes, declared: usize) -> Self {
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

    fn held_by(self, share: Share) -> Bytes {
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
    use futures_util::FutureExt as _;
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
        let refused = budget.read_as_it_comes(Untouched(501), 500).await;
        assert_eq!(refused, Err(BodyError::TooLarge { limit: 500 }));
    }

    #[tokio::test]
    async fn a_strangers_declaration_takes_no_room() {
        let budget = BodyBudget::new(10);
        let (mut sender, body) = Channel::<Bytes, Infallible>::new(4);
        let reading = budget.read_as_it_comes(Declaring(body, 9), 10);
        tokio::pin!(reading);
        assert!(reading.as_mut().now_or_never().is_none());
        assert_eq!(budget.left(), 10, "nothing came yet");
        sender.send_data(Bytes::from_static(b"abc")).await.unwrap();
        assert!(reading.as_mut().now_or_never().is_none());
        assert_eq!(budget.left(), 7);
        sender
            .send_data(Bytes::from_static(b"defghijk"))
            .await
            .unwrap();
        assert_eq!(
            reading.await,
            Err(BodyError::TooLarge { limit: 10 }),
            "whatever was declared"
        );
        assert_eq!(budget.left(), 10);
    }

    /// Content that says how long it will be.
    struct Declaring(Channel<Bytes, Infallible>, u64);

    impl Body for Declaring {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: std::pin::Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            std::pin::Pin::new(&mut self.0).poll_frame(context)
        }

        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(self.1)
        }
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
    async fn a_smaller_budget_waits_for_what_is_held_and_a_larger_one_is_there_at_once() {
        let budget = BodyBudget::new(10);
        let held = budget.read(full(8), 10).await.unwrap();
        budget.resize(5);
        assert_eq!(budget.left(), 0);
        assert_eq!(budget.read(full(1), 10).await, Err(BodyError::Overloaded));
        assert_eq!(budget.read(full(0), 10).await.unwrap(), "");
        budget.resize(12);
        assert_eq!(budget.left(), 4);
        budget.resize(5);
        drop(held);
        assert_eq!(budget.left(), 5);
        assert!(budget.read(full(5), 10).await.is_ok());
    }

    #[test]
    fn the_first_bytes_of_an_answer_take_no_room() {
        let budget = BodyBudget::new(10);
        let mut answer = budget.gathering(4);
        answer.make_room(4).unwrap();
        assert_eq!(budget.left(), 10);
        answer.make_room(14).unwrap();
        assert_eq!(answer.make_room(15), Err(BodyError::Overloaded));
        answer.push(Bytes::from_static(b"abcd"));
        let kept = answer.finish();
        assert_eq!((&kept[..], budget.left()), (&b"abcd"[..], 0));
        drop(kept);
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
