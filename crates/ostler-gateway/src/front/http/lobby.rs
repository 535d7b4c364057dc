//! All who are there, or may come back.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use rustix::rand::{GetRandomFlags, getrandom};
use tokio_util::task::TaskTracker;

use super::limits::Limits;
use super::pass::Pass;
use super::refusal::Refusal;
use super::stay::{Arrival, Stay};
use crate::gateway::lock;
use crate::house::House;

/// All stays.
#[derive(Debug, Default)]
pub(super) struct Lobby {
    stays: Mutex<HashMap<u128, Arc<Stay>>>,
    /// Each has one.
    tasks: TaskTracker,
}

impl Lobby {
    /// A stay for a client that has come in.
    pub(super) fn open(
        self: &Arc<Self>,
        arrival: Arrival,
        limits: Limits,
        house: &Arc<House>,
    ) -> Result<Arc<Stay>, Refusal> {
        let visitor = arrival.visitor.clone();
        let stay = Arc::new(Stay::new(draw().map_err(Refusal::NoId)?, arrival, limits));
        {
            let mut stays = lock(&self.stays);
            if stays.len() >= limits.sessions {
                let longest = stays.values().filter_map(|stay| Some((stay.away_since()?, stay.id)));
                let (_, longest) = longest.min().ok_or(Refusal::Full)?;
                if let Some(longest) = stays.remove(&longest) {
                    longest.end();
                }
            }
            stays.insert(stay.id, Arc::clone(&stay));
        }
        // It may have closed since somebody looked.
        if house.closed().is_cancelled() {
            stay.end();
        }
        let (lobby, house, own) = (Arc::clone(self), Arc::clone(house), Arc::clone(&stay));
        self.tasks.spawn(async move {
            own.live(visitor, &house).await;
            lobby.forget(&own);
        });
        Ok(stay)
    }

    /// The stay with this id, if it is one of this pass and of this server.
    pub(super) fn find(
        &self,
        id: &str,
        pass: &Arc<Pass>,
        server: Option<&str>,
    ) -> Option<Arc<Stay>> {
        let is_written_so = id.len() == 32 && !id.starts_with('+');
        let id = u128::from_str_radix(id, 16).ok().filter(|_| is_written_so)?;
        let is_its =
            |stay: &&Arc<Stay>| Arc::ptr_eq(&stay.pass, pass) && stay.server.as_deref() == server;
        lock(&self.stays).get(&id).filter(is_its).cloned()
    }

    /// Nobody finds it any more.
    pub(super) fn forget(&self, stay: &Stay) {
        lock(&self.stays).remove(&stay.id);
        stay.end();
    }

    /// Ends all, and waits until they have.
    pub(super) async fn close(&self) {
        lock(&self.stays).values().for_each(|stay| stay.end());
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Ends a stay when it is dropped.
#[derive(Debug)]
pub(super) struct Ending {
    pub(super) lobby: Arc<Lobby>,
    pub(super) stay: Arc<Stay>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.lobby.forget(&self.stay);
    }
}

/// As an id is written.
pub(super) fn written(id: u128) -> String {
    format!("{id:032x}")
}

fn draw() -> io::Result<u128> {
    let mut bytes = [0; 16];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(u128::from_be_bytes(bytes))
}
