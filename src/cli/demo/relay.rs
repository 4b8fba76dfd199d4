//! The network between proxy and provider: it can be held up.
//!
//! What always holds: bytes arrive in order and unchanged, or not at all. While it is held, what a
//! sender has sent is neither lost nor delivered.
//!
//! What it does not do: reorder or drop.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The network, until it is dropped.
pub(super) struct Relay {
    address: SocketAddr,
    flowing: watch::Sender<bool>,
    held: watch::Receiver<usize>,
    _server: JoinSet<()>,
}

impl Relay {
    /// Starts one in front of `to`, on a free port.
    pub(super) async fn start(to: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let flowing = watch::Sender::new(true);
        let (holding, held) = watch::channel(0);
        let mut server = JoinSet::new();
        server.spawn(accept(listener, to, flowing.clone(), holding));
        Ok(Self {
            address,
            flowing,
            held,
            _server: server,
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on requests are held up on their way.
    pub(super) fn hold(&self) {
        self.flowing.send_replace(false);
    }

    /// What was held arrives.
    pub(super) fn release(&self) {
        self.flowing.send_replace(true);
    }

    /// Waits until some request is held up.
    pub(super) async fn holds_a_request(&mut self) {
        let _still_there = self.held.wait_for(|held| *held > 0).await;
    }
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    flowing: watch::Sender<bool>,
    holding: watch::Sender<usize>,
) {
    let mut links = JoinSet::new();
    while let Ok((near, _)) = listener.accept().await {
        let Ok(far) = TcpStream::connect(to).await else {
            continue;
        };
        let (near_read, near_write) = near.into_split();
        let (far_read, far_write) = far.into_split();
        links.spawn(carry(
            near_read,
            far_write,
            flowing.subscribe(),
            holding.clone(),
        ));
        links.spawn(carry_back(far_read, near_write));
    }
}

async fn carry(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut flowing: watch::Receiver<bool>,
    holding: watch::Sender<usize>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer).await {
        holding.send_modify(|held| *held = held.saturating_add(1));
        let _still_there = flowing.wait_for(|flowing| *flowing).await.map(drop);
        holding.send_modify(|held| *held = held.saturating_sub(1));
        let Some(bytes) = buffer.get(..count) else {
            return;
        };
        if to.write_all(bytes).await.is_err() {
            return;
        }
    }
}

async fn carry_back(mut from: OwnedReadHalf, mut to: OwnedWriteHalf) {
    let _hung_up = tokio::io::copy(&mut from, &mut to).await;
}
