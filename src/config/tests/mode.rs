//! `mode`, as it is read: an effect's own wins over its upstream's, and that over the file's.

use super::{effect, good, protect_of, upstream, warnings};
use crate::config::{Action, Config, Mode};

fn modes(config: &Config) -> Vec<Mode> {
    let effects = config.upstreams.iter().flat_map(|it| &it.effects);
    effects
        .filter_map(|effect| match &effect.action {
            Action::Protect(protect) => Some(protect.mode),
            Action::Pass => None,
        })
        .collect()
}

#[test]
fn the_nearest_mode_wins() {
    let effects = "    effects:\n      - on: PUT /x\n      - on: PUT /y\n        mode: enforce\n";
    let at_upstream = good(&upstream(&format!("    mode: observe\n{effects}")));
    assert_eq!(modes(&at_upstream), [Mode::Observe, Mode::Enforce]);
    assert_eq!(at_upstream.upstreams[0].mode, Mode::Observe);
    let everywhere = good(&format!("{}mode: observe\n", upstream(effects)));
    assert_eq!(modes(&everywhere), [Mode::Observe, Mode::Enforce]);
    let nowhere = good(&upstream(effects));
    assert_eq!(modes(&nowhere), [Mode::Enforce, Mode::Enforce]);
    let own = good(&effect("        mode: observe\n"));
    assert_eq!(protect_of(&own).mode, Mode::Observe);
}

#[test]
fn who_only_observes_is_told_what_that_means() {
    let all = warnings(&effect("        mode: observe\n"));
    assert!(all.contains("forwarded all the same"), "{all}");
    let fenced = "        fence: { resource: \"r:{path.id}\" }\n";
    let shared = upstream(&format!(
        "    effects:\n      - on: PUT /x/{{id}}\n{fenced}      - on: PUT /y/{{id}}\n        mode: observe\n{fenced}"
    ));
    let shared = warnings(&shared);
    assert!(
        shared.contains("not ordered with what is enforced"),
        "{shared}"
    );
}
