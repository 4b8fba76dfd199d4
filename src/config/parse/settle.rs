//! How a lost answer is settled: the steps of an effect.
//!
//! What always holds: bytes are sent again only to an upstream that deduplicates by key, and only if they are
//! kept; a question says how late "not found" begins to count; nothing is undone that has no key to be undone
//! by; a step's name is its own among the steps of its effect.
//!
//! What it does not do: read what is asked (`asking`).

use std::num::NonZeroU32;

use super::asking;
use crate::config::asking::Asking;
use crate::config::field::{Field, Fields};
use crate::config::insertion::Insert;
use crate::config::problems::Place;
use crate::config::scalar::{self, DURATION};
use crate::expression::PathTemplate;
use crate::protocol::ids::StepName;
use crate::protocol::policy::Capability;
use crate::protocol::steps::{
    Backoff, CallbackPolicy, LookUpPolicy, MOST_STEPS, ResendPolicy, SettleStep, Steps, VoidPolicy,
};
use crate::protocol::time::Millis;

const DEFAULT_RESENDS: ResendPolicy = ResendPolicy {
    attempts: 5,
    backoff_from: Millis(200),
    backoff_to: Millis(30_000),
};

const DEFAULT_PAUSES: Backoff = Backoff {
    from: Millis(1_000),
    to: Millis(60_000),
};

const DEFAULT_UNDOS: u32 = 5;
const DEFAULT_SAMPLES: u32 = 3;
/// Beyond twice the lag.
const DEFAULT_WITHIN: Millis = Millis(3_600_000);
const DEFAULT_CALLBACK: Millis = Millis(24 * 3_600_000);
const MOST_ATTEMPTS: u64 = 1_000;

/// What the effect brings that steps depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Around<'a> {
    pub(super) capability: Capability,
    pub(super) path: Option<&'a PathTemplate>,
    /// What is put into its requests.
    pub(super) insert: &'a Insert,
    /// Does anybody listen for the upstream's callbacks?
    pub(super) calls_back: bool,
    /// Where everything stands that a profile brings.
    pub(super) profile: Option<Place>,
}

/// How an effect is settled.
#[derive(Debug)]
pub(super) struct Settled {
    pub(super) steps: Steps,
    pub(super) asking: Asking,
    /// Are the bytes kept until it is settled?
    pub(super) keep_request: bool,
}

/// Reads `settle` and `keep_request`.
pub(super) fn settle(fields: &mut Fields<'_>, around: Around<'_>) -> Settled {
    let keep = fields.or("keep_request", true, |field| {
        field.choice(&[("until-settled", true), ("never", false)])
    });
    let mut reading = Reading {
        around,
        keep,
        steps: Vec::new(),
        asking: Asking::default(),
    };
    match fields.take("settle") {
        None if around.capability.idempotent && keep => {
            reading.steps.push(SettleStep::SendAgain(DEFAULT_RESENDS));
        }
        None => {}
        Some(field) => reading.list(&field),
    }
    let reads_request = |step: &SettleStep| !matches!(step, SettleStep::Callback(_));
    // Where no step reads the bytes, nobody ever would.
    let keep_request = keep && reading.steps.iter().any(reads_request);
    Settled {
        steps: Steps::new(reading.steps).unwrap_or_default(),
        asking: reading.asking,
        keep_request,
    }
}

struct Reading<'a> {
    around: Around<'a>,
    keep: bool,
    steps: Vec<SettleStep>,
    asking: Asking,
}

impl Reading<'_> {
    fn list(&mut self, field: &Field<'_>) {
        let items = field.list().unwrap_or_default();
        if items.len() > MOST_STEPS {
            field.error(format!("an effect has at most {MOST_STEPS} steps"));
        }
        for item in items {
            let Some(mut fields) = item.map() else {
                continue;
            };
            let before = self.steps.len();
            self.step(&mut fields);
            if self.steps.len() > before.saturating_add(1) {
                item.error("each step is an item of its own: steps are taken in order");
            }
            fields.finish();
        }
    }

    fn step(&mut self, fields: &mut Fields<'_>) {
        if let Some(field) = fields.take("send_again") {
            self.send_again(&field);
        }
        if let Some(field) = fields.take("look_up") {
            self.look_up(&field);
        }
        if let Some(field) = fields.take("compare") {
            self.compare(&field);
        }
        if let Some(field) = fields.take("void") {
            self.void(&field);
        }
        if let Some(field) = fields.take("callback") {
            self.callback(&field);
        }
    }

    fn send_again(&mut self, field: &Field<'_>) {
        let stands = |step: &SettleStep| matches!(step, SettleStep::SendAgain(_));
        if !self.around.capability.idempotent {
            field.error("only an upstream with capability `idempotent` may be sent to again");
        } else if !self.keep {
            field.error("nothing can be sent again with `keep_request: never`");
        } else if self.steps.iter().any(stands) {
            field.error("stands here already");
            return;
        }
        if let Some(resends) = send_again(field) {
            self.steps.push(SettleStep::SendAgain(resends));
        }
    }

    fn look_up(&mut self, field: &Field<'_>) {
        if !self.around.capability.query {
            field.error("only an upstream with capability `query` can be asked");
        }
        let Some(mut fields) = field.map() else {
            return;
        };
        let (name, step) = self.question(&mut fields, "look_up");
        let samples_count = fields.or("samples", DEFAULT_SAMPLES, samples);
        let tells_forms = fields.or("tells_forms", false, Field::boolean);
        let asked = asking::look_up(&mut fields, name, self.around.path);
        if let Some(asked) = &asked {
            let read = (asked.query.members(), asked.references());
            asking::names_what_is_sent(field, read, self.around.insert);
        }
        if !self.keep {
            asking::needs_nothing_stored(field, asked.as_ref().map(|asked| &asked.query));
        }
        fields.finish();
        if let (Some(step), Some(asked)) = (step, asked) {
            self.asking.look_ups.push(asked);
            self.steps.push(SettleStep::LookUp(LookUpPolicy {
                samples: NonZeroU32::new(samples_count).unwrap_or(NonZeroU32::MIN),
                tells_forms,
                ..step
            }));
        }
    }

    fn compare(&mut self, field: &Field<'_>) {
        if !self.around.capability.conditional {
            field.error(
                "only what a `conditional` upstream holds can be compared: elsewhere what is there now \
                 may be anybody's",
            );
        } else if !self.keep {
            field.error("nothing is there to compare with, with `keep_request: never`");
        }
        let Some(mut fields) = field.map() else {
            return;
        };
        let (name, step) = self.question(&mut fields, "compare");
        let samples_count = fields.or("samples", DEFAULT_SAMPLES, samples);
        let asked = asking::compare(&mut fields, name, self.around.path);
        if let Some(query) = &asked.query {
            let read = (query.members(), query.references());
            asking::names_what_is_sent(field, read, self.around.insert);
        }
        fields.finish();
        if let Some(step) = step {
            self.asking.compares.push(asked);
            self.steps.push(SettleStep::Compare(LookUpPolicy {
                samples: NonZeroU32::new(samples_count).unwrap_or(NonZeroU32::MIN),
                // What was sent is what is compared.
                tells_forms: true,
                ..step
            }));
        }
    }

    fn void(&mut self, field: &Field<'_>) {
        if !self.around.capability.idempotent {
            field.error("what is undone by its key needs a key: capability `idempotent`");
        }
        let Some(mut fields) = field.map() else {
            return;
        };
        let (name, step) = self.question(&mut fields, "void");
        let attempts = fields.or("attempts", DEFAULT_UNDOS, |field| {
            field.number("a number from 1 to 1000", 1..=MOST_ATTEMPTS)
        });
        let asked = asking::undo(&mut fields, name, self.around.path);
        if let Some(asked) = &asked {
            let read = (asked.query.members(), asked.references());
            asking::names_what_is_sent(field, read, self.around.insert);
        }
        if !self.keep {
            asking::needs_nothing_stored(field, asked.as_ref().map(|asked| &asked.query));
        }
        fields.finish();
        if let (Some(step), Some(asked)) = (step, asked) {
            self.asking.voids.push(asked);
            self.steps.push(SettleStep::Void(VoidPolicy {
                name: step.name,
                lag: step.lag,
                attempts,
                every: step.every,
                within: step.within,
            }));
        }
    }

    fn callback(&mut self, field: &Field<'_>) {
        if !self.around.capability.callback {
            field.error("only an upstream with capability `callback` calls back");
        } else if !self.around.calls_back {
            // A profile says what there is; whether somebody listens is the config's to say.
            if self.around.profile == Some(field.at()) {
                if let Some(mut fields) = field.map() {
                    fields.or("within", DEFAULT_CALLBACK, duration);
                }
                return;
            }
            field.error("nobody listens: the upstream has no `callbacks`");
        }
        let Some(mut fields) = field.map() else {
            return;
        };
        let within = fields.or("within", DEFAULT_CALLBACK, duration);
        fields.finish();
        self.steps
            .push(SettleStep::Callback(CallbackPolicy { within }));
    }

    /// `name`, `lag`, `every` and `within`: what questions and undos have in common. `None` without a lag.
    fn question(
        &self,
        fields: &mut Fields<'_>,
        kind: &'static str,
    ) -> (String, Option<LookUpPolicy>) {
        let named = fields.take("name");
        let name = named
            .as_ref()
            .and_then(|field| field.read(super::NAME, |text| super::is_name(text).then_some(text)));
        let name = name.map_or_else(|| self.default_name(kind), str::to_owned);
        if self.names().any(|known| known == name) {
            let at = named.as_ref().unwrap_or(fields.own());
            at.error(format!("another step is called `{name}`: name one of them"));
        }
        let lag_field = fields.need("lag");
        let lag = lag_field.as_ref().and_then(duration);
        let every = fields
            .take("every")
            .and_then(|field| pauses(&field, DEFAULT_PAUSES))
            .unwrap_or(DEFAULT_PAUSES);
        let default = DEFAULT_WITHIN.plus(lag.unwrap_or_default().percent(200));
        let within = fields.or("within", default, duration);
        if let (Some(field), Some(lag)) = (&lag_field, lag)
            && lag >= within
        {
            field.error("the step is over before the lag is: `within` must be longer");
        }
        let step = lag.map(|lag| LookUpPolicy {
            name: StepName::new(name.clone()),
            lag,
            samples: NonZeroU32::MIN,
            every,
            within,
            tells_forms: false,
        });
        (name, step)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        let Asking {
            look_ups,
            compares,
            voids,
        } = &self.asking;
        let look_ups = look_ups.iter().map(|it| it.name.as_str());
        let compares = compares.iter().map(|it| it.name.as_str());
        let voids = voids.iter().map(|it| it.name.as_str());
        look_ups.chain(compares).chain(voids)
    }

    /// The second of a kind is `look_up-2`: an intent finds its question again by this name.
    fn default_name(&self, kind: &'static str) -> String {
        let of_kind = match kind {
            "look_up" => self.asking.look_ups.len(),
            "compare" => self.asking.compares.len(),
            _ => self.asking.voids.len(),
        };
        match of_kind {
            0 => kind.to_owned(),
            others => format!("{kind}-{}", others.saturating_add(1)),
        }
    }
}

fn duration(field: &Field<'_>) -> Option<Millis> {
    field.read(DURATION, scalar::millis)
}

fn samples(field: &Field<'_>) -> Option<u32> {
    field.number("a number from 1 to 100", 1..=100)
}

fn send_again(field: &Field<'_>) -> Option<ResendPolicy> {
    let mut fields = field.map()?;
    let attempts = fields.or("attempts", DEFAULT_RESENDS.attempts, |field| {
        field.number("a number from 1 to 1000", 1..=MOST_ATTEMPTS)
    });
    let default = DEFAULT_RESENDS.every();
    let backoff = fields
        .take("backoff")
        .and_then(|field| pauses(&field, default))
        .unwrap_or(default);
    fields.finish();
    Some(ResendPolicy {
        attempts,
        backoff_from: backoff.from,
        backoff_to: backoff.to,
    })
}

fn pauses(field: &Field<'_>, default: Backoff) -> Option<Backoff> {
    let mut fields = field.map()?;
    let from = fields.or("from", default.from, duration);
    let to = fields.or("to", default.to.max(from), duration);
    if to < from {
        field.error("`to` is shorter than `from`");
    }
    fields.finish();
    Some(Backoff { from, to })
}
