//! A person says how many operations ended, at once.
//!
//! What always holds: what the verdict would fall on can be seen first, and a verdict that carries the
//! selection of such a preview falls on exactly those operations as they stood then, or on none. Each gets
//! a verdict of its own, with the operator's name and the reason in its own log; one that was settled or
//! admitted again meanwhile is left alone. Once begun it goes on, even if the operator hangs up.
//!
//! What it does not do: state content, or give keys up: that is for one operation at a time.

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use bytes::Bytes;
use ring::digest::{Context, SHA256};
use serde::Deserialize;

use super::access::Operator;
use super::api::Api;
use super::problem::Problem;
use super::resolve::{self, Said, said_why, unread};
use super::resources::key_of;
use super::views::{KeyView, ManyResolvedView, OneResolvedView, OperationView, hex};
use crate::protocol::command::{Command, Reply, Resolution, Resolve, Resolved};
use crate::protocol::decide::decide;
use crate::protocol::ids::UpstreamId;
use crate::protocol::operation::Operation;
use crate::protocol::view::{Record, View};
use crate::store::OperationQuery;

/// Most operations of one verdict.
const MOST: usize = 500;

/// States that a verdict on many is for, by the contract's words.
const STATES: [&str; 3] = ["NEEDS_ATTENTION", "UNCERTAIN", "INTENDED"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    filter: Filter,
    verdict: Said,
    reason: String,
    status: Option<u16>,
    #[serde(default)]
    dry_run: bool,
    selection: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    state: Option<String>,
    upstream: Option<String>,
    resource: Option<String>,
    older_than: Option<String>,
}

/// What was said of whatever matches.
#[derive(Clone, Debug)]
struct Verdict {
    resolution: Resolution,
    operator: String,
    reason: String,
}

/// `POST /v1/operations/resolve`.
pub(super) async fn resolve(
    State(api): State<Api>,
    Operator(operator): Operator,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<ManyResolvedView>, Problem> {
    let body = body.map_err(|refusal| unread(&refusal))?;
    let asked: Asked = serde_json::from_slice(&body).map_err(|error| {
        Problem::malformed(format!(
            "the body is to be JSON like {{\"filter\":{{\"upstream\":\"…\"}},\"verdict\":\"not_applied\",\
             \"reason\":\"…\",\"dry_run\":true}}: {error}"
        ))
    })?;
    let verdict = Verdict {
        resolution: resolution(&asked)?,
        operator: operator.to_string(),
        reason: said_why(&asked.reason)?,
    };
    let (matching, more) = asked.filter.matching(&api).await?;
    let selection = selection(&matching);
    if asked.selection.is_some_and(|seen| seen != selection) {
        return Err(Problem::conflict(
            "selection-changed",
            "other operations match than in the preview, or they changed since: nothing was resolved; \
             look again (dry_run)",
        ));
    }
    let mut view = ManyResolvedView {
        dry_run: asked.dry_run,
        selection,
        resolved: 0,
        refused: 0,
        more,
        stopped: None,
        operations: Vec::new(),
    };
    if asked.dry_run {
        for operation in &matching {
            let resolved = foreseen(&api, operation, &verdict);
            view.add(&api, operation, resolved.map_err(|it| it.detail()));
        }
        return Ok(Json(view));
    }
    let tasks = api.tasks.clone();
    let resolving = tasks.spawn(async move {
        for operation in &matching {
            match one(&api, operation, &verdict).await {
                Ok(resolved) => view.add(&api, operation, resolved),
                Err(fault) => {
                    view.stopped = Some(fault);
                    break;
                }
            }
        }
        view
    });
    let resolved = resolving.await;
    resolved
        .map(Json)
        .map_err(|_| Problem::broke_off("the operations"))
}

fn resolution(asked: &Asked) -> Result<Resolution, Problem> {
    match (asked.verdict, asked.status) {
        (Said::Applied, status) => resolve::answer(status, None).map(Resolution::Applied),
        (Said::NotApplied, None) => Ok(Resolution::NotApplied { new_key: false }),
        (Said::NotApplied, Some(_)) => Err(Problem::malformed(
            "`status` goes with applied: what was not applied has no answer",
        )),
    }
}

/// The verdict on one: the state that it is in now, or why it was refused. `Err`: why to stop.
async fn one(
    api: &Api,
    operation: &Operation,
    verdict: &Verdict,
) -> Result<Result<String, String>, String> {
    let resolve = verdict.on(operation, api);
    match resolve::settle(api.clone(), resolve).await {
        Ok(done) => Ok(Ok(done.state)),
        Err(problem) if problem.is_fault() => Err(problem.detail()),
        Err(problem) => Ok(Err(problem.detail())),
    }
}

/// What the rules would say of it as it stands.
fn foreseen(api: &Api, operation: &Operation, verdict: &Verdict) -> Result<String, Problem> {
    let view = View {
        record: Some(Record::Operation(Box::new(operation.clone()))),
        ..View::of_nothing(0, api.register.living())
    };
    let command = Command::Resolve(verdict.on(operation, api));
    match decide(&view, &command).reply {
        Reply::Resolved(Resolved::Done(state)) => Ok(state.word().to_owned()),
        Reply::Resolved(refused) => Err(resolve::refusal(&refused)),
        Reply::Admission(_)
        | Reply::Recorded(_)
        | Reply::Resend(_)
        | Reply::Parked(_)
        | Reply::Started(_)
        | Reply::Found(_)
        | Reply::Void(_)
        | Reply::Voided(_)
        | Reply::TakenUp(_)
        | Reply::Steered(_)
        | Reply::Leased(_)
        | Reply::Noted(_) => Err(Problem::broke_off("the operation")),
    }
}

impl Verdict {
    fn on(&self, operation: &Operation, api: &Api) -> Resolve {
        Resolve {
            key: operation.key.clone(),
            verdict: self.resolution.clone(),
            operator: self.operator.clone(),
            reason: self.reason.clone(),
            seen: Some(operation.admitted),
            at: api.clock.now(),
        }
    }
}

impl Filter {
    /// Newest first, from whatever page; and whether there are more.
    async fn matching(&self, api: &Api) -> Result<(Vec<Operation>, bool), Problem> {
        let older_than = self.older_than()?;
        let mut query = self.query(api)?;
        let mut matching = Vec::new();
        // The old ones that are asked for stand behind all that is newer.
        loop {
            let page = api.read(api.register.read().operations(&query)).await?;
            let looker = api.looker();
            matching.extend(page.operations.into_iter().filter(|operation| {
                operation.key.tenant == api.tenant
                    && looker.age(&operation.first_seen).0 >= older_than
            }));
            query.before = page.next;
            if query.before.is_none() || matching.len() > MOST {
                break;
            }
        }
        let more = matching.len() > MOST;
        matching.truncate(MOST);
        Ok((matching, more))
    }

    fn query(&self, api: &Api) -> Result<OperationQuery, Problem> {
        if self.upstream.is_none() && self.resource.is_none() {
            return Err(Problem::malformed(
                "`filter` names an `upstream` or a `resource`: a verdict on everything is none",
            ));
        }
        let asked = self.state.as_deref().unwrap_or("NEEDS_ATTENTION");
        let state = STATES
            .into_iter()
            .find(|word| word.eq_ignore_ascii_case(asked));
        let state = state.ok_or_else(|| {
            Problem::malformed(format!("`state` is to be one of {}", STATES.join(", ")))
        })?;
        Ok(OperationQuery {
            state: Some(state),
            upstream: self.upstream.as_deref().map(UpstreamId::new),
            resource: self.resource.as_deref().map(|name| key_of(api, name)),
            limit: MOST,
            ..OperationQuery::default()
        })
    }

    /// In milliseconds.
    fn older_than(&self) -> Result<u64, Problem> {
        let Some(text) = &self.older_than else {
            return Ok(0);
        };
        let age = humantime::parse_duration(text)
            .map_err(|_| Problem::malformed("`older_than` is to be a duration like 10m or 2h"))?;
        Ok(u64::try_from(age.as_millis()).unwrap_or(u64::MAX))
    }
}

impl ManyResolvedView {
    fn add(&mut self, api: &Api, operation: &Operation, resolved: Result<String, String>) {
        let before = OperationView::of(operation, &api.looker());
        let (becomes, refused) = match resolved {
            Ok(state) => {
                self.resolved = self.resolved.saturating_add(1);
                (Some(state), None)
            }
            Err(why) => {
                self.refused = self.refused.saturating_add(1);
                (None, Some(why))
            }
        };
        self.operations.push(OneResolvedView {
            operation: KeyView::of(&operation.key),
            state: before.state,
            age_ms: before.age_ms,
            resource: before.resource,
            becomes,
            refused,
        });
    }
}

/// The same exactly for the same operations at the same turn in the same state.
fn selection(operations: &[Operation]) -> String {
    let mut lines: Vec<String> = operations
        .iter()
        .map(|operation| {
            let key = KeyView::of(&operation.key);
            format!("{key:?} {} {}", operation.admitted, operation.state.word())
        })
        .collect();
    lines.sort();
    let mut context = Context::new(&SHA256);
    for line in &lines {
        context.update(line.as_bytes());
        context.update(b"\n");
    }
    let digest = context.finish();
    hex(digest.as_ref().iter().take(8).copied().collect::<Vec<u8>>())
}
