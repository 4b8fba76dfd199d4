//! Connecting: names, TCP, TLS.
//!
//! What always holds: no byte of a request leaves here, so whatever fails here cost nothing; only
//! here is another address tried. All of it together ends within its limit.
//!
//! What it does not do: keep connections (`reserve`), or look at what comes over them.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::endpoint::Endpoint;
use super::stream::Stream;

/// No connection could be had. Nothing of any request was sent.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    /// The name did not resolve.
    #[error("the upstream's name did not resolve")]
    Resolve(#[source] io::Error),
    /// It resolved to nothing.
    #[error("the upstream's name has no address")]
    NoAddress,
    /// No address accepted a connection; the last one's error.
    #[error("the upstream did not accept a connection")]
    Connect(#[source] io::Error),
    /// The TLS handshake failed.
    #[error("the TLS handshake with the upstream failed")]
    Tls(#[source] io::Error),
    /// All of it took too long.
    #[error("no connection to the upstream within {} ms", .0.as_millis())]
    TimedOut(Duration),
    /// The connection was no sooner open than closed again, or spoke unasked.
    #[error("the upstream closed the new connection")]
    Closed,
}

/// Opens a connection within `limit`. `wrap` is laid around the TCP stream, below TLS.
pub(super) async fn open<T>(
    endpoint: &Endpoint,
    limit: Duration,
    wrap: impl FnOnce(TcpStream) -> T,
) -> Result<Stream<T>, Unreachable>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    let opening = async {
        let io = wrap(dial(endpoint, limit).await?);
        let Some(tls) = endpoint.tls() else {
            return Ok(Stream::Plain(io));
        };
        let connector = TlsConnector::from(tls.config.clone());
        let stream = connector
            .connect(tls.name.clone(), io)
            .await
            .map_err(Unreachable::Tls)?;
        Ok(Stream::Tls(Box::new(stream)))
    };
    // Boxed: a handshake's state is large, and rare enough for an allocation.
    timeout(limit, Box::pin(opening))
        .await
        .unwrap_or(Err(Unreachable::TimedOut(limit)))
}

/// Tries every address in the resolver's order. Each has an equal share of the time, so that one
/// black hole does not use up what the others need.
async fn dial(endpoint: &Endpoint, limit: Duration) -> Result<TcpStream, Unreachable> {
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(endpoint.address())
        .await
        .map_err(Unreachable::Resolve)?
        .collect();
    let share = limit / u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let mut failure = Unreachable::NoAddress;
    for address in addresses {
        match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(tcp)) => {
                // A head and its content in two packets must not wait for each other.
                tcp.set_nodelay(true).map_err(Unreachable::Connect)?;
                return Ok(tcp);
            }
            Ok(Err(error)) => failure = Unreachable::Connect(error),
            Err(_elapsed) => failure = Unreachable::TimedOut(share),
        }
    }
    Err(failure)
}
