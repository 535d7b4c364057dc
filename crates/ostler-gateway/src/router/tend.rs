//! Background work of the router: fetches lists that may have changed, carries out listings, and forgets instances
//! that have ended.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::What;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::Router;
use crate::catalog::LARGEST;
use crate::protocol::lists::{LIST_LIMIT, field_of, items};
use crate::protocol::message;
use crate::upstream::Upstream;

/// Delay before stale lists are fetched, so that changes in quick succession are fetched once.
const TOGETHER: Duration = Duration::from_millis(100);
/// Most pages of a list; a server with more is taken to have no end of them.
const MOST_PAGES: usize = 1000;

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
        let Some(list) = whole_list(upstream, method).await else { return };
        // Clients that have seen another list before get `list_changed`.
        for name in upstream.set_list(method, list, &self.upstreams().catalog) {
            self.tell_changed(method, |connected| connected.sees(&name));
        }
    }
}

fn is_end(what: &What) -> bool {
    matches!(what, What::Gone { .. } | What::Unverified { .. })
}

/// The whole list and its number of pages: one page as it came, several merged.
async fn whole_list(upstream: &Upstream, method: &str) -> Option<(Bytes, usize)> {
    let mut cursor: Option<Bytes> = None;
    let mut all: Vec<String> = Vec::new();
    let mut first = Bytes::new();
    let mut size = 0;
    for pages in 1..=MOST_PAGES {
        let page = page(upstream, method, cursor.as_ref()).await?;
        size += page.len();
        if size > LARGEST {
            // The catalog would not keep it either.
            return None;
        }
        all.extend(items(&page, field_of(method)).iter().map(|item| item.get().to_owned()));
        cursor = message::find(&page, 0..page.len(), &["nextCursor"])
            .filter(|edges| &page[edges.clone()] != b"null")
            .map(|edges| page.slice(edges));
        if pages == 1 {
            first = page;
        }
        if cursor.is_none() {
            let whole = format!(r#"{{"{}":[{}]}}"#, field_of(method), all.join(","));
            return Some((if pages == 1 { first } else { whole.into() }, pages));
        }
    }
    None
}

async fn page(upstream: &Upstream, method: &str, cursor: Option<&Bytes>) -> Option<Bytes> {
    let cursor = cursor.map(|cursor| String::from_utf8_lossy(cursor).into_owned());
    let params = cursor.map_or("{}".to_owned(), |cursor| format!(r#"{{"cursor":{cursor}}}"#));
    let request = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{params}}}"#);
    let request = Frame::parse(request).ok()?;
    let answer = upstream.talk().call(&request, LIST_LIMIT).await.ok()?;
    let page = answer.bytes().slice(answer.body_edges());
    // An error response has no items.
    message::find(&page, 0..page.len(), &[field_of(method)])?;
    Some(page)
}
