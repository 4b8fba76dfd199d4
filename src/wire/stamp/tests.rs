//! What a request without a token becomes, by how it stands with its resource.

use std::sync::Arc;

use bytes::Bytes;
use http::Request;

use super::*;
use crate::config::Unlisted;
use crate::expression::{PathTemplate, RequestPath};
use crate::protocol::ids::{AttemptId, InstanceId, Tenant};
use crate::protocol::rejection::Rejection;
use crate::wire::caller::Caller;
use crate::wire::fingerprint::FingerprintKey;
use crate::wire::fixtures::{fenced, upstream};
use crate::wire::identify::{Effect, Identified, Scope, identify};
use crate::wire::problem::{Remedy, Row};

const OWN: &str = "own";

fn token() -> Token {
    Token {
        token: FencingToken::parse("2:7").unwrap(),
        acquisition: AcquisitionId::new(OWN),
        source: TokenSource::new("fencepost"),
    }
}

fn owned(resource: &str) -> Stamps {
    one(resource, Stamp::Owned(token()))
}

fn one(resource: &str, stamp: Stamp) -> Stamps {
    [(ResourceName::new(resource), stamp)].into_iter().collect()
}

fn asked(
    mode: TokenMode,
    stamps: &Stamps,
    fields: &[(&str, &str)],
) -> Result<Identified, Unidentified> {
    let mut protect = fenced("pay:{path.id}:{token.generation}", "r:{path.id}");
    if mode != TokenMode::Require {
        protect = fenced("pay:{path.id}", "r:{path.id}");
    }
    let policy = Arc::make_mut(&mut protect.policy);
    policy.fence.as_mut().unwrap().token = mode;
    let mut request = Request::put("/x/1");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let (head, ()) = request.body(()).unwrap().into_parts();
    let path = RequestPath::parse("/x/1").unwrap();
    let params = PathTemplate::parse("/x/{id}").unwrap().captures(&path);
    let scope = Scope {
        tenant: &Tenant::new("payments"),
        upstream: &upstream(Vec::new(), Unlisted::Observe),
        fingerprints: &FingerprintKey::new(&[1; 32]),
    };
    let effect = Effect {
        protect: &protect,
        params: &params.unwrap(),
        head: &head,
        body: Bytes::new(),
        caller: &Caller::default(),
        first_attempt: AttemptId {
            instance: InstanceId(7),
            number: 3,
        },
        stamps,
    };
    identify(scope, effect)
}

fn refused(mode: TokenMode, stamps: &Stamps, fields: &[(&str, &str)]) -> Row {
    match asked(mode, stamps, fields) {
        Err(Unidentified::Fault(fault)) => Row::of_fault(&fault),
        Err(Unidentified::Token(rejection)) => Row::of_rejection(&rejection),
        Ok(identified) => panic!("{:?}", identified.presented),
    }
}

#[test]
fn what_carries_no_token_gets_that_of_the_ownership() {
    let identified = asked(TokenMode::Require, &owned("r:1"), &[]).unwrap();
    assert_eq!(identified.stamped, Some(Standing::Present));
    assert_eq!(identified.key.id.as_str(), "pay:1:2%3A7");
    let presented = identified.presented.unwrap();
    assert_eq!(
        presented.token,
        TokenField::Token(FencingToken::parse("2:7").unwrap())
    );
    assert_eq!(presented.acquisition, Some(AcquisitionId::new(OWN)));
    assert_eq!(presented.source.as_str(), "fencepost");
    let named = [("fencing-acquisition", OWN)];
    let named = asked(TokenMode::Require, &owned("r:1"), &named).unwrap();
    assert_eq!(named.stamped, Some(Standing::Present));
}

#[test]
fn what_carries_its_own_is_judged_as_it_is() {
    for stamps in [
        owned("r:1"),
        one("r:1", Stamp::Lost(String::new(), Remedy::BeginAnew)),
    ] {
        let own = asked(TokenMode::Require, &stamps, &[("fencing-token", "5")]).unwrap();
        assert_eq!(own.stamped, None);
        let presented = own.presented.unwrap();
        assert_eq!(
            presented.token,
            TokenField::Token(FencingToken::parse("5").unwrap())
        );
        assert_eq!(
            (presented.acquisition, presented.source.as_str()),
            (None, "workers")
        );
    }
    let empty = asked(TokenMode::Require, &owned("r:1"), &[("fencing-token", "")]);
    assert_eq!(
        empty.unwrap_err(),
        Unidentified::Token(Rejection::TokenMalformed)
    );
    let other = asked(TokenMode::Require, &owned("r:2"), &[]);
    assert_eq!(
        other.unwrap_err(),
        Unidentified::Token(Rejection::TokenRequired)
    );
}

#[test]
fn what_is_not_owned_is_never_tokenless_but_where_tokens_are_observed() {
    let not_yet = one("r:1", Stamp::NotYet("another holds it".to_owned()));
    let lost = one(
        "r:1",
        Stamp::Lost("its time ended".to_owned(), Remedy::BeginAnew),
    );
    for mode in [TokenMode::Require, TokenMode::Prefer] {
        assert_eq!(refused(mode, &not_yet, &[]), Row::LeaseHeld);
        assert_eq!(refused(mode, &lost, &[]), Row::LeaseLost);
        for stamps in [&not_yet, &lost] {
            let told = asked(mode, stamps, &[]).unwrap_err().reply(None);
            let told: serde_json::Value = serde_json::from_slice(&told.body).unwrap();
            assert_eq!(told["resource"], "r:1");
        }
        let another = [("fencing-acquisition", "another")];
        assert_eq!(refused(mode, &owned("r:1"), &another), Row::LeaseLost);
    }
    for stamps in [not_yet, lost] {
        let observed = asked(TokenMode::Observe, &stamps, &[]).unwrap();
        assert_eq!(observed.stamped, None);
        assert_eq!(observed.presented.unwrap().token, TokenField::Absent);
    }
}

#[test]
fn what_is_of_an_earlier_ownership_gets_its_token_and_is_told_apart() {
    let earlier = one("r:1", Stamp::Earlier(token()));
    let identified = asked(TokenMode::Require, &earlier, &[]).unwrap();
    assert_eq!(identified.stamped, Some(Standing::Earlier));
    let presented = identified.presented.unwrap();
    assert_eq!(
        presented.token,
        TokenField::Token(FencingToken::parse("2:7").unwrap())
    );
    assert_eq!(presented.acquisition, Some(AcquisitionId::new(OWN)));
    let another = [("fencing-acquisition", "another")];
    assert_eq!(
        refused(TokenMode::Require, &earlier, &another),
        Row::LeaseLost
    );
}
