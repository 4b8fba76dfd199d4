//! The operator API and the health listener over real sockets.

mod alerts;
mod health_listener;
mod three_a_m;
mod verdicts;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::access::{Operators, bind};
use super::api::{self, Api, Needs};
use super::client::{AdminClient, ClientError, path};
use super::health::{self, Health, Readiness};
use super::in_force::InForce;
use super::serve;
use super::stand_in::{INSTANCE, StandIn, Wanted};
use super::views::{OperationDetail, OperationList, ResourceDetail, ResourceList, StatusView};
use crate::clock::Clock;
use crate::config::Secret;
use crate::lease::own::Own;
use crate::observe::counts::Counts;
use crate::protocol::command::Command;
use crate::protocol::ids::{AttemptId, InstanceId, OperationKey, Principal, Tenant};
use crate::protocol::outcome::{Answer, AnswerClass, Evidence};
use crate::protocol::policy::KeyValue;
use crate::store::{Register, StoreError};
use crate::telemetry::metrics::Metrics;

/// An instance with one operator, Alice, whose token is `alice's`.
pub(crate) struct House {
    stand_in: Arc<StandIn>,
    clock: Clock,
    draining: CancellationToken,
    settled: Arc<Mutex<Vec<OperationKey>>>,
    pub(crate) api: SocketAddr,
    health: SocketAddr,
}

struct Got {
    status: u16,
    head: String,
    body: String,
}

pub(crate) async fn house(operators: Operators) -> House {
    let stand_in = Arc::new(StandIn::default());
    let register = Register::new(stand_in.clone());
    let clock = Clock::system().unwrap();
    let draining = CancellationToken::new();
    let readiness = Readiness::new(register.clone(), draining.clone());
    let settled = Arc::new(Mutex::new(vec![]));
    let told = settled.clone();
    let leases = Own::new(register.clone(), clock.clone());
    let api = Api::from(Needs {
        register,
        clock: clock.clone(),
        tenant: Tenant::new("t"),
        operators: operators.clone(),
        readiness: readiness.clone(),
        in_force: in_force(),
        report: Some(Counts::default()),
        settled: Arc::new(move |key| told.lock().unwrap().push(key.clone())),
        reloading: None,
        reconciler: None,
        metrics: None,
        leases: leases.clone(),
        tasks: TaskTracker::new(),
    });
    let health = Health::new(
        readiness,
        Metrics::new(),
        clock.clone(),
        in_force(),
        None,
        leases,
    );
    House {
        stand_in,
        clock,
        draining,
        settled,
        api: start(&operators, api::router(api)).await,
        health: start(&operators, health::router(health)).await,
    }
}

async fn start(operators: &Operators, router: axum::Router) -> SocketAddr {
    let listener = bind("127.0.0.1:0".parse().unwrap(), operators)
        .await
        .unwrap();
    let address = listener.local_addr().unwrap();
    TaskTracker::new().spawn(serve(listener, router, std::future::pending()));
    address
}

/// A config whose digest begins with `d1`, so to speak.
fn in_force() -> InForce {
    let text = "version: 1\nupstreams: { a: { listen: 127.0.0.1:0, url: http://a } }\n";
    let (config, _) = crate::config::parse(text, "test").unwrap();
    let config = crate::config::Config {
        digest: "d1".to_owned(),
        ..config
    };
    InForce::new(Some(Arc::new(config)), None)
}

pub(crate) fn alice() -> Operators {
    Operators::new([
        ("bob".to_owned(), Secret::new("bob's")),
        ("alice".to_owned(), Secret::new("alice's")),
    ])
}

impl House {
    /// An operation that a dead instance left behind.
    pub(crate) fn left_behind(&self, id: &str) -> OperationKey {
        self.admitted(id, Principal::None, KeyValue::Derived, InstanceId(1))
    }

    fn admitted(
        &self,
        id: &str,
        principal: Principal,
        key: KeyValue,
        instance: InstanceId,
    ) -> OperationKey {
        let at = self.clock.now();
        self.stand_in.admit(&Wanted {
            id,
            principal,
            token: 108,
            key,
            instance,
            at,
        })
    }

    fn client(&self) -> AdminClient {
        let token = Secret::new("alice's");
        AdminClient::new(&format!("http://{}", self.api), Some(&token)).unwrap()
    }

    async fn read<T: serde::de::DeserializeOwned>(&self, path: &str) -> T {
        let client = self.client();
        client
            .understand(&client.read(path).await.unwrap())
            .unwrap()
    }

    async fn resolve(&self, id: &str, body: Value) -> Result<Value, (u16, String)> {
        let path = path(&["operations", "bank", id, "resolve"], &[]);
        refused(self.client().change(&path, body.to_string()).await)
    }
}

fn refused(result: Result<Value, ClientError>) -> Result<Value, (u16, String)> {
    match result {
        Ok(value) => Ok(value),
        Err(ClientError::Refused(details)) => Err((details.status, name(&details.kind))),
        Err(other) => panic!("{other:?}"),
    }
}

fn name(kind: &str) -> String {
    kind.strip_prefix("urn:fencepost:problem:")
        .unwrap()
        .to_owned()
}

async fn get(address: SocketAddr, path: &str, fields: &str) -> Got {
    let request = format!("GET {path} HTTP/1.1\r\nConnection: close\r\n{fields}\r\n");
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).await.unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    Got {
        status: head[9..12].parse().unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    }
}

#[tokio::test]
async fn only_an_operators_token_opens_the_api() {
    let house = house(alice()).await;
    for path in ["/v1/status", "/v1/operations", "/v1/nothing", "/"] {
        let got = get(house.api, path, "Host: a\r\n").await;
        assert_eq!(got.status, 401, "{path}");
        assert!(
            got.head.contains("www-authenticate: bearer"),
            "{}",
            got.head
        );
        assert!(
            got.head.contains("application/problem+json"),
            "{}",
            got.head
        );
    }
    for wrong in ["alice", "alice'sx", "xalice's", "ALICE'S", "alice's,bob's"] {
        let fields = format!("Host: a\r\nAuthorization: Bearer {wrong}\r\n");
        assert_eq!(
            get(house.api, "/v1/status", &fields).await.status,
            401,
            "{wrong}"
        );
    }
    let basic = "Host: a\r\nAuthorization: Basic alice's\r\n";
    assert_eq!(get(house.api, "/v1/status", basic).await.status, 401);
    for right in ["alice's", "bob's"] {
        let fields = format!("Host: a\r\nAuthorization: Bearer {right}\r\n");
        let got = get(house.api, "/v1/status", &fields).await;
        assert_eq!(got.status, 200, "{}", got.body);
        assert!(got.head.contains("cache-control: no-store"), "{}", got.head);
    }
}

#[tokio::test]
async fn without_operators_loopback_may_read_and_nobody_may_write() {
    let house = house(Operators::default()).await;
    house.left_behind("pay-1");
    for host in ["localhost:15000", "127.0.0.1", "[::1]:1"] {
        let got = get(house.api, "/v1/operations", &format!("Host: {host}\r\n")).await;
        assert_eq!(got.status, 200, "{host}");
    }
    let rebound = get(house.api, "/v1/operations", "Host: evil.example\r\n").await;
    assert_eq!(rebound.status, 403);
    assert!(
        rebound.body.contains("host-not-allowed"),
        "{}",
        rebound.body
    );
    let bodies = "/v1/operations/bank/pay-1?bodies=true";
    let bodies = get(house.api, bodies, "Host: localhost\r\n").await;
    assert_eq!(bodies.status, 403, "{}", bodies.body);
    let verdict = json!({"verdict": "applied", "reason": "seen"});
    let refusal = house.resolve("pay-1", verdict).await.unwrap_err();
    assert_eq!(refusal, (403, "operators-required".to_owned()));
    assert_eq!(house.settled.lock().unwrap().len(), 0);
}

#[tokio::test]
async fn operations_are_listed_newest_first_in_pages() {
    let house = house(alice()).await;
    for id in ["a", "b", "c"] {
        house.left_behind(id);
    }
    let first: OperationList = house.read("/operations?limit=2").await;
    let ids = |list: &OperationList| -> Vec<String> {
        list.operations
            .iter()
            .map(|operation| operation.id.clone())
            .collect()
    };
    assert_eq!(ids(&first), ["c", "b"]);
    let next = first.next.clone().unwrap();
    let second: OperationList = house
        .read(&format!("/operations?limit=2&after={next}"))
        .await;
    assert_eq!(ids(&second), ["a"]);
    assert_eq!(second.next, None);
    let shown = &first.operations[0];
    assert_eq!(shown.token.as_deref(), Some("3:108"));
    // Its instance is dead: INTENDED is UNCERTAIN, here and now.
    assert_eq!(shown.state, "UNCERTAIN");
    assert!(!shown.attempts[0].live);
    assert!(humantime::parse_rfc3339(&shown.first_seen).is_ok());
    let none: OperationList = house
        .read("/operations?state=completed&resource=&upstream=bank")
        .await;
    assert_eq!(ids(&none).len(), 0);
    let client = house.client();
    for bad in [
        "state=DONE",
        "limit=0",
        "limit=501",
        "limit=x",
        "after=-1",
        "stat=INTENDED",
    ] {
        let refusal = refused(client.read(&format!("/operations?{bad}")).await).unwrap_err();
        assert_eq!(refusal, (400, "malformed-request".to_owned()), "{bad}");
    }
}

#[tokio::test]
async fn an_operation_is_found_by_its_exact_name() {
    let house = house(alice()).await;
    let id = "pay:acc/7 100%:é";
    house.left_behind(id);
    let path = path(&["operations", "bank", id], &[]);
    let shown: OperationDetail = house.read(&path).await;
    assert_eq!(shown.operation.id, id);
    assert_eq!(shown.request, None);
    let with: Value = house
        .client()
        .read(&format!("{path}?bodies=true"))
        .await
        .unwrap();
    assert_eq!(with["request"]["body"], r#"{"amount":5}"#);
    assert_eq!(with["request"]["line"], "POST /pay");
    assert_eq!(with["request"]["content_type"], "application/json");
    assert!(!with.to_string().contains("hunter2"), "{with}");
    let client = house.client();
    for unknown in [
        "/operations/bank/pay",
        "/operations/other/pay-1",
        "/operations/bank/%2F",
    ] {
        let refusal = refused(client.read(unknown).await).unwrap_err();
        assert_eq!(refusal, (404, "unknown-operation".to_owned()), "{unknown}");
    }
    let refusal = refused(client.read("/operations/bank/%ff").await).unwrap_err();
    assert_eq!(refusal.0, 400);
}

#[tokio::test]
async fn a_name_that_two_accounts_share_is_not_guessed_at() {
    let house = house(alice()).await;
    let account = Principal::Hashed([0xab; 16]);
    house.left_behind("pay-1");
    house.admitted("pay-1", account, KeyValue::Derived, InstanceId(1));
    let client = house.client();
    match client.read("/operations/bank/pay-1").await {
        Err(ClientError::Refused(details)) => {
            assert_eq!((details.status, details.candidates.len()), (409, 2));
        }
        other => panic!("{other:?}"),
    }
    let verdict = json!({"verdict": "not_applied", "reason": "seen"});
    assert_eq!(house.resolve("pay-1", verdict).await.unwrap_err().0, 409);
    let digest = "ab".repeat(16);
    let one: OperationDetail = house
        .read(&format!("/operations/bank/pay-1?principal={digest}"))
        .await;
    assert_eq!(one.operation.principal, Some(digest));
    let other: OperationDetail = house.read("/operations/bank/pay-1?principal=none").await;
    assert_eq!(other.operation.principal, None);
    let refusal = refused(client.read("/operations/bank/pay-1?principal=xy").await);
    assert_eq!(refusal.unwrap_err().0, 400);
}

#[tokio::test]
async fn resources_show_which_generation_is_authoritative() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    let list: ResourceList = house.read("/resources").await;
    assert_eq!(list.resources[0].resource, "account:1/2");
    assert_eq!(list.resources[0].token.as_deref(), Some("3:108"));
    let full: ResourceList = house.read("/resources?limit=1").await;
    let next = full.next.unwrap();
    let rest = path(&["resources"], &[("after", Some(next))]);
    let rest: ResourceList = house.read(&rest).await;
    assert_eq!((rest.resources.len(), rest.next), (0, None));
    let one: ResourceDetail = house.read("/resources/account%3A1%2F2").await;
    assert_eq!(one.unsettled[0].id, "pay-1");
    let refusal = refused(house.client().read("/resources/nothing").await).unwrap_err();
    assert_eq!(refusal, (404, "unknown-resource".to_owned()));
}

#[tokio::test]
async fn status_counts_what_is_unsettled() {
    let house = house(alice()).await;
    house.left_behind("pay-1");
    let status: StatusView = house.read("/status").await;
    assert!(status.ready && !status.draining);
    let counted = status.counted.unwrap();
    assert_eq!((counted.epoch, status.config_digest.as_str()), (3, "d1"));
    assert_eq!(counted.operations.get("INTENDED"), Some(&1));
    assert!(counted.oldest_unsettled.is_some() && counted.oldest_unsettled_ms.is_some());
    assert_eq!(counted.newest, counted.oldest_unsettled);
    // It answers also where the register does not, and says why once.
    let fault = StoreError::Unavailable("no disk".to_owned());
    house.stand_in.break_with(Some(fault.clone()));
    let status: StatusView = house.read("/status").await;
    assert!(status.counted.is_none() && status.register.is_none());
    assert_eq!(status.reasons, [fault.to_string()]);
}
