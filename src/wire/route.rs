//! Which rule a request falls under, so that no spelling of its path leads around one.
//!
//! What always holds: an effect is found by the path as a strict reader understands it, and the bytes
//! sent are the caller's. Other readers drop `;parameters`, decode twice, or ignore case; where such a
//! reader would find a protected effect that the strict one does not, or the same one with other
//! values, the request is refused. On an upstream without protected effects nothing is refused for
//! its spelling.
//!
//! What it does not do: rewrite a path, or look at a query.

use std::sync::Arc;

use http::{HeaderName, Method};

use super::problem::Fault;
use crate::config::{Action, EffectRule, Fence, KeyRule, Mode, Protect, Route, Unlisted, Upstream};
use crate::expression::{Member, PathParams, PathTemplate, RequestPath};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The rules of one upstream, and how they look to a reader who ignores case.
#[derive(Clone, Debug)]
pub struct Router {
    upstream: Arc<Upstream>,
    folded: Upstream,
    withheld: Vec<HeaderName>,
    /// Without the rules that are only observed; `None`: there are none such.
    enforced: Option<Box<Router>>,
}

/// Where a request goes.
#[derive(Clone, Debug)]
pub enum Routed<'a> {
    /// Forwarded as it is.
    Pass,
    /// Forwarded, and counted as an unprotected effect.
    Observe,
    /// Forwarded: only rules that are observed would refuse it, with this fault.
    Spared(Fault),
    /// An effect. Its rule says whether it is protected or only observed.
    Protect {
        /// Name of the rule, for logs and metrics.
        name: &'a str,
        /// The rule.
        protect: &'a Arc<Protect>,
        /// What the path captured, decoded.
        params: PathParams,
    },
}

impl Router {
    /// Compiled once per upstream.
    pub fn new(upstream: Arc<Upstream>) -> Self {
        let enforced = enforced(&upstream).map(|rules| Box::new(Self::new(Arc::new(rules))));
        Self {
            folded: folded(&upstream),
            withheld: withheld_on_pass(&upstream),
            enforced,
            upstream,
        }
    }

    /// The upstream whose rules these are.
    pub fn upstream(&self) -> &Arc<Upstream> {
        &self.upstream
    }

    /// Fields that a request which is no effect leaves behind, beyond those that all do: a key only
    /// where the upstream honours one, since an unhonoured key arms retries in other software.
    pub fn withheld_on_pass(&self) -> &[HeaderName] {
        &self.withheld
    }

    /// Where a request goes. `raw`: the path of its target, as sent, without the query. The only
    /// fault is [`Fault::NoRoute`]. Nothing is refused for the sake of a rule that is only observed.
    pub fn route(&self, method: &Method, raw: &str) -> Result<Routed<'_>, Fault> {
        let routed = self.by_all_rules(method, raw);
        match (routed, &self.enforced) {
            (Err(fault), Some(enforced)) => match enforced.by_all_rules(method, raw)? {
                Routed::Pass | Routed::Observe | Routed::Spared(_) => Ok(Routed::Spared(fault)),
                protect @ Routed::Protect { .. } => Ok(protect),
            },
            (routed, _) => routed,
        }
    }

    fn by_all_rules(&self, method: &Method, raw: &str) -> Result<Routed<'_>, Fault> {
        if *method == Method::CONNECT {
            return Err(no_route("CONNECT is not served here"));
        }
        if !self.guards(method) {
            return self.unguarded(method, raw);
        }
        if method
            .as_str()
            .bytes()
            .any(|byte| byte.is_ascii_lowercase())
        {
            return Err(no_route("Methods are written in upper case"));
        }
        let path = RequestPath::parse(raw).map_err(|_| ambiguous())?;
        let loose = loosened(raw)?;
        match self.upstream.route(method, &path) {
            Route::Deny => Err(unlisted()),
            Route::Protect {
                name,
                protect,
                params,
            } => {
                if let Some(loose) = &loose {
                    self.agree(method, loose, protect, &params)?;
                }
                Ok(Routed::Protect {
                    name,
                    protect,
                    params,
                })
            }
            Route::Pass => {
                self.undisguised(method, loose.as_deref().unwrap_or(raw))?;
                Ok(Routed::Pass)
            }
            Route::Observe => {
                self.undisguised(method, loose.as_deref().unwrap_or(raw))?;
                Ok(Routed::Observe)
            }
        }
    }

    /// Could a request with this method be a protected effect, in some spelling?
    fn guards(&self, method: &Method) -> bool {
        let protects = |effect: &EffectRule| matches!(effect.action, Action::Protect(_));
        let effects = || self.upstream.effects.iter().filter(|it| protects(it));
        let all = matches!(self.upstream.unlisted, Unlisted::Protect(_));
        if method.is_safe() {
            effects().any(|effect| effect.methods.contain(method))
        } else {
            all || effects().next().is_some()
        }
    }

    /// Nothing can be led around here: a path that cannot be read is none that is listed.
    fn unguarded(&self, method: &Method, raw: &str) -> Result<Routed<'_>, Fault> {
        let listed = RequestPath::parse(raw)
            .is_ok_and(|path| matches!(self.upstream.route(method, &path), Route::Pass));
        match self.upstream.unlisted {
            _ if listed || method.is_safe() => Ok(Routed::Pass),
            Unlisted::Observe => Ok(Routed::Observe),
            Unlisted::Pass | Unlisted::Protect(_) => Ok(Routed::Pass),
            Unlisted::Deny => Err(unlisted()),
        }
    }

    /// A looser reader finds the same effect with the same values, or none.
    fn agree(
        &self,
        method: &Method,
        loose: &str,
        protect: &Arc<Protect>,
        params: &PathParams,
    ) -> Result<(), Fault> {
        let loose = RequestPath::parse(loose).map_err(|_| ambiguous())?;
        match self.upstream.route(method, &loose) {
            Route::Protect {
                protect: other,
                params: captured,
                ..
            } if Arc::ptr_eq(protect, other) && *params == captured => Ok(()),
            Route::Protect { .. } => Err(ambiguous()),
            Route::Pass | Route::Observe | Route::Deny => Ok(()),
        }
    }

    /// No reader would find a protected effect here.
    fn undisguised(&self, method: &Method, loose: &str) -> Result<(), Fault> {
        let path = RequestPath::parse(&loose.to_lowercase()).map_err(|_| ambiguous())?;
        match self.folded.route(method, &path) {
            Route::Pass => Ok(()),
            Route::Protect { .. } | Route::Observe | Route::Deny => Err(ambiguous()),
        }
    }
}

fn no_route(why: &'static str) -> Fault {
    Fault::NoRoute { why }
}

fn unlisted() -> Fault {
    no_route("No rule of this upstream admits the method and path")
}

fn ambiguous() -> Fault {
    no_route(
        "Two servers could read this path differently, one of them as a protected effect. Write it \
         without dot segments, empty segments, `;`, backslashes, control characters, needless \
         escapes, and in the case of the rule",
    )
}

/// The rules but for those that are only observed; `None` where all are enforced.
fn enforced(upstream: &Upstream) -> Option<Upstream> {
    let watched = |effect: &EffectRule| match &effect.action {
        Action::Protect(protect) => protect.is_observed(),
        Action::Pass => false,
    };
    let unlisted_is_watched = upstream.mode == Mode::Observe
        && matches!(upstream.unlisted, Unlisted::Protect(_) | Unlisted::Deny);
    if !unlisted_is_watched && !upstream.effects.iter().any(watched) {
        return None;
    }
    let effects = upstream.effects.iter().filter(|effect| !watched(effect));
    let unlisted = if unlisted_is_watched {
        Unlisted::Observe
    } else {
        upstream.unlisted.clone()
    };
    Some(Upstream {
        effects: effects.cloned().collect(),
        unlisted,
        ..upstream.clone()
    })
}

/// The same rules in lower case. What no rule matches passes.
fn folded(upstream: &Upstream) -> Upstream {
    let effects = upstream.effects.iter().map(|effect| {
        let lower = effect.path.as_str().to_lowercase();
        // Parameters may become equal in lower case; then this rule keeps its own.
        let path = PathTemplate::parse(&lower).unwrap_or_else(|_| effect.path.clone());
        EffectRule {
            path,
            ..effect.clone()
        }
    });
    Upstream {
        effects: effects.collect(),
        unlisted: Unlisted::Pass,
        ..upstream.clone()
    }
}

/// The path as a reader takes it who drops `;parameters`, decodes again and again, and knows of no
/// needless escape; `None` if that is what it says anyway. Refused where it takes too many rounds:
/// nobody escapes nine times in good faith.
fn loosened(raw: &str) -> Result<Option<String>, Fault> {
    const ROUNDS: usize = 8;
    let mut text = raw.to_owned();
    for _ in 0..ROUNDS {
        let next = decoded_once(&text);
        if next == text {
            let bare: Vec<&str> = text.split('/').map(without_parameters).collect();
            let bare = bare.join("/");
            return Ok((bare != raw).then_some(bare));
        }
        text = next;
    }
    Err(ambiguous())
}

fn without_parameters(segment: &str) -> &str {
    segment.split(';').next().unwrap_or_default()
}

/// Escapes of what needs none are undone; of `;`; and of `%` where that makes another escape.
fn decoded_once(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('%') {
        out.push_str(plain);
        match escape(escaped) {
            Some((character, after)) if is_plain(character) => {
                out.push(character);
                rest = after;
            }
            Some(('%', after)) if escape(after).is_some() => {
                out.push('%');
                rest = after;
            }
            Some(_) | None => {
                out.push('%');
                rest = escaped;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The ASCII character that two hex digits at the front name, and what follows.
fn escape(text: &str) -> Option<(char, &str)> {
    let (digits, after) = text.split_at_checked(2)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let byte = u8::from_str_radix(digits, 16).ok()?;
    Some((char::from(byte), after))
}

/// Unreserved (RFC 3986, 2.3), and `;`.
fn is_plain(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.' | '_' | '~' | ';')
}

fn withheld_on_pass(upstream: &Upstream) -> Vec<HeaderName> {
    let mut names = Vec::new();
    let is_honoured = |rule: Option<&KeyRule>| rule.is_some_and(|key| !key.slot.is_within());
    if !is_honoured(upstream.key.as_ref()) {
        names.push(IDEMPOTENCY_KEY);
    }
    for effect in &upstream.effects {
        match &effect.action {
            Action::Pass => {}
            Action::Protect(protect) => {
                if !is_honoured(protect.insert.key.as_ref()) {
                    names.push(protect.caller_key_header.clone());
                }
                names.extend(protect.fence.iter().flat_map(fence_fields));
            }
        }
    }
    names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    names.dedup();
    names
}

/// What of a request is for us alone where its rule is only observed: the key is the upstream's too.
pub fn for_us(protect: &Protect) -> Vec<HeaderName> {
    protect.fence.iter().flat_map(fence_fields).collect()
}

/// The fields that carry a fence's token and what belongs to it.
pub(super) fn fence_fields(fence: &Fence) -> impl Iterator<Item = HeaderName> {
    let token = match &fence.token {
        Member::Header(name) => Some(name.clone()),
        Member::Path(_)
        | Member::Query(_)
        | Member::Json(_)
        | Member::Form(_)
        | Member::Multipart(_)
        | Member::Xml(_)
        | Member::GraphQl(_)
        | Member::Token
        | Member::OperationId
        | Member::Incarnation => None,
    };
    let others = [fence.acquisition.clone(), fence.sequence.clone()];
    token.into_iter().chain(others)
}

#[cfg(test)]
mod tests;
