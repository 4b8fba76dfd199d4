//! TLS towards the database: rustls, as the driver wants it.
//!
//! What always holds: the server's certificate is verified for the name in the URL before a word of the
//! protocol is said over it. The driver's own name for TLS over PostgreSQL (`postgresql`) is offered, which
//! a server that is asked without the old greeting needs.
//!
//! What it does not do: choose whom to trust, or bind passwords to the certificate (SCRAM with `-PLUS`):
//! its purpose is to notice a server in the middle where certificates are not verified.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::ClientConfig;
use rustls::pki_types::{InvalidDnsNameError, ServerName};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::client;
use tokio_rustls::{Connect, TlsConnector};

/// What the protocol is called within TLS (ALPN).
const PROTOCOL: &[u8] = b"postgresql";

/// Makes sessions of TLS.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

/// One to be made, with whoever has that name.
pub(super) struct Named {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// A connection within TLS.
pub(super) struct Stream<S>(client::TlsStream<S>);

impl Tls {
    pub(super) fn new(config: &ClientConfig) -> Self {
        let mut config = config.clone();
        config.alpn_protocols = vec![PROTOCOL.to_vec()];
        Self(TlsConnector::from(Arc::new(config)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Stream<S>;
    type TlsConnect = Named;
    type Error = InvalidDnsNameError;

    fn make_tls_connect(&mut self, host: &str) -> Result<Named, InvalidDnsNameError> {
        Ok(Named {
            connector: self.0.clone(),
            name: ServerName::try_from(host)?.to_owned(),
        })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Named {
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let connecting: Connect<S> = self.connector.connect(self.name, stream);
        Box::pin(async { connecting.await.map(Stream) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        from: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
