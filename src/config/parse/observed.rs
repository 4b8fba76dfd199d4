//! What whoever reads a config should know about effects that are only watched.
//!
//! What always holds: nothing is refused here; an effect of mode `observe` is forwarded, and that is
//! what was asked for.
//!
//! What it does not do: read `mode` (`parse`).

use std::sync::Arc;

use crate::config::field::Field;
use crate::config::settings::{Action, EffectRule, Protect, Unlisted, Upstream};

pub(super) const NOTHING_IS_REFUSED: &str =
    "mode is `observe`: effects are judged and reported, and forwarded all the same";

/// Is it an effect that is only watched?
pub(super) fn is_observed(effect: &EffectRule) -> bool {
    match &effect.action {
        Action::Protect(protect) => protect.is_observed(),
        Action::Pass => false,
    }
}

/// Is no unlisted request protected?
pub(super) fn is_unlisted_observed(unlisted: &Unlisted) -> bool {
    match unlisted {
        Unlisted::Protect(protect) => protect.is_observed(),
        Unlisted::Observe | Unlisted::Pass | Unlisted::Deny => true,
    }
}

/// Where an effect is enforced, another one of the same resource that is only watched goes out
/// unordered: the fence cannot speak for it.
pub(super) fn warn_of_shared_fences(field: &Field<'_>, upstreams: &[Arc<Upstream>]) {
    let all = || upstreams.iter().flat_map(|upstream| fenced(upstream));
    for (watched, observed) in all().filter(|(_, protect)| protect.is_observed()) {
        let shared = all().find(|(_, enforced)| {
            let resource = |protect: &Protect| protect.fence.as_ref().map(|it| it.resource.clone());
            !enforced.is_observed() && resource(enforced) == resource(observed)
        });
        if let Some((enforced, _)) = shared {
            field.warn(format!(
                "`{watched}` is only observed and has the resource of `{enforced}`: what it sends is \
                 not ordered with what is enforced there"
            ));
        }
    }
}

fn fenced(upstream: &Upstream) -> impl Iterator<Item = (&str, &Protect)> {
    let protects = upstream
        .effects
        .iter()
        .filter_map(|effect| match &effect.action {
            Action::Protect(protect) => Some((effect.name.as_str(), &**protect)),
            Action::Pass => None,
        });
    protects.filter(|(_, protect)| protect.fence.is_some())
}
