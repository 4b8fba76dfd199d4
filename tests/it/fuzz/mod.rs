//! Every parser that meets a stranger's bytes, fed with bytes that nobody meant to send.
//!
//! What always holds: each target states a property, not only that nothing panics; every seed of its
//! corpus is checked first, so that what was once found stays found; then mutations, until the time is
//! up. A failure prints the input as a line for the corpus and the seed that made it.
//!
//! A new target is a function in `targets`, a line in the list below, and a corpus of that name.
//!
//! `FENCEPOST_FUZZ_SECONDS` is the time that each target gets (1), `FENCEPOST_FUZZ_SEED` repeats a run.
//!
//! Why an engine of our own: coverage-guided fuzzing needs a nightly compiler, which neither CI nor a
//! contributor has to have. What stands in for coverage is what the target itself says that it saw
//! ([`Shape`]): an input of a shape not seen before is mutated further.
//!
//! What it does not do: find a stack overflow gracefully (it ends the process).

mod engine;
mod targets;

use engine::{Corpus, run};

/// What a target made of an input, in a few words: which way it went, roughly how big the result is.
type Shape = String;

macro_rules! fuzz {
    ($($name:ident)*) => {$(
        #[test]
        fn $name() {
            let seeds = include_str!(concat!("corpus/", stringify!($name), ".txt"));
            run(&Corpus::read(stringify!($name), seeds), targets::$name);
        }
    )*};
}

fuzz! {
    token
    sequence
    key
    header_fields
    json
    form
    canonical
    multipart
    xml
    graphql
    insertion
    template
    condition
    identity
    path
    pointer
    config
}
