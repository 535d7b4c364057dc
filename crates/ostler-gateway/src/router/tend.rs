//! Background work of the router: fetches lists that may have changed, carries out listings, and forgets instances
//! that have ended.

use std::sync::Arc;
use std::time::Duration;

use ostler::keeper::What;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::Router;
use super::lists::whole_list;
use crate::upstream::Upstream;

/// Delay before stale lists are fetched, so that changes in quick succession are fetched once.
const TOGETHER: Duration = Duration::from_millis(100);

impl Router {
    /// Keeps the catalog up to date. Returns when the keeper has ended.
    pub async fn tend(self: &Arc<Self>) {
        let mut events = self.keeper().events();
        let mut questions = JoinSet::new();
        loop {
            tokio::select! {
                stale = self.upstreams().stale_lists(TOGETHER) => {
                    for (number, method) in stale {
                        let Some(upstream) = self.upstreams().upstream(number) else { continue };
                        let router = Arc::clone(self);
                        questions.spawn(async move {
                            router.list_again(&upstream, method).await;
                            upstream.has_listed(method);
                            router.upstreams().catalog.announce();
                        });
                    }
                }
                begun = self.upstreams().listings.begun() => for listing in begun {
                    let router = Arc::clone(self);
                    questions.spawn(async move { router.upstreams().list_all(listing).await });
                },
                event = events.recv() => match event {
                    Ok(event) if is_end(&event.what) => self.upstreams().forget(event.number),
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return,
                },
                Some(_) = questions.join_next(), if !questions.is_empty() => {}
            }
        }
    }

    async fn list_again(&self, upstream: &Upstream, method: &'static str) {
        let Ok(list) = whole_list(upstream, method).await else { return };
        // Clients that have seen another list before get `list_changed`.
        for name in upstream.set_list(method, list, &self.upstreams().catalog) {
            self.tell_changed(method, |connected| connected.sees(&name));
        }
    }
}

fn is_end(what: &What) -> bool {
    matches!(what, What::Gone { .. } | What::Unverified { .. })
}
