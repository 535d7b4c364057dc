//! Rules about a single moment: the world, the plan and its decisions must agree.

use std::time::Instant;

use super::instance::SimInstance;
use super::rules::{Batch, Rules, Track};
use crate::keeper::cause::Cause;
use crate::keeper::plan::{Member, MemberState, Obstacle, Plan};
use crate::keeper::principal::Principal;

/// An instance that lives in the simulated world, and the number of its containers.
struct Living {
    number: u64,
    containers: usize,
}

impl Rules {
    pub(super) fn check_moment(
        &mut self,
        plan: &Plan,
        instances: &[SimInstance],
        starts: &[usize],
        batch: &Batch,
        now: Instant,
    ) -> Result<(), String> {
        if let Some(index) = instances.iter().position(|instance| instance.greetings > 1) {
            return Err(format!("instance {index} was greeted twice"));
        }
        let living = self.living(plan, instances, starts, now)?;
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
        // A lost start requeues its waiters, which may exceed the cap; new requests may not.
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
        instances: &[SimInstance],
        starts: &[usize],
        now: Instant,
    ) -> Result<Vec<Living>, String> {
        let mut living = Vec::new();
        for (index, instance) in instances.iter().enumerate().filter(|(_, b)| b.is_alive(now)) {
            let start = starts.iter().position(|start| *start == index);
            let number = start.and_then(|start| self.order.get(start).copied());
            let number = number.ok_or(format!("instance {index} lives without a start"))?;
            living.push(Living { number, containers: instance.containers });
        }
        // A decided start counts before its driver has begun it.
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

    /// With several principals, none gets the last quarter of a cap.
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

    /// Starts come in order, and generations of an exclusive key never overlap.
    fn check_order(
        &mut self,
        plan: &Plan,
        living: &[Living],
        batch: &Batch,
        now: Instant,
    ) -> Result<(), String> {
        // A caller that gave up at this moment may have been the first.
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

    /// Callers of a principal come in order, and no principal waits while another has more starts under way.
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
            // Tickets and instances share one sequence of numbers, so this ticket is older than the start.
            let has_fewer = starting(&queued.principal) + 1 < starting(principal);
            let is_as_urgent = queued.purpose <= first.0;
            if is_passed && !is_own && is_as_urgent && queued.first < number && has_fewer {
                return Err(format!("{key} is started, and {} has fewer", queued.principal));
            }
        }
        if queued.iter().any(|queued| queued.principal != *principal) {
            self.saw("turns of two principals");
        }
        Ok(())
    }

    /// The instance that was idle for the longest time is evicted first.
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
