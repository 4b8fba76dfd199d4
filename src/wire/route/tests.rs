//! Requests find their way, and paths that two servers could read differently find none.

use super::*;
use proptest::prelude::*;

use crate::wire::fixtures::{effect, fenced, keyed, upstream};

fn protect() -> Action {
    Action::Protect(Arc::new(keyed(true)))
}

fn charges(unlisted: Unlisted) -> Router {
    let effects = vec![
        effect(&Method::POST, "/oauth/token", Action::Pass),
        effect(&Method::POST, "/v1/charges", protect()),
        effect(
            &Method::PUT,
            "/accounts/{account}/statements/{date}",
            protect(),
        ),
    ];
    Router::new(Arc::new(upstream(effects, unlisted)))
}

/// What became of a request, in a word.
fn word(router: &Router, method: &Method, path: &str) -> &'static str {
    match router.route(method, path) {
        Ok(Routed::Pass) => "pass",
        Ok(Routed::Observe) => "observe",
        Ok(Routed::Spared(_)) => "spared",
        Ok(Routed::Protect { .. }) => "protect",
        Err(Fault::NoRoute { .. }) => "refused",
        Err(other) => panic!("{other:?}"),
    }
}

/// D09: each is treated as protected or refused, never passed.
#[test]
fn no_spelling_leads_around_a_protected_path() {
    for unlisted in [Unlisted::Observe, Unlisted::Pass, Unlisted::Deny] {
        let router = charges(unlisted);
        for path in [
            "/v1/charges",
            "/v1//charges",
            "/v1/./charges",
            "/v1/x/../charges",
            "/v1/%63harges",
            "/v1/%43harges",
            "/v1/charges;a=b",
            "/v1;x/charges",
            "/v1/charges%3Ba=b",
            "/v1/charges%253Ba=b",
            "/v1/charges/",
            "/v1%2fcharges",
            "/v1%252Fcharges",
            "/v1/%2e%2e/v1/charges",
            "/v1/%252e%252e/x",
            "/v1/%25%32%65%25%32%65/x",
            "/v1/%2525252525252525252563harges",
            "/v1/%252563harges",
            "/V1/charges",
            "/v1/CHARGES/",
            "/v1\\charges",
            "/v1%5Ccharges",
            "/../v1/charges",
            "//u/v1/charges",
            "/v1/charges%00",
            "/v1/charges%0d",
            "/v1/;/charges",
            "*",
            "",
        ] {
            let word = word(&router, &Method::POST, path);
            assert!(matches!(word, "protect" | "refused"), "{path}: {word}");
        }
        assert_eq!(word(&router, &Method::POST, "/v1/charges"), "protect");
        assert_eq!(word(&router, &Method::POST, "/v1/charges/"), "protect");
        assert_eq!(word(&router, &Method::POST, "/v1/%63harges"), "protect");
    }
}

#[test]
fn what_is_no_effect_in_any_reading_goes_its_way() {
    let router = charges(Unlisted::Observe);
    for path in [
        "/v1/refunds",
        "/projects/group%2Fname/issues",
        "/search/100%25",
        "/a;v=1/b",
        "/caf%C3%A9",
        "/v1/charges/1",
    ] {
        assert_eq!(word(&router, &Method::POST, path), "observe", "{path}");
    }
    assert_eq!(word(&router, &Method::POST, "/oauth/token"), "pass");
    assert_eq!(word(&router, &Method::GET, "/v1/charges"), "pass");
    assert_eq!(word(&router, &Method::GET, "/a//../%00"), "pass");
    assert_eq!(
        word(&charges(Unlisted::Deny), &Method::POST, "/v1/refunds"),
        "refused"
    );
    assert_eq!(
        word(&charges(Unlisted::Deny), &Method::GET, "/v1/refunds"),
        "pass"
    );
}

/// One statement has one fence, however its path is spelled.
#[test]
fn a_parameter_has_one_value_for_every_reader_or_the_request_is_refused() {
    let router = charges(Unlisted::Observe);
    let account = |path: &str| match router.route(&Method::PUT, path) {
        Ok(Routed::Protect { params, .. }) => params.value("account").map(str::to_owned),
        Ok(_) => panic!("{path} passed"),
        Err(_) => None,
    };
    for path in [
        "/accounts/a-42/statements/d",
        "/accounts/%61%2D42/statements/d",
        "/accounts/a-42/statements/d/",
    ] {
        assert_eq!(account(path).as_deref(), Some("a-42"), "{path}");
    }
    for path in [
        "/accounts/a-42;v=1/statements/d",
        "/accounts/a-42/statements/d;v=1",
        "/accounts/%2561-42/statements/d",
        "/accounts/a-42%3b/statements/d",
    ] {
        assert_eq!(account(path), None, "{path}");
    }
    assert_eq!(
        account("/accounts/g%2Fn/statements/d").as_deref(),
        Some("g/n")
    );
    assert_eq!(
        account("/accounts/50%25/statements/d").as_deref(),
        Some("50%")
    );
    assert_eq!(
        account("/accounts/A-42/statements/d").as_deref(),
        Some("A-42")
    );
}

#[test]
fn methods_count_as_written_but_not_to_lead_around() {
    let router = charges(Unlisted::Observe);
    for method in ["post", "Post", "CONNECT"] {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        assert_eq!(word(&router, &method, "/v1/charges"), "refused");
    }
    assert_eq!(word(&router, &Method::PATCH, "/v1/charges"), "observe");
}

#[test]
fn without_protected_effects_no_spelling_is_refused() {
    for (unlisted, expected) in [(Unlisted::Observe, "observe"), (Unlisted::Pass, "pass")] {
        let router = Router::new(Arc::new(upstream(Vec::new(), unlisted)));
        for path in ["/a//b", "/a/../b", "/a%00", "*", "/x;y"] {
            assert_eq!(word(&router, &Method::POST, path), expected, "{path}");
            assert_eq!(word(&router, &Method::GET, path), "pass");
        }
    }
}

#[test]
fn where_the_rest_is_protected_a_listed_exception_still_passes() {
    let effects = vec![
        effect(&Method::POST, "/oauth/token", Action::Pass),
        effect(&Method::POST, "/{rest...}", protect()),
    ];
    let listed = Router::new(Arc::new(upstream(effects, Unlisted::Observe)));
    let exception = vec![effect(&Method::POST, "/oauth/token", Action::Pass)];
    let unlisted = Unlisted::Protect(Arc::new(keyed(true)));
    let unlisted = Router::new(Arc::new(upstream(exception, unlisted)));
    for router in [listed, unlisted] {
        assert_eq!(word(&router, &Method::POST, "/oauth/token"), "pass");
        for path in ["/OAuth/token", "/oauth", "/anything/else"] {
            assert_eq!(word(&router, &Method::POST, path), "protect", "{path}");
        }
        assert_eq!(word(&router, &Method::POST, "/oauth/../x"), "refused");
    }
}

#[test]
fn a_passing_request_keeps_its_key_only_where_it_is_honoured() {
    let fenced = Action::Protect(Arc::new(fenced("a:{path.x}", "r:{path.x}")));
    let effects = vec![effect(&Method::PUT, "/{x}", fenced)];
    let mut rules = upstream(effects, Unlisted::Observe);
    let names = |rules: &Upstream| {
        let router = Router::new(Arc::new(rules.clone()));
        let names = router.withheld_on_pass().iter();
        names
            .map(|name| name.as_str().to_owned())
            .collect::<Vec<_>>()
    };
    let ours = ["fencing-acquisition", "fencing-sequence", "fencing-token"];
    assert_eq!(names(&rules), ours);
    rules.key = None;
    assert_eq!(names(&rules)[..3], ours);
    assert_eq!(names(&rules)[3], "idempotency-key");
    assert_eq!(names(&rules).len(), 4);
}

#[test]
fn a_listed_exception_to_denial_passes_without_any_effect() {
    let effects = vec![effect(&Method::POST, "/oauth/token", Action::Pass)];
    let router = Router::new(Arc::new(upstream(effects, Unlisted::Deny)));
    assert_eq!(word(&router, &Method::POST, "/oauth/token"), "pass");
    assert_eq!(word(&router, &Method::POST, "/oauth/other"), "refused");
    assert_eq!(word(&router, &Method::POST, "/oauth/../x"), "refused");
}

proptest! {
    /// Escaped any number of times, in any case, with parameters: it is never let out unprotected.
    #[test]
    fn a_disguised_charge_is_never_let_out(
        spelling in prop::collection::vec((0_usize..4, any::<bool>(), 0_u8..40), 11),
    ) {
        let mut path = String::from("/");
        for (character, (escapes, upper, parameter)) in "v1/charges".chars().zip(spelling) {
            let character = if upper { character.to_ascii_uppercase() } else { character };
            if escapes == 0 {
                path.push(character);
            } else {
                let digits = format!("{:02X}", u32::from(character));
                path.push('%');
                path.push_str(&"25".repeat(escapes - 1));
                path.push_str(&digits);
            }
            if parameter == 0 {
                path.push_str(";x=1");
            }
        }
        let word = word(&charges(Unlisted::Observe), &Method::POST, &path);
        // Parameters inside a segment cut it short, for every reader.
        let cut = path.split('/').any(|segment| {
            segment.split_once(';').is_some_and(|(_, after)| after != "x=1")
        });
        prop_assert!(cut || word != "observe", "{}: {}", path, word);
    }

    #[test]
    fn no_path_makes_it_panic(path in "[/a-c%25eEfF;.\\\\A-C]{0,24}") {
        let router = charges(Unlisted::Observe);
        let _ = router.route(&Method::POST, &path);
    }
}

#[test]
fn nothing_is_refused_for_the_sake_of_a_rule_that_is_only_observed() {
    let rules = |mode| {
        let mut protect = keyed(true);
        protect.mode = mode;
        let action = Action::Protect(Arc::new(protect));
        let effects = vec![effect(&Method::POST, "/v1/charges", action)];
        let mut rules = upstream(effects, Unlisted::Deny);
        rules.mode = mode;
        Router::new(Arc::new(rules))
    };
    let (enforced, observed) = (rules(Mode::Enforce), rules(Mode::Observe));
    for path in [
        "/v1//charges",
        "/V1/charges",
        "/v1/charges;a",
        "/v1%2Fcharges",
        "/elsewhere",
    ] {
        assert_eq!(word(&enforced, &Method::POST, path), "refused", "{path}");
        assert_eq!(word(&observed, &Method::POST, path), "spared", "{path}");
    }
    assert_eq!(word(&observed, &Method::POST, "/v1/charges"), "protect");
    // A rule that is enforced stays guarded beside one that is not.
    let mut watched = keyed(true);
    watched.mode = Mode::Observe;
    let both = vec![
        effect(
            &Method::POST,
            "/v1/refunds",
            Action::Protect(Arc::new(watched)),
        ),
        effect(
            &Method::POST,
            "/v1/charges",
            Action::Protect(Arc::new(keyed(true))),
        ),
    ];
    let both = Router::new(Arc::new(upstream(both, Unlisted::Observe)));
    assert_eq!(word(&both, &Method::POST, "/V1/charges"), "refused");
    assert_eq!(word(&both, &Method::POST, "/V1/refunds"), "spared");
}
