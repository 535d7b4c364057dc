//! Third-party clients whose connections drop in the middle of a call.

use std::net::SocketAddr;
use std::sync::Arc;

use ostler_testkit::Launched;
use serde_json::{Value, json};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Notify;

use crate::scripts::SCRIPTED;
use crate::{Gateway, NPX, PLAY, Transport, rust};

/// A TCP relay between clients and a gateway. Drop closes it.
pub(crate) struct Cable {
    pub(crate) address: SocketAddr,
    cut: Arc<Notify>,
    _runtime: Runtime,
}

impl Cable {
    pub(crate) fn to(gateway: SocketAddr) -> Self {
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let cut = Arc::new(Notify::new());
        let each = Arc::clone(&cut);
        runtime.spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(connect(client, gateway, Arc::clone(&each)));
            }
        });
        Self { address, cut, _runtime: runtime }
    }

    /// Cuts all connections; later ones are let through.
    pub(crate) fn cut(&self) {
        self.cut.notify_waiters();
    }
}

async fn connect(mut client: TcpStream, gateway: SocketAddr, cut: Arc<Notify>) {
    let mut gateway = TcpStream::connect(gateway).await.unwrap();
    tokio::select! {
        () = cut.notified() => {}
        _ = copy_bidirectional(&mut client, &mut gateway) => {}
    }
}

#[test]
fn a_call_goes_on_when_its_client_is_cut_off() {
    let mut gateway = Gateway::open(Transport::StreamableHttp, &json!({}));
    let cable = gateway.behind_cable();
    let way = gateway.way(&NPX);
    let cut = || {
        cable.cut();
        // Everything that the client gets from now on arrives after the drop.
        gateway.test_gateway.expect_calls(1);
    };
    let expected = json!([1, 2, 3, 4, 5, 6, 7, 8]);
    for script in SCRIPTED {
        let mut client = Launched::start(&mut script.command(&way, "cut"));
        assert_eq!(client.message(PLAY), "begun");
        cut();
        let seen = client.message(PLAY);
        assert_eq!(seen["steps"], expected, "{seen}");
        assert!(is_complete(&seen["long"]), "{seen}");
        assert!(client.wait_exit(PLAY).success(), "{}", client.stderr());
    }
    let answer = rust::long_call(&way, cut);
    assert!(is_complete(&answer), "{answer}");
    gateway.down();
}

fn is_complete(answer: &Value) -> bool {
    answer.to_string().contains("operation completed")
}
