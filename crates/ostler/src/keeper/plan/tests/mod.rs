//! Tests of the plan, one decision at a time.

mod listings;
mod principals;
mod queue;
mod replace;
mod room;
mod scopes;
mod sharing;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{
    AcquireDecision, AcquireError, AcquireRequest, Action, Changes, Manner, MemberState, Plan,
    Purpose,
};
use crate::keeper::cause::{Cause, Ending, TargetView};
use crate::keeper::config::{Caps, Config, Server};
use crate::keeper::dice::Dice;
use crate::keeper::key::{Caller, Demand, Sharing, Who};
use crate::keeper::principal::Principal;
use crate::outcome::{Outcome, Proof};
use crate::spec::ServerSpec;

/// A plan with a manual clock; records its actions.
struct Fixture {
    plan: Plan,
    now: Instant,
    config: Config,
    actions: Vec<Action>,
}

fn server(sharing: Sharing) -> Server {
    let spec = ServerSpec {
        name: "any".into(),
        program: "server".into(),
        args: Vec::new(),
        env: Vec::new(),
        cwd: None,
    };
    Server { sharing, ..Server::new(spec) }
}

/// Names a server after its entry, unless it has a name already.
fn named(name: &str, mut server: Server) -> Server {
    if let Some(spec) = server.spec_mut().filter(|spec| spec.name == "any") {
        name.clone_into(&mut spec.name);
    }
    server
}

fn few(number: usize) -> NonZeroUsize {
    NonZeroUsize::new(number).unwrap()
}

fn caps(instances: usize) -> Caps {
    Caps { instances, ..Caps::default() }
}

impl Fixture {
    fn new(caps: Caps, servers: impl IntoIterator<Item = (&'static str, Server)>) -> Self {
        let servers: BTreeMap<String, Server> = servers
            .into_iter()
            .map(|(name, server)| (name.to_owned(), named(name, server)))
            .collect();
        let config = Config { servers, caps };
        let (plan, now) = (Plan::new(Dice::new(1)), Instant::now());
        let mut fixture = Self { plan, now, config: config.clone(), actions: Vec::new() };
        fixture.replace(config);
        fixture.actions.clear();
        fixture
    }

    /// A session of the default principal.
    fn session(&mut self) -> Arc<Caller> {
        self.session_by(&Principal::default())
    }

    /// A session of a principal.
    fn session_by(&mut self, principal: &Principal) -> Arc<Caller> {
        let number = self.plan.next_number();
        let who = Who { principal: principal.clone(), agent: None, session: number };
        Arc::new(Caller { number, who, parent: None, surroundings: None })
    }

    fn agent(&mut self, name: &str) -> Arc<Caller> {
        let who = Who { principal: Principal::default(), agent: Some(name.into()), session: 0 };
        Arc::new(Caller { number: self.plan.next_number(), who, parent: None, surroundings: None })
    }

    fn session_of(&mut self, agent: &Arc<Caller>) -> Arc<Caller> {
        let number = self.plan.next_number();
        let who = Who { session: number, ..agent.who.clone() };
        Arc::new(Caller { number, who, parent: Some(Arc::clone(agent)), surroundings: None })
    }

    fn part_of(&mut self, scope: &Arc<Caller>) -> Arc<Caller> {
        let number = self.plan.next_number();
        Arc::new(Caller {
            number,
            who: scope.who.clone(),
            parent: Some(Arc::clone(scope)),
            surroundings: None,
        })
    }

    fn acquire(
        &mut self,
        server: &str,
        caller: &Arc<Caller>,
    ) -> Result<AcquireDecision, AcquireError> {
        self.acquire_with(server, caller, "")
    }

    fn acquire_with(
        &mut self,
        server: &str,
        caller: &Arc<Caller>,
        profile: &str,
    ) -> Result<AcquireDecision, AcquireError> {
        self.acquire_for(Purpose::Call, server, caller, profile)
    }

    fn acquire_for(
        &mut self,
        purpose: Purpose,
        server: &str,
        caller: &Arc<Caller>,
        profile: &str,
    ) -> Result<AcquireDecision, AcquireError> {
        self.acquire_demanding(&Demand::profile(profile), purpose, server, caller)
    }

    fn acquire_demanding(
        &mut self,
        demand: &Demand,
        purpose: Purpose,
        server: &str,
        caller: &Arc<Caller>,
    ) -> Result<AcquireDecision, AcquireError> {
        let decision =
            self.plan.acquire(&AcquireRequest { server, demand, caller, purpose }, self.now);
        self.look();
        decision
    }

    /// Requests a listing, which must be queued. Returns its ticket.
    fn list(&mut self, server: &str, caller: &Arc<Caller>) -> u64 {
        match self.acquire_for(Purpose::Listing, server, caller, "") {
            Ok(AcquireDecision::Queued { ticket }) => ticket,
            other => panic!("not in the queue: {other:?}"),
        }
    }

    /// Requests an instance, and must be queued. Returns the ticket.
    fn queue(&mut self, server: &str, caller: &Arc<Caller>) -> u64 {
        match self.acquire(server, caller) {
            Ok(AcquireDecision::Queued { ticket }) => ticket,
            other => panic!("not in the queue: {other:?}"),
        }
    }

    /// Starts an instance for this caller and makes it ready.
    fn instance(&mut self, server: &str, caller: &Arc<Caller>) -> u64 {
        self.queue(server, caller);
        let number = self.started().pop().expect("nothing was started");
        self.ready(number);
        self.actions.clear();
        number
    }

    fn ready(&mut self, number: u64) {
        self.plan.ready(number, self.now);
        self.look();
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.plan.tick(self.now);
        self.look();
    }

    /// An instance ends for this cause and is proven gone.
    fn ends(&mut self, number: u64, cause: Cause) {
        self.leaves(number, cause.clone());
        self.settles(number, cause, &Outcome::Gone(Proof::NoChild));
    }

    fn leaves(&mut self, number: u64, cause: Cause) {
        self.plan.leaving(number, &ending(cause), self.now);
        self.look();
    }

    fn settles(&mut self, number: u64, cause: Cause, outcome: &Outcome) {
        self.plan.settled(number, &ending(cause), Some(outcome), self.now);
        self.look();
    }

    fn replace(&mut self, config: Config) -> Changes {
        self.config = config.clone();
        let (changes, _) = self.plan.replace(config, self.now);
        self.look();
        changes
    }

    /// Applies a changed configuration of one server.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Server)) -> Changes {
        let mut config = self.config.clone();
        change(config.servers.get_mut(name).unwrap());
        self.replace(config)
    }

    fn close(&mut self, scope: &Caller) {
        self.plan.close_scope(scope, self.now);
        self.look();
    }

    fn uses(&self, number: u64) {
        assert!(self.plan.member(number).unwrap().usage.begin(self.now));
    }

    fn ends_use(&self, number: u64) {
        self.plan.member(number).unwrap().usage.end(self.now);
    }

    /// Checks the invariants and collects the actions.
    fn look(&mut self) {
        self.actions.append(&mut self.plan.take_actions());
        self.plan.audit(self.now).unwrap();
    }

    /// Instances started since the last call; likewise below.
    fn started(&mut self) -> Vec<u64> {
        self.take(|action| match action {
            Action::Start { number, .. } => Some(*number),
            _ => None,
        })
    }

    fn granted(&mut self) -> Vec<(u64, u64)> {
        self.take(|action| match action {
            Action::Grant { ticket, number } => Some((*ticket, *number)),
            _ => None,
        })
    }

    fn refused(&mut self) -> Vec<(u64, String)> {
        self.take(|action| match action {
            Action::Refuse { ticket, error } => Some((*ticket, error.to_string())),
            _ => None,
        })
    }

    fn ended(&mut self) -> Vec<(u64, Cause, Manner)> {
        self.take(|action| match action {
            Action::End { number, cause, manner } => Some((*number, cause.clone(), *manner)),
            _ => None,
        })
    }

    fn take<T>(&mut self, pick: impl Fn(&Action) -> Option<T>) -> Vec<T> {
        let picked = self.actions.iter().filter_map(&pick).collect();
        self.actions.retain(|action| pick(action).is_none());
        picked
    }

    fn state(&self, number: u64) -> Option<MemberState> {
        self.plan.member(number).map(|member| member.state.clone())
    }
}

fn ending(cause: Cause) -> Arc<Ending> {
    Arc::new(Ending {
        server: "any".into(),
        cause,
        status: None,
        stderr: String::new(),
        stray: None,
        target: TargetView::Command("any".into()),
    })
}
