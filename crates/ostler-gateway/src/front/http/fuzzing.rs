//! What fuzz targets look at: a front without servers, and connections that need no network.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use ostler::{Owner, Places};
use tokio::io::{AsyncRead, AsyncWrite};

use super::connections::Connections;
use super::turns::answer_all;
use super::{Http, Limits, Pass, Settings};
use crate::house::House;
use crate::roster::Supply;

/// The token that lets everybody in.
const TOKEN: &str = "0123456789abcdef";

/// A front on HTTP.
#[derive(Debug)]
pub struct Front {
    http: Arc<Http>,
    connections: Arc<Connections>,
}

impl Front {
    /// One with so many sessions at most.
    pub fn new(sessions: usize) -> io::Result<Self> {
        let owner = Owner::new(Places::new(["/nowhere".into()]), "fuzzing")?;
        let house = House::new(owner, Supply::Fixed(BTreeMap::new()), None, None);
        // Whoever has sent much behind a request for a stream is missed only when it is told something.
        let keep_alive = Duration::from_millis(200);
        let limits = Limits { keep_alive, sessions, ..Limits::default() };
        let passes = vec![Pass::new("main", TOKEN.into())];
        let settings = Settings { passes, names: Vec::new(), identity: None, limits };
        let connections = Connections::new(limits.connections);
        Ok(Self { http: Http::new(settings, &house), connections })
    }

    /// Serves a connection, to its end.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Unpin) {
        if let Some(connection) = self.connections.open(0) {
            answer_all(stream, &connection, &self.http).await;
        }
    }
}
