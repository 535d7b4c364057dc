//! The host: its sessions, its leases, and the commands it executes.

use std::collections::HashMap;
use std::future::{pending, ready};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ostler::keeper::{Config, Departure, Event, Keeper, Lease, Principal, Scope, Use};
use ostler::{Owner, Places};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use crate::calls::{self, Told};
use crate::config::Setting;
use crate::greet::request;
use crate::orders::Order;
use crate::{Work, view};

/// Counters that finished work adds to.
type Shared<T> = Arc<Mutex<Vec<T>>>;

pub(crate) struct Host {
    setting: Setting,
    /// The keeper; `None` after it was shut down, dropped or lost in a panic.
    keeper: Option<Keeper>,
    events: Receiver<Event>,
    sessions: HashMap<String, Scope>,
    /// Leases that are never returned, each with a nested scope that can still be closed.
    kept: Shared<(Scope, Lease)>,
    holds: Shared<(Scope, Use)>,
}

impl Host {
    pub(crate) fn new(setting: Setting, config: Config) -> Self {
        let owner = Owner::new(Places::of_user(), "ostler-keeper-host").expect("an owner");
        let keeper = Keeper::new(owner, config);
        Self {
            setting,
            events: keeper.events(),
            keeper: Some(keeper),
            sessions: HashMap::new(),
            kept: Shared::default(),
            holds: Shared::default(),
        }
    }

    /// Starts the command. The result holds the future that remains to be awaited.
    pub(crate) fn begin(&mut self, order: Order) -> Result<Work, String> {
        match order {
            Order::Session { name, agent, principal } => {
                let principal = principal.as_deref().map(Principal::named).unwrap_or_default();
                self.open(name, agent.as_deref(), &principal).map(at_once)
            }
            Order::Close { session } => {
                let session = self.sessions.remove(&session).ok_or("no such session")?;
                Ok(departure(session.close()))
            }
            Order::EndAgent { agent } => Ok(departure(self.keeper()?.agent(&agent).close())),
            Order::Call { session, server, times, callers, arguments, bulk } => {
                let arguments = serde_json::from_str(&arguments).map_err(|e| e.to_string())?;
                let callers = (0..callers).map(|_| self.caller(&session));
                let callers = callers.collect::<Result<_, _>>()?;
                Ok(calls::call(callers, server, times, Told { arguments, bulk }))
            }
            Order::Acquire { session, server } => Ok(acquire(self.caller(&session)?, server)),
            Order::Keep { session, server, clones } => {
                Ok(keep(self.caller(&session)?, server, clones, Arc::clone(&self.kept)))
            }
            Order::Clones => Ok(self.ask_clones()),
            Order::Hold { session, server } => {
                Ok(hold(self.caller(&session)?, server, Arc::clone(&self.holds)))
            }
            Order::Release => {
                lock(&self.holds).clear();
                Ok(at_once(Value::Null))
            }
            Order::Probe { server, running: None } => Ok(probe(self.keeper()?.session(), server)),
            Order::Probe { server, running: Some(session) } => {
                self.probe_running(&session, &server)
            }
            order => self.manage(order),
        }
    }

    /// Commands for the keeper as a whole.
    fn manage(&mut self, order: Order) -> Result<Work, String> {
        match order {
            Order::Replace { json } => {
                let config = self.setting.config(&json.join(" "))?;
                let (changes, going) = self.keeper()?.replace(config);
                Ok(Box::pin(async move {
                    let left = view::instances(&going.settled().await);
                    Ok(json!({"changes": view::changes(&changes), "left": left}))
                }))
            }
            Order::Stop { server } => Ok(departure(self.keeper()?.stop(&server))),
            Order::Snapshot => Ok(at_once(view::snapshot(&self.keeper()?.snapshot()))),
            Order::Books => {
                let mut books = view::books(&self.keeper()?.books());
                books["heard"] = self.setting.mcp.heard().into();
                Ok(at_once(books))
            }
            Order::Events => Ok(at_once(self.new_events())),
            Order::Why { pid } => Ok(at_once(
                self.keeper()?.why(&pid.to_string()).as_ref().map_or(Value::Null, view::instance),
            )),
            Order::Pause { us } => Ok(Box::pin(async move {
                tokio::time::sleep(Duration::from_micros(us)).await;
                Ok(Value::Null)
            })),
            order => self.end(order),
        }
    }

    fn end(&mut self, order: Order) -> Result<Work, String> {
        match order {
            Order::Shutdown => {
                let keeper = self.keeper.take().ok_or("no keeper")?;
                Ok(Box::pin(async { Ok(view::books(&keeper.shutdown().await)) }))
            }
            Order::Drop => {
                self.keeper = None;
                Ok(at_once(Value::Null))
            }
            Order::Panic => {
                let keeper = self.keeper.take().ok_or("no keeper")?;
                let owner = tokio::spawn(async move {
                    let _keeper = keeper;
                    panic!("on purpose");
                });
                Ok(Box::pin(async { Ok(json!({"panicked": owner.await.is_err()})) }))
            }
            Order::Exit => std::process::exit(0),
            Order::Abort => std::process::abort(),
            order => Err(format!("not now: {order:?}")),
        }
    }

    fn keeper(&self) -> Result<&Keeper, String> {
        self.keeper.as_ref().ok_or_else(|| "no keeper".to_owned())
    }

    fn open(
        &mut self,
        name: String,
        agent: Option<&str>,
        principal: &Principal,
    ) -> Result<Value, String> {
        let keeper = self.keeper()?;
        let session = match agent {
            Some(agent) => keeper.agent_of(principal, agent).session(),
            None => keeper.session_of(principal),
        };
        let who = session.who().to_string();
        self.sessions.insert(name, session);
        Ok(who.into())
    }

    /// A caller of a session that can wait while another command closes the session.
    fn caller(&self, session: &str) -> Result<Scope, String> {
        let session = self.sessions.get(session).ok_or_else(|| format!("no session {session}"))?;
        Ok(session.nested())
    }

    fn ask_clones(&self) -> Work {
        let leases: Vec<Lease> = lock(&self.kept).iter().map(|(_, lease)| lease.clone()).collect();
        Box::pin(async move {
            let mut answers = Vec::new();
            for lease in leases {
                let answer = lease.call(&request("ping", &json!({}))).await;
                answers.push(answer.map_or_else(|error| error.to_string(), |_| "pong".to_owned()));
            }
            Ok(answers.into())
        })
    }

    fn probe_running(&self, session: &str, server: &str) -> Result<Work, String> {
        let caller = self.caller(session)?;
        let Some(lease) = caller.peek(server) else { return Ok(at_once(Value::Null)) };
        Ok(Box::pin(async move {
            let answer = lease.probe(&request("tools/list", &json!({}))).await;
            drop(caller);
            calls::tools(answer)
        }))
    }

    fn new_events(&mut self) -> Value {
        let mut events = Vec::new();
        loop {
            match self.events.try_recv() {
                Ok(event) => {
                    events
                        .push(json!({"number": event.number, "what": format!("{:?}", event.what)}));
                }
                Err(TryRecvError::Lagged(missed)) => events.push(json!({"missed": missed})),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return events.into(),
            }
        }
    }
}

fn at_once(value: Value) -> Work {
    Box::pin(ready(Ok(value)))
}

fn departure(departure: Departure) -> Work {
    Box::pin(async { Ok(json!({"left": view::instances(&departure.settled().await)})) })
}

fn acquire(caller: Scope, server: String) -> Work {
    Box::pin(async move {
        let lease = caller.acquire(&server).await.map_err(|error| error.to_string())?;
        Ok(json!({"instance": lease.instance()}))
    })
}

fn keep(caller: Scope, server: String, clones: usize, kept: Shared<(Scope, Lease)>) -> Work {
    Box::pin(async move {
        let lease = caller.acquire(&server).await.map_err(|error| error.to_string())?;
        for _ in 0..clones {
            let lease = lease.clone();
            // A detached task that never ends, as careless hosts leave behind.
            drop(tokio::spawn(async move {
                let _lease = lease;
                pending::<()>().await;
            }));
        }
        let number = lease.instance();
        lock(&kept).push((caller, lease));
        Ok(json!({"instance": number}))
    })
}

fn hold(caller: Scope, server: String, holds: Shared<(Scope, Use)>) -> Work {
    Box::pin(async move {
        let lease = caller.acquire(&server).await.map_err(|error| error.to_string())?;
        let held = lease.hold().map_err(|error| error.to_string())?;
        lock(&holds).push((caller, held));
        Ok(json!({"instance": lease.instance()}))
    })
}

/// Lists the tools in a session of its own, and drops the session without closing it.
fn probe(session: Scope, server: String) -> Work {
    Box::pin(async move {
        let lease = session.acquire(&server).await.map_err(|error| error.to_string())?;
        calls::tools(lease.probe(&request("tools/list", &json!({}))).await)
    })
}

fn lock<T>(shared: &Shared<T>) -> std::sync::MutexGuard<'_, Vec<T>> {
    shared.lock().expect("no panic under the lock")
}
