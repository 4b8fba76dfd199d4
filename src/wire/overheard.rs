//! Content on its way through, overheard.
//!
//! What always holds: what passes is what came, frame by frame and no later; its length is told as it
//! was told. Whoever listens is told once: of the whole content, or why it cannot be had. A listener
//! without room goes without, and the content passes all the same.
//!
//! What it does not do: wait, or hold anything back. It polls by hand, because it must pass a frame on
//! in the moment that it hears it, and no adapter keeps the declared length.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use super::body::{BodyBudget, Gathering};

/// What was heard of some content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// All of it.
    Whole(Bytes),
    /// It is longer than the listener wants it.
    TooLarge,
    /// There was no room for it.
    NoRoom,
    /// It did not come to its end.
    CutOff,
}

/// Content that somebody may be listening to.
pub struct Overheard<B> {
    inner: B,
    ear: Option<Ear>,
}

/// A listener.
pub struct Ear {
    limit: usize,
    hearing: Hearing,
    tell: Option<Box<dyn FnOnce(Heard) + Send>>,
}

enum Hearing {
    Well(Gathering),
    Badly(Heard),
}

impl Ear {
    /// Listens to at most `limit` bytes, within `budget`, and then tells; within the poll that brings
    /// the end of the content, so before anybody can act on that end.
    pub fn new(
        budget: &BodyBudget,
        limit: usize,
        tell: impl FnOnce(Heard) + Send + 'static,
    ) -> Self {
        Self {
            limit,
            hearing: Hearing::Well(budget.gathering(0)),
            tell: Some(Box::new(tell)),
        }
    }

    fn hear(&mut self, piece: &Bytes) {
        let nothing = Hearing::Badly(Heard::CutOff);
        self.hearing = match std::mem::replace(&mut self.hearing, nothing) {
            Hearing::Well(mut gathering) => {
                let length = gathering.len().saturating_add(piece.len());
                if length > self.limit {
                    Hearing::Badly(Heard::TooLarge)
                } else if gathering.make_room(length).is_err() {
                    Hearing::Badly(Heard::NoRoom)
                } else {
                    gathering.push(piece.clone());
                    Hearing::Well(gathering)
                }
            }
            badly @ Hearing::Badly(_) => badly,
        };
    }

    fn end(mut self) {
        let nothing = Hearing::Badly(Heard::CutOff);
        let heard = match std::mem::replace(&mut self.hearing, nothing) {
            Hearing::Well(gathering) => Heard::Whole(gathering.finish()),
            Hearing::Badly(why) => why,
        };
        if let Some(tell) = self.tell.take() {
            tell(heard);
        }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        if let Some(tell) = self.tell.take() {
            tell(Heard::CutOff);
        }
    }
}

impl<B: Body<Data = Bytes>> Overheard<B> {
    /// Nobody listens.
    pub fn by_nobody(inner: B) -> Self {
        Self { inner, ear: None }
    }

    /// `ear` listens.
    pub fn by(inner: B, ear: Ear) -> Self {
        let mut overheard = Self {
            inner,
            ear: Some(ear),
        };
        overheard.notice_end();
        overheard
    }

    fn notice_end(&mut self) {
        if self.inner.is_end_stream()
            && let Some(ear) = self.ear.take()
        {
            ear.end();
        }
    }
}

impl<B> Body for Overheard<B>
where
    B: Body<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(ear), Some(piece)) = (&mut self.ear, frame.data_ref()) {
                    ear.hear(piece);
                }
                self.notice_end();
            }
            Poll::Ready(Some(Err(_))) => self.ear = None,
            Poll::Ready(None) => {
                if let Some(ear) = self.ear.take() {
                    ear.end();
                }
            }
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use http_body_util::channel::Channel;
    use http_body_util::{BodyExt, Full};

    use super::*;

    type Told = Arc<Mutex<Vec<Heard>>>;

    fn ear(budget: &BodyBudget, limit: usize) -> (Ear, Told) {
        let told = Told::default();
        let tell = Arc::clone(&told);
        let ear = Ear::new(budget, limit, move |heard| tell.lock().unwrap().push(heard));
        (ear, told)
    }

    fn full(text: &'static str) -> Full<Bytes> {
        Full::new(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn what_passes_is_what_came_and_the_listener_has_it_too() {
        let budget = BodyBudget::new(10);
        let (ear, told) = ear(&budget, 10);
        let body = Overheard::by(full("abc"), ear);
        assert_eq!(
            body.size_hint().exact(),
            Some(3),
            "the length stays declared"
        );
        assert_eq!(body.collect().await.unwrap().to_bytes(), "abc");
        let heard = std::mem::take(&mut *told.lock().unwrap());
        assert_eq!(heard, [Heard::Whole(Bytes::from_static(b"abc"))]);
        assert_eq!(budget.left(), 7);
        drop(heard);
        assert_eq!(budget.left(), 10);
    }

    #[tokio::test]
    async fn no_content_is_heard_at_once() {
        let (ear, told) = ear(&BodyBudget::new(1), 1);
        let _body = Overheard::by(full(""), ear);
        assert_eq!(*told.lock().unwrap(), [Heard::Whole(Bytes::new())]);
    }

    #[tokio::test]
    async fn content_passes_whole_where_the_listener_has_no_room_or_wants_less() {
        for (room, limit, expected) in [(100, 4, Heard::TooLarge), (4, 100, Heard::NoRoom)] {
            let budget = BodyBudget::new(room);
            let (ear, told) = ear(&budget, limit);
            let (mut sender, channel) = Channel::<Bytes, std::convert::Infallible>::new(4);
            for piece in ["abc", "def", "g"] {
                sender
                    .send_data(Bytes::from_static(piece.as_bytes()))
                    .await
                    .unwrap();
            }
            drop(sender);
            let body = Overheard::by(channel, ear);
            assert_eq!(body.collect().await.unwrap().to_bytes(), "abcdefg");
            assert_eq!(*told.lock().unwrap(), [expected]);
            assert_eq!(budget.left(), room, "what is not listened to takes no room");
        }
    }

    #[tokio::test]
    async fn content_that_breaks_off_was_not_heard() {
        let budget = BodyBudget::new(10);
        let (one, told) = ear(&budget, 10);
        let (mut sender, channel) = Channel::<Bytes, std::io::Error>::new(4);
        sender.send_data(Bytes::from_static(b"abc")).await.unwrap();
        sender.abort(std::io::ErrorKind::ConnectionReset.into());
        assert!(Overheard::by(channel, one).collect().await.is_err());
        assert_eq!(*told.lock().unwrap(), [Heard::CutOff]);
        // Nor if whoever forwards it lets go.
        let (other, told) = ear(&budget, 10);
        drop(Overheard::by(full("abc"), other));
        assert_eq!(*told.lock().unwrap(), [Heard::CutOff]);
        assert_eq!(budget.left(), 10);
    }
}
