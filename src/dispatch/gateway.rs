//! One upstream, ready to be sent to: its rules, its connections, and the bytes for it.
//!
//! What always holds: the first attempt and every resend are loaded here, in the same way, so that a
//! resend carries the same bytes and the same key. An effect of an upstream that honours keys never
//! leaves without one.
//!
//! What it does not do: send, or decide.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use hyper::body::Incoming;

use crate::config::{self, Insert, KeyRule};
use crate::expression::{AnswerFacts, PathParams};
use crate::protocol::command::Grant;
use crate::protocol::ids::UpstreamId;
use crate::protocol::outcome::{Answer, AnswerClass, StoredRequest};
use crate::protocol::policy::AnswerTable;
use crate::upstream::{EffectPool, Endpoint, Outbound, PassThrough, Questions, UnfitRequest};
use crate::wire::insertion::{self, Named};
use crate::wire::overheard::Overheard;
use crate::wire::{identify, keys};

/// Content of more bytes than this is looked into off the async workers.
const SLOW_ABOVE: usize = 64 << 10;

/// One upstream.
pub struct Gateway {
    /// Its rules.
    pub config: Arc<config::Upstream>,
    /// Where it is.
    pub endpoint: Endpoint,
    /// Connections for effects.
    pub pool: EffectPool,
    /// The way of everything else.
    pub pass: PassThrough<Overheard<Incoming>>,
    /// The way of questions about effects, and of what undoes them.
    pub questions: Questions,
    /// The way to the application that takes its callbacks, where there is one.
    pub application: Option<Questions>,
}

/// All upstreams of a config.
#[derive(Default)]
pub struct Gateways {
    by_id: HashMap<UpstreamId, Arc<Gateway>>,
}

/// What is sent once an attempt is granted.
#[derive(Clone)]
pub struct Load {
    outbound: Outbound,
    insert: Arc<Insert>,
    /// Where more is put in than a key in a header: what it is put into.
    whole: Option<(StoredRequest, Endpoint)>,
    judge: Judge,
    passes_on: bool,
}

/// What an answer proves, by route.
#[derive(Clone)]
pub struct Judge {
    rules: Rules,
    conditional: bool,
}

#[derive(Clone)]
enum Rules {
    Of(Arc<config::Protect>),
    Contract,
}

impl Gateways {
    /// By durable id.
    pub fn new(all: impl IntoIterator<Item = Arc<Gateway>>) -> Self {
        let by_id = all
            .into_iter()
            .map(|gateway| (gateway.config.id.clone(), gateway))
            .collect();
        Self { by_id }
    }

    /// The upstream with this durable id, if the config still has it.
    pub fn by_id(&self, id: &UpstreamId) -> Option<&Arc<Gateway>> {
        self.by_id.get(id)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Gateway>> {
        self.by_id.values()
    }
}

impl Gateway {
    /// Loads a caller's request. What cannot be sent is found out here, before an intent exists.
    pub fn load(
        &self,
        request: &StoredRequest,
        protect: &Arc<config::Protect>,
    ) -> Result<Load, UnfitRequest> {
        self.loaded(request, Rules::Of(Arc::clone(protect)))
    }

    /// Loads a stored request for a resend. Its answer is read by the rules of the route that matches
    /// it now; where none does, by the contract's own table.
    pub fn reload(&self, request: &StoredRequest) -> Result<Load, UnfitRequest> {
        let route = self.route_of(request);
        let rules = route.map_or(Rules::Contract, |(protect, _)| Rules::Of(protect));
        self.loaded(request, rules)
    }

    fn loaded(&self, request: &StoredRequest, rules: Rules) -> Result<Load, UnfitRequest> {
        let outbound = Outbound::new(&self.endpoint, request)?;
        let outbound = match &rules {
            Rules::Of(protect) => outbound.keeping_at_most(protect.answer_limit),
            Rules::Contract => outbound,
        };
        let judge = Judge {
            rules,
            conditional: self.is_conditional(request),
        };
        let insert = self.insert(&judge.rules);
        let whole = insert
            .is_more_than_a_field()
            .then(|| (request.clone(), self.endpoint.clone()));
        Ok(Load {
            outbound,
            insert,
            whole,
            judge,
            passes_on: false,
        })
    }

    /// What is put into requests under these rules.
    fn insert(&self, rules: &Rules) -> Arc<Insert> {
        match rules {
            Rules::Of(protect) => Arc::clone(&protect.insert),
            Rules::Contract => Arc::new(Insert::of_key(self.config.key.clone())),
        }
    }

    /// Does the request carry its condition to an upstream that checks it?
    fn is_conditional(&self, request: &StoredRequest) -> bool {
        let fields = request
            .fields
            .iter()
            .map(|(name, value)| (&name[..], &value[..]));
        self.config.capability.conditional && identify::carries_condition(fields)
    }

    /// The rules of a stored request as the config has them now, and what its path captured.
    pub fn route_of(&self, request: &StoredRequest) -> Option<(Arc<config::Protect>, PathParams)> {
        let method = http::Method::from_bytes(&request.method).ok()?;
        let target = http::uri::PathAndQuery::from_maybe_shared(request.target.clone()).ok()?;
        let path = crate::expression::RequestPath::parse(target.path()).ok()?;
        match self.config.route(&method, &path) {
            config::Route::Protect {
                protect, params, ..
            } => Some((Arc::clone(protect), params)),
            config::Route::Pass | config::Route::Observe | config::Route::Deny => None,
        }
    }
}

impl Load {
    /// The bytes for this grant. Looking for a place in much content keeps no one else waiting.
    pub async fn outbound(&self, grant: &Grant) -> Result<Outbound, UnfitRequest> {
        let content = self
            .whole
            .as_ref()
            .map_or(0, |(request, _)| request.body.len());
        if content <= SLOW_ABOVE {
            return self.outbound_here(grant);
        }
        let (load, grant) = (self.clone(), grant.clone());
        let made = tokio::task::spawn_blocking(move || load.outbound_here(&grant)).await;
        made.unwrap_or(Err(UnfitRequest::Insertion))
    }

    /// What is put in is a pure function of identity and round.
    fn outbound_here(&self, grant: &Grant) -> Result<Outbound, UnfitRequest> {
        let named = Named {
            key: &grant.key,
            origin: grant.origin,
            round: grant.round,
        };
        let Some((request, endpoint)) = &self.whole else {
            let Some((rule, header)) = self.key_in_header() else {
                return Ok(self.outbound.clone());
            };
            let key = keys::by_rule(rule, named.origin, named.key, named.round);
            let outbound = self.outbound.clone();
            return outbound.with_field(header.as_str().as_bytes(), key.as_bytes());
        };
        let filled =
            insertion::filled(&self.insert, request, named).map_err(|_| UnfitRequest::Insertion)?;
        let outbound = Outbound::new(endpoint, &filled.request)?.keeping_as(&self.outbound);
        match filled.field {
            None => Ok(outbound),
            Some((header, key)) => outbound.with_field(header.as_str().as_bytes(), key.as_bytes()),
        }
    }

    fn key_in_header(&self) -> Option<(&KeyRule, &http::HeaderName)> {
        let rule = self.insert.key.as_ref()?;
        Some((rule, rule.slot.header()?))
    }

    /// What would be put into it.
    pub fn insert(&self) -> &Insert {
        &self.insert
    }

    /// For a caller that takes an answer which is too large to keep, as it comes.
    pub fn passing_on(self, passes_on: bool) -> Self {
        Self { passes_on, ..self }
    }

    /// Is such an answer passed on?
    pub(super) fn passes_on(&self) -> bool {
        self.passes_on
    }

    /// What an answer proves.
    pub fn judge(&self) -> Judge {
        self.judge.clone()
    }
}

impl Judge {
    /// What the answer proves of the attempt that it answers. Looking into much content keeps no one
    /// else waiting.
    pub async fn class(self, answer: Answer) -> AnswerClass {
        let body = answer.body.as_ref().map_or(0, Bytes::len);
        match &self.rules {
            Rules::Of(protect) if protect.answers.is_slow(answer.status, body) => {
                let judged = tokio::task::spawn_blocking(move || self.class_here(&answer)).await;
                // Nobody knows what it would have said.
                judged.unwrap_or(AnswerClass::Ambiguous)
            }
            Rules::Of(_) | Rules::Contract => self.class_here(&answer),
        }
    }

    /// The same, where there is not much content to look into.
    pub(super) fn class_here(&self, answer: &Answer) -> AnswerClass {
        let facts = AnswerFacts {
            status: answer.status,
            fields: &answer.fields,
            body: answer.body.as_deref(),
        };
        match &self.rules {
            Rules::Of(protect) => protect.answers.class(&facts, self.conditional),
            Rules::Contract => AnswerTable::contract().class(answer.status, self.conditional),
        }
    }
}
