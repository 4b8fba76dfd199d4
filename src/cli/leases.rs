//! `leases`: who owns what, and until when at most.
//!
//! What always holds: what is printed as JSON is what the instance said.
//!
//! What it does not do: hold a lease (`lease`), or end another's; `resources advance` does.

use std::fmt::Write;

use super::arguments::{Leases, LeasesList, ResourceShow};
use super::failure::Failure;
use super::table::{Facts, Table, age, clean, or_dash, shell_word};
use crate::admin::client::path;
use crate::admin::views::{LeaseList, LeaseView};

/// Does it; answers what to print.
pub(super) async fn run(command: &Leases, json: bool) -> Result<String, Failure> {
    match command {
        Leases::List(list) => self::list(list, json).await,
        Leases::Show(show) => self::show(show, json).await,
    }
}

async fn list(list: &LeasesList, json: bool) -> Result<String, Failure> {
    let query = [
        ("limit", Some(list.page.limit.to_string())),
        ("after", list.page.after.clone()),
    ];
    let told = list.instance.read(&path(&["leases"], &query)).await?;
    told.printed(json, listed)
}

async fn show(show: &ResourceShow, json: bool) -> Result<String, Failure> {
    let path = path(&["leases", &show.name], &[]);
    show.instance.read(&path).await?.printed(json, shown)
}

fn listed(list: &LeaseList) -> String {
    if list.leases.is_empty() && list.next.is_none() {
        return "no lease is held".to_owned();
    }
    let mut table = Table::new(["RESOURCE", "TOKEN", "HOLDER", "ENDS WITHIN", "RENEWED LAST"]);
    for lease in &list.leases {
        table.row([
            lease.resource.clone(),
            or_dash(lease.token.as_ref()),
            or_dash(lease.holder.as_ref()),
            or_dash(lease.expires_in_ms.map(age)),
            or_dash(lease.since.as_ref()),
        ]);
    }
    let mut text = table.text();
    if let Some(next) = &list.next {
        let _ = writeln!(text, "more: --after {}", clean(&shell_word(next)));
    }
    text
}

fn shown(lease: &LeaseView) -> String {
    let mut facts = Facts::default();
    facts.fact("resource", Some(&lease.resource));
    facts.fact("standing", Some(standing(lease)));
    facts
        .fact("token", lease.token.as_ref())
        .fact("lasts", lease.ttl_ms.map(age))
        .fact("renewed last", lease.since.as_ref())
        .fact("renewals", lease.renewals)
        .fact("acquisition digest", lease.acquisition_digest.as_ref());
    facts.text()
}

/// Who owns it, and until when at most, in a line.
pub(super) fn standing(lease: &LeaseView) -> String {
    let holder = match lease.holder.as_deref() {
        None | Some("") => "somebody without a name",
        Some(holder) => holder,
    };
    match lease.expires_in_ms {
        Some(left) if lease.held => format!("held by {holder}, for {} at most", age(left)),
        Some(_) | None => "held by nobody".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held() -> LeaseView {
        LeaseView {
            resource: "account:1".to_owned(),
            held: true,
            holder: Some("worker-1".to_owned()),
            token: Some("108".to_owned()),
            expires_in_ms: Some(29_000),
            ttl_ms: Some(30_000),
            since: Some("2026-09-13T00:00:00.000Z".to_owned()),
            renewals: Some(3),
            acquisition_digest: Some("ab".to_owned()),
        }
    }

    #[test]
    fn a_list_says_who_owns_what_and_until_when() {
        let list = LeaseList {
            leases: vec![held()],
            next: Some("account:1".to_owned()),
        };
        assert_eq!(
            listed(&list),
            "RESOURCE   TOKEN  HOLDER    ENDS WITHIN  RENEWED LAST\n\
             account:1  108    worker-1  29s          2026-09-13T00:00:00.000Z\n\
             more: --after account:1\n"
        );
    }

    #[test]
    fn what_is_held_by_nobody_says_so() {
        let mut lease = held();
        assert!(shown(&lease).contains("held by worker-1, for 29s at most"));
        lease.held = false;
        lease.expires_in_ms = None;
        assert_eq!(standing(&lease), "held by nobody");
    }
}
