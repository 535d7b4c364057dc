//! The gateway: servers, clients, and what is known.

mod tend;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use ostler::Owner;
use ostler::keeper::{Caps, Changes, Config, Departure, Keeper, Principal, Server, Who};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::agents::{Agent, AgentSession, FoundAgents, Origin};
use crate::catalog::{Catalog, Name};
use crate::chronicle::Chronicle;
use crate::client::{Client, Memory};
use crate::menu::{ClientVariables, Filled, Menu, Naming, Offer, Offers};
use crate::mutex::lock;
use crate::protocol::message;
use crate::quota::{Purse, Quotas};
use crate::route::Route;
use crate::session::{Claims, Common, Desk, Presence, Session, SessionLimits};
use crate::transport::pipe::{Input, Output};
use crate::transport::{About, Outlet, Weight};
use crate::upstream::{Downstream as _, Hub};

/// Who a client is, and what it wants.
#[derive(Clone, Debug)]
pub struct Visitor {
    /// The party that it belongs to: the local user, or a named token.
    pub principal: Principal,
    /// The agent that it belongs to, if one is known.
    pub agent: Option<Agent>,
    /// Which servers it wants.
    pub route: Route,
    /// What it may use; what everybody may, if that is not said.
    pub menu: Option<Arc<Menu>>,
    /// Its process, if it is one of this machine.
    pub pid: Option<i32>,
}

impl Visitor {
    /// A client of the local user, of which nothing else is known.
    pub fn new(agent: Option<String>, route: Route) -> Self {
        let agent = agent.map(Agent::named);
        Self { principal: Principal::default(), agent, route, menu: None, pid: None }
    }
}

/// Many clients, many servers.
#[derive(Debug)]
pub struct Gateway {
    keeper: Keeper,
    hub: Arc<Hub>,
    /// What everybody may use who has no menu.
    menu: Arc<Menu>,
    visits: Mutex<Vec<Visit>>,
    found_agents: Arc<FoundAgents>,
    /// What happened lately.
    chronicle: Arc<Chronicle>,
    /// Which server a URI belongs to, for each principal.
    claims: Mutex<HashMap<Principal, Arc<Mutex<Claims>>>>,
    /// What each principal uses.
    quotas: Quotas,
    limits: SessionLimits,
    last_client: AtomicU64,
}

/// A client that is, or was, connected.
#[derive(Clone, Debug)]
pub(crate) struct Visit {
    client: Weak<Client>,
    who: Who,
    route: Route,
    menu: Weak<Menu>,
    pid: Option<i32>,
    since: Instant,
}

impl Visit {
    /// Whether the client is shown what the catalog keeps under this name.
    pub(crate) fn sees(&self, name: &Name) -> bool {
        let (Some(client), Some(menu)) = (self.client.upgrade(), self.menu.upgrade()) else {
            return false;
        };
        let is_shown = |server: &str| {
            let profile = client.list_profile(menu.sharing(server));
            menu.catalog_name(server, &self.who.principal, profile).as_ref() == Some(name)
        };
        match &self.route {
            Route::One(server) => is_shown(server),
            Route::All => menu.names().iter().any(|server| is_shown(server)),
        }
    }
}

/// A client that is connected.
#[derive(Clone, Debug)]
pub struct SessionView {
    /// Who it is.
    pub who: Who,
    /// Which servers it uses.
    pub route: Route,
    /// Its process, if that is known.
    pub pid: Option<i32>,
    /// What it calls itself, as it has written it.
    pub info: Option<String>,
    /// How many of its calls are with servers.
    pub calls: usize,
    /// How long it has been there.
    pub age: Duration,
}

impl Gateway {
    /// A gateway to these servers, which keeps what it learns of them in the directory
    /// `catalog`, if there is one. It does its
    /// work while [`tend`](Self::tend) is polled.
    pub fn new(
        owner: Owner,
        offers: BTreeMap<String, Offer>,
        caps: Caps,
        catalog: Option<PathBuf>,
    ) -> Arc<Self> {
        Self::with_limits(owner, offers, caps, catalog, SessionLimits::default())
    }

    /// The same with other limits for its sessions.
    pub fn with_limits(
        owner: Owner,
        offers: BTreeMap<String, Offer>,
        caps: Caps,
        catalog: Option<PathBuf>,
        limits: SessionLimits,
    ) -> Arc<Self> {
        let hub = Arc::new(Hub::new(Catalog::new(catalog)));
        let menu = Arc::new(Menu::default());
        let servers = menu.fill(plain(offers), Naming::Plain).servers;
        let config = config_of(&hub, servers, caps);
        Arc::new(Self {
            keeper: Keeper::new(owner, config),
            hub,
            menu,
            visits: Mutex::default(),
            found_agents: Arc::default(),
            chronicle: Arc::default(),
            claims: Mutex::default(),
            quotas: Quotas::default(),
            limits,
            last_client: AtomicU64::new(0),
        })
    }

    /// Takes over another configuration, as a difference.
    pub fn replace(&self, offers: BTreeMap<String, Offer>, caps: Caps) -> (Changes, Departure) {
        let filled = self.menu.fill(plain(offers), Naming::Plain);
        let replaced = self.keeper.replace(config_of(&self.hub, filled.servers, caps));
        self.tell_replaced(&self.menu, &filled.changed);
        replaced
    }

    /// A menu of these servers, for one client.
    pub fn menu(&self, offers: Offers) -> Arc<Menu> {
        let menu = Arc::new(Menu::default());
        self.add(menu.fill(offers, Naming::Variants).servers);
        menu
    }

    /// Takes over other offers for each of these menus, as a difference; whatever is on none of them
    /// drains and ends.
    pub fn replace_menus(&self, menus: Vec<(Arc<Menu>, Offers)>, caps: Caps) -> Departure {
        let mut all = BTreeMap::new();
        let mut changes = Vec::new();
        for (menu, offers) in menus {
            let Filled { servers, changed } = menu.fill(offers, Naming::Variants);
            // A client that asks for it now should not have to ask again.
            self.add(servers.clone());
            all.extend(servers);
            changes.push((menu, changed));
        }
        let (_, departure) = self.keeper.replace(config_of(&self.hub, all, caps));
        for (menu, changed) in changes {
            self.tell_replaced(&menu, &changed);
        }
        departure
    }

    /// Serves a client at the other end of two pipes until it goes: its input ends, it stops reading, or
    /// `gone` says so.
    pub async fn serve(
        self: &Arc<Self>,
        visitor: Visitor,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Send + Unpin + 'static,
        gone: impl Future<Output = ()>,
    ) {
        let output = Arc::new(Output::new(output));
        let flushed = Arc::clone(&output);
        let gone = async move {
            tokio::select! {
                () = gone => {}
                () = flushed.flush() => {}
            }
        };
        let purse = Purse::new(self.quotas.account(&visitor.principal));
        let desk = self.attend(visitor, Memory::default(), output, purse);
        desk.serve(Input::new(input), gone).await;
        desk.close();
    }

    /// A session for a client, from where it was the last time.
    pub(crate) fn attend(
        self: &Arc<Self>,
        visitor: Visitor,
        memory: Memory,
        out: Arc<dyn Outlet>,
        purse: Arc<Purse>,
    ) -> Desk {
        let number = self.last_client.fetch_add(1, Ordering::Relaxed) + 1;
        let client = Arc::new(Client::new(number, out, Arc::clone(purse.account()), memory));
        // Counted before the scope is opened: from then on the agent is not closed.
        let agent_session = self.enter_agent(&visitor);
        let Visitor { route, menu, pid, principal, agent, .. } = visitor;
        let menu = menu.unwrap_or_else(|| Arc::clone(&self.menu));
        let its = Arc::new(ClientVariables::of(&menu));
        let scope = match &agent {
            Some(agent) => self.keeper.agent_of(&principal, &agent.name).session_amid(its),
            None => self.keeper.session_amid(&principal, its),
        };
        let visit = Visit {
            client: Arc::downgrade(&client),
            who: scope.who().clone(),
            route: route.clone(),
            menu: Arc::downgrade(&menu),
            pid,
            since: Instant::now(),
        };
        {
            let mut visits = lock(&self.visits);
            visits.retain(|visit| visit.client.strong_count() > 0);
            visits.push(visit);
        }
        let visit = (&route, pid);
        let presence = Presence::new(&self.chronicle, &client, scope.who(), visit, agent_session);
        let common = Common {
            hub: Arc::clone(&self.hub),
            claims: self.claims(&principal),
            limits: self.limits,
        };
        Desk::new(Session::new(common, client, scope, purse, presence, route, menu))
    }

    fn enter_agent(&self, visitor: &Visitor) -> Option<AgentSession> {
        let agent = visitor.agent.as_ref().filter(|agent| agent.origin == Origin::Found)?;
        Some(self.found_agents.enter(&visitor.principal, &agent.name))
    }

    /// Closes agents that ostler recognised by itself once they have had no session for `timeout`. Never returns.
    pub(crate) async fn close_found_agents(&self, timeout: impl Fn() -> Duration) {
        let close = |principal: &Principal, name: &str| {
            // Their instances end whether or not a task waits for it.
            drop(self.keeper.agent_of(principal, name).close());
        };
        self.found_agents.close_unused(timeout, close).await;
    }

    /// The keeper of its instances.
    pub fn keeper(&self) -> &Keeper {
        &self.keeper
    }

    /// How many clients are connected.
    pub fn clients(&self) -> usize {
        lock(&self.visits).iter().filter(|visit| visit.client.strong_count() > 0).count()
    }

    /// The clients that are connected.
    pub fn sessions(&self) -> Vec<SessionView> {
        let visits = lock(&self.visits).clone();
        let view = |visit: Visit| {
            let client = visit.client.upgrade()?;
            let info = client.hello().map(|hello| String::from_utf8_lossy(&hello.info).into());
            Some(SessionView {
                who: visit.who,
                route: visit.route,
                pid: visit.pid,
                info,
                calls: client.pending().len(),
                age: visit.since.elapsed(),
            })
        };
        visits.into_iter().filter_map(view).collect()
    }

    /// Tells clients that a list has changed, if they are ready to hear it.
    pub(crate) fn tell_changed(&self, method: &str, concerns: impl Fn(&Visit) -> bool) {
        let kind = method.split('/').next().unwrap_or_default();
        let line = message::notification(&format!("notifications/{kind}/list_changed"), None);
        let visits = lock(&self.visits).clone();
        for visit in visits {
            let Some(client) = visit.client.upgrade() else { continue };
            if client.is_initialized() && concerns(&visit) {
                client.send(line.clone(), About::Nothing, Weight::Notice);
            }
        }
    }

    /// The record of which server a URI belongs to, for all clients of one principal.
    fn claims(&self, principal: &Principal) -> Arc<Mutex<Claims>> {
        Arc::clone(lock(&self.claims).entry(principal.clone()).or_default())
    }

    pub(crate) fn chronicle(&self) -> &Chronicle {
        &self.chronicle
    }

    pub(crate) fn quotas(&self) -> &Quotas {
        &self.quotas
    }

    fn hub(&self) -> &Hub {
        &self.hub
    }

    /// Whoever has this menu may see other lists now.
    fn tell_replaced(&self, menu: &Arc<Menu>, changed: &BTreeSet<Arc<str>>) {
        if changed.is_empty() {
            return;
        }
        for method in ["tools/list", "prompts/list", "resources/list"] {
            self.tell_changed(method, |visit| {
                let sees = match &visit.route {
                    Route::All => true,
                    Route::One(name) => changed.contains(name),
                };
                sees && std::ptr::eq(visit.menu.as_ptr(), Arc::as_ptr(menu))
            });
        }
    }

    fn add(&self, servers: BTreeMap<Arc<str>, Server>) {
        for (id, server) in servers {
            if self.keeper.server(&id).is_none() {
                self.keeper.add(&id, attended(&self.hub, server));
            }
        }
    }
}

fn plain(offers: BTreeMap<String, Offer>) -> Offers {
    offers.into_iter().map(|(name, offer)| (name, Ok(offer))).collect()
}

/// The keeper's part of a configuration.
fn config_of(hub: &Arc<Hub>, servers: BTreeMap<Arc<str>, Server>, caps: Caps) -> Config {
    let attended = |(id, server): (Arc<str>, Server)| (id.to_string(), attended(hub, server));
    Config { servers: servers.into_iter().map(attended).collect(), caps }
}

/// A server that speaks with us.
fn attended(hub: &Arc<Hub>, mut server: Server) -> Server {
    (server.handshake, server.listener) = (Arc::clone(hub) as _, Arc::clone(hub) as _);
    server
}
