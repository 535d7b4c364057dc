//! The rules about a single moment: what the world has, what the plan believes, what was decided.

use std::time::Instant;

use super::being::Being;
use super::rules::{Batch, Rules, Track};
use crate::keeper::cause::Cause;
use crate::keeper::plan::{Member, MemberState, Obstacle, Plan};
use crate::keeper::principal::Principal;

/// What lives, in truth: its number, and how many containers it is.
struct Living {
    number: u64,
    containers: usize,
}

impl Rules {
    pub(super) fn check_moment(
        &mut self,
        plan: &Plan,
        beings: &[Being],
        starts: &[usize],
        batch: &Batch,
        now: Instant,
    ) -> Result<(), String> {
        if let Some(index) = beings.iter().position(|being| being.greetings > 1) {
            return Err(format!("being {index} was greeted twice"));
        }
        let living = self.living(plan, beings, starts, now)?;
        let unknown = living.iter().find(|one| plan.member(one.number).is_none());
        if let Some(unknown) = unknown.filter(|_| !self.is_abandoned) {
            return Err(format!("{} lives, and the plan does not know it", unknown.number));
        }
        if !batch.started.is_empty() {
            self.check_caps(plan, &living, batch)?;
            self.check_order(plan, &living, batch, now)?;
        }
        let queued = plan.queued(now);
        if queued.iter().any(|queued| matches!(queued.obstacle, Some(Obstacle::Share(_)))) {
            self.saw("a principal with its share");
        }
        let waiting: usize = queued.iter().map(|queued| queued.waiters).sum();
        // Lost starts may make it longer than it may become by those who join it.
        let before = std::mem::replace(&mut self.waiting, waiting);
        let is_longer = waiting > self.config.caps.queue.max(before);
        if batch.joined && batch.only_joined && is_longer {
            return Err(format!("{waiting} wait"));
        }
        self.check_evictions(plan)
    }

    fn living(
        &self,
        plan: &Plan,
        beings: &[Being],
        starts: &[usize],
        now: Instant,
    ) -> Result<Vec<Living>, String> {
        let mut living = Vec::new();
        for (index, being) in beings.iter().enumerate().filter(|(_, b)| b.is_alive(now)) {
            let start = starts.iter().position(|start| *start == index);
            let number = start.and_then(|start| self.order.get(start).copied());
            let number = number.ok_or(format!("being {index} lives, and nobody started it"))?;
            living.push(Living { number, containers: being.containers });
        }
        // What is decided and has not begun is as good as there.
        for number in self.order.iter().skip(starts.len()) {
            let containers = plan.member(*number).map_or(0, |member| member.server.containers);
            living.push(Living { number: *number, containers });
        }
        Ok(living)
    }

    fn check_caps(&self, plan: &Plan, living: &[Living], batch: &Batch) -> Result<(), String> {
        let caps = self.config.caps;
        if living.len() > caps.instances {
            return Err(format!("{} instances, {} allowed", living.len(), caps.instances));
        }
        let starting = plan.members().filter(|(_, m)| m.state == MemberState::Starting).count();
        if starting > caps.starting {
            return Err(format!("{starting} are being started, {} allowed", caps.starting));
        }
        for number in &batch.started {
            let Some(key) = self.tracks.get(number).map(|track| &track.key) else { continue };
            let Some(server) = self.config.servers.get(&*key.server) else { continue };
            let of_server = |one: &&Living| {
                self.tracks.get(&one.number).is_some_and(|track| track.key.server == key.server)
            };
            let count = living.iter().filter(of_server).count();
            if server.cap.is_some_and(|cap| count > cap.get()) {
                return Err(format!(
                    "{count} instances of {}, {:?} allowed",
                    key.server, server.cap
                ));
            }
            let containers: usize = living.iter().map(|one| one.containers).sum();
            if server.containers > 0 && containers > caps.containers {
                return Err(format!("{containers} containers, {} allowed", caps.containers));
            }
            self.check_share(plan, *number)?;
            let stay = plan.members().filter(|(_, m)| m.key == *key && stays(m)).count();
            if stay > server.max_instances.get() {
                return Err(format!("{stay} instances of one key, {}", server.max_instances));
            }
        }
        Ok(())
    }

    /// Beside others no principal gets the last quarter of anything.
    fn check_share(&self, plan: &Plan, number: u64) -> Result<(), String> {
        let Some(Track { principal, .. }) = self.tracks.get(&number) else { return Ok(()) };
        let caps = self.config.caps;
        let own = || plan.members().map(|(_, m)| m).filter(|m| m.principal() == principal);
        let starting = own().filter(|m| m.state == MemberState::Starting).count();
        for (has, cap) in [(own().count(), caps.instances), (starting, caps.starting)] {
            if plan.has_named_principals() && has > 1 && has > cap - cap / 4 {
                return Err(format!("{principal} has {has} of {cap}"));
            }
        }
        Ok(())
    }

    /// Nobody overtakes who waits for the same, and nothing exclusive overlaps.
    fn check_order(
        &mut self,
        plan: &Plan,
        living: &[Living],
        batch: &Batch,
        now: Instant,
    ) -> Result<(), String> {
        // Whoever has given up since may have been the one that was first.
        let is_plain = batch.is_plain && self.gave_up != Some(now);
        for number in batch.started.iter().filter(|_| is_plain) {
            let Some(key) = self.tracks.get(number).map(|track| &track.key) else { continue };
            let follows = |one: &&Living| {
                let before = self.tracks.get(&one.number).map(|track| &track.key);
                one.number != *number && before.is_some_and(|before| key.succeeds(before))
            };
            let is_fellow =
                |one: &Living| plan.member(one.number).is_some_and(|m| stays(m) && m.key == *key);
            let mut before = living.iter().filter(follows);
            if let Some(before) = before.find(|one| !is_fellow(one))
                && key.whose.is_exclusive()
            {
                return Err(format!("{number} ({key}) is started while {} lives", before.number));
            }
        }
        for number in batch.started.iter().filter(|_| is_plain) {
            self.check_turn(plan, *number, now)?;
        }
        Ok(())
    }

    /// The callers of a principal come in order, and no principal waits while another has more starts under way.
    fn check_turn(&mut self, plan: &Plan, number: u64, now: Instant) -> Result<(), String> {
        let Some(Track { key, principal, .. }) = self.tracks.get(&number) else { return Ok(()) };
        let Some(first) = plan.first_waiter(key, principal) else { return Ok(()) };
        let starting = |of: &Principal| {
            let starting = plan.members().filter(|(_, m)| m.state == MemberState::Starting);
            starting.filter(|(_, m)| m.principal() == of).count()
        };
        let queued = plan.queued(now);
        for queued in &queued {
            let is_passed =
                matches!(queued.obstacle, None | Some(Obstacle::Instances(_) | Obstacle::Starts));
            let is_own = queued.principal == *principal;
            if is_passed && is_own && (queued.purpose, queued.first) < first {
                return Err(format!("{key} is started, and {} waits longer", queued.key));
            }
            // Tickets and instances have numbers in one order; what was started for it is counted.
            let has_fewer = starting(&queued.principal) + 1 < starting(principal);
            let is_as_urgent = queued.purpose <= first.0;
            if is_passed && !is_own && is_as_urgent && queued.first < number && has_fewer {
                return Err(format!("{key} is started, and {} has fewer", queued.principal));
            }
        }
        if queued.iter().any(|queued| queued.principal != *principal) {
            self.saw("queues of two principals");
        }
        Ok(())
    }

    /// What was idle for the longest time goes first.
    fn check_evictions(&mut self, plan: &Plan) -> Result<(), String> {
        let rank = |m: &Member| (!m.leases.is_empty(), m.usage.last());
        let is_idle = |m: &Member| {
            let is_free = m.usage.count() == 0 && !m.usage.is_reserved();
            m.state == MemberState::Ready && m.server.limits.idle.is_some() && is_free
        };
        for (number, gone) in plan.members() {
            if gone.state != MemberState::Leaving(Cause::Evicted) || !self.evicted.insert(number) {
                continue;
            }
            let is_as_good = |m: &Member| {
                if m.principal() != gone.principal() {
                    return false;
                }
                let same_server = m.key.server == gone.key.server;
                same_server || (gone.server.cap.is_none() && gone.server.containers == 0)
            };
            let better =
                plan.members().find(|(_, m)| is_idle(m) && is_as_good(m) && rank(m) < rank(gone));
            if let Some((better, _)) = better {
                return Err(format!("{number} is evicted, and {better} is idle for longer"));
            }
        }
        Ok(())
    }
}

fn stays(member: &Member) -> bool {
    matches!(member.state, MemberState::Starting | MemberState::Ready)
}
