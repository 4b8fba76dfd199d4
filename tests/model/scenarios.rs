//! The worlds that are explored: for each rule one in which it matters, and some for the promise as a
//! whole.

mod findings;
mod keyless;
mod leases;
mod observed;
mod order;
mod people;
mod promise;
mod tokens;

use super::scenario::Scenario;

/// All of them, in the short form.
pub fn all() -> Vec<Scenario> {
    let mut all = promise::all();
    all.extend(tokens::all());
    all.extend(order::all());
    all.extend(keyless::all());
    all.extend(observed::all());
    all.extend(findings::all());
    all.extend(people::all());
    all.extend(leases::all());
    all
}

/// Worlds in which something takes longer than any margin: the promise must break.
pub fn beyond() -> Vec<Scenario> {
    let mut all = promise::beyond();
    all.extend(findings::beyond());
    all
}

/// The one of that name.
pub fn named(name: &str) -> Scenario {
    let mut all = all().into_iter();
    all.find(|scenario| scenario.name == name)
        .unwrap_or_else(|| panic!("no scenario is called {name:?}"))
}
