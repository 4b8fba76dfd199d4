//! People: what was given up is asked after again, or sent once more because somebody says so.

use fencepost::protocol::command::{Attended, Command, Reply};
use fencepost::protocol::operation::State;
use fencepost::protocol::take_up::{TakeUp, TakenUp};

use super::super::register::{apply, moment};
use super::asking::Beginner;
use super::{Happened, Step};

/// Who asks for a resend.
pub(super) fn somebody() -> Attended {
    Attended {
        operator: "operator".to_owned(),
        reason: "looked".to_owned(),
    }
}

impl Step<'_> {
    /// A person has it asked after again, at the proxy that settles it.
    pub(super) fn take_up(&mut self, proxy: u8, record: u8) -> Happened {
        let steps = self.steps;
        let name = self.before.records[usize::from(record)].name;
        let taking = TakeUp {
            key: steps.names.key(name),
            operator: "operator".to_owned(),
            reason: "looked".to_owned(),
            at: moment(steps.scenario, proxy, self.before.now),
        };
        let command = Command::TakeUp(taking);
        let reply = apply(
            &mut self.world,
            steps.scenario,
            &steps.names,
            proxy,
            &command,
        );
        let before = &self.before.records[usize::from(record)].operation.state;
        let (Reply::TakenUp(TakenUp::Begun(State::Uncertain)), State::NeedsAttention(_)) =
            (reply, before)
        else {
            // A line in a log.
            return Ok(false);
        };
        self.world.left.take_ups -= 1;
        self.world.seen.taken_up.push(name);
        self.say(|| format!("a person has {name} asked after again"));
        Ok(true)
    }

    /// A person has it sent again, by the proxy that settles it.
    pub(super) fn send_for(&mut self, proxy: u8, record: u8, lost: bool) -> Happened {
        if lost {
            self.world.left.lost_replies -= 1;
        }
        self.world.left.sends -= 1;
        let beginner = Beginner {
            instance: self.before.proxies[usize::from(proxy)],
            number: u8::try_from(self.before.tries.len()).unwrap(),
            call: None,
            at: self.before.now,
            lost,
        };
        self.say(|| "a person has it sent again".to_owned());
        self.send_again(proxy, record, &beginner, Some(somebody()))
    }
}
