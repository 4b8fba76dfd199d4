//! `explain`: what would be made of a request, and whether two requests are one operation.
//!
//! What always holds: nothing is sent, no register is opened, no listener is needed: a config and a
//! request are enough. What needs a secret of the config does without.
//!
//! What it does not do: say what a register holds (`operations show`, `resources show`).

mod caller;
mod explanation;
mod given;
mod masked;
mod policy;
mod sameness;
mod settling;
mod stamped;
mod text;
mod views;

use std::sync::Arc;

use http::uri::Authority;
use serde_json::json;

use super::arguments::Explain;
use super::failure::Failure;
use crate::config::{self, Config, Upstream};
use crate::wire::route::Router;
use given::Given;
use sameness::Sameness;
use views::Explanation;

/// Between two requests.
const AND: &str = "--and";

/// Explains one request, or two and what tells them apart.
pub(super) fn run(explain: &Explain, json: bool) -> Result<String, Failure> {
    let name = explain.config.display().to_string();
    let text = std::fs::read_to_string(&explain.config)
        .map_err(|error| Failure::Usage(format!("{name}: {error}")))?;
    let (config, _) = config::parse_without_secrets(&text, &name).map_err(Failure::Config)?;
    let requests: Vec<&[String]> = explain.request.split(|word| word == AND).collect();
    let all = requests
        .iter()
        .map(|words| explained(&config, explain, words))
        .collect::<Result<Vec<_>, _>>()?;
    match &all[..] {
        [only] if json => Ok(format!("{:#}", json!(only))),
        [only] => Ok(text::explanation(only)),
        [first, second] => {
            let sameness = Sameness::of(first, second);
            if json {
                let told = json!({ "requests": all, "together": sameness });
                return Ok(format!("{told:#}"));
            }
            // What one wants to know comes first.
            let texts = [
                text::sameness(&sameness),
                text::explanation(first),
                text::explanation(second),
            ];
            Ok(texts.join("\n"))
        }
        _ => Err(Failure::Usage(format!(
            "one request, or two with {AND} between them"
        ))),
    }
}

fn explained(config: &Config, explain: &Explain, words: &[String]) -> Result<Explanation, Failure> {
    let mut given = Given::read(words)?;
    if given.certificate.is_none() {
        given.certificate.clone_from(&explain.client_cert);
    }
    let named = explain.upstream.as_deref();
    let upstream = upstream(config, named, given.authority.as_ref())?;
    let router = Router::new(Arc::clone(upstream));
    let caller = given.certificate.as_deref().map(caller::of);
    let caller = caller.transpose()?.unwrap_or_default();
    Ok(Explanation::of(config, &router, given.request, &caller))
}

/// The upstream that the request was sent for: by name, by its listener, by its own host; or the only
/// one.
fn upstream<'c>(
    config: &'c Config,
    named: Option<&str>,
    authority: Option<&Authority>,
) -> Result<&'c Arc<Upstream>, Failure> {
    let all = || config.upstreams.iter();
    let found = match (named, authority) {
        (Some(name), _) => all().find(|it| it.name == name || it.id.as_str() == name),
        (None, Some(authority)) => all()
            .find(|it| authority.port_u16() == Some(it.listen.port()))
            .or_else(|| all().find(|it| it.url.host() == Some(authority.host()))),
        (None, None) => None,
    };
    let only = match &config.upstreams[..] {
        [only] if named.is_none() => Some(only),
        _ => None,
    };
    found.or(only).ok_or_else(|| {
        let names = all().map(|it| format!("{} ({})", it.name, it.listen));
        let names = names.collect::<Vec<_>>().join(", ");
        Failure::Usage(format!(
            "it is not clear which upstream the request is for: say --upstream NAME; there are {names}"
        ))
    })
}
