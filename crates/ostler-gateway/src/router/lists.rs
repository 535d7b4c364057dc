//! Fetches a whole list from a server, page by page.

use bytes::Bytes;
use ostler::Frame;
use ostler::keeper::CallError;

use crate::catalog::LARGEST;
use crate::protocol::lists::{LIST_LIMIT, field_of, items};
use crate::protocol::message;
use crate::upstream::Upstream;

/// Most pages of a list; a server with more is taken to have no end of them.
const MOST_PAGES: usize = 1000;

/// Why a list can't be fetched.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("{0}")]
    Refused(String),
    #[error("its answer to {0} has no items")]
    NoItems(String),
    #[error("its list has more than {LARGEST} bytes")]
    Large,
    #[error("its list has more than {MOST_PAGES} pages")]
    Endless,
}

/// The whole list and its number of pages: one page as it came, several merged.
pub(crate) async fn whole_list(
    upstream: &Upstream,
    method: &str,
) -> Result<(Bytes, usize), ListError> {
    let mut cursor: Option<Bytes> = None;
    let mut all: Vec<String> = Vec::new();
    let mut first = Bytes::new();
    let mut size = 0;
    for pages in 1..=MOST_PAGES {
        let page = page(upstream, method, cursor.as_ref()).await?;
        size += page.len();
        if size > LARGEST {
            // The catalog would not keep it either.
            return Err(ListError::Large);
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
            return Ok((if pages == 1 { first } else { whole.into() }, pages));
        }
    }
    Err(ListError::Endless)
}

async fn page(
    upstream: &Upstream,
    method: &str,
    cursor: Option<&Bytes>,
) -> Result<Bytes, ListError> {
    let no_items = || ListError::NoItems(method.to_owned());
    let cursor = cursor.map(|cursor| String::from_utf8_lossy(cursor).into_owned());
    let params = cursor.map_or("{}".to_owned(), |cursor| format!(r#"{{"cursor":{cursor}}}"#));
    let request = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"{method}","params":{params}}}"#);
    // A cursor that makes the request invalid is no page.
    let request = Frame::parse(request).map_err(|_| no_items())?;
    let answer = upstream.talk().call(&request, LIST_LIMIT).await?;
    if let Some(error) = message::error_text(&answer) {
        return Err(ListError::Refused(error));
    }
    let page = answer.bytes().slice(answer.body_edges());
    message::find(&page, 0..page.len(), &[field_of(method)]).ok_or_else(no_items)?;
    Ok(page)
}
