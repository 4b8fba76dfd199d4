//! `inbound`: listeners before the worker, by which its work is pinned to the moment at which it came in.
//!
//! What always holds: there is a lease to pin to; what an id is read from is the same for all work.
//!
//! What it does not do: look whether the worker is there.

use std::net::{IpAddr, SocketAddr};

use http::Uri;
use http::uri::Scheme;

use super::super::field::{Field, Fields};
use super::super::inbound::{Inbound, Pin, PinBy};
use super::super::leases::HeldLease;
use super::super::scalar::{self, DURATION};
use super::callers::{claimed, listen_tls};
use super::{NAME, Taken, is_name, value};
use crate::protocol::ids::ResourceName;
use crate::protocol::time::Millis;

const DEFAULT_KEEP: Millis = Millis(10 * 60 * 1_000);
const KEEPS: (Millis, Millis) = (Millis(1_000), Millis(24 * 60 * 60 * 1_000));

const DEFAULT_AT_MOST: usize = 400_000;

/// Reads all of them. `leases`: what they may pin to.
pub(super) fn inbound(
    fields: &mut Fields<'_>,
    leases: &[HeldLease],
    taken: &mut Taken,
) -> Vec<Inbound> {
    let Some(field) = fields.take("inbound") else {
        return Vec::new();
    };
    let read = |(name, field): (&str, Field<'_>)| {
        if !is_name(name) {
            field.error(format!("`{name}` is not {NAME}"));
        }
        one(name, &field, leases, taken)
    };
    field.named().into_iter().filter_map(read).collect()
}

fn one(name: &str, field: &Field<'_>, leases: &[HeldLease], taken: &mut Taken) -> Option<Inbound> {
    let mut fields = field.map()?;
    let listen = fields
        .need("listen")
        .and_then(|field| claimed(&field, taken));
    let listen_tls = fields
        .take("listen_tls")
        .and_then(|field| listen_tls(&field));
    let url_field = fields.need("url");
    let url = url_field.as_ref().and_then(url);
    if let (Some(field), Some(listen), Some(url)) = (&url_field, listen, &url) {
        refuse_itself(field, listen, url);
    }
    let pin = fields.need("pin").and_then(|field| pin(&field));
    let keep = fields.or("keep", DEFAULT_KEEP, keep);
    let at_most = fields.or("at_most", DEFAULT_AT_MOST, |field| {
        field.number("a number from 1 to 10000000", 1..=10_000_000)
    });
    let resources = resources(&mut fields, leases);
    fields.finish();
    Some(Inbound {
        name: name.to_owned(),
        listen: listen?,
        listen_tls,
        url: url?,
        pin: pin?,
        keep,
        at_most,
        resources: resources?,
    })
}

fn url(field: &Field<'_>) -> Option<Uri> {
    let url: Uri = field.read(
        "the `http` URL of the worker (`http://127.0.0.1:8080`)",
        |text| {
            let url: Uri = text.parse().ok()?;
            let has_host = url.host().is_some_and(|host| !host.is_empty());
            (url.scheme() == Some(&Scheme::HTTP) && has_host).then_some(url)
        },
    )?;
    if url.path() != "/" || url.query().is_some() {
        field.error("path and query of a request go on as they are: the URL has none of its own");
    }
    Some(url)
}

/// It would ask itself for ever. A name that leads here is not seen through.
fn refuse_itself(field: &Field<'_>, listen: SocketAddr, url: &Uri) {
    let host = url.host().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = |address: IpAddr| {
        address == listen.ip() || (listen.ip().is_unspecified() && address.is_loopback())
    };
    let asks_here = match host.parse::<IpAddr>() {
        Ok(address) => is_here(address) || address.is_unspecified(),
        Err(_name) => {
            host == "localhost" && (listen.ip().is_loopback() || listen.ip().is_unspecified())
        }
    };
    if asks_here && url.port_u16().unwrap_or(80) == listen.port() {
        field.error("is this listener itself: where does the worker listen?");
    }
}

fn pin(field: &Field<'_>) -> Option<Pin> {
    let mut fields = field.map()?;
    let by = fields.need("by").and_then(|field| by(&field));
    let required = fields.or("required", false, Field::boolean);
    let strict = fields.or("strict", false, Field::boolean);
    fields.finish();
    Some(Pin {
        by: by?,
        required,
        strict,
    })
}

/// `traceparent`, or `{ header: X }`.
fn by(field: &Field<'_>) -> Option<PinBy> {
    if !field.is_map() {
        return field.choice(&[("traceparent", ())]).map(|()| PinBy::Trace);
    }
    let header = value::header_form(field)?;
    if header == "traceparent" {
        field.error(
            "is another one with every span: `by: traceparent` takes the trace id out of it",
        );
    }
    Some(PinBy::Header(header))
}

fn keep(field: &Field<'_>) -> Option<Millis> {
    let keep = field.read(DURATION, scalar::millis)?;
    let (shortest, longest) = KEEPS;
    if keep < shortest || keep > longest {
        field.error("is to be from `1s` to `24h`");
    }
    Some(keep)
}

/// Those of the leases that are named, or of all.
fn resources(fields: &mut Fields<'_>, leases: &[HeldLease]) -> Option<Vec<ResourceName>> {
    let named = fields.take("leases");
    if leases.is_empty() {
        fields
            .own()
            .error("there is nothing to pin to: no lease is held (`leases`)");
    }
    let Some(list) = named else {
        let all = leases.iter().map(|lease| lease.resource.clone());
        return Some(all.collect());
    };
    let items = list.list()?;
    if items.is_empty() {
        list.error("names no lease; absent, it is all of them");
    }
    let resource = |item: &Field<'_>| {
        let name = item.text()?;
        let lease = leases.iter().find(|lease| lease.name == name);
        if lease.is_none() {
            item.error(format!("`{name}` is none of `leases`"));
        }
        lease.map(|lease| lease.resource.clone())
    };
    Some(items.iter().filter_map(resource).collect())
}
