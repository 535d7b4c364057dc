//! An agent host with four servers that reloads its configuration again and again, and lists tools in
//! between, while calls are in flight and detached tasks keep clones of leases.
//!
//! ```text
//! cargo run --release -p ostler --example agent_host
//! ```
//! A host that ends its servers with the last reference would have 123 copies of each after this.
//! Here there are at most four, eight while changed servers are replaced, and none at the end.
#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use ostler::keeper::{
    Caps, Config, Greeting, Handshake, Keeper, Lease, Scope, Server, Sharing, Talk,
};
use ostler::{Frame, Owner, Places, ServerSpec, guardian};
use serde_json::{Value, json};

const SERVERS: [&str; 4] = ["code-index", "code-memory", "issues", "search"];
const REFRESHES: u32 = 123;

fn main() -> Result<(), Box<dyn Error>> {
    // First, before there is a runtime: this program also runs as the guardian of each of its servers.
    guardian::run_if_asked();
    if std::env::args().nth(1).as_deref() == Some("serve") {
        return serve();
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(host())
}

async fn host() -> Result<(), Box<dyn Error>> {
    let owner = Owner::new(Places::of_user(), "agent_host")?;
    let host = Host { keeper: Keeper::new(owner, configuration(0)?) };

    let session = host.keeper.agent("coder").session();
    let mut kept = Vec::new();
    for name in SERVERS {
        session.call(name, &request("tools/call", &json!({ "name": "greet" }))?).await?;
        kept.push(session.acquire(name).await?);
    }
    let first = host.pids();
    println!("four servers: {first:?}");

    for _ in 0..REFRESHES {
        host.refresh(0).await?;
        host.probe().await?;
    }
    println!(
        "after {REFRESHES} refreshes and probes with the same configuration: {:?}",
        host.pids()
    );
    assert_eq!(host.pids(), first, "unchanged servers keep their processes");

    let mut most = 0;
    for generation in 1..=REFRESHES {
        most = most.max(host.refresh(generation).await?);
        for name in SERVERS {
            kept.push(host.one_call(&session, name).await?);
        }
    }
    println!("after {REFRESHES} refreshes that changed everything: {:?}", host.pids());
    println!("at most {most} at a time, with {} leases still held by others", kept.len());

    let books = host.keeper.shutdown().await;
    println!("{books:?}");
    assert_eq!(books.started, books.gone, "nothing is left");
    Ok(())
}

struct Host {
    keeper: Keeper,
}

impl Host {
    /// Reloads the configuration. Returns the number of instances meanwhile.
    async fn refresh(&self, generation: u32) -> Result<u64, Box<dyn Error>> {
        let (_, departure) = self.keeper.replace(configuration(generation)?);
        let meanwhile = self.keeper.books().live;
        let left = departure.settled().await;
        assert!(left.is_empty(), "not gone: {left:?}");
        Ok(meanwhile)
    }

    /// Lists tools in a session of its own, which is closed on return.
    async fn probe(&self) -> Result<(), Box<dyn Error>> {
        let session = self.keeper.agent("coder").session();
        for name in SERVERS {
            // Only of ready servers: listing tools need not start one.
            if let Some(lease) = session.peek(name) {
                lease.probe(&request("tools/list", &json!({}))?).await?;
            }
        }
        session.close().settled().await;
        Ok(())
    }

    /// Makes a call and returns a lease that is kept until the end.
    async fn one_call(&self, session: &Scope, name: &str) -> Result<Lease, Box<dyn Error>> {
        session.call(name, &request("tools/call", &json!({ "name": "greet" }))?).await?;
        let lease = session.acquire(name).await?;
        tokio::spawn({
            let lease = lease.clone();
            async move {
                lease.left().await;
                std::future::pending::<()>().await;
            }
        });
        Ok(lease)
    }

    fn pids(&self) -> BTreeMap<String, i32> {
        let instances = self.keeper.snapshot().instances.into_iter();
        instances.filter_map(|view| Some((view.key.server.to_string(), view.pid()?))).collect()
    }
}

/// A configuration that differs in each generation, as if read from a changed file.
fn configuration(generation: u32) -> Result<Config, Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let server = |name: &str| {
        let spec = ServerSpec {
            name: name.to_owned(),
            program: program.clone().into(),
            args: vec!["serve".into()],
            env: vec![("GENERATION".into(), generation.to_string().into())],
            cwd: None,
        };
        let handshake: Arc<dyn Handshake> = Arc::new(Initialize);
        (name.to_owned(), Server { sharing: Sharing::Agent, handshake, ..Server::new(spec) })
    };
    Ok(Config { servers: SERVERS.map(server).into(), caps: Caps::default() })
}

/// The MCP handshake.
struct Initialize;

impl Handshake for Initialize {
    fn greet<'a>(&'a self, server: &'a Talk) -> Greeting<'a> {
        Box::pin(async {
            let client = json!({ "name": "agent_host", "version": "1" });
            let params = json!({
                "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client,
            });
            let initialize = request("initialize", &params).map_err(|error| error.to_string())?;
            let limit = Duration::from_secs(30);
            server.call(&initialize, limit).await.map_err(|error| error.to_string())?;
            let initialized = br#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            let initialized = Frame::parse(&initialized[..]).map_err(|error| error.to_string())?;
            server.notify(&initialized).map_err(|error| error.to_string())
        })
    }
}

fn request(method: &str, params: &Value) -> Result<Frame, Box<dyn Error>> {
    let text = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string();
    Ok(Frame::parse(text)?)
}

/// A server that answers every request.
#[expect(clippy::disallowed_methods, reason = "a server speaks on stdout")]
fn serve() -> Result<(), Box<dyn Error>> {
    let mut stdout = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Value = serde_json::from_str(&line?)?;
        if let Some(id) = request.get("id") {
            let answer = json!({ "jsonrpc": "2.0", "id": id, "result": { "tools": [] } });
            writeln!(stdout, "{answer}")?;
            stdout.flush()?;
        }
    }
    Ok(())
}
