//! `resources`: which generation is authoritative, and what stands in its way.
//!
//! What always holds: what is printed as JSON is what the instance said.
//!
//! What it does not do: decide, or signal whoever holds a resource.

use std::fmt::Write;

use super::arguments::{
    ResourceAccept, ResourceRepair, ResourceShow, ResourceSteer, Resources, ResourcesList,
};
use super::failure::Failure;
use super::instance::Touch;
use super::leases;
use super::operations;
use super::table::{Facts, Table, age, clean, or_dash, shell_word};
use crate::admin::client::path;
use crate::admin::views::{
    AdviceView, ExplainedView, ResourceDetail, ResourceList, ResourceView, SteeredView,
};

/// Does it; answers what to print.
pub(super) async fn run(command: &Resources, json: bool) -> Result<String, Failure> {
    match command {
        Resources::List(list) => self::list(list, json).await,
        Resources::Show(show) => self::show(show, json).await,
        Resources::Explain(show) => explain(show, json).await,
        Resources::Advance(steer) => self::steer(steer, "advance", json).await,
        Resources::Cancel(steer) => self::steer(steer, "cancel", json).await,
        Resources::Reopen(steer) => self::steer(steer, "reopen", json).await,
        Resources::Accept(accept) => self::accept(accept, json).await,
        Resources::Repair(repair) => self::repair(repair, json).await,
    }
}

async fn list(list: &ResourcesList, json: bool) -> Result<String, Failure> {
    let query = [
        ("limit", Some(list.page.limit.to_string())),
        ("after", list.page.after.clone()),
    ];
    let told = list.instance.read(&path(&["resources"], &query)).await?;
    told.printed(json, listed)
}

async fn show(show: &ResourceShow, json: bool) -> Result<String, Failure> {
    let path = path(&["resources", &show.name], &[]);
    show.instance.read(&path).await?.printed(json, shown)
}

async fn explain(show: &ResourceShow, json: bool) -> Result<String, Failure> {
    let path = path(&["resources", &show.name, "explain"], &[]);
    show.instance.read(&path).await?.printed(json, explained)
}

async fn steer(steer: &ResourceSteer, verb: &str, json: bool) -> Result<String, Failure> {
    let path = path(&["resources", &steer.name, verb], &[]);
    let body = serde_json::json!({ "reason": steer.reason }).to_string();
    let told = steer.instance.change(&path, body, Touch::Records).await?;
    told.printed(json, steered)
}

async fn accept(accept: &ResourceAccept, json: bool) -> Result<String, Failure> {
    let ResourceAccept {
        name,
        accepted,
        source,
        reason,
        instance,
    } = accept;
    let path = path(&["resources", name, "accept"], &[]);
    let mut body = serde_json::json!({ "token": accepted, "reason": reason });
    if let (Some(source), Some(fields)) = (source, body.as_object_mut()) {
        fields.insert("source".to_owned(), source.as_str().into());
    }
    let told = instance.change(&path, body.to_string(), Touch::Records);
    told.await?.printed(json, steered)
}

async fn repair(repair: &ResourceRepair, json: bool) -> Result<String, Failure> {
    let ResourceRepair {
        name,
        to,
        disown,
        reason,
        instance,
    } = repair;
    let path = path(&["resources", name, "repair"], &[]);
    let mut body = serde_json::json!({ "disown": disown, "reason": reason });
    if let (Some(to), Some(fields)) = (to, body.as_object_mut()) {
        fields.insert("to".to_owned(), to.as_str().into());
    }
    let told = instance.change(&path, body.to_string(), Touch::Records);
    told.await?.printed(json, steered)
}

fn explained(view: &ExplainedView) -> String {
    let mut facts = Facts::default();
    facts
        .fact("resource", Some(&view.resource.resource))
        .fact("token", Some(or_dash(view.resource.token.as_ref())))
        .fact("standing", Some(&view.standing))
        .fact("lease", Some(leases::standing(&view.lease)));
    let mut text = facts.text();
    if let Some(command) = &view.command {
        let _ = writeln!(text, "  {}", clean(command));
    }
    if view.blockers.is_empty() {
        text.push_str("\nnothing is unsettled: nobody waits for anybody here\n");
    }
    for blocker in &view.blockers {
        let name = blocker.operation.typed();
        let token = blocker.token.as_ref().map(|it| format!(", token {it}"));
        let _ = write!(
            text,
            "\n{} ({}{}, {} ago)\n  blocks   {}\n  because  {}\n  next     {}\n",
            clean(&name),
            blocker.state,
            token.unwrap_or_default(),
            age(blocker.age_ms),
            clean(&blocker.blocks),
            clean(&blocker.because),
            clean(&blocker.next),
        );
        if let Some(command) = &blocker.command {
            let _ = writeln!(text, "  type     {}", clean(command));
        }
    }
    advised(&mut text, &view.advice);
    text
}

/// What whoever is refused here may say, and what an operator types if he is right.
fn advised(text: &mut String, advice: &[AdviceView]) {
    if advice.is_empty() {
        return;
    }
    text.push_str("\nif a caller is refused here, and is right\n");
    for one in advice {
        let _ = writeln!(
            text,
            "  {} ({})\n    {}",
            one.refusal,
            clean(&one.when),
            clean(&one.command)
        );
    }
}

fn steered(view: &SteeredView) -> String {
    let mut text = format!(
        "{}: {}, incarnation {}, token {}{}\n",
        clean(&view.resource),
        view.done,
        view.incarnation,
        or_dash(view.token.as_ref()),
        if view.closed && view.token.is_some() {
            ", cut off: only a newer one is let in"
        } else {
            ""
        }
    );
    if view.in_flight.is_empty() {
        text.push_str("nothing that was admitted before is unsettled\n");
        return text;
    }
    text.push_str("admitted before, and not settled\n");
    let mut table = Table::new(["STATE", "UPSTREAM", "OPERATION", "MAY STILL ACT UNTIL"]);
    for one in &view.in_flight {
        table.row([
            or_dash(one.state.as_ref()),
            one.operation.upstream.clone(),
            one.operation.id.clone(),
            or_dash(one.may_act_until.as_ref()),
        ]);
    }
    text.push_str(&table.text());
    text
}

fn listed(list: &ResourceList) -> String {
    if list.resources.is_empty() {
        return "no resources".to_owned();
    }
    let mut table = Table::new(["RESOURCE", "TOKEN", "STANDING", "ADMITTED"]);
    for resource in &list.resources {
        table.row([
            resource.resource.clone(),
            or_dash(resource.token.as_ref()),
            standing(resource).to_owned(),
            resource.admissions.to_string(),
        ]);
    }
    let mut text = table.text();
    if let Some(next) = &list.next {
        let _ = writeln!(text, "more: --after {}", clean(&shell_word(next)));
    }
    text
}

fn standing(resource: &ResourceView) -> &'static str {
    if resource.cancelled {
        "cancelled"
    } else if resource.stale {
        "of an earlier epoch: acquired again"
    } else if resource.closed {
        "cut off: only a newer token is let in"
    } else {
        "open"
    }
}

fn shown(detail: &ResourceDetail) -> String {
    let resource = &detail.resource;
    let first = resource.first_operation.as_ref();
    let mut facts = Facts::default();
    facts
        .fact("resource", Some(&resource.resource))
        .fact("token", Some(or_dash(resource.token.as_ref())))
        .fact("standing", Some(standing(resource)))
        .fact("lease", Some(leases::standing(&detail.lease)))
        .fact("source", resource.source.as_ref())
        .fact("acquisition", resource.acquisition.as_ref())
        .fact("sequence", resource.sequence.as_ref())
        .fact(
            "first operation",
            first.map(|key| format!("{} {}", key.upstream, key.id)),
        )
        .fact("incarnation", Some(resource.incarnation))
        .fact("admitted", Some(resource.admissions))
        .fact(
            "cut off up to",
            Some(resource.cut_off).filter(|number| *number > 0),
        );
    for it in &resource.interventions {
        let token = it.token.as_ref().map(|token| format!(" {token}"));
        let did = format!(
            "{} {}{} by {}: {}",
            it.at,
            it.did,
            token.unwrap_or_default(),
            it.operator,
            it.reason
        );
        facts.fact("operators", Some(did));
    }
    let mut text = facts.text();
    if detail.unsettled.is_empty() {
        text.push_str("\nnothing is unsettled\n");
    } else {
        let _ = write!(
            text,
            "\nunsettled, oldest first\n{}",
            operations::table(&detail.unsettled)
        );
    }
    if let Some(last) = &detail.last_completed {
        let table = operations::table(std::slice::from_ref(last));
        let _ = write!(text, "\nlast completed\n{table}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::views::LeaseView;

    fn resource() -> ResourceView {
        ResourceView {
            resource: "account:1".to_owned(),
            incarnation: 0,
            token: Some("3:108".to_owned()),
            closed: false,
            stale: false,
            cancelled: false,
            source: None,
            acquisition: None,
            sequence: None,
            first_operation: None,
            admissions: 4,
            cut_off: 0,
            interventions: vec![],
        }
    }

    #[test]
    fn a_list_shows_the_authoritative_token() {
        let list = ResourceList {
            resources: vec![resource()],
            next: Some("account:1".to_owned()),
        };
        assert_eq!(
            listed(&list),
            "RESOURCE   TOKEN  STANDING  ADMITTED\n\
             account:1  3:108  open      4\n\
             more: --after account:1\n"
        );
    }

    #[test]
    fn what_is_of_an_earlier_epoch_is_not_open() {
        let mut old = resource();
        old.stale = true;
        assert_eq!(standing(&old), "of an earlier epoch: acquired again");
    }

    #[test]
    fn a_resource_without_obstacles_says_so() {
        let detail = ResourceDetail {
            resource: resource(),
            lease: LeaseView::of("account:1", None),
            unsettled: vec![],
            last_completed: None,
        };
        let text = shown(&detail);
        assert!(
            text.starts_with("resource     account:1\ntoken        3:108\n"),
            "{text}"
        );
        assert!(text.ends_with("\nnothing is unsettled\n"), "{text}");
    }
}
