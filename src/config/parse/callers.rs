//! Who may call an upstream's listener: its address, TLS towards callers, and what tells them apart.
//!
//! What always holds: a listener that others than the worker beside it can reach tells callers apart, or
//! says that it does not; a certificate tells them apart only where every one that is shown was asked
//! for and is verified.
//!
//! What it does not do: read the files. They are read where the listener is opened, and again whenever
//! the config is.

use std::net::SocketAddr;

use super::{Taken, address, file, value};
use crate::config::callers::{CertificateName, ClientCertificates, ListenTls, PrincipalPart};
use crate::config::field::{Field, Fields};

/// A listener, as far as it could be read.
pub(super) struct Callers {
    pub(super) listen: Option<SocketAddr>,
    pub(super) tls: Option<ListenTls>,
    pub(super) principal: Vec<PrincipalPart>,
}

/// Reads `listen`, `listen_tls` and `principal`.
pub(super) fn callers(fields: &mut Fields<'_>, taken: &mut Taken) -> Callers {
    let tls = fields.take("listen_tls");
    let asks = tls.as_ref().is_some_and(asks_for_certificates);
    let principal = principal(fields, asks);
    Callers {
        listen: listen(fields, principal.is_some(), taken),
        tls: tls.and_then(|field| listen_tls(&field)),
        principal: principal.unwrap_or_default(),
    }
}

fn listen(
    fields: &mut Fields<'_>,
    principal_chosen: bool,
    taken: &mut Taken,
) -> Option<SocketAddr> {
    let field = fields.need("listen")?;
    let listen = claimed(&field, taken)?;
    if !listen.ip().is_loopback() && !principal_chosen {
        field.error(
            "whoever reaches this address shares one space of operation ids: listen on a loopback \
             address, name something to tell callers apart by (`principal: [{ header: X }]`, or \
             `[{ client_certificate: subject }]` with `listen_tls`), or write `principal: none`",
        );
    }
    Some(listen)
}

/// An address that nobody else listens on.
pub(super) fn claimed(field: &Field<'_>, taken: &mut Taken) -> Option<SocketAddr> {
    let listen = address(field)?;
    taken.claim(listen, field);
    Some(listen)
}

/// Also where what it says of them cannot be read: that is another problem.
fn asks_for_certificates(tls: &Field<'_>) -> bool {
    let fields = tls.is_map().then(|| tls.map()).flatten();
    fields.is_some_and(|mut fields| fields.take("client_ca").is_some())
}

/// `{ cert: FILE, key: FILE, client_ca: FILE, client: require }`.
pub(super) fn listen_tls(field: &Field<'_>) -> Option<ListenTls> {
    let mut fields = field.map()?;
    let cert = fields.need("cert").and_then(|field| file(&field));
    let key = fields.need("key").and_then(|field| file(&field));
    let ca = fields.take("client_ca");
    let client = fields.take("client");
    if let (None, Some(client)) = (&ca, &client) {
        client.error("which certificates? name who issues them: `client_ca`");
    }
    fields.finish();
    let required = client.map_or(Some(true), |field| {
        field.choice(&[("require", true), ("optional", false)])
    });
    let client = match ca {
        Some(ca) => Some(ClientCertificates {
            ca: file(&ca)?,
            required: required?,
        }),
        None => None,
    };
    Some(ListenTls {
        cert: cert?,
        key: key?,
        client,
    })
}

/// What selects an account or a caller: `none`, or a list. `None`: not chosen.
fn principal(fields: &mut Fields<'_>, asks_for_certificates: bool) -> Option<Vec<PrincipalPart>> {
    let field = fields.take("principal")?;
    if field.is_list() {
        let parts = field.list()?;
        let part = |field| part(field, asks_for_certificates);
        return Some(parts.iter().filter_map(part).collect());
    }
    field.choice(&[("none", ())]).map(|()| Vec::new())
}

/// `{ header: X }` or `{ client_certificate: subject }`.
fn part(field: &Field<'_>, asks_for_certificates: bool) -> Option<PrincipalPart> {
    let mut fields = field.map()?;
    let header = fields.take("header");
    let certificate = fields.take("client_certificate");
    fields.finish();
    match (header, certificate) {
        (None, None) => {
            field.error("one of header, client_certificate is missing");
            None
        }
        (Some(_), Some(second)) => {
            second.error("a value comes from one place");
            None
        }
        (Some(header), None) => value::header(&header).map(PrincipalPart::Header),
        (None, Some(name)) => {
            if !asks_for_certificates {
                name.error(
                    "no caller of this listener is asked for a certificate: \
                     `listen_tls: { cert: …, key: …, client_ca: … }` asks",
                );
            }
            let name = name.choice(&CertificateName::WORDS)?;
            if name == CertificateName::Fingerprint {
                field.warn(
                    "every new certificate is another caller: what the old one was told is not \
                     known to the new one, and is sent again",
                );
            }
            Some(PrincipalPart::Certificate(name))
        }
    }
}
