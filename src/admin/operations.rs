//! Reading operations: the list, and one of them with its event log.
//!
//! What always holds: a name that several operations share (other principals, other incarnations) is
//! never resolved by guessing; the candidates are listed.
//!
//! What it does not do: change anything (`resolve`).

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use serde::Deserialize;

use super::access::Operator;
use super::api::{Api, asked, given, page_length, parsed, parts};
use super::problem::Problem;
use super::views::{KeyView, OperationDetail, OperationList};
use crate::protocol::command::Note;
use crate::protocol::ids::{
    Incarnation, OperationId, OperationKey, Principal, ResourceKey, ResourceName, UpstreamId,
};
use crate::protocol::operation::Operation;
use crate::protocol::view::Record;
use crate::store::OperationQuery;

/// So many operations of one name are listed when it is ambiguous.
const CANDIDATES: usize = 50;

/// The contract's words.
const STATES: [&str; 5] = [
    "INTENDED",
    "UNCERTAIN",
    "NEEDS_ATTENTION",
    "NOT_APPLIED",
    "COMPLETED",
];

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Filter {
    state: Option<String>,
    resource: Option<String>,
    upstream: Option<String>,
    limit: Option<String>,
    after: Option<String>,
}

/// Which of several operations of one name.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    principal: Option<String>,
    incarnation: Option<String>,
    bodies: Option<String>,
}

/// `GET /v1/operations`: newest first. `state` goes by the record; what an INTENDED operation of a
/// dead instance is by now shows in each one's own `state`.
pub(super) async fn list(
    State(api): State<Api>,
    query: Result<Query<Filter>, QueryRejection>,
) -> Result<Json<OperationList>, Problem> {
    let query = asked(query)?.parse(&api)?;
    let mut page = api.read(api.register.read().operations(&query)).await?;
    page.operations
        .retain(|operation| operation.key.tenant == api.tenant);
    Ok(Json(OperationList::of(&page, &api.looker())))
}

/// `GET /v1/operations/{upstream}/{id}`. Bodies are customer content: only a named operator gets
/// them, and the operation's own log says so first.
pub(super) async fn show(
    State(api): State<Api>,
    path: Result<Path<(String, String)>, PathRejection>,
    query: Result<Query<Which>, QueryRejection>,
    mut request: Parts,
) -> Result<Json<OperationDetail>, Problem> {
    let (upstream, id) = parts(path)?;
    let which = asked(query)?;
    let bodies = which.bodies()?;
    let operation = find(&api, &upstream, &id, &which).await?;
    if bodies {
        let Operator(name) = Operator::from_request_parts(&mut request, &api).await?;
        tracing::info!(operator = %name, upstream, operation = id, "an operator reads stored bodies");
        let note = Note {
            key: operation.key.clone(),
            text: format!("stored bodies were read by {name}"),
            at: api.clock.now(),
        };
        // Nobody reads them without a trace.
        api.register.note(note).await?;
    }
    let read = api.register.read().operation(&operation.key, bodies);
    let stored = api
        .read(read)
        .await?
        .ok_or_else(|| unknown(&upstream, &id))?;
    Ok(Json(OperationDetail::of(&stored, bodies, &api.looker())))
}

/// The one operation of that name. A whole name is read as it stands; of a shorter one every operation that goes by
/// it is looked at, however many share the id.
pub(super) async fn find(
    api: &Api,
    upstream: &str,
    id: &str,
    which: &Which,
) -> Result<Operation, Problem> {
    let (principal, incarnation) = (which.principal()?, which.incarnation()?);
    let key = OperationKey {
        tenant: api.tenant.clone(),
        upstream: UpstreamId::new(upstream),
        principal: principal.unwrap_or(Principal::None),
        id: OperationId::new(id),
        incarnation: incarnation.unwrap_or_default(),
    };
    if principal.is_some() && incarnation.is_some() {
        let stored = api.read(api.register.read().operation(&key, false)).await?;
        return match stored {
            Some(stored) => Ok(stored.operation),
            None => Err(missing(api, &key).await?),
        };
    }
    let mut query = OperationQuery {
        upstream: Some(UpstreamId::new(upstream)),
        id: Some(id.to_owned()),
        limit: CANDIDATES,
        ..OperationQuery::default()
    };
    let is_asked = |operation: &Operation| {
        let key = &operation.key;
        key.tenant == api.tenant
            && principal
                .as_ref()
                .is_none_or(|asked| *asked == key.principal)
            && incarnation.is_none_or(|asked| asked == key.incarnation)
    };
    let mut found: Vec<Operation> = Vec::new();
    loop {
        let page = api.read(api.register.read().operations(&query)).await?;
        found.extend(page.operations.into_iter().filter(is_asked));
        query.before = page.next;
        // Two are too many already; the rest of their page is told.
        if query.before.is_none() || found.len() > 1 {
            break;
        }
    }
    let candidates = || found.iter().map(|operation| KeyView::of(&operation.key));
    match found.as_slice() {
        [_, _, ..] => Err(ambiguous(id, candidates().collect())),
        [] | [_] => match found.pop() {
            Some(only) => Ok(only),
            None => Err(missing(api, &key).await?),
        },
    }
}

impl Filter {
    fn parse(&self, api: &Api) -> Result<OperationQuery, Problem> {
        let state = match given(self.state.as_ref()) {
            None => None,
            Some(text) => {
                let word = STATES
                    .into_iter()
                    .find(|word| word.eq_ignore_ascii_case(text));
                Some(word.ok_or_else(|| {
                    Problem::malformed(format!("`state` is to be one of {}", STATES.join(", ")))
                })?)
            }
        };
        Ok(OperationQuery {
            state,
            resource: given(self.resource.as_ref()).map(|name| ResourceKey {
                tenant: api.tenant.clone(),
                name: ResourceName::new(name),
            }),
            upstream: given(self.upstream.as_ref()).map(UpstreamId::new),
            id: None,
            before: parsed("after", self.after.as_ref(), "the `next` of a page")?,
            limit: page_length(self.limit.as_ref())?,
        })
    }
}

impl Which {
    fn principal(&self) -> Result<Option<Principal>, Problem> {
        let wrong = || Problem::malformed("`principal` is to be 32 hex digits, or `none`");
        match given(self.principal.as_ref()) {
            None => Ok(None),
            Some("none") => Ok(Some(Principal::None)),
            Some(text) if text.len() == 32 => {
                let digest = u128::from_str_radix(text, 16).map_err(|_| wrong())?;
                Ok(Some(Principal::Hashed(digest.to_be_bytes())))
            }
            Some(_) => Err(wrong()),
        }
    }

    fn incarnation(&self) -> Result<Option<Incarnation>, Problem> {
        let number = parsed("incarnation", self.incarnation.as_ref(), "a number")?;
        Ok(number.map(Incarnation))
    }

    fn bodies(&self) -> Result<bool, Problem> {
        let bodies = parsed("bodies", self.bodies.as_ref(), "true or false")?;
        Ok(bodies.unwrap_or(false))
    }
}

/// Nothing goes by that name; perhaps it is the note that a request repeated another.
async fn missing(api: &Api, key: &OperationKey) -> Result<Problem, Problem> {
    let (upstream, id) = (key.upstream.as_str(), key.id.as_str());
    let problem = unknown(upstream, id);
    Ok(match api.read(api.register.read().peek(key, None)).await? {
        Some(Record::Twin(note)) => Problem::new(
            StatusCode::NOT_FOUND,
            "unknown-operation",
            format!(
                "no operation of its own: it repeated the request of `{}` while that one was \
                 unsettled; look there",
                note.first.id
            ),
        )
        .operation(&id)
        .candidates(vec![KeyView::of(&note.first)]),
        Some(Record::Operation(_)) | None => problem,
    })
}

pub(super) fn unknown(upstream: &str, id: &str) -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown-operation",
        format!(
            "upstream `{upstream}` has no such operation; upstreams go by their durable id, and \
             GET /v1/operations lists what there is"
        ),
    )
    .operation(&id)
}

fn ambiguous(id: &str, candidates: Vec<KeyView>) -> Problem {
    Problem::conflict(
        "ambiguous-operation",
        "several operations go by this id, for different accounts or callers, or in different \
         incarnations of the resource; say which with ?principal= and ?incarnation=",
    )
    .operation(&id)
    .candidates(candidates)
}
